//! Types of blocks of 256 weights.

use hk_core::dot::RowQ256;

use super::Level;
use super::block_256::{Block256, scales_of_q3_k, scales_of_q6_k};
use super::lanes::{bits, column, columns, shorts, two_halves, words};
use super::of_32::IQ4;

/// A type of blocks of 256 weights. The constants stand in [`Level::add_256`], which they are
/// for.
pub(in crate::arch) trait Type256<const BYTES: usize> {
    const KIND: Kind;

    /// Takes a block of each row apart.
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; BYTES]; L],
        to: &mut Block256<V::V, V::F>,
    );

    /// [`Level::add_256`].
    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<V::V, V::F>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [V::F],
    ) {
        match Self::KIND {
            Kind::Planes => level.add_256::<0, false, false>(block, b, activations, sums),
            Kind::Ternary => level.add_256::<1, false, false>(block, b, activations, sums),
            Kind::By16 => level.add_256::<16, false, false>(block, b, activations, sums),
            Kind::By16WithMinimums => level.add_256::<16, false, true>(block, b, activations, sums),
            Kind::By32WithMinimums => level.add_256::<8, false, true>(block, b, activations, sums),
            Kind::WideBy32 => level.add_256::<8, true, false>(block, b, activations, sums),
        }
    }
}

/// What [`Level::add_256`] is to be made for.
#[derive(Clone, Copy)]
pub(in crate::arch) enum Kind {
    /// Two planes of codes, sub-scales included.
    Planes,
    /// No sub-scales.
    Ternary,
    /// Sub-scales of 16 weights.
    By16,
    By16WithMinimums,
    /// Sub-scales of 32 weights.
    By32WithMinimums,
    /// Sub-scales of 32 weights; codes beyond 128.
    WideBy32,
}

pub(in crate::arch) enum Q2K {}
pub(in crate::arch) enum Q3K {}
pub(in crate::arch) enum Q4K {}
pub(in crate::arch) enum Q5K {}
pub(in crate::arch) enum Q6K {}
pub(in crate::arch) enum Iq4Xs {}
pub(in crate::arch) enum Tq1_0 {}
pub(in crate::arch) enum Tq2_0 {}

impl Type256<84> for Q2K {
    const KIND: Kind = Kind::By16WithMinimums;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 84]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_two_bits(level, blocks, 16);
        // Scales are the low nibbles, minimums the high ones.
        let packed = column(level, blocks, 0);
        to.set_scales_of_16(level, packed, |packed| level.and(packed, level.splat(15)));
        let minimums = to.corrections.as_chunks_mut::<2>().0;
        for ([first, second], packed) in minimums.iter_mut().zip(packed) {
            // Two bytes of minimums, each in the low part of 16 bits.
            let two = |packed| level.and(packed, level.splat(0x000F_000F));
            let spread = |packed| {
                level.or(
                    level.and(packed, level.splat(0xFF)),
                    level.shift_left(level.and(packed, level.splat(0xFF00)), 8),
                )
            };
            *first = two(level.shift_right(spread(packed), 4));
            *second = two(level.shift_right(spread(level.shift_right(packed, 16)), 4));
        }
        (to.d, to.m) = two_halves(level, blocks, 80);
    }
}

impl Type256<110> for Q3K {
    const KIND: Kind = Kind::By16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 110]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_two_bits(level, blocks, 32);
        to.add_bits(level, blocks, 0, 2);
        scales_of_q3_k(level, blocks, to);
        to.take_off_by_16(level, 2);
        to.d = level.halves(shorts(level, blocks, 108));
    }
}

impl Type256<144> for Q4K {
    const KIND: Kind = Kind::By32WithMinimums;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 144]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_scales_and_minimums(level, column(level, blocks, 0));
        to.set_nibbles(level, blocks, 16);
    }
}

impl Type256<176> for Q5K {
    const KIND: Kind = Kind::By32WithMinimums;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 176]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_scales_and_minimums(level, column(level, blocks, 0));
        to.set_nibbles(level, blocks, 48);
        to.add_bits(level, blocks, 16, 4);
    }
}

impl Type256<210> for Q6K {
    const KIND: Kind = Kind::By16;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 210]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_six_bits(level, blocks);
        scales_of_q6_k(level, blocks, to);
        to.take_off_by_16(level, 5);
        to.d = level.halves(shorts(level, blocks, 208));
    }
}

impl Type256<136> for Iq4Xs {
    const KIND: Kind = Kind::WideBy32;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 136]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        for (j, codes) in to.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let (low, high) = codes.split_at_mut(4);
            let packed = column(level, blocks, 8 + 16 * j);
            for ((low, high), q) in low.iter_mut().zip(high).zip(packed) {
                *low = level.look_up(&IQ4, bits(level, q, 0, 15));
                *high = level.look_up(&IQ4, bits(level, q, 4, 15));
            }
        }
        let (head, low) = (words(level, blocks, 0), words(level, blocks, 4));
        for (j, scale) in (0..8).zip(&mut to.scales) {
            let low = level.and(level.shift_right(low, 4 * j), level.splat(15));
            let high = level.and(level.shift_right(head, 16 + 2 * j), level.splat(3));
            *scale = level.sub(level.or(low, level.shift_left(high, 4)), level.splat(32));
        }
        to.take_off_by_32(level, 7);
        to.d = level.halves(head);
    }
}

impl Type256<54> for Tq1_0 {
    const KIND: Kind = Kind::Ternary;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 54]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        let (of_32, of_16) = (columns(level, blocks, 0), column(level, blocks, 32));
        to.set_digits(level, of_32, of_16, words(level, blocks, 48));
        // An offset of 1.
        to.corrections = [level.splat(u32::MAX); 8];
        to.d = level.halves(shorts(level, blocks, 52));
    }
}

impl Type256<66> for Tq2_0 {
    const KIND: Kind = Kind::Ternary;

    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: &[&[u8; 66]; L],
        to: &mut Block256<V::V, V::F>,
    ) {
        to.set_two_bits(level, blocks, 0);
        // An offset of 1.
        to.corrections = [level.splat(u32::MAX); 8];
        to.d = level.halves(shorts(level, blocks, 64));
    }
}
