//! Activation rows: f32, or quantized by blocks of 32 or 256 (dot-products.md,
//! "Activation").

use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// Which form of activation a weight type is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationForm {
    /// Plain f32: for f32, f16 and bf16 rows.
    F32,
    /// Blocks of 32: for the 32-weight types and nvfp4.
    Q32,
    /// Blocks of 256: for K-, I- and ternary super-blocks and iq4_xs.
    Q256,
}

/// One activation row in the form that a weight type needs.
#[derive(Clone, Copy, Debug)]
pub enum Activation<'a> {
    /// The row as it is.
    F32(&'a [f32]),
    /// Quantized by blocks of 32.
    Q32(RowQ32<'a>),
    /// Quantized by blocks of 256.
    Q256(RowQ256<'a>),
}

/// A row quantized by blocks of 32: all slices have one entry a block.
#[derive(Clone, Copy, Debug)]
pub struct RowQ32<'a> {
    q: &'a [[i8; 32]],
    d: &'a [f32],
    s: &'a [f32],
    sums: &'a [i32],
}

/// A row quantized by blocks of 256: all slices have one entry a block.
#[derive(Clone, Copy, Debug)]
pub struct RowQ256<'a> {
    q: &'a [[i8; 256]],
    d: &'a [f32],
    sums: &'a [[i16; 16]],
}

impl<'a> Activation<'a> {
    /// Quantizes `row` for weights of type `storage` (to be written).
    ///
    /// # Errors
    /// [`ErrorKind::NoDotProduct`].
    pub fn quantize(
        storage: StorageType,
        _row: &'a [f32],
        _scratch: &'a mut [u32],
    ) -> Result<Activation<'a>, Error> {
        Err(Error::call(ErrorKind::NoDotProduct(storage)))
    }
}
