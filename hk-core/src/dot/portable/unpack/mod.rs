//! Blocks to the 16-bit integers that are multiplied.

#[cfg(feature = "fp4")]
pub(super) mod fp4;
#[cfg(feature = "i-quants")]
mod iq;
#[cfg(feature = "k-quants")]
mod k;
mod legacy;
#[cfg(feature = "ternary")]
mod ternary;

use crate::blocks::Block;
use crate::dot::oracle::terms::{Dot32, Dot256};
use crate::dot::portable::each;

/// A block of `N` weights (32 or 256) that is taken apart for dot products.
///
/// Implemented for every block type that has a dot product, but `nvfp4`.
pub trait Weights<const N: usize>: Block<N> {
    /// Whether the block has minimums.
    const HAS_MINIMUMS: bool;

    /// Writes the integers that the scale multiplies, offset included, in the order of the
    /// weights; those of 256 weights times the scales of their sub-blocks. All are within
    /// -4096..=4096.
    fn unpack(&self, to: &mut [i16; N]);

    /// The scale, together with the power of two that was split off.
    fn scale(&self) -> f32;

    /// What a block with minimums has of them. Of 32 weights: what is added to each. Of 256:
    /// what scales the integer minimums of each 16 weights, and these.
    fn minimums(&self) -> (f32, [i16; 16]);
}

/// Blocks of 32 weights: what [`Weights`] takes from the definition, and what has a quicker
/// way.
pub trait Unpack32: Dot32 {
    /// Whether the block has a minimum.
    const HAS_MINIMUM: bool = false;

    /// [`Weights::unpack`].
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 32]) {
        *to = each(self.integers(), i16::from);
    }
}

impl<B: Unpack32> Weights<32> for B {
    const HAS_MINIMUMS: bool = B::HAS_MINIMUM;

    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 32]) {
        Unpack32::unpack(self, to);
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        Dot32::scale(self)
    }

    #[inline(always)]
    fn minimums(&self) -> (f32, [i16; 16]) {
        (self.minimum().unwrap_or_default(), [0; 16])
    }
}

/// Blocks of 256 weights, as [`Unpack32`].
pub trait Unpack256: Dot256 {
    /// Whether the block has minimums.
    const HAS_MINIMUMS: bool = false;

    /// [`Weights::unpack`].
    fn unpack(&self, to: &mut [i16; 256]);
}

impl<B: Unpack256> Weights<256> for B {
    const HAS_MINIMUMS: bool = <B as Unpack256>::HAS_MINIMUMS;

    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        Unpack256::unpack(self, to);
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        Dot256::scale(self)
    }

    #[inline(always)]
    fn minimums(&self) -> (f32, [i16; 16]) {
        let (scale, minimums) = Dot256::minimums(self).unwrap_or_default();
        (scale, each(minimums, i16::from))
    }
}

/// Sixteen codes, less their offset, times the scale of their sub-block.
///
/// Codes come and go by value: what stands in arrays of sixteen bytes becomes vector code,
/// also where the compiler cannot tell that the block is not what is written to.
#[cfg(any(feature = "k-quants", feature = "ternary"))]
#[inline(always)]
fn put(to: Option<&mut [i16; 16]>, codes: [u8; 16], offset: i16, scale: i8) {
    if let Some(to) = to {
        *to = each(codes, |code| (i16::from(code) - offset) * i16::from(scale));
    }
}
