//! Blocks of 256 weights: four rows at a time, block by block, four blocks a step.
//!
//! A kernel makes one vector of partial sums of a block of each row, a row in each quarter.
//! Those of four blocks are added up together, so that sixteen exact sums stand in one vector
//! and the f32 steps of dot-products.md are done for all at once: lane `4r + l` is lane `l`
//! of row `r`.

use crate::arch::intrinsics::*;

use hk_core::dot::RowQ256;

use super::super::vector::sum_quarters;
use crate::arch::call::{Four256, Rows, steps_of_256};

/// A block of the activation, for kernels to load from.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    /// The codes.
    pub(super) q: &'a [i8; 256],
    /// The sums of each 16 codes.
    pub(super) sums: &'a [i16; 16],
}

/// What a kernel makes of one block of each of four rows.
#[derive(Clone, Copy)]
pub(super) struct Products {
    /// In each quarter four integers whose sum is the S of the row's block.
    pub(super) sums: __m512i,
    /// In each quarter the row's scale: the f16 in word 0.
    pub(super) scales: __m512i,
}

impl Products {
    /// Of nothing.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn none() -> Self {
        Products { sums: _mm512_setzero_si512(), scales: _mm512_setzero_si512() }
    }
}

/// As [`Products`], of blocks with minimums.
pub(super) struct ProductsLess {
    /// As above.
    pub(super) sums: __m512i,
    /// In each quarter the scale and the minimums' scale: f16 in words 0 and 1.
    pub(super) scales: __m512i,
    /// In each quarter four integers whose sum is the M of the row's block.
    pub(super) minimums: __m512i,
}

/// The products of rows of blocks without minimums, of which `block` makes what is said at
/// [`Products`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 4], Block<'_>) -> Products,
) {
    products_of(1.0, rows, activation, block);
}

/// As [`products`], of scales that are multiplied with `power`, a power of two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products_of<const BYTES: usize>(
    power: f32,
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 4], Block<'_>) -> Products,
) {
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_256(rows, &activation, |rows, activation| {
            let products = four(rows, &activation, &block);
            lanes = _mm512_add_ps(lanes, terms(power, products, activation.d));
        });
        fold_quarters(lanes)
    });
}

/// The terms of four blocks, by the activation's scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn terms(power: f32, [a, b, c, d]: [Products; 4], activation: &[f32; 4]) -> __m512 {
    let sums = sum_quarters([a.sums, b.sums, c.sums, d.sums]);
    let scales = first_of_quarters([a.scales, b.scales, c.scales, d.scales]);
    let scale = _mm512_mul_ps(halves(scales), _mm512_set1_ps(power));
    let scale = _mm512_mul_ps(scale, in_quarters(activation));
    _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums))
}

/// As [`products`], of blocks with minimums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products_less<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    block: impl Fn([&[u8; BYTES]; 4], Block<'_>) -> ProductsLess,
) {
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_256(rows, &activation, |rows, activation| {
            let [a, b, c, d] = four(rows, &activation, &block);
            let sums = sum_quarters([a.sums, b.sums, c.sums, d.sums]);
            let minimums = sum_quarters([a.minimums, b.minimums, c.minimums, d.minimums]);
            let scales = first_of_quarters([a.scales, b.scales, c.scales, d.scales]);
            let da = in_quarters(activation.d);
            let scale = _mm512_mul_ps(halves(scales), da);
            let minimum_scale = _mm512_mul_ps(halves(_mm512_srli_epi32::<16>(scales)), da);
            let term = _mm512_sub_ps(
                _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums)),
                _mm512_mul_ps(minimum_scale, _mm512_cvtepi32_ps(minimums)),
            );
            lanes = _mm512_add_ps(lanes, term);
        });
        fold_quarters(lanes)
    });
}

/// `block` for each of four blocks of four rows.
#[inline(always)]
fn four<const BYTES: usize, P>(
    [a, b, c, d]: [&[[u8; BYTES]; 4]; 4],
    activation: &Four256<'_>,
    block: impl Fn([&[u8; BYTES]; 4], Block<'_>) -> P,
) -> [P; 4] {
    let (q, sums) = (activation.q, activation.sums);
    [
        block([&a[0], &b[0], &c[0], &d[0]], Block { q: &q[0], sums: &sums[0] }),
        block([&a[1], &b[1], &c[1], &d[1]], Block { q: &q[1], sums: &sums[1] }),
        block([&a[2], &b[2], &c[2], &d[2]], Block { q: &q[2], sums: &sums[2] }),
        block([&a[3], &b[3], &c[3], &d[3]], Block { q: &q[3], sums: &sums[3] }),
    ]
}

/// Adds the partial sums of four rows up to four in each quarter, that of row `r` in
/// quarter `r`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn rows_in_quarters([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let ab = _mm512_add_epi32(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b),
    );
    let cd = _mm512_add_epi32(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(c, d),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(c, d),
    );
    _mm512_add_epi32(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
    )
}

/// Lane `4q + v` is the first of quarter `q` of vector `v`.
#[inline]
#[target_feature(enable = "avx512f")]
fn first_of_quarters([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d))
}

/// The f16 in the lower half of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(lanes: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(lanes))
}

/// The same four floats in each quarter.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_quarters(floats: &[f32; 4]) -> __m512 {
    // SAFETY: the array has the size of the vector.
    _mm512_broadcast_f32x4(unsafe { _mm_loadu_ps(floats.as_ptr()) })
}

/// The last step of four dot products (dot-products.md, "Sum"), the lanes of a row in each
/// quarter.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn fold_quarters(lanes: __m512) -> [f32; 4] {
    let pairs = _mm512_add_ps(lanes, _mm512_permute_ps::<0b10_11_00_01>(lanes));
    let all = _mm512_add_ps(pairs, _mm512_permute_ps::<0b01_00_11_10>(pairs));
    let firsts = _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all));
    let mut sums = [0.0; 4];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), firsts) };
    sums
}
