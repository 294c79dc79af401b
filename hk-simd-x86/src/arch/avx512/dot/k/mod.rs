//! K-quants.
//!
//! Codes are multiplied with the activation's codes to 16-bit sums of two, and these with
//! their sub-block's scale, spread over the 16-bit words of the sub-block.

mod by_16;
mod by_32;

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use crate::arch::avx512::vector::load_codes;
use crate::arch::call::DotRows;

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    by_32::rows(storage).or_else(|| by_16::rows(storage))
}

/// The codes of an activation block, as they stand.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn in_order(q: &[i8; 256]) -> [__m512i; 4] {
    let (q, _) = q.as_chunks::<64>();
    [load_codes(&q[0]), load_codes(&q[1]), load_codes(&q[2]), load_codes(&q[3])]
}

/// The lower halves of two vectors, and the upper ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_of(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_shuffle_i64x2::<0b01_00_01_00>(a, b), _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b)]
}

/// Quarter `ROW` of `quarters` in all four.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn quarter<const ROW: usize>(quarters: __m512i) -> __m512i {
    match ROW {
        0 => _mm512_shuffle_i32x4::<0x00>(quarters, quarters),
        1 => _mm512_shuffle_i32x4::<0x55>(quarters, quarters),
        2 => _mm512_shuffle_i32x4::<0xAA>(quarters, quarters),
        _ => _mm512_shuffle_i32x4::<0xFF>(quarters, quarters),
    }
}

/// Adds to `sums` the products of four vectors of codes with the activation's, by pairs, times
/// their scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_scaled(
    sums: __m512i,
    codes: [__m512i; 4],
    activation: [__m512i; 4],
    scales: [__m512i; 4],
) -> __m512i {
    let [first, second, third, fourth] =
        [0, 1, 2, 3].map(|i| _mm512_maddubs_epi16(codes[i], activation[i]));
    // Two sums, since each addition to the same one waits for the last.
    let sums = add_products(add_products(sums, first, scales[0]), second, scales[1]);
    let others = add_products(_mm512_madd_epi16(third, scales[2]), fourth, scales[3]);
    _mm512_add_epi32(sums, others)
}

/// Adds to `sums` the sums of two products each of 16-bit integers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn add_products(sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // No sum comes near the end of its range. Without the saturation that therefore never
    // happens the compiler makes two instructions of this one.
    _mm512_dpwssds_epi32(sums, a, b)
}

/// What spreads bytes over a vector: `bytes[l]` of the bytes of a quarter to the lower
/// (`AT` 0) or the upper half (`AT` 1) of each 16-bit word of quarter `l`.
const fn spread<const AT: usize>(bytes: [u8; 4]) -> [u8; 64] {
    // The other half becomes 0.
    let mut spread = [0x80; 64];
    let mut i = AT;
    while i < 64 {
        spread[i] = bytes[i / 16];
        i += 2;
    }
    spread
}
