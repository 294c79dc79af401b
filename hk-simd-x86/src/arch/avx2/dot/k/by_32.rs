//! `q4_k` and `q5_k`: sub-blocks of 32 weights with a scale and a minimum.

use core::arch::x86_64::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::by_256::{Block, ProductsLess, products_less, rows_in_halves};
use super::{half, only, scaled, spreading};
use crate::arch::avx2::vector::{load_at, load_halves_at};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_K => DotRows::Q256(q4_k),
        StorageType::Q5_K => DotRows::Q256(q5_k),
        _ => return None,
    })
}

/// The scales and minimums of two blocks, one in each half, that begin with `d`, `dmin` and
/// the packed scales: 8 bytes of scales and 8 of minimums.
#[inline]
#[target_feature(enable = "avx2")]
fn scales_and_minimums(heads: __m256i) -> __m256i {
    // Of the first four scales, the last four, and the minimums likewise: what has their low
    // bits, and what has the two above them.
    let low = _mm256_shuffle_epi32::<0b11_10_11_01>(heads);
    let high = _mm256_shuffle_epi32::<0b10_00_01_00>(heads);
    let of_each = |a, b, c, d| _mm256_set_epi32(d, c, b, a, d, c, b, a);
    let low = _mm256_srlv_epi32(low, of_each(0, 0, 0, 4));
    let low = _mm256_and_si256(low, of_each(0x3F3F_3F3F, 0x0F0F_0F0F, 0x3F3F_3F3F, 0x0F0F_0F0F));
    let high =
        _mm256_and_si256(_mm256_srli_epi32::<2>(high), of_each(0, 0x3030_3030, 0, 0x3030_3030));
    _mm256_or_si256(low, high)
}

/// M of two rows, by four partial sums each.
#[inline]
#[target_feature(enable = "avx2")]
fn minimums(scales: __m256i, sums: &[i16; 16]) -> __m256i {
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
    // Of 32 codes: no more than 16 bits have room for.
    let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    let sums = _mm256_permute4x64_epi64::<0b10_00_10_00>(_mm256_packs_epi32(sums, sums));
    let minimums = _mm256_unpackhi_epi8(scales, _mm256_setzero_si256());
    _mm256_madd_epi16(minimums, sums)
}

/// S of row `ROW`, by partial sums, of its codes and the scales of both rows.
#[inline]
#[target_feature(enable = "avx2")]
fn products<const ROW: usize>(codes: [__m256i; 8], scales: __m256i, q: &[i8; 256]) -> __m256i {
    static BY: [[u8; 32]; 8] =
        spreading::<0>([[0; 2], [1; 2], [2; 2], [3; 2], [4; 2], [5; 2], [6; 2], [7; 2]]);
    let scales = half::<ROW>(scales);
    scaled(codes, q, [scales; 2], &BY)
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q4_k(rows, block));
}

#[inline]
#[target_feature(enable = "avx2")]
fn block_q4_k(rows: [&[u8; 144]; 2], activation: Block<'_>) -> ProductsLess {
    let heads = load_halves_at::<0, 144>(rows);
    let scales = scales_and_minimums(heads);
    let sums = rows_in_halves([
        products::<0>(codes_q4_k(rows[0]), scales, activation.q),
        products::<1>(codes_q4_k(rows[1]), scales, activation.q),
    ]);
    ProductsLess { sums, scales: heads, minimums: minimums(scales, activation.sums) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn codes_q4_k(block: &[u8; 144]) -> [__m256i; 8] {
    let [a, b] = nibbles::<16, 144>(block);
    let [c, d] = nibbles::<48, 144>(block);
    let [e, f] = nibbles::<80, 144>(block);
    let [g, h] = nibbles::<112, 144>(block);
    [a, b, c, d, e, f, g, h]
}

/// The low and the high nibbles of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles<const AT: usize, const N: usize>(block: &[u8; N]) -> [__m256i; 2] {
    let both = load_at::<AT, N>(block);
    [only(0x0F, both), only(0x0F, _mm256_srli_epi16::<4>(both))]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q5_k(rows, block));
}

#[inline]
#[target_feature(enable = "avx2")]
fn block_q5_k(rows: [&[u8; 176]; 2], activation: Block<'_>) -> ProductsLess {
    let heads = load_halves_at::<0, 176>(rows);
    let scales = scales_and_minimums(heads);
    let sums = rows_in_halves([
        products::<0>(codes_q5_k(rows[0]), scales, activation.q),
        products::<1>(codes_q5_k(rows[1]), scales, activation.q),
    ]);
    ProductsLess { sums, scales: heads, minimums: minimums(scales, activation.sums) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn codes_q5_k(block: &[u8; 176]) -> [__m256i; 8] {
    let fifths = load_at::<16, 176>(block);
    let [a, b] = nibbles::<48, 176>(block);
    let [c, d] = nibbles::<80, 176>(block);
    let [e, f] = nibbles::<112, 176>(block);
    let [g, h] = nibbles::<144, 176>(block);
    // Bit `j` of sub-block `j`, to the place of 16.
    [
        with_fifth(a, _mm256_slli_epi16::<4>(fifths)),
        with_fifth(b, _mm256_slli_epi16::<3>(fifths)),
        with_fifth(c, _mm256_slli_epi16::<2>(fifths)),
        with_fifth(d, _mm256_slli_epi16::<1>(fifths)),
        with_fifth(e, fifths),
        with_fifth(f, _mm256_srli_epi16::<1>(fifths)),
        with_fifth(g, _mm256_srli_epi16::<2>(fifths)),
        with_fifth(h, _mm256_srli_epi16::<3>(fifths)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn with_fifth(codes: __m256i, fifths: __m256i) -> __m256i {
    _mm256_or_si256(codes, only(0x10, fifths))
}
