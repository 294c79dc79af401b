//! Dense matrices in another order than row after row: tiles and columns (payloads.md, "Tiles
//! and order"). Elements are moved as they are, whatever their type.
//!
//! ```
//! use hk_core::{StorageType, TileLayout};
//! use hk_core::encode::order::Order;
//! // 2 rows of 3 bytes, as columns.
//! let order = Order::new(StorageType::UINT8, TileLayout::COL_MAJOR, 2, 3)?;
//! let mut stored = [0; 6];
//! order.store(&[1, 2, 3, 4, 5, 6], &mut stored)?;
//! assert_eq!(stored, [1, 4, 2, 5, 3, 6]);
//! let mut rows = [0; 6];
//! order.restore(&stored, &mut rows)?;
//! assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
//! # Ok::<(), hk_core::Error>(())
//! ```

use super::check_encoded_len;
use crate::error::{Error, ErrorKind};
use crate::storage::{StorageType, TileLayout};

/// How the elements of a matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Bytes of an element: 1, 2, 4 or 8.
    element: usize,
    layout: Layout,
    rows: usize,
    columns: usize,
    /// Bytes of the matrix as it is stored, padding included.
    stored: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Rows,
    Columns,
    Tiles { height: usize, width: usize },
}

/// Elements that lie one after another both in a row and as they are stored.
#[derive(Clone, Copy)]
struct Run {
    row_major: usize,
    stored: usize,
    len: usize,
}

impl Order {
    /// The order `tile` of a matrix of `rows` rows and `columns` columns of type `storage`.
    ///
    /// Tiles stand in rows, so that a matrix can be tiled in pieces, each but the last of as
    /// many rows as a multiple of a tile has.
    ///
    /// # Errors
    /// [`ErrorKind::TileLayout`] for a type that is not dense, or a layout that is none of
    /// rows, columns or tiles; [`ErrorKind::ElementCount`] or [`ErrorKind::AddressSpace`] when
    /// it is too large.
    pub fn new(
        storage: StorageType,
        tile: TileLayout,
        rows: u64,
        columns: u64,
    ) -> Result<Self, Error> {
        let refused = Error::call(ErrorKind::TileLayout(storage, tile));
        let geometry = storage.geometry().filter(|_| storage.is_dense()).ok_or(refused)?;
        let (layout, [tile_rows, tile_columns]) = match (tile, tile.tile()) {
            (TileLayout::ROW_MAJOR, _) => (Layout::Rows, [1, 1]),
            (TileLayout::COL_MAJOR, _) => (Layout::Columns, [1, 1]),
            (_, Some((height, width))) => {
                let layout = Layout::Tiles { height: height as usize, width: width as usize };
                (layout, [u64::from(height), u64::from(width)])
            }
            _ => return Err(refused),
        };
        let stored_rows = rows.checked_next_multiple_of(tile_rows);
        let stored_columns = columns.checked_next_multiple_of(tile_columns);
        let elements = stored_rows.zip(stored_columns).and_then(|(a, b)| a.checked_mul(b));
        let bytes = elements.and_then(|count| count.checked_mul(u64::from(geometry.bytes)));
        let bytes = bytes.ok_or(Error::call(ErrorKind::ElementCount))?;
        let fit = |count: u64| {
            usize::try_from(count).map_err(|_| Error::call(ErrorKind::AddressSpace(count)))
        };
        let element = geometry.bytes as usize;
        let (rows, columns) = (fit(rows)?, fit(columns)?);
        Ok(Order { element, layout, rows, columns, stored: fit(bytes)? })
    }

    /// Bytes of the matrix as it is stored, padding at the edges included.
    pub const fn stored_len(&self) -> usize {
        self.stored
    }

    /// Bytes of the matrix row after row.
    pub const fn row_major_len(&self) -> usize {
        // No more than are stored.
        self.rows.wrapping_mul(self.columns).wrapping_mul(self.element)
    }

    /// Brings `rows`, elements row after row, into this order. Tiles are padded with zeros.
    ///
    /// # Errors
    /// [`ErrorKind::EncodedLength`] when `rows` is not [`row_major_len`](Self::row_major_len)
    /// or `out` not [`stored_len`](Self::stored_len) bytes.
    pub fn store(&self, rows: &[u8], out: &mut [u8]) -> Result<(), Error> {
        check_encoded_len(self.row_major_len() as u64, rows)?;
        check_encoded_len(self.stored as u64, out)?;
        if matches!(self.layout, Layout::Tiles { .. }) {
            out.fill(0);
        }
        self.by_element(|run| (run.row_major, run.stored), rows, out);
        Ok(())
    }

    /// Brings `stored` back to elements row after row.
    ///
    /// # Errors
    /// [`ErrorKind::EncodedLength`] when `stored` is not [`stored_len`](Self::stored_len) or
    /// `out` not [`row_major_len`](Self::row_major_len) bytes.
    pub fn restore(&self, stored: &[u8], out: &mut [u8]) -> Result<(), Error> {
        check_encoded_len(self.stored as u64, stored)?;
        check_encoded_len(self.row_major_len() as u64, out)?;
        self.by_element(|run| (run.stored, run.row_major), stored, out);
        Ok(())
    }

    /// Copies every run from where to where `places` says.
    fn by_element(&self, places: impl Fn(Run) -> (usize, usize), from: &[u8], to: &mut [u8]) {
        match self.element {
            1 => self.copy::<1>(places, from, to),
            2 => self.copy::<2>(places, from, to),
            4 => self.copy::<4>(places, from, to),
            _ => self.copy::<8>(places, from, to),
        }
    }

    #[inline(always)]
    fn copy<const E: usize>(
        &self,
        places: impl Fn(Run) -> (usize, usize),
        from: &[u8],
        to: &mut [u8],
    ) {
        let (from, to) = (from.as_chunks::<E>().0, to.as_chunks_mut::<E>().0);
        self.each_run(|run| {
            let (source, target) = places(run);
            let source = from.get(source..).unwrap_or_default().iter().take(run.len);
            let target = to.get_mut(target..).unwrap_or_default();
            for (to, from) in target.iter_mut().zip(source) {
                *to = *from;
            }
        });
    }

    #[inline(always)]
    fn each_run(&self, mut each: impl FnMut(Run)) {
        let Order { rows, columns, .. } = *self;
        match self.layout {
            Layout::Rows => each(Run { row_major: 0, stored: 0, len: rows * columns }),
            Layout::Columns => self.each_element(each),
            Layout::Tiles { height, width } => {
                let tiles_a_row = columns.div_ceil(width);
                for row in 0..rows {
                    let line = (row / height) * tiles_a_row * height + row % height;
                    for (tile, first) in (0..columns).step_by(width).enumerate() {
                        let row_major = row * columns + first;
                        let stored = (line + tile * height) * width;
                        each(Run { row_major, stored, len: width.min(columns - first) });
                    }
                }
            }
        }
    }

    /// A transpose, by squares that the first cache holds.
    #[inline(always)]
    fn each_element(&self, mut each: impl FnMut(Run)) {
        const SQUARE: usize = 32;
        let Order { rows, columns, .. } = *self;
        for first_row in (0..rows).step_by(SQUARE) {
            for first_column in (0..columns).step_by(SQUARE) {
                for row in first_row..rows.min(first_row + SQUARE) {
                    for column in first_column..columns.min(first_column + SQUARE) {
                        let (row_major, stored) = (row * columns + column, column * rows + row);
                        each(Run { row_major, stored, len: 1 });
                    }
                }
            }
        }
    }
}
