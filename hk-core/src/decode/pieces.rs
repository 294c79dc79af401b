//! Plain payloads by pieces: which bytes hold a range of elements, and what they decode to.

use core::ops::Range;

use super::form::Form;
use super::{check_data, check_range};
use crate::backend::Backend;
use crate::error::{Error, ErrorKind};
use crate::format::{Span, TensorEntry};
use crate::storage::StorageType;

/// Most weights that a block of any type has.
const MAX_BLOCK: usize = 256;

impl TensorEntry<'_> {
    /// The bytes of the file that hold elements `range`, for [`dequantize_slice`]: for hosts
    /// that fetch a payload in pieces. 64 elements from a multiple of 64 on take 512 bytes at
    /// most, whatever the type.
    ///
    /// # Errors
    /// As [`dequantize_range`](super::dequantize_range); [`ErrorKind::Scattered`] for tensors
    /// that are not [plain](Form::Plain): a host fetches these whole, and decodes a range of
    /// their [`source`](TensorEntry::source). A `shared_ref` has to be
    /// [resolved](TensorEntry::resolve_to) first.
    pub fn locate(&self, range: Range<u64>) -> Result<Cover, Error> {
        self.locate_in_payload(range).map_err(|e| self.error(e))
    }

    fn locate_in_payload(&self, range: Range<u64>) -> Result<Cover, Error> {
        check_range(&self.shape, &range)?;
        match self.form_in_entry()? {
            Form::Zeros => {}
            Form::Plain => check_data(self.storage.payload_len(&self.shape)?, self.data.size)?,
            _ => return Err(Error::call(ErrorKind::Scattered(self.storage))),
        }
        let cover = cover(self.storage, range)?;
        if cover.bytes.is_empty() {
            // No bytes, wherever the entry says that they are.
            return Ok(Cover { bytes: 0..0, ..cover });
        }
        let overflow = Error::call(ErrorKind::ElementCount);
        let absolute = |offset: u64| self.data.offset.checked_add(offset).ok_or(overflow);
        Ok(Cover { bytes: absolute(cover.bytes.start)?..absolute(cover.bytes.end)?, ..cover })
    }
}

/// The bytes that hold a range of elements: which part of a payload to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// Whole blocks, as a byte range: of the payload when it comes from [`cover`], of the
    /// file when it comes from [`TensorEntry::locate`].
    pub bytes: Range<u64>,
    /// Weights of the first block that come before the range.
    pub skip: usize,
}

impl Cover {
    /// [`bytes`](Self::bytes) as offset and size.
    pub const fn span(&self) -> Span {
        Span { offset: self.bytes.start, size: self.bytes.end.saturating_sub(self.bytes.start) }
    }
}

/// The bytes of a plain dense or block payload that hold elements `range`, for
/// [`dequantize_slice`]; none for a `null_ref`.
///
/// # Errors
/// [`ErrorKind::Undecodable`] for a type without a fixed geometry, [`ErrorKind::Range`]
/// for a range that ends before it starts, [`ErrorKind::ElementCount`] for offsets over
/// 2^64.
///
/// ```
/// use hk_core::{StorageType, decode};
/// let cover = decode::cover(StorageType::Q4_0, 40..80).unwrap();
/// assert_eq!((cover.bytes, cover.skip), (18..54, 8));
/// ```
pub fn cover(storage: StorageType, range: Range<u64>) -> Result<Cover, Error> {
    let Range { start, end } = range;
    if start > end {
        return Err(Error::call(ErrorKind::Range { start, end, count: u64::MAX }));
    }
    if storage == StorageType::NULL_REF {
        return Ok(Cover { bytes: 0..0, skip: 0 });
    }
    let geometry = storage.geometry().ok_or(Error::call(ErrorKind::Undecodable(storage)))?;
    let offset = |block: u64| {
        let offset = block.checked_mul(u64::from(geometry.bytes));
        offset.ok_or(Error::call(ErrorKind::ElementCount))
    };
    let (block, skip) = geometry.locate(start);
    let first = offset(block)?;
    let last = if start == end { first } else { offset(geometry.blocks(end))? };
    Ok(Cover { bytes: first..last, skip })
}

/// Decodes consecutive elements of a plain dense or block payload, or of a `null_ref`, to
/// `out`, from `bytes` that start at a block: leaves out the first `skip` weights (fewer than a block's).
/// [`cover`] says which bytes and how many to skip.
///
/// # Errors
/// [`ErrorKind::TooShort`] when `bytes` end early, or a type without a decoder.
pub fn dequantize_slice(
    backend: &dyn Backend,
    storage: StorageType,
    bytes: &[u8],
    skip: usize,
    out: &mut [f32],
) -> Result<(), Error> {
    if storage == StorageType::NULL_REF {
        out.fill(0.0);
        return Ok(());
    }
    // Nothing is asked of an empty span, not even the block that it would begin in.
    if skip == 0 || out.is_empty() {
        return backend.dequantize(storage, bytes, out);
    }
    let geometry = storage.geometry().ok_or(Error::call(ErrorKind::Undecodable(storage)))?;
    let weights = geometry.weights as usize;
    let range =
        Error::call(ErrorKind::Range { start: skip as u64, end: u64::MAX, count: weights as u64 });
    let mut block = [0.0; MAX_BLOCK];
    let block = block.get_mut(..weights).ok_or(range)?;
    backend.dequantize(storage, bytes, block)?;
    let head = block.get(skip..).ok_or(range)?;
    let (to, rest) = out.split_at_mut(head.len().min(out.len()));
    for (to, from) in to.iter_mut().zip(head) {
        *to = *from;
    }
    let bytes = bytes.get(geometry.bytes as usize..).unwrap_or_default();
    backend.dequantize(storage, bytes, rest)
}
