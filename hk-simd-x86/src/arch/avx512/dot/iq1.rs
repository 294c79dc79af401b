//! `iq1_s` and `iq1_m`: rows of the codebook, those of two groups of 32 weights to a vector.
//!
//! Two loads a cycle are what bounds them, and 32 rows of a block are 32 loads. They get there
//! only if no load waits for the number of its row, so that the numbers of four blocks of four
//! rows are made first.

use crate::arch::intrinsics::*;
use core::hint::black_box;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::iq1::{rows_iq1_m, rows_iq1_s};
use super::super::vector::{load, load_eighths, load_quarters_at, load_words, quads};
use super::by_256::{Block, Products, fold_quarters, rows_in_quarters, terms};
use super::k::{add_products, in_order, quarter};
use crate::arch::call::{DotRows, Rows, steps_of_256};
use crate::arch::iq1::{CODES, SHIFTED_EIGHTHS, Table};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::IQ1_S => DotRows::Q256(iq1_s),
        StorageType::IQ1_M => DotRows::Q256(iq1_m),
        _ => return None,
    })
}

/// The numbers of the four rows of a table of `N` that each group of a block has. They lie
/// within a cache line, so that they are there for loads as soon as they are stored.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Numbers<const N: usize>([u64; 8]);

impl<const N: usize> Numbers<N> {
    /// Of the lowest bits of each word.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn new(words: __m512i) -> Self {
        const { assert!(N.is_power_of_two() && N <= 1 << 15) };
        Numbers(quads(_mm512_and_si512(words, _mm512_set1_epi16((N - 1) as i16))))
    }

    /// The rows of groups `2k` and `2k + 1`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn rows(&self, table: &Table<N>, k: usize) -> __m512i {
        let (a, b) = (self.0[2 * k], self.0[2 * k + 1]);
        let row = |number: u64| {
            // SAFETY: the words that the numbers were made of are less than N.
            unsafe { table.0.get_unchecked(usize::from(number as u16)) }
        };
        load_eighths([
            row(a),
            row(a >> 16),
            row(a >> 32),
            row(a >> 48),
            row(b),
            row(b >> 16),
            row(b >> 32),
            row(b >> 48),
        ])
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_s(rows: Rows<'_>, activation: RowQ256<'_>) {
    let numbers = |block: &_| Numbers::new(rows_iq1_s(block));
    products(rows, activation, numbers, |blocks, at, part| block_iq1_s(blocks, at, part));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_m(rows: Rows<'_>, activation: RowQ256<'_>) {
    let numbers = |block: &_| Numbers::new(rows_iq1_m(block));
    products(rows, activation, numbers, |blocks, at, part| block_iq1_m(blocks, at, part));
}

/// The products of all rows, from the `numbers` of a block and what `block` makes of the blocks
/// of four rows, in eighths.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products<const BYTES: usize, const N: usize>(
    rows: Rows<'_>,
    activation: RowQ256<'_>,
    numbers: impl Fn(&[u8; BYTES]) -> Numbers<N>,
    block: impl Fn([&[u8; BYTES]; 4], &[Numbers<N>; 4], Block<'_>) -> Products,
) {
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_256(rows, &activation, |rows: [&[[u8; BYTES]; 4]; 4], activation| {
            let mut at = [[Numbers([0; 8]); 4]; 4];
            for (r, blocks) in rows.iter().enumerate() {
                for (block, at) in blocks.iter().zip(&mut at) {
                    at[r] = numbers(block);
                }
            }
            // By way of memory: numbers that the compiler took one by one from a vector to
            // where addresses are made would hold everything up.
            let at = black_box(&at);
            let mut products = [Products::none(); 4];
            for (i, (products, at)) in products.iter_mut().zip(at).enumerate() {
                let part = Block { q: &activation.q[i], sums: &activation.sums[i] };
                *products = block(rows.map(|blocks| &blocks[i]), at, part);
            }
            lanes = _mm512_add_ps(lanes, terms(0.125, products, activation.d));
        });
        fold_quarters(lanes)
    });
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_iq1_s(blocks: [&[u8; 50]; 4], at: &[Numbers<2048>; 4], activation: Block<'_>) -> Products {
    // In each quarter the words of a row, one for each group.
    let words = load_quarters_at::<34, 50>(blocks);
    let s = _mm512_and_si512(_mm512_srli_epi16::<11>(words), _mm512_set1_epi16(14));
    let odd = _mm512_or_si512(s, _mm512_set1_epi16(1));
    // A weight is its code less 1, and an eighth more or less.
    let down = _mm512_and_si512(_mm512_srai_epi16::<15>(words), _mm512_set1_epi16(-7 ^ -9));
    let offsets = _mm512_mullo_epi16(odd, _mm512_xor_si512(down, _mm512_set1_epi16(-7)));
    let offsets = _mm512_madd_epi16(offsets, sums_of_groups(activation.sums));
    let scales = _mm512_slli_epi16::<3>(odd);
    let scales =
        [quarter::<0>(scales), quarter::<1>(scales), quarter::<2>(scales), quarter::<3>(scales)];
    let (q, mut sums) = (in_order(activation.q), [_mm512_setzero_si512(); 4]);
    for (sums, (at, scales)) in sums.iter_mut().zip(at.iter().zip(scales)) {
        static SPREAD: [[u8; 64]; 4] = [halves(0), halves(2), halves(4), halves(6)];
        let scale = |k: usize| _mm512_shuffle_epi8(scales, load(&SPREAD[k]));
        let rows = |k: usize| _mm512_maddubs_epi16(at.rows(&CODES, k), q[k]);
        *sums = sum([rows(0), rows(1), rows(2), rows(3)], [scale(0), scale(1), scale(2), scale(3)]);
    }
    Products {
        sums: _mm512_add_epi32(rows_in_quarters(sums), offsets),
        scales: load_quarters_at::<0, 50>(blocks),
    }
}

/// The sums of the codes of each 32 weights, the same in each quarter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sums_of_groups(sums: &[i16; 16]) -> __m512i {
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
    let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    _mm512_broadcast_i32x4(_mm256_cvtepi32_epi16(sums))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_iq1_m(blocks: [&[u8; 56]; 4], at: &[Numbers<4096>; 4], activation: Block<'_>) -> Products {
    // SAFETY: the array has the size of the vector.
    let sums_of_q = unsafe { _mm256_loadu_si256(activation.sums.as_ptr().cast()) };
    let (q, mut sums) = (in_order(activation.q), [_mm512_setzero_si512(); 4]);
    for (sums, (at, block)) in sums.iter_mut().zip(at.iter().zip(blocks)) {
        static SPREAD: [[u16; 32]; 4] = [words(0), words(4), words(8), words(12)];
        let scales = scales_of_rows(block);
        let all = _mm512_castsi256_si512(scales);
        let scale = |k: usize| _mm512_permutexvar_epi16(load_words(&SPREAD[k]), all);
        let rows = |k: usize| _mm512_maddubs_epi16(at.rows(&SHIFTED_EIGHTHS, k), q[k]);
        let products =
            sum([rows(0), rows(1), rows(2), rows(3)], [scale(0), scale(1), scale(2), scale(3)]);
        // The offset of each weight.
        let offsets = _mm256_mullo_epi16(scales, _mm256_set1_epi16(-9));
        let offsets = _mm512_zextsi256_si512(_mm256_madd_epi16(sums_of_q, offsets));
        *sums = _mm512_add_epi32(products, offsets);
    }
    Products {
        sums: rows_in_quarters(sums),
        scales: scales_of_blocks(load_quarters_at::<40, 56>(blocks)),
    }
}

/// The sums of 16-bit products times their scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sum(products: [__m512i; 4], scales: [__m512i; 4]) -> __m512i {
    let first = _mm512_madd_epi16(products[0], scales[0]);
    let first = add_products(first, products[1], scales[1]);
    let last = _mm512_madd_epi16(products[2], scales[2]);
    _mm512_add_epi32(first, add_products(last, products[3], scales[3]))
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

/// Where the bytes of two words from `first` on are, one word for each half.
const fn halves(first: u8) -> [u8; 64] {
    let mut halves = [0; 64];
    let mut i = 0;
    while i < 64 {
        halves[i] = 2 * (first + i as u8 / 32) + i as u8 % 2;
        i += 1;
    }
    halves
}

/// Four words from `first` on, one for each quarter.
const fn words(first: u16) -> [u16; 32] {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 32 {
        words[i] = first + i as u16 / 8;
        i += 1;
    }
    words
}
