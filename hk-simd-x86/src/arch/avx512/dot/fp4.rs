//! Blocks whose 4-bit codes stand for values of a table: iq4_nl, mxfp4 and nvfp4.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::super::vector::{fold_rows, load, load_codes, load_words};
use super::step::{
    Codes, Ends, Words, first_words_of_rows, four_times, low_floats, products, scaled, sums,
};
use crate::arch::call::{DotRows, Four32, Rows, Steps32, four, steps_of_32};

pub(super) fn rows(storage: StorageType, extended: bool) -> Option<DotRows> {
    Some(DotRows::Q32(match (storage, extended) {
        (StorageType::IQ4_NL, false) => iq4_nl,
        (StorageType::IQ4_NL, true) => iq4_nl_extended,
        (StorageType::MXFP4, false) => mxfp4,
        (StorageType::MXFP4, true) => mxfp4_extended,
        (StorageType::NVFP4, false) => nvfp4,
        (StorageType::NVFP4, true) => nvfp4_extended,
        _ => return None,
    }))
}

/// The values of iq4_nl, 128 more.
static IQ4_NL: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// Twice the values of E2M1, 16 more.
static E2M1: [u8; 16] = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

/// A table, four times.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn table(values: &[u8; 16]) -> __m512i {
    // SAFETY: the array has the size of the vector.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(values.as_ptr().cast()) })
}

/// The values of the two codes of each byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn look_up(table: __m512i, bytes: __m512i) -> Codes {
    let Codes { low, high } = Codes::nibbles(bytes);
    Codes { low: _mm512_shuffle_epi8(table, low), high: _mm512_shuffle_epi8(table, high) }
}

/// As [`look_up`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
fn look_up_by_vbmi(table: __m512i, bytes: __m512i) -> Codes {
    // Of an index six bits count, of which two choose among equal tables.
    let high = _mm512_srli_epi16::<4>(bytes);
    Codes { low: _mm512_permutexvar_epi8(bytes, table), high: _mm512_permutexvar_epi8(high, table) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_nl(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&IQ4_NL);
    products_of_iq4_nl(rows, activation, |bytes| look_up(table, bytes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
fn iq4_nl_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&IQ4_NL);
    products_of_iq4_nl(rows, activation, |bytes| look_up_by_vbmi(table, bytes));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products_of_iq4_nl(rows: Rows<'_>, activation: RowQ32<'_>, look_up: impl Fn(__m512i) -> Codes) {
    static CODES: Words<72> = Words::of_blocks(9, 1, 8);
    static D: Words<72> = Words::for_pairs(9, 0, 0);
    products(rows, activation, |blocks, activation| {
        let blocks = four(blocks, |blocks| Ends::load(blocks));
        let codes = four(blocks, |blocks| look_up(blocks.words(&CODES)));
        let d = low_floats(first_words_of_rows(blocks, &D));
        scaled(d, &activation, sums::<7>(codes, &activation))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn mxfp4(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&E2M1);
    products_of_mxfp4(rows, activation, |bytes| look_up(table, bytes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
fn mxfp4_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&E2M1);
    products_of_mxfp4(rows, activation, |bytes| look_up_by_vbmi(table, bytes));
}

/// Four blocks of 17 bytes of four rows a step.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products_of_mxfp4(rows: Rows<'_>, activation: RowQ32<'_>, look_up: impl Fn(__m512i) -> Codes) {
    // The codes of blocks 0 and 2 begin at odd bytes and are whole words of the 64 bytes from
    // byte 1 on, those of blocks 1 and 3 of the last 64 bytes.
    static CODES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 8 {
            words[i] = i as u16;
            words[8 + i] = (32 + (18 - 4) / 2 + i) as u16;
            words[16 + i] = ((35 - 1) / 2 + i) as u16;
            words[24 + i] = (32 + (52 - 4) / 2 + i) as u16;
            i += 1;
        }
        words
    };
    // Words with the scales of two rows, from the first 64 bytes of each; those of odd blocks
    // in the upper byte.
    static SCALES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 16 {
            words[2 * i] = (i / 4 * 17 / 2 + i % 2 * 32) as u16;
            i += 1;
        }
        words
    };
    let (codes, scales) = (load_words(&CODES), load_words(&SCALES));
    products(rows, activation, |blocks: [&[u8; 68]; 4], activation| {
        let [row0, row1, row2, row3] = four(blocks, |blocks| Ends::load(blocks));
        let rows01 = Ends::first_words_of_two([row0, row1], scales);
        let rows23 = Ends::first_words_of_two([row2, row3], scales);
        let scales = powers_of_two(_mm512_mask_blend_epi32(0xCCCC, rows01, rows23));
        let codes = four(blocks, |blocks| {
            let from_1 = load(blocks[1..].first_chunk().unwrap_or(&[0; 64]));
            let last = load(blocks.last_chunk().unwrap_or(&[0; 64]));
            look_up(_mm512_permutex2var_epi16(from_1, codes, last))
        });
        scaled(scales, &activation, sums::<4>(codes, &activation))
    });
}

/// The scales 2^(e-128), e being the lower byte of lanes of even quarters, and the next byte
/// of odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn powers_of_two(words: __m512i) -> __m512 {
    let shift = _mm512_set_epi32(8, 8, 8, 8, 0, 0, 0, 0, 8, 8, 8, 8, 0, 0, 0, 0);
    let e = _mm512_and_si512(_mm512_srlv_epi32(words, shift), _mm512_set1_epi32(0xFF));
    let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
    let subnormal = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    let least = _mm512_set1_epi32(0x0020_0000);
    _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, subnormal, least, e))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn nvfp4(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&E2M1);
    products_of_nvfp4(rows, activation, |bytes| look_up(table, bytes));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
fn nvfp4_extended(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&E2M1);
    products_of_nvfp4(rows, activation, |bytes| look_up_by_vbmi(table, bytes));
}

/// Two blocks of 64 weights of four rows a step: of each row, eight groups of 16 weights, each
/// with a sum and a scale of its own. Two rows share a vector: in quarter `q`, the groups `2q`
/// and `2q + 1` of the one and then of the other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products_of_nvfp4(rows: Rows<'_>, activation: RowQ32<'_>, look_up: impl Fn(__m512i) -> Codes) {
    static CODES: Words<72> = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            words[i] = i / 16 * 18 + 2 + i % 16;
            i += 1;
        }
        Words::new(words)
    };
    // Lane `4l + r` of the result is lane `l` of row `r`.
    let order = _mm512_set_epi32(15, 13, 7, 5, 14, 12, 6, 4, 11, 9, 3, 1, 10, 8, 2, 0);
    let activation = Steps32::new(activation);
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_32(rows, &activation, |blocks: [&[u8; 72]; 4], activation, count| {
            let groups = Groups::load(&activation);
            let blocks = four(blocks, |blocks| Ends::load(blocks));
            let sums = four(blocks, |blocks| groups.sums(look_up(blocks.words(&CODES))));
            let rows01 = groups.terms([blocks[0], blocks[1]], [sums[0], sums[1]]);
            let rows23 = groups.terms([blocks[2], blocks[3]], [sums[2], sums[3]]);
            // The one block after the other.
            let first = _mm512_shuffle_f32x4::<0b01_00_01_00>(rows01, rows23);
            let second = _mm512_shuffle_f32x4::<0b11_10_11_10>(rows01, rows23);
            lanes = _mm512_add_ps(lanes, first);
            if count > 2 {
                lanes = _mm512_add_ps(lanes, second);
            }
        });
        fold_rows(_mm512_permutexvar_ps(order, lanes))
    });
}

/// Eight groups of 16 activations.
struct Groups {
    /// The first 8 codes of each group.
    low: __m512i,
    /// The last 8 codes of each group.
    high: __m512i,
    /// What takes [`E2M1`]'s offset off: two parts for each group.
    start: __m512i,
    /// The scale of both groups of each quarter, four times.
    d: __m512,
}

impl Groups {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(blocks: &Four32<'_>) -> Self {
        let (halves, _) = blocks.q.as_flattened().as_chunks::<64>();
        let (a, b) = (load_codes(&halves[0]), load_codes(&halves[1]));
        let even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
        let odd = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
        let low = _mm512_permutex2var_epi64(a, even, b);
        let high = _mm512_permutex2var_epi64(a, odd, b);
        let (zero, offset) = (_mm512_setzero_si512(), _mm512_set1_epi8(16));
        let sums = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, offset, low), offset, high);
        Groups { low, high, start: _mm512_sub_epi32(zero, sums), d: four_times(blocks.d) }
    }

    /// Two parts of the sum of each group.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn sums(&self, codes: Codes) -> __m512i {
        let sums = _mm512_dpbusd_epi32(self.start, codes.low, self.low);
        _mm512_dpbusd_epi32(sums, codes.high, self.high)
    }

    /// The terms of two rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn terms(&self, blocks: [Ends<72>; 2], sums: [__m512i; 2]) -> __m512 {
        // The word with the scale of the lane's group: the lower byte in even lanes, the
        // upper one in odd lanes.
        static SCALES: [u16; 32] = {
            let mut words = [0; 32];
            let mut i = 0;
            while i < 16 {
                let (quarter, row) = (i / 4, i % 4 / 2);
                words[2 * i] = (quarter / 2 * 18 + quarter % 2 + row * 32) as u16;
                i += 1;
            }
            words
        };
        let words = Ends::first_words_of_two(blocks, load_words(&SCALES));
        let d = _mm512_mul_ps(halved_e4m3(words), self.d);
        let [a, b] = sums.map(|sums| _mm512_castsi512_ps(sums));
        let even = _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(a, b));
        let odd = _mm512_castps_si512(_mm512_shuffle_ps::<0b11_01_11_01>(a, b));
        _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(even, odd)))
    }
}

/// Half of the unsigned E4M3 in the first byte of even lanes and in the second of odd ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn halved_e4m3(words: __m512i) -> __m512 {
    let to_top = _mm512_set1_epi64(16 << 32 | 24);
    let top = _mm512_sllv_epi32(words, to_top);
    // All ones below the sign means 0; with a sign it is a number, as Portable has it.
    let nan = _mm512_and_si512(top, _mm512_set1_epi32(0xFF00_0000_u32 as i32));
    let number = _mm512_cmpneq_epi32_mask(nan, _mm512_set1_epi32(0x7F00_0000));
    let magnitude = _mm512_and_si512(top, _mm512_set1_epi32(0x7F00_0000));
    let magnitude = _mm512_maskz_srli_epi32::<4>(number, magnitude);
    // Exponent and mantissa are in the places of an f32, whose bias is 120 more. Subnormals
    // are the fraction of 2^-7: as subnormals of f32 they would take this CPU long.
    let subnormal = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(1 << 23));
    let half = _mm512_add_epi32(magnitude, _mm512_set1_epi32(119 << 23));
    let half = _mm512_mask_add_epi32(half, subnormal, half, _mm512_set1_epi32(1 << 23));
    let half = _mm512_castsi512_ps(half);
    _mm512_mask_sub_ps(half, subnormal, half, _mm512_set1_ps(1.0 / 128.0))
}
