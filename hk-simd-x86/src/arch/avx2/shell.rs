//! The portable kernels with the features of this level.

use hk_core::blocks::Block;
use hk_core::dot::portable::{
    Element, Weights, by_blocks_of_32, by_blocks_of_256, by_blocks_of_nvfp4, by_elements,
};

use crate::arch::call::{Decode, DotMatrix, Matrix};
use crate::arch::table;

/// See [`table`].
pub(super) enum Shell {}

impl table::Shell for Shell {
    fn decode<B: Block<N>, const N: usize>() -> Decode {
        decode::<B, N>
    }

    fn elements<E: Element>() -> DotMatrix {
        elements::<E>
    }

    fn blocks_of_32<B: Weights<32>>() -> DotMatrix {
        blocks_of_32::<B>
    }

    fn blocks_of_256<B: Weights<256>>() -> DotMatrix {
        blocks_of_256::<B>
    }

    fn nvfp4() -> DotMatrix {
        nvfp4
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn decode<B: Block<N>, const N: usize>(payload: &[u8], out: &mut [f32]) {
    table::decode_blocks::<B, N>(payload, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn elements<E: Element>(matrix: Matrix<'_>) {
    matrix.by(by_elements::<E>);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn blocks_of_32<B: Weights<32>>(matrix: Matrix<'_>) {
    matrix.by(by_blocks_of_32::<B>);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn blocks_of_256<B: Weights<256>>(matrix: Matrix<'_>) {
    matrix.by(by_blocks_of_256::<B>);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4(matrix: Matrix<'_>) {
    matrix.by(by_blocks_of_nvfp4);
}
