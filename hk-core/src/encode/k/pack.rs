//! Codes and scales to the bits of blocks: the way back from `codes` of
//! [`blocks`](crate::blocks).

use super::{affine, symmetric};
use crate::blocks::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};

/// Of each 128 codes four 2-bit ones a byte, 32 weights apart, taken from bit `shift` of the
/// codes on.
#[inline(always)]
fn two_bits(codes: &[u8; 256], shift: u32) -> [[u8; 32]; 2] {
    let mut qs = [[0; 32]; 2];
    for (qs, codes) in qs.iter_mut().zip(codes.as_chunks::<128>().0) {
        for (quarter, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            for (q, code) in qs.iter_mut().zip(codes) {
                *q |= (code >> shift & 3) << (2 * quarter);
            }
        }
    }
    qs
}

/// Bit `bit` of the codes: of those 32 weights apart one a bit.
#[inline(always)]
fn one_bit(codes: &[u8; 256], bit: u32) -> [u8; 32] {
    let mut bits = [0; 32];
    for (at, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
        for (bits, code) in bits.iter_mut().zip(codes) {
            *bits |= (code >> bit & 1) << at;
        }
    }
    bits
}

/// The low four bits of codes: two `HALF` weights apart a byte.
#[inline(always)]
fn nibbles<const HALF: usize, const N: usize>(codes: &[u8; 256]) -> [[u8; HALF]; N] {
    let mut qs = [[0; HALF]; N];
    let (halves, _) = codes.as_chunks::<HALF>();
    for (qs, codes) in qs.iter_mut().zip(halves.as_chunks::<2>().0) {
        let [low, high] = codes;
        for ((q, low), high) in qs.iter_mut().zip(low).zip(high) {
            *q = low & 15 | high << 4;
        }
    }
    qs
}

/// Eight 6-bit scales and eight 6-bit minimums, each twice in `found`.
#[inline(always)]
fn six_bits(found: &affine::Found) -> [u8; 12] {
    let mut packed = [0; 12];
    let terms = |twice: &[u8; 16]| {
        let mut once = [0; 8];
        for (once, twice) in once.iter_mut().zip(twice.as_chunks::<2>().0) {
            *once = twice[0];
        }
        once
    };
    let [s0, s1, s2, s3, s4, s5, s6, s7] = terms(&found.scales);
    let [m0, m1, m2, m3, m4, m5, m6, m7] = terms(&found.minimums);
    let low = [(s0, s4), (s1, s5), (s2, s6), (s3, s7), (m0, m4), (m1, m5), (m2, m6), (m3, m7)];
    let high = [(s4, m4), (s5, m5), (s6, m6), (s7, m7)];
    let (first, last) = packed.split_at_mut(8);
    for (to, (low, high)) in first.iter_mut().zip(low) {
        *to = low | high >> 4 << 6;
    }
    for (to, (scale, minimum)) in last.iter_mut().zip(high) {
        *to = scale & 15 | minimum << 4;
    }
    packed
}

#[inline(always)]
pub(super) fn q2_k(found: &affine::Found) -> BlockQ2K {
    let mut scales = found.scales;
    for (scale, minimum) in scales.iter_mut().zip(found.minimums) {
        *scale |= minimum << 4;
    }
    BlockQ2K { scales, qs: two_bits(&found.codes, 0), d: found.d, dmin: found.dmin }
}

#[inline(always)]
pub(super) fn q4_k(found: &affine::Found) -> BlockQ4K {
    let qs = nibbles::<32, 4>(&found.codes);
    BlockQ4K { d: found.d, dmin: found.dmin, scales: six_bits(found), qs }
}

#[inline(always)]
pub(super) fn q5_k(found: &affine::Found) -> BlockQ5K {
    let (qs, qh) = (nibbles::<32, 4>(&found.codes), one_bit(&found.codes, 4));
    BlockQ5K { d: found.d, dmin: found.dmin, scales: six_bits(found), qh, qs }
}

#[inline(always)]
pub(super) fn q3_k(found: &symmetric::Found) -> BlockQ3K {
    let mut scales = [0; 12];
    let (low, high) = scales.split_at_mut(8);
    let (first, second) = found.scales.split_at(8);
    for ((low, first), second) in low.iter_mut().zip(first).zip(second) {
        *low = first & 15 | second << 4;
    }
    for (quarter, scales) in found.scales.as_chunks::<4>().0.iter().enumerate() {
        for (high, scale) in high.iter_mut().zip(scales) {
            *high |= (scale >> 4) << (2 * quarter);
        }
    }
    let hmask = one_bit(&found.codes, 2);
    BlockQ3K { hmask, qs: two_bits(&found.codes, 0), scales, d: found.d }
}

#[inline(always)]
pub(super) fn q6_k(found: &symmetric::Found) -> BlockQ6K {
    let scales = found.scales.map(|scale| scale.wrapping_sub(128) as i8);
    let (ql, qh) = (nibbles::<64, 2>(&found.codes), two_bits(&found.codes, 4));
    BlockQ6K { ql, qh, scales, d: found.d }
}
