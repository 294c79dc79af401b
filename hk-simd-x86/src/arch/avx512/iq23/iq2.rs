//! iq2_xxs, iq2_xs, iq2_s: rows of eight. Two blocks at a time, whose 64 rows are looked up at
//! once.

use crate::arch::intrinsics::*;

use super::super::vector::{load_at, load_half_at};
use super::codebook::{BOOK_IQ2_S, BOOK_IQ2_XS, BOOK_IQ2_XXS, Codebook};
use super::{Eights, even_signs, spread};

/// The codes of two blocks. `rows` has eight rows of the first block in the low half of each
/// quarter, and eight of the second in the high one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn codes<const N: usize>(
    book: &Codebook<N>,
    rows: __m512i,
    high: [__mmask64; 2],
) -> [[__m512i; 4]; 2] {
    let [first, second] = book.look_up(rows, high);
    let words = [_mm512_unpacklo_epi8(first, second), _mm512_unpackhi_epi8(first, second)];
    words.map(|rows| {
        [spread::<0, 2>(rows), spread::<16, 2>(rows), spread::<32, 2>(rows), spread::<48, 2>(rows)]
    })
}

/// Two blocks of iq2_xxs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(in super::super) fn pair_xxs(blocks: [&[u8; 66]; 2]) -> [Eights; 2] {
    let [a, b] = blocks.map(|block| load_at::<2, 66>(block));
    // The lower 32-bit lanes of both.
    let (a_lanes, b_lanes) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
    let rows = _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(a_lanes, b_lanes));
    let [codes_a, codes_b] = codes(&BOOK_IQ2_XXS, rows, [0; 2]);
    [
        Eights { codes: codes_a, signs: even_signs::<0>(spread::<32, 7>(a)) },
        Eights { codes: codes_b, signs: even_signs::<0>(spread::<32, 7>(b)) },
    ]
}

/// Twice the scale of each group of a block of iq2_xxs, in the low bits of its 64-bit lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in super::super) fn nibbles_xxs(block: &[u8; 66]) -> __m512i {
    _mm512_srli_epi64::<59>(load_at::<2, 66>(block))
}

/// For the low halves of quarters of two vectors one byte of two: the low halves of the
/// result's quarters from the first vector, the high ones from the second.
const fn every_second(first: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (quarter, half, byte) = (i / 16, i / 8 % 2, i % 8);
        bytes[i] = (64 * half + 16 * quarter + 2 * byte + first) as u8;
        i += 1;
    }
    bytes
}

/// Two blocks of iq2_xs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(in super::super) fn pair_xs(blocks: [&[u8; 74]; 2]) -> [Eights; 2] {
    static LOW: [u8; 64] = every_second(0);
    static HIGH: [u8; 64] = every_second(1);
    let [a, b] = blocks.map(|block| load_at::<2, 74>(block));
    let rows = _mm512_permutex2var_epi8(a, load_at::<0, 64>(&LOW), b);
    let high = _mm512_permutex2var_epi8(a, load_at::<0, 64>(&HIGH), b);
    let bit8 = _mm512_test_epi8_mask(high, _mm512_set1_epi8(1));
    let [codes_a, codes_b] = codes(&BOOK_IQ2_XS, rows, [bit8, 0]);
    let signs = even_signs::<1>(high);
    [
        Eights { codes: codes_a, signs: _mm512_unpacklo_epi32(signs, signs) },
        Eights { codes: codes_b, signs: _mm512_unpackhi_epi32(signs, signs) },
    ]
}

/// Two blocks of iq2_s.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
pub(in super::super) fn pair_s(blocks: [&[u8; 82]; 2]) -> [Eights; 2] {
    let [a, b] = blocks.map(|block| load_at::<2, 82>(block));
    let rows = _mm512_permutex2var_epi64(a, _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), b);
    // Two bits a row, those of the first block in even 64-bit lanes.
    let [high_a, high_b] =
        blocks.map(|[.., h0, h1, h2, h3, h4, h5, h6, h7, _, _, _, _, _, _, _, _]| {
            i64::from_le_bytes([*h0, *h1, *h2, *h3, *h4, *h5, *h6, *h7])
        });
    let high = _mm512_broadcast_i32x4(_mm_set_epi64x(high_b, high_a));
    static BITS: [u8; 64] = {
        let mut bits = [0; 64];
        let mut i = 0;
        while i < 64 {
            bits[i] = (2 * (i / 16 * 8 + i % 8)) as u8;
            i += 1;
        }
        bits
    };
    let bits = load_at::<0, 64>(&BITS);
    let bit8 = _mm512_bitshuffle_epi64_mask(high, bits);
    let bit9 = _mm512_bitshuffle_epi64_mask(high, _mm512_or_si512(bits, _mm512_set1_epi8(1)));
    let [codes_a, codes_b] = codes(&BOOK_IQ2_S, rows, [bit8, bit9]);
    let [signs_a, signs_b] =
        blocks.map(|block| _mm512_cvtepu32_epi64(load_half_at::<34, 82>(block)));
    [Eights { codes: codes_a, signs: signs_a }, Eights { codes: codes_b, signs: signs_b }]
}
