//! Blocks of codes with scales beside them: what both levels share.

use hk_core::blocks::ScaledBlocks;
use hk_core::{Backend, Error, Portable};

/// Decodes the first `out.len()` weights of blocks of which there are as many.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
pub(super) type DecodeScaled = unsafe fn(&ScaledBlocks<'_>, &mut [f32]);

/// [`Backend::dequantize_scaled`] by `kernel`.
///
/// # Safety
/// The CPU must have the features of the kernel.
pub(super) unsafe fn dequantize(
    kernel: DecodeScaled,
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
) -> Result<(), Error> {
    if blocks.check(out.len()).is_err() {
        // It also has the words for what is wrong.
        return Portable.dequantize_scaled(blocks, out);
    }
    // SAFETY: the caller's promise.
    unsafe { kernel(blocks, out) };
    Ok(())
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
