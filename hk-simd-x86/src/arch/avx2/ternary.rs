//! Decoding of `tq1_0`: 8 digits at a time are looked up in what the digits of the block stand
//! for. (The portable decoder of `tq2_0`, compiled for this level, is faster than that.)

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{broadcast_half, load_floats, store};
use crate::arch::call::{Decode, whole_blocks};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    match storage {
        StorageType::TQ1_0 => Some(tq1_0),
        _ => None,
    }
}

/// What the digits 0 to 2 of a block stand for.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn values(d: [u8; 2]) -> __m256 {
    static INTEGERS: [f32; 8] = [-1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    _mm256_mul_ps(broadcast_half(d), load_floats(&INTEGERS))
}

/// A byte in each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn widened(bytes: &[u8; 8]) -> __m256i {
    _mm256_cvtepu8_epi32(_mm_set1_epi64x(i64::from_le_bytes(*bytes)))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn tq1_0(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 54]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let values = values([block[52], block[53]]);
            let (eights, _) = block.as_chunks::<8>();
            let (out, _) = out.as_chunks_mut::<8>();
            // Eights of bytes, and how far apart what they have of each digit is.
            for i in 0..4 {
                five_digits::<4>(&eights[i], values, &mut out[i..]);
            }
            for i in 4..6 {
                five_digits::<2>(&eights[i], values, &mut out[16 + i..]);
            }
            // The last four bytes for one digit, and for the next.
            let last = i32::from_le_bytes([block[48], block[49], block[50], block[51]]);
            let last = _mm256_cvtepu8_epi32(_mm_set1_epi32(last));
            let powers = _mm256_set_epi32(0x300, 0x300, 0x300, 0x300, 0x100, 0x100, 0x100, 0x100);
            let nine = _mm256_set1_epi16(9);
            let first = _mm256_mullo_epi16(last, powers);
            digit(first, values, &mut out[30]);
            digit(_mm256_mullo_epi16(first, nine), values, &mut out[31]);
        }
    });
}

/// The digits of eight bytes to every `APART`th vector.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn five_digits<const APART: usize>(bytes: &[u8; 8], values: __m256, out: &mut [[f32; 8]]) {
    // Fractions of 65536: digits are what comes out on top when they are multiplied by 3.
    let mut fractions = _mm256_slli_epi32::<8>(widened(bytes));
    for out in out.iter_mut().step_by(APART).take(5) {
        fractions = digit(fractions, values, out);
    }
}

/// Decodes the first base-3 digit of each fraction, and gives what is left of the fractions.
#[inline]
#[target_feature(enable = "avx2")]
fn digit(fractions: __m256i, values: __m256, out: &mut [f32; 8]) -> __m256i {
    let three = _mm256_set1_epi16(3);
    store(_mm256_permutevar8x32_ps(values, _mm256_mulhi_epu16(fractions, three)), out);
    _mm256_mullo_epi16(fractions, three)
}
