//! What can be wrong inside a sparse payload.

use core::fmt;

/// What is wrong in a sparse payload (payloads.md, "Sparse payloads").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SparseFault {
    /// A 2:4 tensor whose element count is no multiple of 4.
    Groups {
        /// Elements of the tensor.
        count: u64,
    },
    /// A bitmask with more ones than values follow it.
    Ones {
        /// Ones up to where the values end or the range asked for does.
        ones: u64,
        /// Values that follow the mask.
        values: u64,
    },
    /// CSR or BSR on a tensor of another number of dimensions than 2.
    Dimensions {
        /// Its dimensions.
        found: u8,
    },
    /// Blocks without rows or columns.
    BlockShape {
        /// Rows of a block.
        rows: u16,
        /// Columns of a block.
        columns: u16,
    },
    /// Another number of row pointers than one more than the shape has rows of blocks.
    RowPointerCount {
        /// Row pointers that the payload says it has.
        found: u32,
        /// Those that the shape needs.
        needed: u64,
    },
    /// A row pointer that is not 0 at the start, decreases, passes the number of blocks, or
    /// is not that number at the end.
    RowPointer {
        /// Which one, from 0.
        row: u64,
        /// What it is.
        found: u32,
        /// The least that it can be.
        least: u32,
        /// The most that it can be.
        most: u32,
    },
    /// A block wholly outside of the tensor.
    BlockColumn {
        /// Its column, in blocks.
        column: u32,
        /// Columns of blocks that the shape has.
        columns: u64,
    },
    /// Two blocks at one place.
    Twice {
        /// Row of blocks.
        row: u64,
        /// Column of blocks.
        column: u32,
    },
}

impl fmt::Display for SparseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AGAIN: &str = "the payload is damaged: write or fetch the file again";
        match *self {
            SparseFault::Groups { count } => write!(
                f,
                "2:4 sparsity of {count} elements, no multiple of 4: store the tensor in another form"
            ),
            SparseFault::Ones { ones, values } => {
                write!(f, "a mask of {ones} ones or more, but only {values} values; {AGAIN}")
            }
            SparseFault::Dimensions { found } => write!(
                f,
                "CSR and BSR take 2 dimensions, not {found}: store the tensor in another form"
            ),
            SparseFault::BlockShape { rows, columns } => {
                write!(f, "sparse blocks of {rows} x {columns}; {AGAIN}")
            }
            SparseFault::RowPointerCount { found, needed } => {
                write!(f, "{found} row pointers where the shape needs {needed}; {AGAIN}")
            }
            SparseFault::RowPointer { row, found, least, most } => write!(
                f,
                "row pointer {row} is {found} where {least} to {most} can be: they start at 0, never decrease, and end at the number of blocks; {AGAIN}"
            ),
            SparseFault::BlockColumn { column, columns } => {
                write!(f, "block column {column} where the shape has {columns}; {AGAIN}")
            }
            SparseFault::Twice { row, column } => {
                write!(f, "two blocks at row {row}, column {column} of blocks; {AGAIN}")
            }
        }
    }
}
