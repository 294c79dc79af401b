//! Codebooks as two bytes a row, looked up 64 rows at once.

use crate::arch::intrinsics::*;

use hk_core::blocks::codebooks;

/// The magnitudes in the codebooks of iq2, by their 2-bit codes; there is no fourth.
pub(in super::super) const IQ2: [u8; 4] = [8, 25, 43, 0];
/// Those of iq3_xxs, by 3-bit codes.
pub(in super::super) const IQ3_XXS: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
/// Those of iq3_s, by 3-bit codes.
pub(in super::super) const IQ3_S: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// A codebook of `64 * N` rows: two bytes a row, those of the first half of its weights and
/// those of the second.
#[repr(C, align(64))]
pub(super) struct Codebook<const N: usize> {
    first: [[u8; 64]; N],
    second: [[u8; 64]; N],
}

pub(super) static BOOK_IQ2_XXS: Codebook<4> = codebook(&codebooks::IQ2_XXS, &IQ2);
pub(super) static BOOK_IQ2_XS: Codebook<8> = codebook(&codebooks::IQ2_XS, &IQ2);
pub(super) static BOOK_IQ2_S: Codebook<16> = codebook(&codebooks::IQ2_S, &IQ2);
pub(super) static BOOK_IQ3_XXS: Codebook<4> = codebook(&codebooks::IQ3_XXS, &IQ3_XXS);
pub(super) static BOOK_IQ3_S: Codebook<8> = codebook(&codebooks::IQ3_S, &IQ3_S);

/// Rows of `R` magnitudes, each replaced by its place in `magnitudes`.
const fn codebook<const R: usize, const ROWS: usize, const N: usize>(
    rows: &[[u8; R]; ROWS],
    magnitudes: &[u8],
) -> Codebook<N> {
    assert!(ROWS == 64 * N);
    let mut book = Codebook { first: [[0; 64]; N], second: [[0; 64]; N] };
    let mut row = 0;
    while row < ROWS {
        book.first[row / 64][row % 64] = codes(&rows[row], 0, magnitudes);
        book.second[row / 64][row % 64] = codes(&rows[row], R / 2, magnitudes);
        row += 1;
    }
    book
}

/// Half a row of `R` from weight `from` on, in one byte, lowest bits first.
const fn codes<const R: usize>(row: &[u8; R], from: usize, magnitudes: &[u8]) -> u8 {
    let bits = 16 / R;
    let (mut byte, mut i) = (0, 0);
    while i < R / 2 {
        let mut code = 0;
        while magnitudes[code] != row[from + i] {
            code += 1;
        }
        assert!(code < 1 << bits);
        byte |= (code << (i * bits)) as u8;
        i += 1;
    }
    byte
}

impl<const N: usize> Codebook<N> {
    /// The two bytes of 64 rows, of which `low` has the numbers modulo 256, and `high` bits 8
    /// and 9.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn look_up(&self, low: __m512i, high: [__mmask64; 2]) -> [__m512i; 2] {
        [look_up(&self.first, low, high), look_up(&self.second, low, high)]
    }
}

/// As [`Codebook::look_up`], of one byte a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up<const N: usize>(
    table: &[[u8; 64]; N],
    low: __m512i,
    [bit8, bit9]: [__mmask64; 2],
) -> __m512i {
    let (parts, _) = table.as_chunks::<4>();
    match parts {
        [a] => look_up_256(a, low),
        [a, b] => _mm512_mask_blend_epi8(bit8, look_up_256(a, low), look_up_256(b, low)),
        [a, b, c, d] => {
            let ab = _mm512_mask_blend_epi8(bit8, look_up_256(a, low), look_up_256(b, low));
            let cd = _mm512_mask_blend_epi8(bit8, look_up_256(c, low), look_up_256(d, low));
            _mm512_mask_blend_epi8(bit9, ab, cd)
        }
        // No codebook has another size.
        _ => low,
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up_256([a, b, c, d]: &[[u8; 64]; 4], rows: __m512i) -> __m512i {
    use super::super::vector::load;
    let lower = _mm512_permutex2var_epi8(load(a), rows, load(b));
    let upper = _mm512_permutex2var_epi8(load(c), rows, load(d));
    _mm512_mask_blend_epi8(_mm512_movepi8_mask(rows), lower, upper)
}
