//! Blocks whose 4-bit codes stand for values of a table: iq4_nl, mxfp4 and nvfp4.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ32;

use super::super::vector::{fold_rows, load_at, load_half, load_halves_at, store, sum_halves};
use super::step::{
    Activation, Blocks, Codes, Half, product, products, scaled, scales, start, with_offset,
};
use crate::arch::call::{DotRows, Rows, Steps32, four, steps_of_32};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(DotRows::Q32(match storage {
        StorageType::IQ4_NL => iq4_nl,
        StorageType::MXFP4 => mxfp4,
        StorageType::NVFP4 => nvfp4,
        _ => return None,
    }))
}

/// The values of iq4_nl, as bytes of two's complement.
static IQ4_NL: [u8; 16] = [129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of E2M1, 16 more.
static E2M1: [u8; 16] = [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

/// A table, twice.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn table(values: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(load_half(values))
}

/// The values of the two codes of each byte.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn look_up(table: __m256i, bytes: __m256i) -> Codes {
    let Codes { low, high } = Codes::nibbles(bytes);
    Codes { low: _mm256_shuffle_epi8(table, low), high: _mm256_shuffle_epi8(table, high) }
}

#[target_feature(enable = "avx2,f16c")]
fn iq4_nl(rows: Rows<'_>, activation: RowQ32<'_>) {
    let (table, zero, ones) = (table(&IQ4_NL), _mm256_setzero_ps(), _mm256_set1_epi16(1));
    // The values take the sign of the activation, which then has none: a pair of products is
    // at most 2 * 127 * 127.
    let product = |values: __m256i, activation: __m256i| {
        let signed = _mm256_sign_epi8(values, activation);
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(activation), signed), ones)
    };
    let add = |lanes, blocks: Blocks<'_, 18>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts = four(blocks, |row| {
            let Codes { low, high } = look_up(table, load_halves_at::<2, _>(row));
            _mm256_add_epi32(product(low, activation.low), product(high, activation.high))
        });
        let [d, _] = scales(blocks);
        _mm256_add_ps(lanes, scaled(d, sum_halves(parts), &activation))
    };
    products::<18, 72, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

#[target_feature(enable = "avx2,f16c")]
fn mxfp4(rows: Rows<'_>, activation: RowQ32<'_>) {
    let (table, zero) = (table(&E2M1), _mm256_setzero_ps());
    let add = |lanes, blocks: Blocks<'_, 17>, activation: Half<'_>| {
        let activation = Activation::load(activation);
        let parts =
            four(blocks, |row| product(look_up(table, load_halves_at::<1, _>(row)), &activation));
        let d = powers_of_two(blocks);
        _mm256_add_ps(lanes, with_offset::<4>(d, parts, &activation))
    };
    products::<17, 68, _>(rows, activation, zero, add, |lanes| fold_rows(lanes));
}

/// The scales 2^(e-128), e being the first byte of each block: lane `4b + r` is that of block
/// `b` of row `r`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn powers_of_two(blocks: Blocks<'_, 17>) -> __m256 {
    let of_block = |b: usize| {
        let [row0, row1, row2, row3] = four(blocks, |row| start(row[b]));
        let (rows01, rows23) = (_mm_unpacklo_epi8(row0, row1), _mm_unpacklo_epi8(row2, row3));
        _mm_unpacklo_epi16(rows01, rows23)
    };
    let e = _mm256_cvtepu8_epi32(_mm_unpacklo_epi32(of_block(0), of_block(1)));
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
    let is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal))
}

#[target_feature(enable = "avx2,f16c")]
fn nvfp4(rows: Rows<'_>, activation: RowQ32<'_>) {
    let table = table(&E2M1);
    let activation = Steps32::new(activation);
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = [_mm256_setzero_ps(); 2];
        steps_of_32(rows, &activation, |blocks: [&[u8; 72]; 4], activation, count| {
            let blocks = four(blocks, |blocks| blocks.as_chunks::<36>().0);
            let first = four(blocks, |blocks| &blocks[0]);
            let [a, b] = terms_of_groups(table, first, Half(&activation, 0));
            lanes = [_mm256_add_ps(lanes[0], a), _mm256_add_ps(lanes[1], b)];
            if count > 2 {
                let second = four(blocks, |blocks| &blocks[1]);
                let [a, b] = terms_of_groups(table, second, Half(&activation, 1));
                lanes = [_mm256_add_ps(lanes[0], a), _mm256_add_ps(lanes[1], b)];
            }
        });
        fold_groups(lanes)
    });
}

/// The terms of a block of 64 weights of each of four rows: of each row, four groups of 16
/// weights, each with a sum and a scale of its own. Two rows share a vector: in half `h`, the
/// groups `2h` and `2h + 1` of the one and then of the other.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn terms_of_groups(table: __m256i, blocks: [&[u8; 36]; 4], half: Half<'_>) -> [__m256; 2] {
    let mut activation = Activation::load(half);
    // The first and the last 8 codes of each group, instead of each half block.
    let (low, high) = (activation.low, activation.high);
    activation.low = _mm256_unpacklo_epi64(low, high);
    activation.high = _mm256_unpackhi_epi64(low, high);
    // What takes the offset of the table off: two parts for each group.
    let sixteen = _mm256_set1_epi8(16);
    let offset = product(Codes { low: sixteen, high: sixteen }, &activation);
    let sums = four(blocks, |block| {
        let codes = look_up(table, load_at::<4, _>(block));
        _mm256_castsi256_ps(_mm256_sub_epi32(product(codes, &activation), offset))
    });
    let terms = |a: usize, b: usize| {
        let scales = _mm_unpacklo_epi16(start(blocks[a]), start(blocks[b]));
        let even = _mm256_shuffle_ps::<0b10_00_10_00>(sums[a], sums[b]);
        let odd = _mm256_shuffle_ps::<0b11_01_11_01>(sums[a], sums[b]);
        let sums = _mm256_add_epi32(_mm256_castps_si256(even), _mm256_castps_si256(odd));
        scaled(halved_e4m3(_mm256_cvtepu8_epi32(scales)), sums, &activation)
    };
    [terms(0, 1), terms(2, 3)]
}

/// Half of an unsigned E4M3 in each lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halved_e4m3(codes: __m256i) -> __m256 {
    // All ones below the sign means 0; with a sign it is a number, as Portable has it.
    let nan = _mm256_cmpeq_epi32(codes, _mm256_set1_epi32(0x7F));
    let magnitude = _mm256_and_si256(codes, _mm256_set1_epi32(0x7F));
    let magnitude = _mm256_andnot_si256(nan, _mm256_slli_epi32::<20>(magnitude));
    // Exponent and mantissa are in the places of an f32, whose bias is 120 more. Subnormals
    // are the fraction of 2^-7: as subnormals of f32 they would take the CPU long.
    let subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 23), magnitude);
    let fraction = _mm256_and_si256(subnormal, _mm256_set1_epi32(1 << 23));
    let half = _mm256_add_epi32(magnitude, _mm256_set1_epi32(119 << 23));
    let half = _mm256_castsi256_ps(_mm256_add_epi32(half, fraction));
    let least = _mm256_and_ps(_mm256_castsi256_ps(subnormal), _mm256_set1_ps(1.0 / 128.0));
    _mm256_sub_ps(half, least)
}

/// The last step of four dot products (dot-products.md, "Sum"), from rows two by two as
/// [`terms_of_groups`] has them.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn fold_groups([rows01, rows23]: [__m256; 2]) -> [f32; 4] {
    // Lanes 0 and 2 of four rows, and lanes 1 and 3.
    let even = _mm256_shuffle_ps::<0b10_00_10_00>(rows01, rows23);
    let odd = _mm256_shuffle_ps::<0b11_01_11_01>(rows01, rows23);
    let mut all = [0.0; 8];
    store(_mm256_add_ps(even, odd), &mut all);
    let [a, b, c, d, e, f, g, h] = all;
    [a + e, b + f, c + g, d + h]
}
