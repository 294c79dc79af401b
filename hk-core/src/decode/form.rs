//! How a tensor is laid out: what storage, sparsity, tile layout and scales come to together.

use super::Source;
use crate::blocks::{ScaledForm, ScaledType};
use crate::error::{Error, ErrorKind};
use crate::format::{Shape, TensorEntry};
use crate::storage::{SparsityType, StorageType, TileLayout};

/// How a tensor is laid out, references resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `null_ref`: no bytes, all weights are 0.
    Zeros,
    /// Elements or blocks of the storage type one after another, row-major.
    Plain,
    /// Elements of a dense type in two dimensions, column after column.
    Columns,
    /// Elements of a dense type in two dimensions, tile after tile, both in row-major order,
    /// and tiles at the edges whole.
    Tiles {
        /// Rows of a tile, a power of two.
        rows: u32,
        /// Columns of a tile, a power of two.
        columns: u32,
    },
    /// Blocks of codes with scales beside them.
    Scaled(ScaledForm),
    /// A bit for each weight, and f32 values for the ones.
    Bitmask,
    /// Two f32 values for four weights.
    TwoOfFour,
    /// f32 blocks, row after row: CSR and BSR.
    CompressedRows,
}

impl Form {
    /// Elements that the payload of a tensor of `shape` holds, where that depends on the shape
    /// alone: those of the shape, and what fills up tiles at the edges. `None` where it passes
    /// 2^64.
    pub fn stored_elements(self, shape: &Shape) -> Option<u64> {
        let (Form::Tiles { rows: tile_rows, columns: tile_columns }, &[rows, columns]) =
            (self, &shape[..])
        else {
            return Some(shape.count());
        };
        let pad = |size: u64, tile: u32| {
            // A power of two.
            let mask = u64::from(tile.saturating_sub(1));
            size.checked_add(mask).map(|size| size & !mask)
        };
        pad(rows, tile_rows)?.checked_mul(pad(columns, tile_columns)?)
    }
}

/// Bytes of the mask of a bitmask payload of `count` weights, and of the indexes of a 2:4 one:
/// a bit for each weight, padded to 4 bytes.
pub const fn marks_len(count: u64) -> u64 {
    count.div_ceil(32) * 4
}

impl TensorEntry<'_> {
    /// How the tensor is laid out.
    ///
    /// # Errors
    /// What makes decoding it an error whatever its bytes are:
    /// [`ErrorKind::Undecodable`] for a type that has no published payload or that nobody
    /// knows, [`ErrorKind::Sparsity`] and [`ErrorKind::TileLayout`] where the type does not take
    /// them, [`ErrorKind::BlockSize`]. A `shared_ref` has to be
    /// [resolved](TensorEntry::resolve_to) first.
    pub fn form(&self) -> Result<Form, Error> {
        self.form_in_entry().map_err(|e| self.error(e))
    }

    /// [`form`](Self::form), with errors that count from the start of the entry.
    pub(super) fn form_in_entry(&self) -> Result<Form, Error> {
        self.source(&[], &[], &[]).form_with(self.scales.size > 0)
    }

    /// What the decoder needs of this entry and the bytes that a host has fetched of it: data,
    /// scales and residual, whole.
    pub const fn source<'a>(
        &self,
        data: &'a [u8],
        scales: &'a [u8],
        residual: &'a [u8],
    ) -> Source<'a> {
        let (storage, tile, sparsity) = (self.storage, self.tile, self.sparsity);
        let (shape, block_size) = (self.shape, self.block_size);
        Source { storage, tile, sparsity, shape, block_size, data, scales, residual }
    }
}

impl Source<'_> {
    /// How the tensor is laid out.
    ///
    /// # Errors
    /// As [`TensorEntry::form`].
    pub fn form(&self) -> Result<Form, Error> {
        self.form_with(!self.scales.is_empty())
    }

    /// [`form`](Self::form), where it is known whether there are scales, and they are not here.
    pub(crate) fn form_with(&self, has_scales: bool) -> Result<Form, Error> {
        let (storage, tile) = (self.storage, self.tile);
        if storage == StorageType::NULL_REF {
            return Ok(Form::Zeros);
        }
        let form = match self.sparse_form()? {
            Some(form) => form,
            None => self.dense_form(has_scales)?,
        };
        match (form, tile) {
            (_, TileLayout::ROW_MAJOR) | (Form::TwoOfFour, TileLayout::BLOCK_SPARSE_2_4) => {
                Ok(form)
            }
            (Form::Plain, _) if storage.is_dense() && self.shape.len() == 2 => self.order(),
            _ => Err(self.no_tile_layout()),
        }
    }

    fn no_tile_layout(&self) -> Error {
        Error::call(ErrorKind::TileLayout(self.storage, self.tile))
    }

    /// The order of a dense matrix.
    fn order(&self) -> Result<Form, Error> {
        match (self.tile, self.tile.tile()) {
            (TileLayout::COL_MAJOR, _) => Ok(Form::Columns),
            (_, Some((rows, columns))) => Ok(Form::Tiles { rows, columns }),
            _ => Err(self.no_tile_layout()),
        }
    }

    /// The sparse form of a type with a sparsity tag, an error where the type does not take the
    /// tag, `None` where nothing is sparse.
    fn sparse_form(&self) -> Result<Option<Form>, Error> {
        let (storage, sparsity) = (self.storage, self.sparsity);
        let is_f32 = storage == StorageType::F32;
        let is_bitmask = storage == StorageType::SPARSE_F16;
        let is_2_4 = storage == StorageType::SPARSE_2_4;
        match sparsity {
            SparsityType::NONE if is_bitmask => Ok(Some(Form::Bitmask)),
            SparsityType::NONE if is_2_4 => Ok(Some(Form::TwoOfFour)),
            SparsityType::BITMASK if is_bitmask || is_f32 => Ok(Some(Form::Bitmask)),
            SparsityType::STRUCTURED_2_4 if is_2_4 || is_f32 => Ok(Some(Form::TwoOfFour)),
            SparsityType::CSR | SparsityType::BSR if is_bitmask || is_2_4 || is_f32 => {
                Ok(Some(Form::CompressedRows))
            }
            SparsityType::NONE => Ok(None),
            SparsityType::PHYSICAL_PRUNED if !is_bitmask && !is_2_4 => Ok(None),
            // What has no decoder under any tag says so.
            _ if self.scaled_type(true).is_none() && !is_bitmask && !is_2_4 => {
                storage.geometry().ok_or(Error::call(ErrorKind::Undecodable(storage)))?;
                Err(Error::call(ErrorKind::Sparsity(storage, sparsity)))
            }
            _ => Err(Error::call(ErrorKind::Sparsity(storage, sparsity))),
        }
    }

    /// The form of a type that is not sparse.
    fn dense_form(&self, has_scales: bool) -> Result<Form, Error> {
        if let Some(kind) = self.scaled_type(has_scales) {
            return ScaledForm::new(kind, self.block_size).map(Form::Scaled);
        }
        let undecodable = Error::call(ErrorKind::Undecodable(self.storage));
        self.storage.geometry().map(|_| Form::Plain).ok_or(undecodable)
    }

    /// The dual-mode types, and of those that also have blocks the split-scale form.
    fn scaled_type(&self, has_scales: bool) -> Option<ScaledType> {
        let split = !self.storage.has_split_form() || has_scales;
        ScaledType::of(self.storage).filter(|_| split)
    }
}
