//! Blocks of codes with scales beside them: as in `legacy`, all weights that a block can have
//! are computed once, and the codes pick their own.

use crate::arch::intrinsics::*;

use hk_core::blocks::{E2M1, IQ4, NF4, ScaledBlocks, ScaledType, each_scaled_block_unrolled};

use super::vector::{load, load_floats, load_quarter, store};
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn finish(weights: __m512, residual: Option<&[u8; 64]>, out: &mut [f32; 16]) {
    let weights = match residual {
        None => weights,
        Some(residual) => _mm512_add_ps(weights, _mm512_castsi512_ps(load(residual))),
    };
    store(weights, out);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn from_f32(bytes: [u8; 4]) -> __m512 {
    _mm512_set1_ps(f32::from_le_bytes(bytes))
}

/// The weights of sixteen 4-bit codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn pick(weights: __m512, codes: &[u8; 8]) -> __m512 {
    let [a, b, c, d, e, f, g, h] = *codes;
    let low = i32::from_le_bytes([a, b, c, d]);
    let high = i32::from_le_bytes([e, f, g, h]);
    // To each lane the four bytes that its code is in, and these shifted so that it is the
    // lowest: the permutation looks at the low four bits alone.
    let codes = _mm512_mask_set1_epi32(_mm512_set1_epi32(low), 0xFF00, high);
    let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
    _mm512_permutexvar_ps(_mm512_srlv_epi32(codes, shifts), weights)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dq4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let values = load_floats(&NF4);
    let prepare = |scale| _mm512_mul_ps(from_f32(scale), values);
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_nl(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let values = load_floats(&IQ4);
    let prepare = |scale| _mm512_mul_ps(from_f32(scale), values);
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn mxfp4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    e2m1(blocks, out, &E8M0);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn nvfp4(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    e2m1(blocks, out, &E4M3);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn e2m1(blocks: &ScaledBlocks<'_>, out: &mut [f32], scales: &[f32; 256]) {
    let values = load_floats(&E2M1);
    let prepare = |[scale]: [u8; 1]| {
        let scale = scales[usize::from(scale)];
        _mm512_mul_ps(_mm512_set1_ps(scale), values)
    };
    each_scaled_block_unrolled(blocks, out, prepare, |w, codes, r, out| {
        finish(pick(w, codes), r, out)
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dq8(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    let decode = |scale, codes: &[u8; 16]| {
        let codes = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_quarter(codes)));
        _mm512_mul_ps(scale, codes)
    };
    let prepare = |scale| from_f32(scale);
    each_scaled_block_unrolled(blocks, out, prepare, |p, codes, r, out| {
        finish(decode(p, codes), r, out)
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dqt(blocks: &ScaledBlocks<'_>, out: &mut [f32]) {
    // Of four lanes: nothing, the scale, and twice the scale with the other sign. All four
    // times, since the permutation looks at four bits, of which two are the next code's.
    let (there, signs) = (0b1110_1110_1110_1110, _mm512_set1_epi32(i32::MIN));
    let prepare = |scale| {
        let scale = _mm512_castps_si512(from_f32(scale));
        let signed = _mm512_mask_xor_epi32(scale, 0b1100_1100_1100_1100, scale, signs);
        _mm512_castsi512_ps(_mm512_maskz_mov_epi32(there, signed))
    };
    let shifts = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let decode = |weights, codes: &[u8; 4]| {
        let codes = _mm512_set1_epi32(i32::from_le_bytes(*codes));
        _mm512_permutexvar_ps(_mm512_srlv_epi32(codes, shifts), weights)
    };
    each_scaled_block_unrolled(blocks, out, prepare, |p, codes, r, out| {
        finish(decode(p, codes), r, out)
    });
}
