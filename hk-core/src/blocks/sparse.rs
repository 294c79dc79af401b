//! Values with the zeros between them left out (payloads.md, "Sparse payloads").
//!
//! [`Backend`](crate::Backend) has these as methods, which is how they are asked for. They take
//! any bytes: what a value is missing for becomes 0.

use crate::bytes::filled_up;

/// Spreads pairs of f32 values, little-endian, over groups of 4 weights: 2:4 sparsity. A
/// nibble of `indexes`, the low one first, has two bits for the place of each value; where
/// they are equal the second value stays.
///
/// ```
/// let values = [[1.0_f32, 2.0], [3.0, 4.0]].map(|pair| pair.map(f32::to_le_bytes));
/// let mut weights = [9.0; 8];
/// // 0 and 2; 1 and 3.
/// hk_core::blocks::expand_2_4(&[0b1101_1000], values.as_flattened(), &mut weights);
/// assert_eq!(weights, [1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0, 4.0]);
/// ```
#[inline(always)]
pub fn expand_2_4(indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let ((steps, rest), (out_steps, out_rest)) =
        (values.as_chunks::<4>(), out.as_chunks_mut::<8>());
    let whole = out_steps.len();
    for (i, out) in out_steps.iter_mut().enumerate() {
        let index = indexes.get(i).copied().unwrap_or_default();
        // Only the last step can have too few.
        let values = steps.get(i).copied().unwrap_or_else(|| filled_up(rest, [0; 4]));
        expand_groups(index, values, out);
    }
    if !out_rest.is_empty() {
        let index = indexes.get(whole).copied().unwrap_or_default();
        let values = steps.get(whole).copied().unwrap_or_else(|| filled_up(rest, [0; 4]));
        let mut weights = [0.0; 8];
        expand_groups(index, values, &mut weights);
        for (to, from) in out_rest.iter_mut().zip(weights) {
            *to = from;
        }
    }
}

/// Two groups.
#[inline(always)]
fn expand_groups(index: u8, [a, b, c, d]: [[u8; 4]; 4], out: &mut [f32; 8]) {
    let group = |index: u8, first: [u8; 4], second: [u8; 4], out: &mut [f32]| {
        let (first, second) = (f32::from_le_bytes(first), f32::from_le_bytes(second));
        let (first_at, second_at) = (u32::from(index & 3), u32::from(index >> 2 & 3));
        for (lane, weight) in (0..).zip(out) {
            let other = if lane == first_at { first } else { 0.0 };
            *weight = if lane == second_at { second } else { other };
        }
    };
    let (low, high) = out.split_at_mut(4);
    group(index, a, b, low);
    group(index >> 4, c, d, high);
}

/// Spreads f32 values, little-endian, over the weights whose bit of `mask` is set, the lowest
/// bit of a byte first; the others become 0.
///
/// ```
/// let values = [1.0_f32, 2.0, 3.0].map(f32::to_le_bytes);
/// let mut weights = [9.0; 10];
/// hk_core::blocks::expand_bitmask(&[0b1000_0001, 0b10], &values, &mut weights);
/// assert_eq!(weights, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 3.0]);
/// ```
#[inline(always)]
pub fn expand_bitmask(mask: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
    let (mut at, mut mask) = (0_usize, mask.iter());
    let (steps, rest) = out.as_chunks_mut::<8>();
    for out in steps {
        let bits = mask.next().copied().unwrap_or_default();
        let left = values.get(at..).unwrap_or_default();
        match left.first_chunk::<8>() {
            Some(values) => expand_bits(bits, values, out),
            None => expand_bits(bits, &filled_up(left, [0; 4]), out),
        }
        at = at.wrapping_add(bits.count_ones() as usize);
    }
    let left = values.get(at..).unwrap_or_default();
    let mut weights = [0.0; 8];
    expand_bits(mask.next().copied().unwrap_or_default(), &filled_up(left, [0; 4]), &mut weights);
    for (to, from) in rest.iter_mut().zip(weights) {
        *to = from;
    }
}

/// Eight weights. No branches, since there is no telling ones from zeros beforehand.
#[inline(always)]
fn expand_bits(bits: u8, values: &[[u8; 4]; 8], out: &mut [f32; 8]) {
    let mut taken = 0;
    for (i, weight) in out.iter_mut().enumerate() {
        let set = u32::from(bits >> i & 1);
        let value = u32::from_le_bytes(values[taken & 7]);
        *weight = f32::from_bits(value & set.wrapping_neg());
        taken += set as usize;
    }
}

/// How many bits of `mask` are set.
#[inline(always)]
pub fn count_ones(mask: &[u8]) -> u64 {
    let (words, rest) = mask.as_chunks::<8>();
    let words: u64 =
        words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}
