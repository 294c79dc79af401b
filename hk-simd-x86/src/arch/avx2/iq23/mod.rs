//! Blocks of 256 weights as rows of a codebook with signs (blocks.md, "256 weights,
//! I-quants"): iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s.
//!
//! The rows of a group of 32 are loaded one by one, which takes no longer than a gather; signs
//! and scales of a block are made at once.

mod decode;

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::blocks::codebooks;

use super::vector::{load, load_at, load_half_at};
use crate::arch::call::Decode;

/// The decoder of a type.
pub(in crate::arch) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::IQ2_XXS => decode::iq2_xxs,
        StorageType::IQ2_XS => decode::iq2_xs,
        StorageType::IQ2_S => decode::iq2_s,
        StorageType::IQ3_XXS => decode::iq3_xxs,
        StorageType::IQ3_S => decode::iq3_s,
        _ => return None,
    })
}

/// The signs of a block.
#[derive(Clone, Copy)]
pub(super) struct Signs {
    /// The sign bytes of the first four groups, in both halves, and those of the last four.
    bytes: [__m256i; 2],
}

impl Signs {
    /// The 32 sign bytes of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bytes: __m256i) -> Self {
        let first = _mm256_permute4x64_epi64::<0b01_00_01_00>(bytes);
        Signs { bytes: [first, _mm256_permute4x64_epi64::<0b11_10_11_10>(bytes)] }
    }

    /// Those of 7-bit indexes: bit 7 makes the number of ones even.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn even(indexes: __m256i) -> Self {
        // Bit 7 where the number of ones in four bits is odd.
        let parities = _mm256_setr_epi8(
            0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0, 0, -128, -128,
            0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0,
        );
        let folded = _mm256_xor_si256(indexes, _mm256_srli_epi16::<4>(indexes));
        let parity = _mm256_shuffle_epi8(parities, _mm256_and_si256(folded, _mm256_set1_epi8(15)));
        Self::new(_mm256_or_si256(indexes, parity))
    }

    /// Those of four 7-bit indexes in the low bits of each 32-bit lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn packed(lanes: __m256i) -> Self {
        let byte = |lanes, mask| _mm256_and_si256(lanes, _mm256_set1_epi32(mask));
        let low = _mm256_or_si256(byte(lanes, 0x7F), byte(_mm256_slli_epi32::<1>(lanes), 0x7F00));
        let high = _mm256_or_si256(
            byte(_mm256_slli_epi32::<2>(lanes), 0x7F_0000),
            byte(_mm256_slli_epi32::<3>(lanes), 0x7F00_0000),
        );
        Self::even(_mm256_or_si256(low, high))
    }

    /// -1 for each weight of group `G` that is negative, 1 for the others.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn of<const G: usize>(&self) -> __m256i {
        let each = load(const { &each_eight(4 * (G % 4)) });
        let bits = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
        let signs = _mm256_shuffle_epi8(self.bytes[G / 4], each);
        let negative = _mm256_cmpeq_epi8(_mm256_and_si256(signs, bits), bits);
        _mm256_or_si256(negative, _mm256_set1_epi8(1))
    }
}

/// Four bytes from `from` on, each eight times.
const fn each_eight(from: usize) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = (from + i / 8) as u8;
        i += 1;
    }
    bytes
}

/// The rows of a codebook that make up a group.
#[inline]
#[target_feature(enable = "avx2")]
fn eights<const N: usize>(book: &[[u8; 8]; N], rows: [usize; 4]) -> __m256i {
    let [a, b, c, d] = rows.map(|row| i64::from_le_bytes(book[row % N]));
    _mm256_set_epi64x(d, c, b, a)
}

/// As [`eights`], of a codebook of rows of four.
#[inline]
#[target_feature(enable = "avx2")]
fn fours<const N: usize>(book: &[[u8; 4]; N], rows: [usize; 8]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = rows.map(|row| i32::from_le_bytes(book[row % N]));
    _mm256_set_epi32(h, g, f, e, d, c, b, a)
}

/// What a block has beside its rows.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) signs: Signs,
    /// Twice the scales and one, as words, each twice: in the low half those of the first 16
    /// weights of four groups, in the high half those of the last 16.
    pub(super) scales: [__m256i; 2],
}

/// As [`Parts`] has them, of scales as words: in the low half those of the first 16 weights of
/// each group, in the high half those of the last 16.
#[inline]
#[target_feature(enable = "avx2")]
fn odd(words: __m256i) -> [__m256i; 2] {
    let odd = _mm256_or_si256(_mm256_slli_epi16::<1>(words), _mm256_set1_epi16(1));
    [_mm256_unpacklo_epi16(odd, odd), _mm256_unpackhi_epi16(odd, odd)]
}

/// As [`Parts`] has them, of scales for groups, one in each 32-bit lane.
#[inline]
#[target_feature(enable = "avx2")]
fn scales_of_32(lanes: __m256i) -> [__m256i; 2] {
    let words = _mm256_packus_epi32(lanes, lanes);
    odd(_mm256_permute4x64_epi64::<0b10_00_10_00>(words))
}

/// As [`Parts`] has them, of two scales a byte for each group.
#[inline]
#[target_feature(enable = "avx2")]
fn scales_of_16(nibbles: [u8; 8]) -> [__m256i; 2] {
    let words = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(i64::from_le_bytes(nibbles)));
    let first = _mm_and_si128(words, _mm_set1_epi16(15));
    odd(_mm256_set_m128i(_mm_srli_epi16::<4>(words), first))
}

/// `N` bytes of a block from `at` on.
#[inline(always)]
fn bytes<const N: usize, const BLOCK: usize>(block: &[u8; BLOCK], at: usize) -> [u8; N] {
    core::array::from_fn(|i| block[at + i])
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn parts_iq2_xxs(block: &[u8; 66]) -> Parts {
    let (a, b) = (load_at::<2, 66>(block), load_at::<34, 66>(block));
    let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    // The upper 32-bit lanes.
    let lanes = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
    let lanes = _mm256_permute4x64_epi64::<0b11_01_10_00>(lanes);
    Parts { signs: Signs::packed(lanes), scales: scales_of_32(_mm256_srli_epi32::<28>(lanes)) }
}

/// The magnitudes of group `g`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_iq2_xxs(block: &[u8; 66], g: usize) -> __m256i {
    eights(&codebooks::IQ2_XXS, bytes::<4, 66>(block, 2 + 8 * g).map(usize::from))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn parts_iq2_xs(block: &[u8; 74]) -> Parts {
    let (a, b) = (load_at::<2, 74>(block), load_at::<34, 74>(block));
    let indexes = _mm256_packus_epi16(_mm256_srli_epi16::<9>(a), _mm256_srli_epi16::<9>(b));
    let indexes = _mm256_permute4x64_epi64::<0b11_01_10_00>(indexes);
    Parts { signs: Signs::even(indexes), scales: scales_of_16(bytes(block, 66)) }
}

/// The magnitudes of group `g`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_iq2_xs(block: &[u8; 74], g: usize) -> __m256i {
    let [a0, a1, b0, b1, c0, c1, d0, d1] = bytes(block, 2 + 8 * g);
    let row = |bytes| usize::from(u16::from_le_bytes(bytes) & 511);
    eights(&codebooks::IQ2_XS, [row([a0, a1]), row([b0, b1]), row([c0, c1]), row([d0, d1])])
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn parts_iq2_s(block: &[u8; 82]) -> Parts {
    let signs = Signs::new(load_at::<34, 82>(block));
    Parts { signs, scales: scales_of_16(bytes(block, 74)) }
}

/// The magnitudes of group `g`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_iq2_s(block: &[u8; 82], g: usize) -> __m256i {
    let [a, b, c, d] = bytes::<4, 82>(block, 2 + 4 * g).map(usize::from);
    let high = usize::from(block[66 + g]);
    let bits = |shifted| shifted & 0x300;
    eights(
        &codebooks::IQ2_S,
        [a | bits(high << 8), b | bits(high << 6), c | bits(high << 4), d | bits(high << 2)],
    )
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn parts_iq3_xxs(block: &[u8; 98]) -> Parts {
    let lanes = load_at::<66, 98>(block);
    Parts { signs: Signs::packed(lanes), scales: scales_of_32(_mm256_srli_epi32::<28>(lanes)) }
}

/// The magnitudes of group `g`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_iq3_xxs(block: &[u8; 98], g: usize) -> __m256i {
    fours(&codebooks::IQ3_XXS, bytes::<8, 98>(block, 2 + 8 * g).map(usize::from))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn parts_iq3_s(block: &[u8; 110]) -> Parts {
    let nibbles = _mm256_set1_epi32(i32::from_le_bytes(bytes(block, 106)));
    let lanes = _mm256_srlv_epi32(nibbles, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    let scales = scales_of_32(_mm256_and_si256(lanes, _mm256_set1_epi32(15)));
    Parts { signs: Signs::new(load_at::<74, 110>(block)), scales }
}

/// The rows of all groups, as words.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn rows_iq3_s(block: &[u8; 110]) -> [__m256i; 4] {
    let high = _mm256_set1_epi64x(i64::from_le_bytes(bytes(block, 66)));
    [
        rows_of_two_groups::<0, 2>(block, high),
        rows_of_two_groups::<2, 18>(block, high),
        rows_of_two_groups::<4, 34>(block, high),
        rows_of_two_groups::<6, 50>(block, high),
    ]
}

/// The rows of groups `G` and `G + 1`, whose low bytes stand from byte `AT` on.
#[inline]
#[target_feature(enable = "avx2")]
fn rows_of_two_groups<const G: usize, const AT: usize>(
    block: &[u8; 110],
    high: __m256i,
) -> __m256i {
    let low = _mm256_cvtepu8_epi16(load_half_at::<AT, 110>(block));
    // The byte of each group in all its words, of which each takes another bit.
    let each = load(const { &each_sixteen([G as u8, G as u8 + 1]) });
    let bits = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128);
    let high = _mm256_and_si256(_mm256_shuffle_epi8(high, each), bits);
    let high = _mm256_and_si256(_mm256_cmpeq_epi16(high, bits), _mm256_set1_epi16(0x100));
    _mm256_or_si256(low, high)
}

/// Each byte sixteen times.
const fn each_sixteen(two: [u8; 2]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = two[i / 16];
        i += 1;
    }
    bytes
}

/// The magnitudes of group `g`, of `rows` as [`rows_iq3_s`] has them.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_iq3_s(rows: [__m256i; 4], g: usize) -> __m256i {
    let two = rows[g / 2];
    let rows = match g % 2 {
        0 => _mm256_castsi256_si128(two),
        _ => _mm256_extracti128_si256::<1>(two),
    };
    let four = |words: i64| [words, words >> 16, words >> 32, words >> 48].map(|w| w as usize);
    let [a, b, c, d] = four(_mm_cvtsi128_si64(rows));
    let [e, f, g, h] = four(_mm_extract_epi64::<1>(rows));
    // Taken modulo the 512 rows there are.
    fours(&codebooks::IQ3_S, [a, b, c, d, e, f, g, h])
}
