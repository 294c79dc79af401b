//! K-quants.

use super::{Unpack256, put};
use crate::blocks::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};
use crate::dot::oracle::terms::Dot256;
use crate::dot::portable::each;

/// The halves of 32 bytes.
#[inline(always)]
fn halves(bytes: &[u8; 32]) -> [[u8; 16]; 2] {
    let (first, second) = bytes.split_at(16);
    [first, second].map(|half| half.first_chunk().copied().unwrap_or_default())
}

impl Unpack256 for BlockQ2K {
    const HAS_MINIMUMS: bool = true;

    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let scales = Dot256::sub_scales(self);
        let (to, mut scales) = (to.as_chunks_mut().0, scales.iter());
        for (qs, to) in self.qs.iter().zip(to.chunks_mut(8)) {
            let halves = halves(qs);
            for (i, &scale) in scales.by_ref().take(8).enumerate() {
                let codes = each(halves[i % 2], |q| q >> (i / 2 * 2) & 3);
                put(to.get_mut(i), codes, 0, scale);
            }
        }
    }
}

impl Unpack256 for BlockQ3K {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let scales = Dot256::sub_scales(self);
        let (to, scales) = (to.as_chunks_mut().0.chunks_mut(8), scales.as_chunks::<8>().0);
        let mut masks = halves(&self.hmask);
        for ((qs, to), scales) in self.qs.iter().zip(to).zip(scales) {
            let mut halves = halves(qs);
            for (i, &scale) in scales.iter().enumerate() {
                let (q, mask) = (&mut halves[i % 2], &mut masks[i % 2]);
                let mut codes = each(*q, |q| q & 3);
                for (code, mask) in codes.iter_mut().zip(*mask) {
                    *code |= (mask & 1) << 2;
                }
                (*q, *mask) = (each(*q, |q| q >> 2), each(*mask, |mask| mask >> 1));
                put(to.get_mut(i), codes, 4, scale);
            }
        }
    }
}

impl Unpack256 for BlockQ4K {
    const HAS_MINIMUMS: bool = true;

    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let scales = Dot256::sub_scales(self);
        let (to, scales) = (to.as_chunks_mut().0.chunks_mut(4), scales.as_chunks().0);
        for ((qs, to), &[low, _, high, _]) in self.qs.iter().zip(to).zip(scales) {
            for (half, q) in halves(qs).into_iter().enumerate() {
                put(to.get_mut(half), each(q, |q| q & 15), 0, low);
                put(to.get_mut(2 + half), each(q, |q| q >> 4), 0, high);
            }
        }
    }
}

impl Unpack256 for BlockQ5K {
    const HAS_MINIMUMS: bool = true;

    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let scales = Dot256::sub_scales(self);
        let (to, scales) = (to.as_chunks_mut().0.chunks_mut(4), scales.as_chunks().0);
        let mut fifths = halves(&self.qh);
        for ((qs, to), &[low, _, high, _]) in self.qs.iter().zip(to).zip(scales) {
            for (half, (q, fifth)) in halves(qs).into_iter().zip(&mut fifths).enumerate() {
                let (mut lows, mut highs) = (each(q, |q| q & 15), each(q, |q| q >> 4));
                for ((low, high), fifth) in lows.iter_mut().zip(&mut highs).zip(*fifth) {
                    *low |= (fifth & 1) << 4;
                    *high |= (fifth & 2) << 3;
                }
                *fifth = each(*fifth, |fifth| fifth >> 2);
                put(to.get_mut(half), lows, 0, low);
                put(to.get_mut(2 + half), highs, 0, high);
            }
        }
    }
}

impl Unpack256 for BlockQ6K {
    #[inline(always)]
    fn unpack(&self, to: &mut [i16; 256]) {
        let (to, scales) = (to.as_chunks_mut().0.chunks_mut(8), self.scales.as_chunks::<8>().0);
        for (((ql, qh), to), scales) in self.ql.iter().zip(&self.qh).zip(to).zip(scales) {
            let (lows, mut highs) = (ql.as_chunks::<16>().0, halves(qh));
            for (i, &scale) in scales.iter().enumerate() {
                let Some(&low) = lows.get(i % 4) else { return };
                let mut codes = if i < 4 { each(low, |q| q & 15) } else { each(low, |q| q >> 4) };
                let high = &mut highs[i % 2];
                for (code, high) in codes.iter_mut().zip(*high) {
                    *code |= (high & 3) << 4;
                }
                *high = each(*high, |high| high >> 2);
                put(to.get_mut(i), codes, 32, scale);
            }
        }
    }
}
