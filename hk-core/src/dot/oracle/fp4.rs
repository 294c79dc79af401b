//! 4-bit floats.

use super::terms::{Dot32, multiply};
use crate::blocks::fp4::doubled;
use crate::blocks::unpack::nibbles;
use crate::blocks::{BlockMxfp4, BlockNvfp4};

impl Dot32 for BlockMxfp4 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        doubled(nibbles(&self.qs))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        BlockMxfp4::scale(self)
    }
}

/// The terms of the four sub-blocks of 16 weights: each is a block of its own, and two lie
/// in each of the activation blocks with codes `q` and scales `d`.
#[inline(always)]
pub(super) fn nvfp4_terms(block: &BlockNvfp4, q: &[[i8; 32]; 2], [d0, d1]: [f32; 2]) -> [f32; 4] {
    let mut terms = [0.0; 4];
    let weights = block.qs.iter().zip(block.d);
    let activations = q.as_flattened().as_chunks::<16>().0.iter().zip([d0, d0, d1, d1]);
    for ((term, (qs, scale)), (q, d)) in terms.iter_mut().zip(weights).zip(activations) {
        let sum = multiply(&doubled(BlockNvfp4::codes(qs)), q);
        *term = BlockNvfp4::scale(scale) * d * sum as f32;
    }
    terms
}
