//! Blocks of 32 weights with f16 scales: q4_0, q4_1, q5_0, q5_1 and q8_0.

use core::arch::x86_64::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::step::{
    Activation, Codes, Ends, Words, four, products, scaled, sums, unsigned_sums, words_of_rows,
};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_0 => DotRows::Q32(q4_0),
        StorageType::Q4_1 => DotRows::Q32(q4_1),
        StorageType::Q5_0 => DotRows::Q32(q5_0),
        StorageType::Q5_1 => DotRows::Q32(q5_1),
        StorageType::Q8_0 => DotRows::Q32(q8_0),
        _ => return None,
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    static D: Words<72> = Words::for_rows(9, 0, 0);
    static CODES: Words<72> = Words::of_blocks(9, 1, 8);
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let codes = four(blocks, |blocks| Codes::nibbles(blocks.words(&CODES)));
        let (d, _) = floats(four(blocks, |blocks| blocks.first_words(&D)));
        scaled(d, &activation, sums::<3>(codes, &activation))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    static D_AND_M: Words<80> = Words::for_rows(10, 0, 1);
    static CODES: Words<80> = Words::of_blocks(10, 2, 8);
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let codes = four(blocks, |blocks| Codes::nibbles(blocks.words(&CODES)));
        let scales = floats(four(blocks, |blocks| blocks.first_words(&D_AND_M)));
        with_minimum(scales, &activation, unsigned_sums(codes, &activation))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    static D: Words<88> = Words::for_rows(11, 0, 0);
    static BITS: Words<88> = Words::of_blocks(11, 1, 2);
    static CODES: Words<88> = Words::of_blocks(11, 3, 8);
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let codes = four(blocks, |blocks| {
            fifth_bits(Codes::nibbles(blocks.words(&CODES)), blocks.words(&BITS))
        });
        let (d, _) = floats(four(blocks, |blocks| blocks.words(&D)));
        scaled(d, &activation, sums::<4>(codes, &activation))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    static D_AND_M: Words<96> = Words::for_rows(12, 0, 1);
    static BITS: Words<96> = Words::of_blocks(12, 2, 2);
    static CODES: Words<96> = Words::of_blocks(12, 4, 8);
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let codes = four(blocks, |blocks| {
            fifth_bits(Codes::nibbles(blocks.words(&CODES)), blocks.words(&BITS))
        });
        let scales = floats(four(blocks, |blocks| blocks.words(&D_AND_M)));
        with_minimum(scales, &activation, unsigned_sums(codes, &activation))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q8_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    // Four blocks are 136 bytes. All that is needed but the last codes is in the first 128
    // of them; the last halves of all blocks are in the last 128, which begin 4 words later.
    static D: Words<128> = Words::for_rows(17, 0, 0);
    static LOW: Words<128> = Words::of_blocks(17, 1, 8);
    static HIGH: Words<128> = Words::of_blocks(17, 9 - 4, 8);
    products(rows, activation, |blocks: [&[u8; 136]; 4], activation| {
        let first = four(blocks, |blocks| Ends::load(blocks.first_chunk().unwrap_or(&[0; 128])));
        let last = four(blocks, |blocks| Ends::load(blocks.last_chunk().unwrap_or(&[0; 128])));
        let codes = four([0, 1, 2, 3], |r| signed(first[r].words(&LOW), last[r].words(&HIGH)));
        let (d, _) = floats(four(first, |blocks| blocks.words(&D)));
        scaled(d, &activation, sums::<7>(codes, &activation))
    });
}

/// Signed codes, 128 more.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn signed(low: __m512i, high: __m512i) -> Codes {
    let sign = _mm512_set1_epi8(i8::MIN);
    Codes { low: _mm512_xor_si512(low, sign), high: _mm512_xor_si512(high, sign) }
}

/// `codes` with their bits of value 16: those of the 32 codes of a block are in the first 4
/// bytes of the block's quarter of `bits`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fifth_bits(codes: Codes, bits: __m512i) -> Codes {
    let bit = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let sixteen = _mm512_set1_epi8(16);
    let low = _mm512_set4_epi32(0x0101_0101, 0x0101_0101, 0, 0);
    let high = _mm512_set4_epi32(0x0303_0303, 0x0303_0303, 0x0202_0202, 0x0202_0202);
    let low = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, low), bit);
    let high = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, high), bit);
    Codes {
        low: _mm512_or_si512(codes.low, _mm512_maskz_mov_epi8(low, sixteen)),
        high: _mm512_or_si512(codes.high, _mm512_maskz_mov_epi8(high, sixteen)),
    }
}

/// The f16 in the lower half and in the upper half of four rows' words, each row's own.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn floats(rows: [__m512i; 4]) -> (__m512, __m512) {
    let words = words_of_rows(rows);
    (
        _mm512_cvtph_ps(_mm512_castsi512_si256(words)),
        _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(words)),
    )
}

/// The terms of blocks with a minimum: `(d * da) * f32(S) + m * s`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn with_minimum((d, m): (__m512, __m512), activation: &Activation, sums: __m512i) -> __m512 {
    _mm512_add_ps(scaled(d, activation, sums), _mm512_mul_ps(m, activation.s))
}
