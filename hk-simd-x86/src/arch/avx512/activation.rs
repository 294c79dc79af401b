//! Quantizing activation rows.

use crate::arch::intrinsics::*;

use hk_core::dot::{PartsQ32, PartsQ256};

use super::vector::{load_floats, store_codes, store_words, sum_quarters};
use crate::arch::activation::{Quantize, scales};

pub(super) const QUANTIZE: Quantize = Quantize { by_32, by_256 };

/// The bits of the largest magnitude.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn largest(x: &[f32]) -> u32 {
    let magnitude = _mm512_set1_epi32(0x7FFF_FFFF);
    let mut largest = _mm512_setzero_si512();
    for x in x.as_chunks().0 {
        let x = _mm512_and_si512(_mm512_castps_si512(load_floats(x)), magnitude);
        largest = _mm512_max_epu32(largest, x);
    }
    _mm512_reduce_max_epu32(largest)
}

/// The codes of 64 numbers, which are within -127..=127. The conversion rounds half to even.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn codes(x: &[[f32; 16]; 4], id: [__m512; 4]) -> __m512i {
    let code = |x, id| _mm512_cvtps_epi32(_mm512_mul_ps(load_floats(x), id));
    let [x0, x1, x2, x3] = x;
    let first = _mm512_packs_epi32(code(x0, id[0]), code(x1, id[1]));
    let last = _mm512_packs_epi32(code(x2, id[2]), code(x3, id[3]));
    // Fours of codes stand by quarters first now.
    let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    _mm512_permutexvar_epi32(order, _mm512_packs_epi16(first, last))
}

/// The sums of each four codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sums_of_four(codes: __m512i) -> __m512i {
    _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), codes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn by_32(x: &[[f32; 32]], parts: &mut PartsQ32<'_>) {
    let mut beside = parts.d.iter_mut().zip(parts.s.iter_mut()).zip(parts.sums.iter_mut());
    let (q_pairs, q_last) = parts.q.as_chunks_mut::<2>();
    let (x_pairs, x_last) = x.as_chunks::<2>();
    let mut pair = |x: &[[f32; 32]; 2], q: &mut [[i8; 32]; 2], blocks: usize| {
        let scales = x.each_ref().map(|x| scales(largest(x)));
        let [id0, id1] = scales.map(|(_, id)| _mm512_set1_ps(id.unwrap_or(0.0)));
        let x: &[[f32; 16]; 4] = zerocopy::transmute_ref!(x);
        let mut codes = codes(x, [id0, id0, id1, id1]);
        // What is not finite has a product with 0 that is not 0.
        let valid =
            |at: usize| if scales[at].1.is_some() { u64::MAX >> 32 << (32 * at) } else { 0 };
        codes = _mm512_maskz_mov_epi8(valid(0) | valid(1), codes);
        store_codes(codes, zerocopy::transmute_mut!(q));
        let sums = sums_of_four(codes);
        let sums = [_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums)];
        let sums = sums.map(|sums| sum(sums));
        for (((d, s), to), (&(scale, _), sum)) in
            beside.by_ref().take(blocks).zip(scales.iter().zip(sums))
        {
            (*d, *s, *to) = (scale, scale * sum as f32, sum);
        }
    };
    for (x, q) in x_pairs.iter().zip(q_pairs) {
        pair(x, q, 2);
    }
    if let ([x], [q]) = (x_last, q_last) {
        let mut codes = [[0; 32]; 2];
        pair(&[*x, [0.0; 32]], &mut codes, 1);
        *q = codes[0];
    }
}

/// The sum of all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sum(lanes: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn by_256(x: &[[f32; 256]], parts: &mut PartsQ256<'_>) {
    let beside = parts.d.iter_mut().zip(parts.sums.iter_mut());
    for ((x, q), (d, sums)) in x.iter().zip(parts.q.iter_mut()).zip(beside) {
        let (scale, id) = scales(largest(x));
        *d = scale;
        let Some(id) = id else {
            (*q, *sums) = ([0; 256], [0; 16]);
            continue;
        };
        let id = [_mm512_set1_ps(id); 4];
        let [x0, x1, x2, x3]: &[[[f32; 16]; 4]; 4] = zerocopy::transmute_ref!(x);
        let [q0, q1, q2, q3]: &mut [[i8; 64]; 4] = zerocopy::transmute_mut!(q);
        let some = |x, q| {
            let codes = codes(x, id);
            store_codes(codes, q);
            sums_of_four(codes)
        };
        let by_quarter = sum_quarters([some(x0, q0), some(x1, q1), some(x2, q2), some(x3, q3)]);
        let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let in_order = _mm512_permutexvar_epi32(order, by_quarter);
        store_words(_mm512_cvtepi32_epi16(in_order), sums);
    }
}
