//! Blocks of 32 weights that the compiler does not bring near the speed of the stores: codes
//! become whole numbers of a byte each, all 32 in a vector, then floats.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{broadcast_half, load_half, quarters_of, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::Q5_0 => q5_0,
        StorageType::Q5_1 => q5_1,
        StorageType::IQ4_NL => iq4_nl,
        _ => return None,
    })
}

/// The 4-bit codes of `qs`: the low nibbles in the lower half, the high ones in the upper.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn nibbles(qs: &[u8; 16]) -> __m256i {
    let both = _mm256_broadcastsi128_si256(load_half(qs));
    let shifted = _mm256_srlv_epi32(both, _mm256_set_epi32(4, 4, 4, 4, 0, 0, 0, 0));
    _mm256_and_si256(shifted, _mm256_set1_epi8(15))
}

/// 32 whole numbers to f32.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn floats(numbers: __m256i) -> [__m256; 4] {
    let low = _mm256_castsi256_si128(numbers);
    let high = _mm256_extracti128_si256::<1>(numbers);
    let float = |numbers| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(numbers));
    [
        float(low),
        float(_mm_unpackhi_epi64(low, low)),
        float(high),
        float(_mm_unpackhi_epi64(high, high)),
    ]
}

/// `d * number`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scale(d: __m256, numbers: __m256i, out: &mut [f32; 32]) {
    let [a, b, c, e] = floats(numbers);
    let [out0, out1, out2, out3] = quarters_of(out);
    store(_mm256_mul_ps(d, a), out0);
    store(_mm256_mul_ps(d, b), out1);
    store(_mm256_mul_ps(d, c), out2);
    store(_mm256_mul_ps(d, e), out3);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_nl(payload: &[u8], out: &mut [f32]) {
    // K of blocks.md.
    let values =
        _mm_set_epi8(113, 89, 69, 53, 38, 25, 13, 1, -10, -22, -35, -49, -65, -83, -104, -127);
    let values = _mm256_broadcastsi128_si256(values);
    whole_blocks(payload, out, |blocks: &[[u8; 18]], out| {
        for ([d0, d1, qs @ ..], out) in blocks.iter().zip(out) {
            let numbers = _mm256_shuffle_epi8(values, nibbles(qs));
            scale(broadcast_half([*d0, *d1]), numbers, out);
        }
    });
}

/// A byte of ones for each weight whose fifth bit is clear: bit `i` of `qh` for weight `i`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fifth_clear(qh: [u8; 4]) -> __m256i {
    let spread =
        _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(qh)), spread);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), _mm256_setzero_si256())
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_0(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 22]], out| {
        for ([d0, d1, h0, h1, h2, h3, qs @ ..], out) in blocks.iter().zip(out) {
            // 16 less: nothing where the bit is set, else the upper bits of -16.
            let clear = fifth_clear([*h0, *h1, *h2, *h3]);
            let less = _mm256_and_si256(clear, _mm256_set1_epi8(-16));
            scale(broadcast_half([*d0, *d1]), _mm256_or_si256(nibbles(qs), less), out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5_1(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 24]], out| {
        for ([d0, d1, m0, m1, h0, h1, h2, h3, qs @ ..], out) in blocks.iter().zip(out) {
            let both = _mm_set1_epi32(i32::from_le_bytes([*d0, *d1, *m0, *m1]));
            let both = _mm256_cvtph_ps(both);
            let (d, m) = (_mm256_moveldup_ps(both), _mm256_movehdup_ps(both));
            let clear = fifth_clear([*h0, *h1, *h2, *h3]);
            let more = _mm256_andnot_si256(clear, _mm256_set1_epi8(16));
            let [a, b, c, e] = floats(_mm256_or_si256(nibbles(qs), more));
            let [out0, out1, out2, out3] = quarters_of(out);
            store(_mm256_add_ps(_mm256_mul_ps(d, a), m), out0);
            store(_mm256_add_ps(_mm256_mul_ps(d, b), m), out1);
            store(_mm256_add_ps(_mm256_mul_ps(d, c), m), out2);
            store(_mm256_add_ps(_mm256_mul_ps(d, e), m), out3);
        }
    });
}
