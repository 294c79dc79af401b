//! The way through blocks with scales beside them, for every set of kernels.

use super::ScaledBlocks;
use crate::bytes::{filled_up, take, take_mut};

/// Goes through the first `out.len()` weights of `blocks`, which has as many, by steps of `W`
/// weights, whose codes are `C` bytes and whose residual is `R`: for backends, which bring a
/// vector's worth of work. `prepare` makes of a block's scale (`S` bytes) what `step` wants.
///
/// A step can go on into the next block, whose weights come after it, and what no step has room
/// for goes by arrays on the stack.
///
/// ```
/// use hk_core::blocks::{ScaledBlocks, ScaledForm, ScaledType, each_scaled_block};
/// let scales = [0.5_f32, 10.0].map(f32::to_le_bytes);
/// let form = ScaledForm::new(ScaledType::Dq8, 4)?;
/// let (codes, scales) = (&[1, 2, 3, 4, 5], scales.as_flattened());
/// let blocks = ScaledBlocks { form, codes, scales, residual: &[] };
/// let mut weights = [0.0; 5];
/// each_scaled_block(
///     &blocks,
///     &mut weights,
///     f32::from_le_bytes,
///     |scale, codes: &[u8; 2], _residual: Option<&[u8; 8]>, out: &mut [f32; 2]| {
///         *out = codes.map(|code| scale * f32::from(code as i8));
///     },
/// );
/// assert_eq!(weights, [0.5, 1.0, 1.5, 2.0, 50.0]);
/// # Ok::<(), hk_core::Error>(())
/// ```
#[inline(always)]
pub fn each_scaled_block<
    const S: usize,
    const C: usize,
    const R: usize,
    const W: usize,
    P: Copy,
>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    prepare: impl Fn([u8; S]) -> P,
    step: impl Fn(P, &[u8; C], Option<&[u8; R]>, &mut [f32; W]),
) {
    any::<S, C, R, W, P>(blocks, out, &prepare, &step);
}

/// [`each_scaled_block`] with loops of their own for blocks of 1, 2, 4, 8 and 16 whole steps, which
/// do not count in a block: quicker where a step is a few instructions, and longer code.
#[inline(always)]
pub fn each_scaled_block_unrolled<
    const S: usize,
    const C: usize,
    const R: usize,
    const W: usize,
    P: Copy,
>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    prepare: impl Fn([u8; S]) -> P,
    step: impl Fn(P, &[u8; C], Option<&[u8; R]>, &mut [f32; W]),
) {
    let len = usize::from(blocks.form.block().get());
    let steps = if len.is_multiple_of(W) { len / W } else { 0 };
    match steps {
        1 => fixed::<1, S, C, R, W, P>(blocks, out, &prepare, &step),
        2 => fixed::<2, S, C, R, W, P>(blocks, out, &prepare, &step),
        4 => fixed::<4, S, C, R, W, P>(blocks, out, &prepare, &step),
        8 => fixed::<8, S, C, R, W, P>(blocks, out, &prepare, &step),
        16 => fixed::<16, S, C, R, W, P>(blocks, out, &prepare, &step),
        _ => any::<S, C, R, W, P>(blocks, out, &prepare, &step),
    }
}

/// Blocks of `K` steps.
#[inline(always)]
fn fixed<
    const K: usize,
    const S: usize,
    const C: usize,
    const R: usize,
    const W: usize,
    P: Copy,
>(
    blocks: &ScaledBlocks<'_>,
    mut out: &mut [f32],
    prepare: &impl Fn([u8; S]) -> P,
    step: &impl Fn(P, &[u8; C], Option<&[u8; R]>, &mut [f32; W]),
) {
    let mut rest = *blocks;
    let whole = out.len() / (K * W);
    let out_whole = take_mut(&mut out, whole * K * W);
    let codes = take(&mut rest.codes, whole * K * C).as_chunks::<C>().0.as_chunks::<K>().0;
    let scales = take(&mut rest.scales, whole * S).as_chunks::<S>().0;
    let residual = take(&mut rest.residual, whole * K * R).as_chunks::<R>().0.as_chunks::<K>().0;
    let out_whole = out_whole.as_chunks_mut::<W>().0.as_chunks_mut::<K>().0.iter_mut();
    let all = out_whole.zip(codes).zip(scales);
    if blocks.residual.is_empty() {
        for ((out, codes), scale) in all {
            let prepared = prepare(*scale);
            for (out, codes) in out.iter_mut().zip(codes) {
                step(prepared, codes, None, out);
            }
        }
    } else {
        for (((out, codes), scale), residual) in all.zip(residual) {
            let prepared = prepare(*scale);
            for ((out, codes), residual) in out.iter_mut().zip(codes).zip(residual) {
                step(prepared, codes, Some(residual), out);
            }
        }
    }
    any::<S, C, R, W, P>(&rest, out, prepare, step);
}

/// Blocks of any length. The last step of a block goes on into the next one, which comes after
/// it and writes its own weights there, as long as there is room.
#[inline(always)]
fn any<const S: usize, const C: usize, const R: usize, const W: usize, P: Copy>(
    blocks: &ScaledBlocks<'_>,
    mut out: &mut [f32],
    prepare: &impl Fn([u8; S]) -> P,
    step: &impl Fn(P, &[u8; C], Option<&[u8; R]>, &mut [f32; W]),
) {
    let (len, bytes) = (usize::from(blocks.form.block().get()), blocks.form.block_bytes());
    let steps = len.div_ceil(W);
    let (mut codes, mut residual) = (blocks.codes, blocks.residual);
    let adds = !residual.is_empty();
    for scale in blocks.scales.as_chunks::<S>().0 {
        if out.is_empty() {
            return;
        }
        let prepared = prepare(*scale);
        let of_steps = (out.get_mut(..steps * W), codes.get(..steps * C));
        match (of_steps, residual.get(..steps * R)) {
            ((Some(out), Some(codes)), Some(residual)) if adds => {
                let steps = codes.as_chunks::<C>().0.iter().zip(residual.as_chunks::<R>().0);
                for (out, (codes, residual)) in out.as_chunks_mut::<W>().0.iter_mut().zip(steps) {
                    step(prepared, codes, Some(residual), out);
                }
            }
            ((Some(out), Some(codes)), _) if !adds => {
                let steps = codes.as_chunks::<C>().0;
                for (out, codes) in out.as_chunks_mut::<W>().0.iter_mut().zip(steps) {
                    step(prepared, codes, None, out);
                }
            }
            _ => {
                let now = len.min(out.len());
                let out = out.get_mut(..now).unwrap_or_default();
                by_arrays(codes, residual, out, |codes, residual, out| {
                    step(prepared, codes, residual, out);
                });
            }
        }
        take_mut(&mut out, len);
        take(&mut codes, bytes);
        take(&mut residual, 4 * len);
    }
}

/// Steps with no room around: the last block's.
#[inline(always)]
fn by_arrays<const C: usize, const R: usize, const W: usize>(
    mut codes: &[u8],
    mut residual: &[u8],
    mut out: &mut [f32],
    step: impl Fn(&[u8; C], Option<&[u8; R]>, &mut [f32; W]),
) {
    let adds = !residual.is_empty();
    while !out.is_empty() {
        let out = take_mut(&mut out, W);
        let codes = filled_up(take(&mut codes, C), 0);
        let residual = adds.then(|| filled_up(take(&mut residual, R), 0));
        let mut weights = [0.0; W];
        step(&codes, residual.as_ref(), &mut weights);
        for (to, from) in out.iter_mut().zip(weights) {
            *to = from;
        }
    }
}
