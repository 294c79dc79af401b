//! What became of the tensors, by type.

use std::collections::BTreeMap;

use hk_core::build::TensorSpec;
use hk_core::{SparsityType, StorageType, TileLayout};

/// What became of all tensors that are stored in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypeTotal {
    /// How many there are.
    pub tensors: u64,
    /// Weights of them all.
    pub weights: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Weights that were encoded anew.
    pub encoded: u64,
    /// Sum of the squares of encoded weights before.
    squares: f64,
    /// Sum of the squares of what encoding changed them by.
    errors: f64,
}

impl TypeTotal {
    /// The root of the mean square of errors, over that of the weights: 0 for what was copied.
    pub fn rms_error(&self) -> f64 {
        if self.squares > 0.0 { (self.errors / self.squares).sqrt() } else { 0.0 }
    }
}

/// How tensors are stored, for the sums.
pub(super) type Key = (StorageType, SparsityType, TileLayout);

/// Sums over the tensors of a file by how they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals(BTreeMap<Key, TypeTotal>);

impl Totals {
    /// The sums, by storage type, sparsity and layout.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = ((StorageType, SparsityType, TileLayout), &TypeTotal)> {
        self.0.iter().map(|(&key, total)| (key, total))
    }

    pub(super) fn add(&mut self, spec: &TensorSpec, weights: u64, encoded: bool) {
        let total = self.0.entry(key_of(spec)).or_default();
        total.tensors += 1;
        total.weights += weights;
        total.bytes += spec.data_size + spec.scales_size + spec.residual_size;
        total.encoded += if encoded { weights } else { 0 };
    }

    /// Counts what encoding made of `before`.
    pub(super) fn compare(&mut self, key: Key, before: &[f32], after: &[f32]) {
        let (mut squares, mut errors) = (0.0, 0.0);
        for (&before, &after) in before.iter().zip(after) {
            let (before, after) = (f64::from(before), f64::from(after));
            squares += before * before;
            errors += (before - after) * (before - after);
        }
        let total = self.0.entry(key).or_default();
        total.squares += squares;
        total.errors += errors;
    }
}

pub(super) const fn key_of(spec: &TensorSpec) -> Key {
    (spec.storage, spec.sparsity, spec.tile)
}
