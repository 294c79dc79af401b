//! K-quants: what a sub-block's codes stand for is computed once where there are few of them,
//! and codes pick their own, 16 at a time.

mod by_16;
mod by_32;
pub(super) mod unpack;

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{load_floats, store};
use crate::arch::call::Decode;

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    by_32::decode(storage).or_else(|| by_16::decode(storage))
}

/// The whole numbers from 0 to 15.
#[inline]
#[target_feature(enable = "avx512f")]
fn ascending() -> __m512 {
    static NUMBERS: [f32; 16] =
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
    load_floats(&NUMBERS)
}

/// Lanes in memory, in one cache line: what crosses from one into the next is not passed on
/// to loads before it has left the core.
#[repr(align(64))]
struct Lanes([f32; 16]);

/// Lanes in memory: to load one into all lanes of a vector, as part of another instruction,
/// takes less than to shuffle it there, and the compiler, if it knew, would shuffle.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_memory(lanes: __m512, memory: &mut Lanes) -> &[f32; 16] {
    store(lanes, &mut memory.0);
    &core::hint::black_box(memory).0
}

/// The bytes of quarter `Q`, a lane each.
#[inline]
#[target_feature(enable = "avx512f")]
fn widened<const Q: i32>(bytes: __m512i) -> __m512i {
    _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<Q>(bytes))
}
