//! `q2_k`, `q3_k` and `q6_k`: sub-blocks of 16 weights.

use core::arch::x86_64::*;

use hk_core::StorageType;

use super::unpack::{codes_q3_k, codes_q6_k, scales_q3_k};
use super::{lane, widened};
use crate::arch::avx512::vector::{broadcast_half, load_floats, load_quarter_at, store};
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
            let [a, b, c, d] = codes_q3_k(block);
            let (out, _) = out.as_chunks_mut::<16>();
            store(pick_q3_k::<0, 0>(scales, a), &mut out[0]);
            store(pick_q3_k::<1, 1>(scales, a), &mut out[1]);
            store(pick_q3_k::<2, 0>(scales, b), &mut out[2]);
            store(pick_q3_k::<3, 1>(scales, b), &mut out[3]);
            store(pick_q3_k::<4, 0>(scales, c), &mut out[4]);
            store(pick_q3_k::<5, 1>(scales, c), &mut out[5]);
            store(pick_q3_k::<6, 0>(scales, d), &mut out[6]);
            store(pick_q3_k::<7, 1>(scales, d), &mut out[7]);
            store(pick_q3_k::<8, 2>(scales, a), &mut out[8]);
            store(pick_q3_k::<9, 3>(scales, a), &mut out[9]);
            store(pick_q3_k::<10, 2>(scales, b), &mut out[10]);
            store(pick_q3_k::<11, 3>(scales, b), &mut out[11]);
            store(pick_q3_k::<12, 2>(scales, c), &mut out[12]);
            store(pick_q3_k::<13, 3>(scales, c), &mut out[13]);
            store(pick_q3_k::<14, 2>(scales, d), &mut out[14]);
            store(pick_q3_k::<15, 3>(scales, d), &mut out[15]);
        }
    });
}

/// The weights of sub-block `SUB`, whose codes stand in quarter `QUARTER`.
#[inline]
#[target_feature(enable = "avx512f")]
fn pick_q3_k<const SUB: i32, const QUARTER: i32>(scales: __m512, codes: __m512i) -> __m512 {
    static INTEGERS: [f32; 16] =
        [-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0];
    let values = _mm512_mul_ps(lane::<SUB>(scales), load_floats(&INTEGERS));
    _mm512_permutexvar_ps(widened::<QUARTER>(codes), values)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q6_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 210]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = _mm512_cvtepi8_epi32(load_quarter_at::<192, 210>(block));
            let d = broadcast_half([block[208], block[209]]);
            let scales = _mm512_mul_ps(d, _mm512_cvtepi32_ps(scales));
            let [a, b, c, d] = codes_q6_k(block);
            let (out, _) = out.as_chunks_mut::<64>();
            part_q6_k(
                [lane::<0>(scales), lane::<1>(scales), lane::<2>(scales), lane::<3>(scales)],
                a,
                &mut out[0],
            );
            part_q6_k(
                [lane::<4>(scales), lane::<5>(scales), lane::<6>(scales), lane::<7>(scales)],
                b,
                &mut out[1],
            );
            part_q6_k(
                [lane::<8>(scales), lane::<9>(scales), lane::<10>(scales), lane::<11>(scales)],
                c,
                &mut out[2],
            );
            part_q6_k(
                [lane::<12>(scales), lane::<13>(scales), lane::<14>(scales), lane::<15>(scales)],
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
