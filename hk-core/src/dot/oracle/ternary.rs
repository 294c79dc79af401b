//! Ternary blocks, whose sub-blocks have no scales of their own.

use super::terms::{Dot256, signed};
use crate::blocks::{BlockTq1_0, BlockTq2_0};

impl Dot256 for BlockTq1_0 {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 1)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        [1; 16]
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

impl Dot256 for BlockTq2_0 {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 1)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        [1; 16]
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}
