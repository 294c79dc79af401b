//! K-quants.

use super::terms::{Dot256, signed, twice};
use crate::blocks::k::scales_and_minimums;
use crate::blocks::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};

impl Dot256 for BlockQ2K {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 0)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        self.scales.map(|scale| (scale & 15) as i8)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }

    #[inline(always)]
    fn minimums(&self) -> Option<(f32, [u8; 16])> {
        Some((self.dmin.to_f32(), self.scales.map(|scale| scale >> 4)))
    }
}

impl Dot256 for BlockQ3K {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 4)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        signed(BlockQ3K::sub_scales(self), 32)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

impl Dot256 for BlockQ4K {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 0)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(signed(scales_and_minimums(&self.scales).0, 0))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }

    #[inline(always)]
    fn minimums(&self) -> Option<(f32, [u8; 16])> {
        Some((self.dmin.to_f32(), twice(scales_and_minimums(&self.scales).1)))
    }
}

impl Dot256 for BlockQ5K {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 0)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(signed(scales_and_minimums(&self.scales).0, 0))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }

    #[inline(always)]
    fn minimums(&self) -> Option<(f32, [u8; 16])> {
        Some((self.dmin.to_f32(), twice(scales_and_minimums(&self.scales).1)))
    }
}

impl Dot256 for BlockQ6K {
    // Apart from the sums, or the compiler does neither in vectors.
    #[inline(never)]
    fn integers(&self) -> [i8; 256] {
        signed(self.codes(), 32)
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        self.scales
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}
