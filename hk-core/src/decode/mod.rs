//! A tensor to f32: reference (resolved by [`Tensor`](crate::Tensor)), then sparsity, then
//! storage, then tiles. What these come to together is a [`Form`], and each form has a small
//! function of its own.
//!
//! The functions here take byte slices wherever they come from, so that a host which
//! fetched a payload in pieces decodes it just as one that maps the file.
//!
//! Sizes are compared with the shape before anything is decoded. What only the content of a
//! sparse payload can tell is checked as far as the range needs it, so that the cost of a
//! range is that of the range.

mod form;
mod order;
mod pieces;
mod rows;
mod scaled;
mod sparse;

use core::ops::Range;

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Part, Section};
use crate::format::Shape;
use crate::storage::{SparsityType, StorageType, TileLayout};

pub use form::{Form, marks_len};
pub use pieces::{Cover, cover, dequantize_slice};
pub use rows::{BlockRow, CompressedRows};
pub use sparse::ones;

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

/// Decodes elements `range` of `source` to `out`, which has as many.
///
/// ```
/// use hk_core::decode::{Residual, Source, dequantize_range};
/// use hk_core::{Portable, Shape, SparsityType, StorageType, TileLayout};
/// let values = [3.0_f32, 4.0].map(f32::to_le_bytes);
/// let source = Source {
///     storage: StorageType::SPARSE_F16, // a bitmask, padded to 4 bytes, and f32 values
///     tile: TileLayout::ROW_MAJOR,
///     sparsity: SparsityType::BITMASK,
///     shape: Shape::new(&[2, 3])?,
///     block_size: 32,
///     data: &[&[0b10_0100, 0, 0, 0], values.as_flattened()].concat(),
///     scales: &[],
///     residual: &[],
/// };
/// let mut weights = [9.0; 4];
/// dequantize_range(&Portable, &source, 2..6, &mut weights, Residual::Add)?;
/// assert_eq!(weights, [3.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), hk_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Range`], [`ErrorKind::OutputLength`], as [`Source::form`]; data, scales or
/// residual too short for the whole shape; [`ErrorKind::Sparse`]. `out` is then unspecified.
pub fn dequantize_range(
    backend: &dyn Backend,
    source: &Source<'_>,
    range: Range<u64>,
    out: &mut [f32],
    residual: Residual,
) -> Result<(), Error> {
    check_range(&source.shape, &range)?;
    let (expected, given) = (range.end - range.start, out.len() as u64);
    if expected != given {
        return Err(Error::call(ErrorKind::OutputLength { expected, given }));
    }
    let start = range.start;
    match source.form()? {
        Form::Zeros => {
            out.fill(0.0);
            Ok(())
        }
        Form::Plain => plain(backend, source, range, out),
        Form::Columns => order::columns(backend, source, start, out),
        Form::Tiles { rows, columns } => order::tiles(backend, source, [rows, columns], start, out),
        Form::Scaled(form) => scaled::dequantize(backend, source, form, start, out, residual),
        Form::Bitmask => sparse::bitmask(backend, source, range, out),
        Form::TwoOfFour => sparse::two_of_four(backend, source, start, out),
        Form::CompressedRows => rows::dequantize(source, start, out),
    }
}

/// Elements or blocks one after another.
fn plain(
    backend: &dyn Backend,
    source: &Source<'_>,
    range: Range<u64>,
    out: &mut [f32],
) -> Result<(), Error> {
    let needed = source.storage.payload_len(&source.shape)?;
    check_data(needed, source.data.len() as u64)?;
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
    source.form() == Ok(Form::Plain)
}

/// Whether `available` bytes of data are enough.
fn check_data(needed: u64, available: u64) -> Result<(), Error> {
    if available < needed {
        let kind = ErrorKind::TooShort { part: Part::Data, needed, available };
        return Err(Error::new(kind, Section::Payload, 0));
    }
    Ok(())
}
