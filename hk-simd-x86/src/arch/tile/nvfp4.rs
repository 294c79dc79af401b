//! Blocks of nvfp4, in which each 16 weights are a block of their own.

use super::lanes::{bits, columns};
use super::of_32::DOUBLED;
use super::{Group, Level, by_groups, rows_q32};
use crate::arch::call::Matrix;
use crate::arch::scales::NVFP4;

/// A stored block of each row, taken apart: four blocks of 16 weights.
pub(in crate::arch) struct Block64<V, F> {
    /// Four codes of each row in a vector, with an offset of 16, for each block.
    pub(in crate::arch) codes: [[V; 4]; 4],
    /// The scales of each block.
    pub(in crate::arch) d: [F; 4],
}

impl<V: Copy, F: Copy> Block64<V, F> {
    #[inline(always)]
    fn unpack<const L: usize>(level: impl Level<L, V = V, F = F>, blocks: &[&[u8; 36]; L]) -> Self {
        let [q0, q1, q2, q3, q4, q5, q6, q7] = columns(level, blocks, 4);
        Block64 {
            codes: [
                integers(level, [q0, q1]),
                integers(level, [q2, q3]),
                integers(level, [q4, q5]),
                integers(level, [q6, q7]),
            ],
            d: [
                scales(level, blocks, 0),
                scales(level, blocks, 1),
                scales(level, blocks, 2),
                scales(level, blocks, 3),
            ],
        }
    }
}

/// What eight bytes of a block stand for: low nibbles, then high ones.
#[inline(always)]
fn integers<V: Level<L>, const L: usize>(level: V, [a, b]: [V::V; 2]) -> [V::V; 4] {
    [
        level.look_up(&DOUBLED, bits(level, a, 0, 15)),
        level.look_up(&DOUBLED, bits(level, b, 0, 15)),
        level.look_up(&DOUBLED, bits(level, a, 4, 15)),
        level.look_up(&DOUBLED, bits(level, b, 4, 15)),
    ]
}

/// The scales that stand at byte `at` of the blocks.
#[inline(always)]
fn scales<V: Level<L>, const L: usize>(level: V, blocks: &[&[u8; 36]; L], at: usize) -> V::F {
    let mut scales = [0.0; L];
    for (scale, block) in scales.iter_mut().zip(blocks) {
        *scale = block.get(at).map_or(0.0, |&code| NVFP4[usize::from(code)]);
    }
    level.load_floats(&scales)
}

/// The products of rows of nvfp4.
#[inline(always)]
pub(in crate::arch) fn by_blocks_of_nvfp4<V: Level<L>, const L: usize>(
    level: V,
    matrix: Matrix<'_>,
) {
    by_groups(level, matrix, rows_q32, |group: &Group<'_, L, 36>, activations, sums| {
        group.for_each_block(|b, blocks| {
            level.add_nvfp4(&Block64::unpack(level, blocks), b, activations, sums);
        });
    });
}
