//! Blocks of nvfp4, in which each 16 weights are a block of their own.

use super::lanes::{bytes, column, each, words};
use super::of_32::DOUBLED;
use super::{Group, Level, by_groups, rows_q32};
use crate::arch::call::Matrix;

/// A stored block of each row, taken apart: four blocks of 16 weights.
#[repr(C, align(64))]
pub(in crate::arch) struct Block64<const L: usize> {
    /// Four codes of each row in a vector, with an offset of 16, for each block.
    pub(in crate::arch) codes: [[[u32; L]; 4]; 4],
    /// The scales of each block.
    pub(in crate::arch) d: [[f32; L]; 4],
}

impl<const L: usize> Block64<L> {
    const EMPTY: Self = Block64 { codes: [[[0; L]; 4]; 4], d: [[0.0; L]; 4] };

    #[inline(always)]
    fn unpack<V: Level<L>>(&mut self, level: V, blocks: [&[u8; 36]; L]) {
        // Sixteen bytes are the codes of two blocks: low nibbles, then high ones.
        for (to, at) in self.codes.as_chunks_mut::<2>().0.iter_mut().zip([4, 20]) {
            let qs = level.transpose(column(&blocks, at));
            for (to, qs) in to.iter_mut().zip(qs.as_chunks::<2>().0) {
                let [low, high] = to.as_chunks_mut::<2>().0 else { return };
                for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
                    *low = level.look_up(&DOUBLED, each(*q, |q| q & bytes(15)));
                    *high = level.look_up(&DOUBLED, each(*q, |q| q >> 4 & bytes(15)));
                }
            }
        }
        let scales = words(&blocks, 0);
        for (block, d) in self.d.iter_mut().enumerate() {
            *d = each(scales, |codes| scale(codes >> (8 * block) & 0xFF));
        }
    }
}

/// Half of an unsigned E4M3. The top bit is not looked at, but where it is 0 all ones mean 0.
#[inline(always)]
fn scale(code: u32) -> f32 {
    // The exponent, 7 less than it says, moved to that of an f32; subnormals are eighths of
    // the smallest normal number, 2^-6.
    let magnitude = code & 0x7F;
    let normal = f32::from_bits((magnitude << 20) + ((127 - 7 - 1) << 23));
    let subnormal = magnitude as i32 as f32 * (1.0 / 1024.0);
    let magnitude = if magnitude < 8 { subnormal } else { normal };
    if code == 0x7F { 0.0 } else { magnitude }
}

/// The products of rows of nvfp4.
#[inline(always)]
pub(in crate::arch) fn by_blocks_of_nvfp4<V: Level<L>, const L: usize>(
    level: V,
    matrix: Matrix<'_>,
) {
    by_groups(level, matrix, rows_q32, |group: &Group<'_, L, 36>, activations, sums| {
        let mut unpacked = Block64::EMPTY;
        group.for_each_block(|b, blocks| {
            unpacked.unpack(level, blocks);
            level.add_nvfp4(&unpacked, b, activations, sums);
        });
    });
}
