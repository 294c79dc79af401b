//! The exponential function, the same bits on every host.

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
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
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

/// `x / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_exact_value_everywhere() {
        let (mut worst, mut at) = (0.0, 0.0);
        // Every 1009th float of either sign up to 104.
        for bits in (0..104.0_f32.to_bits()).step_by(1009) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let exact = libm::exp(f64::from(x));
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

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(exp(0.0).to_bits(), 1.0_f32.to_bits());
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY).to_bits(), 0);
        assert_eq!((exp(88.8), exp(-104.5)), (f32::INFINITY, 0.0));
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
        assert!(exp(88.7).is_finite() && exp(-103.0) > 0.0);
    }

    /// Bits that every host must give: a change of them changes what models say.
    #[test]
    fn the_same_bits_everywhere() {
        let mut hash = 0_u32;
        for i in -10_000..10_000 {
            let bits = exp(i as f32 * 0.009_7).to_bits();
            hash = hash.wrapping_mul(31).wrapping_add(bits);
        }
        assert_eq!(hash, 449_432_765);
    }
}
