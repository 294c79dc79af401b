//! Rows of `nvfp4`, in which each 16 weights are a block of their own: the four of a stored
//! block go to the four lanes.

use crate::dot::portable::each;
use core::hint::black_box;

use zerocopy::FromBytes;

use super::matrix::{Matrix, TILE};
use super::tile::multiply;
use super::unpack::fp4::groups;
use crate::blocks::BlockNvfp4;
use crate::dot::{Activation, fold4};

/// Integers of a stored block where vector registers want them, and its scales.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Unpacked {
    integers: [[i16; 16]; 4],
    scales: [f32; 4],
}

/// The codes of two activation blocks, widened.
#[repr(align(64))]
struct Wide([[i16; 16]; 4]);

/// The products of `R` rows with all activations.
#[inline(always)]
fn rows<const R: usize>(
    rows: [&[u8]; R],
    activations: &[Activation<'_>],
    mut out: [&mut [f32]; R],
) {
    let rows = rows.map(|row| <[BlockNvfp4]>::ref_from_bytes(row).unwrap_or_default());
    let count = rows.first().map_or(0, |row| row.len());
    for (tile, activations) in activations.chunks(TILE).enumerate() {
        let mut lanes = [[[0.0; 4]; R]; TILE];
        let mut unpacked = [Unpacked { integers: [[0; 16]; 4], scales: [0.0; 4] }; R];
        for b in 0..count {
            for (row, to) in rows.iter().zip(&mut unpacked) {
                let Some(block) = row.get(b) else { continue };
                groups(black_box(block), &mut to.integers);
                to.scales = each(block.d, BlockNvfp4::scale);
            }
            let unpacked = black_box(&unpacked);
            for (activation, lanes) in activations.iter().zip(&mut lanes) {
                let Activation::Q32(activation) = activation else { continue };
                let (q, d) = (activation.q().as_chunks::<2>().0, activation.d().as_chunks().0);
                let (Some(q), Some(&[d0, d1])) = (q.get(b), d.get(b)) else { break };
                let mut wide = Wide([[0; 16]; 4]);
                for (wide, q) in wide.0.iter_mut().zip(q.as_flattened().as_chunks::<16>().0) {
                    *wide = each(*q, i16::from);
                }
                let wide = black_box(&wide);
                for (lanes, unpacked) in lanes.iter_mut().zip(unpacked) {
                    add_terms(lanes, unpacked, wide, [d0, d0, d1, d1]);
                }
            }
        }
        for (a, (lanes, _)) in lanes.iter().zip(activations).enumerate() {
            for (out, lanes) in out.iter_mut().zip(lanes) {
                if let Some(out) = out.get_mut(tile * TILE + a) {
                    *out = fold4(*lanes);
                }
            }
        }
    }
}

/// Adds the terms of the four parts of a stored block to the lanes of its row.
#[inline(always)]
fn add_terms(lanes: &mut [f32; 4], weights: &Unpacked, q: &Wide, d: [f32; 4]) {
    // How many there are stays unknown to the compiler, so that it leaves this a loop: out of
    // the four sums together it makes scalar code.
    let integers = black_box(weights.integers.as_slice());
    let mut sums = [0; 4];
    for ((sum, w), q) in sums.iter_mut().zip(integers).zip(&q.0) {
        *sum = multiply(w, q);
    }
    for (((lane, scale), d), sum) in lanes.iter_mut().zip(weights.scales).zip(d).zip(sums) {
        *lane += scale * d * sum as f32;
    }
}

/// The products of rows of `nvfp4`, whose activations are [`Q32`](Activation::Q32); of other
/// activations products are 0.
#[inline(always)]
pub fn by_blocks_of_nvfp4(matrix: Matrix<'_>) {
    matrix.by_rows(rows::<4>, rows::<1>);
}

/// [`by_blocks_of_nvfp4`] as a function of its own.
#[inline(never)]
pub(super) fn by_blocks(matrix: Matrix<'_>) {
    by_blocks_of_nvfp4(matrix);
}
