//! Blocks of 32 weights: four rows by four blocks a step.
//!
//! A vector holds the codes of four blocks of a row, a block in each quarter, and is
//! multiplied with the activation's codes of the same blocks. Sixteen exact sums of four rows
//! stand in one vector then, and the f32 steps of dot-products.md are done for all at once:
//! lane `4l + r` is lane `l` of row `r`.

use core::arch::x86_64::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::super::vector::{fold_rows, load, load_codes, sum_quarters};
use crate::arch::call::{DotRows, Four32, Rows, steps_of_32};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_0 => DotRows::Q32(q4_0),
        _ => return None,
    })
}

/// Four activation blocks.
struct Activation {
    /// The first 16 codes of each block.
    low: __m512i,
    /// The last 16 codes of each block.
    high: __m512i,
    /// Four times the scale of each.
    d: __m512,
    /// Four times the sum of the codes of each.
    sums: __m512i,
}

impl Activation {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(blocks: &Four32<'_>) -> Self {
        let (halves, _) = blocks.q.as_flattened().as_chunks::<64>();
        let (a, b) = (load_codes(&halves[0]), load_codes(&halves[1]));
        let lane_of = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
        // SAFETY: the array has the size of the vector.
        let d = unsafe { _mm_loadu_ps(blocks.d.as_ptr()) };
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm_loadu_si128(blocks.sums.as_ptr().cast()) };
        Activation {
            low: _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b),
            high: _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b),
            d: _mm512_permutexvar_ps(lane_of, _mm512_castps128_ps512(d)),
            sums: _mm512_permutexvar_epi32(lane_of, _mm512_castsi128_si512(sums)),
        }
    }
}

/// Four blocks of a row apart: the bytes of codes, a block in each quarter, and the scales,
/// that of block `b` in word `4b + ROW`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn split_q4_0<const ROW: usize>(blocks: &[u8; 72]) -> (__m512i, __m512i) {
    let first = load(blocks.first_chunk().unwrap_or(&[0; 64]));
    let last = load(blocks.last_chunk().unwrap_or(&[0; 64]));
    // 16-bit words: those of the first 64 bytes are 0 to 31; those of the last, which begin
    // 4 words later, 32 to 63.
    static CODES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            let word = i / 8 * 9 + 1 + i % 8;
            words[i] = if word < 32 { word } else { word - 4 + 32 } as u16;
            i += 1;
        }
        words
    };
    static SCALES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 16 {
            words[i] = (i / 4 * 9) as u16;
            i += 1;
        }
        words
    };
    // SAFETY: arrays of 64 bytes.
    let codes = unsafe { _mm512_loadu_si512((&raw const CODES).cast()) };
    // SAFETY: as above.
    let scales = unsafe { _mm512_loadu_si512((&raw const SCALES).cast()) };
    (
        _mm512_permutex2var_epi16(first, codes, last),
        _mm512_maskz_permutexvar_epi16(0x1111 << ROW, scales, first),
    )
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_32(rows, &activation, |blocks, activation| {
            lanes = step_q4_0(lanes, blocks, &Activation::load(&activation));
        });
        fold_rows(lanes)
    });
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products_q4_0<const ROW: usize>(
    blocks: &[u8; 72],
    activation: &Activation,
) -> (__m512i, __m512i) {
    let nibble = _mm512_set1_epi8(15);
    let (codes, d) = split_q4_0::<ROW>(blocks);
    let low = _mm512_and_si512(codes, nibble);
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
    let sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, activation.low);
    (_mm512_dpbusd_epi32(sum, high, activation.high), d)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn step_q4_0(lanes: __m512, blocks: [&[u8; 72]; 4], activation: &Activation) -> __m512 {
    let (products0, d0) = products_q4_0::<0>(blocks[0], activation);
    let (products1, d1) = products_q4_0::<1>(blocks[1], activation);
    let (products2, d2) = products_q4_0::<2>(blocks[2], activation);
    let (products3, d3) = products_q4_0::<3>(blocks[3], activation);
    let sums = sum_quarters([products0, products1, products2, products3]);
    let sums = _mm512_sub_epi32(sums, _mm512_slli_epi32::<3>(activation.sums));
    let d = _mm512_or_si512(_mm512_or_si512(d0, d1), _mm512_or_si512(d2, d3));
    let d = _mm512_cvtph_ps(_mm512_castsi512_si256(d));
    let d = _mm512_mul_ps(d, activation.d);
    _mm512_add_ps(lanes, _mm512_mul_ps(d, _mm512_cvtepi32_ps(sums)))
}
