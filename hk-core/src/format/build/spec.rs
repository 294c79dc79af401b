//! A tensor that shall be stored.

use alloc::string::String;
use alloc::vec::Vec;

use super::BuildError;
use crate::error::Part;
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
        match self.exact_size()? {
            Some(expected) if expected != self.data_size => {
                return Err(BuildError::DataSize { expected, given: self.data_size });
            }
            Some(_) => {}
            None => self.check_least(shape.count())?,
        }
        Ok(shape)
    }

    /// Checks that the parts of a form whose sizes are not fixed hold at least what its
    /// `count` elements need (payloads.md, "Dual-mode payloads" and the two sections after
    /// it).
    fn check_least(&self, count: u64) -> Result<(), BuildError> {
        let Some(needed) = self.least_sizes(count)? else { return Ok(()) };
        for (part, needed) in Self::PARTS.into_iter().zip(needed) {
            let given = self.size(part);
            if u128::from(given) < needed {
                return Err(BuildError::PartSize { part, needed, given });
            }
        }
        Ok(())
    }

    /// The least bytes of data, scales and residual, where anything is known of them.
    fn least_sizes(&self, count: u64) -> Result<Option<[u128; 3]>, BuildError> {
        let own = self.block_size;
        let (block, bits, scale) = match (self.storage, self.sparsity) {
            (StorageType::DQ4, _) => (own, 4, 4),
            (StorageType::DQ8, _) => (own, 8, 4),
            (StorageType::DQT, _) => (own, 2, 4),
            (StorageType::IQ4_NL, _) if self.scales_size > 0 => (own, 4, 4),
            (StorageType::MXFP4, _) if self.scales_size > 0 => (32, 4, 1),
            (StorageType::NVFP4, _) if self.scales_size > 0 => (16, 4, 1),
            (StorageType::SPARSE_F16, SparsityType::NONE | SparsityType::BITMASK)
            | (StorageType::F32, SparsityType::BITMASK) => {
                // The mask; how many values follow, its bits say.
                let mask = u128::from(count).div_ceil(8).next_multiple_of(4);
                return Ok(Some([mask, 0, 0]));
            }
            (StorageType::SPARSE_2_4, SparsityType::NONE | SparsityType::STRUCTURED_2_4)
            | (StorageType::F32, SparsityType::STRUCTURED_2_4) => {
                let groups = u128::from(count / 4);
                return match count % 4 {
                    0 => Ok(Some([groups.div_ceil(2).next_multiple_of(4) + groups * 8, 0, 0])),
                    _ => Err(BuildError::Groups(count)),
                };
            }
            _ => return Ok(None),
        };
        if block == 0 {
            return Err(BuildError::BlockSize);
        }
        let (count, block) = (u128::from(count), u128::from(block));
        let code_bytes = |weights: u128| (weights * bits).div_ceil(8);
        let data = count / block * code_bytes(block) + code_bytes(count % block);
        let residual = if self.residual_size > 0 { count * 4 } else { 0 };
        Ok(Some([data, count.div_ceil(block) * scale, residual]))
    }

    /// The payload's size, where type, shape and layout alone decide it: dense types and
    /// blocks, whole or in tiles (whose edges are padded), but neither sparse nor
    /// split-scale forms.
    fn exact_size(&self) -> Result<Option<u64>, BuildError> {
        let plain = matches!(self.sparsity, SparsityType::NONE | SparsityType::PHYSICAL_PRUNED);
        let split_scale = self.scales_size > 0 && self.storage.has_split_form();
        if self.storage.geometry().is_none() || !plain || split_scale {
            return Ok(None);
        }
        let stored = match (self.tile, self.tile.tile(), self.shape.as_slice()) {
            (TileLayout::ROW_MAJOR, ..) => self.storage.payload_len(&self.shape),
            (TileLayout::COL_MAJOR, _, [_, _]) if self.storage.is_dense() => {
                self.storage.payload_len(&self.shape)
            }
            (_, Some((height, width)), &[rows, columns]) if self.storage.is_dense() => {
                let padded = |n: u64, to: u32| n.checked_next_multiple_of(u64::from(to));
                let (rows, columns) =
                    padded(rows, height).zip(padded(columns, width)).ok_or(BuildError::TooLarge)?;
                self.storage.payload_len(&[rows, columns])
            }
            _ => return Ok(None),
        };
        stored.map(Some).map_err(|_| BuildError::TooLarge)
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
