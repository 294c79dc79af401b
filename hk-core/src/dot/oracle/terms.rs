//! The term that a block adds to a dot product: an exact integer, and the f32 steps that
//! are fixed (dot-products.md, "Block term t").

use crate::blocks::Block;
use crate::dot::{BlockQ32, BlockQ256};

/// A block of 32 weights taken apart.
pub trait Dot32: Block<32> {
    /// The integers that the scale multiplies, offset included.
    fn integers(&self) -> [i8; 32];

    /// The scale.
    fn scale(&self) -> f32;

    /// What is added to every weight, for types that have it.
    #[inline(always)]
    fn minimum(&self) -> Option<f32> {
        None
    }

    /// The term of this block with an activation block.
    #[inline(always)]
    fn term(&self, activation: BlockQ32<'_>) -> f32 {
        let sum = multiply(&self.integers(), activation.q);
        let product = self.scale() * activation.d * sum as f32;
        match self.minimum() {
            Some(m) => product + m * activation.s,
            None => product,
        }
    }
}

/// A block of 256 weights taken apart, all by sub-blocks of 16; those of 32 count as two.
pub trait Dot256: Block<256> {
    /// The integers that the scales multiply, offset included.
    fn integers(&self) -> [i8; 256];

    /// The integer scales of the sub-blocks.
    fn sub_scales(&self) -> [i8; 16];

    /// The scale, together with the power of two that was split off.
    fn scale(&self) -> f32;

    /// For types with minimums: what scales them, and the integer minimums of the
    /// sub-blocks, which are subtracted.
    #[inline(always)]
    fn minimums(&self) -> Option<(f32, [u8; 16])> {
        None
    }

    /// The term of this block with an activation block.
    #[inline(always)]
    fn term(&self, activation: BlockQ256<'_>) -> f32 {
        let (integers, q) = (self.integers(), activation.q);
        let sub_blocks = integers.as_chunks::<16>().0.iter().zip(q.as_chunks::<16>().0);
        let sub_blocks = sub_blocks.zip(self.sub_scales());
        let sum: i32 = sub_blocks.map(|((w, q), sc)| i32::from(sc) * multiply(w, q)).sum();
        let product = self.scale() * activation.d * sum as f32;
        match self.minimums() {
            Some((dmin, minimums)) => {
                let sub_blocks = minimums.iter().zip(activation.sums);
                let sum: i32 = sub_blocks.map(|(&mn, &q)| i32::from(mn) * i32::from(q)).sum();
                product - dmin * activation.d * sum as f32
            }
            None => product,
        }
    }
}

/// The exact sum of the products of `w` and `q`.
#[inline(always)]
pub(super) fn multiply<const N: usize>(w: &[i8; N], q: &[i8; N]) -> i32 {
    w.iter().zip(q).map(|(&w, &q)| i32::from(w) * i32::from(q)).sum()
}

/// Codes less their offset.
#[inline(always)]
pub(super) fn signed<const N: usize>(codes: [u8; N], offset: u8) -> [i8; N] {
    let mut signed = [0; N];
    for (to, code) in signed.iter_mut().zip(codes) {
        *to = code.wrapping_sub(offset) as i8;
    }
    signed
}

/// Each value twice: scales of 32 weights for sub-blocks of 16.
#[cfg(any(feature = "k-quants", feature = "i-quants"))]
#[inline(always)]
pub(super) fn twice<T: Copy + Default>(values: [T; 8]) -> [T; 16] {
    let mut twice = [T::default(); 16];
    for (pair, value) in twice.as_chunks_mut().0.iter_mut().zip(values) {
        *pair = [value; 2];
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks;
    use std::vec::Vec;

    /// Blocks of random bytes.
    fn random_blocks<B: Block<N>, const N: usize>() -> Vec<B> {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let count = if cfg!(miri) { 1 } else { 20 };
        let bytes = (0..count).map(|_| (0..size_of::<B>()).map(|_| byte()).collect::<Vec<u8>>());
        bytes.map(|bytes| B::read_from_bytes(&bytes).unwrap()).collect()
    }

    fn same(a: f32, b: f32) -> bool {
        a == b || (a.is_nan() && b.is_nan())
    }

    /// Scale, integers and minimum of a block give the weights that it decodes to.
    fn rebuilds_32<B: Dot32>() {
        for block in random_blocks::<B, 32>() {
            let mut weights = [0.0; 32];
            block.decode(&mut weights);
            for (w, q) in weights.into_iter().zip(block.integers()) {
                let product = block.scale() * f32::from(q);
                let rebuilt = block.minimum().map_or(product, |m| product + m);
                assert!(same(rebuilt, w), "{}: {rebuilt} for {w}", B::STORAGE);
            }
        }
    }

    fn rebuilds_256<B: Dot256>() {
        for block in random_blocks::<B, 256>() {
            let mut weights = [0.0; 256];
            block.decode(&mut weights);
            let (integers, sub_scales) = (block.integers(), block.sub_scales());
            for (i, (w, q)) in weights.into_iter().zip(integers).enumerate() {
                let product = block.scale() * f32::from(sub_scales[i / 16]) * f32::from(q);
                let rebuilt = match block.minimums() {
                    Some((dmin, minimums)) => product - dmin * f32::from(minimums[i / 16]),
                    None => product,
                };
                assert!(same(rebuilt, w), "{}, {i}: {rebuilt} for {w}", B::STORAGE);
            }
        }
    }

    #[test]
    fn legacy_blocks_taken_apart() {
        rebuilds_32::<blocks::BlockQ4_0>();
        rebuilds_32::<blocks::BlockQ4_1>();
        rebuilds_32::<blocks::BlockQ5_0>();
        rebuilds_32::<blocks::BlockQ5_1>();
        rebuilds_32::<blocks::BlockQ8_0>();
    }

    #[cfg(feature = "k-quants")]
    #[test]
    fn k_quants_taken_apart() {
        rebuilds_256::<blocks::BlockQ2K>();
        rebuilds_256::<blocks::BlockQ3K>();
        rebuilds_256::<blocks::BlockQ4K>();
        rebuilds_256::<blocks::BlockQ5K>();
        rebuilds_256::<blocks::BlockQ6K>();
    }

    #[cfg(feature = "i-quants")]
    #[test]
    fn i_quants_taken_apart() {
        rebuilds_256::<blocks::BlockIq1S>();
        rebuilds_256::<blocks::BlockIq1M>();
        rebuilds_256::<blocks::BlockIq2Xxs>();
        rebuilds_256::<blocks::BlockIq2Xs>();
        rebuilds_256::<blocks::BlockIq2S>();
        rebuilds_256::<blocks::BlockIq3Xxs>();
        rebuilds_256::<blocks::BlockIq3S>();
        rebuilds_32::<blocks::BlockIq4Nl>();
        rebuilds_256::<blocks::BlockIq4Xs>();
    }

    #[cfg(feature = "ternary")]
    #[test]
    fn ternary_blocks_taken_apart() {
        rebuilds_256::<blocks::BlockTq1_0>();
        rebuilds_256::<blocks::BlockTq2_0>();
    }

    #[cfg(feature = "fp4")]
    #[test]
    fn fp4_blocks_taken_apart() {
        rebuilds_32::<blocks::BlockMxfp4>();
    }

    #[test]
    fn the_largest_sums_are_exact() {
        let (q, w) = ([-127; 32], [-128; 32]);
        assert_eq!(multiply(&w, &q), 32 * 127 * 128);
    }
}
