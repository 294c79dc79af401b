//! Products of weight matrices, used where they stand in the file, with rows of numbers.

use alloc::vec::Vec;

use hk_core::dot::ActivationForm;
use hk_core::{Activation, Backend, StorageType};

use super::memory;
use super::probe::{Part, Probe};
use super::threads::{Threads, for_each, pieces, split_rows};
use crate::error::{Error, Result};
use crate::model::Matrix;

/// A matrix that dot products can be taken with.
pub(super) struct Linear<'a> {
    matrix: Matrix<'a>,
    storage: StorageType,
    form: ActivationForm,
    row_bytes: usize,
}

impl<'a> Linear<'a> {
    /// # Errors
    /// As [`Matrix::row_bytes`].
    pub(super) fn new(matrix: Matrix<'a>) -> Result<Self> {
        let (storage, row_bytes) = (matrix.storage(), matrix.row_bytes()?);
        let form = ActivationForm::of(storage).unwrap_or(ActivationForm::F32);
        let linear = Linear { matrix, storage, form, row_bytes };
        // No row: what is left to go wrong is a type that this build has left out.
        let nothing = hk_core::Portable.dot_matrix(storage, &[], &[], &mut []);
        nothing.map_err(|source| linear.failed(source))?;
        Ok(linear)
    }

    pub(super) const fn rows(&self) -> usize {
        self.matrix.rows()
    }

    fn failed(&self, source: hk_core::Error) -> Error {
        Error::Decode { name: self.matrix.name().into(), source }
    }

    /// `out[r * activations.len() + a]`, for the rows from `first` on.
    fn rows_into(
        &self,
        backend: &dyn Backend,
        activations: &[Activation<'_>],
        first: usize,
        out: &mut [f32],
    ) -> Result<()> {
        let rows = self.matrix.rows_from(first, self.row_bytes);
        let done = match activations {
            [one] => backend.dot_rows(self.storage, rows, *one, out),
            many => backend.dot_matrix(self.storage, rows, many, out),
        };
        done.map_err(|source| self.failed(source))
    }
}

/// Memory that activations are quantized into, kept from one product to the next.
#[derive(Default)]
pub(super) struct Scratch {
    q32: Vec<u32>,
    q256: Vec<u32>,
}

/// What products are computed with.
#[derive(Clone, Copy)]
pub(super) struct Kernels<'m> {
    pub(super) backend: &'m dyn Backend,
    pub(super) threads: &'m dyn Threads,
    pub(super) probe: Option<&'m dyn Probe>,
}

impl Kernels<'_> {
    /// Tells the probe, if there is one, what this thread begins with.
    pub(super) fn enter(&self, part: Part) {
        if let Some(probe) = self.probe {
            probe.enter(part);
        }
    }

    /// Products of the rows of all `matrices`, one matrix after the other, with each of the
    /// rows of `columns` numbers in `input`: `out[r * inputs + a]`. The input is quantized
    /// once for each form that the matrices need, and threads are woken once. What comes after
    /// is, for the probe, the rest.
    pub(super) fn multiply(
        &self,
        matrices: &[&Linear<'_>],
        input: &[f32],
        columns: usize,
        scratch: &mut Scratch,
        out: &mut [f32],
    ) -> Result<()> {
        self.enter(Part::Quantizing);
        let inputs = input.len() / columns;
        let of_form = |form| matrices.iter().find(|matrix| matrix.form == form);
        let forms = [
            of_form(ActivationForm::F32)
                .map_or(Ok(Vec::new()), |m| self.quantize(m, input, columns, &mut [])),
            of_form(ActivationForm::Q32).map_or(Ok(Vec::new()), |m| {
                self.quantize(m, input, columns, grown(&mut scratch.q32, m, input)?)
            }),
            of_form(ActivationForm::Q256).map_or(Ok(Vec::new()), |m| {
                self.quantize(m, input, columns, grown(&mut scratch.q256, m, input)?)
            }),
        ];
        let [f32s, q32, q256] = forms;
        let (f32s, q32, q256) = (f32s?, q32?, q256?);
        self.enter(Part::Waiting);
        let rows = out.len() / inputs;
        let pieces = pieces(self.threads, rows, inputs.saturating_mul(columns));
        for_each(self.threads, split_rows(out, inputs, pieces), |(mut first, mut part)| {
            for matrix in matrices {
                if first >= matrix.rows() {
                    first -= matrix.rows();
                    continue;
                }
                let here = (matrix.rows() - first).saturating_mul(inputs).min(part.len());
                let (out, rest) = part.split_at_mut(here);
                let activations = match matrix.form {
                    ActivationForm::F32 => &f32s,
                    ActivationForm::Q32 => &q32,
                    ActivationForm::Q256 => &q256,
                };
                self.enter(Part::Matrices(matrix.storage));
                matrix.rows_into(self.backend, activations, first, out)?;
                (first, part) = (0, rest);
                if part.is_empty() {
                    break;
                }
            }
            self.enter(Part::Waiting);
            Ok(())
        })?;
        self.enter(Part::Rest);
        Ok(())
    }

    /// Each row of `input` in the form that `matrix` needs.
    fn quantize<'a>(
        &self,
        matrix: &Linear<'_>,
        input: &'a [f32],
        columns: usize,
        scratch: &'a mut [u32],
    ) -> Result<Vec<Activation<'a>>> {
        let (words, storage) = (matrix.form.scratch_len(columns), matrix.storage);
        let mut rest = scratch;
        let mut activations = memory::with_room(input.len() / columns)?;
        for row in input.chunks_exact(columns) {
            let (scratch, more) = core::mem::take(&mut rest).split_at_mut(words);
            rest = more;
            let activation = self.backend.activation(storage, row, scratch);
            activations.push(activation.map_err(|source| matrix.failed(source))?);
        }
        Ok(activations)
    }
}

/// `scratch`, large enough for `input` in the form that `matrix` needs.
fn grown<'a>(
    scratch: &'a mut Vec<u32>,
    matrix: &Linear<'_>,
    input: &[f32],
) -> Result<&'a mut [u32]> {
    memory::resize(scratch, matrix.form.scratch_len(input.len()))?;
    Ok(scratch)
}
