//! A tensor that shall be stored.

use alloc::string::String;
use alloc::vec::Vec;

use super::BuildError;
use crate::decode::{Form, Source, marks_len};
use crate::error::{ErrorKind, Part};
use crate::format::{MAX_DIMENSIONS, MAX_NAME_LEN, Shape};
use crate::storage::{SparsityType, StorageType, TileLayout};

/// A tensor to be stored: all that the table of contents says of it, except where its
/// bytes will stand. Sizes are in bytes; `scales_size` and `residual_size` 0 mean none.
///
/// ```
/// use hk_core::{StorageType, build::TensorSpec};
/// let spec = TensorSpec::new("token_embd.weight", StorageType::Q8_0, &[49152, 576]);
/// assert_eq!(spec.data_size, 49152 * 576 / 32 * 34);
/// let dual_mode = TensorSpec {
///     data_size: 128,
///     scales_size: 32,
///     ..TensorSpec::new("blk.0.attn_q.weight", StorageType::DQ4, &[16, 16])
/// };
/// assert_eq!(dual_mode.block_size, 32);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSpec {
    /// Name, at most 128 bytes.
    pub name: String,
    /// How the weights are stored.
    pub storage: StorageType,
    /// How they are ordered.
    pub tile: TileLayout,
    /// How zeros are left out.
    pub sparsity: SparsityType,
    /// Dimensions, outermost first, at most 8; none make a scalar.
    pub shape: Vec<u64>,
    /// Payload bytes.
    pub data_size: u64,
    /// Bytes of scales.
    pub scales_size: u64,
    /// Bytes of residual.
    pub residual_size: u64,
    /// Weights a block of dual-mode and split-scale types.
    pub block_size: u16,
    /// Fraction of zeros, 0 if unknown.
    pub sparsity_ratio: f32,
}

impl TensorSpec {
    /// A plain row-major tensor: `data_size` is what type and shape make, where they alone
    /// decide it, else 0; a `block_size` of 32; nothing else.
    pub fn new(name: impl Into<String>, storage: StorageType, shape: &[u64]) -> Self {
        TensorSpec {
            name: name.into(),
            storage,
            tile: TileLayout::ROW_MAJOR,
            sparsity: SparsityType::NONE,
            shape: shape.into(),
            data_size: storage.payload_len(shape).unwrap_or(0),
            scales_size: 0,
            residual_size: 0,
            block_size: 32,
            sparsity_ratio: 0.0,
        }
    }

    /// Size in bytes of one of its parts.
    pub const fn size(&self, part: Part) -> u64 {
        match part {
            Part::Data => self.data_size,
            Part::Scales => self.scales_size,
            Part::Residual => self.residual_size,
        }
    }

    /// Its parts in the order in which they are stored: data, scales, residual.
    pub(super) const PARTS: [Part; 3] = [Part::Data, Part::Scales, Part::Residual];

    /// Whether the payload is 2:4 sparse.
    pub(super) fn is_2_4(&self) -> bool {
        matches!(self.storage, StorageType::SPARSE_2_4 | StorageType::SPARSE_DQ4_2_4)
            || self.sparsity == SparsityType::STRUCTURED_2_4
    }

    /// Checks name, dimensions and sizes; gives the shape.
    pub(super) fn check(&self) -> Result<Shape, BuildError> {
        if self.name.len() > MAX_NAME_LEN {
            return Err(BuildError::NameLength(self.name.len()));
        }
        if self.shape.len() > MAX_DIMENSIONS {
            return Err(BuildError::Dimensions(self.shape.len()));
        }
        let shape = Shape::new(&self.shape).map_err(|_| BuildError::ElementCount)?;
        if self.storage == StorageType::NULL_REF {
            let stored = Self::PARTS.into_iter().find(|&part| self.size(part) > 0);
            return stored.map_or(Ok(shape), |part| Err(BuildError::NullWithBytes(part)));
        }
        match self.form(shape)? {
            Some(form @ (Form::Plain | Form::Columns | Form::Tiles { .. })) => {
                self.check_exact(form, &shape)?;
            }
            Some(form) => self.check_least(form, shape.count())?,
            None => {}
        }
        Ok(shape)
    }

    /// How the tensor is laid out; `None` where nobody here can tell, so that nothing of its
    /// sizes is known.
    fn form(&self, shape: Shape) -> Result<Option<Form>, BuildError> {
        let source = Source {
            storage: self.storage,
            tile: self.tile,
            sparsity: self.sparsity,
            shape,
            block_size: self.block_size,
            data: &[],
            scales: &[],
            residual: &[],
        };
        match source.form_with(self.scales_size > 0) {
            Ok(form) => Ok(Some(form)),
            Err(error) if matches!(error.kind(), ErrorKind::BlockSize(_)) => {
                Err(BuildError::BlockSize)
            }
            Err(_) => Ok(None),
        }
    }

    /// Checks the size of a payload whose type, shape and layout alone decide it: elements and
    /// blocks, whole or in tiles (whose edges are padded).
    fn check_exact(&self, form: Form, shape: &Shape) -> Result<(), BuildError> {
        let elements = form.stored_elements(shape).ok_or(BuildError::TooLarge)?;
        let expected = self.storage.payload_len(&[elements]).map_err(|_| BuildError::TooLarge)?;
        if expected != self.data_size {
            return Err(BuildError::DataSize { expected, given: self.data_size });
        }
        Ok(())
    }

    /// Checks that the parts of a form whose sizes are not fixed hold at least what its
    /// `count` elements need (payloads.md, "Dual-mode payloads" and the two sections after
    /// it).
    fn check_least(&self, form: Form, count: u64) -> Result<(), BuildError> {
        let least = match form {
            Form::Scaled(form) => {
                let residual = if self.residual_size > 0 { count.saturating_mul(4) } else { 0 };
                [form.data_len(count), form.scales_len(count), residual]
            }
            // How many values follow the mask, its bits say.
            Form::Bitmask => [marks_len(count), 0, 0],
            Form::TwoOfFour if !count.is_multiple_of(4) => return Err(BuildError::Groups(count)),
            Form::TwoOfFour => [marks_len(count).saturating_add(count.saturating_mul(2)), 0, 0],
            _ => return Ok(()),
        };
        for (part, needed) in Self::PARTS.into_iter().zip(least) {
            let given = self.size(part);
            if given < needed {
                return Err(BuildError::PartSize { part, needed, given });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_too_small_for_their_form_are_refused() {
        let spec = |storage, data, scales, residual| TensorSpec {
            data_size: data,
            scales_size: scales,
            residual_size: residual,
            block_size: 31,
            ..TensorSpec::new("w", storage, &[8, 5])
        };
        let short = |part, needed, given| Err(BuildError::PartSize { part, needed, given });
        let check = |spec: TensorSpec| spec.check().map(|_| ());
        // 31 codes in 16 bytes, 9 in 5 more; 2 scales.
        assert_eq!(check(spec(StorageType::DQ4, 21, 8, 0)), Ok(()));
        assert_eq!(check(spec(StorageType::DQ4, 32, 8, 160)), Ok(()));
        assert_eq!(check(spec(StorageType::DQ4, 20, 8, 0)), short(Part::Data, 21, 20));
        assert_eq!(check(spec(StorageType::DQ8, 40, 7, 0)), short(Part::Scales, 8, 7));
        assert_eq!(check(spec(StorageType::DQT, 11, 8, 9)), short(Part::Residual, 160, 9));
        assert_eq!(check(spec(StorageType::MXFP4, 20, 1, 0)), short(Part::Scales, 2, 1));
        assert_eq!(check(spec(StorageType::SPARSE_F16, 4, 0, 0)), short(Part::Data, 8, 4));
        assert_eq!(check(spec(StorageType::SPARSE_2_4, 88, 0, 0)), Ok(()));
        let none = TensorSpec { block_size: 0, ..spec(StorageType::DQ8, 40, 8, 0) };
        assert_eq!(check(none), Err(BuildError::BlockSize));
        let odd = TensorSpec::new("w", StorageType::SPARSE_2_4, &[6]);
        assert_eq!(check(odd), Err(BuildError::Groups(6)));
    }
}
