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
//! Nothing here uses an instruction set: loops over arrays of `L` lanes become vector code in
//! the function of a level that all of this is inlined into.

mod generic;
mod lanes;
mod nvfp4;
mod of_256;
mod of_32;
mod table;

use zerocopy::IntoBytes;

use hk_core::Activation;
use hk_core::dot::{RowQ32, RowQ256};

use super::call::Matrix;
use lanes::each;

pub(super) use generic::Generic;
pub(super) use nvfp4::{Block64, by_blocks_of_nvfp4};
pub(super) use of_32::{Block32, Type32};
pub(super) use of_256::{Block256, Type256};
pub(super) use table::{Kernels, kernel};

/// Activations that a block is multiplied with each time it is unpacked.
pub(super) const TILE: usize = 64;

/// A vector of a level: `L` lanes where it loads them best.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Lanes<T, const L: usize>(pub(super) [T; L]);

/// The sums of a group of rows with a tile of activations: four lanes (dot-products.md, "Sum")
/// for each product.
pub(super) type Sums<const L: usize> = [[Lanes<f32, L>; TILE]; 4];

/// What a level does with vectors of `L` lanes, a lane a weight row.
///
/// Values are handed out only in functions that have the features of the level.
pub(super) trait Level<const L: usize>: Copy {
    /// Sixteen bytes of each row as four vectors: bytes `4k` to `4k + 3` in vector `k`.
    fn transpose(self, rows: [&[u8; 16]; L]) -> [[u32; L]; 4];

    /// The f16 in the low half of each lane.
    fn halves(self, bits: [u32; L]) -> [f32; L];

    /// What stands in `table` for each byte, all under 16, of `codes`.
    fn look_up(self, table: &[u8; 16], codes: [u32; L]) -> [u32; L];

    /// Adds the terms of a block of each row with block `b` of each activation to `sums`.
    /// Codes are unsigned, with the offset that is to be taken off: none (0), or the power
    /// of two that is at least half of what codes reach.
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        block: &Block32<L>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut [Lanes<f32, L>],
    );

    /// As [`add_32`](Self::add_32), for blocks of 256 weights with `SCALES` sub-scales: 16, 8
    /// or 1 (which is 1); or 0 for two planes of codes. `WIDE` codes go beyond 128. With
    /// `MINIMUM`, the corrections times `m` are taken off; else they are part of the sum.
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    );

    /// Adds the terms of a stored block of nvfp4 of each row, four blocks of 16, with blocks
    /// `2b` and `2b + 1` of each activation to the four lanes of `sums`.
    fn add_nvfp4(
        self,
        block: &Block64<L>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<L>,
    );
}

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

    /// Block `b` of each row, for all `b`.
    #[inline(always)]
    fn for_each_block(&self, mut f: impl FnMut(usize, [&'a [u8; BYTES]; L])) {
        let count = self.0.first().map_or(0, |row| row.len());
        for b in 0..count {
            let mut blocks: [&[u8; BYTES]; L] = [&[0; BYTES]; L];
            for (to, row) in blocks.iter_mut().zip(&self.0) {
                let Some(block) = row.get(b) else { return };
                *to = block;
            }
            f(b, blocks);
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
    mut sum: impl FnMut(&Group<'a, L, BYTES>, &[A], &mut Sums<L>),
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
            let mut sums = [[Lanes([0.0; L]); TILE]; 4];
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
    sums: &Sums<L>,
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
        let mut square = [Lanes([0.0; L]); L];
        let lanes = l0.iter().zip(l1).zip(l2.iter().zip(l3));
        for (to, ((l0, l1), (l2, l3))) in square.iter_mut().zip(lanes) {
            let lanes = l0.0.iter().zip(l1.0).zip(l2.0.iter().zip(l3.0));
            for (to, ((l0, l1), (l2, l3))) in to.0.iter_mut().zip(lanes) {
                *to = (l0 + l1) + (l2 + l3);
            }
        }
        put_square(level, &square, out.chunks_exact_mut(stride), at);
    }
}

/// Writes lane `r` of vector `a` to `rows[r][at + a]`, as far as there are rows, and as they
/// reach.
#[inline(always)]
fn put_square<'a, V: Level<L>, const L: usize>(
    level: V,
    square: &[Lanes<f32, L>; L],
    mut rows: impl Iterator<Item = &'a mut [f32]>,
    at: usize,
) {
    for column in 0..L / 4 {
        let mut quads = [&[0; 16]; L];
        for (to, from) in quads.iter_mut().zip(square) {
            let quad = from.0.as_chunks::<4>().0.get(column);
            *to = quad.and_then(|quad| quad.as_bytes().first_chunk()).unwrap_or(to);
        }
        for products in level.transpose(quads) {
            let Some(to) = rows.next().and_then(|row| row.get_mut(at..)) else { return };
            let products = each(products, f32::from_bits);
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
        let mut unpacked = Block32::EMPTY;
        group.for_each_block(|b, blocks| {
            T::unpack(level, blocks, &mut unpacked);
            T::add(level, &unpacked, b, activations, &mut sums[b % 4]);
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
        let mut unpacked = Block256::EMPTY;
        group.for_each_block(|b, blocks| {
            T::unpack(level, blocks, &mut unpacked);
            T::add(level, &unpacked, b, activations, &mut sums[b % 4]);
        });
    });
}
