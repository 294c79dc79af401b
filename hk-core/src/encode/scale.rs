//! What encoders share: rounding to whole numbers and to f16, and sums in a fixed order.

#[cfg(any(feature = "i-quants", feature = "ternary"))]
use super::lanes::{Lanes, Sixteen};
#[cfg(any(feature = "i-quants", feature = "ternary"))]
use crate::blocks::F16;
use crate::blocks::unpack::fence;

/// 1.5 * 2^23: added to a number below 2^22, it leaves no bits for a fraction, so that the
/// addition itself rounds half to even, into the low bits of the sum.
#[cfg(feature = "i-quants")]
const ROUND: f32 = 12_582_912.0;

/// The nearest whole number of one below 2^22, ties to even.
#[cfg(feature = "i-quants")]
#[inline(always)]
pub(super) fn rounded(x: f32) -> i32 {
    (x + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32
}

/// The f16 nearest to a scale; the largest one where it is larger. And the number that this
/// is.
#[cfg(any(feature = "i-quants", feature = "ternary"))]
#[inline(always)]
pub(super) fn f16(scale: f32) -> (F16, f32) {
    Sixteen::half(scale)
}

/// 1 / `scale`, and 0 where that is not finite: codes of such a block are 0.
#[inline(always)]
pub(super) fn inverse(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The largest magnitude, of finite numbers.
#[inline(always)]
pub(super) fn largest<const N: usize>(x: &[f32; N]) -> f32 {
    // By the bits, which are in the order of the magnitudes.
    let mut lanes = [0; 16];
    for chunk in x.as_chunks::<16>().0 {
        fence();
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = i32::max(*lane, (x.to_bits() & 0x7FFF_FFFF) as i32);
        }
    }
    f32::from_bits(fold_with(lanes, i32::max) as u32)
}

/// Sixteen lanes to one number: lane `l + 8` onto `l`, then `l + 4`, `l + 2` and `l + 1`.
#[inline(always)]
pub(super) fn fold_with<T: Copy + Default>(lanes: [T; 16], with: impl Fn(T, T) -> T) -> T {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = lanes;
    let (a, b) = ([a0, a1, a2, a3, a4, a5, a6, a7], [b0, b1, b2, b3, b4, b5, b6, b7]);
    let mut eight = [T::default(); 8];
    for ((to, a), b) in eight.iter_mut().zip(a).zip(b) {
        *to = with(a, b);
    }
    let [c0, c1, c2, c3, c4, c5, c6, c7] = eight;
    let four = [with(c0, c4), with(c1, c5), with(c2, c6), with(c3, c7)];
    with(with(four[0], four[2]), with(four[1], four[3]))
}
