//! Products with many activations: eight weight rows, a lane a row (see
//! [`tile`](crate::arch::tile)).

mod kernels;
mod level;
mod plain;
mod vnni;

use hk_core::StorageType;

use crate::arch::call::DotMatrix;
pub(super) use crate::arch::tile::many;

/// The kernel of a type of blocks.
pub(super) fn kernel(storage: StorageType, vnni: bool) -> Option<DotMatrix> {
    if vnni { vnni::kernel(storage) } else { plain::kernel(storage) }
}
