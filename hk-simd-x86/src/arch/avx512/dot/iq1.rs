//! `iq1_s` and `iq1_m`: rows of the codebook as eighths with an offset of 8, which have no sign. A
//! vector has one row of each group of 32 weights.

use core::arch::x86_64::*;
use core::hint::black_box;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::iq1::{groups_iq1_s, rows_iq1_m, rows_iq1_s};
use super::super::vector::{load_codes_at, load_eighths, load_quarters_at, load_words, quads};
use super::by_256::{Block, Products, products_of, rows_in_quarters};
use crate::arch::call::{DotRows, Rows};
use crate::arch::iq1::eighths;

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
            let groups = groups_iq1_s(block);
            Row::new(rows_iq1_s(block, groups), odd(_mm512_srli_epi16::<12>(groups)))
        };
        let rows = [row(blocks[0]), row(blocks[1]), row(blocks[2]), row(blocks[3])];
        let sums = Activation::load(activation).products(&rows);
        Products { sums, scales: load_quarters_at::<0, 50>(blocks) }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_m(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_of(0.125, rows, activation, |blocks: [&[u8; 56]; 4], activation| {
        let row = |block| Row::new(rows_iq1_m(block), scales_of_rows(block));
        let rows = [row(blocks[0]), row(blocks[1]), row(blocks[2]), row(blocks[3])];
        let sums = Activation::load(activation).products(&rows);
        Products { sums, scales: scales_of_blocks(load_quarters_at::<40, 56>(blocks)) }
    });
}

/// `2 * s + 1` of the lowest three bits of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn odd(s: __m512i) -> __m512i {
    let twice = _mm512_and_si512(_mm512_add_epi16(s, s), _mm512_set1_epi16(14));
    _mm512_or_si512(twice, _mm512_set1_epi16(1))
}

/// The scale of each row of a block of `iq1_m`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_of_rows(block: &[u8; 56]) -> __m512i {
    // A word has the scales of eight rows.
    static WORD: [u16; 32] = {
        let mut word = [0; 32];
        let mut i = 0;
        while i < 32 {
            word[i] = i as u16 / 8;
            i += 1;
        }
        word
    };
    let scales = i64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
    let scales = _mm512_permutexvar_epi16(load_words(&WORD), _mm512_set1_epi64(scales));
    let (first, last) = (0x0003_0003_0000_0000, 0x0009_0009_0006_0006);
    let shifts = _mm512_set_epi64(last, first, last, first, last, first, last, first);
    odd(_mm512_srlv_epi16(scales, shifts))
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

/// A weight row's block, with a word for each of its 32 rows of the codebook.
struct Row {
    /// The numbers of the rows, bit 11 of each set where it is shifted down.
    numbers: __m512i,
    /// The same, those of a group in each.
    at: [u64; 8],
    /// The scales of the rows.
    scales: __m512i,
}

impl Row {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(numbers: __m512i, scales: __m512i) -> Self {
        Row { numbers, at: quads(numbers), scales }
    }

    /// Row `K` of each group.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn look_up<const K: i32>(&self) -> __m512i {
        let [a, b, c, d, e, f, g, h] = self.at.each_ref();
        let row = |group: &u64| eighths(group >> (16 * K));
        load_eighths([row(a), row(b), row(c), row(d), row(e), row(f), row(g), row(h)])
    }
}

/// A block of the activation.
struct Activation {
    /// Codes `8k` to `8k + 7` of each group.
    q: [__m512i; 4],
    /// The sums of the eight codes that meet each row, in the words of the rows.
    sums: __m512i,
}

impl Activation {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(block: Block<'_>) -> Self {
        let q = block.q;
        let (a, b) = (load_codes_at::<0, 256>(q), load_codes_at::<64, 256>(q));
        let (c, d) = (load_codes_at::<128, 256>(q), load_codes_at::<192, 256>(q));
        // Of four groups the first and the second eight codes, then the third and the fourth.
        let first = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0);
        let last = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);
        let low = _mm512_permutex2var_epi64(a, first, b);
        let high = _mm512_permutex2var_epi64(c, first, d);
        let (low_last, high_last) =
            (_mm512_permutex2var_epi64(a, last, b), _mm512_permutex2var_epi64(c, last, d));
        let q = [
            _mm512_shuffle_i64x2::<0b01_00_01_00>(low, high),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(low, high),
            _mm512_shuffle_i64x2::<0b01_00_01_00>(low_last, high_last),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(low_last, high_last),
        ];
        // Sums of eight bytes need them without a sign: each of them is 128 more.
        let sum = |codes| {
            let bytes = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
            _mm512_sad_epu8(bytes, _mm512_setzero_si512())
        };
        let even = _mm512_or_si512(sum(q[0]), _mm512_slli_epi64::<32>(sum(q[2])));
        let odd = _mm512_or_si512(sum(q[1]), _mm512_slli_epi64::<32>(sum(q[3])));
        let sums = _mm512_or_si512(even, _mm512_slli_epi64::<16>(odd));
        Activation { q, sums: _mm512_sub_epi16(sums, _mm512_set1_epi16(8 * 128)) }
    }

    /// The products of four blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn products(&self, rows: &[Row; 4]) -> __m512i {
        let mut sums = [_mm512_setzero_si512(); 4];
        // By way of memory: numbers that the compiler took one by one from a vector to where
        // addresses are made would hold everything up.
        for (sums, row) in sums.iter_mut().zip(black_box(rows)) {
            *sums = self.partial_sums(row);
        }
        rows_in_quarters(sums)
    }

    /// The products of a block, by sixteen partial sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn partial_sums(&self, row: &Row) -> __m512i {
        let zero = _mm512_setzero_si512();
        // Both fit the lower word of their lanes.
        let first = _mm512_dpbusd_epi32(zero, row.look_up::<0>(), self.q[0]);
        let first = _mm512_dpbusd_epi32(first, row.look_up::<1>(), self.q[1]);
        let last = _mm512_dpbusd_epi32(zero, row.look_up::<2>(), self.q[2]);
        let last = _mm512_dpbusd_epi32(last, row.look_up::<3>(), self.q[3]);
        let word = _mm512_set1_epi32(0xFFFF);
        let scale = _mm512_shuffle_epi32::<0b10_10_00_00>(row.scales);
        let first = _mm512_madd_epi16(first, _mm512_and_si512(scale, word));
        let scale = _mm512_shuffle_epi32::<0b11_11_01_01>(row.scales);
        let last = _mm512_madd_epi16(last, _mm512_and_si512(scale, word));
        // What each weight has too much: 8 eighths, but for the one that a row is shifted up
        // by, and one more in a row that is shifted down.
        let down = _mm512_srai_epi16::<15>(_mm512_slli_epi16::<4>(row.numbers));
        let excess = _mm512_add_epi16(_mm512_add_epi16(down, down), _mm512_set1_epi16(-7));
        let excess = _mm512_madd_epi16(self.sums, _mm512_mullo_epi16(excess, row.scales));
        _mm512_add_epi32(_mm512_add_epi32(first, last), excess)
    }
}
