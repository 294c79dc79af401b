//! The level `avx512`.

mod activation;
mod attention;
mod between;
mod dense;
mod dot;
mod fp4;
mod iq1;
mod iq23;
mod iq4;
mod k;
mod lanes;
mod legacy;
mod scaled;
mod shell;
mod sparse;
mod ternary;
mod tile;
mod vector;

use hk_core::attention::{Query, Weighted};
use hk_core::blocks::ScaledBlocks;
use hk_core::{Activation, Backend, Error, StorageType};

use self::shell::Shell;
use super::activation::quantize;
use super::call::{self, Decode, Dot};
use super::detect::Features;
use super::scaled::dequantize;
use super::{encode, table};

/// The level `avx512`. Values of it are handed out only where the CPU has its features.
pub(super) struct Avx512 {
    /// Whether the CPU also has DQ, VBMI, VBMI2, BITALG and GFNI.
    extended: bool,
}

impl Avx512 {
    /// With DQ, VBMI, VBMI2, BITALG and GFNI.
    pub(super) fn extended(features: Features) -> Option<&'static Self> {
        features.avx512_extended().then_some(&Avx512 { extended: true })
    }

    /// Without DQ, VBMI, VBMI2, BITALG and GFNI.
    pub(super) fn plain(features: Features) -> Option<&'static Self> {
        features.avx512().then_some(&Avx512 { extended: false })
    }

    fn decode(&self, storage: StorageType) -> Option<Decode> {
        dense::decode(storage, self.extended)
            .or_else(|| legacy::decode(storage))
            .or_else(|| fp4::decode(storage))
            .or_else(|| iq1::decode(storage))
            .or_else(|| iq4::decode(storage))
            .or_else(|| k::decode(storage))
            .or_else(|| ternary::decode(storage))
            .or_else(|| iq23::decode(storage, self.extended))
            .or_else(|| table::decode::<Shell>(storage))
    }

    fn dot(&self, storage: StorageType) -> Option<Dot> {
        let matrix = dot::matrix(storage).or_else(|| tile::kernel(storage))?;
        // Kernels of rows have fast look-ups only with the further features.
        let many = tile::many(storage).min(if self.extended { usize::MAX } else { 8 });
        Some(Dot { rows: dot::rows(storage, self.extended), matrix, many })
    }
}

impl Backend for Avx512 {
    fn name(&self) -> &'static str {
        "avx512"
    }

    fn dequantize(
        &self,
        storage: StorageType,
        payload: &[u8],
        out: &mut [f32],
    ) -> Result<(), Error> {
        // SAFETY: the CPU has the features of this level, and `decode` minds `extended`.
        unsafe { call::dequantize(self.decode(storage), vector::stream, storage, payload, out) }
    }

    fn dequantize_scaled(&self, blocks: &ScaledBlocks<'_>, out: &mut [f32]) -> Result<(), Error> {
        // SAFETY: the CPU has the features of this level.
        unsafe { dequantize(scaled::decode(blocks.form.kind()), blocks, out) }
    }

    fn expand_2_4(&self, indexes: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { sparse::expand_2_4(indexes, values, out) }
    }

    fn expand_bitmask(&self, mask: &[u8], values: &[[u8; 4]], out: &mut [f32]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { sparse::expand_bitmask(mask, values, out) }
    }

    fn count_ones(&self, mask: &[u8]) -> u64 {
        // SAFETY: the CPU has the features of this level.
        unsafe { sparse::count_ones(mask) }
    }

    fn quantize(
        &self,
        storage: StorageType,
        weights: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        // SAFETY: the CPU has the features of this level.
        unsafe { encode::quantize::<Shell>(storage, weights, columns, importance, out) }
    }

    fn activation<'a>(
        &self,
        storage: StorageType,
        row: &'a [f32],
        scratch: &'a mut [u32],
    ) -> Result<Activation<'a>, Error> {
        // SAFETY: the CPU has the features of this level.
        unsafe { quantize(&activation::QUANTIZE, storage, row, scratch) }
    }

    fn dot_matrix(
        &self,
        storage: StorageType,
        rows: &[u8],
        activations: &[Activation<'_>],
        out: &mut [f32],
    ) -> Result<(), Error> {
        // SAFETY: the CPU has the features of this level, and `dot` minds `extended`.
        unsafe { call::dot_matrix(self.dot(storage), storage, rows, activations, out) }
    }

    fn dot_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        // SAFETY: the CPU has the features of this level.
        unsafe { between::dot_f32(a, b) }
    }

    fn scale(&self, x: &[f32], scale: f32, weights: &[f32], out: &mut [f32]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { between::scale(x, scale, weights, out) }
    }

    fn exponentials(&self, scores: &mut [f32]) -> f32 {
        // SAFETY: the CPU has the features of this level.
        unsafe { between::exponentials(scores) }
    }

    fn swiglu(&self, gates: &mut [f32], ups: &[f32]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { between::swiglu(gates, ups) }
    }

    fn scores(&self, keys: &[&[[u8; 2]]], len: usize, scale: f32, queries: &mut [Query<'_>]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { attention::scores(keys, len, scale, queries) }
    }

    fn add_weighted(&self, values: &[&[[u8; 2]]], len: usize, sums: &mut [Weighted<'_>]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { attention::add_weighted(values, len, sums) }
    }

    fn to_f16(&self, numbers: &[f32], out: &mut [[u8; 2]]) {
        // SAFETY: the CPU has the features of this level.
        unsafe { between::to_f16(numbers, out) }
    }
}
