//! `iq4_xs`: codes stand for integers of 8 bits with a sign; those of the activation's
//! codes go to them.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::blocks::codebooks::IQ4;
use hk_core::dot::RowQ256;

use super::super::vector::{load, load_codes, load_halves, load_halves_at};
use super::by_256::{Block, Products, products, rows_in_halves};
use crate::arch::call::{DotRows, Rows};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    match storage {
        StorageType::IQ4_XS => Some(DotRows::Q256(iq4_xs)),
        _ => None,
    }
}

/// What a code stands for, in each half.
static VALUES: [u8; 32] = {
    let mut values = [0; 32];
    let mut i = 0;
    while i < 32 {
        values[i] = IQ4[i % 16] as u8;
        i += 1;
    }
    values
};

/// The activation's codes for sub-blocks `j` and `j + 4`, one a half: the first 16 of each, and
/// the last.
type Pair = [__m256i; 2];

#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_xs(rows: Rows<'_>, activation: RowQ256<'_>) {
    products(rows, activation, |rows: [&[u8; 136]; 2], block: Block<'_>| {
        let (q, _) = block.q.as_chunks::<32>();
        let pairs =
            [pair(&q[0], &q[4]), pair(&q[1], &q[5]), pair(&q[2], &q[6]), pair(&q[3], &q[7])];
        Products {
            sums: rows_in_halves([row(rows[0], &pairs), row(rows[1], &pairs)]),
            scales: load_halves_at::<0, 136>(rows),
        }
    });
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn pair(first: &[i8; 32], last: &[i8; 32]) -> Pair {
    let (first, last) = (load_codes(first), load_codes(last));
    [_mm256_permute2x128_si256::<0x20>(first, last), _mm256_permute2x128_si256::<0x31>(first, last)]
}

/// The products of a block, by eight partial sums.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn row(block: &[u8; 136], pairs: &[Pair; 4]) -> __m256i {
    let scales = scales(*block.first_chunk().unwrap_or(&[0; 8]));
    let (codes, _) = block[8..].as_chunks::<16>();
    let first = _mm256_add_epi32(
        sub_blocks::<0>(load_halves(&codes[0], &codes[4]), &pairs[0], scales),
        sub_blocks::<1>(load_halves(&codes[1], &codes[5]), &pairs[1], scales),
    );
    let last = _mm256_add_epi32(
        sub_blocks::<2>(load_halves(&codes[2], &codes[6]), &pairs[2], scales),
        sub_blocks::<3>(load_halves(&codes[3], &codes[7]), &pairs[3], scales),
    );
    _mm256_add_epi32(first, last)
}

/// The products of sub-blocks `J` and `J + 4`, times their scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sub_blocks<const J: i32>(codes: __m256i, q: &Pair, scales: __m256i) -> __m256i {
    let nibble = _mm256_set1_epi8(15);
    let low = products_of(_mm256_and_si256(codes, nibble), q[0]);
    let high = products_of(_mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble), q[1]);
    // The lower two bytes of lane J of each half, in all words.
    let spread = _mm256_set1_epi16((0x0100 + 0x0404 * J) as i16);
    let scales = _mm256_shuffle_epi8(scales, spread);
    _mm256_add_epi32(_mm256_madd_epi16(low, scales), _mm256_madd_epi16(high, scales))
}

/// What codes stand for times `q`, in sums of two: at most twice 127 * 127, which 16 bits hold.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products_of(codes: __m256i, q: __m256i) -> __m256i {
    let values = _mm256_shuffle_epi8(load(&VALUES), codes);
    _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(values, q))
}

/// The scales of the eight sub-blocks, one a lane, from the first bytes of a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales([_, _, high @ .., l0, l1, l2, l3]: [u8; 8]) -> __m256i {
    let low = _mm256_set1_epi32(i32::from_le_bytes([l0, l1, l2, l3]));
    let high = _mm256_set1_epi32(i32::from(u16::from_le_bytes(high)));
    let twice = _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0);
    let low = _mm256_srlv_epi32(low, _mm256_add_epi32(twice, twice));
    let high = _mm256_slli_epi32::<4>(_mm256_srlv_epi32(high, twice));
    let low = _mm256_and_si256(low, _mm256_set1_epi32(0x0F));
    let high = _mm256_and_si256(high, _mm256_set1_epi32(0x30));
    _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32))
}
