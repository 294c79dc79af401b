//! 4-bit floats.

use super::Unpack32;
use crate::blocks::{BlockMxfp4, BlockNvfp4};
use crate::dot::portable::each;

/// Twice the value of a 4-bit code in the low bits: 0, 1, 2, 3, 4, 6, 8, 12, and negated. By
/// arithmetic, which goes in vectors, unlike a look-up.
#[inline(always)]
fn doubled(code: u8) -> i16 {
    let magnitude = i16::from(code & 7);
    let above = |limit| i16::from(magnitude > limit);
    let value = magnitude + above(4) + above(5) + 3 * above(6);
    if code & 8 == 0 { value } else { -value }
}

impl Unpack32 for BlockMxfp4 {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 32]) {
        let qs = self.qs;
        if let [low, high] = to.as_chunks_mut().0 {
            *low = each(qs, |q| doubled(q & 15));
            *high = each(qs, |q| doubled(q >> 4));
        }
    }
}

/// The integers of the four groups of a block.
#[inline(always)]
pub(in crate::dot::portable) fn groups(block: &BlockNvfp4, to: &mut [[i16; 16]; 4]) {
    // Two groups at a time: sixteen bytes.
    let groups = to.as_chunks_mut::<2>().0.iter_mut();
    for ([first, second], qs) in groups.zip(block.qs.as_flattened().as_chunks::<16>().0) {
        let lows = each(*qs, |q| doubled(q & 15));
        let highs = each(*qs, |q| doubled(q >> 4));
        let halves = lows.as_chunks::<8>().0.iter().zip(highs.as_chunks::<8>().0);
        for (to, (lows, highs)) in [first, second].into_iter().zip(halves) {
            if let [low, high] = to.as_chunks_mut().0 {
                (*low, *high) = (*lows, *highs);
            }
        }
    }
}
