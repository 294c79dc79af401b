//! `iq1_s` and `iq1_m`: rows of the codebook as eighths with an offset of 9, which have no sign,
//! those of a group of 32 weights to a vector.

use crate::arch::intrinsics::*;
use core::hint::black_box;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::vector::{
    load, load_at, load_codes, load_half_at, load_halves_at, load_quarters, quads,
};
use super::by_256::{Block, Products, products_of, rows_in_halves};
use crate::arch::call::{DotRows, Rows};
use crate::arch::iq1::shifted_eighths;

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::IQ1_S => DotRows::Q256(iq1_s),
        StorageType::IQ1_M => DotRows::Q256(iq1_m),
        _ => return None,
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq1_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 50]; 2], activation| {
        let row = |block| {
            let high = _mm256_cvtepu16_epi32(load_half_at::<34, 50>(block));
            let down = _mm256_and_si256(_mm256_srli_epi32::<4>(high), _mm256_set1_epi32(0x0800));
            let s = _mm256_and_si256(_mm256_srli_epi32::<11>(high), _mm256_set1_epi32(14));
            let s = _mm256_or_si256(s, _mm256_slli_epi32::<16>(s));
            Row {
                at: numbers::<3>(load_at::<2, 50>(block), high, down),
                scales: _mm256_or_si256(s, _mm256_set1_epi16(1)),
            }
        };
        let rows = [row(blocks[0]), row(blocks[1])];
        Products { sums: products(&rows, activation), scales: load_halves_at::<0, 50>(blocks) }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq1_m(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 56]; 2], activation| {
        let row = |block| {
            let high = _mm256_cvtepu16_epi32(load_half_at::<32, 56>(block));
            Row {
                at: numbers::<4>(load_at::<0, 56>(block), high, _mm256_setzero_si256()),
                scales: scales_of_rows(block),
            }
        };
        let rows = [row(blocks[0]), row(blocks[1])];
        let scales = scales_of_blocks(load_halves_at::<40, 56>(blocks));
        Products { sums: products(&rows, activation), scales }
    });
}

/// A weight row's block.
struct Row {
    /// The numbers of the four rows of the codebook of each group.
    at: [[u64; 4]; 2],
    /// The scales of the 16 first and the 16 last weights of each group.
    scales: __m256i,
}

/// The numbers of the rows of each group (see [`shifted_eighths`]) of their low bytes, of what
/// has `BITS` more for each, and of bits for all of them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn numbers<const BITS: i32>(low: __m256i, high: __m256i, down: __m256i) -> [[u64; 4]; 2] {
    let byte = _mm256_set1_epi32(0xFF);
    let bits = _mm256_set1_epi32(((1 << BITS) - 1) << 8);
    let high = _mm256_slli_epi32::<8>(high);
    let number = |k: i32| {
        let low = _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_set1_epi32(8 * k)), byte);
        let high = _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_set1_epi32(BITS * k)), bits);
        _mm256_or_si256(_mm256_or_si256(low, high), down)
    };
    let first = _mm256_or_si256(number(0), _mm256_slli_epi32::<16>(number(1)));
    let last = _mm256_or_si256(number(2), _mm256_slli_epi32::<16>(number(3)));
    let (a, b) = (_mm256_unpacklo_epi32(first, last), _mm256_unpackhi_epi32(first, last));
    [quads(_mm256_permute2x128_si256::<0x20>(a, b)), quads(_mm256_permute2x128_si256::<0x31>(a, b))]
}

/// The scales of the 16 first and the 16 last weights of each group of a block of `iq1_m`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_of_rows(block: &[u8; 56]) -> __m256i {
    // A word has those of two groups.
    let scales = i64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
    let scales = _mm256_cvtepu16_epi32(_mm_set1_epi64x(scales));
    let scales = _mm256_permutevar8x32_epi32(scales, _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0));
    let scales = _mm256_srlv_epi32(scales, _mm256_set_epi32(6, 0, 6, 0, 6, 0, 6, 0));
    let first = _mm256_and_si256(_mm256_add_epi32(scales, scales), _mm256_set1_epi32(14));
    let last = _mm256_and_si256(scales, _mm256_set1_epi32(0x38));
    let last = _mm256_or_si256(_mm256_slli_epi32::<14>(last), _mm256_set1_epi16(1));
    _mm256_or_si256(first, last)
}

/// The scale of each half's block of `iq1_m` in its word 0, from the last 16 bytes of the block:
/// its nibbles are the upper nibbles of four words.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales_of_blocks(blocks: __m256i) -> __m256i {
    let nibbles = _mm256_srli_epi16::<12>(blocks);
    let pairs = _mm256_madd_epi16(nibbles, _mm256_set1_epi32(0x0010_0001));
    let low = _mm256_shuffle_epi32::<0b10_10_10_10>(pairs);
    let high = _mm256_shuffle_epi32::<0b11_11_11_11>(pairs);
    _mm256_or_si256(low, _mm256_slli_epi32::<8>(high))
}

/// The products of two rows' blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products(rows: &[Row; 2], activation: Block<'_>) -> __m256i {
    let mut sums = [_mm256_setzero_si256(); 2];
    // By way of memory: numbers that the compiler took one by one from a vector to where
    // addresses are made would hold everything up.
    for (sums, row) in sums.iter_mut().zip(black_box(rows)) {
        *sums = partial_sums(row, activation);
    }
    rows_in_halves(sums)
}

/// The products of a block, by eight partial sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn partial_sums(row: &Row, activation: Block<'_>) -> __m256i {
    // The lower word of a lane to the lower half, the upper one to the upper half.
    static SPREAD: [u8; 32] = [
        0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3,
        2, 3,
    ];
    let (q, _) = activation.q.as_chunks::<32>();
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(activation.sums.as_ptr().cast()) };
    // The offset of each weight.
    let nine = _mm256_mullo_epi16(row.scales, _mm256_set1_epi16(-9));
    let mut all = _mm256_madd_epi16(sums, nine);
    for (i, (&at, q)) in row.at.as_flattened().iter().zip(q).enumerate() {
        let rows = [at, at >> 16, at >> 32, at >> 48].map(shifted_eighths);
        let scale = _mm256_permutevar8x32_epi32(row.scales, _mm256_set1_epi32(i as i32));
        let scale = _mm256_shuffle_epi8(scale, load(&SPREAD));
        let products = _mm256_maddubs_epi16(load_quarters(rows), load_codes(q));
        all = _mm256_add_epi32(all, _mm256_madd_epi16(products, scale));
    }
    all
}
