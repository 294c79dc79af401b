//! Blocks of codes with scales beside them, from any weight on.

use super::{Residual, Source};
use crate::backend::Backend;
use crate::blocks::{ScaledBlocks, ScaledForm, check_part};
use crate::bytes::take_mut;
use crate::error::{Error, Part};

/// Decodes weights from `start` on.
pub(super) fn dequantize(
    backend: &dyn Backend,
    source: &Source<'_>,
    form: ScaledForm,
    start: u64,
    mut out: &mut [f32],
    residual: Residual,
) -> Result<(), Error> {
    let count = source.shape.count();
    check_part(Part::Data, form.data_len(count), source.data)?;
    check_part(Part::Scales, form.scales_len(count), source.scales)?;
    let adds = residual == Residual::Add && form.kind().takes_residual();
    let residual = if adds { source.residual } else { &[] };
    if !residual.is_empty() {
        check_part(Part::Residual, count.saturating_mul(4), residual)?;
    }
    let (block, skip) = form.locate(start);
    let at = Place { backend, form, source, residual };
    let mut element = start;
    let mut block = block;
    if skip > 0 {
        let rest = usize::from(form.block().get()).saturating_sub(skip);
        let head = take_mut(&mut out, rest);
        at.part_of_block(block, skip, element, head)?;
        element += head.len() as u64;
        block += 1;
    }
    backend.dequantize_scaled(&at.blocks(block, 0, element), out)
}

/// A payload that has been compared with its shape.
struct Place<'a> {
    backend: &'a dyn Backend,
    form: ScaledForm,
    source: &'a Source<'a>,
    residual: &'a [u8],
}

impl<'a> Place<'a> {
    /// Decodes weights of one block, from the `skip`-th on, which is element `element` of the
    /// tensor.
    fn part_of_block(
        &self,
        block: u64,
        skip: usize,
        element: u64,
        mut out: &mut [f32],
    ) -> Result<(), Error> {
        let codes = self.form.kind().codes_a_byte();
        // Powers of two: 1, 2 or 4.
        let before = skip & (codes - 1);
        let byte = skip >> codes.trailing_zeros();
        if before == 0 {
            return self.backend.dequantize_scaled(&self.blocks(block, byte, element), out);
        }
        // The first byte by way of an array, without the residual, which follows the weights.
        let base = ScaledBlocks { residual: &[], ..self.blocks(block, byte, element) };
        let mut weights = [0.0; 4];
        // A block can end inside a byte.
        let len = codes.min(before.saturating_add(out.len()));
        let weights = weights.get_mut(..len).unwrap_or_default();
        self.backend.dequantize_scaled(&base, weights)?;
        let weights = weights.get(before..).unwrap_or_default();
        let head = take_mut(&mut out, weights.len());
        for (to, from) in head.iter_mut().zip(weights) {
            *to = *from;
        }
        for (to, bytes) in head.iter_mut().zip(self.residual_from(element).as_chunks().0) {
            *to += f32::from_le_bytes(*bytes);
        }
        let element = element + head.len() as u64;
        self.backend.dequantize_scaled(&self.blocks(block, byte + 1, element), out)
    }

    /// What follows `byte` bytes into a block.
    fn blocks(&self, block: u64, byte: usize, element: u64) -> ScaledBlocks<'a> {
        let form = self.form;
        // None of these passes the lengths that have been checked by more than a block.
        let code = block.saturating_mul(form.block_bytes() as u64).saturating_add(byte as u64);
        let scale = block.saturating_mul(form.kind().scale_bytes() as u64);
        ScaledBlocks {
            form,
            codes: from(self.source.data, code),
            scales: from(self.source.scales, scale),
            residual: self.residual_from(element),
        }
    }

    fn residual_from(&self, element: u64) -> &'a [u8] {
        from(self.residual, element.saturating_mul(4))
    }
}

/// What follows `offset`; nothing past the end.
fn from(bytes: &[u8], offset: u64) -> &[u8] {
    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default()
}
