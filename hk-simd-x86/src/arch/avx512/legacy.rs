//! Blocks of 32 weights with 4 or 5 bits a weight.
//!
//! A block has few different weights. All that there can be are computed once, into a
//! register or two, and the codes pick their own from there: a permutation looks at the low
//! bits of its indexes alone, so that codes need no mask.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{broadcast_half, halves_of, load_quarter, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::Q4_0 => q4_0,
        StorageType::Q4_1 => q4_1,
        StorageType::Q5_0 => q5_0,
        StorageType::Q5_1 => q5_1,
        StorageType::Q8_0 => q8::<34>,
        StorageType::Q8_1 => q8::<36>,
        StorageType::IQ4_NL => iq4_nl,
        _ => return None,
    })
}

/// The whole numbers from `first` to `first + 15`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn from(first: i32) -> __m512 {
    let ascending = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    _mm512_cvtepi32_ps(_mm512_add_epi32(ascending, _mm512_set1_epi32(first)))
}

/// What the 4-bit codes of `qs` stand for, those of the low nibbles first.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn pick(qs: &[u8; 16], weights: __m512, out: &mut [f32; 32]) {
    let codes = _mm512_cvtepu8_epi32(load_quarter(qs));
    let (low, high) = halves_of(out);
    store(_mm512_permutexvar_ps(codes, weights), low);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(codes), weights), high);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_0(payload: &[u8], out: &mut [f32]) {
    let numbers = from(-8);
    whole_blocks(payload, out, |blocks: &[[u8; 18]], out| {
        for ([d0, d1, qs @ ..], out) in blocks.iter().zip(out) {
            pick(qs, _mm512_mul_ps(broadcast_half([*d0, *d1]), numbers), out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q4_1(payload: &[u8], out: &mut [f32]) {
    let numbers = from(0);
    whole_blocks(payload, out, |blocks: &[[u8; 20]], out| {
        for ([d0, d1, m0, m1, qs @ ..], out) in blocks.iter().zip(out) {
            let (d, m) = (broadcast_half([*d0, *d1]), broadcast_half([*m0, *m1]));
            pick(qs, _mm512_add_ps(_mm512_mul_ps(d, numbers), m), out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_nl(payload: &[u8], out: &mut [f32]) {
    // K of blocks.md.
    let values =
        _mm512_set_epi32(113, 89, 69, 53, 38, 25, 13, 1, -10, -22, -35, -49, -65, -83, -104, -127);
    let values = _mm512_cvtepi32_ps(values);
    whole_blocks(payload, out, |blocks: &[[u8; 18]], out| {
        for ([d0, d1, qs @ ..], out) in blocks.iter().zip(out) {
            pick(qs, _mm512_mul_ps(broadcast_half([*d0, *d1]), values), out);
        }
    });
}

/// As [`pick`], with a fifth bit for each code: bit `i` of `qh` for weight `i`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn pick_of_32(qh: &[u8; 4], qs: &[u8; 16], [clear, set]: [__m512; 2], out: &mut [f32; 32]) {
    let [a, b, c, d] = *qh;
    let (fifth_low, fifth_high) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    let codes = _mm512_cvtepu8_epi32(load_quarter(qs));
    let bit = _mm512_set1_epi32(16);
    let low = _mm512_and_si512(codes, _mm512_set1_epi32(15));
    let low = _mm512_mask_or_epi32(low, fifth_low, low, bit);
    let high = _mm512_srli_epi32::<4>(codes);
    let high = _mm512_mask_or_epi32(high, fifth_high, high, bit);
    let (out_low, out_high) = halves_of(out);
    store(_mm512_permutex2var_ps(clear, low, set), out_low);
    store(_mm512_permutex2var_ps(clear, high, set), out_high);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_0(payload: &[u8], out: &mut [f32]) {
    let numbers = [from(-16), from(0)];
    whole_blocks(payload, out, |blocks: &[[u8; 22]], out| {
        for ([d0, d1, h0, h1, h2, h3, qs @ ..], out) in blocks.iter().zip(out) {
            let d = broadcast_half([*d0, *d1]);
            let weights = [_mm512_mul_ps(d, numbers[0]), _mm512_mul_ps(d, numbers[1])];
            pick_of_32(&[*h0, *h1, *h2, *h3], qs, weights, out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q5_1(payload: &[u8], out: &mut [f32]) {
    let numbers = [from(0), from(16)];
    // If the compiler knew the lanes, it would shuffle twice for most of them.
    let all = |lane| _mm512_set1_epi32(core::hint::black_box(lane));
    let (d_lane, m_lane) = (all(0), all(1));
    whole_blocks(payload, out, |blocks: &[[u8; 24]], out| {
        for ([d0, d1, m0, m1, h0, h1, h2, h3, qs @ ..], out) in blocks.iter().zip(out) {
            let scales = _mm_cvtsi32_si128(i32::from_le_bytes([*d0, *d1, *m0, *m1]));
            let scales = _mm512_castps128_ps512(_mm_cvtph_ps(scales));
            let d = _mm512_permutexvar_ps(d_lane, scales);
            let m = _mm512_permutexvar_ps(m_lane, scales);
            let weights = [
                _mm512_add_ps(_mm512_mul_ps(d, numbers[0]), m),
                _mm512_add_ps(_mm512_mul_ps(d, numbers[1]), m),
            ];
            pick_of_32(&[*h0, *h1, *h2, *h3], qs, weights, out);
        }
    });
}

/// q8_0 and q8_1: a scale first, the codes last.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn q8<const BYTES: usize>(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; BYTES]], out: &mut [[f32; 32]]| {
        for (block, out) in blocks.iter().zip(out) {
            let (Some(d), Some(codes)) = (block.first_chunk(), block.last_chunk::<32>()) else {
                return;
            };
            let d = broadcast_half(*d);
            for (codes, out) in codes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
                let codes = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_quarter(codes)));
                store(_mm512_mul_ps(d, codes), out);
            }
        }
    });
}
