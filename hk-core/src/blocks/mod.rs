//! Block layouts and their scalar decoding, one file a family (blocks.md), and the one
//! table that maps a storage type to its decoder.
//!
//! A decoder turns stored bits into small integers, and those into f32 in the order of
//! operations that blocks.md gives, by loops that compilers turn into vector code
//! (`unpack`). An operation is left out or moved only where that changes no bit: where it is
//! exact, as a power of two that moves from one factor to the other.

#[cfg(feature = "i-quants")]
pub mod codebooks;
mod dense;
#[cfg(feature = "fp4")]
pub(crate) mod fp4;
#[cfg(feature = "i-quants")]
pub(crate) mod iq;
#[cfg(feature = "k-quants")]
pub(crate) mod k;
pub(crate) mod legacy;
pub(crate) mod scaled;
mod sparse;
mod steps;
#[cfg(feature = "ternary")]
mod ternary;
#[cfg(test)]
mod tests;
pub(crate) mod unpack;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Part, Section};
use crate::storage::StorageType;

pub use dense::{
    Bf16, Bool, F16, F32, F64, Fp8E4M3, Fp8E5M2, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32,
    Uint64,
};
#[cfg(feature = "fp4")]
pub use fp4::{BlockMxfp4, BlockNvfp4};
#[cfg(feature = "i-quants")]
pub use iq::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs,
};
#[cfg(feature = "k-quants")]
pub use k::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8K};
pub use legacy::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ8_1};
pub(crate) use scaled::check_part;
pub use scaled::{E2M1, IQ4, NF4, ScaledBlocks, ScaledForm, ScaledType, dequantize_scaled};
pub use sparse::{count_ones, expand_2_4, expand_bitmask};
pub use steps::{each_scaled_block, each_scaled_block_unrolled};
#[cfg(feature = "ternary")]
pub use ternary::{BlockTq1_0, BlockTq2_0};

/// One block of `N` weights as it stands in a file: a struct over unaligned bytes that
/// knows how to decode itself. Elements of dense types are blocks of one.
pub trait Block<const N: usize>: FromBytes + Immutable + KnownLayout + Unaligned {
    /// The storage type whose payloads are made of this block.
    const STORAGE: StorageType;

    /// Decodes all weights, to the bits that the operations of blocks.md give, each rounded
    /// once.
    fn decode(&self, out: &mut [f32; N]);

    /// Decodes consecutive blocks, as many as both slices have. Types for which blocks one
    /// by one are not the fastest way have their own.
    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; N]])
    where
        Self: Sized,
    {
        if N == 1 {
            in_steps(blocks, out);
        } else {
            one_by_one(blocks, out);
        }
    }
}

/// Decodes the first `out.len()` weights of `payload`, consecutive blocks of one known
/// type. Links that type's decoder and nothing else.
///
/// # Errors
/// [`ErrorKind::TooShort`] when `payload` holds fewer blocks than `out` needs.
///
/// ```
/// use hk_core::{blocks, dequantize_blocks};
/// let mut block = [0x99; 18]; // every code is 9, one above the offset of 8
/// block[..2].copy_from_slice(&[0x00, 0x38]); // f16 0.5
/// let mut weights = [0.0; 32];
/// dequantize_blocks::<blocks::BlockQ4_0, _>(&block, &mut weights).unwrap();
/// assert_eq!(weights, [0.5; 32]);
///
/// let mut weights = [0.0; 2];
/// dequantize_blocks::<blocks::F16, _>(&[0x00, 0x38, 0x00, 0xC0], &mut weights).unwrap();
/// assert_eq!(weights, [0.5, -2.0]);
/// ```
#[inline(always)]
pub fn dequantize_blocks<B: Block<N>, const N: usize>(
    payload: &[u8],
    out: &mut [f32],
) -> Result<(), Error> {
    let needed = out.len().div_ceil(N);
    let Ok((blocks, _)) = <[B]>::ref_from_prefix_with_elems(payload, needed) else {
        return Err(too_short(needed as u64 * size_of::<B>() as u64, payload));
    };
    let (whole, last) = out.as_chunks_mut::<N>();
    B::decode_all(blocks, whole);
    if let (false, Some(block)) = (last.is_empty(), blocks.last()) {
        let mut weights = [0.0; N];
        decode(block, &mut weights);
        for (to, from) in last.iter_mut().zip(weights) {
            *to = from;
        }
    }
    Ok(())
}

/// Elements of a dense type, 64 a step: a step of few would take as long as the loop around
/// it.
#[inline(always)]
fn in_steps<B: Block<N>, const N: usize>(elements: &[B], out: &mut [[f32; N]]) {
    let (steps, rest) = elements.as_chunks::<64>();
    let (out_steps, out_rest) = out.as_chunks_mut::<64>();
    for (elements, out) in steps.iter().zip(out_steps) {
        unpack::fence();
        one_by_one(elements, out);
    }
    one_by_one(rest, out_rest);
}

/// Blocks one after another, large ones by a call, which costs small ones a twentieth.
#[inline(always)]
fn one_by_one<B: Block<N>, const N: usize>(blocks: &[B], out: &mut [[f32; N]]) {
    for (block, weights) in blocks.iter().zip(out) {
        if N < 256 {
            block.decode(weights);
        } else {
            decode(block, weights);
        }
    }
}

/// [`Block::decode`], not inlined, so that its code is there once.
#[inline(never)]
fn decode<B: Block<N>, const N: usize>(block: &B, weights: &mut [f32; N]) {
    block.decode(weights);
}

/// The error for a payload of fewer than `needed` bytes.
pub(crate) fn too_short(needed: u64, payload: &[u8]) -> Error {
    let available = payload.len() as u64;
    Error::new(ErrorKind::TooShort { part: Part::Data, needed, available }, Section::Payload, 0)
}

/// Decodes the first `out.len()` weights of a dense or block payload: the table behind
/// [`Portable`](crate::Portable).
pub(crate) fn dequantize(
    storage: StorageType,
    payload: &[u8],
    out: &mut [f32],
) -> Result<(), Error> {
    match storage {
        StorageType::F32 => whole::<F32, _>(payload, out),
        StorageType::F16 => whole::<F16, _>(payload, out),
        StorageType::BF16 => whole::<Bf16, _>(payload, out),
        StorageType::FP8_E4M3 => whole::<Fp8E4M3, _>(payload, out),
        StorageType::FP8_E5M2 => whole::<Fp8E5M2, _>(payload, out),
        StorageType::INT8 => whole::<Int8, _>(payload, out),
        StorageType::INT16 => whole::<Int16, _>(payload, out),
        StorageType::INT32 => whole::<Int32, _>(payload, out),
        StorageType::INT64 => whole::<Int64, _>(payload, out),
        StorageType::UINT8 => whole::<Uint8, _>(payload, out),
        StorageType::UINT16 => whole::<Uint16, _>(payload, out),
        StorageType::UINT32 => whole::<Uint32, _>(payload, out),
        StorageType::UINT64 => whole::<Uint64, _>(payload, out),
        StorageType::BOOL => whole::<Bool, _>(payload, out),
        StorageType::F64 => whole::<F64, _>(payload, out),
        StorageType::Q4_0 => whole::<BlockQ4_0, _>(payload, out),
        StorageType::Q4_1 => whole::<BlockQ4_1, _>(payload, out),
        StorageType::Q5_0 => whole::<BlockQ5_0, _>(payload, out),
        StorageType::Q5_1 => whole::<BlockQ5_1, _>(payload, out),
        StorageType::Q8_0 => whole::<BlockQ8_0, _>(payload, out),
        StorageType::Q8_1 => whole::<BlockQ8_1, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q2_K => whole::<BlockQ2K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q3_K => whole::<BlockQ3K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q4_K => whole::<BlockQ4K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q5_K => whole::<BlockQ5K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q6_K => whole::<BlockQ6K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q8_K => whole::<BlockQ8K, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_S => whole::<BlockIq1S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_M => whole::<BlockIq1M, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XXS => whole::<BlockIq2Xxs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XS => whole::<BlockIq2Xs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_S => whole::<BlockIq2S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_XXS => whole::<BlockIq3Xxs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_S => whole::<BlockIq3S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_NL => whole::<BlockIq4Nl, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_XS => whole::<BlockIq4Xs, _>(payload, out),
        #[cfg(feature = "ternary")]
        StorageType::TQ1_0 => whole::<BlockTq1_0, _>(payload, out),
        #[cfg(feature = "ternary")]
        StorageType::TQ2_0 => whole::<BlockTq2_0, _>(payload, out),
        #[cfg(feature = "fp4")]
        StorageType::MXFP4 => whole::<BlockMxfp4, _>(payload, out),
        #[cfg(feature = "fp4")]
        StorageType::NVFP4 => whole::<BlockNvfp4, _>(payload, out),
        // Every block type of blocks.md stands above; one that did not match was left out.
        _ if storage.is_block() => Err(Error::call(ErrorKind::NotBuiltIn(storage))),
        _ => Err(Error::call(ErrorKind::Undecodable(storage))),
    }
}

/// [`dequantize_blocks`] as a function of its own for each type, so that the table above is
/// a jump and each decoder has a stack frame of its own.
#[inline(never)]
fn whole<B: Block<N>, const N: usize>(payload: &[u8], out: &mut [f32]) -> Result<(), Error> {
    dequantize_blocks::<B, N>(payload, out)
}
