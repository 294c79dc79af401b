//! Rows of blocks: unpacked to 16-bit integers, which are multiplied with the codes of the
//! activations by pairs (`pmaddwd`, `smlal`, `smlad`, `i32x4.dot_i16x8_s`).

use crate::dot::portable::each;
use core::hint::black_box;

use zerocopy::FromBytes;

use super::Weights;
use super::matrix::{Matrix, TILE};
use super::quantized::Quantized;
use crate::dot::{Activation, fold4};

/// 16-bit integers where vector registers want them.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned<const N: usize>([i16; N]);

/// The exact sum of the products of `w` and `q`.
#[inline(always)]
pub(super) fn multiply<const N: usize>(w: &[i16; N], q: &[i16; N]) -> i32 {
    let product = |(&w, &q)| i32::from(w) * i32::from(q);
    // The compiler adds by pairs what stands in one sum, and what sixteen sums get at once.
    if N <= 32 {
        return w.iter().zip(q).map(product).sum();
    }
    let mut sums = [0; 16];
    for (w, q) in w.as_chunks::<16>().0.iter().zip(q.as_chunks::<16>().0) {
        for (sum, pair) in sums.iter_mut().zip(w.iter().zip(q)) {
            *sum += product(pair);
        }
    }
    sums.iter().sum()
}

/// The exact sums of the products of a block of each row with the codes `q`.
#[inline(always)]
fn multiply_rows<const R: usize, const N: usize>(w: &[Aligned<N>; R], q: &[i8; N]) -> [i32; R] {
    // Widened once for all rows.
    let mut wide = Aligned([0; N]);
    for (wide, q) in wide.0.as_chunks_mut::<16>().0.iter_mut().zip(q.as_chunks::<16>().0) {
        *wide = each(*q, i16::from);
    }
    let wide = black_box(&wide);
    // Each sum on its own: from what the compiler sees of all of them together it makes
    // scalar code.
    w.each_ref().map(|w| black_box(multiply(&w.0, &wide.0)))
}

/// One block of each of `R` rows, taken apart.
#[derive(Clone, Copy)]
struct Blocks<const N: usize, const R: usize> {
    integers: [Aligned<N>; R],
    scales: [f32; R],
    minimum_scales: [f32; R],
    minimums: [[i16; 16]; R],
}

impl<const N: usize, const R: usize> Blocks<N, R> {
    const EMPTY: Self = Blocks {
        integers: [Aligned([0; N]); R],
        scales: [0.0; R],
        minimum_scales: [0.0; R],
        minimums: [[0; 16]; R],
    };

    /// Takes apart block `b` of each row.
    #[inline(always)]
    fn unpack<B: Weights<N>>(&mut self, rows: &[&[B]; R], b: usize) {
        let minimums = self.minimum_scales.iter_mut().zip(&mut self.minimums);
        let to = self.integers.iter_mut().zip(&mut self.scales).zip(minimums);
        for (row, ((integers, scale), (minimum_scale, minimums))) in rows.iter().zip(to) {
            let Some(block) = row.get(b) else { return };
            block.unpack(&mut integers.0);
            *scale = block.scale();
            if B::HAS_MINIMUMS {
                (*minimum_scale, *minimums) = block.minimums();
            }
        }
    }

    /// The terms of the blocks with an activation block.
    #[inline(always)]
    fn terms<B: Weights<N>, A: Quantized<N>>(&self, activation: A::Block<'_>) -> [f32; R] {
        let sums = multiply_rows(&self.integers, A::codes(&activation));
        let mut terms = [0.0; R];
        for ((term, scale), sum) in terms.iter_mut().zip(self.scales).zip(sums) {
            *term = scale * A::scale(&activation) * sum as f32;
        }
        if B::HAS_MINIMUMS {
            let minimums = self.minimum_scales.iter().zip(&self.minimums);
            for (term, (&scale, minimums)) in terms.iter_mut().zip(minimums) {
                *term = A::with_minimum(*term, scale, minimums, &activation);
            }
        }
        terms
    }
}

/// The products of `R` rows with all activations, `STEP` blocks at a time.
#[inline(always)]
fn rows<B, A, const N: usize, const STEP: usize, const R: usize>(
    rows: [&[u8]; R],
    activations: &[Activation<'_>],
    mut out: [&mut [f32]; R],
) where
    B: Weights<N>,
    A: Quantized<N>,
{
    let rows = rows.map(|row| <[B]>::ref_from_bytes(row).unwrap_or_default());
    let count = rows.first().map_or(0, |row| row.len());
    for (tile, activations) in activations.chunks(TILE).enumerate() {
        let mut lanes = [[[0.0; R]; 4]; TILE];
        let mut unpacked = [Blocks::<N, R>::EMPTY; STEP];
        for first in (0..count).step_by(STEP) {
            for (b, blocks) in (first..count).zip(&mut unpacked) {
                blocks.unpack(&rows, b);
            }
            let unpacked = black_box(&unpacked);
            for (activation, lanes) in activations.iter().zip(&mut lanes) {
                for (b, blocks) in (first..count).zip(unpacked) {
                    let Some(activation) = A::block(activation, b) else { break };
                    let terms = blocks.terms::<B, A>(activation);
                    for (lane, term) in lanes[b % 4].iter_mut().zip(terms) {
                        *lane += term;
                    }
                }
            }
        }
        for (a, (lanes, _)) in lanes.iter().zip(activations).enumerate() {
            let [l0, l1, l2, l3] = lanes;
            for (r, out) in out.iter_mut().enumerate() {
                let lanes = [l0, l1, l2, l3].map(|lane| lane.get(r).copied().unwrap_or(f32::NAN));
                if let Some(out) = out.get_mut(tile * TILE + a) {
                    *out = fold4(lanes);
                }
            }
        }
    }
}

/// Rows of blocks of `N` weights, `STEP` of which are unpacked at a time.
#[inline(always)]
pub(super) fn by_blocks<B, A, const N: usize, const STEP: usize>(matrix: Matrix<'_>)
where
    B: Weights<N>,
    A: Quantized<N>,
{
    matrix.by_rows(rows::<B, A, N, STEP, 4>, rows::<B, A, N, STEP, 1>);
}
