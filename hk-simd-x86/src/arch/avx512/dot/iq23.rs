//! iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s (see [`iq23`](super::super::iq23)): four rows of a block.
//!
//! Signs go to the activation's codes, so that magnitudes are the unsigned factors. Those of
//! one group stand in one lane of all vectors, and so their products are summed up before the
//! group's scale comes in.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::iq23::{
    Eights, IQ2, IQ3_S, IQ3_XXS, nibbles_s, nibbles_xxs, odd, pair_s, pair_xs, pair_xxs, unpack_s,
    unpack_xxs,
};
use super::super::vector::{load_at, load_codes, load_quarters_at};
use super::by_256::{Block, Products, products_of, rows_in_quarters};
use crate::arch::avx2;
use crate::arch::call::{DotRows, Rows};

/// The kernel of a type: without VBMI, VBMI2, BITALG and GFNI that of the level below.
pub(super) fn rows(storage: StorageType, extended: bool) -> Option<DotRows> {
    if !extended {
        return avx2::dot::iq23::rows(storage);
    }
    Some(DotRows::Q256(match storage {
        StorageType::IQ2_XXS => iq2_xxs,
        StorageType::IQ2_XS => iq2_xs,
        StorageType::IQ2_S => iq2_s,
        StorageType::IQ3_XXS => iq3_xxs,
        StorageType::IQ3_S => iq3_s,
        _ => return None,
    }))
}

/// The activation's codes as [`Eights`] has the weights.
#[inline]
#[target_feature(enable = "avx512f")]
fn eights(q: &[i8; 256]) -> [__m512i; 4] {
    let (quarters, _) = q.as_chunks::<64>();
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| load_codes(&quarters[i]));
    // Four groups: the first and second eights of each, then the third and fourth.
    let first = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0);
    let last = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);
    let ab = [first, last].map(|order| _mm512_permutex2var_epi64(a, order, b));
    let cd = [first, last].map(|order| _mm512_permutex2var_epi64(c, order, d));
    [
        _mm512_shuffle_i64x2::<0b01_00_01_00>(ab[0], cd[0]),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(ab[0], cd[0]),
        _mm512_shuffle_i64x2::<0b01_00_01_00>(ab[1], cd[1]),
        _mm512_shuffle_i64x2::<0b11_10_11_10>(ab[1], cd[1]),
    ]
}

/// What codes stand for, whatever the bits above them.
const fn in_bytes<const N: usize>(magnitudes: [u8; N]) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = magnitudes[i % N];
        i += 1;
    }
    bytes
}

/// Sums of weights `8K` to `8K + 7` of each group times the activation's codes, added to `sums`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512vbmi,avx512bitalg")]
fn add<const K: usize>(
    sums: __m512i,
    weights: &Eights,
    q: &[__m512i; 4],
    magnitudes: &[u8; 64],
) -> __m512i {
    let bits =
        const { i64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]) + 0x0808_0808_0808_0808 * K as i64 };
    let signs = _mm512_bitshuffle_epi64_mask(weights.signs, _mm512_set1_epi64(bits));
    let q = _mm512_mask_sub_epi8(q[K], signs, _mm512_setzero_si512(), q[K]);
    let weights = _mm512_permutexvar_epi8(weights.codes[K], load_at::<0, 64>(magnitudes));
    _mm512_dpbusd_epi32(sums, weights, q)
}

/// Sixteen integers whose sum is the S of a block. `doubled` has twice the scale of each group
/// in the low bits of its 64-bit lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512vbmi,avx512bitalg")]
fn by_32(weights: &Eights, q: &[__m512i; 4], magnitudes: &[u8; 64], doubled: __m512i) -> __m512i {
    let sums = add::<0>(_mm512_setzero_si512(), weights, q, magnitudes);
    let sums = add::<1>(sums, weights, q, magnitudes);
    let sums = add::<2>(sums, weights, q, magnitudes);
    let sums = add::<3>(sums, weights, q, magnitudes);
    _mm512_mullo_epi32(sums, _mm512_shuffle_epi32::<0b10_10_00_00>(odd(doubled)))
}

/// As [`by_32`], of `scales` for each half of a group, one a nibble.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512vbmi,avx512bitalg")]
fn by_16(weights: &Eights, q: &[__m512i; 4], magnitudes: &[u8; 64], scales: [u8; 8]) -> __m512i {
    let scales = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(scales)));
    let scales = _mm512_shuffle_epi32::<0b10_10_00_00>(scales);
    let first = add::<0>(_mm512_setzero_si512(), weights, q, magnitudes);
    let first = add::<1>(first, weights, q, magnitudes);
    let second = add::<2>(_mm512_setzero_si512(), weights, q, magnitudes);
    let second = add::<3>(second, weights, q, magnitudes);
    _mm512_add_epi32(
        _mm512_mullo_epi32(first, odd(_mm512_slli_epi32::<1>(scales))),
        _mm512_mullo_epi32(second, odd(_mm512_srli_epi32::<3>(scales))),
    )
}

/// The rows of a block together: their sums, and the scales, with which all of them begin.
#[inline]
#[target_feature(enable = "avx512f")]
fn together<const N: usize>(blocks: [&[u8; N]; 4], sums: [__m512i; 4]) -> Products {
    Products { sums: rows_in_quarters(sums), scales: load_quarters_at::<0, N>(blocks) }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx512bitalg,gfni"
)]
fn iq2_xxs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 66]; 4], activation: Block<'_>| {
        let q = eights(activation.q);
        let row =
            |block, weights| by_32(&weights, &q, const { &in_bytes(IQ2) }, nibbles_xxs(block));
        let [a, b] = pair_xxs([blocks[0], blocks[1]]);
        let (a, b) = (row(blocks[0], a), row(blocks[1], b));
        let [c, d] = pair_xxs([blocks[2], blocks[3]]);
        let (c, d) = (row(blocks[2], c), row(blocks[3], d));
        together(blocks, [a, b, c, d])
    });
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx512bitalg,gfni"
)]
fn iq2_xs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 74]; 4], activation: Block<'_>| {
        let q = eights(activation.q);
        let row = |block: &[u8; 74], weights| {
            let scales = *block.last_chunk().unwrap_or(&[0; 8]);
            by_16(&weights, &q, const { &in_bytes(IQ2) }, scales)
        };
        let [a, b] = pair_xs([blocks[0], blocks[1]]);
        let (a, b) = (row(blocks[0], a), row(blocks[1], b));
        let [c, d] = pair_xs([blocks[2], blocks[3]]);
        let (c, d) = (row(blocks[2], c), row(blocks[3], d));
        together(blocks, [a, b, c, d])
    });
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx512bitalg,gfni"
)]
fn iq2_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 82]; 4], activation: Block<'_>| {
        let q = eights(activation.q);
        let row = |block: &[u8; 82], weights| {
            let scales = *block.last_chunk().unwrap_or(&[0; 8]);
            by_16(&weights, &q, const { &in_bytes(IQ2) }, scales)
        };
        let [a, b] = pair_s([blocks[0], blocks[1]]);
        let (a, b) = (row(blocks[0], a), row(blocks[1], b));
        let [c, d] = pair_s([blocks[2], blocks[3]]);
        let (c, d) = (row(blocks[2], c), row(blocks[3], d));
        together(blocks, [a, b, c, d])
    });
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx512bitalg,gfni"
)]
fn iq3_xxs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.25, rows, activation, |blocks: [&[u8; 98]; 4], activation: Block<'_>| {
        let q = eights(activation.q);
        let row = |block| {
            let (weights, doubled) = unpack_xxs(block);
            by_32(&weights, &q, const { &in_bytes(IQ3_XXS) }, doubled)
        };
        let [a, b, c, d] = blocks;
        together(blocks, [row(a), row(b), row(c), row(d)])
    });
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx512bitalg,gfni"
)]
fn iq3_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(1.0, rows, activation, |blocks: [&[u8; 110]; 4], activation: Block<'_>| {
        let q = eights(activation.q);
        let row = |block| by_32(&unpack_s(block), &q, const { &in_bytes(IQ3_S) }, nibbles_s(block));
        let [a, b, c, d] = blocks;
        together(blocks, [row(a), row(b), row(c), row(d)])
    });
}
