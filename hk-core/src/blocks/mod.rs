//! Block layouts and their scalar decoding, one file a family (blocks.md), and the one
//! table that maps a storage type to its decoder.
//!
//! A decoder works in two steps, so that each is a plain loop that compilers turn into
//! vector code: the stored bits become an array of small integers (`codes`), and the
//! integers become f32 in the order of operations that blocks.md gives.

#[cfg(feature = "i-quants")]
pub(crate) mod codebooks;
mod dense;
#[cfg(feature = "fp4")]
pub(crate) mod fp4;
#[cfg(feature = "i-quants")]
mod iq;
#[cfg(feature = "k-quants")]
pub(crate) mod k;
pub(crate) mod legacy;
#[cfg(feature = "ternary")]
mod ternary;
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
#[cfg(feature = "ternary")]
pub use ternary::{BlockTq1_0, BlockTq2_0};

/// One block of `N` weights as it stands in a file: a struct over unaligned bytes that
/// knows how to decode itself. Elements of dense types are blocks of one.
pub trait Block<const N: usize>: FromBytes + Immutable + KnownLayout + Unaligned {
    /// The storage type whose payloads are made of this block.
    const STORAGE: StorageType;

    /// Decodes all weights, each f32 operation rounded once, in the order of blocks.md.
    fn decode(&self, out: &mut [f32; N]);
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
#[inline]
pub fn dequantize_blocks<B: Block<N>, const N: usize>(
    payload: &[u8],
    out: &mut [f32],
) -> Result<(), Error> {
    let needed = out.len().div_ceil(N);
    let Ok((blocks, _)) = <[B]>::ref_from_prefix_with_elems(payload, needed) else {
        return Err(too_short(needed as u64 * size_of::<B>() as u64, payload));
    };
    let (whole, last) = out.as_chunks_mut::<N>();
    for (block, weights) in blocks.iter().zip(whole) {
        block.decode(weights);
    }
    if let (false, Some(block)) = (last.is_empty(), blocks.last()) {
        let mut weights = [0.0; N];
        block.decode(&mut weights);
        for (to, from) in last.iter_mut().zip(weights) {
            *to = from;
        }
    }
    Ok(())
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
        StorageType::F32 => dequantize_blocks::<F32, _>(payload, out),
        StorageType::F16 => dequantize_blocks::<F16, _>(payload, out),
        StorageType::BF16 => dequantize_blocks::<Bf16, _>(payload, out),
        StorageType::FP8_E4M3 => dequantize_blocks::<Fp8E4M3, _>(payload, out),
        StorageType::FP8_E5M2 => dequantize_blocks::<Fp8E5M2, _>(payload, out),
        StorageType::INT8 => dequantize_blocks::<Int8, _>(payload, out),
        StorageType::INT16 => dequantize_blocks::<Int16, _>(payload, out),
        StorageType::INT32 => dequantize_blocks::<Int32, _>(payload, out),
        StorageType::INT64 => dequantize_blocks::<Int64, _>(payload, out),
        StorageType::UINT8 => dequantize_blocks::<Uint8, _>(payload, out),
        StorageType::UINT16 => dequantize_blocks::<Uint16, _>(payload, out),
        StorageType::UINT32 => dequantize_blocks::<Uint32, _>(payload, out),
        StorageType::UINT64 => dequantize_blocks::<Uint64, _>(payload, out),
        StorageType::BOOL => dequantize_blocks::<Bool, _>(payload, out),
        StorageType::F64 => dequantize_blocks::<F64, _>(payload, out),
        StorageType::Q4_0 => dequantize_blocks::<BlockQ4_0, _>(payload, out),
        StorageType::Q4_1 => dequantize_blocks::<BlockQ4_1, _>(payload, out),
        StorageType::Q5_0 => dequantize_blocks::<BlockQ5_0, _>(payload, out),
        StorageType::Q5_1 => dequantize_blocks::<BlockQ5_1, _>(payload, out),
        StorageType::Q8_0 => dequantize_blocks::<BlockQ8_0, _>(payload, out),
        StorageType::Q8_1 => dequantize_blocks::<BlockQ8_1, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q2_K => dequantize_blocks::<BlockQ2K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q3_K => dequantize_blocks::<BlockQ3K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q4_K => dequantize_blocks::<BlockQ4K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q5_K => dequantize_blocks::<BlockQ5K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q6_K => dequantize_blocks::<BlockQ6K, _>(payload, out),
        #[cfg(feature = "k-quants")]
        StorageType::Q8_K => dequantize_blocks::<BlockQ8K, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_S => dequantize_blocks::<BlockIq1S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ1_M => dequantize_blocks::<BlockIq1M, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XXS => dequantize_blocks::<BlockIq2Xxs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_XS => dequantize_blocks::<BlockIq2Xs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ2_S => dequantize_blocks::<BlockIq2S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_XXS => dequantize_blocks::<BlockIq3Xxs, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ3_S => dequantize_blocks::<BlockIq3S, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_NL => dequantize_blocks::<BlockIq4Nl, _>(payload, out),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_XS => dequantize_blocks::<BlockIq4Xs, _>(payload, out),
        #[cfg(feature = "ternary")]
        StorageType::TQ1_0 => dequantize_blocks::<BlockTq1_0, _>(payload, out),
        #[cfg(feature = "ternary")]
        StorageType::TQ2_0 => dequantize_blocks::<BlockTq2_0, _>(payload, out),
        #[cfg(feature = "fp4")]
        StorageType::MXFP4 => dequantize_blocks::<BlockMxfp4, _>(payload, out),
        #[cfg(feature = "fp4")]
        StorageType::NVFP4 => dequantize_blocks::<BlockNvfp4, _>(payload, out),
        // Every block type of blocks.md stands above; one that did not match was left out.
        _ if storage.is_block() => Err(Error::call(ErrorKind::NotBuiltIn(storage))),
        _ => Err(Error::call(ErrorKind::Undecodable(storage))),
    }
}
