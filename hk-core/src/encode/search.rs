//! What searches for scales share, those that try sixteen at once in lanes.

#[cfg(any(feature = "i-quants", feature = "ternary", feature = "fp4"))]
use super::scale::fold_with;
use super::scale::largest;

/// The lane of the smallest of numbers that are not negative, to 20 bits; the first of them.
#[cfg(any(feature = "fp4", feature = "i-quants"))]
#[inline(always)]
pub(super) fn lowest(errors: &[f32; 16]) -> usize {
    // The lane stands in the lowest bits, so that the smallest number brings it along.
    let keys = lanes(|l| errors[l].to_bits() as i32 & !15 | l as i32);
    fold_with(keys, i32::min) as usize & 15
}

/// The lane of the largest of numbers that are not negative, to 20 bits; the first of them.
#[cfg(any(feature = "i-quants", feature = "ternary"))]
#[inline(always)]
pub(super) fn highest(gains: &[f32; 16]) -> usize {
    let keys = lanes(|l| gains[l].to_bits() as i32 & !15 | (15 - l as i32));
    15 - (fold_with(keys, i32::max) as usize & 15)
}

/// Sixteen lanes, each from its number.
#[cfg(any(feature = "i-quants", feature = "ternary", feature = "fp4"))]
#[inline(always)]
pub(super) fn lanes<T: Copy + Default>(of: impl Fn(usize) -> T) -> [T; 16] {
    let mut lanes = [T::default(); 16];
    for (l, lane) in lanes.iter_mut().enumerate() {
        *lane = of(l);
    }
    lanes
}

/// Importance with 1 as the largest number, and 1 everywhere where there is none. What is
/// said not to count counts a millionth, so that it is encoded well where that costs nothing.
#[inline(always)]
pub(super) fn relative<const N: usize>(importance: Option<&[f32; N]>) -> [f32; N] {
    let Some(importance) = importance else { return [1.0; N] };
    let top = largest(importance);
    if top > 0.0 { importance.map(|i| (i / top).max(1e-6)) } else { [1.0; N] }
}

/// The power of two by which `largest` comes to lie from 1 to 2 (a subnormal one from 0 to
/// 1): weights brought there have no squares that overflow.
#[cfg(any(feature = "i-quants", feature = "ternary"))]
#[inline(always)]
pub(super) fn power_to_one(largest: f32) -> f32 {
    let exponent = (largest.to_bits() >> 23).clamp(1, 253);
    f32::from_bits(254_u32.wrapping_sub(exponent) << 23)
}
