//! Products with many activations: eight weight rows, a lane a row (see
//! [`tile`](crate::arch::tile)).

mod kernels;
mod level;
mod plain;
mod vnni;

use hk_core::StorageType;

use crate::arch::call::DotMatrix;
pub(super) use crate::arch::tile::many;

/// The kernel of a type of blocks. Codes of blocks of 256 weights are small enough that 16-bit
/// products add up before they are widened, which is faster than AVX-VNNI: 135 to 142 G
/// multiply-adds a second against 100, on a Zen 5 EPYC.
pub(super) fn kernel(storage: StorageType, vnni: bool) -> Option<DotMatrix> {
    let of_256 = storage.geometry().is_some_and(|geometry| geometry.weights == 256);
    if vnni && !of_256 { vnni::kernel(storage) } else { plain::kernel(storage) }
}
