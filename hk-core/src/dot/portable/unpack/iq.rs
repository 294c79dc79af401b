//! I-quants.

use crate::dot::portable::each;
use core::hint::black_box;

use super::{Unpack32, Unpack256};
use crate::blocks::codebooks::{IQ1, IQ4_PAIRS};
use crate::blocks::iq::Group;
use crate::blocks::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs,
};
use crate::dot::oracle::terms::Dot256;

/// For each sign byte, ones in the bytes whose bits are set.
static SIGNS: [u64; 256] = {
    let mut masks = [0; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut bit = 0;
        while bit < 8 {
            masks[signs] |= ((signs as u64 >> bit & 1) * 0xFF) << (8 * bit);
            bit += 1;
        }
        signs += 1;
    }
    masks
};

/// Eight magnitudes, negated where the bit of `signs` is set. None is 0, so that no byte
/// carries into the next.
#[inline(always)]
fn negate(magnitudes: [u8; 8], signs: u8) -> [u8; 8] {
    let mask = SIGNS[usize::from(signs)];
    let flipped = u64::from_le_bytes(magnitudes) ^ mask;
    flipped.wrapping_add(mask & 0x0101_0101_0101_0101).to_le_bytes()
}

/// A group of four rows of eight magnitudes.
#[inline(always)]
fn four_rows(group: &Group<4, 8>, to: &mut [[u8; 8]; 4]) {
    for ((to, row), signs) in to.iter_mut().zip(group.rows).zip(group.signs) {
        *to = negate(*row, signs);
    }
}

/// A group of eight rows of four magnitudes.
#[inline(always)]
fn eight_rows(group: &Group<8, 4>, to: &mut [[u8; 8]; 4]) {
    let (rows, signs) = (group.rows.as_chunks::<2>().0, group.signs.as_chunks::<2>().0);
    for ((to, &[a, b]), &[low, high]) in to.iter_mut().zip(rows).zip(signs) {
        let [[a0, a1, a2, a3], [b0, b1, b2, b3]] = [*a, *b];
        *to = negate([a0, a1, a2, a3, b0, b1, b2, b3], low | high << 4);
    }
}

/// The integers of a block, by `unpack` from each of its `groups` of 32, times the scales of
/// their sub-blocks.
#[inline(always)]
fn scaled<G>(
    groups: impl Iterator<Item = G>,
    unpack: impl Fn(&G, &mut [[u8; 8]; 4]),
    scales: [i8; 16],
    to: &mut [i16; 256],
) {
    let mut integers = [[[0; 8]; 4]; 8];
    for (integers, group) in integers.iter_mut().zip(groups) {
        unpack(&group, integers);
    }
    // Through memory, or the compiler makes scalar code of both steps.
    let integers = black_box(&integers).as_flattened().as_flattened().as_chunks::<16>().0;
    for ((to, integers), sc) in to.as_chunks_mut().0.iter_mut().zip(integers).zip(scales) {
        *to = each(*integers, |integer| i16::from(integer as i8) * i16::from(sc));
    }
}

impl Unpack256 for BlockIq2Xxs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self.qs.iter().map(Self::group), four_rows, self.sub_scales(), to);
    }
}

impl Unpack256 for BlockIq2Xs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self.qs.iter().map(Self::group), four_rows, self.sub_scales(), to);
    }
}

impl Unpack256 for BlockIq2S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self.groups(), four_rows, self.sub_scales(), to);
    }
}

impl Unpack256 for BlockIq3Xxs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let groups = self.qs.iter().zip(self.signs).map(|(qs, signs)| Self::group(qs, signs));
        scaled(groups, eight_rows, self.sub_scales(), to);
    }
}

impl Unpack256 for BlockIq3S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        scaled(self.groups(), eight_rows, Dot256::sub_scales(self), to);
    }
}

/// A row of -1, 0 and 1 in eighths, each with an eighth added or taken off.
#[inline(always)]
fn shifted(row: usize, down: bool) -> [u8; 8] {
    const TOPS: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let eighths = u64::from_le_bytes(IQ1[row & 2047]) << 3 & (ONES * 0xF8);
    // Each byte less 1 without a borrow from the next.
    let less = ((eighths | TOPS) - ONES) ^ (!eighths & TOPS);
    (if down { less } else { eighths | ONES }).to_le_bytes()
}

impl Unpack256 for BlockIq1S {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let eights = |&(&qs, qh): &(&[u8; 4], u16), to: &mut [[u8; 8]; 4]| {
            *to = Self::rows(qs, qh).map(|row| shifted(row, qh >> 15 != 0));
        };
        let groups = self.qs.iter().zip(self.qh.map(u16::from_le_bytes));
        scaled(groups, eights, self.sub_scales(), to);
    }
}

impl Unpack256 for BlockIq1M {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let eights = |&(qs, &qh): &(&[u8; 4], &[u8; 2]), to: &mut [[u8; 8]; 4]| {
            for (to, (&q, n)) in to.iter_mut().zip(qs.iter().zip(Self::high(qh))) {
                *to = shifted(usize::from(q) | usize::from(n & 7) << 8, n & 8 != 0);
            }
        };
        scaled(self.qs.iter().zip(&self.qh), eights, Dot256::sub_scales(self), to);
    }
}

/// What 4-bit codes of unevenly spaced values stand for, two codes a look-up.
#[inline(always)]
fn uneven(qs: &[u8; 16]) -> [i16; 16] {
    each(*qs, |q| IQ4_PAIRS[usize::from(q)] as i16)
}

impl Unpack32 for BlockIq4Nl {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 32]) {
        let pairs = *black_box(&uneven(&self.qs));
        if let [low, high] = to.as_chunks_mut().0 {
            *low = each(pairs, |pair| pair << 8 >> 8);
            *high = each(pairs, |pair| pair >> 8);
        }
    }
}

impl Unpack256 for BlockIq4Xs {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let mut pairs = [[0; 16]; 8];
        for (pairs, qs) in pairs.iter_mut().zip(&self.qs) {
            *pairs = uneven(qs);
        }
        let (pairs, scales) = (black_box(&pairs), Dot256::sub_scales(self));
        let groups = to.as_chunks_mut::<32>().0.iter_mut().zip(pairs);
        for ((to, pairs), &[scale, _]) in groups.zip(scales.as_chunks().0) {
            if let [low, high] = to.as_chunks_mut().0 {
                *low = each(*pairs, |pair| (pair << 8 >> 8) * i16::from(scale));
                *high = each(*pairs, |pair| (pair >> 8) * i16::from(scale));
            }
        }
    }
}
