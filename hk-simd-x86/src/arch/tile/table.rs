//! Which type is taken apart in which way.

use hk_core::StorageType;
use hk_core::blocks;
use hk_core::dot::portable::Weights;

use super::generic::Generic;
use super::{Type32, Type256, of_32, of_256};
use crate::arch::call::DotMatrix;

/// Functions with the features of a level, for any type.
pub(in crate::arch) trait Kernels {
    /// [`by_blocks_of_32`](super::by_blocks_of_32).
    fn of_32<T: Type32<BYTES>, const BYTES: usize>() -> DotMatrix;
    /// [`by_blocks_of_256`](super::by_blocks_of_256).
    fn of_256<T: Type256<BYTES>, const BYTES: usize>() -> DotMatrix;
    /// [`by_blocks_of_nvfp4`](super::by_blocks_of_nvfp4).
    fn nvfp4() -> DotMatrix;
}

/// The kernel of a type of blocks.
pub(in crate::arch) fn kernel<K: Kernels>(storage: StorageType) -> Option<DotMatrix> {
    Some(match storage {
        StorageType::Q4_0 => K::of_32::<of_32::Q4_0, 18>(),
        StorageType::Q4_1 => K::of_32::<of_32::Q4_1, 20>(),
        StorageType::Q5_0 => K::of_32::<of_32::Q5_0, 22>(),
        StorageType::Q5_1 => K::of_32::<of_32::Q5_1, 24>(),
        StorageType::Q8_0 => K::of_32::<of_32::Q8_0, 34>(),
        StorageType::IQ4_NL => K::of_32::<of_32::Iq4Nl, 18>(),
        StorageType::MXFP4 => K::of_32::<of_32::Mxfp4, 17>(),
        StorageType::NVFP4 => K::nvfp4(),
        StorageType::Q2_K => K::of_256::<of_256::Q2K, 84>(),
        StorageType::Q3_K => K::of_256::<of_256::Q3K, 110>(),
        StorageType::Q4_K => K::of_256::<of_256::Q4K, 144>(),
        StorageType::Q5_K => K::of_256::<of_256::Q5K, 176>(),
        StorageType::Q6_K => K::of_256::<of_256::Q6K, 210>(),
        StorageType::IQ4_XS => K::of_256::<of_256::Iq4Xs, 136>(),
        StorageType::TQ1_0 => K::of_256::<of_256::Tq1_0, 54>(),
        StorageType::TQ2_0 => K::of_256::<of_256::Tq2_0, 66>(),
        StorageType::IQ1_S => generic::<K, blocks::BlockIq1S, 50>(),
        StorageType::IQ1_M => generic::<K, blocks::BlockIq1M, 56>(),
        StorageType::IQ2_XXS => generic::<K, blocks::BlockIq2Xxs, 66>(),
        StorageType::IQ2_XS => generic::<K, blocks::BlockIq2Xs, 74>(),
        StorageType::IQ2_S => generic::<K, blocks::BlockIq2S, 82>(),
        StorageType::IQ3_XXS => generic::<K, blocks::BlockIq3Xxs, 98>(),
        StorageType::IQ3_S => generic::<K, blocks::BlockIq3S, 110>(),
        _ => return None,
    })
}

/// Activations from which on a [`kernel`] is faster than a kernel for one activation, once for
/// each (measured on a Zen 5).
pub(in crate::arch) fn many(storage: StorageType) -> usize {
    match storage {
        // So that the tests need no more.
        _ if cfg!(miri) => 4,
        // Their blocks take long to take apart.
        StorageType::IQ2_XXS
        | StorageType::IQ2_XS
        | StorageType::IQ2_S
        | StorageType::IQ3_XXS
        | StorageType::IQ3_S => 16,
        StorageType::IQ1_S | StorageType::IQ1_M => 8,
        // Their kernels for one activation have the least to do.
        StorageType::TQ1_0 | StorageType::TQ2_0 => 8,
        _ => 4,
    }
}

fn generic<K: Kernels, B: Weights<256>, const BYTES: usize>() -> DotMatrix {
    K::of_256::<Generic<B>, BYTES>()
}
