//! Dense types that the compiler does not bring near the speed of the stores: f16 and the
//! 8-bit floats.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{load, load_half, quarters_of, store};
use crate::arch::call::{Decode, dense_steps};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::F16 => f16,
        StorageType::FP8_E4M3 => fp8_e4m3,
        StorageType::FP8_E5M2 => fp8_e5m2,
        _ => return None,
    })
}

/// The instruction treats NaN as the format wants it: sign and payload stay, and the quiet bit
/// is set.
#[target_feature(enable = "avx2,fma,f16c")]
fn f16(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |halves: &[u8; 64], out: &mut [f32; 32]| {
        for (halves, out) in halves.as_chunks().0.iter().zip(quarters_of(out)) {
            store(_mm256_cvtph_ps(load_half(halves)), out);
        }
    });
}

/// By way of the upper half of the f32, whose two bytes are put together from the bits of the
/// code, 32 codes at once.
#[target_feature(enable = "avx2,fma,f16c")]
fn fp8_e4m3(payload: &[u8], out: &mut [f32]) {
    let [upper, lower] = SUBNORMALS.each_ref().map(|bytes| twice(bytes));
    let exponents = twice(&EXPONENTS);
    let byte = |byte: u8| _mm256_set1_epi8(byte as i8);
    dense_steps(payload, out, |codes: &[u8; 32], out: &mut [f32; 32]| {
        // Fours of codes in the order in which interleaving within lanes leaves them.
        let order = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
        let codes = _mm256_permutevar8x32_epi32(load(codes), order);
        let magnitudes = _mm256_and_si256(codes, byte(0x7F));
        // The top bit, which makes a look-up 0, is set from 16 on.
        let small = _mm256_add_epi8(magnitudes, byte(0x70));
        let exponent = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), byte(0x0F));
        let exponent = _mm256_shuffle_epi8(exponents, exponent);
        let high = _mm256_xor_si256(exponent, _mm256_shuffle_epi8(upper, small));
        let mantissa = _mm256_and_si256(_mm256_slli_epi16::<4>(codes), byte(0xF0));
        let low = _mm256_xor_si256(mantissa, _mm256_shuffle_epi8(lower, small));
        let nan = _mm256_cmpeq_epi8(magnitudes, byte(0x7F));
        let high = _mm256_blendv_epi8(high, byte(0x7F), nan);
        let low = _mm256_blendv_epi8(low, byte(0xC0), nan);
        let zero = _mm256_setzero_si256();
        let (first, last) = (_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high));
        let [out0, out1, out2, out3] = quarters_of(out);
        store(_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, first)), out0);
        store(_mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, first)), out1);
        store(_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, last)), out2);
        store(_mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, last)), out3);
    });
}

/// 16 bytes in both halves of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(bytes: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(load_half(bytes))
}

/// The highest byte of the f32 from the upper four bits of an e4m3, as if it were no
/// subnormal: the sign, and the exponent (but for its last bit) with a bias 120 larger.
static EXPONENTS: [u8; 16] = {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = ((i & 8) << 4 | (0x3C + (i & 7))) as u8;
        i += 1;
    }
    bytes
};

/// The bits in which the upper half of the f32 that magnitudes under 16 stand for differs from
/// what they would be without subnormals: of its high byte, and of its low byte.
static SUBNORMALS: [[u8; 16]; 2] = {
    let mut bytes = [[0; 16]; 2];
    let mut magnitude = 0;
    while magnitude < 8 {
        // Whole numbers of 2^-9.
        let right = (magnitude as f32 / 512.0).to_bits() >> 16;
        let differs = right ^ (0x3C00 | magnitude << 4);
        bytes[0][magnitude as usize] = (differs >> 8) as u8;
        bytes[1][magnitude as usize] = differs as u8;
        magnitude += 1;
    }
    bytes
};

/// The upper half of an f16; the one NaN has a code among them.
#[target_feature(enable = "avx2,fma,f16c")]
fn fp8_e5m2(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |codes: &[u8; 32], out: &mut [f32; 32]| {
        // Eights of codes in the order in which interleaving within lanes leaves them.
        let codes = _mm256_permute4x64_epi64::<0b11_01_10_00>(load(codes));
        let magnitudes = _mm256_and_si256(codes, _mm256_set1_epi8(0x7F));
        let nan = _mm256_cmpgt_epi8(magnitudes, _mm256_set1_epi8(0x7C));
        let codes = _mm256_blendv_epi8(codes, _mm256_set1_epi8(0x7E), nan);
        let zero = _mm256_setzero_si256();
        let (first, last) = (_mm256_unpacklo_epi8(zero, codes), _mm256_unpackhi_epi8(zero, codes));
        let [out0, out1, out2, out3] = quarters_of(out);
        store(_mm256_cvtph_ps(_mm256_castsi256_si128(first)), out0);
        store(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(first)), out1);
        store(_mm256_cvtph_ps(_mm256_castsi256_si128(last)), out2);
        store(_mm256_cvtph_ps(_mm256_extracti128_si256::<1>(last)), out3);
    });
}
