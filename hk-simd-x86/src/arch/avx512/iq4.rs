//! Decoding of `iq4_xs`: 16 codes at a time are looked up in what the codes of their group stand
//! for.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::blocks::codebooks::IQ4;

use super::vector::{load_floats, load_quarter, scale, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::IQ4_XS => iq4_xs,
        _ => return None,
    })
}

/// What a code stands for.
static VALUES: [f32; 16] = {
    let mut values = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        values[i] = IQ4[i] as f32;
        i += 1;
    }
    values
};

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_xs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 136]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let (head, codes) = block.split_at(8);
            let scales = scales(*head.first_chunk().unwrap_or(&[0; 8]));
            let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<16>().0);
            for ((out, codes), j) in groups.zip(0..) {
                let scale = _mm512_permutexvar_ps(_mm512_set1_epi32(j), scales);
                let values = _mm512_mul_ps(scale, load_floats(&VALUES));
                let codes = _mm512_cvtepu8_epi32(load_quarter(codes));
                let (out, _) = out.as_chunks_mut::<16>();
                store(_mm512_permutexvar_ps(codes, values), &mut out[0]);
                store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(codes), values), &mut out[1]);
            }
        }
    });
}

/// The scales of the eight groups, from the first bytes of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales([d0, d1, high @ .., l0, l1, l2, l3]: [u8; 8]) -> __m512 {
    let low = _mm512_set1_epi32(i32::from_le_bytes([l0, l1, l2, l3]));
    let high = _mm512_set1_epi32(i32::from(u16::from_le_bytes(high)));
    let lane = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 7, 6, 5, 4, 3, 2, 1, 0);
    let low = _mm512_srlv_epi32(low, _mm512_slli_epi32::<2>(lane));
    let high = _mm512_slli_epi32::<4>(_mm512_srlv_epi32(high, _mm512_add_epi32(lane, lane)));
    let low = _mm512_and_si512(low, _mm512_set1_epi32(0x0F));
    let high = _mm512_and_si512(high, _mm512_set1_epi32(0x30));
    let integers = _mm512_sub_epi32(_mm512_or_si512(low, high), _mm512_set1_epi32(32));
    _mm512_mul_ps(scale([d0, d1]), _mm512_cvtepi32_ps(integers))
}
