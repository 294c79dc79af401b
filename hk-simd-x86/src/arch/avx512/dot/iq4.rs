//! `iq4_xs`: codes stand for integers of 8 bits, which are looked up with an offset of 128, so that
//! they have no sign. Sub-blocks stay apart until their scales are multiplied with.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::blocks::codebooks::IQ4;
use hk_core::dot::RowQ256;

use super::super::vector::{load, load_at, load_codes_at, load_quarters_at, sum_quarters};
use super::by_256::{Block, Products, products};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::IQ4_XS => DotRows::Q256(iq4_xs),
        _ => return None,
    })
}

/// What a code stands for, plus 128, in each quarter.
static VALUES: [u8; 64] = {
    let mut values = [0; 64];
    let mut i = 0;
    while i < 64 {
        values[i] = IQ4[i % 16] as u8 ^ 0x80;
        i += 1;
    }
    values
};

/// Four sub-blocks of an activation block.
struct Half {
    /// The first 16 codes of each, a sub-block in each quarter.
    low: __m512i,
    /// The last 16 codes of each.
    high: __m512i,
    /// 128 times the sum of the codes of each, in all lanes of its quarter.
    offsets: __m512i,
}

/// Sub-blocks 0 to 3 and 4 to 7.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn halves(block: Block<'_>) -> [Half; 2] {
    let q = block.q;
    let (a, b) = (load_codes_at::<0, 256>(q), load_codes_at::<64, 256>(q));
    let (c, d) = (load_codes_at::<128, 256>(q), load_codes_at::<192, 256>(q));
    // SAFETY: the array has the size of the vector.
    let sums = unsafe { _mm256_loadu_si256(block.sums.as_ptr().cast()) };
    let offsets = _mm512_castsi256_si512(_mm256_madd_epi16(sums, _mm256_set1_epi16(128)));
    let quarter = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    let other = _mm512_add_epi32(quarter, _mm512_set1_epi32(4));
    [
        Half {
            low: _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b),
            high: _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b),
            offsets: _mm512_permutexvar_epi32(quarter, offsets),
        },
        Half {
            low: _mm512_shuffle_i64x2::<0b10_00_10_00>(c, d),
            high: _mm512_shuffle_i64x2::<0b11_01_11_01>(c, d),
            offsets: _mm512_permutexvar_epi32(other, offsets),
        },
    ]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_xs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 136]; 4], block| {
        let [first, second] = halves(block);
        let heads = load_quarters_at::<0, 136>(rows);
        let scales = scales(heads);
        let sums = sum_quarters([
            row(load_at::<8, 136>(rows[0]), &first),
            row(load_at::<8, 136>(rows[1]), &first),
            row(load_at::<8, 136>(rows[2]), &first),
            row(load_at::<8, 136>(rows[3]), &first),
        ]);
        let others = sum_quarters([
            row(load_at::<72, 136>(rows[0]), &second),
            row(load_at::<72, 136>(rows[1]), &second),
            row(load_at::<72, 136>(rows[2]), &second),
            row(load_at::<72, 136>(rows[3]), &second),
        ]);
        let sums = _mm512_mullo_epi32(_mm512_sub_epi32(sums, first.offsets), scales[0]);
        let others = _mm512_mullo_epi32(_mm512_sub_epi32(others, second.offsets), scales[1]);
        let sums = _mm512_add_epi32(sums, others);
        // Lane `4j + r` to lane `4r + j`.
        let transposed = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        Products { sums: _mm512_permutexvar_epi32(transposed, sums), scales: heads }
    });
}

/// The products of four sub-blocks, four partial sums a quarter.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn row(codes: __m512i, q: &Half) -> __m512i {
    let (nibble, values) = (_mm512_set1_epi8(15), load(&VALUES));
    let low = _mm512_and_si512(codes, nibble);
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
    let (low, high) = (_mm512_shuffle_epi8(values, low), _mm512_shuffle_epi8(values, high));
    let sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, q.low);
    _mm512_dpbusd_epi32(sum, high, q.high)
}

/// The scales of sub-blocks 0 to 3 and 4 to 7 of four rows, that of sub-block `j` and row `r` in
/// lane `4j + r`, from the first bytes of each row's block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales(heads: __m512i) -> [__m512i; 2] {
    let high = _mm512_set_epi32(12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0, 12, 8, 4, 0);
    let low = _mm512_add_epi32(high, _mm512_set1_epi32(1));
    let low = _mm512_permutexvar_epi32(low, heads);
    let high = _mm512_permutexvar_epi32(high, heads);
    let twice = _mm512_set_epi32(6, 6, 6, 6, 4, 4, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0);
    [0, 1].map(|half| {
        let low_at = _mm512_add_epi32(_mm512_add_epi32(twice, twice), _mm512_set1_epi32(16 * half));
        let high_at = _mm512_add_epi32(twice, _mm512_set1_epi32(12 + 8 * half));
        let low = _mm512_and_si512(_mm512_srlv_epi32(low, low_at), _mm512_set1_epi32(0x0F));
        let high = _mm512_and_si512(_mm512_srlv_epi32(high, high_at), _mm512_set1_epi32(0x30));
        _mm512_sub_epi32(_mm512_or_si512(low, high), _mm512_set1_epi32(32))
    })
}
