//! The fifteen dense types (payloads.md, "Conventions").

use super::too_short;
use crate::error::{Error, ErrorKind};
use crate::storage::StorageType;

/// Decodes the first `out.len()` elements of a dense payload.
pub(super) fn dequantize(
    storage: StorageType,
    payload: &[u8],
    out: &mut [f32],
) -> Result<(), Error> {
    match storage {
        StorageType::F32 => convert(payload, out, f32::from_le_bytes),
        _ => Err(Error::call(ErrorKind::Undecodable(storage))),
    }
}

fn convert<const N: usize>(
    payload: &[u8],
    out: &mut [f32],
    decode: impl Fn([u8; N]) -> f32,
) -> Result<(), Error> {
    let (elements, _) = payload.as_chunks::<N>();
    if elements.len() < out.len() {
        return Err(too_short(out.len() as u64 * N as u64, payload));
    }
    for (to, &from) in out.iter_mut().zip(elements) {
        *to = decode(from);
    }
    Ok(())
}
