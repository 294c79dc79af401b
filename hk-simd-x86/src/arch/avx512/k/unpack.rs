//! Scales and codes of K-quants, out of their bits.

use crate::arch::intrinsics::*;

use crate::arch::avx512::vector::{load_at, load_half_at};

/// `a | (b & c)`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch::avx512) fn or_and(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(a, b, c)
}

/// The bits of `a` where `mask` has ones, those of `b` elsewhere.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch::avx512) fn select(mask: u8, a: __m512i, b: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1110_0100>(a, b, _mm512_set1_epi8(mask as i8))
}

/// `a` with the bits of `mask` alone.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch::avx512) fn only(mask: u8, a: __m512i) -> __m512i {
    _mm512_and_si512(a, _mm512_set1_epi8(mask as i8))
}

/// 32 bytes in both halves, the bits of the lower ones `low` to the left, of the upper ones
/// `high` (to the right, where negative). What leaves a byte is of no use.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::arch::avx512) fn moved(halves: __m512i, low: i32, high: i32) -> __m512i {
    let low_counts = _mm512_set1_epi32(low);
    _mm512_rolv_epi32(halves, _mm512_mask_set1_epi32(low_counts, 0xFF00, high))
}

/// The scales and minimums of four blocks, one in each quarter, that begin with `d`, `dmin`
/// and the packed scales: 8 bytes of scales and 8 of minimums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::arch::avx512) fn scales_and_minimums(heads: __m512i) -> __m512i {
    // Of the first four scales, the last four, and the minimums likewise: what has their low
    // bits, and what has the two above them.
    let low = _mm512_shuffle_epi32::<0b11_10_11_01>(heads);
    let high = _mm512_shuffle_epi32::<0b10_00_01_00>(heads);
    let of_each = |a, b, c, d| _mm512_set_epi32(d, c, b, a, d, c, b, a, d, c, b, a, d, c, b, a);
    let low = _mm512_srlv_epi32(low, of_each(0, 0, 0, 4));
    let low = _mm512_and_si512(low, of_each(0x3F3F_3F3F, 0x0F0F_0F0F, 0x3F3F_3F3F, 0x0F0F_0F0F));
    or_and(low, _mm512_srli_epi32::<2>(high), of_each(0, 0x3030_3030, 0, 0x3030_3030))
}

/// The 16 scales, -32 to 31, of each quarter, whose bytes 2 to 13 are the packed scales.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::arch::avx512) fn scales_q3_k(tails: __m512i) -> __m512i {
    let lows = _mm_set_epi8(9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2);
    let highs = _mm_set1_epi32(0x0D0C_0B0A);
    let low = _mm512_shuffle_epi8(tails, _mm512_broadcast_i32x4(lows));
    let low = _mm512_srlv_epi64(low, _mm512_broadcast_i32x4(_mm_set_epi64x(4, 0)));
    let high = _mm512_shuffle_epi8(tails, _mm512_broadcast_i32x4(highs));
    let high = _mm512_rolv_epi32(high, _mm512_broadcast_i32x4(_mm_set_epi32(-2, 0, 2, 4)));
    _mm512_sub_epi8(only(0x3F, select(0x0F, low, high)), _mm512_set1_epi8(32))
}

/// The codes of `q3_k`, 0 to 7: those in the lowest two bits of 64 bytes, in the next two, and
/// so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::arch::avx512) fn codes_q3_k(block: &[u8; 110]) -> [__m512i; 4] {
    let thirds = _mm512_broadcast_i64x4(load_half_at::<0, 110>(block));
    let a = load_at::<32, 110>(block);
    let (b, c) = (_mm512_srli_epi16::<2>(a), _mm512_srli_epi16::<4>(a));
    let d = _mm512_srli_epi16::<6>(a);
    // Bits 0 to 3 of the first 128 weights, 4 to 7 of the others, to the place of 4.
    [
        only(0x07, select(0x03, a, moved(thirds, 2, -2))),
        only(0x07, select(0x03, b, moved(thirds, 1, -3))),
        only(0x07, select(0x03, c, moved(thirds, 0, -4))),
        only(0x07, select(0x03, d, moved(thirds, -1, -5))),
    ]
}

/// The codes of `q5_k`: those of the low nibbles of 64 bytes, and of the high ones, twice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::arch::avx512) fn codes_q5_k(block: &[u8; 176]) -> [__m512i; 4] {
    let fifths = _mm512_broadcast_i64x4(load_half_at::<16, 176>(block));
    let (a, b) = (load_at::<48, 176>(block), load_at::<112, 176>(block));
    let (a_high, b_high) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
    // Bit `j` of sub-block `j`, to the place of 16.
    [
        only(0x1F, select(0x0F, a, moved(fifths, 4, 2))),
        only(0x1F, select(0x0F, a_high, moved(fifths, 3, 1))),
        only(0x1F, select(0x0F, b, moved(fifths, 0, -2))),
        only(0x1F, select(0x0F, b_high, moved(fifths, -1, -3))),
    ]
}

/// The codes of `q6_k`, 0 to 63, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::arch::avx512) fn codes_q6_k(block: &[u8; 210]) -> [__m512i; 4] {
    let (a, b) = (load_at::<0, 210>(block), load_at::<64, 210>(block));
    let a_bits = _mm512_broadcast_i64x4(load_half_at::<128, 210>(block));
    let b_bits = _mm512_broadcast_i64x4(load_half_at::<160, 210>(block));
    let (a_high, b_high) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
    // Two bits for each 32 weights, to the place of 16.
    [
        only(0x3F, select(0x0F, a, moved(a_bits, 4, 2))),
        only(0x3F, select(0x0F, a_high, moved(a_bits, 0, -2))),
        only(0x3F, select(0x0F, b, moved(b_bits, 4, 2))),
        only(0x3F, select(0x0F, b_high, moved(b_bits, 0, -2))),
    ]
}
