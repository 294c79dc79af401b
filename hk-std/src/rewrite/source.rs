//! A tensor whose weights are to be stored anew: what the table of contents shall say of it, and
//! its weights, span by span.

use std::cell::Cell;

use hk_core::build::TensorSpec;
use hk_core::encode::bsr::BlockShape;
use hk_core::encode::order::Order;
use hk_core::encode::{bitmask, bsr, dual, encoded_len, two_of_four};
use hk_core::{Backend, ErrorKind, Residual, SparsityType, StorageType, Tensor, TileLayout};

use super::target::{Leftover, Target};
use crate::error::{Error, Result};
use crate::model::ModelFile;
use crate::parallel::par_dequantize_range;

/// Weights that are decoded and encoded at once, as far as rows and blocks allow.
const SPAN: usize = 1 << 20;

/// Weights of a row of blocks at most: they are held at once, whatever a shape claims.
const BAND: u64 = 1 << 28;

/// A tensor whose weights are to be stored anew.
#[derive(Clone, Copy)]
pub(super) struct Source<'m> {
    pub(super) input: &'m ModelFile,
    pub(super) backend: &'m dyn Backend,
    pub(super) tensor: Tensor<'m>,
}

impl<'m> Source<'m> {
    pub(super) fn error(&self, source: hk_core::Error) -> Error {
        Error::format(self.input.path(), Some(self.tensor.name), source)
    }

    pub(super) fn count(&self) -> u64 {
        self.tensor.shape.count()
    }

    /// Rows and columns of a matrix.
    pub(super) fn matrix(&self, tile: TileLayout) -> Result<[u64; 2]> {
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
            Target::Blocks(storage) | Target::Weighted(storage, _) | Target::Pruned(storage, _) => {
                encoded_len(*storage, 0, self.columns(*storage)).map_err(fault)?;
                let is_pruned = matches!(target, Target::Pruned(..));
                TensorSpec { sparsity_ratio: if is_pruned { 0.5 } else { 0.0 }, ..new(*storage) }
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
                // Weights that are not zero, counted on the way.
                let stored = Cell::new(0);
                let blocks = self.sum(band, |weights| {
                    stored.set(stored.get() + bitmask::stored(weights));
                    let bands = bands(*shape, weights, columns);
                    bands.map(|band| bsr::count(*shape, band, columns)).sum()
                })?;
                TensorSpec {
                    data_size: shape.len(rows, blocks).map_err(fault)?,
                    sparsity: SparsityType::BSR,
                    sparsity_ratio: ratio(count, stored.get()),
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
    pub(super) fn band(&self, shape: BlockShape, columns: u64) -> Result<(usize, usize)> {
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
    pub(super) fn zeros(&self, len: usize) -> Result<Vec<u8>> {
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
    pub(super) fn sum(&self, span: usize, measure: impl Fn(&[f32]) -> u64) -> Result<u64> {
        let mut spans = self.spans(span);
        let mut total = 0_u64;
        while let Some(weights) = spans.next()? {
            total = total.saturating_add(measure(weights));
        }
        Ok(total)
    }

    /// The weights in order, as many at once as a multiple of `unit` near [`SPAN`].
    pub(super) fn spans(&self, unit: usize) -> Spans<'m> {
        let unit = unit.max(1);
        let span = (SPAN / unit).max(1).saturating_mul(unit);
        Spans { source: *self, span, at: 0, weights: Vec::new() }
    }
}

/// The fraction of zeros.
fn ratio(count: u64, stored: u64) -> f32 {
    if count == 0 { 0.0 } else { ((count - stored) as f64 / count as f64) as f32 }
}

/// The rows of each row of blocks.
pub(super) fn bands(
    shape: BlockShape,
    weights: &[f32],
    columns: usize,
) -> impl Iterator<Item = &[f32]> {
    weights.chunks(columns.saturating_mul(shape.rows()).max(1))
}

/// A tensor's weights, span by span.
pub(super) struct Spans<'m> {
    source: Source<'m>,
    span: usize,
    /// The first weight of the next span.
    pub(super) at: u64,
    weights: Vec<f32>,
}

impl Spans<'_> {
    /// The next weights, `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&mut [f32]>> {
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
pub(super) fn moved(error: hk_core::Error, by: u64) -> hk_core::Error {
    hk_core::Error::call(match error.kind() {
        ErrorKind::NotFinite { index } => ErrorKind::NotFinite { index: index + by },
        ErrorKind::TooLarge { storage, index } => {
            ErrorKind::TooLarge { storage, index: index + by }
        }
        ErrorKind::NotTwoOfFour { index } => ErrorKind::NotTwoOfFour { index: index + by },
        _ => return error,
    })
}
