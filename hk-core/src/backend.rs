//! What a set of kernels can do, and the one that runs anywhere.

use crate::attention::{self, Query, Weighted};
use crate::blocks::ScaledBlocks;
use crate::dot::{self, Activation};
use crate::error::Error;
use crate::{StorageType, blocks, encode, vector};

/// A set of kernels: conversions of stored weights to `f32`, dot products of stored rows with
/// activation rows, and what a model does with its numbers between the matrices ([`vector`],
/// [`attention`]).
///
/// Every backend returns the same bits (dot-products.md; NaN results are equal as NaN).
/// The trait is object safe, and each call does many weights or rows, so that dispatch is
/// paid once a chunk. An implementation that has no kernel of its own for a type hands the
/// call to [`Portable`].
///
/// Threads share a matrix by rows: each takes a run of consecutive rows and the part of the
/// output that belongs to it. Activation rows are made once and shared. How the parts of one
/// are laid out, and what else a writer of kernels needs, stands in [`dot`].
///
/// ```
/// use hk_core::{Activation, Backend, Error, Portable, StorageType, dot};
///
/// /// A kernel of its own for `f32` rows, and `Portable` for the rest.
/// struct Own;
///
/// impl Backend for Own {
///     fn name(&self) -> &'static str {
///         "own"
///     }
///
///     fn dequantize(
///         &self,
///         storage: StorageType,
///         payload: &[u8],
///         out: &mut [f32],
///     ) -> Result<(), Error> {
///         Portable.dequantize(storage, payload, out)
///     }
///
///     fn dot_matrix(
///         &self,
///         storage: StorageType,
///         rows: &[u8],
///         activations: &[Activation<'_>],
///         out: &mut [f32],
///     ) -> Result<(), Error> {
///         let row = dot::check_matrix(storage, rows, activations, out.len())?;
///         if storage != StorageType::F32 || row == 0 {
///             return Portable.dot_matrix(storage, rows, activations, out);
///         }
///         let out = out.chunks_exact_mut(activations.len());
///         for (row, out) in rows.chunks_exact(row).zip(out) {
///             let (weights, _) = row.as_chunks();
///             let weights = weights.iter().map(|&w| f32::from_le_bytes(w));
///             let weights: Vec<f32> = weights.collect();
///             for (out, activation) in out.iter_mut().zip(activations) {
///                 if let Activation::F32(x) = activation {
///                     *out = dot::dot_f32(&weights, x);
///                 }
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let rows = [1.0, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
/// let mut out = [0.0; 2];
/// Own.dot_rows(StorageType::F32, &rows, Activation::F32(&[10.0, 1.0]), &mut out)?;
/// assert_eq!(out, [12.0, 34.0]);
/// # Ok::<(), Error>(())
/// ```
pub trait Backend: Send + Sync {
    /// Short name as `HK_KERNELS` takes it: `portable`, `avx2`, `neon`, ...
    fn name(&self) -> &'static str;

    /// Decodes the first `out.len()` weights of `payload`, which holds whole elements of a
    /// dense type or whole blocks of a block type; the last block may be partly used, and
    /// more bytes than needed are left alone. Neither side needs any alignment.
    ///
    /// # Errors
    /// [`TooShort`](crate::ErrorKind::TooShort) when `payload` ends early,
    /// [`Undecodable`](crate::ErrorKind::Undecodable) or
    /// [`NotBuiltIn`](crate::ErrorKind::NotBuiltIn) naming the type. `out` is then
    /// unspecified.
    fn dequantize(
        &self,
        storage: StorageType,
        payload: &[u8],
        out: &mut [f32],
    ) -> Result<(), Error>;

    /// Decodes the first `out.len()` weights of blocks with scales beside them:
    /// [`blocks::dequantize_scaled`].
    ///
    /// # Errors
    /// As there.
    fn dequantize_scaled(&self, blocks: &ScaledBlocks<'_>, out: &mut [f32]) -> Result<(), Error> {
        blocks::dequantize_scaled(blocks, out)
    }

    /// Spreads pairs of values over groups of 4 weights: [`blocks::expand_2_4`].
    fn expand_2_4(&self, indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
        blocks::expand_2_4(indexes, values, out);
    }

    /// Spreads values over the weights whose bit is set: [`blocks::expand_bitmask`].
    fn expand_bitmask(&self, mask: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
        blocks::expand_bitmask(mask, values, out);
    }

    /// How many bits of a mask are set: [`blocks::count_ones`].
    fn count_ones(&self, mask: &[u8]) -> u64 {
        blocks::count_ones(mask)
    }

    /// Encodes whole rows of `columns` weights to `out`, as dense elements or blocks of type
    /// `storage`: [`encode::quantize`], which says what `importance` is and what is refused.
    ///
    /// # Errors
    /// As [`encode::quantize`]. `out` is then unspecified.
    fn quantize(
        &self,
        storage: StorageType,
        weights: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        encode::quantize(storage, weights, columns, importance, out)
    }

    /// Brings `row` into the form that weights of type `storage` are multiplied with.
    /// `scratch` holds the result; [`Activation::scratch_len`] says how many words it needs.
    ///
    /// # Errors
    /// As [`Activation::quantize`].
    fn activation<'a>(
        &self,
        storage: StorageType,
        row: &'a [f32],
        scratch: &'a mut [u32],
    ) -> Result<Activation<'a>, Error> {
        Activation::quantize(storage, row, scratch)
    }

    /// Dot products of consecutive weight rows with one activation row:
    /// `out[r] = rows[r] . activation`, for `out.len()` rows of `activation.len()` weights:
    /// [`dot_matrix`](Self::dot_matrix) with one activation, where the two gain nothing from
    /// kernels of their own.
    ///
    /// # Errors
    /// [`NoDotProduct`](crate::ErrorKind::NoDotProduct) or
    /// [`NotBuiltIn`](crate::ErrorKind::NotBuiltIn) naming the type,
    /// [`ActivationForm`](crate::ErrorKind::ActivationForm) when the activation has another
    /// form than the type needs, [`Activation`](crate::ErrorKind::Activation) when it is no
    /// whole number of blocks,
    /// [`TooShort`](crate::ErrorKind::TooShort) when `rows` holds fewer rows.
    fn dot_rows(
        &self,
        storage: StorageType,
        rows: &[u8],
        activation: Activation<'_>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        self.dot_matrix(storage, rows, &[activation], out)
    }

    /// Dot products of consecutive weight rows with several activation rows of one length:
    /// `out[r * activations.len() + a] = rows[r] . activations[a]`, so that the rows of a
    /// matrix, split into chunks, fill consecutive parts of one output.
    ///
    /// # Errors
    /// As [`dot_rows`](Self::dot_rows), [`Activation`](crate::ErrorKind::Activation) also when
    /// the activations differ in length, and
    /// [`OutputLength`](crate::ErrorKind::OutputLength) when `out` is no whole number of
    /// rows.
    fn dot_matrix(
        &self,
        storage: StorageType,
        rows: &[u8],
        activations: &[Activation<'_>],
        out: &mut [f32],
    ) -> Result<(), Error>;

    /// Dot product of one weight row with one activation row.
    ///
    /// # Errors
    /// As [`dot_rows`](Self::dot_rows).
    fn dot(
        &self,
        storage: StorageType,
        row: &[u8],
        activation: Activation<'_>,
    ) -> Result<f32, Error> {
        let mut out = [0.0];
        self.dot_rows(storage, row, activation, &mut out)?;
        Ok(out[0])
    }

    /// Dot product of two f32 vectors: [`dot::dot_f32`].
    fn dot_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        dot::dot_f32(a, b)
    }

    /// The last step of an RMS norm: [`vector::scale`].
    fn scale(&self, x: &[f32], scale: f32, weights: &[f32], out: &mut [f32]) {
        vector::scale(x, scale, weights, out);
    }

    /// A softmax but for the division: [`vector::exponentials`].
    fn exponentials(&self, scores: &mut [f32]) -> f32 {
        vector::exponentials(scores)
    }

    /// A SwiGLU: [`vector::swiglu`].
    fn swiglu(&self, gates: &mut [f32], ups: &[f32]) {
        vector::swiglu(gates, ups);
    }

    /// How well keys, pages of f16 rows of `len` numbers, fit queries: [`attention::scores`].
    fn scores(&self, keys: &[&[[u8; 2]]], len: usize, scale: f32, queries: &mut [Query<'_>]) {
        attention::scores(keys, len, scale, queries);
    }

    /// Weighted sums of values, pages of f16 rows of `len` numbers:
    /// [`attention::add_weighted`].
    fn add_weighted(&self, values: &[&[[u8; 2]]], len: usize, sums: &mut [Weighted<'_>]) {
        attention::add_weighted::<16>(values, len, sums);
    }

    /// Numbers rounded to f16: [`vector::to_f16`].
    fn to_f16(&self, numbers: &[f32], out: &mut [[u8; 2]]) {
        vector::to_f16(numbers, out);
    }
}

/// The backend that runs on every host: safe code that the compiler vectorizes, and the
/// reference that every other backend is tested against.
///
/// ```
/// use hk_core::{Backend, Portable, StorageType};
/// let mut out = [0.0; 2];
/// Portable.dequantize(StorageType::BF16, &[0x80, 0x3F, 0x00, 0xC0], &mut out).unwrap();
/// assert_eq!(out, [1.0, -2.0]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

impl Backend for Portable {
    fn name(&self) -> &'static str {
        "portable"
    }

    fn dequantize(
        &self,
        storage: StorageType,
        payload: &[u8],
        out: &mut [f32],
    ) -> Result<(), Error> {
        blocks::dequantize(storage, payload, out)
    }

    fn dot_matrix(
        &self,
        storage: StorageType,
        rows: &[u8],
        activations: &[Activation<'_>],
        out: &mut [f32],
    ) -> Result<(), Error> {
        dot::portable::dot_matrix(storage, rows, activations, out)
    }
}
