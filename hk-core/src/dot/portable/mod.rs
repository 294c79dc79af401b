//! Dot products that compilers turn into vector code: the kernels behind
//! [`Portable`](crate::Portable).
//!
//! Rows of blocks go four at a time. Their blocks become arrays of 16-bit integers, once for
//! all activations of a call (or of sixteen, where there are more), and an exact 32-bit sum
//! of products is left for each block; rows of f16 and bf16 become f32 in the same way. Then
//! come the f32 steps in the order of dot-products.md, for the four rows in four lanes.
//!
//! Everything here is `#[inline(always)]` and generic over a block type, so that a backend
//! compiles it anew for an instruction set by a call inside of its own `#[target_feature]`
//! function, for types that it has no kernel for:
//!
//! ```
//! use hk_core::blocks;
//! use hk_core::dot::portable::{Matrix, by_blocks_of_32};
//!
//! #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
//! fn q8_0(matrix: Matrix<'_>) {
//!     by_blocks_of_32::<blocks::BlockQ8_0>(matrix);
//! }
//! ```
//!
//! `core::hint::black_box` stands where an array is to go through memory (which stays in
//! the first cache), since the compiler, when it sees both what makes an array and what uses
//! it, makes scalar code of both.

// Without these families nothing has blocks of 256 weights.
#![cfg_attr(
    not(any(feature = "k-quants", feature = "i-quants", feature = "ternary")),
    allow(dead_code)
)]

mod dense;
mod matrix;
#[cfg(feature = "fp4")]
mod nvfp4;
mod quantized;
mod tile;
mod unpack;

pub use dense::{Element, by_elements};
pub use matrix::Matrix;
#[cfg(feature = "fp4")]
pub use nvfp4::by_blocks_of_nvfp4;
pub use unpack::Weights;

use super::{Activation, oracle};
use crate::blocks;
use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// `f` of each value: `array::map`, but always inlined, so that it is compiled for the
/// instruction set of its caller.
#[inline(always)]
fn each<T: Copy, U: Copy + Default, const N: usize>(from: [T; N], f: impl Fn(T) -> U) -> [U; N] {
    let mut to = [U::default(); N];
    for (to, from) in to.iter_mut().zip(from) {
        *to = f(from);
    }
    to
}

/// The table behind [`Portable`](crate::Portable).
pub(crate) fn dot_matrix(
    storage: StorageType,
    rows: &[u8],
    activations: &[Activation<'_>],
    out: &mut [f32],
) -> Result<(), Error> {
    // Where nothing is unpacked, one row after another is the fastest way.
    if storage == StorageType::F32 && activations.len() == 1 {
        return oracle::dot_matrix(storage, rows, activations, out);
    }
    let matrix = Matrix::new(storage, rows, activations, out)?;
    match storage {
        StorageType::F32 => dense::<blocks::F32>(matrix),
        StorageType::F16 => dense::<blocks::F16>(matrix),
        StorageType::BF16 => dense::<blocks::Bf16>(matrix),
        StorageType::Q4_0 => by_32::<blocks::BlockQ4_0>(matrix),
        StorageType::Q4_1 => by_32::<blocks::BlockQ4_1>(matrix),
        StorageType::Q5_0 => by_32::<blocks::BlockQ5_0>(matrix),
        StorageType::Q5_1 => by_32::<blocks::BlockQ5_1>(matrix),
        StorageType::Q8_0 => by_32::<blocks::BlockQ8_0>(matrix),
        #[cfg(feature = "k-quants")]
        StorageType::Q2_K => by_256::<blocks::BlockQ2K>(matrix),
        #[cfg(feature = "k-quants")]
        StorageType::Q3_K => by_256::<blocks::BlockQ3K>(matrix),
        #[cfg(feature = "k-quants")]
        StorageType::Q4_K => by_256::<blocks::BlockQ4K>(matrix),
        #[cfg(feature = "k-quants")]
        StorageType::Q5_K => by_256::<blocks::BlockQ5K>(matrix),
        #[cfg(feature = "k-quants")]
        StorageType::Q6_K => by_256::<blocks::BlockQ6K>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_S => by_256::<blocks::BlockIq1S>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_M => by_256::<blocks::BlockIq1M>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XXS => by_256::<blocks::BlockIq2Xxs>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XS => by_256::<blocks::BlockIq2Xs>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_S => by_256::<blocks::BlockIq2S>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_XXS => by_256::<blocks::BlockIq3Xxs>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_S => by_256::<blocks::BlockIq3S>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_XS => by_256::<blocks::BlockIq4Xs>(matrix),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_NL => by_32::<blocks::BlockIq4Nl>(matrix),
        #[cfg(feature = "ternary")]
        StorageType::TQ1_0 => by_256::<blocks::BlockTq1_0>(matrix),
        #[cfg(feature = "ternary")]
        StorageType::TQ2_0 => by_256::<blocks::BlockTq2_0>(matrix),
        #[cfg(feature = "fp4")]
        StorageType::MXFP4 => by_32::<blocks::BlockMxfp4>(matrix),
        #[cfg(feature = "fp4")]
        StorageType::NVFP4 => nvfp4::by_blocks(matrix),
        // Matrix::new has let through only what has a dot product.
        _ => return Err(Error::call(ErrorKind::NotBuiltIn(storage))),
    }
    Ok(())
}

/// [`by_elements`] as a function of its own for each type, as are the next two, so that the
/// table above is a jump and each kernel has a stack frame of its own.
#[inline(never)]
fn dense<E: Element>(matrix: Matrix<'_>) {
    by_elements::<E>(matrix);
}

#[inline(never)]
fn by_32<B: Weights<32>>(matrix: Matrix<'_>) {
    by_blocks_of_32::<B>(matrix);
}

#[cfg(any(feature = "k-quants", feature = "i-quants", feature = "ternary"))]
#[inline(never)]
fn by_256<B: Weights<256>>(matrix: Matrix<'_>) {
    by_blocks_of_256::<B>(matrix);
}

/// The products of rows of blocks of 32 weights, whose activations are
/// [`Q32`](Activation::Q32); of other activations products are 0.
#[inline(always)]
pub fn by_blocks_of_32<B: Weights<32>>(matrix: Matrix<'_>) {
    tile::by_blocks::<B, quantized::By32, 32, 4>(matrix);
}

/// The products of rows of blocks of 256 weights, whose activations are
/// [`Q256`](Activation::Q256); of other activations products are 0.
#[cfg(any(feature = "k-quants", feature = "i-quants", feature = "ternary"))]
#[inline(always)]
pub fn by_blocks_of_256<B: Weights<256>>(matrix: Matrix<'_>) {
    tile::by_blocks::<B, quantized::By256, 256, 1>(matrix);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::ActivationForm;
    use std::vec;
    use std::vec::Vec;

    /// Pseudorandom bytes.
    fn bytes(len: usize) -> Vec<u8> {
        let mut state = len as u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// Blocks of random bits, some of them with scales that are not finite: four rows at
    /// once and rows left over, a full tile of activations and one left over, whole steps of
    /// blocks and some left over.
    #[test]
    fn the_bits_of_the_oracle() {
        let (rows, batch, blocks) = if cfg!(miri) { (1, 1, 1) } else { (7, TILE_AND_ONE, 7) };
        for storage in StorageType::all() {
            let Some(form) = ActivationForm::of(storage) else { continue };
            let geometry = storage.geometry().unwrap();
            let len = match form {
                ActivationForm::F32 => 23 * blocks,
                ActivationForm::Q32 => 64 * blocks,
                ActivationForm::Q256 => 256 * blocks,
            };
            let row = len / geometry.weights as usize * geometry.bytes as usize;
            let weights = bytes(rows * row);
            let x: Vec<f32> =
                bytes(batch * len).iter().map(|&byte| f32::from(byte) - 127.5).collect();
            let mut scratch = vec![vec![0; form.scratch_len(len)]; batch];
            let activations: Vec<_> = x
                .chunks(len)
                .zip(&mut scratch)
                .map(|(x, scratch)| Activation::quantize(storage, x, scratch).unwrap())
                .collect();
            for activations in [&activations[..1], &activations] {
                let mut out = vec![0.0; rows * activations.len()];
                let mut expected = out.clone();
                let made = dot_matrix(storage, &weights, activations, &mut out);
                let defined = oracle::dot_matrix(storage, &weights, activations, &mut expected);
                assert_eq!(made, defined);
                for (i, (out, expected)) in out.iter().zip(&expected).enumerate() {
                    let same = out.to_bits() == expected.to_bits();
                    let nan = out.is_nan() && expected.is_nan();
                    assert!(same || nan, "{storage}, product {i}: {out} for {expected}");
                }
            }
        }
    }

    const TILE_AND_ONE: usize = matrix::TILE + 1;
}
