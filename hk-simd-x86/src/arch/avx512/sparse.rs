//! Sparse payloads: values go to their places by permutations and expansions.

use crate::arch::intrinsics::*;

use hk_core::blocks;

use super::vector::{load_half, load_quarter, store};
use crate::arch::scaled::GROUP_CODES;

/// As [`blocks::expand_2_4`].
///
/// Values, each widened by a zero, stand four to a group: the first at 0, the second at 2. A
/// code of two bits for each weight picks one of them or a zero, by a permutation in a group.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,popcnt")]
pub(super) fn expand_2_4(indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    // A step: 32 groups, whose indexes are 16 bytes.
    let steps = (indexes.len() / 16).min(values.len() / 64).min(out.len() / 128);
    let (out, rest) = out.split_at_mut(steps * 128);
    let out = out.as_chunks_mut::<16>().0.as_chunks_mut::<8>().0;
    let all = indexes.as_chunks::<16>().0.iter().zip(values.as_chunks::<8>().0.as_chunks::<8>().0);
    let group_codes = load_quarter(&GROUP_CODES);
    let nibble = _mm_set1_epi8(15);
    // The permutation looks at the low two bits alone.
    let shifts = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    for ((indexes, values), out) in all.zip(out) {
        let indexes = load_quarter(indexes);
        let even = _mm_shuffle_epi8(group_codes, _mm_and_si128(indexes, nibble));
        let odd = _mm_and_si128(_mm_srli_epi16::<4>(indexes), nibble);
        let odd = _mm_shuffle_epi8(group_codes, odd);
        let codes =
            [quarters(_mm_unpacklo_epi8(even, odd)), quarters(_mm_unpackhi_epi8(even, odd))];
        for ((out, values), codes) in out.iter_mut().zip(values).zip(codes.as_flattened()) {
            let values: &[u8; 32] = zerocopy::transmute_ref!(values);
            let values = _mm512_castsi512_ps(_mm512_cvtepu32_epi64(load_half(values)));
            let codes = _mm512_srlv_epi32(_mm512_set1_epi32(*codes as i32), shifts);
            store(_mm512_permutevar_ps(values, codes), out);
        }
    }
    let indexes = indexes.get(steps * 16..).unwrap_or_default();
    blocks::expand_2_4(indexes, values.get(steps * 64..).unwrap_or_default(), rest);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn quarters(vector: __m128i) -> [u32; 4] {
    let mut quarters = [0; 4];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_si128(quarters.as_mut_ptr().cast(), vector) };
    quarters
}

/// As [`blocks::expand_bitmask`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,popcnt")]
pub(super) fn expand_bitmask(mask: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let (words, _) = mask.as_chunks::<8>();
    let (steps, _) = out.as_chunks_mut::<64>();
    let (mut at, mut done) = (0, 0);
    for (word, out) in words.iter().zip(steps) {
        // As many values as a step can take at most.
        let Some(values) = values.get(at..).and_then(|values| values.first_chunk::<64>()) else {
            break;
        };
        let word = u64::from_le_bytes(*word);
        let mut taken = 0;
        for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let mask = (word >> (16 * i)) as u16;
            // SAFETY: at most 16 ones stand in each part of the mask before this one, so that
            // `taken` is at most 48.
            let values = unsafe { _mm512_loadu_ps(values.as_ptr().wrapping_add(taken).cast()) };
            store(_mm512_maskz_expand_ps(mask, values), out);
            taken += mask.count_ones() as usize;
        }
        at += taken;
        done += 1;
    }
    let mask = mask.get(done * 8..).unwrap_or_default();
    let rest = out.get_mut(done * 64..).unwrap_or_default();
    blocks::expand_bitmask(mask, values.get(at..).unwrap_or_default(), rest);
}

/// As [`blocks::count_ones`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,popcnt")]
pub(super) fn count_ones(mask: &[u8]) -> u64 {
    blocks::count_ones(mask)
}
