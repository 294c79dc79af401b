//! Dense types that the compiler does not bring to the speed of the stores: f16, the 8-bit
//! floats, and 64-bit integers.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{halves_of, load, load_at, load_half, store, store_half};
use crate::arch::call::{Decode, dense_steps};

pub(super) fn decode(storage: StorageType, extended: bool) -> Option<Decode> {
    Some(match storage {
        StorageType::F16 => f16,
        StorageType::FP8_E4M3 if extended => fp8_e4m3_extended,
        StorageType::FP8_E4M3 => fp8_e4m3,
        StorageType::FP8_E5M2 => fp8_e5m2,
        StorageType::INT64 if extended => int64,
        StorageType::UINT64 if extended => uint64,
        _ => return None,
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn f16(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |halves: &[u8; 64], out: &mut [f32; 32]| {
        widen(load(halves), |weights| weights, out);
    });
}

/// 32 numbers of 16 bits to f32, and through `scale`. The instruction treats NaN as the
/// format wants it: sign and payload stay, and the quiet bit is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn widen(halves: __m512i, scale: impl Fn(__m512) -> __m512, out: &mut [f32; 32]) {
    let (low, high) = (_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64::<1>(halves));
    let (out_low, out_high) = halves_of(out);
    store(scale(_mm512_cvtph_ps(low)), out_low);
    store(scale(_mm512_cvtph_ps(high)), out_high);
}

/// The one NaN that 8-bit floats decode to, as an f16.
const NAN: i16 = 0x7E00;

/// By way of f16, whose exponent has a bit more and a bias that is 8 larger: all that differs
/// is a factor of 2^8.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fp8_e4m3(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |codes: &[u8; 32], out: &mut [f32; 32]| {
        let codes = load_half(codes);
        let signed = _mm256_or_si256(codes, _mm256_set1_epi8(-128));
        let nan = _mm256_cmpeq_epi8_mask(signed, _mm256_set1_epi8(-1));
        // The sign is extended to bits 14 and 15, and comes off again from the former.
        let halves = _mm512_slli_epi16::<7>(_mm512_cvtepi8_epi16(codes));
        let halves = _mm512_and_si512(halves, _mm512_set1_epi16(!0x4000));
        let halves = _mm512_mask_mov_epi16(halves, nan, _mm512_set1_epi16(NAN));
        widen(halves, |weights| _mm512_mul_ps(weights, _mm512_set1_ps(256.0)), out);
    });
}

/// The two bytes of the bf16 numbers that the codes 0 to 127 of fp8_e4m3 are, all of them
/// exactly: the lower bytes, then the upper ones.
static E4M3: [[u8; 128]; 2] = {
    let mut bytes = [[0; 128]; 2];
    let mut code = 1_u16;
    while code < 128 {
        let (exponent, fraction) = (code >> 3, code & 7);
        let number = if code == 127 {
            0x7FC0
        } else if exponent == 0 {
            // The highest bit becomes the hidden one.
            let place = fraction.ilog2() as u16;
            (127 - 9 + place) << 7 | (fraction << (7 - place) & 0x7F)
        } else {
            (exponent + 127 - 7) << 7 | fraction << 4
        };
        [bytes[0][code as usize], bytes[1][code as usize]] = number.to_le_bytes();
        code += 1;
    }
    bytes
};

/// By way of bf16, whose bytes are looked up.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
fn fp8_e4m3_extended(payload: &[u8], out: &mut [f32]) {
    let [lower, upper] = &E4M3;
    let lower = [load_at::<0, 128>(lower), load_at::<64, 128>(lower)];
    let upper = [load_at::<0, 128>(upper), load_at::<64, 128>(upper)];
    // With the sign, which NaN does not get.
    let sign = _mm512_set1_epi8(i8::MIN);
    let less = upper.map(|upper| _mm512_or_si512(upper, sign));
    let nan = _mm512_mask_blend_epi8(1 << 63, less[1], upper[1]);
    let less = [less[0], nan];
    dense_steps(payload, out, |codes: &[u8; 64], out: &mut [f32; 64]| {
        // To each quarter the four codes for it of each 16.
        let by_quarters = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
        let codes = _mm512_permutexvar_epi32(by_quarters, load(codes));
        let lower = _mm512_permutex2var_epi8(lower[0], codes, lower[1]);
        let upper = _mm512_permutex2var_epi8(upper[0], codes, upper[1]);
        let less = _mm512_permutex2var_epi8(less[0], codes, less[1]);
        let upper = _mm512_mask_mov_epi8(upper, _mm512_movepi8_mask(codes), less);
        let (first, last) =
            (_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper));
        let zero = _mm512_setzero_si512();
        let (out, _) = out.as_chunks_mut::<16>();
        store(_mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, first)), &mut out[0]);
        store(_mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, first)), &mut out[1]);
        store(_mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, last)), &mut out[2]);
        store(_mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, last)), &mut out[3]);
    });
}

/// The upper half of an f16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fp8_e5m2(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |codes: &[u8; 32], out: &mut [f32; 32]| {
        let codes = load_half(codes);
        let magnitudes = _mm256_and_si256(codes, _mm256_set1_epi8(0x7F));
        let nan = _mm256_cmpgt_epi8_mask(magnitudes, _mm256_set1_epi8(0x7C));
        let halves = _mm512_slli_epi16::<8>(_mm512_cvtepu8_epi16(codes));
        let halves = _mm512_mask_mov_epi16(halves, nan, _mm512_set1_epi16(NAN));
        widen(halves, |weights| weights, out);
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512dq")]
fn int64(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |numbers: &[u8; 64], out: &mut [f32; 8]| {
        store_half(_mm512_cvtepi64_ps(load(numbers)), out);
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512dq")]
fn uint64(payload: &[u8], out: &mut [f32]) {
    dense_steps(payload, out, |numbers: &[u8; 64], out: &mut [f32; 8]| {
        store_half(_mm512_cvtepu64_ps(load(numbers)), out);
    });
}
