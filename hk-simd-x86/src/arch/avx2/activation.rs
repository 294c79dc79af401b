//! Quantizing activation rows.

use crate::arch::intrinsics::*;

use hk_core::dot::{PartsQ32, PartsQ256};

use super::vector::{load_floats, store_codes, store_words, sum_halves};
use crate::arch::activation::{Quantize, scales};

pub(super) const QUANTIZE: Quantize = Quantize { by_32, by_256 };

/// The bits of the largest magnitude.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn largest(x: &[f32]) -> u32 {
    let magnitude = _mm256_set1_epi32(0x7FFF_FFFF);
    let mut largest = _mm256_setzero_si256();
    for x in x.as_chunks().0 {
        let x = _mm256_and_si256(_mm256_castps_si256(load_floats(x)), magnitude);
        largest = _mm256_max_epu32(largest, x);
    }
    let (low, high) = (_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
    let four = _mm_max_epu32(low, high);
    let two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32::<1>(two))) as u32
}

/// The codes of 32 numbers, which are within -127..=127. The conversion rounds half to even.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn codes(x: &[f32; 32], id: f32) -> __m256i {
    let id = _mm256_set1_ps(id);
    let code = |x| _mm256_cvtps_epi32(_mm256_mul_ps(load_floats(x), id));
    let [x0, x1, x2, x3]: &[[f32; 8]; 4] = zerocopy::transmute_ref!(x);
    let first = _mm256_packs_epi32(code(x0), code(x1));
    let last = _mm256_packs_epi32(code(x2), code(x3));
    // Fours of codes stand by halves first now.
    let order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order)
}

/// The sums of each four codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sums_of_four(codes: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn by_32(x: &[[f32; 32]], parts: &mut PartsQ32<'_>) {
    let beside = parts.d.iter_mut().zip(parts.s.iter_mut()).zip(parts.sums.iter_mut());
    for ((x, q), ((d, s), sum)) in x.iter().zip(parts.q.iter_mut()).zip(beside) {
        let (scale, id) = scales(largest(x));
        *d = scale;
        let Some(id) = id else {
            (*q, *s, *sum) = ([0; 32], scale * 0.0, 0);
            continue;
        };
        let codes = codes(x, id);
        store_codes(codes, q);
        let sums = sums_of_four(codes);
        let (low, high) = (_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let four = _mm_add_epi32(low, high);
        let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
        *sum = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)));
        *s = scale * *sum as f32;
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn by_256(x: &[[f32; 256]], parts: &mut PartsQ256<'_>) {
    let beside = parts.d.iter_mut().zip(parts.sums.iter_mut());
    for ((x, q), (d, sums)) in x.iter().zip(parts.q.iter_mut()).zip(beside) {
        let (scale, id) = scales(largest(x));
        *d = scale;
        let Some(id) = id else {
            (*q, *sums) = ([0; 256], [0; 16]);
            continue;
        };
        let x: &[[[f32; 32]; 4]; 2] = zerocopy::transmute_ref!(x);
        let q: &mut [[[i8; 32]; 4]; 2] = zerocopy::transmute_mut!(q);
        let sums: &mut [[i16; 8]; 2] = zerocopy::transmute_mut!(sums);
        for ((x, q), sums) in x.iter().zip(q).zip(sums) {
            let some = |x, q| {
                let codes = codes(x, id);
                store_codes(codes, q);
                sums_of_four(codes)
            };
            let ([x0, x1, x2, x3], [q0, q1, q2, q3]) = (x, q);
            let by_half = sum_halves([some(x0, q0), some(x1, q1), some(x2, q2), some(x3, q3)]);
            let order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
            let in_order = _mm256_permutevar8x32_epi32(by_half, order);
            let high = _mm256_extracti128_si256::<1>(in_order);
            store_words(_mm_packs_epi32(_mm256_castsi256_si128(in_order), high), sums);
        }
    }
}
