//! `q4_k` and `q5_k`: sub-blocks of 32 weights with a scale and a minimum.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::unpack::{codes_q5_k, scales_and_minimums};
use super::{Lanes, ascending, in_memory, widened};
use crate::arch::avx512::vector::{halves_of, load_half_at, load_quarter_at, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::Q4_K => q4_k,
        StorageType::Q5_K => q5_k,
        _ => return None,
    })
}

/// The scales of the eight sub-blocks of a block that begins with `head`, and their minimums
/// after them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_less(head: __m128i) -> __m512 {
    let integers = _mm512_castsi512_si128(scales_and_minimums(_mm512_castsi128_si512(head)));
    let integers = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(integers));
    let d_and_dmin = _mm512_castps128_ps512(_mm_cvtph_ps(head));
    let eight_of_each = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_mul_ps(_mm512_permutexvar_ps(eight_of_each, d_and_dmin), integers)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 144]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = scales_less(load_quarter_at::<0, 144>(block));
            let mut memory = Lanes([0.0; 16]);
            let scales = in_memory(scales, &mut memory);
            let (out, _) = out.as_chunks_mut::<64>();
            part_q4_k(
                block_part::<16, 144>(block),
                sub_block::<0, 8>(scales),
                sub_block::<1, 9>(scales),
                &mut out[0],
            );
            part_q4_k(
                block_part::<48, 144>(block),
                sub_block::<2, 10>(scales),
                sub_block::<3, 11>(scales),
                &mut out[1],
            );
            part_q4_k(
                block_part::<80, 144>(block),
                sub_block::<4, 12>(scales),
                sub_block::<5, 13>(scales),
                &mut out[2],
            );
            part_q4_k(
                block_part::<112, 144>(block),
                sub_block::<6, 14>(scales),
                sub_block::<7, 15>(scales),
                &mut out[3],
            );
        }
    });
}

/// 32 bytes of codes from `AT` on, a lane each.
#[inline]
#[target_feature(enable = "avx512f")]
fn block_part<const AT: usize, const N: usize>(block: &[u8; N]) -> [__m512i; 2] {
    let bytes = load_half_at::<AT, N>(block);
    let last = _mm256_extracti128_si256::<1>(bytes);
    [_mm512_cvtepu8_epi32(_mm256_castsi256_si128(bytes)), _mm512_cvtepu8_epi32(last)]
}

/// What the codes 0 to 15 of a sub-block stand for, whose scale stands in lane `SCALE` and
/// whose minimum in lane `MINIMUM`.
#[inline]
#[target_feature(enable = "avx512f")]
fn sub_block<const SCALE: usize, const MINIMUM: usize>(scales: &[f32; 16]) -> __m512 {
    _mm512_sub_ps(
        _mm512_mul_ps(_mm512_set1_ps(scales[SCALE]), ascending()),
        _mm512_set1_ps(scales[MINIMUM]),
    )
}

/// The weights of the low nibbles of 32 bytes, then those of the high ones. A permutation looks
/// at the lowest four bits of its indexes alone.
#[inline]
#[target_feature(enable = "avx512f")]
fn part_q4_k([first, last]: [__m512i; 2], low: __m512, high: __m512, out: &mut [f32; 64]) {
    let (out, _) = out.as_chunks_mut::<16>();
    store(_mm512_permutexvar_ps(first, low), &mut out[0]);
    store(_mm512_permutexvar_ps(last, low), &mut out[1]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(first), high), &mut out[2]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(last), high), &mut out[3]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 176]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = scales_less(load_quarter_at::<0, 176>(block));
            let mut memory = Lanes([0.0; 16]);
            let scales = in_memory(scales, &mut memory);
            let [a, b, c, d] = codes_q5_k(block);
            let (out, _) = out.as_chunks_mut::<32>();
            sub_block_q5_k::<0, 8, 0, 1>(scales, a, &mut out[0]);
            sub_block_q5_k::<1, 9, 0, 1>(scales, b, &mut out[1]);
            sub_block_q5_k::<2, 10, 2, 3>(scales, a, &mut out[2]);
            sub_block_q5_k::<3, 11, 2, 3>(scales, b, &mut out[3]);
            sub_block_q5_k::<4, 12, 0, 1>(scales, c, &mut out[4]);
            sub_block_q5_k::<5, 13, 0, 1>(scales, d, &mut out[5]);
            sub_block_q5_k::<6, 14, 2, 3>(scales, c, &mut out[6]);
            sub_block_q5_k::<7, 15, 2, 3>(scales, d, &mut out[7]);
        }
    });
}

/// The sub-block whose codes stand in the quarters `FIRST` and `LAST`, its scale in lane
/// `SCALE`, its minimum in lane `MINIMUM`.
#[inline]
#[target_feature(enable = "avx512f")]
fn sub_block_q5_k<const SCALE: usize, const MINIMUM: usize, const FIRST: i32, const LAST: i32>(
    scales: &[f32; 16],
    codes: __m512i,
    out: &mut [f32; 32],
) {
    let (scale, minimum) = (_mm512_set1_ps(scales[SCALE]), _mm512_set1_ps(scales[MINIMUM]));
    let weights = |codes| _mm512_sub_ps(_mm512_mul_ps(scale, _mm512_cvtepi32_ps(codes)), minimum);
    let (first, last) = halves_of(out);
    store(weights(widened::<FIRST>(codes)), first);
    store(weights(widened::<LAST>(codes)), last);
}
