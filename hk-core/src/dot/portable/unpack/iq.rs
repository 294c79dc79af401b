//! I-quants.

use core::hint::black_box;

use super::{Unpack32, Unpack256};
use crate::blocks::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs,
};
use crate::dot::oracle::terms::Dot256;

/// The integers of a block times the scales of their sub-blocks.
#[inline(always)]
fn scaled<B: Dot256>(block: &B, to: &mut [i16; 256]) {
    let integers = block.integers();
    // Through memory, or the compiler makes scalar code of both steps.
    let (integers, scales) = (black_box(&integers).as_chunks().0, block.sub_scales());
    for ((to, integers), sc) in to.as_chunks_mut::<16>().0.iter_mut().zip(integers).zip(scales) {
        let integers: [i8; 16] = *integers;
        *to = integers.map(|integer| i16::from(integer) * i16::from(sc));
    }
}

impl Unpack32 for BlockIq4Nl {}

impl Unpack256 for BlockIq1S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq1M {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq2Xxs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq2Xs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq2S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq3Xxs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq3S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}

impl Unpack256 for BlockIq4Xs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self, to);
    }
}
