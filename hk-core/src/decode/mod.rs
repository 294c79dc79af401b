//! A tensor to f32: reference (resolved by [`Tensor`](crate::Tensor)), then sparsity, then
//! storage, then tiles; each step one small function.
//!
//! The functions here take byte slices wherever they come from, so that a host which
//! fetched a payload in pieces decodes it just as one that maps the file.

use core::ops::Range;

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Part, Section};
use crate::format::{Shape, Span, TensorEntry};
use crate::storage::{SparsityType, StorageType, TileLayout};

/// Most weights that a block of any type has.
const MAX_BLOCK: usize = 256;

/// What to do with the residual stream of dual-mode tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Residual {
    /// The base values alone.
    Skip,
    /// Base plus residual, where there is one.
    #[default]
    Add,
}

/// A tensor's parameters and bytes, references resolved.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// How the weights are stored.
    pub storage: StorageType,
    /// How they are ordered.
    pub tile: TileLayout,
    /// How zeros are left out.
    pub sparsity: SparsityType,
    /// Dimensions, outermost first.
    pub shape: Shape,
    /// Weights a block of dual-mode and split-scale types.
    pub block_size: u16,
    /// The payload.
    pub data: &'a [u8],
    /// The scales, empty if none.
    pub scales: &'a [u8],
    /// The residual, empty if none.
    pub residual: &'a [u8],
}

impl Source<'_> {
    fn check_decodable(&self) -> Result<(), Error> {
        check_decodable(self.storage, self.tile, self.sparsity, !self.scales.is_empty())
    }
}

/// Decodes elements `range` of `source` to `out`, which has as many.
///
/// # Errors
/// [`ErrorKind::Range`], [`ErrorKind::OutputLength`], a payload too short for the whole
/// shape, or a type, sparsity or layout without a decoder. `out` is then unspecified.
pub fn dequantize_range(
    backend: &dyn Backend,
    source: &Source<'_>,
    range: Range<u64>,
    out: &mut [f32],
    _residual: Residual,
) -> Result<(), Error> {
    check_range(&source.shape, &range)?;
    let (expected, given) = (range.end - range.start, out.len() as u64);
    if expected != given {
        return Err(Error::call(ErrorKind::OutputLength { expected, given }));
    }
    source.check_decodable()?;
    check_len(source.storage, &source.shape, source.data.len() as u64)?;
    let cover = cover(source.storage, range)?;
    // Within the payload, by the comparison above.
    let bytes = crate::bytes::range(source.data, cover.bytes.start, cover.span().size);
    dequantize_slice(backend, source.storage, bytes.unwrap_or_default(), cover.skip, out)
}

/// Whether a tensor of `shape` has the elements `range`.
fn check_range(shape: &Shape, range: &Range<u64>) -> Result<(), Error> {
    let count = shape.count();
    if range.start > range.end || range.end > count {
        return Err(Error::call(ErrorKind::Range { start: range.start, end: range.end, count }));
    }
    Ok(())
}

/// Whether the source is row-major elements or blocks of its type and nothing else.
pub(crate) fn is_plain(source: &Source<'_>) -> bool {
    source.check_decodable().is_ok()
}

/// Whether this version has a decoder for a type, sparsity and layout.
fn check_decodable(
    storage: StorageType,
    tile: TileLayout,
    sparsity: SparsityType,
    has_scales: bool,
) -> Result<(), Error> {
    let split_scale = has_scales && storage.has_split_form();
    if storage == StorageType::NULL_REF {
        return Ok(());
    }
    if storage.geometry().is_none() || split_scale {
        return Err(Error::call(ErrorKind::Undecodable(storage)));
    }
    if !matches!(sparsity, SparsityType::NONE | SparsityType::PHYSICAL_PRUNED) {
        return Err(Error::call(ErrorKind::Sparsity(storage, sparsity)));
    }
    if tile != TileLayout::ROW_MAJOR {
        return Err(Error::call(ErrorKind::TileLayout(storage, tile)));
    }
    Ok(())
}

/// Whether `available` bytes are enough for the whole shape.
fn check_len(storage: StorageType, shape: &Shape, available: u64) -> Result<(), Error> {
    let needed = if storage == StorageType::NULL_REF { 0 } else { storage.payload_len(shape)? };
    if available < needed {
        let kind = ErrorKind::TooShort { part: Part::Data, needed, available };
        return Err(Error::new(kind, Section::Payload, 0));
    }
    Ok(())
}

impl TensorEntry<'_> {
    /// The bytes of the file that hold elements `range`, for [`dequantize_slice`]: for hosts
    /// that fetch a payload in pieces. 64 elements from a multiple of 64 on take 512 bytes at
    /// most, whatever the type.
    ///
    /// # Errors
    /// As [`dequantize_range`]; a `shared_ref` has to be
    /// [resolved](TensorEntry::resolve_to) first.
    pub fn locate(&self, range: Range<u64>) -> Result<Cover, Error> {
        self.locate_in_payload(range).map_err(|e| self.error(e))
    }

    fn locate_in_payload(&self, range: Range<u64>) -> Result<Cover, Error> {
        check_range(&self.shape, &range)?;
        check_decodable(self.storage, self.tile, self.sparsity, self.scales.size > 0)?;
        check_len(self.storage, &self.shape, self.data.size)?;
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
