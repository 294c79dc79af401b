//! K-quants.
//!
//! Codes are multiplied with the activation's codes to 16-bit sums of two, and these with
//! their sub-block's scale, spread over the 16-bit words of the sub-block.

mod by_16;
mod by_32;

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use crate::arch::avx2::vector::{load, load_codes};
use crate::arch::call::DotRows;

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    by_32::rows(storage).or_else(|| by_16::rows(storage))
}

/// Half `ROW` of `halves` in both.
#[inline]
#[target_feature(enable = "avx2")]
fn half<const ROW: usize>(halves: __m256i) -> __m256i {
    match ROW {
        0 => _mm256_permute4x64_epi64::<0b01_00_01_00>(halves),
        _ => _mm256_permute4x64_epi64::<0b11_10_11_10>(halves),
    }
}

/// The sum of the products of a block's codes with the activation's, by pairs, times their
/// scales, which `by` spreads: of the first scales over the first four parts, of the last over
/// the last four.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(
    codes: [__m256i; 8],
    q: &[i8; 256],
    [first, last]: [__m256i; 2],
    by: &[[u8; 32]; 8],
) -> __m256i {
    let a = part::<0>(codes[0], q, first, by);
    let b = part::<1>(codes[1], q, first, by);
    let c = part::<2>(codes[2], q, first, by);
    let d = part::<3>(codes[3], q, first, by);
    let e = part::<4>(codes[4], q, last, by);
    let f = part::<5>(codes[5], q, last, by);
    let g = part::<6>(codes[6], q, last, by);
    let h = part::<7>(codes[7], q, last, by);
    let first = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
    let last = _mm256_add_epi32(_mm256_add_epi32(e, f), _mm256_add_epi32(g, h));
    _mm256_add_epi32(first, last)
}

/// Part `I` of [`scaled`]: 32 codes.
#[inline]
#[target_feature(enable = "avx2")]
fn part<const I: usize>(
    codes: __m256i,
    q: &[i8; 256],
    scales: __m256i,
    by: &[[u8; 32]; 8],
) -> __m256i {
    let (q, _) = q.as_chunks::<32>();
    let products = _mm256_maddubs_epi16(codes, load_codes(&q[I]));
    _mm256_madd_epi16(products, _mm256_shuffle_epi8(scales, load(&by[I])))
}

/// What spreads bytes over a vector: for each part of a block the bytes to go to the lower
/// (`AT` 0) or the upper half (`AT` 1) of each 16-bit word of its two halves.
const fn spreading<const AT: usize>(bytes: [[u8; 2]; 8]) -> [[u8; 32]; 8] {
    // The other half becomes 0.
    let mut spreading = [[0x80; 32]; 8];
    let mut i = 0;
    while i < 8 * 16 {
        spreading[i / 16][i % 16 * 2 + AT] = bytes[i / 16][i % 16 / 8];
        i += 1;
    }
    spreading
}
