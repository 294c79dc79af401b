//! iq3_xxs, iq3_s: rows of four, of which a block has 64.

use crate::arch::intrinsics::*;

use super::super::vector::{load_at, load_half_at};
use super::codebook::{BOOK_IQ3_S, BOOK_IQ3_XXS, Codebook};
use super::{Eights, even_signs, spread};

/// The codes of a block. In each quarter of `rows` stand the first four rows of two groups,
/// then the last four of both.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn codes<const N: usize>(book: &Codebook<N>, rows: __m512i, high: [__mmask64; 2]) -> [__m512i; 4] {
    let [first, second] = book.look_up(rows, high);
    // Sixteen weights of each group.
    let low = _mm512_unpacklo_epi8(first, second);
    let high = _mm512_unpackhi_epi8(first, second);
    [spread::<0, 4>(low), spread::<32, 4>(low), spread::<0, 4>(high), spread::<32, 4>(high)]
}

/// A block of iq3_xxs, and twice the scale of each group in the low bits of its 64-bit lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(in super::super) fn unpack_xxs(block: &[u8; 98]) -> (Eights, __m512i) {
    let rows = _mm512_shuffle_epi32::<0b11_01_10_00>(load_at::<2, 98>(block));
    let signs = _mm512_cvtepu32_epi64(load_half_at::<66, 98>(block));
    let eights = Eights {
        codes: codes(&BOOK_IQ3_XXS, rows, [0; 2]),
        signs: even_signs::<0>(spread::<0, 7>(signs)),
    };
    (eights, _mm512_srli_epi64::<27>(signs))
}

/// A block of iq3_s.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
pub(in super::super) fn unpack_s(block: &[u8; 110]) -> Eights {
    // Of the bit of each row, in the order of the rows below.
    static BITS: [u8; 64] = {
        let mut bits = [0; 64];
        let mut i = 0;
        while i < 64 {
            let (quarter, lane, byte) = (i / 16, i / 4 % 4, i % 4);
            bits[i] = (16 * quarter + [0, 8, 4, 12][lane] + byte) as u8;
            i += 1;
        }
        bits
    };
    let rows = _mm512_shuffle_epi32::<0b11_01_10_00>(load_at::<2, 110>(block));
    let high: [u8; 8] = core::array::from_fn(|i| block[66 + i]);
    let high = _mm512_set1_epi64(i64::from_le_bytes(high));
    let bit8 = _mm512_bitshuffle_epi64_mask(high, load_at::<0, 64>(&BITS));
    Eights {
        codes: codes(&BOOK_IQ3_S, rows, [bit8, 0]),
        signs: _mm512_cvtepu32_epi64(load_half_at::<74, 110>(block)),
    }
}

/// Twice the scale of each group of a block of iq3_s, in the low bits of its 64-bit lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in super::super) fn nibbles_s(block: &[u8; 110]) -> __m512i {
    let nibbles = i32::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 4]));
    // The lowest is at bit 1 then.
    let doubled = _mm512_set1_epi64(i64::from(nibbles as u32) << 1);
    _mm512_srlv_epi64(doubled, _mm512_set_epi64(28, 24, 20, 16, 12, 8, 4, 0))
}
