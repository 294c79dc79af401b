//! 4-bit floats: every scale that can be the best one is tried.

use super::Encode;
use super::lanes::{Lanes, Sixteen};
use super::scale::{fold_with, largest};
use super::search::{lowest, relative};
use crate::blocks::unpack::fence;
use crate::blocks::{BlockMxfp4, BlockNvfp4, Fp8E4M3};

/// The exponent bits of 1.0.
const ONE: u32 = 127 << 23;

/// 2^22, whose last place is that of 0.5.
const HALVES: f32 = 4_194_304.0;

/// The magnitude of E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6) nearest to `y`, which is at most 2^100;
/// ties to even.
#[inline(always)]
fn nearest(y: f32) -> f32 {
    // From 1 on there is one bit of mantissa, below it half a unit is the smallest step: the
    // sum with 2^22 times that power of two rounds to it.
    let power = y.to_bits() & 0x7F80_0000;
    let power = if power > ONE { power } else { ONE };
    let raise = f32::from_bits(power + (22 << 23));
    let rounded = (y + raise) - raise;
    if rounded < 6.0 { rounded } else { 6.0 }
}

/// The code for `y`, in units of the scale.
#[inline(always)]
fn code(y: f32) -> u32 {
    let magnitude = nearest(y.abs());
    // Exponent and upper bit of the mantissa of 1.0 to 6.0 follow each other as codes do.
    let normal = (magnitude.to_bits() >> 22).wrapping_sub((ONE >> 22) - 2);
    let small = (magnitude + HALVES).to_bits().wrapping_sub(HALVES.to_bits());
    let code = if magnitude < 1.0 { small } else { normal };
    code | y.to_bits() >> 28 & 8
}

/// Codes of the first half of a group in the low nibbles, of the second in the high ones.
#[inline(always)]
fn pack<const HALF: usize>(weights: &[f32], inverse: f32) -> [u8; HALF] {
    let mut qs = [0; HALF];
    let (low, high) = weights.split_at_checked(HALF).unwrap_or_default();
    fence();
    for ((q, low), high) in qs.iter_mut().zip(low).zip(high) {
        *q = (code(low * inverse) | code(high * inverse) << 4) as u8;
    }
    qs
}

impl BlockMxfp4 {
    /// The weighted sum of squared errors with the scale 2^(e-127), in units of its square.
    #[inline(always)]
    fn error(weights: &[f32; 32], importance: &[f32; 32], e: u32) -> f32 {
        let inverse = inverse_power(e);
        let mut lanes = [0.0; 16];
        let chunks = weights.as_chunks::<16>().0.iter().zip(importance.as_chunks::<16>().0);
        for (weights, importance) in chunks {
            fence();
            for ((lane, weight), importance) in lanes.iter_mut().zip(weights).zip(importance) {
                let y = (weight * inverse).abs();
                let error = y - nearest(y);
                *lane += error * error * importance;
            }
        }
        fold_with(lanes, |a, b| a + b)
    }
}

/// 2^(127-e), for e up to 252.
#[inline(always)]
fn inverse_power(e: u32) -> f32 {
    f32::from_bits(254_u32.wrapping_sub(e) << 23)
}

impl Encode<32> for BlockMxfp4 {
    // With a larger scale than 2^125 some codes are infinite.
    const LARGEST: f32 = 6.0 * f32::from_bits((127 + 125) << 23);

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let exponent = largest(weights).to_bits() >> 23;
        // The largest weight is from 2 to 4 times the first scale, which loses nothing; from 4
        // to 8 times the second, which cuts off what is over 6. Smaller scales only make
        // sense where large weights count less.
        let tries = if importance.is_some() { 4 } else { 2 };
        let importance = relative(importance);
        let (mut best, mut least) = (0, f32::INFINITY);
        let mut square = 1.0;
        for smaller in 1..=tries {
            let e = exponent.saturating_sub(smaller).min(252);
            let error = square * Self::error(weights, &importance, e);
            (best, least) = if error < least { (e, error) } else { (best, least) };
            square *= 0.25;
        }
        BlockMxfp4 { e: best as u8, qs: pack(weights, inverse_power(best)) }
    }
}

/// What the codes of unsigned E4M3 stand for, the last one, NaN, left out.
static SCALES: [f32; 127] = {
    let mut scales = [0.0; 127];
    let mut code = 0;
    while code < 127 {
        scales[code] = Fp8E4M3::magnitude(code as u8);
        code += 1;
    }
    scales
};

/// The inverses of [`SCALES`], 0 for the first.
static INVERSES: [f32; 127] = {
    let mut inverses = [0.0; 127];
    let mut code = 1;
    while code < 127 {
        inverses[code] = 1.0 / Fp8E4M3::magnitude(code as u8);
        code += 1;
    }
    inverses
};

/// Sixteen numbers of `table`.
#[inline(always)]
fn sixteen(table: &[f32; 127], first: usize) -> &[f32; 16] {
    let (_, from) = table.split_at_checked(first).unwrap_or_default();
    from.first_chunk().unwrap_or(&[0.0; 16])
}

impl BlockNvfp4 {
    /// The code of the scale for a group, and the inverse of the scale.
    ///
    /// Sixteen codes in a row are all that can be the best one: from an eighth of the largest
    /// weight, which cuts much of it off, to nearly the half of it, which leaves codes unused.
    #[inline(always)]
    fn best(weights: &[f32; 16], importance: &[f32; 16]) -> (u8, f32) {
        let Fp8E4M3(first) = Fp8E4M3::encode::<Sixteen>(&[largest(weights) * 0.125], None);
        let first = usize::from(first).min(0x7E - 15);
        let (scales, inverses) = (sixteen(&SCALES, first), sixteen(&INVERSES, first));
        let mut errors = [0.0; 16];
        for (weight, importance) in weights.iter().zip(importance) {
            let weight = weight.abs();
            fence();
            for ((error, scale), inverse) in errors.iter_mut().zip(scales).zip(inverses) {
                let off = weight - nearest(weight * inverse) * scale;
                *error += off * off * importance;
            }
        }
        let best = lowest(&errors) & 15;
        ((first + best) as u8, inverses[best])
    }
}

impl Encode<64> for BlockNvfp4 {
    const LARGEST: f32 = 6.0 * 448.0;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 64], importance: Option<&[f32; 64]>) -> Self {
        let importance = relative(importance);
        let mut block = BlockNvfp4 { d: [0; 4], qs: [[0; 8]; 4] };
        let groups = weights.as_chunks::<16>().0.iter().zip(importance.as_chunks::<16>().0);
        for ((d, qs), (weights, importance)) in block.d.iter_mut().zip(&mut block.qs).zip(groups) {
            let inverse;
            (*d, inverse) = Self::best(weights, importance);
            *qs = pack(weights, inverse);
        }
        block
    }
}
