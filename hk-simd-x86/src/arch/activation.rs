//! Quantizing activation rows (dot-products.md, "Activation"): what the levels share.

use hk_core::dot::{ActivationForm, PartsQ32, PartsQ256};
use hk_core::{Activation, Error, StorageType};

/// The kernels of a level. Each fills parts of as many blocks as the row has.
///
/// # Safety
/// The CPU must have the features that the kernels are compiled for.
pub(super) struct Quantize {
    pub(super) by_32: unsafe fn(&[[f32; 32]], &mut PartsQ32<'_>),
    pub(super) by_256: unsafe fn(&[[f32; 256]], &mut PartsQ256<'_>),
}

/// [`Backend::activation`](hk_core::Backend::activation) by `kernels`.
///
/// # Safety
/// The CPU must have the features of the kernels.
pub(super) unsafe fn quantize<'a>(
    kernels: &Quantize,
    storage: StorageType,
    row: &'a [f32],
    scratch: &'a mut [u32],
) -> Result<Activation<'a>, Error> {
    let Some(form) = ActivationForm::of(storage) else {
        return Activation::quantize(storage, row, scratch);
    };
    let weights = storage.geometry().map_or(1, |geometry| geometry.weights as usize);
    if !row.len().is_multiple_of(weights) || scratch.len() < form.scratch_len(row.len()) {
        // It has the words for what is wrong.
        return Activation::quantize(storage, row, scratch);
    }
    let activation = match form {
        ActivationForm::F32 => Some(Activation::F32(row)),
        ActivationForm::Q32 => {
            let (blocks, _) = row.as_chunks();
            PartsQ32::carve(scratch, blocks.len()).and_then(|mut parts| {
                // SAFETY: the caller's promise.
                unsafe { (kernels.by_32)(blocks, &mut parts) };
                parts.into_row().map(Activation::Q32)
            })
        }
        ActivationForm::Q256 => {
            let (blocks, _) = row.as_chunks();
            PartsQ256::carve(scratch, blocks.len()).and_then(|mut parts| {
                // SAFETY: the caller's promise.
                unsafe { (kernels.by_256)(blocks, &mut parts) };
                parts.into_row().map(Activation::Q256)
            })
        }
    };
    // There was room, so that this is not reached.
    activation.map_or_else(|| Activation::quantize(storage, row, &mut []), Ok)
}

/// The scale of a block and its inverse, from the bits of the largest magnitude in it. A block
/// that counts as zero, or has a number that is not finite, has no inverse: its codes are 0.
#[inline(always)]
pub(super) fn scales(amax: u32) -> (f32, Option<f32>) {
    /// 2^-100.
    const TINY: u32 = (127 - 100) << 23;
    const INFINITE: u32 = 0x7F80_0000;
    if amax < TINY {
        (0.0, None)
    } else if amax >= INFINITE {
        (f32::NAN, None)
    } else {
        let amax = f32::from_bits(amax);
        (amax / 127.0, Some(127.0 / amax))
    }
}
