//! Block layouts and their scalar decoding, one file a family (blocks.md), and the one
//! table that maps a storage type to its decoder.

mod dense;
mod legacy;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Part, Section};
use crate::storage::StorageType;

pub use legacy::BlockQ4_0;

/// One block of `N` weights as it stands in a file: a struct over unaligned bytes that
/// knows how to decode itself.
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
/// use hk_core::{dequantize_blocks, blocks::BlockQ4_0};
/// let mut block = [0x99; 18]; // every code is 9, one above the offset of 8
/// block[..2].copy_from_slice(&[0x00, 0x38]); // f16 0.5
/// let mut weights = [0.0; 32];
/// dequantize_blocks::<BlockQ4_0, _>(&block, &mut weights).unwrap();
/// assert_eq!(weights, [0.5; 32]);
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
        StorageType::Q4_0 => dequantize_blocks::<BlockQ4_0, _>(payload, out),
        _ if storage.is_dense() => dense::dequantize(storage, payload, out),
        _ => Err(Error::call(ErrorKind::Undecodable(storage))),
    }
}
