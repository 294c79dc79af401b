//! Decoding of `iq4_xs`: codes are looked up as integers of 8 bits, which are widened.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::blocks::codebooks::IQ4;

use super::vector::{broadcast_half, load_half, quarters_of, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    match storage {
        StorageType::IQ4_XS => Some(iq4_xs),
        _ => None,
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_xs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 136]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let (head, codes) = block.split_at(8);
            let scales = scales(*head.first_chunk().unwrap_or(&[0; 8]));
            let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<16>().0);
            for ((out, codes), scale) in groups.zip(scales) {
                group(codes, _mm256_set1_ps(scale), out);
            }
        }
    });
}

/// The weights of 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn group(codes: &[u8; 16], scale: __m256, out: &mut [f32; 32]) {
    let codes = load_half(codes);
    let nibble = _mm_set1_epi8(15);
    let low = _mm_and_si128(codes, nibble);
    let high = _mm_and_si128(_mm_srli_epi16::<4>(codes), nibble);
    let integers = load_half(&IQ4.map(|integer| integer as u8));
    let low = _mm_shuffle_epi8(integers, low);
    let high = _mm_shuffle_epi8(integers, high);
    let [a, b, c, d] = quarters_of(out);
    store(scaled(low, scale), a);
    store(scaled(_mm_unpackhi_epi64(low, low), scale), b);
    store(scaled(high, scale), c);
    store(scaled(_mm_unpackhi_epi64(high, high), scale), d);
}

/// The first eight integers times the scale.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(integers: __m128i, scale: __m256) -> __m256 {
    _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(integers)))
}

/// The scales of the eight groups, from the first bytes of a block.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales([d0, d1, high @ .., l0, l1, l2, l3]: [u8; 8]) -> [f32; 8] {
    let low = _mm256_set1_epi32(i32::from_le_bytes([l0, l1, l2, l3]));
    let high = _mm256_set1_epi32(i32::from(u16::from_le_bytes(high)));
    let twice = _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0);
    let low = _mm256_srlv_epi32(low, _mm256_add_epi32(twice, twice));
    let high = _mm256_slli_epi32::<4>(_mm256_srlv_epi32(high, twice));
    let low = _mm256_and_si256(low, _mm256_set1_epi32(0x0F));
    let high = _mm256_and_si256(high, _mm256_set1_epi32(0x30));
    let integers = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    let mut scales = [0.0; 8];
    store(_mm256_mul_ps(broadcast_half([d0, d1]), _mm256_cvtepi32_ps(integers)), &mut scales);
    scales
}
