//! Products with many activations: eight weight rows, a lane a row (see
//! [`tile`](crate::arch::tile)).

mod kernels;
mod level;
mod plain;
mod vnni;

use hk_core::StorageType;

use crate::arch::call::DotMatrix;
pub(super) use crate::arch::tile::many;

/// The kernel of a type of blocks. Where codes are small, 16-bit products of them add up before
/// they are widened, which is faster than AVX-VNNI in blocks of 256 weights: 116 to 139 G
/// multiply-adds a second against 95 to 100, on a Zen 5 EPYC. Codes of all 8 bits are
/// multiplied twice without it: 50 to 56 against 74 to 98.
pub(super) fn kernel(storage: StorageType, vnni: bool) -> Option<DotMatrix> {
    let is_plain = matches!(
        storage,
        StorageType::Q2_K
            | StorageType::Q3_K
            | StorageType::Q4_K
            | StorageType::Q5_K
            | StorageType::Q6_K
            | StorageType::TQ1_0
            | StorageType::TQ2_0
    );
    if vnni && !is_plain { vnni::kernel(storage) } else { plain::kernel(storage) }
}
