//! The arguments of a call, and its way through the rows of a matrix.

use crate::dot::{Activation, check_matrix};
use crate::error::Error;
use crate::storage::StorageType;

/// Activations that a step of weights, unpacked once, is multiplied with.
pub(super) const TILE: usize = 16;

/// The arguments of a call, checked: weight rows, activations of the form and length for
/// them, and room for the product of each row with each activation.
#[derive(Debug)]
pub struct Matrix<'a> {
    rows: &'a [u8],
    /// Bytes of a row.
    row: usize,
    activations: &'a [Activation<'a>],
    out: &'a mut [f32],
}

impl<'a> Matrix<'a> {
    /// The arguments of [`Backend::dot_matrix`](crate::Backend::dot_matrix).
    ///
    /// # Errors
    /// As [`Backend::dot_matrix`](crate::Backend::dot_matrix), but for types left out of this
    /// build.
    pub fn new(
        storage: StorageType,
        rows: &'a [u8],
        activations: &'a [Activation<'a>],
        out: &'a mut [f32],
    ) -> Result<Self, Error> {
        let row = check_matrix(storage, rows, activations, out.len())?;
        Ok(Matrix { rows, row, activations, out })
    }

    /// The activation rows.
    pub fn activations(&self) -> &'a [Activation<'a>] {
        self.activations
    }

    /// The products of all rows: `R` at once by `several`, and the last ones by `one`.
    #[inline(always)]
    pub(super) fn by_rows<const R: usize>(
        self,
        several: impl Fn([&[u8]; R], &[Activation<'a>], [&mut [f32]; R]),
        one: impl Fn([&[u8]; 1], &[Activation<'a>], [&mut [f32]; 1]),
    ) {
        let Matrix { mut rows, row, activations, mut out } = self;
        if activations.is_empty() {
            return;
        }
        while let Some((now, to)) = next(&mut rows, row, &mut out, activations.len()) {
            several(now, activations, to);
        }
        while let Some((now, to)) = next(&mut rows, row, &mut out, activations.len()) {
            one(now, activations, to);
        }
    }
}

/// `R` rows, and their products.
type Taken<'a, const R: usize> = ([&'a [u8]; R], [&'a mut [f32]; R]);

/// The next `R` rows of `bytes` bytes and their `products` products each; `None`, and
/// nothing taken, where fewer are left.
#[inline(always)]
fn next<'a, const R: usize>(
    rows: &mut &'a [u8],
    bytes: usize,
    out: &mut &'a mut [f32],
    products: usize,
) -> Option<Taken<'a, R>> {
    if out.len() < R.checked_mul(products)? {
        return None;
    }
    let (mut now, mut to) = ([&[][..]; R], [(); R].map(|()| &mut [][..]));
    for (now, to) in now.iter_mut().zip(&mut to) {
        (*now, *rows) = rows.split_at_checked(bytes)?;
        (*to, *out) = core::mem::take(out).split_at_mut_checked(products)?;
    }
    Some((now, to))
}
