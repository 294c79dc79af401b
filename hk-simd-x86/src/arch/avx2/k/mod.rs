//! K-quants that the compiler does not bring near the speed of the stores: codes become whole
//! numbers of a byte each, 32 in a vector, then floats.

pub(super) mod unpack;

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use self::unpack::{codes_q3_k, codes_q5_k, codes_q6_k, scales_and_minimums, scales_q3_k};
use super::legacy::floats;
use super::vector::{broadcast_half, load_half_at, quarters_of, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::Q3_K => q3_k,
        StorageType::Q5_K => q5_k,
        StorageType::Q6_K => q6_k,
        _ => return None,
    })
}

/// 16 signed bytes as f32, the first eight times `first`, the others times `last`, in memory:
/// to load one into all lanes of a vector takes less than to shuffle it there, and the
/// compiler, if it knew, would shuffle.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales(
    integers: __m128i,
    [first, last]: [__m256; 2],
    memory: &mut [[f32; 8]; 2],
) -> &[[f32; 8]; 2] {
    let float = |integers| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(integers));
    store(_mm256_mul_ps(first, float(integers)), &mut memory[0]);
    let integers = _mm_unpackhi_epi64(integers, integers);
    store(_mm256_mul_ps(last, float(integers)), &mut memory[1]);
    core::hint::black_box(memory)
}

/// The weights of a block of sub-blocks of 16: what the codes less `OFFSET` are, times the
/// scales.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale<const OFFSET: i8>(codes: [__m256i; 8], scales: &[[f32; 8]; 2], out: &mut [f32; 256]) {
    let scales = scales.as_flattened().as_chunks::<2>().0;
    let out = out.as_chunks_mut::<32>().0;
    // A loop would take the codes from memory.
    scale_32::<OFFSET>(codes[0], scales[0], &mut out[0]);
    scale_32::<OFFSET>(codes[1], scales[1], &mut out[1]);
    scale_32::<OFFSET>(codes[2], scales[2], &mut out[2]);
    scale_32::<OFFSET>(codes[3], scales[3], &mut out[3]);
    scale_32::<OFFSET>(codes[4], scales[4], &mut out[4]);
    scale_32::<OFFSET>(codes[5], scales[5], &mut out[5]);
    scale_32::<OFFSET>(codes[6], scales[6], &mut out[6]);
    scale_32::<OFFSET>(codes[7], scales[7], &mut out[7]);
}

/// Two sub-blocks of 16.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale_32<const OFFSET: i8>(codes: __m256i, [first, last]: [f32; 2], out: &mut [f32; 32]) {
    let [a, b, c, d] = floats(_mm256_sub_epi8(codes, _mm256_set1_epi8(OFFSET)));
    let (first, last) = (_mm256_set1_ps(first), _mm256_set1_ps(last));
    let [out0, out1, out2, out3] = quarters_of(out);
    store(_mm256_mul_ps(first, a), out0);
    store(_mm256_mul_ps(first, b), out1);
    store(_mm256_mul_ps(last, c), out2);
    store(_mm256_mul_ps(last, d), out3);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q3_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 110]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let integers = _mm256_castsi128_si256(load_half_at::<94, 110>(block));
            let integers = _mm256_castsi256_si128(scales_q3_k(integers));
            let d = broadcast_half([block[108], block[109]]);
            let mut memory = [[0.0; 8]; 2];
            let scales = scales(integers, [d; 2], &mut memory);
            scale::<4>(codes_q3_k(block), scales, out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 210]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let d = broadcast_half([block[208], block[209]]);
            let mut memory = [[0.0; 8]; 2];
            let scales = scales(load_half_at::<192, 210>(block), [d; 2], &mut memory);
            scale::<32>(codes_q6_k(block), scales, out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_k(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 176]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let integers = _mm256_castsi128_si256(load_half_at::<0, 176>(block));
            let integers = _mm256_castsi256_si128(scales_and_minimums(integers));
            let d = broadcast_half([block[0], block[1]]);
            let dmin = broadcast_half([block[2], block[3]]);
            let mut memory = [[0.0; 8]; 2];
            let [scales, minimums] = scales(integers, [d, dmin], &mut memory);
            let (codes, out) = (codes_q5_k(block), out.as_chunks_mut::<32>().0);
            scale_less(scales[0], minimums[0], codes[0], &mut out[0]);
            scale_less(scales[1], minimums[1], codes[1], &mut out[1]);
            scale_less(scales[2], minimums[2], codes[2], &mut out[2]);
            scale_less(scales[3], minimums[3], codes[3], &mut out[3]);
            scale_less(scales[4], minimums[4], codes[4], &mut out[4]);
            scale_less(scales[5], minimums[5], codes[5], &mut out[5]);
            scale_less(scales[6], minimums[6], codes[6], &mut out[6]);
            scale_less(scales[7], minimums[7], codes[7], &mut out[7]);
        }
    });
}

/// `d * code - m`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale_less(d: f32, m: f32, codes: __m256i, out: &mut [f32; 32]) {
    let (d, m) = (_mm256_set1_ps(d), _mm256_set1_ps(m));
    let [a, b, c, e] = floats(codes);
    let [out0, out1, out2, out3] = quarters_of(out);
    store(_mm256_sub_ps(_mm256_mul_ps(d, a), m), out0);
    store(_mm256_sub_ps(_mm256_mul_ps(d, b), m), out1);
    store(_mm256_sub_ps(_mm256_mul_ps(d, c), m), out2);
    store(_mm256_sub_ps(_mm256_mul_ps(d, e), m), out3);
}
