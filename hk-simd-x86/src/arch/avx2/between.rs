//! What stands between the matrices: the loops of hk-core, compiled for this level.

use crate::arch::intrinsics::*;

use hk_core::{dot, vector};

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    dot::dot_f32(a, b)
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scale(x: &[f32], scale: f32, weights: &[f32], out: &mut [f32]) {
    vector::scale(x, scale, weights, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn exponentials(scores: &mut [f32]) -> f32 {
    vector::exponentials(scores)
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn swiglu(gates: &mut [f32], ups: &[f32]) {
    vector::swiglu(gates, ups);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn to_f16(numbers: &[f32], out: &mut [[u8; 2]]) {
    let len = numbers.len().min(out.len());
    let (from, from_rest) = numbers[..len].as_chunks::<8>();
    let (to, to_rest) = out[..len].as_chunks_mut::<8>();
    for (from, to) in from.iter().zip(to) {
        // SAFETY: the array has the size of the vector.
        let floats = unsafe { _mm256_loadu_ps(from.as_ptr()) };
        let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats);
        // SAFETY: the array has the size of the vector.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), halves) };
    }
    vector::to_f16(from_rest, to_rest);
}
