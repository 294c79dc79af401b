//! Ternary blocks. Products of single codes are small, so that those of a whole block are added up
//! in words of 16 bits.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::vector::{load_at, load_codes, load_half_at, load_halves_at};
use super::by_256::{Block, Products, products, rows_in_halves};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::TQ1_0 => DotRows::Q256(tq1_0),
        StorageType::TQ2_0 => DotRows::Q256(tq2_0),
        _ => return None,
    })
}

/// In word 0 of each half the last word of a block, from the last 16 bytes of each of two.
#[inline]
#[target_feature(enable = "avx2")]
fn last_words(blocks: __m256i) -> __m256i {
    _mm256_bsrli_epi128::<14>(blocks)
}

/// Pairs of words added up.
#[inline]
#[target_feature(enable = "avx2")]
fn in_pairs(words: __m256i) -> __m256i {
    _mm256_madd_epi16(words, _mm256_set1_epi16(1))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn tq2_0(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 66]; 2], block: Block<'_>| {
        let sums = rows_in_halves([row_tq2_0(rows[0], block.q), row_tq2_0(rows[1], block.q)]);
        // The offset of 1 of each code.
        // SAFETY: the array has the size of the vector.
        let offsets = in_pairs(unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) });
        let offsets =
            _mm256_add_epi32(offsets, _mm256_permute2x128_si256::<0x01>(offsets, offsets));
        Products {
            sums: _mm256_sub_epi32(sums, offsets),
            scales: last_words(load_halves_at::<50, 66>(rows)),
        }
    });
}

/// The products of the codes of a block, with their offset, by eight partial sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn row_tq2_0(block: &[u8; 66], q: &[i8; 256]) -> __m256i {
    let (q, _) = q.as_chunks::<32>();
    let first = load_at::<0, 66>(block);
    let last = load_at::<32, 66>(block);
    let add = |a, b| _mm256_add_epi16(a, b);
    let first = add(
        add(two_bits(first, &q[0]), two_bits(_mm256_srli_epi16::<2>(first), &q[1])),
        add(
            two_bits(_mm256_srli_epi16::<4>(first), &q[2]),
            two_bits(_mm256_srli_epi16::<6>(first), &q[3]),
        ),
    );
    let last = add(
        add(two_bits(last, &q[4]), two_bits(_mm256_srli_epi16::<2>(last), &q[5])),
        add(
            two_bits(_mm256_srli_epi16::<4>(last), &q[6]),
            two_bits(_mm256_srli_epi16::<6>(last), &q[7]),
        ),
    );
    in_pairs(add(first, last))
}

/// The lowest two bits of each byte times `q`, in sums of two.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn two_bits(codes: __m256i, q: &[i8; 32]) -> __m256i {
    _mm256_maddubs_epi16(_mm256_and_si256(codes, _mm256_set1_epi8(3)), load_codes(q))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn tq1_0(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 54]; 2], block: Block<'_>| {
        let (q, _) = block.q.as_chunks::<32>();
        let rest = rest(q);
        Products {
            sums: rows_in_halves([row_tq1_0(rows[0], q, rest), row_tq1_0(rows[1], q, rest)]),
            scales: last_words(load_halves_at::<38, 54>(rows)),
        }
    });
}

/// The codes that meet the first digit of each of the last 20 bytes of a block, the second, and
/// so on, in their lower 20 bytes, and zeros where there is no digit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn rest(q: &[[i8; 32]]) -> [__m256i; 5] {
    let (a, b, c) = (load_codes(&q[5]), load_codes(&q[6]), load_codes(&q[7]));
    let (last, none) = (_mm256_extracti128_si256::<1>(c), _mm_setzero_si128());
    let both = |sixteen: __m128i, four: __m128i| {
        _mm256_set_m128i(_mm_blend_epi32::<0b0001>(_mm_setzero_si128(), four), sixteen)
    };
    [
        both(_mm256_castsi256_si128(a), last),
        both(_mm256_extracti128_si256::<1>(a), _mm_bsrli_si128::<4>(last)),
        both(_mm256_castsi256_si128(b), _mm_bsrli_si128::<8>(last)),
        both(_mm256_extracti128_si256::<1>(b), _mm_bsrli_si128::<12>(last)),
        both(_mm256_castsi256_si128(c), none),
    ]
}

/// The products of the digits of a block, less 1 each, by eight partial sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn row_tq1_0(block: &[u8; 54], q: &[[i8; 32]], rest: [__m256i; 5]) -> __m256i {
    let four = i32::from_le_bytes([block[48], block[49], block[50], block[51]]);
    let last = _mm256_set_m128i(_mm_cvtsi32_si128(four), load_half_at::<32, 54>(block));
    let q = [
        load_codes(&q[0]),
        load_codes(&q[1]),
        load_codes(&q[2]),
        load_codes(&q[3]),
        load_codes(&q[4]),
    ];
    let first = five_digits(load_at::<0, 54>(block), q);
    in_pairs(_mm256_add_epi16(first, five_digits(last, rest)))
}

/// The five digits of each byte, less 1 each, times `q`, in sums of ten.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn five_digits(bytes: __m256i, q: [__m256i; 5]) -> __m256i {
    // Bytes less 128 have a sign to compare by, and three times that is three times the byte
    // less 128 again, modulo 256. The digit is 0 up to 85, and 2 from 171 on.
    let mut bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
    let mut sums = _mm256_setzero_si256();
    for q in q {
        let low = _mm256_cmpgt_epi8(_mm256_set1_epi8(-42), bytes);
        let high = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(42));
        let products = _mm256_sign_epi8(q, _mm256_sub_epi8(low, high));
        sums = _mm256_add_epi16(sums, _mm256_maddubs_epi16(_mm256_set1_epi8(1), products));
        bytes = _mm256_add_epi8(bytes, _mm256_add_epi8(bytes, bytes));
    }
    sums
}
