//! Decoding of ternary blocks: 16 codes at a time are looked up in what the codes of the block
//! stand for.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{load_floats, load_quarter_at, scale, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::TQ1_0 => tq1_0,
        StorageType::TQ2_0 => tq2_0,
        _ => return None,
    })
}

/// What the codes 0 to 3 of a block stand for, four times over: looked up by 4 bits, the upper
/// two of them say nothing.
#[inline]
#[target_feature(enable = "avx512f")]
fn values(d: [u8; 2]) -> __m512 {
    static INTEGERS: [f32; 16] =
        [-1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 2.0];
    _mm512_mul_ps(scale(d), load_floats(&INTEGERS))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tq2_0(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 66]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let values = values([block[64], block[65]]);
            let (codes, _) = block.as_chunks::<32>();
            for (codes, out) in codes.iter().zip(out.as_chunks_mut::<128>().0) {
                quarters(codes, values, out);
            }
        }
    });
}

/// The weights of 32 bytes of `tq2_0`: those of the lowest bits, and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn quarters(codes: &[u8; 32], values: __m512, out: &mut [f32; 128]) {
    let low = _mm512_cvtepu8_epi32(load_quarter_at::<0, 32>(codes));
    let high = _mm512_cvtepu8_epi32(load_quarter_at::<16, 32>(codes));
    let (out, _) = out.as_chunks_mut::<16>();
    store(_mm512_permutexvar_ps(low, values), &mut out[0]);
    store(_mm512_permutexvar_ps(high, values), &mut out[1]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<2>(low), values), &mut out[2]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<2>(high), values), &mut out[3]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(low), values), &mut out[4]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<4>(high), values), &mut out[5]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<6>(low), values), &mut out[6]);
    store(_mm512_permutexvar_ps(_mm512_srli_epi32::<6>(high), values), &mut out[7]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tq1_0(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 54]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let values = values([block[52], block[53]]);
            let mut first = fractions(load_quarter_at::<0, 54>(block));
            let mut second = fractions(load_quarter_at::<16, 54>(block));
            let mut third = fractions(load_quarter_at::<32, 54>(block));
            let (out, rest) = out.split_at_mut(160);
            let (out, rest) = (out.as_chunks_mut::<32>().0, rest.as_chunks_mut::<16>().0);
            for (out, third_out) in out.iter_mut().zip(&mut *rest) {
                let (out, _) = out.as_chunks_mut::<16>();
                first = digit(first, values, &mut out[0]);
                second = digit(second, values, &mut out[1]);
                third = digit(third, values, third_out);
            }
            // Digit `n` of the last four bytes in quarter `n`.
            let last = [block[48], block[49], block[50], block[51]];
            let last = _mm512_cvtepu8_epi32(_mm_set1_epi32(i32::from_le_bytes(last)));
            let powers = _mm512_set_epi32(27, 27, 27, 27, 9, 9, 9, 9, 3, 3, 3, 3, 1, 1, 1, 1);
            let last = _mm512_mullo_epi16(last, _mm512_slli_epi32::<8>(powers));
            if let Some(out) = rest.last_mut() {
                digit(last, values, out);
            }
        }
    });
}

/// 16 bytes as fractions of 65536 in words, so that digits are what comes out on top when they
/// are multiplied by 3.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fractions(bytes: __m128i) -> __m512i {
    _mm512_slli_epi32::<8>(_mm512_cvtepu8_epi32(bytes))
}

/// Decodes the first base-3 digit of each fraction, and gives what is left of the fractions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn digit(fractions: __m512i, values: __m512, out: &mut [f32; 16]) -> __m512i {
    let three = _mm512_set1_epi16(3);
    store(_mm512_permutexvar_ps(_mm512_mulhi_epu16(fractions, three), values), out);
    _mm512_mullo_epi16(fractions, three)
}
