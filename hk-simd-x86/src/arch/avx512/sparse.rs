//! Sparse payloads: values go to their places by permutations under masks.

use crate::arch::intrinsics::*;

use hk_core::blocks;

use super::vector::{load, load_quarter, store};

/// As [`blocks::expand_2_4`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,popcnt")]
pub(super) fn expand_2_4(indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    // A step: 32 groups, whose indexes are 16 bytes.
    let steps = (indexes.len() / 16).min(values.len() / 64).min(out.len() / 128);
    let (out, rest) = out.split_at_mut(steps * 128);
    let out = out.as_chunks_mut::<16>().0.as_chunks_mut::<8>().0;
    let all = indexes.as_chunks::<16>().0.iter().zip(values.as_chunks::<16>().0.as_chunks::<4>().0);
    // A bit for the place of each value in its group, of groups in low and in high nibbles.
    let first_low = _mm_set_epi8(8, 4, 2, 1, 8, 4, 2, 1, 8, 4, 2, 1, 8, 4, 2, 1);
    let second_low = _mm_set_epi8(8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1);
    let [first_high, second_high] = [first_low, second_low].map(|bits| _mm_slli_epi16::<4>(bits));
    // To each group its value.
    let first = _mm512_set_epi32(6, 6, 6, 6, 4, 4, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0);
    let [second, upper, eight] = [1, 8, 9].map(|n| _mm512_add_epi32(first, _mm512_set1_epi32(n)));
    let nibble = _mm_set1_epi8(15);
    // The bit of each weight among 32: the masks come by tests, since to move them from other
    // registers takes longer.
    let low_bits = _mm512_sllv_epi32(
        _mm512_set1_epi32(1),
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
    );
    let high_bits = _mm512_slli_epi32::<16>(low_bits);
    for ((indexes, values), out) in all.zip(out) {
        let indexes = load_quarter(indexes);
        let low = _mm_and_si128(indexes, nibble);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(indexes), nibble);
        let firsts =
            _mm_or_si128(_mm_shuffle_epi8(first_low, low), _mm_shuffle_epi8(first_high, high));
        let seconds =
            _mm_or_si128(_mm_shuffle_epi8(second_low, low), _mm_shuffle_epi8(second_high, high));
        let (firsts, seconds) = (quarters(firsts), quarters(seconds));
        let masks = firsts.iter().zip(&seconds);
        for ((out, values), (firsts, seconds)) in
            out.as_chunks_mut::<2>().0.iter_mut().zip(values).zip(masks)
        {
            let values = _mm512_castsi512_ps(load(zerocopy::transmute_ref!(values)));
            let [out_low, out_high] = out;
            let (firsts, seconds) =
                (_mm512_set1_epi32(*firsts as i32), _mm512_set1_epi32(*seconds as i32));
            let spread = |bits, first, second| {
                let (firsts, seconds) =
                    (_mm512_test_epi32_mask(firsts, bits), _mm512_test_epi32_mask(seconds, bits));
                let weights = _mm512_maskz_permutexvar_ps(firsts, first, values);
                _mm512_mask_permutexvar_ps(weights, seconds, second, values)
            };
            store(spread(low_bits, first, second), out_low);
            store(spread(high_bits, upper, eight), out_high);
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
