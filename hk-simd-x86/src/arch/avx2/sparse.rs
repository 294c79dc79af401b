//! Sparse payloads: values go to their places by permutations that bytes of the payload look
//! up.

use crate::arch::intrinsics::*;

use hk_core::blocks;

use super::vector::{load, store};

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

/// For the indexes of two groups which of their four values each weight gets, and a sign bit
/// where it gets none: the second of a group last.
static OF_INDEXES: [[u8; 8]; 256] = {
    let mut of = [[0x80; 8]; 256];
    let mut indexes = 0;
    while indexes < 256 {
        of[indexes][indexes & 3] = 0;
        of[indexes][indexes >> 2 & 3] = 1;
        of[indexes][4 + (indexes >> 4 & 3)] = 2;
        of[indexes][4 + (indexes >> 6)] = 3;
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
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn expand_2_4(indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let steps = indexes.len().min(values.len() / 4).min(out.len() / 8);
    let (out, rest) = out.split_at_mut(steps * 8);
    let all = indexes.iter().zip(values.as_chunks::<4>().0).zip(out.as_chunks_mut::<8>().0);
    for ((&index, values), out) in all {
        let numbers = numbers(&OF_INDEXES[usize::from(index)]);
        let values: &[u8; 16] = zerocopy::transmute_ref!(values);
        let values = _mm_castsi128_ps(super::vector::load_half(values));
        let both = _mm256_set_m128(values, values);
        store(or_zero(_mm256_permutevar_ps(both, numbers), numbers), out);
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
