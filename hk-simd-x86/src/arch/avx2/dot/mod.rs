//! Dot products of rows with one activation row, a file a family.

mod by_256;
mod k;

use hk_core::StorageType;

use crate::arch::call::DotRows;

/// The kernel of a type, if this level has one of its own; with `vnni` it may use AVX-VNNI.
pub(super) fn rows(storage: StorageType, _vnni: bool) -> Option<DotRows> {
    k::rows(storage)
}
