//! The portable decoders with the features of this level.

use hk_core::blocks::Block;

use crate::arch::call::Decode;
use crate::arch::table;

/// See [`table`].
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
