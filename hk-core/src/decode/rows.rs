//! CSR and BSR payloads (payloads.md, "Sparse payloads"): `u16 block_h | u16 block_w |
//! u32 n_row_ptrs | u32 n_blocks`, row pointers, block columns, blocks of f32.

use core::num::{NonZeroU16, NonZeroU64};
use core::ops::Range;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{Source, check_data};
use crate::error::{Error, ErrorKind, Section, SparseFault};

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    height: U16,
    width: U16,
    row_ptrs: U32,
    blocks: U32,
}

/// A CSR or BSR payload, its head and sizes checked, its rows not yet.
#[derive(Clone, Copy, Debug)]
pub struct CompressedRows<'a> {
    columns: u64,
    height: NonZeroU16,
    width: NonZeroU16,
    row_ptrs: &'a [U32],
    block_columns: &'a [U32],
    /// All blocks' values.
    values: &'a [[u8; 4]],
}

/// A row of blocks, its pointers and columns checked.
#[derive(Clone, Copy, Debug)]
pub struct BlockRow<'a> {
    /// Number of its first block, and of that one's column in the list of all columns.
    pub first: usize,
    columns: &'a [U32],
    /// Whether the columns ascend, so that no two are the same.
    pub ascends: bool,
}

impl<'a> BlockRow<'a> {
    /// The column of each block, in blocks, in any order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.columns.iter().map(|column| column.get())
    }
}

impl<'a> CompressedRows<'a> {
    /// Bytes before the row pointers.
    const HEAD: u64 = size_of::<Head>() as u64;

    /// Checks the head of a payload of a tensor of `shape`, and its sizes.
    ///
    /// # Errors
    /// [`ErrorKind::TooShort`]; [`ErrorKind::Sparse`] for another shape than a matrix, blocks
    /// without rows or columns, row pointers that are too few or too many, or that do not
    /// begin with 0 and end with the number of blocks. Offsets count from the start of `data`.
    pub fn parse(data: &'a [u8], shape: &[u64]) -> Result<Self, Error> {
        let &[rows, columns] = shape else {
            // At most 8.
            let found = shape.len() as u8;
            return Err(fault(SparseFault::Dimensions { found }, 0));
        };
        check_data(Self::HEAD, data.len() as u64)?;
        let (head, rest) = Head::ref_from_prefix(data)
            .map_err(|_| fault(SparseFault::BlockShape { rows: 0, columns: 0 }, 0))?;
        let (height, width) = (head.height.get(), head.width.get());
        let sizes = (NonZeroU16::new(height), NonZeroU16::new(width));
        let (Some(height), Some(width)) = sizes else {
            return Err(fault(SparseFault::BlockShape { rows: height, columns: width }, 0));
        };
        let (found, blocks) = (head.row_ptrs.get(), head.blocks.get());
        let needed = blocks_of(rows, height).saturating_add(1);
        if u64::from(found) != needed {
            return Err(fault(SparseFault::RowPointerCount { found, needed }, 4));
        }
        let block_words = u64::from(height.get()) * u64::from(width.get());
        let block_words = u64::from(blocks).saturating_mul(block_words + 1);
        let words = u64::from(found).saturating_add(block_words);
        let needed = words.saturating_mul(4).saturating_add(Self::HEAD);
        check_data(needed, data.len() as u64)?;
        // They fit, by the comparison.
        let (row_ptrs, rest) =
            <[U32]>::ref_from_prefix_with_elems(rest, found as usize).unwrap_or_default();
        let (block_columns, rest) =
            <[U32]>::ref_from_prefix_with_elems(rest, blocks as usize).unwrap_or_default();
        let values = rest.as_chunks().0;
        let payload = CompressedRows { columns, height, width, row_ptrs, block_columns, values };
        payload.row_ptr(0, 0..=0)?;
        payload.row_ptr(found as usize - 1, blocks..=blocks)?;
        Ok(payload)
    }

    /// Bytes of the payload.
    pub fn len(&self) -> u64 {
        let block = u64::from(self.height.get()) * u64::from(self.width.get());
        let blocks = self.block_columns.len() as u64;
        // No more than there are.
        Self::HEAD + 4 * (self.row_ptrs.len() as u64 + blocks + blocks * block)
    }

    /// Whether there are no bytes: never, since there is a head.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Rows of blocks.
    pub const fn block_rows(&self) -> usize {
        self.row_ptrs.len().saturating_sub(1)
    }

    /// Columns of blocks.
    pub fn block_columns(&self) -> u64 {
        blocks_of(self.columns, self.width)
    }

    /// Where in the payload the column of block `index` stands.
    pub const fn column_offset(&self, index: usize) -> u64 {
        Self::HEAD + 4 * (self.row_ptrs.len() as u64 + index as u64)
    }

    /// The row pointer `index`, which has to be in `range`.
    fn row_ptr(&self, index: usize, range: core::ops::RangeInclusive<u32>) -> Result<u32, Error> {
        let found = self.row_ptrs.get(index).map_or(u32::MAX, |row_ptr| row_ptr.get());
        if range.contains(&found) {
            return Ok(found);
        }
        let (row, least, most) = (index as u64, *range.start(), *range.end());
        let fault_kind = SparseFault::RowPointer { row, found, least, most };
        Err(fault(fault_kind, Self::HEAD + 4 * row))
    }

    /// The blocks of row `row` of blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Sparse`] for row pointers that decrease or pass the number of blocks, and
    /// for a block that lies wholly outside.
    pub fn row(&self, row: usize) -> Result<BlockRow<'a>, Error> {
        let blocks = self.block_columns.len() as u32;
        let start = self.row_ptr(row, 0..=blocks)?;
        let end = self.row_ptr(row.saturating_add(1), start..=blocks)?;
        let first = start as usize;
        // In range, as both were.
        let columns = self.block_columns.get(first..end as usize).unwrap_or_default();
        let (all, mut ascends, mut before) = (self.block_columns(), true, None);
        for (index, column) in columns.iter().map(|column| column.get()).enumerate() {
            if u64::from(column) >= all {
                let offset = self.column_offset(first + index);
                return Err(fault(SparseFault::BlockColumn { column, columns: all }, offset));
            }
            ascends &= before < Some(column);
            before = Some(column);
        }
        Ok(BlockRow { first, columns, ascends })
    }
}

/// Blocks of `size` that `count` rows or columns are.
fn blocks_of(count: u64, size: NonZeroU16) -> u64 {
    let size = NonZeroU64::from(size);
    count / size + u64::from(count % size > 0)
}

fn fault(fault: SparseFault, offset: u64) -> Error {
    Error::new(ErrorKind::Sparse(fault), Section::Payload, offset)
}

/// Decodes elements from `start` on.
pub(super) fn dequantize(source: &Source<'_>, start: u64, out: &mut [f32]) -> Result<(), Error> {
    if source.shape.count() == 0 {
        return Ok(());
    }
    let payload = CompressedRows::parse(source.data, &source.shape)?;
    let Some(window) = Window::new(&payload, start, out.len()) else { return Ok(()) };
    let mut ascends = true;
    for row in window.block_rows.clone() {
        ascends &= payload.row(row)?.ascends;
    }
    if !ascends {
        check_places(&payload, &window, out)?;
    }
    out.fill(0.0);
    for row in window.block_rows.clone() {
        let blocks = payload.row(row)?;
        for (index, column) in (blocks.first..).zip(blocks.columns()) {
            window.each_run(&payload, row, column, |run| {
                let values = payload.block(index).get(run.value..).unwrap_or_default();
                let out = out.get_mut(run.at..run.at + run.len).unwrap_or_default();
                for (weight, value) in out.iter_mut().zip(values) {
                    *weight = f32::from_le_bytes(*value);
                }
                true
            });
        }
    }
    Ok(())
}

/// Whether two blocks stand at one place within `window`: of columns in any order that takes
/// memory, which `out` lends.
fn check_places(
    payload: &CompressedRows<'_>,
    window: &Window,
    out: &mut [f32],
) -> Result<(), Error> {
    out.fill(0.0);
    for row in window.block_rows.clone() {
        let blocks = payload.row(row)?;
        for (index, column) in (blocks.first..).zip(blocks.columns()) {
            let mut twice = false;
            // Blocks at one place begin with the same element, others with another.
            window.each_run(payload, row, column, |run| {
                let mark = out.get_mut(run.at).map(|mark| core::mem::replace(mark, 1.0));
                twice = mark != Some(0.0);
                false
            });
            if twice {
                let fault_kind = SparseFault::Twice { row: row as u64, column };
                return Err(fault(fault_kind, payload.column_offset(index)));
            }
        }
    }
    Ok(())
}

impl<'a> CompressedRows<'a> {
    /// The values of block `index`.
    fn block(&self, index: usize) -> &'a [[u8; 4]] {
        let len = usize::from(self.height.get()).wrapping_mul(usize::from(self.width.get()));
        // Within the payload, whose length has been checked.
        let start = len.wrapping_mul(index);
        self.values.get(start..start.wrapping_add(len)).unwrap_or_default()
    }
}

/// The elements that are asked for.
struct Window {
    start: u64,
    /// Row and column of the first and of the last element.
    first: (u64, u64),
    last: (u64, u64),
    block_rows: Range<usize>,
}

/// Consecutive elements of a block's row.
struct Run {
    /// Where they go.
    at: usize,
    /// Which value of the block is the first.
    value: usize,
    len: usize,
}

impl Window {
    /// `None` where there are no elements.
    fn new(payload: &CompressedRows<'_>, start: u64, len: usize) -> Option<Self> {
        let width = NonZeroU64::new(payload.columns)?;
        let last = start.checked_add((len as u64).checked_sub(1)?)?;
        let place = |element: u64| (element / width, element % width);
        let (first, last) = (place(start), place(last));
        let height = NonZeroU64::from(payload.height);
        // No more than there are row pointers.
        let block_rows = (first.0 / height) as usize..(last.0 / height) as usize + 1;
        Some(Window { start, first, last, block_rows })
    }

    /// The elements of a block that were asked for, row by row, as long as `visit` goes on.
    fn each_run(
        &self,
        payload: &CompressedRows<'_>,
        block_row: usize,
        block_column: u32,
        mut visit: impl FnMut(Run) -> bool,
    ) {
        let (height, width) = (u64::from(payload.height.get()), u64::from(payload.width.get()));
        // Neither passes 2^48, since rows of blocks and their columns are counted in 32 bits.
        let (top, left) = (block_row as u64 * height, u64::from(block_column) * width);
        let bottom = (top + height).min(self.last.0 + 1);
        let right = (left + width).min(payload.columns);
        for row in top.max(self.first.0)..bottom {
            let from = if row == self.first.0 { left.max(self.first.1) } else { left };
            let to = if row == self.last.0 { right.min(self.last.1 + 1) } else { right };
            let Some(len) = to.checked_sub(from).filter(|&len| len > 0) else { continue };
            let run = Run {
                at: (row * payload.columns + from - self.start) as usize,
                value: ((row - top) * width + from - left) as usize,
                len: len as usize,
            };
            if !visit(run) {
                return;
            }
        }
    }
}
