//! Bitmask sparsity (payloads.md, "Sparse payloads"): a bit for each weight, and the weights
//! that are not +0.0.
//!
//! ```
//! use hk_core::encode::bitmask;
//! let weights = [0.0, 1.5, 0.0, -0.0];
//! let len = bitmask::packed_len(&weights)?;
//! assert_eq!(len, 4 + 2 * 4);
//! let mut payload = [0; 12];
//! bitmask::pack(&weights, &mut payload)?;
//! assert_eq!(payload[0], 0b1010);
//! # Ok::<(), hk_core::Error>(())
//! ```

use super::check_encoded_len;
use crate::error::{Error, ErrorKind};

/// Bytes of the mask of `count` weights, padding included.
pub const fn mask_len(count: u64) -> u64 {
    // At most 2^61, so rounding up to 4 cannot overflow.
    count.div_ceil(8).next_multiple_of(4)
}

/// How many of `weights` are stored: those that are not +0.0.
pub fn stored(weights: &[f32]) -> u64 {
    // In runs that 32 bits can count, so that vector code counts in one register.
    let run = |run: &[f32]| -> u32 { run.iter().map(|w| u32::from(w.to_bits() != 0)).sum() };
    weights.chunks(1 << 16).map(|chunk| u64::from(run(chunk))).sum()
}

/// Bytes of a payload of `count` weights of which `stored` are stored.
///
/// # Errors
/// [`ErrorKind::ElementCount`] when the size passes 2^64.
pub fn len(count: u64, stored: u64) -> Result<u64, Error> {
    let len = stored.checked_mul(4).and_then(|values| values.checked_add(mask_len(count)));
    len.ok_or(Error::call(ErrorKind::ElementCount))
}

/// Bytes of the payload of `weights`.
///
/// # Errors
/// As [`len`].
pub fn packed_len(weights: &[f32]) -> Result<u64, Error> {
    len(weights.len() as u64, stored(weights))
}

/// Packs `weights` to a whole payload: mask, then values.
///
/// # Errors
/// [`ErrorKind::EncodedLength`] when `out` is not [`packed_len`] bytes.
pub fn pack(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    let (expected, given) = (packed_len(weights)?, out.len() as u64);
    let mask_len = mask_len(weights.len() as u64) as usize;
    let (mask, values) = match out.split_at_mut_checked(mask_len) {
        Some(parts) if expected == given => parts,
        _ => return Err(Error::call(ErrorKind::EncodedLength { expected, given })),
    };
    let (used, padding) = mask.split_at_mut_checked(weights.len().div_ceil(8)).unwrap_or_default();
    padding.fill(0);
    pack_mask(weights, used)?;
    pack_values(weights, values)
}

/// The mask alone, 8 weights a byte and no padding, for payloads that are made in pieces:
/// every piece but the last has a multiple of 8 weights.
///
/// # Errors
/// [`ErrorKind::EncodedLength`] when `out` does not have as many bytes.
pub fn pack_mask(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    check_encoded_len(weights.len().div_ceil(8) as u64, out)?;
    let (whole, tail) = weights.as_chunks::<8>();
    let (bytes, last) = out.split_at_mut_checked(whole.len()).unwrap_or_default();
    for (eight, byte) in whole.iter().zip(bytes) {
        *byte = mask(eight);
    }
    for byte in last {
        *byte = mask(tail);
    }
    Ok(())
}

/// The mask of up to 8 weights.
#[inline(always)]
fn mask(weights: &[f32]) -> u8 {
    let bits = weights.iter().enumerate();
    bits.fold(0, |mask, (place, weight)| mask | u8::from(weight.to_bits() != 0) << (place & 7))
}

/// The stored values alone, for payloads that are made in pieces.
///
/// # Errors
/// [`ErrorKind::EncodedLength`] when `out` does not have room for exactly the
/// [`stored`] ones.
pub fn pack_values(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    check_encoded_len(stored(weights).saturating_mul(4), out)?;
    let (words, _) = out.as_chunks_mut::<4>();
    let mut stored = 0;
    for weight in weights {
        // Written whether it is stored or not, and written over by the next if it is not: no
        // branch that a random mask would make guesswork.
        let Some(word) = words.get_mut(stored) else { return Ok(()) };
        *word = weight.to_le_bytes();
        stored += usize::from(weight.to_bits() != 0);
    }
    Ok(())
}
