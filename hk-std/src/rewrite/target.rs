//! What can become of a tensor.

use hk_core::blocks::{ScaledForm, ScaledType};
use hk_core::encode::bsr::BlockShape;
use hk_core::encode::two_of_four::Scale;
use hk_core::{StorageType, TileLayout};

use std::sync::Arc;

/// How a tensor shall be stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// Elements or blocks of a type that [has an encoder](hk_core::encode::is_encodable).
    Blocks(StorageType),
    /// The same, the squares of errors counted by a weight for each column.
    Weighted(StorageType, Arc<[f32]>),
    /// Codes and scales of a dual-mode type, with what they leave over or without.
    Dual(ScaledForm, Leftover),
    /// Pruned to two of every four, and packed: `sparse_2_4`.
    TwoOfFour(Scale),
    /// Pruned to two of every four, in a type that has an encoder.
    Pruned(StorageType, Scale),
    /// A mask, and the weights that are not zero: `sparse_f16`.
    Bitmask,
    /// Blocks that are not all zero: `f32` tagged BSR.
    Blocked(BlockShape),
    /// The elements of a dense matrix in another order.
    Order(TileLayout),
}

/// Whether a dual-mode tensor gets a residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// None: the base alone.
    None,
    /// The difference of each weight and its base.
    Keep,
}

impl Target {
    /// A dual-mode type in blocks of `block_size` weights, `None` for other types.
    ///
    /// # Errors
    /// A block size of 0.
    pub fn dual(
        storage: StorageType,
        block_size: u16,
        residual: Leftover,
    ) -> Option<Result<Self, hk_core::Error>> {
        let kind = ScaledType::of(storage).filter(|kind| kind.takes_residual())?;
        Some(ScaledForm::new(kind, block_size).map(|form| Target::Dual(form, residual)))
    }
}

/// The type to take instead of `storage` for rows of `columns` weights: `storage` itself where
/// they divide into its blocks, else the next type of blocks of 32 that is at least as
/// precise, else `f16`.
///
/// ```
/// use hk_std::hk_core::StorageType;
/// use hk_std::rewrite::fallback;
/// assert_eq!(fallback(StorageType::Q4_K, 512), StorageType::Q4_K);
/// assert_eq!(fallback(StorageType::Q4_K, 576), StorageType::Q5_0);
/// assert_eq!(fallback(StorageType::Q4_K, 50), StorageType::F16);
/// ```
pub fn fallback(storage: StorageType, columns: u64) -> StorageType {
    let divides = |storage: StorageType| {
        storage.geometry().is_none_or(|geometry| columns.is_multiple_of(geometry.weights.into()))
    };
    let smaller = match storage {
        StorageType::Q2_K | StorageType::Q3_K | StorageType::IQ4_XS => StorageType::IQ4_NL,
        StorageType::TQ1_0 | StorageType::TQ2_0 | StorageType::NVFP4 => StorageType::Q4_0,
        StorageType::Q4_K => StorageType::Q5_0,
        StorageType::Q5_K => StorageType::Q5_1,
        StorageType::Q6_K => StorageType::Q8_0,
        other => other,
    };
    let mut choices = [storage, smaller].into_iter();
    choices.find(|&choice| divides(choice)).unwrap_or(StorageType::F16)
}
