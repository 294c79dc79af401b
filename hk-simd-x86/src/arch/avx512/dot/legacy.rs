//! Blocks of 32 weights with f16 scales: q4_0, q4_1, q5_0, q5_1 and q8_0.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::step::{
    Bytes, Codes, Ends, Words, first_words_of_rows, low_floats, nibbles_by_gfni, products, scaled,
    sums, unsigned_sums, words_of_rows,
};
use crate::arch::call::{DotRows, Rows, four};

pub(super) fn rows(storage: StorageType, extended: bool) -> Option<DotRows> {
    Some(DotRows::Q32(match (storage, extended) {
        (StorageType::Q4_0, false) => q4_0,
        (StorageType::Q4_0, true) => q4_0_extended,
        (StorageType::Q4_1, false) => q4_1,
        (StorageType::Q4_1, true) => q4_1_extended,
        (StorageType::Q5_0, false) => q5_0,
        (StorageType::Q5_0, true) => q5_0_extended,
        (StorageType::Q5_1, false) => q5_1,
        (StorageType::Q5_1, true) => q5_1_extended,
        (StorageType::Q8_0, _) => q8_0,
        _ => return None,
    }))
}

/// Where four blocks of a type keep what.
struct Layout<const BYTES: usize> {
    codes: Words<BYTES>,
    /// d of each row, and behind it m, where the type has it.
    scales: Words<BYTES>,
}

static Q4_0: Layout<72> =
    Layout { codes: Words::of_blocks(9, 1, 8), scales: Words::for_pairs(9, 0, 0) };
static Q4_1: Layout<80> =
    Layout { codes: Words::of_blocks(10, 2, 8), scales: Words::for_pairs(10, 0, 1) };
static Q5_0: Layout<88> =
    Layout { codes: Words::of_blocks(11, 3, 8), scales: Words::for_rows(11, 0, 0) };
static Q5_1: Layout<96> =
    Layout { codes: Words::of_blocks(12, 4, 8), scales: Words::for_rows(12, 0, 1) };

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    let scales = |blocks| first_words_of_rows(blocks, &Q4_0.scales);
    let codes = |blocks: Ends<72>| Codes::nibbles(blocks.words(&Q4_0.codes));
    with_offset::<72, 3>(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn q4_0_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    let scales = |blocks| first_words_of_rows(blocks, &Q4_0.scales);
    let codes = |blocks: Ends<72>| nibbles_by_gfni(blocks.words(&Q4_0.codes));
    with_offset::<72, 3>(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    let scales = |blocks| first_words_of_rows(blocks, &Q4_1.scales);
    let codes = |blocks: Ends<80>| Codes::nibbles(blocks.words(&Q4_1.codes));
    with_minimum(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn q4_1_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    let scales = |blocks| first_words_of_rows(blocks, &Q4_1.scales);
    let codes = |blocks: Ends<80>| nibbles_by_gfni(blocks.words(&Q4_1.codes));
    with_minimum(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    static BITS: Words<88> = Words::of_blocks(11, 1, 2);
    let scales = |blocks| words_of_rows(blocks, &Q5_0.scales);
    let codes = |blocks: Ends<88>| {
        fifth_bits(Codes::nibbles(blocks.words(&Q5_0.codes)), blocks.words(&BITS))
    };
    with_offset::<88, 4>(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn q5_0_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    static WHERE: Bytes<88> = bits_of_blocks(22, 2);
    let scales = |blocks| words_of_rows(blocks, &Q5_0.scales);
    let codes =
        |blocks: Ends<88>| codes_of_5_bits(blocks.words(&Q5_0.codes), blocks.bytes(BITS, &WHERE));
    with_offset::<88, 4>(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_1(rows: Rows<'_>, activation: RowQ32<'_>) {
    static BITS: Words<96> = Words::of_blocks(12, 2, 2);
    let scales = |blocks| words_of_rows(blocks, &Q5_1.scales);
    let codes = |blocks: Ends<96>| {
        fifth_bits(Codes::nibbles(blocks.words(&Q5_1.codes)), blocks.words(&BITS))
    };
    with_minimum(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi,gfni")]
fn q5_1_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    static WHERE: Bytes<96> = bits_of_blocks(24, 4);
    let scales = |blocks| words_of_rows(blocks, &Q5_1.scales);
    let codes =
        |blocks: Ends<96>| codes_of_5_bits(blocks.words(&Q5_1.codes), blocks.bytes(BITS, &WHERE));
    with_minimum(rows, activation, scales, codes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q8_0(rows: Rows<'_>, activation: RowQ32<'_>) {
    // Four blocks are 136 bytes. All that is needed but the last codes is in the first 128
    // of them; the last halves of all blocks are in the last 128, which begin 4 words later.
    static D: Words<128> = Words::for_rows(17, 0, 0);
    static LOW: Words<128> = Words::of_blocks(17, 1, 8);
    static HIGH: Words<128> = Words::of_blocks(17, 9 - 4, 8);
    let sign = _mm512_set1_epi8(i8::MIN);
    products(rows, activation, |blocks: [&[u8; 136]; 4], activation| {
        let ends = four(blocks, |blocks| {
            let first = blocks.first_chunk().unwrap_or(&[0; 128]);
            let last = blocks.last_chunk().unwrap_or(&[0; 128]);
            (Ends::load(first), Ends::load(last))
        });
        let codes = four(ends, |(first, last)| Codes {
            low: _mm512_xor_si512(first.words(&LOW), sign),
            high: _mm512_xor_si512(last.words(&HIGH), sign),
        });
        let d = low_floats(words_of_rows(four(ends, |(first, _)| first), &D));
        scaled(d, &activation, sums::<7>(codes, &activation))
    });
}

/// The products of rows whose weights are `d` times `2^OFFSET` less than their codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn with_offset<const BYTES: usize, const OFFSET: u32>(
    rows: Rows<'_>,
    activation: RowQ32<'_>,
    scales: impl Fn([Ends<BYTES>; 4]) -> __m512i,
    codes: impl Fn(Ends<BYTES>) -> Codes,
) {
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let d = low_floats(scales(blocks));
        scaled(d, &activation, sums::<OFFSET>(four(blocks, &codes), &activation))
    });
}

/// The products of rows whose weights are `d` times their code, and `m`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn with_minimum<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ32<'_>,
    scales: impl Fn([Ends<BYTES>; 4]) -> __m512i,
    codes: impl Fn(Ends<BYTES>) -> Codes,
) {
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let scales = scales(blocks);
        let m = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(scales));
        let sums = unsigned_sums(four(blocks, &codes), &activation);
        let minimum = _mm512_mul_ps(m, activation.s);
        _mm512_add_ps(scaled(low_floats(scales), &activation, sums), minimum)
    });
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

/// For [`codes_of_5_bits`], where four blocks of `block` bytes keep the fifth bits, from byte
/// `at` on: byte 3 of each 8 bytes is to have those of the 8 low codes that stand there, byte
/// 7 those of the high codes.
const fn bits_of_blocks<const BYTES: usize>(block: usize, at: usize) -> Bytes<BYTES> {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 8 {
        bytes[8 * i + 3] = i / 2 * block + at + i % 2;
        bytes[8 * i + 7] = bytes[8 * i + 3] + 2;
        i += 1;
    }
    Bytes::new(bytes)
}

/// Bytes 3 and 7 of each 8.
const BITS: u64 = 0x8888_8888_8888_8888;

/// The two codes of each byte, with their fifth bits from [`bits_of_blocks`], the rest zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,gfni")]
fn codes_of_5_bits(bytes: __m512i, bits: __m512i) -> Codes {
    // A matrix whose rows are bytes of `bits`, times a vector that has one bit, is a column:
    // byte `i` of 8 becomes bit `i` of byte 3 as bit 4, and of byte 7 as bit 0.
    let column = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let bits = _mm512_gf2p8affine_epi64_epi8::<0>(column, bits);
    let nibble = _mm512_set1_epi8(15);
    // The low code below its bit; the high code above its bit, and then the nibbles changed
    // over.
    let low = _mm512_ternarylogic_epi32::<0b1100_1010>(nibble, bytes, bits);
    let high = _mm512_ternarylogic_epi32::<0b1100_1010>(nibble, bits, bytes);
    let change_over = _mm512_set1_epi64(0x1020_4080_0102_0408);
    Codes { low, high: _mm512_gf2p8affine_epi64_epi8::<0>(high, change_over) }
}
