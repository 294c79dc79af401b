//! Blocks of a matrix that are not all zero, CSR and BSR (payloads.md, "Sparse payloads"). CSR
//! is BSR with blocks of 1 x 1.
//!
//! A payload is a head, row pointers, block columns and values. [`pack`] makes a whole one; to
//! make it in pieces, [`count`] the blocks of band after band (rows of one row of blocks),
//! write [`BlockShape::head`] and the running counts as row pointers, then the
//! [`block_columns`] and at last the [`values`] of all bands.
//!
//! ```
//! use hk_core::encode::bsr::{self, BlockShape};
//! // 2 x 3, in blocks of 1 x 2: the second column of blocks hangs over the edge.
//! let weights = [0.0, 5.0, 0.0, 0.0, 0.0, 7.0];
//! let shape = BlockShape::new(1, 2)?;
//! let len = bsr::packed_len(shape, &weights, 3)?;
//! assert_eq!(len, 12 + 3 * 4 + 2 * 4 + 2 * 8);
//! let mut payload = vec![0; len as usize];
//! bsr::pack(shape, &weights, 3, &mut payload)?;
//! # Ok::<(), hk_core::Error>(())
//! ```

use core::num::NonZeroU16;

use super::check_encoded_len;
use crate::bytes::take_mut;
use crate::error::{Error, ErrorKind, SparseFault};

/// Rows and columns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockShape {
    rows: NonZeroU16,
    columns: NonZeroU16,
}

/// Bytes before the row pointers.
const HEAD: u64 = 12;

impl BlockShape {
    /// Blocks of single weights: CSR.
    pub const ONE: Self = BlockShape { rows: NonZeroU16::MIN, columns: NonZeroU16::MIN };

    /// # Errors
    /// [`SparseFault::BlockShape`] for blocks without rows or columns.
    pub const fn new(rows: u16, columns: u16) -> Result<Self, Error> {
        match (NonZeroU16::new(rows), NonZeroU16::new(columns)) {
            (Some(rows), Some(columns)) => Ok(BlockShape { rows, columns }),
            _ => Err(Error::call(ErrorKind::Sparse(SparseFault::BlockShape { rows, columns }))),
        }
    }

    /// Rows of a block.
    pub const fn rows(self) -> usize {
        self.rows.get() as usize
    }

    /// Columns of a block.
    pub const fn columns(self) -> usize {
        self.columns.get() as usize
    }

    /// Rows of blocks that `rows` rows make.
    pub const fn block_rows(self, rows: u64) -> u64 {
        rows.div_ceil(self.rows.get() as u64)
    }

    /// Columns of blocks that `columns` columns make.
    pub const fn block_columns(self, columns: u64) -> u64 {
        columns.div_ceil(self.columns.get() as u64)
    }

    /// Weights of a block.
    const fn weights(self) -> usize {
        // At most 2^32 less 2^17: a usize also on 32-bit hosts.
        self.rows().wrapping_mul(self.columns())
    }

    /// Bytes of a payload of a matrix of `rows` rows of which `blocks` blocks are stored.
    ///
    /// # Errors
    /// [`ErrorKind::ElementCount`] when the row pointers do not fit the format's 32 bits, or
    /// the size passes 2^64.
    pub fn len(self, rows: u64, blocks: u64) -> Result<u64, Error> {
        let words = || {
            let row_ptrs = u64::from(u32::try_from(self.block_rows(rows)).ok()?.checked_add(1)?);
            let blocks = u64::from(u32::try_from(blocks).ok()?);
            blocks.checked_mul(self.weights() as u64 + 1)?.checked_add(row_ptrs)
        };
        let bytes = words().and_then(|words| words.checked_mul(4)?.checked_add(HEAD));
        bytes.ok_or(Error::call(ErrorKind::ElementCount))
    }

    /// The first bytes of such a payload; row pointers follow, block columns, values.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn head(self, rows: u64, blocks: u64) -> Result<[u8; 12], Error> {
        self.len(rows, blocks)?;
        // They fit, or there would be no length.
        let row_ptrs = self.block_rows(rows) as u32 + 1;
        let [a, b] = self.rows.get().to_le_bytes();
        let [c, d] = self.columns.get().to_le_bytes();
        let [e, f, g, h] = row_ptrs.to_le_bytes();
        let [i, j, k, l] = (blocks as u32).to_le_bytes();
        Ok([a, b, c, d, e, f, g, h, i, j, k, l])
    }
}

/// The parts of rows that one block covers: the block at column `column`, in blocks. At the
/// right and lower edge there may be less than a block has.
fn block(
    shape: BlockShape,
    band: &[f32],
    columns: usize,
    column: usize,
) -> impl Iterator<Item = &[f32]> {
    let first = column.saturating_mul(shape.columns());
    let rows = band.chunks(columns.max(1));
    rows.map(move |row| {
        let row = row.get(first..).unwrap_or_default();
        row.get(..shape.columns()).unwrap_or(row)
    })
}

/// The columns of a band's blocks that are stored: those with a weight that is not +0.0.
fn stored(shape: BlockShape, band: &[f32], columns: usize) -> impl Iterator<Item = usize> {
    let all = 0..columns.div_ceil(shape.columns());
    all.filter(move |&column| {
        let mut rows = block(shape, band, columns, column);
        rows.any(|row| row.iter().any(|weight| weight.to_bits() != 0))
    })
}

/// How many blocks of `band` are stored: `band` is the rows, each of `columns` weights, that
/// one row of blocks covers.
pub fn count(shape: BlockShape, band: &[f32], columns: usize) -> u64 {
    stored(shape, band, columns).count() as u64
}

/// The columns of the [`count`] blocks that `band` stores, 4 bytes each.
///
/// # Errors
/// [`ErrorKind::EncodedLength`].
pub fn block_columns(
    shape: BlockShape,
    band: &[f32],
    columns: usize,
    out: &mut [u8],
) -> Result<(), Error> {
    check_encoded_len(count(shape, band, columns).saturating_mul(4), out)?;
    let out = out.as_chunks_mut().0;
    for (out, column) in out.iter_mut().zip(stored(shape, band, columns)) {
        *out = (column as u32).to_le_bytes();
    }
    Ok(())
}

/// The values of the [`count`] blocks that `band` stores, each block row-major, what hangs
/// over an edge as zeros.
///
/// # Errors
/// [`ErrorKind::EncodedLength`].
pub fn values(
    shape: BlockShape,
    band: &[f32],
    columns: usize,
    out: &mut [u8],
) -> Result<(), Error> {
    let words = count(shape, band, columns).saturating_mul(shape.weights() as u64);
    check_encoded_len(words.saturating_mul(4), out)?;
    let mut out = out.as_chunks_mut::<4>().0;
    for column in stored(shape, band, columns) {
        let values = take_mut(&mut out, shape.weights());
        values.fill([0; 4]);
        let rows = values.chunks_mut(shape.columns());
        for (values, row) in rows.zip(block(shape, band, columns, column)) {
            for (value, weight) in values.iter_mut().zip(row) {
                *value = weight.to_le_bytes();
            }
        }
    }
    Ok(())
}

/// The rows of each row of blocks.
fn bands(shape: BlockShape, weights: &[f32], columns: usize) -> impl Iterator<Item = &[f32]> {
    weights.chunks(columns.saturating_mul(shape.rows()).max(1))
}

/// Rows of a matrix, and how many of its blocks are stored.
fn measure(shape: BlockShape, weights: &[f32], columns: usize) -> Result<(u64, u64), Error> {
    let rows = weights.len().checked_div(columns).unwrap_or(0);
    if rows.saturating_mul(columns) != weights.len() {
        let (weights, multiple) = (weights.len() as u64, columns as u64);
        return Err(Error::call(ErrorKind::RowLength { weights, multiple }));
    }
    let blocks = bands(shape, weights, columns).map(|band| count(shape, band, columns)).sum();
    Ok((rows as u64, blocks))
}

/// Bytes of the payload of a matrix with rows of `columns` weights.
///
/// # Errors
/// [`ErrorKind::RowLength`] when `weights` does not divide into rows, and as
/// [`BlockShape::len`].
pub fn packed_len(shape: BlockShape, weights: &[f32], columns: usize) -> Result<u64, Error> {
    let (rows, blocks) = measure(shape, weights, columns)?;
    shape.len(rows, blocks)
}

/// Packs a matrix with rows of `columns` weights to a whole payload.
///
/// # Errors
/// As [`packed_len`], and [`ErrorKind::EncodedLength`] when `out` is not so many bytes.
pub fn pack(
    shape: BlockShape,
    weights: &[f32],
    columns: usize,
    mut out: &mut [u8],
) -> Result<(), Error> {
    let (rows, blocks) = measure(shape, weights, columns)?;
    check_encoded_len(shape.len(rows, blocks)?, out)?;
    let head = take_mut(&mut out, HEAD as usize).first_chunk_mut();
    if let Some(to) = head {
        *to = shape.head(rows, blocks)?;
    }
    // All of them lie in `out`, so that they are no more than usize counts.
    let row_ptrs = take_mut(&mut out, (shape.block_rows(rows) as usize + 1).saturating_mul(4));
    let (mut block_column_bytes, mut value_bytes) =
        out.split_at_mut_checked((blocks as usize).saturating_mul(4)).unwrap_or_default();
    let (first, row_ptrs) = row_ptrs.split_at_mut_checked(4).unwrap_or_default();
    first.fill(0);
    let mut total = 0_u32;
    for (row_ptr, band) in row_ptrs.as_chunks_mut().0.iter_mut().zip(bands(shape, weights, columns))
    {
        let stored = count(shape, band, columns) as usize;
        total = total.wrapping_add(stored as u32);
        *row_ptr = total.to_le_bytes();
        block_columns(shape, band, columns, take_mut(&mut block_column_bytes, stored * 4))?;
        let len = stored.saturating_mul(shape.weights()).saturating_mul(4);
        values(shape, band, columns, take_mut(&mut value_bytes, len))?;
    }
    Ok(())
}
