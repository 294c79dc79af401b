//! The legacy blocks of 32 weights.

use super::Encode;
use super::scale::{LARGEST_F16, f16, inverse, largest, rounded};
use crate::blocks::BlockQ8_0;

impl Encode<32> for BlockQ8_0 {
    const LARGEST: f32 = 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, scale) = f16(largest(weights) / 127.0);
        let inverse = inverse(scale);
        let mut qs = [0; 32];
        for (q, x) in qs.iter_mut().zip(weights) {
            *q = rounded(x * inverse).clamp(-127, 127) as i8;
        }
        BlockQ8_0 { d, qs }
    }
}
