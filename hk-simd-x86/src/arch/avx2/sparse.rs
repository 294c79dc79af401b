//! Sparse payloads: values go to their places by permutations that bytes of the payload look
//! up.

use crate::arch::intrinsics::*;

use hk_core::blocks;

use super::vector::{load, load_half, store};
use crate::arch::scaled::GROUP_CODES;

/// For each mask of eight weights which value each gets, and a sign bit where it gets none.
static OF_MASK: [[u8; 8]; 256] = {
    let mut of = [[0x80; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut value) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                of[mask][bit] = value;
                value += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    of
};

/// The codes of two groups for each byte of their indexes.
static OF_INDEXES: [u32; 256] = {
    let mut of = [0; 256];
    let mut indexes = 0;
    while indexes < 256 {
        let (low, high) = (GROUP_CODES[indexes & 15], GROUP_CODES[indexes >> 4]);
        of[indexes] = low as u32 | (high as u32) << 8;
        indexes += 1;
    }
    of
};

/// The numbers of values, with the sign bits at the top.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn numbers(of: &[u8; 8]) -> __m256i {
    _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(*of)))
}

/// `weights`, but 0 where `numbers` have a sign bit.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn or_zero(weights: __m256, numbers: __m256i) -> __m256 {
    _mm256_blendv_ps(weights, _mm256_setzero_ps(), _mm256_castsi256_ps(numbers))
}

/// As [`blocks::expand_2_4`].
///
/// Values, each widened by a zero, stand four to a group: the first at 0, the second at 2. A
/// code of two bits for each weight picks one of them or a zero, by a permutation in a group.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn expand_2_4(indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let steps = indexes.len().min(values.len() / 4).min(out.len() / 8);
    let (out, rest) = out.split_at_mut(steps * 8);
    let all = indexes.iter().zip(values.as_chunks::<4>().0).zip(out.as_chunks_mut::<8>().0);
    // The permutation looks at the low two bits alone.
    let shifts = _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0);
    for ((&index, values), out) in all {
        let values = _mm256_cvtepu32_epi64(load_half(zerocopy::transmute_ref!(values)));
        let codes = _mm256_set1_epi32(OF_INDEXES[usize::from(index)] as i32);
        let codes = _mm256_srlv_epi32(codes, shifts);
        store(_mm256_permutevar_ps(_mm256_castsi256_ps(values), codes), out);
    }
    let indexes = indexes.get(steps..).unwrap_or_default();
    blocks::expand_2_4(indexes, values.get(steps * 4..).unwrap_or_default(), rest);
}

/// As [`blocks::expand_bitmask`].
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
pub(super) fn expand_bitmask(mask: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let (steps, _) = out.as_chunks_mut::<8>();
    let (mut at, mut done) = (0, 0);
    for (&mask, out) in mask.iter().zip(steps) {
        // As many values as a step can take at most.
        let Some(values) = values.get(at..).and_then(|values| values.first_chunk::<8>()) else {
            break;
        };
        let numbers = numbers(&OF_MASK[usize::from(mask)]);
        let values = _mm256_castsi256_ps(load(zerocopy::transmute_ref!(values)));
        store(or_zero(_mm256_permutevar8x32_ps(values, numbers), numbers), out);
        at += mask.count_ones() as usize;
        done += 1;
    }
    let mask = mask.get(done..).unwrap_or_default();
    let rest = out.get_mut(done * 8..).unwrap_or_default();
    blocks::expand_bitmask(mask, values.get(at..).unwrap_or_default(), rest);
}

/// As [`blocks::count_ones`].
#[target_feature(enable = "avx2,fma,f16c,popcnt")]
pub(super) fn count_ones(mask: &[u8]) -> u64 {
    blocks::count_ones(mask)
}
