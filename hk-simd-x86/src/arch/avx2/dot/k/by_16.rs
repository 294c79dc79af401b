//! `q2_k`, `q3_k` and `q6_k`: sub-blocks of 16 weights.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::by_256::{
    Block, Products, ProductsLess, products, products_less, rows_in_halves,
};
use super::{half, scaled, spreading};
use crate::arch::avx2::k::unpack::{codes_q3_k, codes_q6_k, only, scales_q3_k};
use crate::arch::avx2::vector::{load_at, load_half_at, load_halves_at};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q2_K => DotRows::Q256(q2_k),
        StorageType::Q3_K => DotRows::Q256(q3_k),
        StorageType::Q6_K => DotRows::Q256(q6_k),
        _ => return None,
    })
}

/// S of row `ROW`, by partial sums, of its codes and the scales of both rows, which become the
/// lower (`AT` 0) or the upper (`AT` 1) halves of 16-bit words.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled_by_16<const AT: usize, const ROW: usize>(
    codes: [__m256i; 8],
    q: &[i8; 256],
    scales: __m256i,
) -> __m256i {
    let by = const {
        let pairs = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]];
        &spreading::<AT>(pairs)
    };
    scaled(codes, q, [half::<ROW>(scales); 2], by)
}

/// The sums of 16 codes: the first eight in both halves, then the last eight.
#[inline]
#[target_feature(enable = "avx2")]
fn in_halves(sums: &[i16; 16]) -> [__m256i; 2] {
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
    [half::<0>(sums), half::<1>(sums)]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q2_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q2_k(rows, block));
}

#[inline]
#[target_feature(enable = "avx2")]
fn block_q2_k(rows: [&[u8; 84]; 2], activation: Block<'_>) -> ProductsLess {
    let both = load_halves_at::<0, 84>(rows);
    // Codes stay where they are in their bytes, times 1, 4, 16 and (moved, for 64 would be
    // too much) 16 again; scales get what is missing to 16.
    let missing = _mm256_set1_epi64x(0x0001_0001_0004_0010);
    let scales = _mm256_mullo_epi16(only(0x0F, both), missing);
    let sums = rows_in_halves([
        scaled_by_16::<0, 0>(codes_q2_k(rows[0]), activation.q, scales),
        scaled_by_16::<0, 1>(codes_q2_k(rows[1]), activation.q, scales),
    ]);
    let minimums = only(0x0F, _mm256_srli_epi16::<4>(both));
    let zero = _mm256_setzero_si256();
    let [first, last] = in_halves(activation.sums);
    let first = _mm256_madd_epi16(_mm256_unpacklo_epi8(minimums, zero), first);
    let last = _mm256_madd_epi16(_mm256_unpackhi_epi8(minimums, zero), last);
    ProductsLess {
        sums: _mm256_srai_epi32::<4>(sums),
        scales: _mm256_bsrli_epi128::<12>(load_halves_at::<68, 84>(rows)),
        minimums: _mm256_add_epi32(first, last),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn codes_q2_k(block: &[u8; 84]) -> [__m256i; 8] {
    let (a, b) = (load_at::<16, 84>(block), load_at::<48, 84>(block));
    let (a_high, b_high) = (_mm256_srli_epi16::<2>(a), _mm256_srli_epi16::<2>(b));
    [
        only(0x03, a),
        only(0x0C, a),
        only(0x30, a),
        only(0x30, a_high),
        only(0x03, b),
        only(0x0C, b),
        only(0x30, b),
        only(0x30, b_high),
    ]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q3_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows, block| block_q3_k(rows, block));
}

#[inline]
#[target_feature(enable = "avx2")]
fn block_q3_k(rows: [&[u8; 110]; 2], activation: Block<'_>) -> Products {
    let tails = load_halves_at::<94, 110>(rows);
    let scales = scales_q3_k(tails);
    // Times 256, since as upper halves of words they keep their sign.
    let sums = rows_in_halves([
        scaled_by_16::<1, 0>(codes_q3_k(rows[0]), activation.q, scales),
        scaled_by_16::<1, 1>(codes_q3_k(rows[1]), activation.q, scales),
    ]);
    // What the codes' offset of 4 makes, times 256 too.
    let zero = _mm256_setzero_si256();
    let [first, last] = in_halves(activation.sums);
    let first = _mm256_madd_epi16(_mm256_unpacklo_epi8(zero, scales), first);
    let last = _mm256_madd_epi16(_mm256_unpackhi_epi8(zero, scales), last);
    let offset = _mm256_slli_epi32::<2>(_mm256_add_epi32(first, last));
    Products {
        sums: _mm256_srai_epi32::<8>(_mm256_sub_epi32(sums, offset)),
        scales: _mm256_bsrli_epi128::<14>(tails),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows, block| block_q6_k(rows, block));
}

#[inline]
#[target_feature(enable = "avx2")]
fn block_q6_k(rows: [&[u8; 210]; 2], activation: Block<'_>) -> Products {
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(activation.sums.as_ptr().cast()) };
    let sums = rows_in_halves([
        row_q6_k(rows[0], activation.q, sums),
        row_q6_k(rows[1], activation.q, sums),
    ]);
    let tails = load_halves_at::<194, 210>(rows);
    Products { sums, scales: _mm256_bsrli_epi128::<14>(tails) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn row_q6_k(block: &[u8; 210], q: &[i8; 256], sums: __m256i) -> __m256i {
    /// Words `2i` and `2i + 1` of the eight of a half, for part `i` of four.
    static BY: [[u8; 32]; 8] = {
        let mut by = [[0; 32]; 8];
        let mut i = 0;
        while i < 8 * 32 {
            by[i / 32][i % 32] = (i / 32 % 4 * 4 + i % 32 / 16 * 2 + i % 2) as u8;
            i += 1;
        }
        by
    };
    let scales = _mm256_cvtepi8_epi16(load_half_at::<192, 210>(block));
    let halves = [half::<0>(scales), half::<1>(scales)];
    // What the codes' offset of 32 makes.
    let offset = _mm256_slli_epi32::<5>(_mm256_madd_epi16(scales, sums));
    _mm256_sub_epi32(scaled(codes_q6_k(block), q, halves, &BY), offset)
}
