//! The portable encoders of hk-core, compiled anew for a level.

use core::marker::PhantomData;

use hk_core::encode::{self, Encode, WithEncoder};
use hk_core::{Error, StorageType};

/// Encodes whole rows of weights, with an importance for each column of a row, to as many
/// bytes as they take.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
pub(super) type Kernel = unsafe fn(&[f32], Option<&[f32]>, &mut [u8]) -> Result<(), Error>;

/// Functions with the features of a level, for any type.
pub(super) trait Shell {
    /// A kernel that encodes blocks one by one.
    fn encode<B: Encode<N>, const N: usize>() -> Kernel;
}

/// The kernel of a type.
struct Of<S>(PhantomData<S>);

impl<S: Shell> WithEncoder for Of<S> {
    type Output = Kernel;

    fn with<B: Encode<N>, const N: usize>(self) -> Kernel {
        S::encode::<B, N>()
    }
}

/// [`Backend::quantize`](hk_core::Backend::quantize) by the kernels of `S`.
///
/// # Safety
/// The CPU must have the features of the kernels.
pub(super) unsafe fn quantize<S: Shell>(
    storage: StorageType,
    weights: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    encode::check(storage, weights, columns, importance, out)?;
    let kernel = encode::with_encoder(storage, Of::<S>(PhantomData))?;
    // SAFETY: the caller's promise.
    unsafe { kernel(weights, importance, out) }
}
