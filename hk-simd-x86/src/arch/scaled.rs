//! Blocks of codes with scales beside them, and 2:4 groups: what both levels share.

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

/// For the indexes of a 2:4 group, a nibble, two bits for each of its weights: 0 for the first
/// value, 2 for the second, which goes before the first where both have one place, and 1 for
/// none.
pub(super) static GROUP_CODES: [u8; 16] = {
    let mut codes = [0; 16];
    let mut indexes = 0;
    while indexes < 16 {
        let (first, second) = (indexes & 3, indexes >> 2);
        let mut weight = 0;
        while weight < 4 {
            let code = if weight == second { 2 } else { (weight != first) as u8 };
            codes[indexes] |= code << (2 * weight);
            weight += 1;
        }
        indexes += 1;
    }
    codes
};
