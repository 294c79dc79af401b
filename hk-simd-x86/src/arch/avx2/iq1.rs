//! Decoding of `iq1_m`: row by row, whose codes are looked up in what they stand for. (The
//! portable decoder of `iq1_s`, compiled for this level, is faster than that.)

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{broadcast_half, load_floats, store};
use crate::arch::call::{Decode, whole_blocks};
use crate::arch::iq1::{SHIFTED, iq1_m_scale, nibbles};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    match storage {
        StorageType::IQ1_M => Some(iq1_m),
        _ => None,
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn iq1_m(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 56]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = u64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
            let d = _mm256_cvtss_f32(broadcast_half(iq1_m_scale(scales)));
            let (low, high) = block.split_at(32);
            // Groups of 16: two rows, and four of them to each word of scales.
            let groups = low.as_chunks::<2>().0.iter().zip(high);
            let groups = out.as_chunks_mut::<16>().0.iter_mut().zip(groups).enumerate();
            for (i, (out, (low, &high))) in groups {
                let values = values(d, (scales >> (16 * (i / 4) + 3 * (i % 4))) as u16);
                let (out, _) = out.as_chunks_mut::<8>();
                let high = u16::from(high);
                store(row(u16::from(low[0]) | (high & 15) << 8, values), &mut out[0]);
                store(row(u16::from(low[1]) | high >> 4 << 8, values), &mut out[1]);
            }
        }
    });
}

/// What the nibbles of a row stand for, by the lowest three bits of `s`.
#[inline]
#[target_feature(enable = "avx2")]
fn values(d: f32, s: u16) -> __m256 {
    let scale = d * f32::from(2 * (s & 7) + 1);
    _mm256_mul_ps(_mm256_set1_ps(scale), load_floats(SHIFTED.first_chunk().unwrap_or(&[0.0; 8])))
}

/// The weights of a row (see [`nibbles`]).
#[inline]
#[target_feature(enable = "avx2")]
fn row(number: u16, values: __m256) -> __m256 {
    let shifts = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    let codes = _mm256_srlv_epi32(_mm256_set1_epi32(nibbles(number) as i32), shifts);
    _mm256_permutevar8x32_ps(values, codes)
}
