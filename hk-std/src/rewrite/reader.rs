//! The new payload of one tensor, made as it is read.

use std::cell::RefCell;
use std::io::Read;

use hk_core::blocks::{ScaledBlocks, ScaledForm};
use hk_core::build::TensorSpec;
use hk_core::encode::{dual, two_of_four};
use hk_core::{Backend, Error as CoreError, Part, StorageType};

use super::pieces::Pieces;
use super::source::{Source, moved};
use super::target::{Leftover, Target};
use super::total::{self, Key, Totals};
use crate::error::Result;
use crate::parallel::{for_each, threads};

/// Weights that a thread encodes at once at least.
const SHARE: usize = 1 << 14;

impl<'m> Source<'m> {
    /// The bytes of `part`.
    pub(super) fn reader<'r>(
        self,
        target: &'r Target,
        spec: &TensorSpec,
        part: Part,
        totals: &'r RefCell<Totals>,
    ) -> Result<Box<dyn Read + 'r>>
    where
        'm: 'r,
    {
        let key = total::key_of(spec);
        Ok(match target {
            // Nothing is rounded, NaN and infinity stay.
            Target::Blocks(StorageType::F32) => {
                Box::new(self.each(1, kept_as_is, |weights, out| {
                    out.extend(weights.iter().flat_map(|weight| weight.to_le_bytes()));
                    Ok(())
                }))
            }
            Target::Blocks(storage) => Box::new(self.blocks(*storage, None, None, key, totals)),
            Target::Weighted(storage, importance) => {
                Box::new(self.blocks(*storage, Some(importance), None, key, totals))
            }
            Target::Pruned(storage, scale) => {
                Box::new(self.blocks(*storage, None, Some(*scale), key, totals))
            }
            Target::Dual(form, leftover) => {
                Box::new(self.dual(*form, *leftover, part, key, totals))
            }
            Target::TwoOfFour(scale) => Box::new(self.two_of_four(*scale, key, totals)?),
            Target::Bitmask => Box::new(self.bitmask()),
            Target::Blocked(shape) => self.blocked(*shape, spec.data_size)?,
            Target::Order(tile) => self.order(*tile)?,
        })
    }

    /// Pieces that `encode` makes of spans of multiples of `unit` weights that `change` has
    /// changed.
    pub(super) fn each<'r>(
        self,
        unit: usize,
        change: impl Fn(&mut [f32]) -> std::result::Result<(), CoreError> + 'r,
        encode: impl Fn(&[f32], &mut Vec<u8>) -> std::result::Result<(), CoreError> + 'r,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        let mut spans = self.spans(unit);
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            change(weights).map_err(fault)?;
            encode(weights, out).map_err(fault)?;
            Ok(true)
        })
    }

    /// Elements or blocks, pruned first where there is a `scale` for it.
    fn blocks<'r>(
        self,
        storage: StorageType,
        importance: Option<&'r [f32]>,
        prune: Option<two_of_four::Scale>,
        key: Key,
        totals: &'r RefCell<Totals>,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        // Blocks divide rows, so that without importance rows make no difference.
        let row = importance.map_or(256, <[f32]>::len);
        let mut spans = self.spans(row);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            before.clear();
            before.extend_from_slice(weights);
            if let Some(scale) = prune {
                two_of_four::prune(weights, scale).map_err(fault)?;
            }
            let bytes = storage.payload_len(&[weights.len() as u64]).map_err(fault)?;
            out.resize(bytes as usize, 0);
            quantize(self.backend, storage, weights, row, importance, out).map_err(fault)?;
            after.resize(weights.len(), 0.0);
            self.backend.dequantize(storage, out, &mut after).map_err(fault)?;
            totals.borrow_mut().compare(key, &before, &after);
            Ok(true)
        })
    }

    fn dual<'r>(
        self,
        form: ScaledForm,
        leftover: Leftover,
        part: Part,
        key: Key,
        totals: &'r RefCell<Totals>,
    ) -> impl Read + 'r
    where
        'm: 'r,
    {
        let mut spans = self.spans(form.block().get().into());
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        let mut after = Vec::new();
        Pieces::new(move |out| {
            let at = spans.at;
            let Some(weights) = spans.next()? else { return Ok(false) };
            let fault = |e| self.error(moved(e, at));
            let count = weights.len() as u64;
            let [codes, scales, residual] = &mut parts;
            codes.resize(form.data_len(count) as usize, 0);
            scales.resize(form.scales_len(count) as usize, 0);
            let keep = leftover == Leftover::Keep;
            residual.resize(if keep { weights.len() * 4 } else { 0 }, 0);
            split(form, weights, codes, scales, residual).map_err(fault)?;
            if part == Part::Data {
                after.resize(weights.len(), 0.0);
                let blocks = ScaledBlocks { form, codes, scales, residual };
                self.backend.dequantize_scaled(&blocks, &mut after).map_err(fault)?;
                totals.borrow_mut().compare(key, weights, &after);
            }
            out.extend_from_slice(match part {
                Part::Data => codes,
                Part::Scales => scales,
                Part::Residual => residual,
            });
            Ok(true)
        })
    }
}

/// Weights for a thread: a multiple of `unit`, so that all threads have several.
fn share(weights: usize, unit: usize) -> usize {
    let share = (weights / (threads() * 4)).max(SHARE);
    share.div_ceil(unit.max(1)).saturating_mul(unit.max(1))
}

/// [`Backend::quantize`] on all cores: whole rows, of which only `importance` has need.
fn quantize(
    backend: &dyn Backend,
    storage: StorageType,
    weights: &[f32],
    row: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> std::result::Result<(), CoreError> {
    let share = share(weights.len(), row);
    let share_bytes = storage.payload_len(&[share as u64])? as usize;
    let shares = weights.chunks(share).zip(out.chunks_mut(share_bytes.max(1)));
    for_each(shares.enumerate().collect(), |(index, (weights, out))| {
        let columns = if importance.is_some() { row } else { weights.len() };
        backend
            .quantize(storage, weights, columns, importance, out)
            .map_err(|e| moved(e, (index * share) as u64))
    })
}

/// [`dual::quantize`] on all cores.
fn split(
    form: ScaledForm,
    weights: &[f32],
    codes: &mut [u8],
    scales: &mut [u8],
    residual: &mut [u8],
) -> std::result::Result<(), CoreError> {
    let share = share(weights.len(), form.block().get().into());
    let len = |len: u64| (len as usize).max(1);
    let keep = !residual.is_empty();
    let mut residual = residual.chunks_mut(share * 4);
    let shares = weights
        .chunks(share)
        .zip(codes.chunks_mut(len(form.data_len(share as u64))))
        .zip(scales.chunks_mut(len(form.scales_len(share as u64))))
        .map(|((weights, codes), scales)| (weights, codes, scales, residual.next()));
    let shares: Vec<_> = shares.enumerate().collect();
    for_each(shares, |(index, (weights, codes, scales, residual))| {
        let residual = residual.filter(|_| keep);
        dual::quantize(form, weights, codes, scales, residual)
            .map_err(|e| moved(e, (index * share) as u64))
    })
}

pub(super) const fn kept_as_is(_: &mut [f32]) -> std::result::Result<(), CoreError> {
    Ok(())
}
