//! I-quants.

use super::terms::{Dot32, Dot256, twice};
use crate::blocks::codebooks::{IQ1, IQ4};
use crate::blocks::unpack::nibbles;
use crate::blocks::{
    BlockIq1M, BlockIq1S, BlockIq2S, BlockIq2Xs, BlockIq2Xxs, BlockIq3S, BlockIq3Xxs, BlockIq4Nl,
    BlockIq4Xs,
};

/// The integers of a block, from those of its groups of 32.
#[inline(always)]
fn by_groups(groups: impl Iterator<Item = [i8; 32]>) -> [i8; 256] {
    let mut integers = [0; 256];
    for (to, group) in integers.as_chunks_mut().0.iter_mut().zip(groups) {
        *to = group;
    }
    integers
}

/// The scale of a group as most I-quants have it, `0.5 + s`, doubled.
#[inline(always)]
fn odd(s: u8) -> i8 {
    (2 * (s & 15) + 1) as i8
}

/// The scales of two halves, one a nibble, for each group of 32.
#[inline(always)]
fn odd_halves(scales: [u8; 8]) -> [i8; 16] {
    let mut odds = [0; 16];
    for (halves, scale) in odds.as_chunks_mut().0.iter_mut().zip(scales) {
        *halves = [odd(scale), odd(scale >> 4)];
    }
    odds
}

/// The integers of a row of -1, 0 and 1 that is shifted by an eighth, in eighths.
#[inline(always)]
fn eighths(row: usize, down: bool) -> [i8; 8] {
    let delta = if down { -1 } else { 1 };
    IQ1[row & 2047].map(|g| 8 * (g as i8) + delta)
}

impl Dot256 for BlockIq1S {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.qs.iter().zip(self.qh).map(|(&qs, qh)| {
            let qh = u16::from_le_bytes(qh);
            let mut group = [0; 32];
            for (to, row) in group.as_chunks_mut().0.iter_mut().zip(Self::rows(qs, qh)) {
                *to = eighths(row, qh & 0x8000 != 0);
            }
            group
        }))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(self.qh.map(|qh| odd((u16::from_le_bytes(qh) >> 12 & 7) as u8)))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.125 * self.d.to_f32()
    }
}

impl Dot256 for BlockIq1M {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.qs.iter().zip(self.qh).map(|(&qs, qh)| {
            let mut group = [0; 32];
            let rows = qs.into_iter().zip(Self::high(qh));
            for (to, (q, n)) in group.as_chunks_mut().0.iter_mut().zip(rows) {
                *to = eighths(usize::from(q) | usize::from(n & 7) << 8, n & 8 != 0);
            }
            group
        }))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        BlockIq1M::sub_scales(self).map(odd)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.125 * self.d().to_f32()
    }
}

impl Dot256 for BlockIq2Xxs {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.qs.iter().map(|group| Self::group(group).integers()))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(self.qs.map(|group| odd(Self::sub_scale(&group))))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.125 * self.d.to_f32()
    }
}

impl Dot256 for BlockIq2Xs {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.qs.iter().map(|group| Self::group(group).integers()))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        odd_halves(self.scales)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.125 * self.d.to_f32()
    }
}

impl Dot256 for BlockIq2S {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.groups().map(|group| group.integers()))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        odd_halves(self.scales)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.125 * self.d.to_f32()
    }
}

impl Dot256 for BlockIq3Xxs {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(
            self.qs.iter().zip(self.signs).map(|(qs, signs)| Self::group(qs, signs).integers()),
        )
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(self.signs.map(|signs| odd(signs[3] >> 4)))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        0.25 * self.d.to_f32()
    }
}

impl Dot256 for BlockIq3S {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.groups().map(|group| group.integers()))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(BlockIq3S::sub_scales(self).map(odd))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

/// What 4-bit codes of unevenly spaced values stand for.
#[inline(always)]
fn uneven(qs: &[u8; 16]) -> [i8; 32] {
    nibbles(qs).map(|code| IQ4[usize::from(code & 15)])
}

impl Dot32 for BlockIq4Nl {
    #[inline(always)]
    fn integers(&self) -> [i8; 32] {
        uneven(&self.qs)
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}

impl Dot256 for BlockIq4Xs {
    #[inline(always)]
    fn integers(&self) -> [i8; 256] {
        by_groups(self.qs.iter().map(uneven))
    }

    #[inline(always)]
    fn sub_scales(&self) -> [i8; 16] {
        twice(BlockIq4Xs::sub_scales(self).map(|scale| scale as i8 - 32))
    }

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d.to_f32()
    }
}
