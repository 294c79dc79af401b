//! `q2_k`, `q3_k` and `q6_k`: sub-blocks of 16 weights.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::unpack::{codes_q6_k, scales_q3_k, select};
use super::{Lanes, in_memory};
use crate::arch::avx512::vector::{
    broadcast_half, load_floats, load_half_at, load_quarter_at, store,
};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::Q2_K => q2_k,
        StorageType::Q3_K => q3_k,
        StorageType::Q6_K => q6_k,
        _ => return None,
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q2_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 84]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let both = _mm512_cvtepu8_epi32(load_quarter_at::<0, 84>(block));
            let scales = _mm512_and_si512(both, _mm512_set1_epi32(15));
            let d = broadcast_half([block[80], block[81]]);
            let dmin = broadcast_half([block[82], block[83]]);
            let scales = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scales));
            let minimums = _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(both)));
            let (out, _) = out.as_chunks_mut::<128>();
            half_q2_k(
                [load_quarter_at::<16, 84>(block), load_quarter_at::<32, 84>(block)],
                [values_q2_k::<0>(scales, minimums), values_q2_k::<4>(scales, minimums)],
                &mut out[0],
            );
            half_q2_k(
                [load_quarter_at::<48, 84>(block), load_quarter_at::<64, 84>(block)],
                [values_q2_k::<8>(scales, minimums), values_q2_k::<12>(scales, minimums)],
                &mut out[1],
            );
        }
    });
}

/// What the codes 0 to 3 of the four sub-blocks from `FIRST` on stand for, a quarter each.
#[inline]
#[target_feature(enable = "avx512f")]
fn values_q2_k<const FIRST: i32>(scales: __m512, minimums: __m512) -> __m512 {
    let codes = _mm512_broadcast_f32x4(_mm_set_ps(3.0, 2.0, 1.0, 0.0));
    let four_of_each = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    let lanes = _mm512_add_epi32(four_of_each, _mm512_set1_epi32(FIRST));
    let scales = _mm512_permutexvar_ps(lanes, scales);
    let minimums = _mm512_permutexvar_ps(lanes, minimums);
    _mm512_sub_ps(_mm512_mul_ps(scales, codes), minimums)
}

/// Half of a block: the codes of two bits in 32 bytes, and what they stand for in the eight
/// sub-blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn half_q2_k(codes: [__m128i; 2], [first, last]: [__m512; 2], out: &mut [f32; 128]) {
    let (out, _) = out.as_chunks_mut::<16>();
    let [a, b] = codes.map(|codes| _mm512_cvtepu8_epi32(codes));
    store(pick_q2_k::<0x00>(first, a), &mut out[0]);
    store(pick_q2_k::<0x55>(first, b), &mut out[1]);
    store(pick_q2_k::<0xAA>(first, _mm512_srli_epi32::<2>(a)), &mut out[2]);
    store(pick_q2_k::<0xFF>(first, _mm512_srli_epi32::<2>(b)), &mut out[3]);
    store(pick_q2_k::<0x00>(last, _mm512_srli_epi32::<4>(a)), &mut out[4]);
    store(pick_q2_k::<0x55>(last, _mm512_srli_epi32::<4>(b)), &mut out[5]);
    store(pick_q2_k::<0xAA>(last, _mm512_srli_epi32::<6>(a)), &mut out[6]);
    store(pick_q2_k::<0xFF>(last, _mm512_srli_epi32::<6>(b)), &mut out[7]);
}

/// The values in the quarter that `QUARTER` says four times, by the lowest two bits of codes.
#[inline]
#[target_feature(enable = "avx512f")]
fn pick_q2_k<const QUARTER: i32>(values: __m512, codes: __m512i) -> __m512 {
    _mm512_permutevar_ps(_mm512_shuffle_f32x4::<QUARTER>(values, values), codes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q3_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 110]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = _mm512_castsi128_si512(load_quarter_at::<94, 110>(block));
            let scales = _mm512_castsi512_si128(scales_q3_k(scales));
            let scales = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales));
            let scales = _mm512_mul_ps(broadcast_half([block[108], block[109]]), scales);
            let mut memory = Lanes([0.0; 16]);
            let scales = in_memory(scales, &mut memory);
            let thirds = widened(load_half_at::<0, 110>(block));
            let (out, scales) = (out.as_chunks_mut::<128>().0, scales.as_chunks::<8>().0);
            // Bits 0 to 3 of the first 128 weights, 4 to 7 of the others, to the place of 4.
            let codes = widened(load_half_at::<32, 110>(block));
            half_q3_k(
                codes,
                thirds.map(|thirds| _mm512_slli_epi32::<4>(thirds)),
                &scales[0],
                &mut out[0],
            );
            let codes = widened(load_half_at::<64, 110>(block));
            half_q3_k(codes, thirds, &scales[1], &mut out[1]);
        }
    });
}

/// 32 bytes, a lane each.
#[inline]
#[target_feature(enable = "avx512f")]
fn widened(bytes: __m256i) -> [__m512i; 2] {
    let last = _mm256_extracti128_si256::<1>(bytes);
    [_mm512_cvtepu8_epi32(_mm256_castsi256_si128(bytes)), _mm512_cvtepu8_epi32(last)]
}

/// Half of a block: two bits of each code in `codes`, the third bits in bits 4 to 7 of `thirds`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn half_q3_k(codes: [__m512i; 2], thirds: [__m512i; 2], scales: &[f32; 8], out: &mut [f32; 128]) {
    let (out, _) = out.as_chunks_mut::<16>();
    let [a, b] = codes;
    let [c, d] = thirds;
    store(pick_q3_k(scales[0], a, _mm512_srli_epi32::<2>(c)), &mut out[0]);
    store(pick_q3_k(scales[1], b, _mm512_srli_epi32::<2>(d)), &mut out[1]);
    let [a, b] = codes.map(|codes| _mm512_srli_epi32::<2>(codes));
    let [c, d] = thirds.map(|thirds| _mm512_srli_epi32::<3>(thirds));
    store(pick_q3_k(scales[2], a, c), &mut out[2]);
    store(pick_q3_k(scales[3], b, d), &mut out[3]);
    let [a, b] = codes.map(|codes| _mm512_srli_epi32::<4>(codes));
    let [c, d] = thirds.map(|thirds| _mm512_srli_epi32::<4>(thirds));
    store(pick_q3_k(scales[4], a, c), &mut out[4]);
    store(pick_q3_k(scales[5], b, d), &mut out[5]);
    let [a, b] = codes.map(|codes| _mm512_srli_epi32::<6>(codes));
    let [c, d] = thirds.map(|thirds| _mm512_srli_epi32::<5>(thirds));
    store(pick_q3_k(scales[6], a, c), &mut out[6]);
    store(pick_q3_k(scales[7], b, d), &mut out[7]);
}

/// The weights of a sub-block: two bits of each code are the lowest of `codes`, the third is
/// bit 2 of `thirds`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pick_q3_k(scale: f32, codes: __m512i, thirds: __m512i) -> __m512 {
    // Twice, since a permutation also looks at bit 3, which may be anything.
    static INTEGERS: [f32; 16] =
        [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0];
    let integers = _mm512_permutexvar_ps(select(0x03, codes, thirds), load_floats(&INTEGERS));
    _mm512_mul_ps(_mm512_set1_ps(scale), integers)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q6_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 210]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = _mm512_cvtepi8_epi32(load_quarter_at::<192, 210>(block));
            let d = broadcast_half([block[208], block[209]]);
            let scales = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scales));
            let mut memory = Lanes([0.0; 16]);
            let scales = in_memory(scales, &mut memory);
            let [a, b, c, d] = codes_q6_k(block);
            let (out, _) = out.as_chunks_mut::<64>();
            part_q6_k(
                [
                    _mm512_set1_ps(scales[0]),
                    _mm512_set1_ps(scales[1]),
                    _mm512_set1_ps(scales[2]),
                    _mm512_set1_ps(scales[3]),
                ],
                a,
                &mut out[0],
            );
            part_q6_k(
                [
                    _mm512_set1_ps(scales[4]),
                    _mm512_set1_ps(scales[5]),
                    _mm512_set1_ps(scales[6]),
                    _mm512_set1_ps(scales[7]),
                ],
                b,
                &mut out[1],
            );
            part_q6_k(
                [
                    _mm512_set1_ps(scales[8]),
                    _mm512_set1_ps(scales[9]),
                    _mm512_set1_ps(scales[10]),
                    _mm512_set1_ps(scales[11]),
                ],
                c,
                &mut out[2],
            );
            part_q6_k(
                [
                    _mm512_set1_ps(scales[12]),
                    _mm512_set1_ps(scales[13]),
                    _mm512_set1_ps(scales[14]),
                    _mm512_set1_ps(scales[15]),
                ],
                d,
                &mut out[3],
            );
        }
    });
}

/// Four sub-blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn part_q6_k([a, b, c, d]: [__m512; 4], codes: __m512i, out: &mut [f32; 64]) {
    let integers = _mm512_sub_epi8(codes, _mm512_set1_epi8(32));
    let (out, _) = out.as_chunks_mut::<16>();
    store(_mm512_mul_ps(a, floats::<0>(integers)), &mut out[0]);
    store(_mm512_mul_ps(b, floats::<1>(integers)), &mut out[1]);
    store(_mm512_mul_ps(c, floats::<2>(integers)), &mut out[2]);
    store(_mm512_mul_ps(d, floats::<3>(integers)), &mut out[3]);
}

/// The signed bytes of quarter `Q` as f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn floats<const Q: i32>(bytes: __m512i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm512_extracti32x4_epi32::<Q>(bytes)))
}
