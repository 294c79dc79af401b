//! K-quants.
//!
//! Codes are multiplied with the activation's codes to 16-bit sums of two, and these with
//! their sub-block's scale, spread to 16 bits over the lanes of the sub-block.

use core::arch::x86_64::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::vector::{load, load_at, load_codes, load_quarters_at};
use super::by_256::{Block, ProductsLess, products_less, rows_in_quarters};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_K => DotRows::Q256(q4_k),
        _ => return None,
    })
}

/// What spreads bytes over a vector: `bytes[l]` of the bytes of a quarter to each 16-bit word
/// of quarter `l`.
const fn spread(bytes: [u8; 4]) -> [u8; 64] {
    // The upper byte of a word becomes 0.
    let mut spread = [0x80; 64];
    let mut i = 0;
    while i < 64 {
        spread[i] = bytes[i / 16];
        i += 2;
    }
    spread
}

/// The scales and minimums of `q4_k` and `q5_k`, a block in each quarter that begins with `d`,
/// `dmin` and the packed scales: 8 bytes of scales and 8 of minimums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_and_minimums(heads: __m512i) -> __m512i {
    // Of the first four and the last four scales, then of minimums: what has their low bits,
    // and what has two more.
    let low = _mm512_shuffle_epi32::<0b11_10_11_01>(heads);
    let high = _mm512_shuffle_epi32::<0b10_00_01_00>(heads);
    let of_each = |a, b, c, d| _mm512_set_epi32(d, c, b, a, d, c, b, a, d, c, b, a, d, c, b, a);
    let low = _mm512_srlv_epi32(low, of_each(0, 0, 0, 4));
    let low = _mm512_and_si512(low, of_each(0x3F3F_3F3F, 0x0F0F_0F0F, 0x3F3F_3F3F, 0x0F0F_0F0F));
    let high_bits = of_each(0, 0x3030_3030, 0, 0x3030_3030);
    or_and(low, _mm512_srli_epi32::<2>(high), high_bits)
}

/// Adds to `sums` the sums of two products each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_scaled(sums: __m512i, (products, scales): (__m512i, __m512i)) -> __m512i {
    // No sum comes near the end of its range. Without the saturation that therefore never
    // happens the compiler makes two instructions of this one.
    _mm512_dpwssds_epi32(sums, products, scales)
}

/// `a | (b & c)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn or_and(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1111_1000>(a, b, c)
}

/// An activation block in the order of the codes of `q4_k`: those that are multiplied with
/// the low nibbles of 64 bytes, and with the high ones, twice.
struct ByNibbles {
    codes: [__m512i; 4],
    /// The sums of 32 codes, the same in each quarter.
    sums: __m512i,
}

impl ByNibbles {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(block: Block<'_>) -> Self {
        let (q, _) = block.q.as_chunks::<64>();
        let [a, b, c, d] =
            [load_codes(&q[0]), load_codes(&q[1]), load_codes(&q[2]), load_codes(&q[3])];
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) };
        let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        ByNibbles {
            codes: [
                _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b),
                _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b),
                _mm512_shuffle_i64x2::<0b01_00_01_00>(c, d),
                _mm512_shuffle_i64x2::<0b11_10_11_10>(c, d),
            ],
            sums: _mm512_broadcast_i32x4(_mm256_cvtepi32_epi16(sums)),
        }
    }

    /// M of four rows, by four partial sums each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn minimums(&self, scales: __m512i) -> __m512i {
        let minimums = _mm512_unpackhi_epi8(scales, _mm512_setzero_si512());
        _mm512_madd_epi16(minimums, self.sums)
    }

    /// S of row `ROW`, by partial sums, of its codes and the scales of all rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn products<const ROW: i32>(&self, codes: [__m512i; 4], scales: __m512i) -> __m512i {
        static SPREAD: [[u8; 64]; 4] = [
            spread([0, 0, 2, 2]),
            spread([1, 1, 3, 3]),
            spread([4, 4, 6, 6]),
            spread([5, 5, 7, 7]),
        ];
        let scales = match ROW {
            0 => _mm512_shuffle_i32x4::<0x00>(scales, scales),
            1 => _mm512_shuffle_i32x4::<0x55>(scales, scales),
            2 => _mm512_shuffle_i32x4::<0xAA>(scales, scales),
            _ => _mm512_shuffle_i32x4::<0xFF>(scales, scales),
        };
        let [first, second, third, fourth] = [0, 1, 2, 3].map(|i| {
            let products = _mm512_maddubs_epi16(codes[i], self.codes[i]);
            (products, _mm512_shuffle_epi8(scales, load(&SPREAD[i])))
        });
        let sum = add_scaled(_mm512_madd_epi16(first.0, first.1), second);
        let other = add_scaled(_mm512_madd_epi16(third.0, third.1), fourth);
        _mm512_add_epi32(sum, other)
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q4_k(rows, &ByNibbles::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q4_k(rows: [&[u8; 144]; 4], activation: &ByNibbles) -> ProductsLess {
    let heads = load_quarters_at::<0, 144>(rows);
    let scales = scales_and_minimums(heads);
    let sums = [
        row_q4_k::<0>(rows[0], scales, activation),
        row_q4_k::<1>(rows[1], scales, activation),
        row_q4_k::<2>(rows[2], scales, activation),
        row_q4_k::<3>(rows[3], scales, activation),
    ];
    let sums = rows_in_quarters(sums);
    ProductsLess { sums, scales: heads, minimums: activation.minimums(scales) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn row_q4_k<const ROW: i32>(block: &[u8; 144], scales: __m512i, activation: &ByNibbles) -> __m512i {
    let nibble = _mm512_set1_epi8(15);
    let (a, b) = (load_at::<16, 144>(block), load_at::<80, 144>(block));
    let codes = [
        _mm512_and_si512(a, nibble),
        _mm512_and_si512(_mm512_srli_epi16::<4>(a), nibble),
        _mm512_and_si512(b, nibble),
        _mm512_and_si512(_mm512_srli_epi16::<4>(b), nibble),
    ];
    activation.products::<ROW>(codes, scales)
}
