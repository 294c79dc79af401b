//! `q2_k`, `q3_k` and `q6_k`: sub-blocks of 16 weights.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::by_256::{
    Block, Products, ProductsLess, products, products_less, rows_in_quarters,
};
use super::{add_products, add_scaled, halves_of, in_order, quarter, spread};
use crate::arch::avx512::k::unpack::{codes_q3_k, codes_q6_k, only, scales_q3_k};
use crate::arch::avx512::vector::{load, load_at, load_quarter_at, load_quarters_at};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q2_K => DotRows::Q256(q2_k),
        StorageType::Q3_K => DotRows::Q256(q3_k),
        StorageType::Q6_K => DotRows::Q256(q6_k),
        _ => return None,
    })
}

/// An activation block in the order of the 2-bit codes: the activation's codes for the lowest
/// two bits of 64 bytes, for the next two, and so on.
struct ByTwoBits {
    codes: [__m512i; 4],
    /// The first eight sums of 16 codes and the last eight, the same in each quarter.
    sums: [__m512i; 2],
}

impl ByTwoBits {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(block: Block<'_>) -> Self {
        let [a, b, c, d] = in_order(block.q);
        let ([a, c], [b, d]) = (halves_of(a, c), halves_of(b, d));
        let (sums, _) = block.sums.as_chunks::<8>();
        let sums = [&sums[0], &sums[1]].map(|sums| {
            // SAFETY: the array has the size of the vector.
            _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(sums.as_ptr().cast()) })
        });
        ByTwoBits { codes: [a, c, b, d], sums }
    }

    /// S of row `ROW`, by partial sums, of its codes and the scales of all rows, which become
    /// the lower (`AT` 0) or the upper (`AT` 1) halves of 16-bit words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn products<const AT: usize, const ROW: usize>(
        &self,
        codes: [__m512i; 4],
        scales: __m512i,
    ) -> __m512i {
        let spread = const {
            &[
                spread::<AT>([0, 1, 8, 9]),
                spread::<AT>([2, 3, 10, 11]),
                spread::<AT>([4, 5, 12, 13]),
                spread::<AT>([6, 7, 14, 15]),
            ]
        };
        let scales = quarter::<ROW>(scales);
        let scales = [0, 1, 2, 3].map(|i| _mm512_shuffle_epi8(scales, load(&spread[i])));
        add_scaled(_mm512_setzero_si512(), codes, self.codes, scales)
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q2_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q2_k(rows, &ByTwoBits::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q2_k(rows: [&[u8; 84]; 4], activation: &ByTwoBits) -> ProductsLess {
    let both = load_quarters_at::<0, 84>(rows);
    // Codes stay where they are in their bytes, times 1, 4, 16 and (moved, for 64 would be
    // too much) 16 again; scales get what is missing to 16.
    let counts = _mm512_set1_epi64(0x0000_0000_0002_0004);
    let scales = _mm512_sllv_epi16(only(0x0F, both), counts);
    let sums = rows_in_quarters([
        activation.products::<0, 0>(codes_q2_k(rows[0]), scales),
        activation.products::<0, 1>(codes_q2_k(rows[1]), scales),
        activation.products::<0, 2>(codes_q2_k(rows[2]), scales),
        activation.products::<0, 3>(codes_q2_k(rows[3]), scales),
    ]);
    let minimums = only(0x0F, _mm512_srli_epi16::<4>(both));
    let zero = _mm512_setzero_si512();
    let (first, last) =
        (_mm512_unpacklo_epi8(minimums, zero), _mm512_unpackhi_epi8(minimums, zero));
    let first = _mm512_madd_epi16(first, activation.sums[0]);
    ProductsLess {
        sums: _mm512_srai_epi32::<4>(sums),
        scales: _mm512_bsrli_epi128::<12>(load_quarters_at::<68, 84>(rows)),
        minimums: add_products(first, last, activation.sums[1]),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn codes_q2_k(block: &[u8; 84]) -> [__m512i; 4] {
    let codes = load_at::<16, 84>(block);
    let high = _mm512_srli_epi16::<2>(codes);
    [only(0x03, codes), only(0x0C, codes), only(0x30, codes), only(0x30, high)]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q3_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows, block| block_q3_k(rows, &ByTwoBits::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q3_k(rows: [&[u8; 110]; 4], activation: &ByTwoBits) -> Products {
    let tails = load_quarters_at::<94, 110>(rows);
    let scales = scales_q3_k(tails);
    // Times 256, since as upper halves of words they keep their sign.
    let sums = rows_in_quarters([
        activation.products::<1, 0>(codes_q3_k(rows[0]), scales),
        activation.products::<1, 1>(codes_q3_k(rows[1]), scales),
        activation.products::<1, 2>(codes_q3_k(rows[2]), scales),
        activation.products::<1, 3>(codes_q3_k(rows[3]), scales),
    ]);
    // What the codes' offset of 4 makes, times 256 too.
    let zero = _mm512_setzero_si512();
    let (first, last) = (_mm512_unpacklo_epi8(zero, scales), _mm512_unpackhi_epi8(zero, scales));
    let offset = _mm512_madd_epi16(first, _mm512_slli_epi16::<2>(activation.sums[0]));
    let offset = add_products(offset, last, _mm512_slli_epi16::<2>(activation.sums[1]));
    Products {
        sums: _mm512_srai_epi32::<8>(_mm512_sub_epi32(sums, offset)),
        scales: _mm512_bsrli_epi128::<14>(tails),
    }
}

/// An activation block as it stands.
struct InOrder {
    codes: [__m512i; 4],
    /// The sums of 16 codes, times -16, twice.
    sums: __m512i,
}

impl InOrder {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(block: Block<'_>) -> Self {
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) };
        let sums = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16::<4>(sums));
        InOrder { codes: in_order(block.q), sums: _mm512_broadcast_i64x4(sums) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q6_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows, block| block_q6_k(rows, &InOrder::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q6_k(rows: [&[u8; 210]; 4], activation: &InOrder) -> Products {
    let sums = rows_in_quarters([
        row_q6_k(rows[0], activation),
        row_q6_k(rows[1], activation),
        row_q6_k(rows[2], activation),
        row_q6_k(rows[3], activation),
    ]);
    let tails = load_quarters_at::<194, 210>(rows);
    Products { sums, scales: _mm512_bsrli_epi128::<14>(tails) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn row_q6_k(block: &[u8; 210], activation: &InOrder) -> __m512i {
    /// Word `4v + l`, for quarter `l` of vector `v`.
    static SPREAD: [[[u16; 8]; 4]; 4] = {
        let mut spread = [[[0; 8]; 4]; 4];
        let mut i = 0;
        while i < 16 {
            spread[i / 4][i % 4] = [i as u16; 8];
            i += 1;
        }
        spread
    };
    // Twice the 16 scales.
    let scales = _mm256_broadcastsi128_si256(load_quarter_at::<192, 210>(block));
    let scales = _mm512_cvtepi8_epi16(scales);
    let spread = [0, 1, 2, 3].map(|i| {
        // SAFETY: an array of 64 bytes.
        let words = unsafe { _mm512_loadu_si512(SPREAD[i].as_ptr().cast()) };
        _mm512_permutexvar_epi16(words, scales)
    });
    // What the codes' offset of 32 makes.
    let offset = _mm512_madd_epi16(scales, activation.sums);
    add_scaled(offset, codes_q6_k(block), activation.codes, spread)
}
