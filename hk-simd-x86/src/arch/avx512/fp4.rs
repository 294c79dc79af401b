//! 4-bit floats: the scaled values of the sixteen codes in a register, as in `legacy`.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use zerocopy::{transmute_mut, transmute_ref};

use super::legacy::pick;
use super::vector::{load_quarter, store};
use crate::arch::call::{Decode, whole_blocks};
use crate::arch::scales;

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::MXFP4 => mxfp4,
        StorageType::NVFP4 => nvfp4,
        _ => return None,
    })
}

/// E of blocks.md.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn values() -> __m512 {
    let values = _mm512_set_epi32(-12, -8, -6, -4, -3, -2, -1, 0, 12, 8, 6, 4, 3, 2, 1, 0);
    _mm512_cvtepi32_ps(values)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn mxfp4(payload: &[u8], out: &mut [f32]) {
    let values = values();
    whole_blocks(payload, out, |blocks: &[[u8; 17]], out| {
        for ([e, qs @ ..], out) in blocks.iter().zip(out) {
            pick(qs, _mm512_mul_ps(_mm512_set1_ps(scales::MXFP4[usize::from(*e)]), values), out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn nvfp4(payload: &[u8], out: &mut [f32]) {
    let values = values();
    // Codes are eight bytes a sub-block, their low nibbles first.
    let shifts = _mm512_set_epi32(4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0);
    whole_blocks(payload, out, |blocks: &[[u8; 36]], out: &mut [[f32; 64]]| {
        for ([d0, d1, d2, d3, qs @ ..], out) in blocks.iter().zip(out) {
            let [out0, out1, out2, out3]: &mut [[f32; 16]; 4] = transmute_mut!(out);
            let [first, second]: &[[u8; 16]; 2] = transmute_ref!(qs);
            let (first, second) = (load_quarter(first), load_quarter(second));
            let sub_block = |codes, d: &u8, out: &mut [f32; 16]| {
                let codes = _mm512_srlv_epi32(_mm512_cvtepu8_epi32(codes), shifts);
                let scale = _mm512_set1_ps(scales::NVFP4[usize::from(*d)]);
                store(_mm512_mul_ps(scale, _mm512_permutexvar_ps(codes, values)), out);
            };
            sub_block(_mm_unpacklo_epi64(first, first), d0, out0);
            sub_block(_mm_unpackhi_epi64(first, first), d1, out1);
            sub_block(_mm_unpacklo_epi64(second, second), d2, out2);
            sub_block(_mm_unpackhi_epi64(second, second), d3, out3);
        }
    });
}
