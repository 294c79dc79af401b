//! Ternary weights: one scale for 256 of them.

use super::Encode;
use super::lanes::{LARGEST_F16, Lanes};
use super::scale::{f16, largest};
use super::search::{highest, lanes, power_to_one, relative};
use crate::blocks::unpack::fence;
use crate::blocks::{BlockTq1_0, BlockTq2_0, F16};

/// Magnitudes under 2, and how much their squared errors count.
struct Magnitudes {
    magnitudes: [f32; 256],
    importance: [f32; 256],
}

impl Magnitudes {
    /// The best scale.
    ///
    /// When weights over some threshold become plus or minus the scale, the best scale is
    /// their mean. Sixteen thresholds are tried, then sixteen more around the best.
    #[inline(always)]
    fn scale(&self) -> f32 {
        let step = largest(&self.magnitudes) / 16.0;
        let (coarse, coarse_gain, best) = self.best_of(&lanes(|l| step * l as f32));
        let (fine, fine_gain, _) = self.best_of(&lanes(|l| best + step * (l as f32 / 8.0 - 1.0)));
        if fine_gain > coarse_gain { fine } else { coarse }
    }

    /// The mean of the magnitudes over the best of sixteen thresholds, by how much that scale
    /// lessens the squared error, and the threshold.
    #[inline(always)]
    fn best_of(&self, thresholds: &[f32; 16]) -> (f32, f32, f32) {
        let (mut sums, mut counts) = ([0.0; 16], [0.0; 16]);
        for (magnitude, importance) in self.magnitudes.iter().zip(&self.importance) {
            let product = magnitude * importance;
            fence();
            for ((sum, count), threshold) in sums.iter_mut().zip(&mut counts).zip(thresholds) {
                *sum += if magnitude > threshold { product } else { 0.0 };
                *count += if magnitude > threshold { *importance } else { 0.0 };
            }
        }
        let means = lanes(|l| if counts[l] > 0.0 { sums[l] / counts[l] } else { 0.0 });
        let gains = lanes(|l| means[l] * sums[l]);
        let best = highest(&gains) & 15;
        (means[best], gains[best], thresholds[best])
    }
}

/// The scale of a block, and its weights as 0, 1 and 2, which stand for -1, 0 and 1.
#[inline(always)]
fn codes(weights: &[f32; 256], importance: Option<&[f32; 256]>) -> (F16, [u8; 256]) {
    let power = power_to_one(largest(weights));
    let magnitudes = weights.map(|weight| weight.abs() * power);
    let scale = Magnitudes { magnitudes, importance: relative(importance) }.scale();
    let (d, scale) = f16(scale / power);
    // A scale of 0 leaves all at 0.
    let half = if scale > 0.0 { scale * 0.5 } else { f32::MAX };
    let mut codes = [0; 256];
    for (code, weight) in codes.iter_mut().zip(weights) {
        *code = u8::from(*weight > half) + u8::from(*weight >= -half);
    }
    (d, codes)
}

impl Encode<256> for BlockTq2_0 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let (d, codes) = codes(weights, importance);
        let mut qs = [[0; 32]; 2];
        for (qs, codes) in qs.iter_mut().zip(codes.as_chunks::<128>().0) {
            for (quarter, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
                for (q, code) in qs.iter_mut().zip(codes) {
                    *q |= code << (2 * quarter);
                }
            }
        }
        BlockTq2_0 { qs, d }
    }
}

/// Rows of `digits`, highest first, to bytes: each the smallest that holds its digits.
#[inline(always)]
fn base3<const N: usize>(digits: &[u8], bytes: &mut [u8]) {
    let mut numbers = [0_u16; N];
    for digits in digits.as_chunks::<N>().0 {
        for (number, digit) in numbers.iter_mut().zip(digits) {
            *number = *number * 3 + u16::from(*digit);
        }
    }
    // Five digits make numbers under 243; four are the first ones of five.
    let last = if digits.len() < 5 * N { 3 } else { 1 };
    for (byte, number) in bytes.iter_mut().zip(numbers) {
        *byte = (number * last * 256).div_ceil(243) as u8;
    }
}

impl Encode<256> for BlockTq1_0 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let (d, codes) = codes(weights, importance);
        let mut block = BlockTq1_0 { qs: [0; 48], qh: [0; 4], d };
        let (first, rest) = codes.split_at(160);
        let (second, third) = rest.split_at(80);
        let (qs32, qs16) = block.qs.split_at_mut(32);
        base3::<32>(first, qs32);
        base3::<16>(second, qs16);
        base3::<4>(third, &mut block.qh);
        block
    }
}
