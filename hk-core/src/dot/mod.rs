//! Dot products, defined to the last bit (dot-products.md): activation rows, the product
//! of one block, and the order of sums.

mod activation;

pub use activation::{Activation, ActivationForm, RowQ32, RowQ256};

use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// `out[r] = rows[r] . activation`: see [`Backend::dot_rows`](crate::Backend::dot_rows).
pub(crate) fn dot_rows(
    storage: StorageType,
    _rows: &[u8],
    _activation: Activation<'_>,
    _out: &mut [f32],
) -> Result<(), Error> {
    Err(Error::call(ErrorKind::NoDotProduct(storage)))
}

/// `out[r * n + a] = rows[r] . activations[a]`: see
/// [`Backend::dot_matrix`](crate::Backend::dot_matrix).
pub(crate) fn dot_matrix(
    storage: StorageType,
    _rows: &[u8],
    _activations: &[Activation<'_>],
    _out: &mut [f32],
) -> Result<(), Error> {
    Err(Error::call(ErrorKind::NoDotProduct(storage)))
}
