//! `q4_k` and `q5_k`: sub-blocks of 32 weights with a scale and a minimum.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::RowQ256;

use super::super::by_256::{Block, ProductsLess, products_less, rows_in_quarters};
use super::{add_scaled, halves_of, in_order, quarter, spread};
use crate::arch::avx512::k::unpack::{codes_q5_k, only, scales_and_minimums};
use crate::arch::avx512::vector::{load, load_at, load_quarters_at};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::Q4_K => DotRows::Q256(q4_k),
        StorageType::Q5_K => DotRows::Q256(q5_k),
        _ => return None,
    })
}

/// An activation block in the order of the nibbles: the codes for the low nibbles of 64
/// bytes, and for the high ones, twice.
struct Activation {
    codes: [__m512i; 4],
    /// The sums of 32 codes, the same in each quarter.
    sums: __m512i,
}

impl Activation {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn load(block: Block<'_>) -> Self {
        let [a, b, c, d] = in_order(block.q);
        let ([a, b], [c, d]) = (halves_of(a, b), halves_of(c, d));
        // SAFETY: the array has the size of the vector.
        let sums = unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) };
        let sums = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        let sums = _mm512_broadcast_i32x4(_mm256_cvtepi32_epi16(sums));
        Activation { codes: [a, b, c, d], sums }
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
    fn products<const ROW: usize>(&self, codes: [__m512i; 4], scales: __m512i) -> __m512i {
        static SPREAD: [[u8; 64]; 4] = [
            spread::<0>([0, 0, 2, 2]),
            spread::<0>([1, 1, 3, 3]),
            spread::<0>([4, 4, 6, 6]),
            spread::<0>([5, 5, 7, 7]),
        ];
        let scales = quarter::<ROW>(scales);
        let scales = [0, 1, 2, 3].map(|i| _mm512_shuffle_epi8(scales, load(&SPREAD[i])));
        add_scaled(_mm512_setzero_si512(), codes, self.codes, scales)
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q4_k(rows, &Activation::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q4_k(rows: [&[u8; 144]; 4], activation: &Activation) -> ProductsLess {
    let heads = load_quarters_at::<0, 144>(rows);
    let scales = scales_and_minimums(heads);
    let sums = rows_in_quarters([
        activation.products::<0>(codes_q4_k(rows[0]), scales),
        activation.products::<1>(codes_q4_k(rows[1]), scales),
        activation.products::<2>(codes_q4_k(rows[2]), scales),
        activation.products::<3>(codes_q4_k(rows[3]), scales),
    ]);
    ProductsLess { sums, scales: heads, minimums: activation.minimums(scales) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn codes_q4_k(block: &[u8; 144]) -> [__m512i; 4] {
    let (a, b) = (load_at::<16, 144>(block), load_at::<80, 144>(block));
    let (a_high, b_high) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
    [only(0x0F, a), only(0x0F, a_high), only(0x0F, b), only(0x0F, b_high)]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_k(rows: Rows<'_>, activation: RowQ256<'_>) {
    products_less(rows, activation, |rows, block| block_q5_k(rows, &Activation::load(block)));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_q5_k(rows: [&[u8; 176]; 4], activation: &Activation) -> ProductsLess {
    let heads = load_quarters_at::<0, 176>(rows);
    let scales = scales_and_minimums(heads);
    let sums = rows_in_quarters([
        activation.products::<0>(codes_q5_k(rows[0]), scales),
        activation.products::<1>(codes_q5_k(rows[1]), scales),
        activation.products::<2>(codes_q5_k(rows[2]), scales),
        activation.products::<3>(codes_q5_k(rows[3]), scales),
    ]);
    ProductsLess { sums, scales: heads, minimums: activation.minimums(scales) }
}
