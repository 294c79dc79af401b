//! What kernels of blocks of 32 weights share: four rows by four blocks a step.
//!
//! A vector holds the codes of four blocks of a row, a block in each quarter, and is
//! multiplied with the activation's codes of the same blocks. Sixteen exact sums of four rows
//! stand in one vector then, and the f32 steps of dot-products.md are done for all at once:
//! lane `4l + r` is lane `l` of row `r`.

use crate::arch::intrinsics::*;

use hk_core::dot::RowQ32;

use super::super::vector::{
    fold_rows, load, load_codes, load_half, load_quarter, load_words, sum_quarters,
};
use crate::arch::call::{Four32, Rows, Steps32, four, steps_of_32};

/// Four activation blocks.
pub(super) struct Activation {
    /// The first 16 codes of each block.
    pub(super) low: __m512i,
    /// The last 16 codes of each block.
    pub(super) high: __m512i,
    /// Four times the scale of each.
    pub(super) d: __m512,
    /// Four times scale times sum of each.
    pub(super) s: __m512,
    /// Four times the sum of the codes of each.
    pub(super) sums: __m512i,
}

impl Activation {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(blocks: &Four32<'_>) -> Self {
        let (halves, _) = blocks.q.as_flattened().as_chunks::<64>();
        let (a, b) = (load_codes(&halves[0]), load_codes(&halves[1]));
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm_loadu_ps(blocks.sums.as_ptr().cast()) };
        Activation {
            low: _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b),
            high: _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b),
            d: four_times(blocks.d),
            s: four_times(blocks.s),
            sums: _mm512_castps_si512(four_times_each(sums)),
        }
    }
}

/// Four floats, each four times.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn four_times(floats: &[f32; 4]) -> __m512 {
    // SAFETY: the array has the size of the vector.
    four_times_each(unsafe { _mm_loadu_ps(floats.as_ptr()) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_times_each(lanes: __m128) -> __m512 {
    let lane_of = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    _mm512_permutexvar_ps(lane_of, _mm512_castps128_ps512(lanes))
}

/// The products of all rows, from the `terms` of a step.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products<const BYTES: usize>(
    rows: Rows<'_>,
    activation: RowQ32<'_>,
    terms: impl Fn([&[u8; BYTES]; 4], Activation) -> __m512,
) {
    let activation = Steps32::new(activation);
    rows.by(|rows: [&[u8]; 4]| {
        let mut lanes = _mm512_setzero_ps();
        steps_of_32(rows, &activation, |blocks, activation, count| {
            let terms = terms(blocks, Activation::load(&activation));
            // Four rows a block.
            let these = u16::MAX >> (16 - 4 * count);
            lanes = _mm512_mask_add_ps(lanes, these, lanes, terms);
        });
        fold_rows(lanes)
    });
}

/// Some of the 16-bit words of `BYTES` bytes, at most 128.
pub(super) struct Words<const BYTES: usize>([u16; 32]);

impl<const BYTES: usize> Words<BYTES> {
    /// These words.
    pub(super) const fn new(words: [usize; 32]) -> Self {
        let mut indices = [0; 32];
        let mut i = 0;
        while i < 32 {
            indices[i] = Self::index(words[i]);
            i += 1;
        }
        Words(indices)
    }

    /// In quarter `b`, the `count` words from `at` on of block `b`, time and again. A block
    /// has `block` words.
    pub(super) const fn of_blocks(block: usize, at: usize, count: usize) -> Self {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            words[i] = Self::index(i / 8 * block + at + i % count);
            i += 1;
        }
        Words(words)
    }

    /// For [`words_of_rows`]: in the lower half, the word at `first` of four blocks, each for
    /// four rows; in the upper half, those at `second`.
    pub(super) const fn for_rows(block: usize, first: usize, second: usize) -> Self {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            words[i] = Self::index(i / 4 % 4 * block + if i < 16 { first } else { second });
            i += 1;
        }
        Words(words)
    }

    /// For [`first_words_of_rows`]: as [`for_rows`](Self::for_rows), of all rows the words
    /// being in the first 64 bytes.
    pub(super) const fn for_pairs(block: usize, first: usize, second: usize) -> Self {
        let Words(mut words) = Self::for_rows(block, first, second);
        let mut i = 1;
        while i < 32 {
            assert!(words[i] < 32);
            words[i] += 32;
            i += 2;
        }
        Words(words)
    }

    /// Where word `word` is in the first 64 bytes (0 to 31) and the last (from 32 on).
    const fn index(word: usize) -> u16 {
        let last = (BYTES - Ends::<BYTES>::LAST) / 2;
        (if word < 32 { word } else { word - last + 32 }) as u16
    }
}

/// Some of `BYTES` bytes, at most 128.
pub(super) struct Bytes<const BYTES: usize>([u8; 64]);

impl<const BYTES: usize> Bytes<BYTES> {
    /// These bytes.
    pub(super) const fn new(bytes: [usize; 64]) -> Self {
        let (last, mut indices) = (BYTES - Ends::<BYTES>::LAST, [0; 64]);
        let mut i = 0;
        while i < 64 {
            // 0 to 63 in the first 64 bytes, from 64 on in the last.
            indices[i] = (if bytes[i] < 64 { bytes[i] } else { bytes[i] - last + 64 }) as u8;
            i += 1;
        }
        Bytes(indices)
    }
}

/// The first 64 bytes and the last of four blocks of a row. Fewer than 64 are loaded of the
/// last where fewer do, since they cross a cache line more seldom.
#[derive(Clone, Copy)]
pub(super) struct Ends<const BYTES: usize> {
    first: __m512i,
    last: __m512i,
}

impl<const BYTES: usize> Ends<BYTES> {
    /// How many of the last bytes are loaded.
    const LAST: usize = match BYTES - 64 {
        ..=16 => 16,
        17..=32 => 32,
        _ => 64,
    };

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn load(blocks: &[u8; BYTES]) -> Self {
        Ends {
            first: load(blocks.first_chunk().unwrap_or(&[0; 64])),
            last: match Self::LAST {
                16 => _mm512_castsi128_si512(load_quarter(blocks.last_chunk().unwrap_or(&[0; 16]))),
                32 => _mm512_castsi256_si512(load_half(blocks.last_chunk().unwrap_or(&[0; 32]))),
                _ => load(blocks.last_chunk().unwrap_or(&[0; 64])),
            },
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn words(self, words: &Words<BYTES>) -> __m512i {
        _mm512_permutex2var_epi16(self.first, load_words(&words.0), self.last)
    }

    /// Words of the first 64 bytes of two rows: those of the first are 0 to 31, those of the
    /// second 32 to 63.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn first_words_of_two([row0, row1]: [Self; 2], words: __m512i) -> __m512i {
        _mm512_permutex2var_epi16(row0.first, words, row1.first)
    }

    /// Those of `bytes` that `mask` has a 1 for; the others are 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
    pub(super) fn bytes(self, mask: u64, bytes: &Bytes<BYTES>) -> __m512i {
        _mm512_maskz_permutex2var_epi8(mask, self.first, load(&bytes.0), self.last)
    }
}

/// Of four rows the words that `words` names: word `4i + r` from row `r`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn words_of_rows<const BYTES: usize>(
    rows: [Ends<BYTES>; 4],
    words: &Words<BYTES>,
) -> __m512i {
    let [row0, row1, row2, row3] = four(rows, |row| row.words(words));
    let rows = _mm512_mask_blend_epi16(0x2222_2222, row0, row1);
    let rows = _mm512_mask_blend_epi16(0x4444_4444, rows, row2);
    _mm512_mask_blend_epi16(0x8888_8888, rows, row3)
}

/// As [`words_of_rows`], from the first 64 bytes of each row, two rows at once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn first_words_of_rows<const BYTES: usize>(
    [row0, row1, row2, row3]: [Ends<BYTES>; 4],
    words: &Words<BYTES>,
) -> __m512i {
    let words = load_words(&words.0);
    let rows01 = Ends::first_words_of_two([row0, row1], words);
    let rows23 = Ends::first_words_of_two([row2, row3], words);
    _mm512_mask_blend_epi32(0xAAAA, rows01, rows23)
}

/// The codes of four blocks of a row, unsigned.
#[derive(Clone, Copy)]
pub(super) struct Codes {
    /// The first 16 of each block.
    pub(super) low: __m512i,
    /// The last 16 of each block.
    pub(super) high: __m512i,
}

impl Codes {
    /// The two codes of each byte.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn nibbles(bytes: __m512i) -> Self {
        let nibble = _mm512_set1_epi8(15);
        Codes {
            low: _mm512_and_si512(bytes, nibble),
            high: _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), nibble),
        }
    }
}

/// As [`Codes::nibbles`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,gfni")]
pub(super) fn nibbles_by_gfni(bytes: __m512i) -> Codes {
    // Bit `i` of the result is bit `i + 4`.
    let high = _mm512_set1_epi64(0x1020_4080_0000_0000);
    Codes {
        low: _mm512_and_si512(bytes, _mm512_set1_epi8(15)),
        high: _mm512_gf2p8affine_epi64_epi8::<0>(bytes, high),
    }
}

/// The exact sum of codes times activation of each block, where weights are `2^OFFSET` less
/// than their codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn sums<const OFFSET: u32>(rows: [Codes; 4], activation: &Activation) -> __m512i {
    let sums = unsigned_sums(rows, activation);
    _mm512_sub_epi32(sums, _mm512_slli_epi32::<OFFSET>(activation.sums))
}

/// The exact sum of codes times activation of each block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn unsigned_sums(rows: [Codes; 4], activation: &Activation) -> __m512i {
    sum_quarters(four(rows, |codes| {
        let sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes.low, activation.low);
        _mm512_dpbusd_epi32(sum, codes.high, activation.high)
    }))
}

/// The terms of blocks without a minimum: `(d * da) * f32(S)`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn scaled(d: __m512, activation: &Activation, sums: __m512i) -> __m512 {
    _mm512_mul_ps(_mm512_mul_ps(d, activation.d), _mm512_cvtepi32_ps(sums))
}

/// The f16 in the lower half of `words`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn low_floats(words: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_castsi512_si256(words))
}
