//! Blocks of 256 weights: two rows at a time, block by block, four blocks a step.
//!
//! A kernel makes one vector of partial sums of a block of each row, a row in each half.
//! Those of four blocks are added up together, so that eight exact sums stand in one vector
//! and the f32 steps of dot-products.md are done for all at once: lane `4r + l` is lane `l`
//! of row `r`.

use crate::arch::intrinsics::*;

use hk_core::dot::RowQ256;

use super::super::vector::sum_halves;
use crate::arch::call::{Four256, Rows, steps_of_256};

/// A block of the activation, for kernels to load from.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// The codes.
    pub(super) q: &'a [i8; 256],
    /// The sums of each 16 codes.
    pub(super) sums: &'a [i16; 16],
}

/// What a kernel makes of one block of each of two rows.
pub(super) struct Products {
    /// In each half four integers whose sum is the S of the row's block.
    pub(super) sums: __m256i,
    /// In each half the row's scale: the f16 in word 0.
    pub(super) scales: __m256i,
}

/// As [`Products`], of blocks with minimums.
pub(super) struct ProductsLess {
    /// As above.
    pub(super) sums: __m256i,
    /// In each half the scale and the minimums' scale: f16 in words 0 and 1.
    pub(super) scales: __m256i,
    /// In each half four integers whose sum is the M of the row's block.
    pub(super) minimums: __m256i,
}

/// The products of rows of blocks without minimums, of which `block` makes what is said at
/// [`Products`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn products<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 2], Block<'_>) -> Products,
) {
    products_of(1.0, rows, activation, block);
}

/// As [`products`], of scales that are multiplied with `power`, a power of two.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn products_of<const BYTES: usize>(
    power: f32,
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 2], Block<'_>) -> Products,
) {
    rows.by(|rows: [&[u8]; 2]| {
        let mut lanes = _mm256_setzero_ps();
        steps_of_256(rows, &activation, |rows, activation| {
            let [a, b, c, d] = four(rows, &activation, &block);
            let sums = sum_halves([a.sums, b.sums, c.sums, d.sums]);
            let scales = first_of_halves([a.scales, b.scales, c.scales, d.scales]);
            let scale = _mm256_mul_ps(even_words(scales), _mm256_set1_ps(power));
            let scale = _mm256_mul_ps(scale, in_halves(activation.d));
            lanes = _mm256_add_ps(lanes, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)));
        });
        fold_halves(lanes)
    });
}

/// As [`products`], of blocks with minimums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn products_less<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 2], Block<'_>) -> ProductsLess,
) {
    rows.by(|rows: [&[u8]; 2]| {
        let mut lanes = _mm256_setzero_ps();
        steps_of_256(rows, &activation, |rows, activation| {
            let [a, b, c, d] = four(rows, &activation, &block);
            let sums = sum_halves([a.sums, b.sums, c.sums, d.sums]);
            let minimums = sum_halves([a.minimums, b.minimums, c.minimums, d.minimums]);
            let scales = first_of_halves([a.scales, b.scales, c.scales, d.scales]);
            let da = in_halves(activation.d);
            let scale = _mm256_mul_ps(even_words(scales), da);
            let minimum_scale = _mm256_mul_ps(even_words(_mm256_srli_epi32::<16>(scales)), da);
            let term = _mm256_sub_ps(
                _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums)),
                _mm256_mul_ps(minimum_scale, _mm256_cvtepi32_ps(minimums)),
            );
            lanes = _mm256_add_ps(lanes, term);
        });
        fold_halves(lanes)
    });
}

/// `block` for each of four blocks of two rows.
#[inline(always)]
fn four<const BYTES: usize, P>(
    [a, b]: [&[[u8; BYTES]; 4]; 2],
    activation: &Four256<'_>,
    block: impl Fn([&[u8; BYTES]; 2], Block<'_>) -> P,
) -> [P; 4] {
    let (q, sums) = (activation.q, activation.sums);
    [
        block([&a[0], &b[0]], Block { q: &q[0], sums: &sums[0] }),
        block([&a[1], &b[1]], Block { q: &q[1], sums: &sums[1] }),
        block([&a[2], &b[2]], Block { q: &q[2], sums: &sums[2] }),
        block([&a[3], &b[3]], Block { q: &q[3], sums: &sums[3] }),
    ]
}

/// Adds the partial sums of two rows up to four in each half, that of row `r` in half `r`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn rows_in_halves([a, b]: [__m256i; 2]) -> __m256i {
    _mm256_add_epi32(
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x31>(a, b),
    )
}

/// Lane `4h + v` is the first of half `h` of vector `v`.
#[inline]
#[target_feature(enable = "avx2")]
fn first_of_halves([a, b, c, d]: [__m256i; 4]) -> __m256i {
    _mm256_unpacklo_epi64(_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d))
}

/// The f16 in the lower half of each lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn even_words(lanes: __m256i) -> __m256 {
    let even = _mm256_set1_epi64x(0x0D0C_0908_0504_0100);
    let words = _mm256_shuffle_epi8(lanes, even);
    let (first, last) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
    _mm256_cvtph_ps(_mm_unpacklo_epi64(first, last))
}

/// The same four floats in each half.
#[inline]
#[target_feature(enable = "avx2")]
fn in_halves(floats: &[f32; 4]) -> __m256 {
    // SAFETY: the array has the size of the vector.
    let floats = unsafe { _mm_loadu_ps(floats.as_ptr()) };
    _mm256_set_m128(floats, floats)
}

/// The last step of two dot products (dot-products.md, "Sum"), the lanes of a row in each
/// half.
#[inline]
#[target_feature(enable = "avx2")]
fn fold_halves(lanes: __m256) -> [f32; 2] {
    let pairs = _mm256_add_ps(lanes, _mm256_permute_ps::<0b10_11_00_01>(lanes));
    let all = _mm256_add_ps(pairs, _mm256_permute_ps::<0b01_00_11_10>(pairs));
    [_mm256_cvtss_f32(all), _mm_cvtss_f32(_mm256_extractf128_ps::<1>(all))]
}
