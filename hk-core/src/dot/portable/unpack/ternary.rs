//! Ternary blocks.

use super::{Unpack256, put};
use crate::blocks::{BlockTq1_0, BlockTq2_0};
use crate::dot::portable::each;

impl Unpack256 for BlockTq1_0 {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let codes = self.codes();
        let codes = core::hint::black_box(&codes).as_chunks().0;
        for (to, codes) in to.as_chunks_mut().0.iter_mut().zip(codes) {
            put(Some(to), *codes, 1, 1);
        }
    }
}

impl Unpack256 for BlockTq2_0 {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let to = to.as_chunks_mut().0.chunks_mut(8);
        for (qs, to) in self.qs.iter().zip(to) {
            for (half, q) in qs.as_chunks::<16>().0.iter().enumerate() {
                for quarter in 0..4 {
                    let codes = each(*q, |q| q >> (2 * quarter) & 3);
                    put(to.get_mut(2 * quarter + half), codes, 1, 1);
                }
            }
        }
    }
}
