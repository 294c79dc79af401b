//! 4-bit floats: what codes stand for is looked up for 32 at once.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use zerocopy::{transmute_mut, transmute_ref};

use super::legacy::{floats, nibbles, scale};
use super::vector::{quarters_of, store};
use crate::arch::call::{Decode, whole_blocks};
use crate::arch::scales;

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::MXFP4 => mxfp4,
        StorageType::NVFP4 => nvfp4,
        _ => return None,
    })
}

/// The numbers of E of blocks.md that the codes of `qs` stand for.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn look_up(qs: &[u8; 16]) -> __m256i {
    let values = _mm_set_epi8(-12, -8, -6, -4, -3, -2, -1, 0, 12, 8, 6, 4, 3, 2, 1, 0);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles(qs))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn mxfp4(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 17]], out| {
        for ([e, qs @ ..], out) in blocks.iter().zip(out) {
            scale(_mm256_set1_ps(scales::MXFP4[usize::from(*e)]), look_up(qs), out);
        }
    });
}

/// Two sub-blocks. Each has eight bytes of codes, its low nibbles first.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sub_blocks(qs: &[u8; 16], first: __m256, second: __m256, out: &mut [f32; 32]) {
    let [low0, low1, high0, high1] = floats(look_up(qs));
    let [out0, out1, out2, out3] = quarters_of(out);
    store(_mm256_mul_ps(first, low0), out0);
    store(_mm256_mul_ps(first, high0), out1);
    store(_mm256_mul_ps(second, low1), out2);
    store(_mm256_mul_ps(second, high1), out3);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 36]], out: &mut [[f32; 64]]| {
        for ([d0, d1, d2, d3, qs @ ..], out) in blocks.iter().zip(out) {
            let [d0, d1, d2, d3] = [*d0, *d1, *d2, *d3].map(|d| scales::NVFP4[usize::from(d)]);
            let [qs0, qs1]: &[[u8; 16]; 2] = transmute_ref!(qs);
            let [out0, out1]: &mut [[f32; 32]; 2] = transmute_mut!(out);
            sub_blocks(qs0, _mm256_set1_ps(d0), _mm256_set1_ps(d1), out0);
            sub_blocks(qs1, _mm256_set1_ps(d2), _mm256_set1_ps(d3), out1);
        }
    });
}
