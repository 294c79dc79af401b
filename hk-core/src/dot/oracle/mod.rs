//! The oracle: dot products by plain scalar code, written straight from dot-products.md
//! and kept that way. Whatever is faster must give the same bits.
//!
//! ```
//! use hk_core::{Activation, Backend, Portable, StorageType, dot::oracle};
//! let row: Vec<f32> = (0..64).map(|i| (i as f32 - 20.0) / 8.0).collect();
//! let mut scratch = vec![0; Activation::scratch_len(StorageType::BF16, row.len())];
//! let activation = Activation::quantize(StorageType::BF16, &row, &mut scratch)?;
//!
//! let rows: Vec<u8> = (0..3 * 128).map(|i| (i % 64) as u8).collect();
//! let (mut expected, mut out) = ([0.0; 3], [0.0; 3]);
//! oracle::dot_rows(StorageType::BF16, &rows, activation, &mut expected)?;
//! Portable.dot_rows(StorageType::BF16, &rows, activation, &mut out)?;
//! assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
//! # Ok::<(), hk_core::Error>(())
//! ```

// Without these families nothing has blocks of 256 weights.
#![cfg_attr(
    not(any(feature = "k-quants", feature = "i-quants", feature = "ternary")),
    allow(dead_code)
)]

#[cfg(feature = "fp4")]
mod fp4;
#[cfg(feature = "i-quants")]
mod iq;
#[cfg(feature = "k-quants")]
mod k;
mod legacy;
pub(super) mod terms;
#[cfg(feature = "ternary")]
mod ternary;

use zerocopy::FromBytes;

use self::terms::{Dot32, Dot256};
use super::order::{sum_blocks, sum_products};
use super::{Activation, check_matrix};
use crate::blocks::{self, Block};
use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// `out[r] = rows[r] . activation`, as [`Backend::dot_rows`](crate::Backend::dot_rows).
///
/// # Errors
/// As [`Backend::dot_rows`](crate::Backend::dot_rows).
pub fn dot_rows(
    storage: StorageType,
    rows: &[u8],
    activation: Activation<'_>,
    out: &mut [f32],
) -> Result<(), Error> {
    dot_matrix(storage, rows, &[activation], out)
}

/// `out[r * activations.len() + a] = rows[r] . activations[a]`, as
/// [`Backend::dot_matrix`](crate::Backend::dot_matrix).
///
/// # Errors
/// As [`Backend::dot_matrix`](crate::Backend::dot_matrix).
pub fn dot_matrix(
    storage: StorageType,
    rows: &[u8],
    activations: &[Activation<'_>],
    out: &mut [f32],
) -> Result<(), Error> {
    let row = check_matrix(storage, rows, activations, out.len())?;
    let matrix = Matrix { rows, row, activations, out };
    match storage {
        StorageType::F32 => matrix.dense::<blocks::F32, 16>(),
        StorageType::F16 => matrix.dense::<blocks::F16, 16>(),
        StorageType::BF16 => matrix.dense::<blocks::Bf16, 32>(),
        StorageType::Q4_0 => matrix.by_32::<blocks::BlockQ4_0>(),
        StorageType::Q4_1 => matrix.by_32::<blocks::BlockQ4_1>(),
        StorageType::Q5_0 => matrix.by_32::<blocks::BlockQ5_0>(),
        StorageType::Q5_1 => matrix.by_32::<blocks::BlockQ5_1>(),
        StorageType::Q8_0 => matrix.by_32::<blocks::BlockQ8_0>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q2_K => matrix.by_256::<blocks::BlockQ2K>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q3_K => matrix.by_256::<blocks::BlockQ3K>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q4_K => matrix.by_256::<blocks::BlockQ4K>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q5_K => matrix.by_256::<blocks::BlockQ5K>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q6_K => matrix.by_256::<blocks::BlockQ6K>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_S => matrix.by_256::<blocks::BlockIq1S>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_M => matrix.by_256::<blocks::BlockIq1M>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XXS => matrix.by_256::<blocks::BlockIq2Xxs>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XS => matrix.by_256::<blocks::BlockIq2Xs>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_S => matrix.by_256::<blocks::BlockIq2S>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_XXS => matrix.by_256::<blocks::BlockIq3Xxs>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_S => matrix.by_256::<blocks::BlockIq3S>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_NL => matrix.by_32::<blocks::BlockIq4Nl>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_XS => matrix.by_256::<blocks::BlockIq4Xs>(),
        #[cfg(feature = "ternary")]
        StorageType::TQ1_0 => matrix.by_256::<blocks::BlockTq1_0>(),
        #[cfg(feature = "ternary")]
        StorageType::TQ2_0 => matrix.by_256::<blocks::BlockTq2_0>(),
        #[cfg(feature = "fp4")]
        StorageType::MXFP4 => matrix.by_32::<blocks::BlockMxfp4>(),
        #[cfg(feature = "fp4")]
        StorageType::NVFP4 => matrix.nvfp4(),
        // check_matrix has let through only what has a dot product.
        _ => return Err(Error::call(ErrorKind::NotBuiltIn(storage))),
    }
    Ok(())
}

/// The arguments of a call, checked: weight rows of `row` bytes each, activations of the
/// form and length for them, and room for the product of each row with each activation.
struct Matrix<'a> {
    rows: &'a [u8],
    row: usize,
    activations: &'a [Activation<'a>],
    out: &'a mut [f32],
}

impl Matrix<'_> {
    /// Rows of dense elements, of which each of the sixteen lanes takes `CHUNK / 16` in turn.
    fn dense<E: Block<1>, const CHUNK: usize>(self) {
        self.for_each(|row, activation| {
            let (Ok(weights), Activation::F32(x)) = (<[E]>::ref_from_bytes(row), activation) else {
                return f32::NAN;
            };
            sum_products::<_, CHUNK>(weights, x, |weight| {
                let mut value = [0.0];
                weight.decode(&mut value);
                value[0]
            })
        });
    }

    /// Rows of blocks of 32 weights.
    fn by_32<B: Dot32>(self) {
        self.for_each(|row, activation| {
            let (Ok(weights), Activation::Q32(activation)) =
                (<[B]>::ref_from_bytes(row), activation)
            else {
                return f32::NAN;
            };
            sum_blocks(weights.iter().zip(activation.blocks()).map(|(w, a)| w.term(a)))
        });
    }

    /// Rows of blocks of 256 weights.
    fn by_256<B: Dot256>(self) {
        self.for_each(|row, activation| {
            let (Ok(weights), Activation::Q256(activation)) =
                (<[B]>::ref_from_bytes(row), activation)
            else {
                return f32::NAN;
            };
            sum_blocks(weights.iter().zip(activation.blocks()).map(|(w, a)| w.term(a)))
        });
    }

    /// Rows of `nvfp4`.
    #[cfg(feature = "fp4")]
    fn nvfp4(self) {
        self.for_each(|row, activation| {
            let (Ok(weights), Activation::Q32(activation)) =
                (<[blocks::BlockNvfp4]>::ref_from_bytes(row), activation)
            else {
                return f32::NAN;
            };
            let (q, d) = (activation.q().as_chunks().0, activation.d().as_chunks().0);
            let blocks = weights.iter().zip(q.iter().zip(d));
            sum_blocks(blocks.flat_map(|(w, (q, &d))| fp4::nvfp4_terms(w, q, d)))
        });
    }

    /// Sets each output to the `product` of its row and its activation.
    fn for_each(self, product: impl Fn(&[u8], &Activation<'_>) -> f32) {
        let mut rows = self.rows;
        for out in self.out.chunks_exact_mut(self.activations.len().max(1)) {
            let Some((row, rest)) = rows.split_at_checked(self.row) else { return };
            rows = rest;
            for (out, activation) in out.iter_mut().zip(self.activations) {
                *out = product(row, activation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Products of `rows` with `x`.
    fn products(storage: StorageType, rows: &[u8], x: &[f32], out: &mut [f32]) {
        let mut scratch = vec![u32::MAX; Activation::scratch_len(storage, x.len())];
        let activation = Activation::quantize(storage, x, &mut scratch).unwrap();
        dot_rows(storage, rows, activation, out).unwrap();
    }

    /// A row of 64 small whole numbers, whose codes are they themselves since 127 is the
    /// largest of each block.
    fn whole_row() -> Vec<f32> {
        (0..64).map(|i| if i % 32 == 5 { 127.0 } else { (i % 7) as f32 - 3.0 }).collect()
    }

    #[test]
    fn rows_by_hand() {
        let x = whole_row();
        // q4_1: two blocks of scale 0.5 and minimum -1, with codes 3 and 12.
        let mut block = [0xC3; 20];
        block[..4].copy_from_slice(&[0x00, 0x38, 0x00, 0xBC]);
        let weights: Vec<f32> = (0..64).map(|i| if i % 32 < 16 { 0.5 } else { 5.0 }).collect();
        let expected: f32 = weights.iter().zip(&x).map(|(w, x)| w * x).sum();
        let mut out = [0.0; 2];
        products(StorageType::Q4_1, &[block; 4].concat(), &x, &mut out);
        assert_eq!(out, [expected; 2]);

        let rows: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        products(StorageType::F32, &[&rows[..], &rows].concat(), &x, &mut out);
        assert_eq!(out, [expected; 2]);
    }

    #[cfg(feature = "fp4")]
    #[test]
    fn nvfp4_by_hand() {
        let x = whole_row();
        // Scales 1, 2, 4 and 8 (halved: 0.5 to 4), and codes of 1 in all low nibbles.
        let mut block = [0x01; 36];
        block[..4].copy_from_slice(&[0x38, 0x40, 0x48, 0x50]);
        let scale = |i: usize| [0.5, 1.0, 2.0, 4.0][i / 16];
        let low = x.iter().enumerate().filter(|(i, _)| i % 16 < 8);
        let expected: f32 = low.map(|(i, x)| scale(i) * x).sum();
        let mut out = [0.0];
        products(StorageType::NVFP4, &block, &x, &mut out);
        assert_eq!(out, [expected]);
    }

    #[test]
    fn families_left_out_are_named() {
        for (storage, built_in) in [
            (StorageType::Q4_K, cfg!(feature = "k-quants")),
            (StorageType::IQ2_XXS, cfg!(feature = "i-quants")),
            (StorageType::TQ1_0, cfg!(feature = "ternary")),
            (StorageType::NVFP4, cfg!(feature = "fp4")),
        ] {
            let (x, mut scratch) = ([1.0; 256], [0; 256]);
            let activation = Activation::quantize(storage, &x, &mut scratch).unwrap();
            let result = dot_rows(storage, &[0; 256], activation, &mut [0.0]);
            let left_out = Err(ErrorKind::NotBuiltIn(storage));
            assert_eq!(result.map_err(|e| e.kind()), if built_in { Ok(()) } else { left_out });
        }
    }
}
