//! Blocks of 32 weights.

use hk_core::dot::RowQ32;

use super::lanes::{bits, bytes, column, columns, shorts, two_halves, words};
use super::{Level, Sums};
use crate::arch::scales::MXFP4;

/// A block of each row, taken apart.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Block32<V, F> {
    /// Four codes of each row in a vector, unsigned: those of weights `4k` to `4k + 3` in
    /// vector `k`.
    pub(in crate::arch) codes: [V; 8],
    /// The scales.
    pub(in crate::arch) d: F,
    /// The minimums.
    pub(in crate::arch) m: F,
}

impl<V: Copy, F: Copy> Block32<V, F> {
    /// Blocks of nothing but zeros.
    #[inline(always)]
    pub(super) fn zero<const L: usize>(level: impl Level<L, V = V, F = F>) -> Self {
        let zero = level.load_floats(&[0.0; L]);
        Block32 { codes: [level.splat(0); 8], d: zero, m: zero }
    }

    /// The codes from nibbles: four vectors of low ones, then four of high ones.
    #[inline(always)]
    fn set_nibbles<const L: usize>(&mut self, level: impl Level<L, V = V>, qs: [V; 4]) {
        let [q0, q1, q2, q3] = qs;
        let [c0, c1, c2, c3, c4, c5, c6, c7] = &mut self.codes;
        for (low, high, q) in [(c0, c4, q0), (c1, c5, q1), (c2, c6, q2), (c3, c7, q3)] {
            *low = bits(level, q, 0, 15);
            *high = bits(level, q, 4, 15);
        }
    }

    /// What stands in `table` for each code, all of which are under 16.
    #[inline(always)]
    fn look_up<const L: usize>(&mut self, level: impl Level<L, V = V>, table: &[u8; 16]) {
        for codes in &mut self.codes {
            *codes = level.look_up(table, *codes);
        }
    }

    /// Adds fifth bits to the codes: bit `i` of `qh` to weight `i`.
    #[inline(always)]
    fn add_fifths<const L: usize>(&mut self, level: impl Level<L, V = V>, qh: V) {
        for (k, codes) in (0..8).zip(&mut self.codes) {
            // The four bits to four bytes: shifted by 4, 11, 18 and 25 none meets another.
            let four = level.and(level.shift_right(qh, 4 * k), level.splat(15));
            let spread = level.mul(four, level.splat(0x0204_0810));
            *codes = level.or(*codes, level.and(spread, level.splat(bytes(16))));
        }
    }
}

/// A type of blocks of 32 weights.
pub(in crate::arch) trait Type32<const BYTES: usize> {
    /// What is to be taken off codes; see [`Level::add_32`].
    const OFFSET: u32 = 0;

    /// Takes a block of each row apart.
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; BYTES]; L],
        to: &mut Block32<V::V, V::F>,
    );

    /// [`Level::add_32`].
    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[Block32<V::V, V::F>],
        first: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<V::F>,
    ) {
        match Self::OFFSET {
            8 => level.add_32::<8, false>(blocks, first, activations, sums),
            16 => level.add_32::<16, false>(blocks, first, activations, sums),
            128 => level.add_32::<128, false>(blocks, first, activations, sums),
            _ => level.add_32::<0, true>(blocks, first, activations, sums),
        }
    }
}

pub(in crate::arch) enum Q4_0 {}
pub(in crate::arch) enum Q4_1 {}
pub(in crate::arch) enum Q5_0 {}
pub(in crate::arch) enum Q5_1 {}
pub(in crate::arch) enum Q8_0 {}
pub(in crate::arch) enum Iq4Nl {}
pub(in crate::arch) enum Mxfp4 {}

impl Type32<18> for Q4_0 {
    const OFFSET: u32 = 8;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 18]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 2));
        to.d = level.halves(shorts(level, blocks, 0));
    }
}

impl Type32<20> for Q4_1 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 20]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 4));
        (to.d, to.m) = two_halves(level, blocks, 0);
    }
}

impl Type32<22> for Q5_0 {
    const OFFSET: u32 = 16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 22]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 6));
        to.add_fifths(level, words(level, blocks, 2));
        to.d = level.halves(shorts(level, blocks, 0));
    }
}

impl Type32<24> for Q5_1 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 24]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 8));
        to.add_fifths(level, words(level, blocks, 4));
        (to.d, to.m) = two_halves(level, blocks, 0);
    }
}

impl Type32<34> for Q8_0 {
    const OFFSET: u32 = 128;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 34]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.codes = columns(level, blocks, 2);
        for codes in &mut to.codes {
            // A flipped sign bit is 128 added.
            *codes = level.xor(*codes, level.splat(bytes(0x80)));
        }
        to.d = level.halves(shorts(level, blocks, 0));
    }
}

/// What the 4-bit codes of iq4_nl and iq4_xs stand for, with an offset of 128.
pub(super) static IQ4: [u8; 16] =
    [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// Twice what the 4-bit codes of mxfp4 and nvfp4 stand for, with an offset of 16.
pub(super) static DOUBLED: [u8; 16] =
    [16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4];

impl Type32<18> for Iq4Nl {
    const OFFSET: u32 = 128;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 18]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 2));
        to.look_up(level, &IQ4);
        to.d = level.halves(shorts(level, blocks, 0));
    }
}

impl Type32<17> for Mxfp4 {
    const OFFSET: u32 = 16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 17]; L],
        to: &mut Block32<V::V, V::F>,
    ) {
        to.set_nibbles(level, column(level, blocks, 1));
        to.look_up(level, &DOUBLED);
        let mut d = [0.0; L];
        for (d, block) in d.iter_mut().zip(blocks) {
            *d = MXFP4[usize::from(block[0])];
        }
        to.d = level.load_floats(&d);
    }
}
