//! What a model does with its numbers between the matrices (dot-products.md, "Outside the
//! matrices"): the same bits on every host.
//!
//! [`Backend`](crate::Backend) has these as methods, which is how they are asked for. What
//! stands here is what `Portable` does, and what a backend compiles anew for an instruction
//! set: straight loops, `#[inline(always)]`, that compilers turn into vector code.
//!
//! ```
//! let mut scores = [1.0, 3.0, 2.0];
//! let sum = hk_core::vector::exponentials(&mut scores);
//! assert_eq!(scores[1], 1.0);
//! assert_eq!(sum, (scores[0] + scores[2]) + scores[1]); // by the lanes of a sum
//! ```

use crate::dot::fold16;

/// Lanes of a sum.
const LANES: usize = 16;

/// Adding this to a number of at most 2^22 rounds it to a whole one, which then stands in
/// the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// ln 2 to ten bits, so that products with whole numbers under 2^14 are exact, and what that
/// is too much.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const HIGH_LESS_LN_2: f32 = 2.121_944_4e-4;

/// `e^x`. The error is under one unit in the last place (results under 2^-126 are rounded
/// once more); over 88.73 the result is infinite, under -103.98 it is 0, NaN stays NaN.
///
/// Straight code without branches, so that a loop over it becomes vector code.
///
/// ```
/// use hk_core::vector::exp;
/// assert_eq!(exp(0.0), 1.0);
/// assert_eq!(exp(-200.0), 0.0);
/// assert!((exp(1.0) - std::f32::consts::E).abs() < 3e-7);
/// ```
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Comparisons, since min and max would lose a NaN.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let shifted = x * core::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // x - n ln 2, with ln 2 in two parts, of which n times the larger is exact.
    let r = x - n * LN_2_HIGH;
    let r = r + n * HIGH_LESS_LN_2;
    let p = 0.001_381_460_2;
    let p = p * r + 0.008_368_716;
    let p = p * r + 0.041_668_39;
    let p = p * r + 0.166_665_21;
    let p = p * r + 0.499_999_94;
    let e = (p * r) * r + r + 1.0;
    // 2^n in two factors, so that neither passes what an exponent holds.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    e * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// 2^n for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Replaces each gate `x` by `x / (1 + e^-x) * up`, as far as both slices go.
#[inline(always)]
pub fn swiglu(gates: &mut [f32], ups: &[f32]) {
    for (gate, up) in gates.iter_mut().zip(ups) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// `out = weights * (x * scale)`: an RMS norm, of which `scale` is 1 / sqrt(mean square +
/// epsilon). As far as all slices go.
#[inline(always)]
pub fn scale(x: &[f32], scale: f32, weights: &[f32], out: &mut [f32]) {
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weights) {
        *out = weight * (x * scale);
    }
}

/// Replaces scores by `e^(score - largest)` and returns the sum of these, in 16 lanes by
/// position: a softmax, but for the division. NaN is never the largest.
#[inline(always)]
pub fn exponentials(scores: &mut [f32]) -> f32 {
    let largest = largest(scores);
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (score, lane) in chunk.iter_mut().zip(&mut lanes) {
            *score = exp(*score - largest);
            *lane += *score;
        }
    }
    for (score, lane) in rest.iter_mut().zip(&mut lanes) {
        *score = exp(*score - largest);
        *lane += *score;
    }
    fold16(lanes)
}

#[inline(always)]
fn largest(scores: &[f32]) -> f32 {
    let (chunks, rest) = scores.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = if score > *lane { score } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
}

/// Rounds numbers to the nearest f16, ties to even; too large ones become infinite, a NaN
/// keeps its sign and the upper bits of its payload and becomes quiet. As far as both slices
/// go.
///
/// ```
/// let mut halves = [[0; 2]; 3];
/// hk_core::vector::to_f16(&[1.0, -2.0, 1e6], &mut halves);
/// assert_eq!(halves, [[0x00, 0x3C], [0x00, 0xC0], [0x00, 0x7C]]);
/// ```
#[inline(always)]
pub fn to_f16(numbers: &[f32], out: &mut [[u8; 2]]) {
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = half(number.to_bits()).to_le_bytes();
    }
}

/// Bits of an f32 to those of the nearest f16.
#[inline(always)]
fn half(bits: u32) -> u16 {
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7FFF_FFFF;
    // Half a unit less one, or half a unit where the last bit kept is odd; the exponent's bias
    // is 112 less. What passes the largest exponent is infinite.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_add(0x0FFF + odd).wrapping_sub(112 << 23) >> 13;
    let normal = if normal > 0x7C00 { 0x7C00 } else { normal };
    // Under 2^-14 the last place is 2^-24, that of 0.5, to which an addition rounds.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(126 << 23);
    let nan = 0x7E00 | magnitude >> 13 & 0x3FF;
    let finite = if magnitude < 113 << 23 { small } else { normal };
    (sign | if magnitude > 0x7F80_0000 { nan } else { finite }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Block, F16};

    #[test]
    fn the_ends_of_exp() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!((exp(88.8), exp(-104.5)), (f32::INFINITY, 0.0));
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
        assert!(exp(88.7).is_finite() && exp(-103.0) > 0.0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "in f64, to compare with")]
    fn exp_is_close_to_the_exact_value_everywhere() {
        let (mut worst, mut at) = (0.0, 0.0);
        // Every 1009th float of either sign up to 104.
        for bits in (0..104.0_f32.to_bits()).step_by(if cfg!(miri) { 100_900_009 } else { 1009 }) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let exact = f64::from(x).exp();
                if exact > f64::from(f32::MAX) {
                    continue;
                }
                let rounded = exact as f32;
                let unit = f64::from(rounded.next_up()) - f64::from(rounded);
                let error = (f64::from(exp(x)) - exact).abs() / unit;
                if error > worst {
                    (worst, at) = (error, x);
                }
            }
        }
        assert!(worst < 1.0, "{worst} units at {at}");
    }

    /// Bits that every host must give: a change of them changes what models say.
    #[test]
    fn exp_has_the_same_bits_everywhere() {
        let step = if cfg!(miri) { 1000 } else { 1 };
        let hash = (-10_000..10_000).step_by(step).fold(0_u32, |hash, i| {
            hash.wrapping_mul(31).wrapping_add(exp(i as f32 * 0.009_7).to_bits())
        });
        assert!(cfg!(miri) || hash == 449_432_765, "{hash}");
    }

    #[test]
    fn softmax_without_a_largest() {
        let mut scores = [f32::NEG_INFINITY; 3];
        assert!(exponentials(&mut scores).is_nan());
        assert_eq!(exponentials(&mut []), 0.0);
    }

    #[test]
    fn every_f16_comes_back_and_ties_go_to_even() {
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 997 } else { 1 }) {
            let mut number = [0.0];
            F16(bits.to_le_bytes()).decode(&mut number);
            let [number] = number;
            let back = half(number.to_bits());
            let quiet = if number.is_nan() { bits | 0x0200 } else { bits };
            assert_eq!(back, quiet, "{bits:#06x}");
            if !number.is_finite() || bits & 0x7FFF == 0x7BFF {
                continue;
            }
            // Halfway to the next one, and a little to either side.
            let mut next = [0.0];
            F16((bits + 1).to_le_bytes()).decode(&mut next);
            let middle = (number + next[0]) / 2.0;
            assert_eq!(half(middle.to_bits()), bits + (bits & 1));
            let (low, high) = (middle.to_bits() - 1, middle.to_bits() + 1);
            assert_eq!((half(low), half(high)), (bits, bits + 1), "{bits:#06x}");
        }
        assert_eq!(half(65_519.996_f32.to_bits()), 0x7BFF);
        assert_eq!(half(65_520.0_f32.to_bits()), 0x7C00);
        assert_eq!(half((-1e30_f32).to_bits()), 0xFC00);
        assert_eq!(half(1e-30_f32.to_bits()), 0);
        assert_eq!(half(0xFFC0_2000), 0xFE01);
    }
}
