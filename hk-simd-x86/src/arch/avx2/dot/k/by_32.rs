//! `q4_k` and `q5_k`: sub-blocks of 32 weights with a scale and a minimum.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::by_256::{Block, ProductsLess, products_less, rows_in_halves};
use super::{half, scaled, spreading};
use crate::arch::avx2::k::unpack::{codes_q5_k, nibbles, scales_and_minimums};
use crate::arch::avx2::vector::load_halves_at;
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_K => DotRows::Q256(q4_k),
        StorageType::Q5_K => DotRows::Q256(q5_k),
        _ => return None,
    })
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
