//! The new payload of one tensor.

use std::cell::RefCell;
use std::io::{self, Read};

use hk_core::blocks::{ScaledBlocks, ScaledForm};
use hk_core::build::TensorSpec;
use hk_core::encode::bsr::BlockShape;
use hk_core::encode::order::Order;
use hk_core::encode::{bitmask, bsr, dual, two_of_four};
use hk_core::{Backend, ErrorKind, Part, Residual, SparsityType, StorageType, Tensor, TileLayout};

use super::pieces::Pieces;
use super::target::{Leftover, Target};
use super::total::{Key, Totals};
use crate::error::{Error, Result};
use crate::model::ModelFile;
use crate::parallel::{for_each, par_dequantize_range, threads};

/// Weights that are decoded and encoded at once, as far as rows and blocks allow.
const SPAN: usize = 1 << 20;

/// Weights of a row of blocks at most: they are held at once, whatever a shape claims.
const BAND: u64 = 1 << 28;

/// Weights that a thread encodes at once at least.
const SHARE: usize = 1 << 14;

/// A tensor whose weights are to be stored anew.
#[derive(Clone, Copy)]
pub(super) struct Source<'m> {
    input: &'m ModelFile,
    backend: &'m dyn Backend,
    tensor: Tensor<'m>,
}

impl<'m> Source<'m> {
    pub(super) const fn new(
        input: &'m ModelFile,
        backend: &'m dyn Backend,
        tensor: Tensor<'m>,
    ) -> Self {
        Source { input, backend, tensor }
    }

    fn error(&self, source: hk_core::Error) -> Error {
        Error::format(self.input.path(), Some(self.tensor.name), source)
    }

    fn count(&self) -> u64 {
        self.tensor.shape.count()
    }

    /// Rows and columns of a matrix.
    fn matrix(&self, tile: TileLayout) -> Result<[u64; 2]> {
        let refused = ErrorKind::TileLayout(self.tensor.storage, tile);
        match &self.tensor.shape[..] {
            &[rows, columns] => Ok([rows, columns]),
            _ => Err(self.error(hk_core::Error::call(refused))),
        }
    }

    /// What the table of contents shall say of it.
    ///
    /// # Errors
    /// A shape that the target does not take; for payloads whose size depends on the weights
    /// also what decoding them can fail with.
    pub(super) fn spec(&self, target: &Target) -> Result<TensorSpec> {
        let (count, name) = (self.count(), self.tensor.name);
        let new = |storage| TensorSpec::new(name, storage, &self.tensor.shape);
        let fault = |e| self.error(e);
        Ok(match target {
            Target::Blocks(storage) | Target::Weighted(storage, _) => {
                hk_core::encode::encoded_len(*storage, 0, self.columns(*storage)).map_err(fault)?;
                new(*storage)
            }
            Target::Pruned(storage, _) => {
                hk_core::encode::encoded_len(*storage, 0, self.columns(*storage)).map_err(fault)?;
                TensorSpec { sparsity_ratio: 0.5, ..new(*storage) }
            }
            Target::Dual(form, leftover) => TensorSpec {
                data_size: form.data_len(count),
                scales_size: form.scales_len(count),
                residual_size: match leftover {
                    Leftover::None => 0,
                    Leftover::Keep => dual::residual_len(count).map_err(fault)?,
                },
                block_size: form.block().get(),
                ..new(form.kind().storage())
            },
            Target::TwoOfFour(_) => TensorSpec {
                data_size: two_of_four::packed_len(count).map_err(fault)?,
                sparsity_ratio: 0.5,
                ..new(StorageType::SPARSE_2_4)
            },
            Target::Bitmask => {
                let stored = self.sum(SPAN, bitmask::stored)?;
                TensorSpec {
                    data_size: bitmask::len(count, stored).map_err(fault)?,
                    sparsity_ratio: ratio(count, stored),
                    ..new(StorageType::SPARSE_F16)
                }
            }
            Target::Blocked(shape) => {
                let [rows, columns] = self.matrix(TileLayout::ROW_MAJOR)?;
                let (band, columns) = self.band(*shape, columns)?;
                let blocks = self.sum(band, |weights| {
                    bands(*shape, weights, columns)
                        .map(|band| bsr::count(*shape, band, columns))
                        .sum()
                })?;
                let stored = self.sum(SPAN, bitmask::stored)?;
                TensorSpec {
                    data_size: shape.len(rows, blocks).map_err(fault)?,
                    sparsity: SparsityType::BSR,
                    sparsity_ratio: ratio(count, stored),
                    ..new(StorageType::F32)
                }
            }
            Target::Order(tile) => {
                let [rows, columns] = self.matrix(*tile)?;
                let order = Order::new(self.tensor.storage, *tile, rows, columns);
                TensorSpec {
                    tile: *tile,
                    sparsity_ratio: self.tensor.sparsity_ratio,
                    data_size: order.map_err(fault)?.stored_len() as u64,
                    ..new(self.tensor.storage)
                }
            }
        })
    }

    /// The length of rows that blocks of `storage` have to divide: blocks do not care where
    /// rows begin, so that of a type of single elements it is 1.
    fn columns(&self, storage: StorageType) -> usize {
        let single = storage.geometry().is_some_and(|geometry| geometry.weights == 1);
        let row = self.tensor.shape.row_len();
        if single { 1 } else { usize::try_from(row).unwrap_or(usize::MAX) }
    }

    /// Weights of the rows that one row of blocks covers, and those of a row.
    fn band(&self, shape: BlockShape, columns: u64) -> Result<(usize, usize)> {
        let fit = |count: u64| {
            let large = hk_core::Error::call(ErrorKind::AddressSpace(count));
            usize::try_from(count).map_err(|_| self.error(large))
        };
        let band = columns.saturating_mul(shape.rows() as u64).max(1);
        if band > BAND {
            return Err(Error::Invalid(format!(
                "{}: tensor {:?}: a row of blocks of {} rows and {columns} columns is too much to hold at once: choose blocks of fewer rows",
                self.input.path().display(),
                self.tensor.name,
                shape.rows()
            )));
        }
        Ok((fit(band)?, fit(columns)?))
    }

    /// `len` zeros, or an error where there is no memory for them.
    fn zeros(&self, len: usize) -> Result<Vec<u8>> {
        // `vec!` would end the process where this is an error.
        Vec::<u8>::new().try_reserve_exact(len).map_err(|_| {
            Error::Invalid(format!(
                "{}: tensor {:?}: {len} bytes do not fit into memory: leave it out of the rules",
                self.input.path().display(),
                self.tensor.name
            ))
        })?;
        Ok(vec![0; len])
    }

    /// The sum of what `measure` says of spans of `span` weights.
    fn sum(&self, span: usize, measure: impl Fn(&[f32]) -> u64) -> Result<u64> {
        let mut spans = self.spans(span);
        let mut total = 0_u64;
        while let Some(weights) = spans.next()? {
            total = total.saturating_add(measure(weights));
        }
        Ok(total)
    }

    /// The weights in order, as many at once as a multiple of `unit` near [`SPAN`].
    fn spans(&self, unit: usize) -> Spans<'m> {
        let unit = unit.max(1);
        let span = (SPAN / unit).max(1).saturating_mul(unit);
        Spans { source: *self, span, at: 0, weights: Vec::new() }
    }

    /// The bytes of `part`.
    pub(super) fn reader<'r>(
        self,
        target: &'r Target,
        key: Key,
        part: Part,
        totals: &'r RefCell<Totals>,
    ) -> Result<Box<dyn Read + 'r>>
    where
        'm: 'r,
    {
        Ok(match target {
            Target::Blocks(storage) => Box::new(self.blocks(*storage, None, None, key, totals)),
            Target::Weighted(storage, importance) => {
                Box::new(self.blocks(*storage, Some(importance), None, key, totals))
            }
            Target::Pruned(storage, scale) => {
                Box::new(self.blocks(*storage, None, Some(*scale), key, totals))
            }
            Target::Dual(form, leftover) => {
                Box::new(self.dual(*form, *leftover, part, key, totals))
            }
            Target::TwoOfFour(scale) => Box::new(self.two_of_four(*scale, key, totals)?),
            Target::Bitmask => {
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
                Box::new(mask.chain(io::repeat(0).take(padding)).chain(values))
            }
            Target::Blocked(shape) => self.blocked(*shape)?,
            Target::Order(tile) => self.order(*tile)?,
        })
    }

    /// Pieces that `encode` makes of spans of multiples of `unit` weights that `change` has
    /// changed.
    fn each<'r>(
        self,
        unit: usize,
        change: impl Fn(&mut [f32]) -> std::result::Result<(), hk_core::Error> + 'r,
        encode: impl Fn(&[f32], &mut Vec<u8>) -> std::result::Result<(), hk_core::Error> + 'r,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        let mut spans = self.spans(unit);
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            change(weights).map_err(fault)?;
            encode(weights, out).map_err(fault)?;
            Ok(true)
        })
    }

    /// Elements or blocks, pruned first where there is a `scale` for it.
    fn blocks<'r>(
        self,
        storage: StorageType,
        importance: Option<&'r [f32]>,
        prune: Option<two_of_four::Scale>,
        key: Key,
        totals: &'r RefCell<Totals>,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        // Blocks divide rows, so that without importance rows make no difference.
        let row = importance.map_or(256, <[f32]>::len);
        let mut spans = self.spans(row);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            before.clear();
            before.extend_from_slice(weights);
            if let Some(scale) = prune {
                two_of_four::prune(weights, scale).map_err(fault)?;
            }
            let bytes = storage.payload_len(&[weights.len() as u64]).map_err(fault)?;
            out.resize(bytes as usize, 0);
            quantize(self.backend, storage, weights, row, importance, out).map_err(fault)?;
            after.resize(weights.len(), 0.0);
            self.backend.dequantize(storage, out, &mut after).map_err(fault)?;
            totals.borrow_mut().compare(key, &before, &after);
            Ok(true)
        })
    }

    fn dual<'r>(
        self,
        form: ScaledForm,
        leftover: Leftover,
        part: Part,
        key: Key,
        totals: &'r RefCell<Totals>,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        let mut spans = self.spans(form.block().get().into());
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        let mut after = Vec::new();
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            let count = weights.len() as u64;
            let [codes, scales, residual] = &mut parts;
            codes.resize(form.data_len(count) as usize, 0);
            scales.resize(form.scales_len(count) as usize, 0);
            let keep = leftover == Leftover::Keep;
            residual.resize(if keep { weights.len() * 4 } else { 0 }, 0);
            split(form, weights, codes, scales, residual).map_err(fault)?;
            if part == Part::Data {
                after.resize(weights.len(), 0.0);
                let blocks = ScaledBlocks { form, codes, scales, residual };
                self.backend.dequantize_scaled(&blocks, &mut after).map_err(fault)?;
                totals.borrow_mut().compare(key, weights, &after);
            }
            out.extend_from_slice(match part {
                Part::Data => codes,
                Part::Scales => scales,
                Part::Residual => residual,
            });
            Ok(true)
        })
    }

    fn two_of_four<'r>(
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

    /// CSR or BSR: three times through the weights, and once to know how many blocks there are.
    fn blocked<'r>(self, shape: BlockShape) -> Result<Box<dyn Read + 'r>>
    where
        'm: 'r,
    {
        let [rows, columns] = self.matrix(TileLayout::ROW_MAJOR)?;
        let (band, columns) = self.band(shape, columns)?;
        let count = move |weights: &[f32]| -> Vec<u64> {
            bands(shape, weights, columns).map(|band| bsr::count(shape, band, columns)).collect()
        };
        let blocks = self.sum(band, |weights| count(weights).iter().sum())?;
        let head = shape.head(rows, blocks).map_err(|e| self.error(e))?;
        let total = std::cell::Cell::new(0_u32);
        let row_ptrs = self.each(band, kept_as_is, move |weights, out| {
            for blocks in count(weights) {
                // No more than the head says, which fits.
                total.set(total.get().wrapping_add(blocks as u32));
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

    /// The elements as they are, in another order. Rows are brought to tiles a row of tiles at
    /// a time; anything else needs the whole tensor in memory.
    fn order<'r>(self, tile: TileLayout) -> Result<Box<dyn Read + 'r>>
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
            fault(hk_core::Error::call(ErrorKind::TooShort { part: Part::Data, needed, available }))
        })?;
        let height = match (self.tensor.tile, tile.tile()) {
            (TileLayout::ROW_MAJOR, Some((height, _))) => u64::from(height),
            _ => {
                let mut row_major = self.zeros(from.row_major_len())?;
                from.restore(stored, &mut row_major).map_err(fault)?;
                let mut out = self.zeros(to.stored_len())?;
                to.store(&row_major, &mut out).map_err(fault)?;
                return Ok(Box::new(io::Cursor::new(out)));
            }
        };
        let mut row = 0;
        let mut rest = stored;
        Ok(Box::new(Pieces::new(move |out| {
            if row >= rows {
                return Ok(false);
            }
            let count = height.min(rows - row);
            let band = Order::new(storage, tile, count, columns).map_err(fault)?;
            let (now, later) = rest.split_at(band.row_major_len());
            *out = self.zeros(band.stored_len())?;
            band.store(now, out).map_err(fault)?;
            (row, rest) = (row + count, later);
            Ok(true)
        })))
    }
}

type Pack = fn(BlockShape, &[f32], usize, &mut [u8]) -> std::result::Result<(), hk_core::Error>;

const fn kept_as_is(_: &mut [f32]) -> std::result::Result<(), hk_core::Error> {
    Ok(())
}

/// The rows of each row of blocks.
fn bands(shape: BlockShape, weights: &[f32], columns: usize) -> impl Iterator<Item = &[f32]> {
    weights.chunks(columns.saturating_mul(shape.rows()).max(1))
}

/// The fraction of zeros.
fn ratio(count: u64, stored: u64) -> f32 {
    if count == 0 { 0.0 } else { ((count - stored) as f64 / count as f64) as f32 }
}

/// A tensor's weights, span by span.
struct Spans<'m> {
    source: Source<'m>,
    span: usize,
    at: u64,
    weights: Vec<f32>,
}

impl Spans<'_> {
    /// The next weights, `None` after the last.
    fn next(&mut self) -> Result<Option<&mut [f32]>> {
        let (tensor, left) = (&self.source.tensor, self.source.count() - self.at);
        if left == 0 {
            return Ok(None);
        }
        let count = usize::try_from(left).map_or(self.span, |left| left.min(self.span));
        // Before memory is asked for: a payload too short for its shape has no such weights.
        let range = self.at..self.at + count as u64;
        if self.weights.is_empty() {
            let check = tensor.dequantize_range(self.source.backend, 0..0, &mut [], Residual::Add);
            check.map_err(|e| self.source.error(e))?;
        }
        self.weights.resize(count, 0.0);
        let backend = self.source.backend;
        par_dequantize_range(tensor, backend, range.clone(), &mut self.weights, Residual::Add)
            .map_err(|e| self.source.error(e))?;
        self.at = range.end;
        Ok(Some(&mut self.weights))
    }
}

/// An error about a weight of a span, as one about a weight of the tensor.
fn moved(error: hk_core::Error, by: u64) -> hk_core::Error {
    hk_core::Error::call(match error.kind() {
        ErrorKind::NotFinite { index } => ErrorKind::NotFinite { index: index + by },
        ErrorKind::TooLarge { storage, index } => {
            ErrorKind::TooLarge { storage, index: index + by }
        }
        ErrorKind::NotTwoOfFour { index } => ErrorKind::NotTwoOfFour { index: index + by },
        _ => return error,
    })
}

/// Weights for a thread: a multiple of `unit`, so that all threads have several.
fn share(weights: usize, unit: usize) -> usize {
    let share = (weights / (threads() * 4)).max(SHARE);
    share.div_ceil(unit.max(1)).saturating_mul(unit.max(1))
}

/// [`Backend::quantize`] on all cores: whole rows, of which only `importance` has need.
fn quantize(
    backend: &dyn Backend,
    storage: StorageType,
    weights: &[f32],
    row: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> std::result::Result<(), hk_core::Error> {
    let share = share(weights.len(), row);
    let share_bytes = storage.payload_len(&[share as u64])? as usize;
    let shares = weights.chunks(share).zip(out.chunks_mut(share_bytes.max(1)));
    for_each(shares.enumerate().collect(), |(index, (weights, out))| {
        let columns = if importance.is_some() { row } else { weights.len() };
        backend
            .quantize(storage, weights, columns, importance, out)
            .map_err(|e| moved(e, (index * share) as u64))
    })
}

/// [`dual::quantize`] on all cores.
fn split(
    form: ScaledForm,
    weights: &[f32],
    codes: &mut [u8],
    scales: &mut [u8],
    residual: &mut [u8],
) -> std::result::Result<(), hk_core::Error> {
    let share = share(weights.len(), form.block().get().into());
    let len = |len: u64| (len as usize).max(1);
    let keep = !residual.is_empty();
    let mut residual = residual.chunks_mut(share * 4);
    let shares = weights
        .chunks(share)
        .zip(codes.chunks_mut(len(form.data_len(share as u64))))
        .zip(scales.chunks_mut(len(form.scales_len(share as u64))))
        .map(|((weights, codes), scales)| (weights, codes, scales, residual.next()));
    let shares: Vec<_> = shares.enumerate().collect();
    for_each(shares, |(index, (weights, codes, scales, residual))| {
        let residual = residual.filter(|_| keep);
        dual::quantize(form, weights, codes, scales, residual)
            .map_err(|e| moved(e, (index * share) as u64))
    })
}
