//! Blocks of 32 weights.

use super::lanes::{both, bytes, column, each, shorts, words};
use super::{Lanes, Level};
use hk_core::dot::RowQ32;

/// A block of each row, taken apart.
#[repr(C, align(64))]
pub(in crate::arch) struct Block32<const L: usize> {
    /// Four codes of each row in a vector, unsigned: those of weights `4k` to `4k + 3` in
    /// vector `k`.
    pub(in crate::arch) codes: [[u32; L]; 8],
    /// The scales.
    pub(in crate::arch) d: [f32; L],
    /// The minimums.
    pub(in crate::arch) m: [f32; L],
}

impl<const L: usize> Block32<L> {
    pub(super) const EMPTY: Self = Block32 { codes: [[0; L]; 8], d: [0.0; L], m: [0.0; L] };

    /// The codes from nibbles: four vectors of low ones, then four of high ones.
    #[inline(always)]
    fn set_nibbles(&mut self, qs: [[u32; L]; 4], code: impl Fn([u32; L]) -> [u32; L]) {
        let (low, high) = self.codes.split_at_mut(4);
        for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
            *low = code(each(q, |q| q & bytes(15)));
            *high = code(each(q, |q| q >> 4 & bytes(15)));
        }
    }

    /// Adds fifth bits to the codes: bit `i` of `qh` to weight `i`.
    #[inline(always)]
    fn add_fifths(&mut self, qh: [u32; L]) {
        for (k, codes) in self.codes.iter_mut().enumerate() {
            // The four bits to four bytes: shifted by 0, 7, 14 and 21 none meets another.
            let spread = each(qh, |qh| (qh >> (4 * k) & 15).wrapping_mul(0x0020_4081));
            *codes = both(*codes, spread, |code, bits| code | (bits & bytes(1)) << 4);
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
        blocks: [&[u8; BYTES]; L],
        to: &mut Block32<L>,
    );

    /// [`Level::add_32`].
    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block32<L>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        match Self::OFFSET {
            8 => level.add_32::<8, false>(block, b, activations, sums),
            16 => level.add_32::<16, false>(block, b, activations, sums),
            128 => level.add_32::<128, false>(block, b, activations, sums),
            _ => level.add_32::<0, true>(block, b, activations, sums),
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
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 18]; L], to: &mut Block32<L>) {
        to.set_nibbles(level.transpose(column(&blocks, 2)), |codes| codes);
        to.d = level.halves(shorts(&blocks, 0));
    }
}

impl Type32<20> for Q4_1 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 20]; L], to: &mut Block32<L>) {
        to.set_nibbles(level.transpose(column(&blocks, 4)), |codes| codes);
        let scales = words(&blocks, 0);
        to.d = level.halves(each(scales, |bits| bits & 0xFFFF));
        to.m = level.halves(each(scales, |bits| bits >> 16));
    }
}

impl Type32<22> for Q5_0 {
    const OFFSET: u32 = 16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 22]; L], to: &mut Block32<L>) {
        to.set_nibbles(level.transpose(column(&blocks, 6)), |codes| codes);
        to.add_fifths(words(&blocks, 2));
        to.d = level.halves(shorts(&blocks, 0));
    }
}

impl Type32<24> for Q5_1 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 24]; L], to: &mut Block32<L>) {
        to.set_nibbles(level.transpose(column(&blocks, 8)), |codes| codes);
        to.add_fifths(words(&blocks, 4));
        let scales = words(&blocks, 0);
        to.d = level.halves(each(scales, |bits| bits & 0xFFFF));
        to.m = level.halves(each(scales, |bits| bits >> 16));
    }
}

impl Type32<34> for Q8_0 {
    const OFFSET: u32 = 128;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 34]; L], to: &mut Block32<L>) {
        for (to, at) in to.codes.as_chunks_mut::<4>().0.iter_mut().zip([2, 18]) {
            // A flipped sign bit is 128 added.
            for (to, q) in to.iter_mut().zip(level.transpose(column(&blocks, at))) {
                *to = each(q, |q| q ^ bytes(0x80));
            }
        }
        to.d = level.halves(shorts(&blocks, 0));
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
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 18]; L], to: &mut Block32<L>) {
        let qs = level.transpose(column(&blocks, 2));
        to.set_nibbles(qs, |codes| level.look_up(&IQ4, codes));
        to.d = level.halves(shorts(&blocks, 0));
    }
}

impl Type32<17> for Mxfp4 {
    const OFFSET: u32 = 16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 17]; L], to: &mut Block32<L>) {
        let qs = level.transpose(column(&blocks, 1));
        to.set_nibbles(qs, |codes| level.look_up(&DOUBLED, codes));
        let e = each(shorts(&blocks, 0), |bits| bits & 0xFF);
        // 2^(e - 128), a subnormal for e < 2.
        let power = |e: u32| if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 };
        to.d = each(each(e, power), f32::from_bits);
    }
}
