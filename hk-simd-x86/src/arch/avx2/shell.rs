//! The portable decoders and encoders with the features of this level.

use hk_core::Error;
use hk_core::blocks::Block;
use hk_core::encode::{Encode, encode_blocks};

use super::lanes::Floats;
use crate::arch::call::Decode;
use crate::arch::{encode, table};

/// See [`table`] and [`encode`](mod@encode).
pub(super) enum Shell {}

impl table::Shell for Shell {
    fn decode<B: Block<N>, const N: usize>() -> Decode {
        decode::<B, N>
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn decode<B: Block<N>, const N: usize>(payload: &[u8], out: &mut [f32]) {
    table::decode_blocks::<B, N>(payload, out);
}

impl encode::Shell for Shell {
    fn encode<B: Encode<N>, const N: usize>() -> encode::Kernel {
        encode::<B, N>
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn encode<B: Encode<N>, const N: usize>(
    weights: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    encode_blocks::<B, Floats, N>(weights, importance, out)
}
