//! Tensors of a file to `f32`, on all cores, in bounded memory.

use std::ops::Range;

use hk_core::{Backend, Residual, Tensor};

use super::ModelFile;
use crate::error::{Error, Result};
use crate::parallel::par_dequantize_range;

/// Weights in a cache line.
const LINE: usize = 16;

impl ModelFile {
    /// Decodes the tensor called `name` on all cores: its weights, row-major.
    ///
    /// # Errors
    /// No such tensor; a type or layout without a decoder, a payload too short for the
    /// shape, a reference to nothing, or weights that do not fit into memory.
    pub fn dequantize(
        &self,
        name: &str,
        backend: &dyn Backend,
        residual: Residual,
    ) -> Result<Vec<f32>> {
        let tensor = self.tensor(name).ok_or_else(|| self.no_tensor(name))?;
        let (tensor, count) = self.prepare(&tensor, backend, residual)?;
        let mut out = self.zeros(&tensor, count)?;
        self.decode(&tensor, backend, 0..count as u64, &mut out, residual)?;
        Ok(out)
    }

    /// Decodes `tensors` of this file one after another, each on all cores, and calls
    /// `each` with every tensor and its weights, row-major. They all use one buffer, as
    /// large as the largest of them.
    ///
    /// ```
    /// # fn main() -> hk_std::Result<()> {
    /// use hk_std::{ModelFile, backend, hk_core::Residual};
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/reference/ref_128.hk");
    /// let model = ModelFile::open(path)?;
    /// let dense = model.tensors().filter(|tensor| tensor.storage.is_dense());
    /// model.for_each_tensor(dense, backend()?, Residual::Add, |tensor, weights| {
    ///     println!("{}: {:?}...", tensor.name, weights.first());
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`dequantize`](Self::dequantize) for the first tensor that fails, or the error
    /// that `each` gives; either ends the walk.
    pub fn for_each_tensor<'a>(
        &'a self,
        tensors: impl IntoIterator<Item = Tensor<'a>>,
        backend: &dyn Backend,
        residual: Residual,
        mut each: impl FnMut(&Tensor<'a>, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for tensor in tensors {
            let (resolved, count) = self.prepare(&tensor, backend, residual)?;
            let out = self.aligned(&mut buffer, &tensor, count)?;
            self.decode(&resolved, backend, 0..count as u64, out, residual)?;
            each(&tensor, out)?;
        }
        Ok(())
    }

    /// Decodes elements `range` of `tensor`, at most `span` at a time, each span on all
    /// cores, and calls `each` with the elements' numbers and weights in order. Memory is
    /// that of one span, whatever the tensor's size; a multiple of 256 never cuts a block.
    ///
    /// # Errors
    /// As [`dequantize`](Self::dequantize), a range that passes the tensor, a span of 0, or
    /// the error that `each` gives.
    pub fn for_each_span<'a>(
        &'a self,
        tensor: &Tensor<'a>,
        range: Range<u64>,
        span: usize,
        backend: &dyn Backend,
        residual: Residual,
        mut each: impl FnMut(Range<u64>, &[f32]) -> Result<()>,
    ) -> Result<()> {
        if span == 0 {
            return Err(Error::Invalid("a span of 0 elements: use 1 or more".into()));
        }
        let resolved = self.resolve(tensor)?;
        // A range that ends before it starts is left to the decoder to refuse.
        let left = range.end.saturating_sub(range.start);
        let len = usize::try_from(left).map_or(span, |left| left.min(span));
        self.check_range(&resolved, range.clone())?;
        let mut buffer = Vec::new();
        let out = self.aligned(&mut buffer, tensor, len)?;
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at.saturating_add(span as u64));
            // At most `len`, by the line before.
            let out = &mut out[..(end - at) as usize];
            self.decode(&resolved, backend, at..end, out, residual)?;
            each(at..end, out)?;
            at = end;
        }
        Ok(())
    }

    /// The tensor with its reference resolved, and its element count, once it is sure that
    /// it decodes: so that no memory is asked for by a shape that the payload does not fill.
    fn prepare<'a>(
        &'a self,
        tensor: &Tensor<'a>,
        backend: &dyn Backend,
        residual: Residual,
    ) -> Result<(Tensor<'a>, usize)> {
        let resolved = self.resolve(tensor)?;
        self.decode(&resolved, backend, 0..0, &mut [], residual)?;
        let count = resolved.shape.count();
        let fits = usize::try_from(count).ok();
        Ok((resolved, fits.ok_or_else(|| self.no_memory(&resolved, count))?))
    }

    fn decode(
        &self,
        tensor: &Tensor<'_>,
        backend: &dyn Backend,
        range: Range<u64>,
        out: &mut [f32],
        residual: Residual,
    ) -> Result<()> {
        par_dequantize_range(tensor, backend, range, out, residual)
            .map_err(|e| Error::format(self.path(), Some(tensor.name), e))
    }

    fn check_range(&self, tensor: &Tensor<'_>, range: Range<u64>) -> Result<()> {
        let count = tensor.shape.count();
        if range.start <= range.end && range.end <= count {
            return Ok(());
        }
        let kind = hk_core::ErrorKind::Range { start: range.start, end: range.end, count };
        Err(Error::format(self.path(), Some(tensor.name), hk_core::Error::call(kind)))
    }

    /// `count` zeros, whose pages the system clears only when a thread writes to them.
    fn zeros(&self, tensor: &Tensor<'_>, count: usize) -> Result<Vec<f32>> {
        // `vec!` would end the process where this is an error.
        let room = Vec::<f32>::new().try_reserve_exact(count);
        room.map_err(|_| self.no_memory(tensor, count as u64))?;
        Ok(vec![0.0; count])
    }

    /// `count` elements of `buffer` from a cache line's start on.
    fn aligned<'b>(
        &self,
        buffer: &'b mut Vec<f32>,
        tensor: &Tensor<'_>,
        count: usize,
    ) -> Result<&'b mut [f32]> {
        let room = count.saturating_add(LINE);
        if buffer.len() < room {
            *buffer = Vec::new();
            *buffer = self.zeros(tensor, room)?;
        }
        let start = buffer.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Ok(&mut buffer[start..][..count])
    }

    fn no_memory(&self, tensor: &Tensor<'_>, count: u64) -> Error {
        Error::Invalid(format!(
            "{}: tensor {:?}: its {count} weights do not fit into memory as f32: decode it in ranges",
            self.path().display(),
            tensor.name
        ))
    }

    fn no_tensor(&self, name: &str) -> Error {
        Error::Invalid(format!(
            "{}: no tensor called {name:?}: `hk inspect` lists those it has",
            self.path().display()
        ))
    }
}
