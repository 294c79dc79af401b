//! The payloads of layouts: 2:4, bitmask, CSR and BSR, tiles and columns.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};

use hk_core::encode::bsr::BlockShape;
use hk_core::encode::order::Order;
use hk_core::encode::{bitmask, bsr, two_of_four};
use hk_core::{Error as CoreError, ErrorKind, Part, TileLayout};

use super::pieces::Pieces;
use super::reader::kept_as_is;
use super::source::{Source, bands};
use super::total::{Key, Totals};
use crate::error::Result;

type Pack = fn(BlockShape, &[f32], usize, &mut [u8]) -> std::result::Result<(), CoreError>;

impl<'m> Source<'m> {
    pub(super) fn two_of_four<'r>(
        self,
        scale: two_of_four::Scale,
        key: Key,
        totals: &'r RefCell<Totals>,
    ) -> Result<impl Read + 'r>
    where
        'm: 'r,
    {
        let count = self.count();
        let indexes_len = two_of_four::indexes_len(count).map_err(|e| self.error(e))?;
        let padding = indexes_len - count.div_ceil(8);
        let prune = move |weights: &mut [f32]| two_of_four::prune(weights, scale);
        let indexes = self.each(8, prune, |weights, out| {
            out.resize(weights.len().div_ceil(8), 0);
            two_of_four::pack_indexes(weights, out)
        });
        let counted = move |weights: &mut [f32]| {
            let before = weights.to_vec();
            two_of_four::prune(weights, scale)?;
            totals.borrow_mut().compare(key, &before, weights);
            Ok(())
        };
        let values = self.each(8, counted, |weights, out| {
            out.resize(weights.len() * 2, 0);
            two_of_four::pack_values(weights, out)
        });
        Ok(indexes.chain(io::repeat(0).take(padding)).chain(values))
    }

    pub(super) fn bitmask<'r>(self) -> impl Read + 'r
    where
        'm: 'r,
    {
        let count = self.count();
        let padding = bitmask::mask_len(count) - count.div_ceil(8);
        let mask = self.each(8, kept_as_is, |weights, out| {
            out.resize(weights.len().div_ceil(8), 0);
            bitmask::pack_mask(weights, out)
        });
        let values = self.each(1, kept_as_is, |weights, out| {
            out.resize(bitmask::stored(weights) as usize * 4, 0);
            bitmask::pack_values(weights, out)
        });
        mask.chain(io::repeat(0).take(padding)).chain(values)
    }

    /// CSR or BSR of `size` bytes, by which it is clear how many blocks there are: three times
    /// through the weights.
    pub(super) fn blocked<'r>(self, shape: BlockShape, size: u64) -> Result<Box<dyn Read + 'r>>
    where
        'm: 'r,
    {
        let [rows, columns] = self.matrix(TileLayout::ROW_MAJOR)?;
        let (band, columns) = self.band(shape, columns)?;
        let len = |blocks| shape.len(rows, blocks).map_err(|e| self.error(e));
        let (none, one) = (len(0)?, len(1)?);
        let blocks = (size - none) / (one - none);
        let head = shape.head(rows, blocks).map_err(|e| self.error(e))?;
        let total = Cell::new(0_u32);
        let row_ptrs = self.each(band, kept_as_is, move |weights, out| {
            for band in bands(shape, weights, columns) {
                // No more than the head says, which fits.
                let blocks = bsr::count(shape, band, columns) as u32;
                total.set(total.get().wrapping_add(blocks));
                out.extend(total.get().to_le_bytes());
            }
            Ok(())
        });
        let part = move |words: usize, pack: Pack| {
            self.each(band, kept_as_is, move |weights, out| {
                for band in bands(shape, weights, columns) {
                    let start = out.len();
                    let blocks = bsr::count(shape, band, columns) as usize;
                    out.resize(start + blocks * words * 4, 0);
                    pack(shape, band, columns, &mut out[start..])?;
                }
                Ok(())
            })
        };
        let block_columns = part(1, bsr::block_columns);
        let values = part(shape.rows() * shape.columns(), bsr::values);
        let head = io::Cursor::new(head).chain(&[0; 4][..]);
        Ok(Box::new(head.chain(row_ptrs).chain(block_columns).chain(values)))
    }

    /// The elements as they are, in another order. Rows and tiles are brought to rows and tiles
    /// a row of tiles at a time; columns need the whole tensor in memory.
    pub(super) fn order<'r>(self, tile: TileLayout) -> Result<Box<dyn Read + 'r>>
    where
        'm: 'r,
    {
        let fault = move |e| self.error(e);
        let [rows, columns] = self.matrix(tile)?;
        let storage = self.tensor.storage;
        let from = Order::new(storage, self.tensor.tile, rows, columns).map_err(fault)?;
        let to = Order::new(storage, tile, rows, columns).map_err(fault)?;
        let data = self.tensor.data();
        let stored = data.get(..from.stored_len()).ok_or_else(|| {
            let (needed, available) = (from.stored_len() as u64, data.len() as u64);
            fault(CoreError::call(ErrorKind::TooShort { part: Part::Data, needed, available }))
        })?;
        // Rows that make whole tiles of both; every height divides the larger ones.
        let heights = [self.tensor.tile, tile].map(|tile| match tile.tile() {
            Some((height, _)) => Some(u64::from(height)),
            None => (tile == TileLayout::ROW_MAJOR).then_some(1),
        });
        let [Some(here), Some(there)] = heights else {
            let mut row_major = self.zeros(from.row_major_len())?;
            from.restore(stored, &mut row_major).map_err(fault)?;
            let mut out = self.zeros(to.stored_len())?;
            to.store(&row_major, &mut out).map_err(fault)?;
            return Ok(Box::new(io::Cursor::new(out)));
        };
        let height = here.max(there);
        let mut row = 0;
        let mut rest = stored;
        Ok(Box::new(Pieces::new(move |out| {
            if row >= rows {
                return Ok(false);
            }
            let count = height.min(rows - row);
            let band = |tile| Order::new(storage, tile, count, columns).map_err(fault);
            let (from, to) = (band(self.tensor.tile)?, band(tile)?);
            let (now, later) = rest.split_at(from.stored_len());
            let mut row_major = self.zeros(from.row_major_len())?;
            from.restore(now, &mut row_major).map_err(fault)?;
            *out = self.zeros(to.stored_len())?;
            to.store(&row_major, out).map_err(fault)?;
            (row, rest) = (row + count, later);
            Ok(true)
        })))
    }
}
