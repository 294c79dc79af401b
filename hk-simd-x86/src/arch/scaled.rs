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
