//! Writing HK files.

use std::io::Read;
use std::path::Path;

use hk_core::{SparsityType, StorageType, TileLayout, Value};

use crate::error::Result;

/// A tensor to be written: all that the table of contents says of it, except where its
/// bytes will stand. Sizes are in bytes; `scales_size` and `residual_size` 0 mean none.
#[derive(Clone, Debug)]
pub struct TensorSpec {
    /// Name, at most 128 bytes.
    pub name: String,
    /// How the weights are stored.
    pub storage: StorageType,
    /// How they are ordered.
    pub tile: TileLayout,
    /// How zeros are left out.
    pub sparsity: SparsityType,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Payload bytes.
    pub data_size: u64,
    /// Bytes of scales.
    pub scales_size: u64,
    /// Bytes of residual.
    pub residual_size: u64,
    /// Weights a block.
    pub block_size: u16,
    /// Fraction of zeros.
    pub sparsity_ratio: f32,
}

/// Plans a file (metadata and tensors), then streams its payloads.
#[derive(Debug, Default)]
pub struct Writer {}

impl Writer {
    /// A file with nothing in it, aligned to 128 bytes.
    pub fn new() -> Self {
        Writer {}
    }

    /// Aligns payloads to `alignment` bytes, 1 to 65536.
    ///
    /// # Errors
    /// Another number.
    pub fn alignment(&mut self, _alignment: u32) -> Result<&mut Self> {
        Ok(self)
    }

    /// Adds a metadata pair.
    ///
    /// # Errors
    /// A key that is there already or is too long.
    pub fn metadata(&mut self, _key: &str, _value: Value<'_>) -> Result<&mut Self> {
        Ok(self)
    }

    /// Adds a tensor whose bytes come later.
    ///
    /// # Errors
    /// A name that is there already or is too long, a wrong size.
    pub fn tensor(&mut self, _spec: TensorSpec) -> Result<&mut Self> {
        Ok(self)
    }

    /// Writes the file: asks `payload` for the bytes of each tensor and part in order,
    /// then syncs and renames. On any error the old file stays as it was.
    ///
    /// # Errors
    /// A reader that ends early or fails, or the system.
    pub fn write(
        &self,
        _path: &Path,
        _payload: impl FnMut(&TensorSpec, hk_core::Part) -> std::io::Result<Box<dyn Read>>,
    ) -> Result<()> {
        Ok(())
    }
}
