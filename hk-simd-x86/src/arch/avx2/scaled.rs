//! Blocks of codes with scales beside them: all weights that a block can have are computed
//! once, and the codes pick their own.

use crate::arch::intrinsics::*;

use hk_core::blocks::{E2M1, IQ4, NF4, ScaledBlocks, ScaledType, each_scaled_block_unrolled};

use super::vector::{load, load_floats, store};
use crate::arch::scaled::DecodeScaled;
use crate::arch::scales::{E4M3, E8M0};

pub(super) fn decode(kind: ScaledType) -> DecodeScaled {
    match kind {
        ScaledType::Dq4 => dq4,
        ScaledType::Dq8 => dq8,
        ScaledType::Dqt => dqt,
        ScaledType::Iq4Nl => iq4_nl,
        ScaledType::Mxfp4 => mxfp4,
        ScaledType::Nvfp4 => nvfp4,
    }
}

/// Writes weights, plus the residual.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn finish(weights: __m256, residual: Option<&[u8; 32]>, out: &mut [f32; 8]) {
    let weights = match residual {
        None => weights,
        Some(residual) => _mm256_add_ps(weights, _mm256_castsi256_ps(load(residual))),
    };
    store(weights, out);
}

/// The two halves of sixteen values.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(values: &[f32; 16]) -> [__m256; 2] {
    let [low, high]: &[[f32; 8]; 2] = zerocopy::transmute_ref!(values);
    [load_floats(low), load_floats(high)]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scaled(scale: f32, [low, high]: [__m256; 2]) -> [__m256; 2] {
    let scale = _mm256_set1_ps(scale);
    [_mm256_mul_ps(scale, low), _mm256_mul_ps(scale, high)]
}

/// The weights of eight 4-bit codes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn pick([low, high]: [__m256; 2], codes: &[u8; 4]) -> __m256 {
    let codes = _mm256_set1_epi32(i32::from_le_bytes(*codes));
    // A permutation looks at the low three bits alone, a blend at the highest.
    let lowest = _mm256_srlv_epi32(codes, _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0));
    let highest = _mm256_sllv_epi32(codes, _mm256_set_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    let (low, high) =
        (_mm256_permutevar8x32_ps(low, lowest), _mm256_permutevar8x32_ps(high, lowest));
    _mm256_blendv_ps(low, high, _mm256_castsi256_ps(highest))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dq4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let values = halves(&NF4);
    let prepare = |scale| scaled(f32::from_le_bytes(scale), values);
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq4_nl(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let values = halves(&IQ4);
    let prepare = |scale| scaled(f32::from_le_bytes(scale), values);
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn mxfp4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    e2m1(blocks, out, &E8M0);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    e2m1(blocks, out, &E4M3);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn e2m1(blocks: &ScaledBlocks<'_>, out: &mut [f32], scales: &[f32; 256]) {
    let values = halves(&E2M1);
    let prepare = |[scale]: [u8; 1]| scaled(scales[usize::from(scale)], values);
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dq8(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let prepare = |scale| _mm256_set1_ps(f32::from_le_bytes(scale));
    let decode = |scale, codes: &[u8; 8]| {
        let codes = _mm_cvtsi64_si128(i64::from_le_bytes(*codes));
        _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)))
    };
    each_scaled_block_unrolled(blocks, out, prepare, |p, codes, r, out| {
        finish(decode(p, codes), r, out)
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dqt(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    // Nothing, the scale, and twice the scale with the other sign; the same again, since each
    // half picks from its own four.
    let flipped = _mm256_set_epi32(i32::MIN, i32::MIN, 0, 0, i32::MIN, i32::MIN, 0, 0);
    let there = _mm256_set_epi32(-1, -1, -1, 0, -1, -1, -1, 0);
    let prepare = |scale| {
        let scale = _mm256_xor_si256(_mm256_set1_epi32(i32::from_le_bytes(scale)), flipped);
        _mm256_castsi256_ps(_mm256_and_si256(scale, there))
    };
    let shifts = _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0);
    let decode = |weights, codes: &[u8; 2]| {
        let codes = _mm256_set1_epi32(i32::from(u16::from_le_bytes(*codes)));
        _mm256_permutevar_ps(weights, _mm256_srlv_epi32(codes, shifts))
    };
    each_scaled_block_unrolled(blocks, out, prepare, |p, codes, r, out| {
        finish(decode(p, codes), r, out)
    });
}
