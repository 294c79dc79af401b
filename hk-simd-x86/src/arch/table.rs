//! The portable decoders of hk-core, compiled anew for a level: what a level has for a type
//! where nothing is better.

use hk_core::StorageType;
use hk_core::blocks::{self, Block};
use zerocopy::FromBytes;

use super::call::Decode;

/// Functions with the features of a level, for any type.
pub(super) trait Shell {
    /// A kernel that decodes blocks one by one.
    fn decode<B: Block<N>, const N: usize>() -> Decode;
}

/// The decoder of a type.
pub(super) fn decode<S: Shell>(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::F32 => S::decode::<blocks::F32, _>(),
        StorageType::F16 => S::decode::<blocks::F16, _>(),
        StorageType::BF16 => S::decode::<blocks::Bf16, _>(),
        StorageType::FP8_E4M3 => S::decode::<blocks::Fp8E4M3, _>(),
        StorageType::FP8_E5M2 => S::decode::<blocks::Fp8E5M2, _>(),
        StorageType::INT8 => S::decode::<blocks::Int8, _>(),
        StorageType::INT16 => S::decode::<blocks::Int16, _>(),
        StorageType::INT32 => S::decode::<blocks::Int32, _>(),
        StorageType::INT64 => S::decode::<blocks::Int64, _>(),
        StorageType::UINT8 => S::decode::<blocks::Uint8, _>(),
        StorageType::UINT16 => S::decode::<blocks::Uint16, _>(),
        StorageType::UINT32 => S::decode::<blocks::Uint32, _>(),
        StorageType::UINT64 => S::decode::<blocks::Uint64, _>(),
        StorageType::BOOL => S::decode::<blocks::Bool, _>(),
        StorageType::F64 => S::decode::<blocks::F64, _>(),
        StorageType::Q4_0 => S::decode::<blocks::BlockQ4_0, _>(),
        StorageType::Q4_1 => S::decode::<blocks::BlockQ4_1, _>(),
        StorageType::Q5_0 => S::decode::<blocks::BlockQ5_0, _>(),
        StorageType::Q5_1 => S::decode::<blocks::BlockQ5_1, _>(),
        StorageType::Q8_0 => S::decode::<blocks::BlockQ8_0, _>(),
        StorageType::Q8_1 => S::decode::<blocks::BlockQ8_1, _>(),
        StorageType::Q2_K => S::decode::<blocks::BlockQ2K, _>(),
        StorageType::Q3_K => S::decode::<blocks::BlockQ3K, _>(),
        StorageType::Q4_K => S::decode::<blocks::BlockQ4K, _>(),
        StorageType::Q5_K => S::decode::<blocks::BlockQ5K, _>(),
        StorageType::Q6_K => S::decode::<blocks::BlockQ6K, _>(),
        StorageType::Q8_K => S::decode::<blocks::BlockQ8K, _>(),
        StorageType::IQ1_S => S::decode::<blocks::BlockIq1S, _>(),
        StorageType::IQ1_M => S::decode::<blocks::BlockIq1M, _>(),
        StorageType::IQ2_XXS => S::decode::<blocks::BlockIq2Xxs, _>(),
        StorageType::IQ2_XS => S::decode::<blocks::BlockIq2Xs, _>(),
        StorageType::IQ2_S => S::decode::<blocks::BlockIq2S, _>(),
        StorageType::IQ3_XXS => S::decode::<blocks::BlockIq3Xxs, _>(),
        StorageType::IQ3_S => S::decode::<blocks::BlockIq3S, _>(),
        StorageType::IQ4_NL => S::decode::<blocks::BlockIq4Nl, _>(),
        StorageType::IQ4_XS => S::decode::<blocks::BlockIq4Xs, _>(),
        StorageType::TQ1_0 => S::decode::<blocks::BlockTq1_0, _>(),
        StorageType::TQ2_0 => S::decode::<blocks::BlockTq2_0, _>(),
        StorageType::MXFP4 => S::decode::<blocks::BlockMxfp4, _>(),
        StorageType::NVFP4 => S::decode::<blocks::BlockNvfp4, _>(),
        _ => return None,
    })
}

/// Decodes one block after another, each compiled into the caller.
#[inline(always)]
pub(super) fn decode_blocks<B: Block<N>, const N: usize>(payload: &[u8], out: &mut [f32]) {
    let blocks = out.len().div_ceil(N);
    let Ok((blocks, _)) = <[B]>::ref_from_prefix_with_elems(payload, blocks) else { return };
    if N == 1 {
        // Dense types go by larger steps of their own.
        B::decode_all(blocks, out.as_chunks_mut::<N>().0);
        return;
    }
    let (whole, part) = out.as_chunks_mut::<N>();
    for (block, weights) in blocks.iter().zip(whole) {
        block.decode(weights);
    }
    if let (false, Some(block)) = (part.is_empty(), blocks.last()) {
        let mut weights = [0.0; N];
        block.decode(&mut weights);
        part.copy_from_slice(&weights[..part.len()]);
    }
}
