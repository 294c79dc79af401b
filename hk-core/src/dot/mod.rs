//! Dot products, defined to the last bit (dot-products.md): activation rows, the product
//! of one block, and the order of sums.
//!
//! [`Backend::dot_rows`](crate::Backend::dot_rows) and its kin are how products are asked
//! for. What stands here is for those who write a backend: an [`Activation`]'s parts and how
//! to [make](PartsQ32) them, the [`oracle`] that every kernel's bits are compared with,
//! [`check`] for the arguments of a call, the last steps of the sums, and the [`portable`]
//! kernels, which can be compiled anew for an instruction set.

mod activation;
pub mod oracle;
mod order;
pub mod portable;
mod quantize;

pub use activation::{
    Activation, ActivationForm, BlockQ32, BlockQ256, PartsQ32, PartsQ256, RowQ32, RowQ256,
};
pub use order::{dot_f32, fold4, fold16};

use crate::blocks::too_short;
use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// Checks the arguments of a dot product of `count` weight rows of type `storage`, stored
/// one after another in `rows`, with `activation`: what every backend does before it trusts
/// a length. Returns the bytes of one weight row, 0 where it has no weights.
///
/// # Errors
/// As [`Backend::dot_rows`](crate::Backend::dot_rows), but for types left out of this build.
///
/// ```
/// use hk_core::{Activation, StorageType, dot};
/// let (row, rows) = ([0.0; 8], [0; 50]);
/// assert_eq!(dot::check(StorageType::F16, &rows, &Activation::F32(&row), 3), Ok(16));
/// assert!(dot::check(StorageType::F16, &rows, &Activation::F32(&row), 4).is_err());
/// ```
pub fn check(
    storage: StorageType,
    rows: &[u8],
    activation: &Activation<'_>,
    count: usize,
) -> Result<usize, Error> {
    let (form, geometry) = activation::check_len(storage, activation.len())?;
    if activation.form() != form {
        return Err(Error::call(ErrorKind::ActivationForm(storage)));
    }
    let blocks = geometry.blocks(activation.len() as u64);
    let row = blocks.saturating_mul(u64::from(geometry.bytes));
    let needed = row.saturating_mul(count as u64);
    if (rows.len() as u64) < needed {
        return Err(too_short(needed, rows));
    }
    usize::try_from(row).map_err(|_| Error::call(ErrorKind::AddressSpace(row)))
}

/// Checks the arguments of [`Backend::dot_matrix`](crate::Backend::dot_matrix), whose `out`
/// takes `products`. Returns the bytes of one weight row, 0 where it has no weights or where
/// there are no activations.
///
/// # Errors
/// As [`Backend::dot_matrix`](crate::Backend::dot_matrix), but for types left out of this
/// build.
pub fn check_matrix(
    storage: StorageType,
    rows: &[u8],
    activations: &[Activation<'_>],
    products: usize,
) -> Result<usize, Error> {
    activation::check_len(storage, 0)?;
    let count = products.checked_div(activations.len()).unwrap_or(0);
    let (expected, given) = ((count * activations.len()) as u64, products as u64);
    if expected != given {
        return Err(Error::call(ErrorKind::OutputLength { expected, given }));
    }
    let (mut row, mut len) = (0, None);
    for activation in activations {
        row = check(storage, rows, activation, count)?;
        let (activation, weights) = (activation.len(), *len.get_or_insert(activation.len()));
        if activation != weights {
            let (activation, weights) = (activation as u64, weights as u64);
            return Err(Error::call(ErrorKind::Activation { activation, weights }));
        }
    }
    Ok(row)
}
