//! Ternary blocks: codes 0 to 2, whose offset of 1 goes by the sum of the activation's codes.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::vector::{load_at, load_codes_at, load_part, load_quarters_at};
use super::by_256::{Block, Products, products, rows_in_quarters};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::TQ1_0 => DotRows::Q256(tq1_0),
        StorageType::TQ2_0 => DotRows::Q256(tq2_0),
        _ => return None,
    })
}

/// In each quarter four integers whose sum is that of the codes of an activation block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn whole_sum(block: Block<'_>) -> __m512i {
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) };
    let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    let (low, high) = (_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    _mm512_broadcast_i32x4(_mm_add_epi32(low, high))
}

/// In word 0 of each quarter the last word of a block, from the last 16 bytes of each of four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn last_words(blocks: __m512i) -> __m512i {
    _mm512_bsrli_epi128::<14>(blocks)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tq2_0(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 66]; 4], block| {
        let q = quarters(block.q);
        let sums = rows_in_quarters([
            row_tq2_0(rows[0], q),
            row_tq2_0(rows[1], q),
            row_tq2_0(rows[2], q),
            row_tq2_0(rows[3], q),
        ]);
        Products {
            sums: _mm512_sub_epi32(sums, whole_sum(block)),
            scales: last_words(load_quarters_at::<50, 66>(rows)),
        }
    });
}

/// The codes that meet the lowest two bits of each byte of a `tq2_0` block, the next, and so on:
/// each 32 of the first 128 and as many of the last.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn quarters(q: &[i8; 256]) -> [__m512i; 4] {
    const LAST: __mmask8 = 0xF0;
    [
        _mm512_mask_mov_epi64(load_codes_at::<0, 256>(q), LAST, load_codes_at::<96, 256>(q)),
        _mm512_mask_mov_epi64(load_codes_at::<32, 256>(q), LAST, load_codes_at::<128, 256>(q)),
        _mm512_mask_mov_epi64(load_codes_at::<64, 256>(q), LAST, load_codes_at::<160, 256>(q)),
        _mm512_mask_mov_epi64(load_codes_at::<96, 256>(q), LAST, load_codes_at::<192, 256>(q)),
    ]
}

/// The products of the codes of a block with `q`, by sixteen partial sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn row_tq2_0(block: &[u8; 66], q: [__m512i; 4]) -> __m512i {
    let two_bits = _mm512_set1_epi8(3);
    let codes = load_at::<0, 66>(block);
    let first = _mm512_and_si512(codes, two_bits);
    let second = _mm512_and_si512(_mm512_srli_epi16::<2>(codes), two_bits);
    let third = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), two_bits);
    let fourth = _mm512_and_si512(_mm512_srli_epi16::<6>(codes), two_bits);
    let sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, q[0]);
    let sum = _mm512_dpbusd_epi32(sum, second, q[1]);
    let sum = _mm512_dpbusd_epi32(sum, third, q[2]);
    _mm512_dpbusd_epi32(sum, fourth, q[3])
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tq1_0(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 54]; 4], block| {
        let q = digits(block.q);
        let sums = rows_in_quarters([
            row_tq1_0(rows[0], q),
            row_tq1_0(rows[1], q),
            row_tq1_0(rows[2], q),
            row_tq1_0(rows[3], q),
        ]);
        Products {
            sums: _mm512_sub_epi32(_mm512_srai_epi32::<8>(sums), whole_sum(block)),
            scales: last_words(load_quarters_at::<38, 54>(rows)),
        }
    });
}

/// The codes that meet the first base-3 digit of each byte of a `tq1_0` block, the second, and so
/// on, and zeros where there is no digit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn digits(q: &[i8; 256]) -> [__m512i; 5] {
    let last = load_codes_at::<192, 256>(q);
    let none = _mm512_setzero_si512();
    [
        digit(load_codes_at::<0, 256>(q), load_codes_at::<128, 256>(q), last),
        digit(
            load_codes_at::<32, 256>(q),
            load_codes_at::<144, 256>(q),
            _mm512_shuffle_epi32::<1>(last),
        ),
        digit(
            load_codes_at::<64, 256>(q),
            load_codes_at::<160, 256>(q),
            _mm512_shuffle_epi32::<2>(last),
        ),
        digit(
            load_codes_at::<96, 256>(q),
            load_codes_at::<176, 256>(q),
            _mm512_shuffle_epi32::<3>(last),
        ),
        digit(load_codes_at::<128, 256>(q), load_codes_at::<192, 256>(q), none),
    ]
}

/// The first 32 bytes, the next 16 and the next 4, each of another vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn digit(first: __m512i, second: __m512i, third: __m512i) -> __m512i {
    let codes = _mm512_maskz_mov_epi32(0x00FF, first);
    let codes = _mm512_mask_mov_epi32(codes, 0x0F00, second);
    _mm512_mask_mov_epi32(codes, 0x1000, third)
}

/// 256 times the products of the digits of a block with `q`, by sixteen partial sums.
///
/// No digit is looked at: with r what is left of a byte before a digit, and s after it, 3r is
/// 256 times the digit plus s, so the digits' products are three times those of all r less those
/// of all s, as whole numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn row_tq1_0(block: &[u8; 54], q: [__m512i; 5]) -> __m512i {
    let zero = _mm512_setzero_si512();
    let mut rest = load_part(block);
    let (mut before, mut after) = (zero, zero);
    for q in q {
        before = _mm512_dpbusd_epi32(before, rest, q);
        rest = _mm512_add_epi8(rest, _mm512_add_epi8(rest, rest));
        after = _mm512_dpbusd_epi32(after, rest, q);
    }
    let thrice = _mm512_add_epi32(before, _mm512_add_epi32(before, before));
    _mm512_sub_epi32(thrice, after)
}
