//! The legacy blocks of 32 weights.

use super::terms::{Dot32, signed};
use crate::blocks::unpack::nibbles;
use crate::blocks::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, legacy::five_bits};

impl Dot32 for BlockQ4_0 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        signed(nibbles(&self.qs), 8)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

impl Dot32 for BlockQ4_1 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        signed(nibbles(&self.qs), 0)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }

    #[inline(always)]
    fn minimum(&self) -> Option<f32> {
        Some(self.m.to_f32())
    }
}

impl Dot32 for BlockQ5_0 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        signed(five_bits(self.qh, &self.qs), 16)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

impl Dot32 for BlockQ5_1 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        signed(five_bits(self.qh, &self.qs), 0)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }

    #[inline(always)]
    fn minimum(&self) -> Option<f32> {
        Some(self.m.to_f32())
    }
}

impl Dot32 for BlockQ8_0 {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        self.qs
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}
