//! The dual-mode types `dq4`, `dq8` and `dqt` (payloads.md, "Dual-mode payloads"): codes and
//! scales in blocks of any length, and the residual that makes up for what they lose.
//!
//! ```
//! use hk_core::blocks::{ScaledForm, ScaledType};
//! use hk_core::encode::dual;
//!
//! let weights = [1.0, -2.0, 0.5, 3.0, 4.0];
//! let form = ScaledForm::new(ScaledType::Dq8, 3)?;
//! let count = weights.len() as u64;
//! let mut codes = vec![0; form.data_len(count) as usize];
//! let mut scales = vec![0; form.scales_len(count) as usize];
//! let mut residual = vec![0; dual::residual_len(count)? as usize];
//! dual::quantize(form, &weights, &mut codes, &mut scales, Some(&mut residual))?;
//! assert_eq!(codes, [64, 0x81, 32, 95, 127]);
//! # Ok::<(), hk_core::Error>(())
//! ```

use super::{check_encoded_len, check_finite};
use crate::blocks::{NF4, ScaledForm, ScaledType};
use crate::bytes::take_mut;
use crate::error::{Error, ErrorKind};

/// What the maximum or mean of a block of zeros counts as.
const NOTHING: f32 = 1e-8;

/// Bytes of the residual of `count` weights.
///
/// # Errors
/// [`ErrorKind::ElementCount`] when they pass 2^64.
pub const fn residual_len(count: u64) -> Result<u64, Error> {
    match count.checked_mul(4) {
        Some(len) => Ok(len),
        None => Err(Error::call(ErrorKind::ElementCount)),
    }
}

/// Quantizes `weights` to `codes` of [`ScaledForm::data_len`] bytes and `scales` of
/// [`ScaledForm::scales_len`] bytes; with `residual`, of [`residual_len`] bytes, also what
/// codes and scales leave over, rounded once.
///
/// A payload may be made in pieces, each but the last of whole blocks.
///
/// # Errors
/// [`ErrorKind::NotEncodable`] for a split-scale form, [`ErrorKind::EncodedLength`] when a
/// part has another length, [`ErrorKind::NotFinite`] naming the weight.
pub fn quantize(
    form: ScaledForm,
    weights: &[f32],
    codes: &mut [u8],
    scales: &mut [u8],
    residual: Option<&mut [u8]>,
) -> Result<(), Error> {
    let count = weights.len() as u64;
    if !form.kind().takes_residual() {
        return Err(Error::call(ErrorKind::NotEncodable(form.kind().storage())));
    }
    check_encoded_len(form.data_len(count), codes)?;
    check_encoded_len(form.scales_len(count), scales)?;
    if let Some(residual) = &residual {
        check_encoded_len(residual_len(count)?, residual)?;
    }
    check_finite(weights)?;
    let parts = Parts { block: usize::from(form.block().get()), codes, scales, residual };
    match form.kind() {
        ScaledType::Dq8 => parts.fill::<1, Dq8>(weights),
        ScaledType::Dqt => parts.fill::<4, Dqt>(weights),
        _ => parts.fill::<2, Dq4>(weights),
    }
    Ok(())
}

/// What [`quantize`] writes to.
struct Parts<'a> {
    block: usize,
    codes: &'a mut [u8],
    scales: &'a mut [u8],
    residual: Option<&'a mut [u8]>,
}

/// A block's scale, and what a code is made with.
trait Scale: Copy {
    /// That of a block.
    fn of(weights: &[f32]) -> Self;

    /// The scale as it is stored.
    fn stored(self) -> f32;

    /// The code of a weight.
    fn code(self, weight: f32) -> u8;

    /// What a code stands for, in scales.
    fn value(code: u8) -> f32;
}

impl Parts<'_> {
    /// Block after block, `PER_BYTE` codes a byte, the first in the lowest bits.
    #[inline(always)]
    fn fill<const PER_BYTE: usize, S: Scale>(self, weights: &[f32]) {
        let (mut codes, mut residual) = (self.codes, self.residual);
        let scales = self.scales.as_chunks_mut::<4>().0;
        for (weights, stored) in weights.chunks(self.block).zip(scales) {
            let scale = S::of(weights);
            *stored = scale.stored().to_le_bytes();
            let bytes = take_mut(&mut codes, weights.len().div_ceil(PER_BYTE));
            let bits = 8 / PER_BYTE as u32;
            let (groups, tail) = weights.as_chunks::<PER_BYTE>();
            let (whole, last) = bytes.split_at_mut_checked(groups.len()).unwrap_or_default();
            for (byte, group) in whole.iter_mut().zip(groups) {
                *byte = packed(group, bits, |weight| scale.code(weight));
            }
            for byte in last {
                *byte = packed(tail, bits, |weight| scale.code(weight));
            }
            let Some(residual) = &mut residual else { continue };
            let left = take_mut(residual, weights.len().saturating_mul(4)).as_chunks_mut().0;
            for (left, &weight) in left.iter_mut().zip(weights) {
                *left = (weight - S::value(scale.code(weight)) * scale.stored()).to_le_bytes();
            }
        }
    }
}

/// The codes of a byte's weights, the first in the lowest bits.
#[inline(always)]
fn packed(weights: &[f32], bits: u32, code: impl Fn(f32) -> u8) -> u8 {
    weights.iter().rev().fold(0, |byte: u8, &weight| byte.unbounded_shl(bits) | code(weight))
}

/// The largest magnitude of a block, [`NOTHING`] for zeros.
#[inline(always)]
fn largest(weights: &[f32]) -> f32 {
    let mut lanes = [0; 16];
    let (chunks, rest) = weights.as_chunks::<16>();
    for chunk in chunks {
        for (lane, weight) in lanes.iter_mut().zip(chunk) {
            // Magnitudes of finite floats compare as their bits do.
            *lane = (*lane).max(weight.to_bits() & 0x7FFF_FFFF);
        }
    }
    let rest = rest.iter().map(|weight| weight.to_bits() & 0x7FFF_FFFF);
    or_nothing(f32::from_bits(lanes.into_iter().chain(rest).fold(0, u32::max)))
}

#[inline(always)]
fn or_nothing(scale: f32) -> f32 {
    if scale > 0.0 { scale } else { NOTHING }
}

/// 4-bit codes: the nearest of [`NF4`].
#[derive(Clone, Copy)]
struct Dq4(f32);

/// Between each two of [`NF4`], the largest f32 that is not above the middle: over it the
/// upper one is nearer, up to it the lower one, which also takes ties.
const BETWEEN: [f32; 15] = {
    let mut between = [0.0; 15];
    let mut i = 0;
    while i < 15 {
        // Exact: sums of two f32 of like size.
        let middle = (NF4[i] as f64 + NF4[i + 1] as f64) / 2.0;
        let near = middle as f32;
        between[i] = if near as f64 <= middle { near } else { near.next_down() };
        i += 1;
    }
    between
};

impl Scale for Dq4 {
    fn stored(self) -> f32 {
        self.0
    }

    #[inline(always)]
    fn of(weights: &[f32]) -> Self {
        Dq4(largest(weights))
    }

    #[inline(always)]
    fn code(self, weight: f32) -> u8 {
        let x = weight / self.0;
        BETWEEN.iter().fold(0, |code, &between| code + u8::from(x > between))
    }

    #[inline(always)]
    fn value(code: u8) -> f32 {
        NF4[usize::from(code & 15)]
    }
}

/// Signed bytes.
#[derive(Clone, Copy)]
struct Dq8 {
    scale: f32,
    /// A power of two, 1 but for blocks so small that the next would pass f32.
    lift: f32,
    /// 127 over the largest magnitude, lifted.
    inverse: f32,
}

impl Scale for Dq8 {
    fn stored(self) -> f32 {
        self.scale
    }

    #[inline(always)]
    fn of(weights: &[f32]) -> Self {
        const LIFT: f32 = (1_u128 << 100) as f32;
        let largest = largest(weights);
        let lift = if largest < 1.0 / LIFT { LIFT } else { 1.0 };
        Dq8 { scale: largest / 127.0, lift, inverse: 127.0 / (largest * lift) }
    }

    /// Rounded to the nearest, halves away from zero.
    #[inline(always)]
    fn code(self, weight: f32) -> u8 {
        let x = weight * self.lift * self.inverse;
        let whole = x as i32;
        // Exact, and of the sign of `x`.
        let part = x - whole as f32;
        let code = whole + i32::from(part >= 0.5) - i32::from(part <= -0.5);
        code.clamp(-127, 127) as u8
    }

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code.cast_signed())
    }
}

/// 2-bit codes: 0, 1 for plus, 2 for minus the scale.
#[derive(Clone, Copy)]
struct Dqt(f32);

impl Scale for Dqt {
    fn stored(self) -> f32 {
        self.0
    }

    /// The mean magnitude, summed in sixteen f64 and rounded once.
    #[inline(always)]
    fn of(weights: &[f32]) -> Self {
        let mut lanes = [0.0; 16];
        let (chunks, rest) = weights.as_chunks::<16>();
        for chunk in chunks {
            for (lane, weight) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(weight.abs());
            }
        }
        let rest = rest.iter().map(|weight| f64::from(weight.abs()));
        let sum = lanes.into_iter().chain(rest).fold(0.0, |sum, lane| sum + lane);
        Dqt(or_nothing((sum / weights.len().max(1) as f64) as f32))
    }

    #[inline(always)]
    fn code(self, weight: f32) -> u8 {
        let half = self.0 / 2.0;
        u8::from(weight > half) | u8::from(weight < -half) << 1
    }

    #[inline(always)]
    fn value(code: u8) -> f32 {
        f32::from(code & 1) - f32::from(code >> 1)
    }
}
