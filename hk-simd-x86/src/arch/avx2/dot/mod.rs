//! Dot products of rows with one activation row, a file a family.

mod by_256;
mod dense;
mod fp4;
mod iq1;
pub(in crate::arch) mod iq23;
mod iq4;
mod k;
mod legacy;
mod step;
mod ternary;

use hk_core::StorageType;

use crate::arch::call::{DotMatrix, DotRows};

/// The kernel of a type, if this level has one of its own; with `vnni` it may use AVX-VNNI.
pub(super) fn rows(storage: StorageType, vnni: bool) -> Option<DotRows> {
    legacy::rows(storage, vnni)
        .or_else(|| fp4::rows(storage))
        .or_else(|| k::rows(storage))
        .or_else(|| dense::rows(storage))
        .or_else(|| iq1::rows(storage))
        .or_else(|| iq23::rows(storage))
        .or_else(|| iq4::rows(storage))
        .or_else(|| ternary::rows(storage))
}

/// The kernel of a type for several activations, if this level has one of its own.
pub(super) fn matrix(storage: StorageType) -> Option<DotMatrix> {
    dense::matrix(storage)
}
