//! Blocks of codes with scales beside them, of any length: the way through them, which both
//! levels go with vectors of their own.

use hk_core::blocks::ScaledBlocks;
use hk_core::{Backend, Error, Portable};

use super::call::filled_up;

/// Decodes the first `out.len()` weights of blocks of which there are as many.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
pub(super) type DecodeScaled = unsafe fn(&ScaledBlocks<'_>, &mut [f32]);

/// Weights of a block under which vectors gain nothing.
const SHORT: u16 = 8;

/// [`Backend::dequantize_scaled`] by `kernel`.
///
/// # Safety
/// The CPU must have the features of the kernel.
pub(super) unsafe fn dequantize(
    kernel: DecodeScaled,
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
) -> Result<(), Error> {
    if blocks.form.block().get() < SHORT || blocks.check(out.len()).is_err() {
        // It also has the words for what is wrong.
        return Portable.dequantize_scaled(blocks, out);
    }
    // SAFETY: the caller's promise.
    unsafe { kernel(blocks, out) };
    Ok(())
}

/// Goes through all blocks by steps of `W` weights, a vector, whose codes are `C` bytes and
/// whose residual is `R`. `prepare` makes of a block's scale (`S` bytes) what `decode` wants,
/// and `finish` writes a vector, plus the residual where there is one.
///
/// Blocks of few whole steps have loops of their own, without counting in a block.
#[inline(always)]
pub(super) fn each_block<
    const S: usize,
    const C: usize,
    const R: usize,
    const W: usize,
    P: Copy,
    V,
>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    prepare: impl Fn([u8; S]) -> P,
    decode: impl Fn(P, &[u8; C]) -> V,
    finish: impl Fn(V, Option<&[u8; R]>, &mut [f32; W]),
) {
    let len = usize::from(blocks.form.block().get());
    let steps = if len.is_multiple_of(W) { len / W } else { 0 };
    match steps {
        1 => fixed::<1, S, C, R, W, P, V>(blocks, out, &prepare, &decode, &finish),
        2 => fixed::<2, S, C, R, W, P, V>(blocks, out, &prepare, &decode, &finish),
        4 => fixed::<4, S, C, R, W, P, V>(blocks, out, &prepare, &decode, &finish),
        8 => fixed::<8, S, C, R, W, P, V>(blocks, out, &prepare, &decode, &finish),
        _ => any::<S, C, R, W, P, V>(blocks, out, &prepare, &decode, &finish),
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
    V,
>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    prepare: &impl Fn([u8; S]) -> P,
    decode: &impl Fn(P, &[u8; C]) -> V,
    finish: &impl Fn(V, Option<&[u8; R]>, &mut [f32; W]),
) {
    let whole = out.len() / (K * W);
    let (out, rest) = out.split_at_mut(whole * K * W);
    let out = out.as_chunks_mut::<W>().0.as_chunks_mut::<K>().0.iter_mut();
    let codes = blocks.codes.as_chunks::<C>().0.as_chunks::<K>().0;
    let all = out.zip(codes).zip(blocks.scales.as_chunks::<S>().0);
    if blocks.residual.is_empty() {
        for ((out, codes), scale) in all {
            let prepared = prepare(*scale);
            for (out, codes) in out.iter_mut().zip(codes) {
                finish(decode(prepared, codes), None, out);
            }
        }
    } else {
        let residual = blocks.residual.as_chunks::<R>().0.as_chunks::<K>().0;
        for (((out, codes), scale), residual) in all.zip(residual) {
            let prepared = prepare(*scale);
            for ((out, codes), residual) in out.iter_mut().zip(codes).zip(residual) {
                finish(decode(prepared, codes), Some(residual), out);
            }
        }
    }
    if !rest.is_empty() {
        let last = ScaledBlocks {
            form: blocks.form,
            codes: after(blocks.codes, whole * K * C),
            scales: after(blocks.scales, whole * S),
            residual: after(blocks.residual, whole * K * R),
        };
        any::<S, C, R, W, P, V>(&last, rest, prepare, decode, finish);
    }
}

/// What follows the first `len`.
#[inline(always)]
fn after(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(len..).unwrap_or_default()
}

/// Blocks of any length: what is left of one after its whole steps goes by arrays on the
/// stack.
#[inline(always)]
fn any<const S: usize, const C: usize, const R: usize, const W: usize, P: Copy, V>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    prepare: &impl Fn([u8; S]) -> P,
    decode: &impl Fn(P, &[u8; C]) -> V,
    finish: &impl Fn(V, Option<&[u8; R]>, &mut [f32; W]),
) {
    let form = blocks.form;
    let (codes, mut residual) = (blocks.codes.chunks(form.block_bytes()), blocks.residual);
    let scales = blocks.scales.as_chunks::<S>().0.iter();
    let out = out.chunks_mut(usize::from(form.block().get()));
    for ((out, codes), scale) in out.zip(codes).zip(scales) {
        let prepared = prepare(*scale);
        let (steps, last) = out.as_chunks_mut::<W>();
        let last_codes = after(codes, steps.len() * C);
        let codes = codes.as_chunks::<C>().0;
        let (of_steps, of_last) =
            residual.split_at_checked(steps.len() * R).unwrap_or((&[], residual));
        if residual.is_empty() {
            for (out, codes) in steps.iter_mut().zip(codes) {
                finish(decode(prepared, codes), None, out);
            }
        } else {
            let of_steps = of_steps.as_chunks::<R>().0;
            for ((out, codes), residual) in steps.iter_mut().zip(codes).zip(of_steps) {
                finish(decode(prepared, codes), Some(residual), out);
            }
        }
        residual = after(of_last, 4 * last.len());
        if !last.is_empty() {
            let mut weights = [0.0; W];
            let of_last = (!of_last.is_empty()).then(|| filled_up::<u8, R>(of_last));
            finish(decode(prepared, &filled_up(last_codes)), of_last.as_ref(), &mut weights);
            last.copy_from_slice(&weights[..last.len()]);
        }
    }
}

/// What the scale bytes of split-scale `mxfp4` stand for: 2^(e-127), the first of which is
/// subnormal and the last infinite.
pub(super) static E8M0: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut e = 0;
    while e < 256 {
        scales[e] = f32::from_bits(if e == 0 { 0x0040_0000 } else { (e as u32) << 23 });
        e += 1;
    }
    scales
};

/// What those of split-scale `nvfp4` stand for: fp8_e4m3.
pub(super) static E4M3: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let magnitude = (code as u32 & 0x7F) << 20;
        // Subnormals are whole numbers of 2^-9; the others take a bias larger by 120.
        let number = if magnitude < 1 << 23 {
            (code & 7) as f32 / 512.0
        } else {
            f32::from_bits(magnitude + (120 << 23))
        };
        let signed = if code < 128 { number } else { -number };
        scales[code] = if code & 0x7F == 0x7F { f32::NAN } else { signed };
        code += 1;
    }
    scales
};
