//! `iq1_s` and `iq1_m`: rows of the codebook as eighths with an offset of 9, which have no sign,
//! those of two groups of 32 weights to a vector.

use crate::arch::intrinsics::*;
use core::hint::black_box;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::iq1::{rows_iq1_m, rows_iq1_s};
use super::super::vector::{
    load_codes_at, load_eighths, load_quarter_at, load_quarters_at, load_words, quads,
};
use super::by_256::{Block, Products, products_of, rows_in_quarters};
use crate::arch::call::{DotRows, Rows};
use crate::arch::iq1::shifted_eighths;

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::IQ1_S => DotRows::Q256(iq1_s),
        StorageType::IQ1_M => DotRows::Q256(iq1_m),
        _ => return None,
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 50]; 4], activation| {
        let row = |block| {
            let scales =
                _mm256_srli_epi32::<12>(_mm256_cvtepu16_epi32(load_quarter_at::<34, 50>(block)));
            let scales = odd(_mm256_or_si256(scales, _mm256_slli_epi32::<16>(scales)));
            Row { at: quads(rows_iq1_s(block)), scales }
        };
        let rows = [row(blocks[0]), row(blocks[1]), row(blocks[2]), row(blocks[3])];
        let sums = products(&rows, activation);
        Products { sums, scales: load_quarters_at::<0, 50>(blocks) }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_m(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 56]; 4], activation| {
        let row = |block| Row { at: quads(rows_iq1_m(block)), scales: scales_of_rows(block) };
        let rows = [row(blocks[0]), row(blocks[1]), row(blocks[2]), row(blocks[3])];
        let sums = products(&rows, activation);
        Products { sums, scales: scales_of_blocks(load_quarters_at::<40, 56>(blocks)) }
    });
}

/// `2 * s + 1` of the lowest three bits of each word.
#[inline]
#[target_feature(enable = "avx2")]
fn odd(s: __m256i) -> __m256i {
    let twice = _mm256_and_si256(_mm256_add_epi16(s, s), _mm256_set1_epi16(14));
    _mm256_or_si256(twice, _mm256_set1_epi16(1))
}

/// The scale of each 16 weights of a block of `iq1_m`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_of_rows(block: &[u8; 56]) -> __m256i {
    // Four times the first word, and so on.
    let scales = i64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
    let words = _mm256_set_epi64x(
        0x0706_0706_0706_0706,
        0x0504_0504_0504_0504,
        0x0302_0302_0302_0302,
        0x0100_0100_0100_0100,
    );
    let scales = _mm256_shuffle_epi8(_mm256_set1_epi64x(scales), words);
    odd(_mm256_srlv_epi16(scales, _mm256_set1_epi64x(0x0009_0006_0003_0000)))
}

/// The scale of each quarter's block of `iq1_m` in its word 0, from the last 16 bytes of the
/// block: its nibbles are the upper nibbles of four words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn scales_of_blocks(blocks: __m512i) -> __m512i {
    let nibbles = _mm512_srli_epi16::<12>(blocks);
    let pairs = _mm512_madd_epi16(nibbles, _mm512_set1_epi32(0x0010_0001));
    let low = _mm512_shuffle_epi32::<0b10_10_10_10>(pairs);
    let high = _mm512_shuffle_epi32::<0b11_11_11_11>(pairs);
    _mm512_or_si512(low, _mm512_slli_epi32::<8>(high))
}

/// A weight row's block.
struct Row {
    /// The numbers of the four rows of the codebook of each group (see [`shifted_eighths`]).
    at: [u64; 8],
    /// The scale of each 16 weights.
    scales: __m256i,
}

/// The products of four rows' blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products(rows: &[Row; 4], activation: Block<'_>) -> __m512i {
    let mut sums = [_mm512_setzero_si512(); 4];
    // By way of memory: numbers that the compiler took one by one from a vector to where
    // addresses are made would hold everything up.
    for (sums, row) in sums.iter_mut().zip(black_box(rows)) {
        *sums = partial_sums(row, activation);
    }
    rows_in_quarters(sums)
}

/// The products of a block, by sixteen partial sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn partial_sums(row: &Row, activation: Block<'_>) -> __m512i {
    let q = activation.q;
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(activation.sums.as_ptr().cast()) };
    // The offset of each weight.
    let offsets = _mm256_mullo_epi16(row.scales, _mm256_set1_epi16(-9));
    let sum = _mm512_zextsi256_si512(_mm256_madd_epi16(sums, offsets));
    let first = two_groups::<0>(row, load_codes_at::<0, 256>(q));
    let second = two_groups::<1>(row, load_codes_at::<64, 256>(q));
    let third = two_groups::<2>(row, load_codes_at::<128, 256>(q));
    let fourth = two_groups::<3>(row, load_codes_at::<192, 256>(q));
    let first = _mm512_add_epi32(_mm512_add_epi32(sum, first), second);
    _mm512_add_epi32(first, _mm512_add_epi32(third, fourth))
}

/// The products of groups `2K` and `2K + 1`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn two_groups<const K: usize>(row: &Row, q: __m512i) -> __m512i {
    static SPREAD: [[u16; 32]; 4] = [spread(0), spread(4), spread(8), spread(12)];
    let (low, high) = (row.at[2 * K], row.at[2 * K + 1]);
    let rows = [low, low >> 16, low >> 32, low >> 48, high, high >> 16, high >> 32, high >> 48];
    let products = _mm512_maddubs_epi16(load_eighths(rows.map(shifted_eighths)), q);
    let scales = _mm512_castsi256_si512(row.scales);
    _mm512_madd_epi16(products, _mm512_permutexvar_epi16(load_words(&SPREAD[K]), scales))
}

/// Four words from `first` on, one for each quarter.
const fn spread(first: u16) -> [u16; 32] {
    let mut spread = [0; 32];
    let mut i = 0;
    while i < 32 {
        spread[i] = first + i as u16 / 8;
        i += 1;
    }
    spread
}
