//! iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s (see [`iq23`](super::super::iq23)): two rows of a block.
//!
//! Signs go to the activation's codes, so that magnitudes are the unsigned factors. A pair of
//! products is at most 2 * 62 * 127, which 16 bits hold.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::iq23::*;
use super::super::vector::{load_codes, load_halves_at};
use super::by_256::{Block, Products, products_of, rows_in_halves};
use crate::arch::call::{DotRows, Rows};

/// The kernel of a type.
pub(in crate::arch) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(DotRows::Q256(match storage {
        StorageType::IQ2_XXS => iq2_xxs,
        StorageType::IQ2_XS => iq2_xs,
        StorageType::IQ2_S => iq2_s,
        StorageType::IQ3_XXS => iq3_xxs,
        StorageType::IQ3_S => iq3_s,
        _ => return None,
    }))
}

/// Eight integers whose sum is what group `G` adds to the S of its block.
#[inline]
#[target_feature(enable = "avx2")]
fn term<const G: usize>(magnitudes: __m256i, parts: &Parts, q: &[[i8; 32]]) -> __m256i {
    let q = _mm256_sign_epi8(load_codes(&q[G]), parts.signs.of::<G>());
    let four = parts.scales[G / 4];
    let scales = match G % 4 {
        0 => _mm256_shuffle_epi32::<0b00_00_00_00>(four),
        1 => _mm256_shuffle_epi32::<0b01_01_01_01>(four),
        2 => _mm256_shuffle_epi32::<0b10_10_10_10>(four),
        _ => _mm256_shuffle_epi32::<0b11_11_11_11>(four),
    };
    _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, q), scales)
}

/// Eight integers whose sum is the S of a block. It has the features of its callers, without
/// which `group` would not become part of it.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum(parts: Parts, group: impl Fn(usize) -> __m256i, q: &[i8; 256]) -> __m256i {
    let (q, _) = q.as_chunks::<32>();
    let sum = term::<0>(group(0), &parts, q);
    let sum = _mm256_add_epi32(sum, term::<1>(group(1), &parts, q));
    let sum = _mm256_add_epi32(sum, term::<2>(group(2), &parts, q));
    let sum = _mm256_add_epi32(sum, term::<3>(group(3), &parts, q));
    let sum = _mm256_add_epi32(sum, term::<4>(group(4), &parts, q));
    let sum = _mm256_add_epi32(sum, term::<5>(group(5), &parts, q));
    let sum = _mm256_add_epi32(sum, term::<6>(group(6), &parts, q));
    _mm256_add_epi32(sum, term::<7>(group(7), &parts, q))
}

/// The rows of a block together: their sums, and the scales, with which both begin.
#[inline]
#[target_feature(enable = "avx2")]
fn together<const N: usize>(blocks: [&[u8; N]; 2], sums: [__m256i; 2]) -> Products {
    Products { sums: rows_in_halves(sums), scales: load_halves_at::<0, N>(blocks) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq2_xxs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 66]; 2], activation: Block<'_>| {
        let row = |block| sum(parts_iq2_xxs(block), |g| group_iq2_xxs(block, g), activation.q);
        together(blocks, blocks.map(row))
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq2_xs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 74]; 2], activation: Block<'_>| {
        let row = |block| sum(parts_iq2_xs(block), |g| group_iq2_xs(block, g), activation.q);
        together(blocks, blocks.map(row))
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq2_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 82]; 2], activation: Block<'_>| {
        let row = |block| sum(parts_iq2_s(block), |g| group_iq2_s(block, g), activation.q);
        together(blocks, blocks.map(row))
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq3_xxs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.25, rows, activation, |blocks: [&[u8; 98]; 2], activation: Block<'_>| {
        let row = |block| sum(parts_iq3_xxs(block), |g| group_iq3_xxs(block, g), activation.q);
        together(blocks, blocks.map(row))
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq3_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(1.0, rows, activation, |blocks: [&[u8; 110]; 2], activation: Block<'_>| {
        let row = |block| {
            let rows = rows_iq3_s(block);
            sum(parts_iq3_s(block), |g| group_iq3_s(rows, g), activation.q)
        };
        together(blocks, blocks.map(row))
    });
}
