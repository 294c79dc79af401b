//! What the two forms of quantized activations do differently.

use core::hint::black_box;

use super::tile::multiply;
use crate::dot::{Activation, BlockQ32, BlockQ256};

/// A form of quantized activations, of blocks of `N`.
pub trait Quantized<const N: usize> {
    /// A block of a row.
    type Block<'a>;

    /// Block `b` of a row, if the row has this form and as many blocks.
    fn block<'a>(activation: &Activation<'a>, b: usize) -> Option<Self::Block<'a>>;

    /// The codes of a block.
    fn codes<'b>(block: &'b Self::Block<'_>) -> &'b [i8; N];

    /// The scale of a block.
    fn scale(block: &Self::Block<'_>) -> f32;

    /// A block term with the part that minimums have in it.
    fn with_minimum(term: f32, scale: f32, minimums: &[i16; 16], block: &Self::Block<'_>) -> f32;
}

/// Blocks of 32.
#[derive(Debug)]
pub enum By32 {}

/// Blocks of 256.
#[derive(Debug)]
pub enum By256 {}

impl Quantized<32> for By32 {
    type Block<'a> = BlockQ32<'a>;

    #[inline(always)]
    fn block<'a>(activation: &Activation<'a>, b: usize) -> Option<BlockQ32<'a>> {
        let Activation::Q32(row) = activation else { return None };
        Some(BlockQ32 { q: row.q().get(b)?, d: *row.d().get(b)?, s: *row.s().get(b)? })
    }

    #[inline(always)]
    fn codes<'b>(block: &'b BlockQ32<'_>) -> &'b [i8; 32] {
        block.q
    }

    #[inline(always)]
    fn scale(block: &BlockQ32<'_>) -> f32 {
        block.d
    }

    #[inline(always)]
    fn with_minimum(term: f32, scale: f32, _: &[i16; 16], block: &BlockQ32<'_>) -> f32 {
        term + scale * block.s
    }
}

impl Quantized<256> for By256 {
    type Block<'a> = BlockQ256<'a>;

    #[inline(always)]
    fn block<'a>(activation: &Activation<'a>, b: usize) -> Option<BlockQ256<'a>> {
        let Activation::Q256(row) = activation else { return None };
        Some(BlockQ256 { q: row.q().get(b)?, d: *row.d().get(b)?, sums: row.sums().get(b)? })
    }

    #[inline(always)]
    fn codes<'b>(block: &'b BlockQ256<'_>) -> &'b [i8; 256] {
        block.q
    }

    #[inline(always)]
    fn scale(block: &BlockQ256<'_>) -> f32 {
        block.d
    }

    #[inline(always)]
    fn with_minimum(term: f32, scale: f32, minimums: &[i16; 16], block: &BlockQ256<'_>) -> f32 {
        term - scale * block.d * black_box(multiply(minimums, block.sums)) as f32
    }
}
