//! Dense matrices in another order than row after row (payloads.md, "Tiles and order").

use core::num::NonZeroU64;

use super::form::Form;
use super::{Source, check_data};
use crate::backend::Backend;
use crate::bytes::take_mut;
use crate::error::{Error, ErrorKind};

/// A matrix in its stored order: its elements by their place in the payload.
struct Matrix<'a> {
    backend: &'a dyn Backend,
    source: &'a Source<'a>,
    /// Bytes of an element.
    bytes: u64,
    rows: u64,
    columns: u64,
}

impl<'a> Matrix<'a> {
    /// # Errors
    /// A payload that is too short for `form`.
    fn new(backend: &'a dyn Backend, source: &'a Source<'a>, form: Form) -> Result<Self, Error> {
        let &[rows, columns] = &source.shape[..] else {
            // A form of matrices alone.
            return Err(Error::call(ErrorKind::TileLayout(source.storage, source.tile)));
        };
        let bytes = source.storage.geometry().map_or(1, |geometry| u64::from(geometry.bytes));
        let elements = form.stored_elements(&source.shape);
        let needed = elements.and_then(|elements| elements.checked_mul(bytes));
        let needed = needed.ok_or(Error::call(ErrorKind::ElementCount))?;
        check_data(needed, source.data.len() as u64)?;
        Ok(Matrix { backend, source, bytes, rows, columns })
    }

    /// Decodes elements that lie one after another in the payload, from `element` on.
    fn run(&self, element: u64, out: &mut [f32]) -> Result<(), Error> {
        // Neither product nor sum passes the payload's length.
        let size = self.bytes.wrapping_mul(out.len() as u64);
        let bytes = crate::bytes::range(self.source.data, self.bytes.wrapping_mul(element), size);
        self.backend.dequantize(self.source.storage, bytes.unwrap_or_default(), out)
    }
}

/// Elements from `start` on, of tiles of `tile` rows and columns: run by run of a tile's row.
pub(super) fn tiles(
    backend: &dyn Backend,
    source: &Source<'_>,
    tile: [u32; 2],
    start: u64,
    mut out: &mut [f32],
) -> Result<(), Error> {
    let [rows, columns] = tile;
    let matrix = Matrix::new(backend, source, Form::Tiles { rows, columns })?;
    let Some(width) = NonZeroU64::new(matrix.columns) else { return Ok(()) };
    // Powers of two.
    let [row_bits, column_bits] = tile.map(u32::trailing_zeros);
    let [row_mask, column_mask] = tile.map(|size| u64::from(size.saturating_sub(1)));
    let tiles_a_row = ((width.get() - 1) >> column_bits) + 1;
    let (mut row, mut column) = (start / width, start % width);
    while !out.is_empty() {
        let in_tile = column & column_mask;
        let run = (column_mask + 1 - in_tile).min(width.get() - column);
        let tile = (row >> row_bits) * tiles_a_row + (column >> column_bits);
        let tile_row = tile << row_bits | row & row_mask;
        // At most a tile's width.
        let piece = take_mut(&mut out, run as usize);
        matrix.run(tile_row << column_bits | in_tile, piece)?;
        column += run;
        if column == width.get() {
            (row, column) = (row + 1, 0);
        }
    }
    Ok(())
}

/// Rows and columns that are transposed at once.
const SQUARE: usize = 16;

/// Elements from `start` on, of the transpose: whole rows by squares, parts of rows one by one.
pub(super) fn columns(
    backend: &dyn Backend,
    source: &Source<'_>,
    start: u64,
    mut out: &mut [f32],
) -> Result<(), Error> {
    let matrix = Matrix::new(backend, source, Form::Columns)?;
    let Some(width) = NonZeroU64::new(matrix.columns) else { return Ok(()) };
    let (mut row, mut column) = (start / width, start % width);
    while !out.is_empty() {
        let rows = (out.len() as u64 / width).min(SQUARE as u64);
        if column == 0 && rows > 0 {
            // As many as a part of `out` has.
            let band = take_mut(&mut out, (rows * width.get()) as usize);
            matrix.transpose(row, rows as usize, band)?;
            row += rows;
            continue;
        }
        let left = usize::try_from(width.get() - column).unwrap_or(usize::MAX);
        for weight in take_mut(&mut out, left) {
            matrix.run(column * matrix.rows + row, core::slice::from_mut(weight))?;
            column += 1;
        }
        (row, column) = (row + 1, 0);
    }
    Ok(())
}

impl Matrix<'_> {
    /// Decodes `rows` whole rows, at most [`SQUARE`], from `row` on.
    fn transpose(&self, row: u64, rows: usize, band: &mut [f32]) -> Result<(), Error> {
        // As many as a row of `band` has.
        let width = self.columns as usize;
        let mut square = [[0.0; SQUARE]; SQUARE];
        for first in (0..width).step_by(SQUARE) {
            for (stored, column) in square.iter_mut().zip(first..width) {
                let stored = stored.get_mut(..rows).unwrap_or_default();
                self.run(column as u64 * self.rows + row, stored)?;
            }
            for r in 0..rows {
                let band_row = band.get_mut(r * width + first..(r + 1) * width).unwrap_or_default();
                for (weight, stored) in band_row.iter_mut().zip(&square) {
                    *weight = stored.get(r).copied().unwrap_or_default();
                }
            }
        }
        Ok(())
    }
}
