//! Products of weight rows with many activations: the way through the blocks, and how they are
//! taken apart, for any level.
//!
//! A level multiplies a group of `L` weight rows, as many as its vectors have lanes, with a
//! tile of activations. One block of each row at a time is unpacked, so that a vector holds
//! four consecutive codes of every row, and is multiplied with four codes of an activation,
//! which are broadcast from where they stand. The exact sums of a block with the rows stand
//! in the lanes of one vector then, next to one another like the scales of the rows, and the
//! f32 steps of dot-products.md are done for all rows at once.
//!
//! Nothing here uses an instruction set, but for what a [`Level`] does with its vectors: all
//! of it is inlined into a function of that level.

mod block_256;
mod generic;
mod lanes;
mod level;
mod nvfp4;
mod of_256;
mod of_32;
mod table;

use zerocopy::IntoBytes;

use hk_core::Activation;
use hk_core::dot::{RowQ32, RowQ256};

use super::call::Matrix;

pub(super) use block_256::Block256;
pub(super) use level::{Level, Sums};
pub(super) use nvfp4::{Block64, by_blocks_of_nvfp4};
pub(super) use of_32::{Block32, Type32};
pub(super) use of_256::Type256;
pub(super) use table::{Kernels, kernel, many};

/// Activations that a block is multiplied with each time it is unpacked.
pub(super) const TILE: usize = 64;

/// Blocks of 32 weights that are unpacked together: a fifth of the first cache. So a level can
/// go on with the same activations for a while, whose sums stay in registers. A multiple of 4.
const UNPACKED: usize = 16;

/// A group of weight rows, as blocks. A last group of fewer rows is filled up with its own
/// last row.
struct Group<'a, const L: usize, const BYTES: usize>([&'a [[u8; BYTES]]; L]);

impl<'a, const L: usize, const BYTES: usize> Group<'a, L, BYTES> {
    /// `count` rows (at least one) of `row` bytes.
    #[inline(always)]
    fn new(bytes: &'a [u8], row: usize, count: usize) -> Self {
        let mut rows: [&[[u8; BYTES]]; L] = [&[]; L];
        for (r, to) in rows.iter_mut().enumerate() {
            let start = r.min(count - 1) * row;
            *to = bytes.get(start..start + row).unwrap_or_default().as_chunks().0;
        }
        Group(rows)
    }

    /// Blocks of a row.
    #[inline(always)]
    fn blocks(&self) -> usize {
        self.0.first().map_or(0, |row| row.len())
    }

    /// Block `b` of each row, for all `b`.
    #[inline(always)]
    fn for_each_block(&self, mut f: impl FnMut(usize, &[&'a [u8; BYTES]; L])) {
        for b in 0..self.blocks() {
            let mut blocks: [&[u8; BYTES]; L] = [&[0; BYTES]; L];
            for (to, row) in blocks.iter_mut().zip(&self.0) {
                let Some(block) = row.get(b) else { return };
                *to = block;
            }
            f(b, &blocks);
        }
    }
}

/// The products of all rows with all activations: `sum` gets a group of rows and a tile of
/// activations, with all sums at 0.
#[inline(always)]
fn by_groups<'a, V, A, const L: usize, const BYTES: usize>(
    level: V,
    matrix: Matrix<'a>,
    rows_of: impl Fn(&'a [Activation<'a>]) -> Option<[A; TILE]>,
    mut sum: impl FnMut(&Group<'a, L, BYTES>, &[A], &mut Sums<V::F>),
) where
    V: Level<L>,
{
    let Matrix { mut rows, row, activations, out, .. } = matrix;
    let stride = activations.len();
    for out in out.chunks_mut(stride * L) {
        let count = out.len() / stride;
        let Some((now, rest)) = rows.split_at_checked(count * row) else { return };
        rows = rest;
        let group = Group::new(now, row, count);
        for (tile, activations) in activations.chunks(TILE).enumerate() {
            let Some(prepared) = rows_of(activations) else { return };
            let Some(prepared) = prepared.get(..activations.len()) else { return };
            let mut sums = [[level.load_floats(&[0.0; L]); TILE]; 4];
            sum(&group, prepared, &mut sums);
            put(level, &sums, activations.len(), out, stride, tile * TILE);
        }
    }
}

/// Folds the sums, and writes the product of row `r` with activation `a` of the tile to
/// `out[r * stride + at + a]`.
#[inline(always)]
fn put<V: Level<L>, const L: usize>(
    level: V,
    sums: &Sums<V::F>,
    activations: usize,
    out: &mut [f32],
    stride: usize,
    at: usize,
) {
    let [sums0, sums1, sums2, sums3] = sums;
    let lanes = sums0.as_chunks::<L>().0.iter().zip(sums1.as_chunks::<L>().0);
    let lanes = lanes.zip(sums2.as_chunks::<L>().0.iter().zip(sums3.as_chunks::<L>().0));
    // As many activations as rows at a time: a square to be transposed.
    for (at, ((l0, l1), (l2, l3))) in (at..at + activations).step_by(L).zip(lanes) {
        let mut square = [[0.0; L]; L];
        let lanes = l0.iter().zip(l1).zip(l2.iter().zip(l3));
        for (to, ((&l0, &l1), (&l2, &l3))) in square.iter_mut().zip(lanes) {
            *to = level.floats(level.add(level.add(l0, l1), level.add(l2, l3)));
        }
        put_square(level, &square, out.chunks_exact_mut(stride), at);
    }
}

/// Writes lane `r` of vector `a` to `rows[r][at + a]`, as far as there are rows, and as they
/// reach.
#[inline(always)]
fn put_square<'a, V: Level<L>, const L: usize>(
    level: V,
    square: &[[f32; L]; L],
    mut rows: impl Iterator<Item = &'a mut [f32]>,
    at: usize,
) {
    for column in 0..L / 4 {
        let mut quads = [&[0; 16]; L];
        for (to, from) in quads.iter_mut().zip(square) {
            let quad = from.as_chunks::<4>().0.get(column);
            *to = quad.and_then(|quad| quad.as_bytes().first_chunk()).unwrap_or(to);
        }
        for products in level.transpose(quads) {
            let Some(to) = rows.next().and_then(|row| row.get_mut(at..)) else { return };
            let products = level.bits_of_floats(products);
            match to.first_chunk_mut() {
                Some(to) => *to = products,
                None => to.iter_mut().zip(products).for_each(|(to, product)| *to = product),
            }
        }
    }
}

/// The rows of a tile of activations; `None` where they have another form.
#[inline(always)]
fn rows_q32<'a>(activations: &'a [Activation<'a>]) -> Option<[RowQ32<'a>; TILE]> {
    let Some(Activation::Q32(first)) = activations.first() else { return None };
    let mut rows = [*first; TILE];
    for (to, activation) in rows.iter_mut().zip(activations) {
        let Activation::Q32(row) = activation else { return None };
        *to = *row;
    }
    Some(rows)
}

/// As [`rows_q32`].
#[inline(always)]
fn rows_q256<'a>(activations: &'a [Activation<'a>]) -> Option<[RowQ256<'a>; TILE]> {
    let Some(Activation::Q256(first)) = activations.first() else { return None };
    let mut rows = [*first; TILE];
    for (to, activation) in rows.iter_mut().zip(activations) {
        let Activation::Q256(row) = activation else { return None };
        *to = *row;
    }
    Some(rows)
}

/// The products of rows of blocks of 32 weights.
#[inline(always)]
pub(super) fn by_blocks_of_32<T, V, const L: usize, const BYTES: usize>(
    level: V,
    matrix: Matrix<'_>,
) where
    T: Type32<BYTES>,
    V: Level<L>,
{
    by_groups(level, matrix, rows_q32, |group: &Group<'_, L, BYTES>, activations, sums| {
        let mut room = [Block32::zero(level); UNPACKED];
        let (mut filled, count) = (0, group.blocks());
        group.for_each_block(|b, blocks| {
            T::unpack(level, blocks, &mut room[filled]);
            filled += 1;
            if filled == UNPACKED || b + 1 == count {
                T::add(level, &room[..filled], b + 1 - filled, activations, sums);
                filled = 0;
            }
        });
    });
}

/// The products of rows of blocks of 256 weights.
#[inline(always)]
pub(super) fn by_blocks_of_256<T, V, const L: usize, const BYTES: usize>(
    level: V,
    matrix: Matrix<'_>,
) where
    T: Type256<BYTES>,
    V: Level<L>,
{
    by_groups(level, matrix, rows_q256, |group: &Group<'_, L, BYTES>, activations, sums| {
        let mut unpacked = Block256::zero(level);
        group.for_each_block(|b, blocks| {
            T::unpack(level, blocks, &mut unpacked);
            T::add(level, &unpacked, b, activations, &mut sums[b % 4]);
        });
    });
}
