//! What kernels of blocks of 32 weights share: four rows by two blocks a step.
//!
//! A vector holds the codes of two blocks of a row, a block in each half, and is multiplied
//! with the activation's codes of the same blocks. Eight exact sums of four rows stand in one
//! vector then, and the f32 steps of dot-products.md are done for all at once: lane `4l + r`
//! is lane `l` (or `l + 2`, for the other two of four blocks) of row `r`.

use crate::arch::intrinsics::*;

use hk_core::dot::RowQ32;

use super::super::vector::{load_half, load_halves, sum_halves};
use crate::arch::call::{Four32, Rows, Steps32, four, steps_of_32};

/// Two activation blocks.
pub(super) struct Activation {
    /// The first 16 codes of each block.
    pub(super) low: __m256i,
    /// The last 16 codes of each block.
    pub(super) high: __m256i,
    /// Four times the scale of each.
    pub(super) d: __m256,
    /// Four times scale times sum of each.
    pub(super) s: __m256,
    /// Four times the sum of the codes of each.
    pub(super) sums: __m256i,
}

impl Activation {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn load(half: Half<'_>) -> Self {
        let Half(Four32 { q, d, s, sums }, number) = half;
        let (codes, _) = q.as_flattened().as_chunks::<16>();
        let (codes, _) = codes.as_chunks::<4>();
        let [low0, high0, low1, high1] = &codes[number];
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm_loadu_ps(sums.as_ptr().cast()) };
        Activation {
            low: load_signed_halves(low0, low1),
            high: load_signed_halves(high0, high1),
            d: four_times(d, number),
            s: four_times(s, number),
            sums: _mm256_castps_si256(four_times_each(sums, number)),
        }
    }
}

/// Twice 16 integers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn load_signed_halves(low: &[i8; 16], high: &[i8; 16]) -> __m256i {
    load_halves(&low.map(i8::cast_unsigned), &high.map(i8::cast_unsigned))
}

/// The first two of four floats, or with 1 the last two, each four times.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn four_times(floats: &[f32; 4], half: usize) -> __m256 {
    // SAFETY: the array has the size of the vector.
    four_times_each(unsafe { _mm_loadu_ps(floats.as_ptr()) }, half)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn four_times_each(lanes: __m128, half: usize) -> __m256 {
    let first = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
    let lane_of = _mm256_add_epi32(first, _mm256_set1_epi32(2 * half as i32));
    _mm256_permutevar8x32_ps(_mm256_castps128_ps256(lanes), lane_of)
}

/// The first two of four activation blocks, or with 1 the last two.
#[derive(Clone, Copy)]
pub(super) struct Half<'a>(pub(super) &'a Four32<'a>, pub(super) usize);

/// Two blocks of each of four rows.
pub(super) type Blocks<'a, const BLOCK: usize> = [[&'a [u8; BLOCK]; 2]; 4];

/// The products of all rows: `add` adds the terms of two blocks of `BLOCK` bytes a row to
/// their lanes, and `fold` does the last step. `BYTES` is four times `BLOCK`.
///
/// It has no features of its own, so that it is compiled into kernels of any.
#[inline(always)]
pub(super) fn products<const BLOCK: usize, const BYTES: usize, L: Copy>(
    rows: Rows<'_>,
    activation: RowQ32<'_>,
    zero: L,
    add: impl Fn(L, Blocks<'_, BLOCK>, Half<'_>) -> L,
    fold: impl Fn([L; 2]) -> [f32; 4],
) {
    const { assert!(BYTES == 4 * BLOCK) };
    // In place of a block that does not count: its terms are 0 and leave the lanes as they
    // were (which begin at +0 and so are never -0).
    let nothing = &[0; BLOCK];
    let activation = Steps32::new(activation);
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = [zero; 2];
        steps_of_32(rows, &activation, |blocks: [&[u8; BYTES]; 4], activation, count| {
            let blocks = four(blocks, |blocks| blocks.as_chunks::<BLOCK>().0);
            let pairs = |first: usize| {
                let both = first + 1 < count;
                four(blocks, |row| [&row[first], if both { &row[first + 1] } else { nothing }])
            };
            lanes[0] = add(lanes[0], pairs(0), Half(&activation, 0));
            if count > 2 {
                lanes[1] = add(lanes[1], pairs(2), Half(&activation, 1));
            }
        });
        fold(lanes)
    });
}

/// The f16 that blocks begin with, and those that follow, each row's own: lane `4b + r` is
/// that of block `b` of row `r`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn scales<const BLOCK: usize>(blocks: Blocks<'_, BLOCK>) -> [__m256; 2] {
    let of_block = |b: usize| {
        let [row0, row1, row2, row3] = four(blocks, |row| start(row[b]));
        let (rows01, rows23) = (_mm_unpacklo_epi16(row0, row1), _mm_unpacklo_epi16(row2, row3));
        _mm_unpacklo_epi32(rows01, rows23)
    };
    let (first, second) = (of_block(0), of_block(1));
    [
        _mm256_cvtph_ps(_mm_unpacklo_epi64(first, second)),
        _mm256_cvtph_ps(_mm_unpackhi_epi64(first, second)),
    ]
}

/// As [`scales`], from the first 16 bytes of both blocks of each row.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn scales_of_starts([row0, row1, row2, row3]: [__m256i; 4]) -> [__m256; 2] {
    let rows01 = _mm256_unpacklo_epi16(row0, row1);
    let rows23 = _mm256_unpacklo_epi16(row2, row3);
    let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpacklo_epi32(rows01, rows23));
    [
        _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
        _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
    ]
}

/// The first 16 bytes of a block.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn start<const BLOCK: usize>(block: &[u8; BLOCK]) -> __m128i {
    load_half(block.first_chunk().unwrap_or(&[0; 16]))
}

/// The codes of two blocks of a row.
#[derive(Clone, Copy)]
pub(super) struct Codes {
    /// The first 16 of each block.
    pub(super) low: __m256i,
    /// The last 16 of each block.
    pub(super) high: __m256i,
}

impl Codes {
    /// The two codes of each byte.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn nibbles(bytes: __m256i) -> Self {
        let nibble = _mm256_set1_epi8(15);
        Codes {
            low: _mm256_and_si256(bytes, nibble),
            high: _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble),
        }
    }
}

/// Four parts of the sum of codes times activation of each block, of codes below 64.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn product(codes: Codes, activation: &Activation) -> __m256i {
    let low = _mm256_maddubs_epi16(codes.low, activation.low);
    let high = _mm256_maddubs_epi16(codes.high, activation.high);
    _mm256_madd_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(1))
}

/// As [`product`], of any unsigned codes.
#[inline]
#[target_feature(enable = "avx2,f16c,avxvnni")]
pub(super) fn product_by_vnni(codes: Codes, activation: &Activation) -> __m256i {
    let low = _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), codes.low, activation.low);
    _mm256_dpbusd_avx_epi32(low, codes.high, activation.high)
}

/// The terms of blocks without a minimum, `(d * da) * f32(S)`, from four parts of each sum,
/// where weights are `2^OFFSET` less than their codes.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn with_offset<const OFFSET: i32>(
    d: __m256,
    parts: [__m256i; 4],
    activation: &Activation,
) -> __m256 {
    let sums = _mm256_sub_epi32(sum_halves(parts), _mm256_slli_epi32::<OFFSET>(activation.sums));
    scaled(d, sums, activation)
}

/// The terms of blocks without a minimum: `(d * da) * f32(S)`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn scaled(d: __m256, sums: __m256i, activation: &Activation) -> __m256 {
    _mm256_mul_ps(_mm256_mul_ps(d, activation.d), _mm256_cvtepi32_ps(sums))
}
