//! Memory that is asked for and may not be given.

use alloc::vec::Vec;

use crate::error::{Error, Result};

/// An empty vector with room for `len` elements.
pub(super) fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    reserve(&mut vector, len)?;
    Ok(vector)
}

/// `len` zeros.
pub(super) fn zeros<T: Copy + Default>(len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    resize(&mut vector, len)?;
    Ok(vector)
}

/// Brings `vector` to `len` elements; new ones are zeros, old ones stay.
pub(super) fn resize<T: Copy + Default>(vector: &mut Vec<T>, len: usize) -> Result<()> {
    reserve(vector, len.saturating_sub(vector.len()))?;
    vector.resize(len, T::default());
    Ok(())
}

fn reserve<T>(vector: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = more.saturating_mul(size_of::<T>());
    vector.try_reserve_exact(more).map_err(|_| Error::Memory(bytes))
}
