//! Blocks of 256 weights.

use super::lanes::{both, bytes, column, each, pair, shorts, words};
use super::of_32::IQ4;
use super::{Lanes, Level};
use hk_core::dot::RowQ256;

/// A block of each row, taken apart.
#[repr(C, align(64))]
pub(in crate::arch) struct Block256<const L: usize> {
    /// Four codes of each row in a vector, unsigned: those of weights `4k` to `4k + 3` in
    /// vector `k`.
    pub(in crate::arch) codes: [[u32; L]; 64],
    /// A second plane of codes, which count 128 times, where there are no sub-scales.
    pub(in crate::arch) high: [[u32; L]; 64],
    /// The integer scales of sub-blocks.
    pub(in crate::arch) scales: [[i32; L]; 16],
    /// What the activation's sums of 16 codes are multiplied with, 16 bits each, those of
    /// two sums in a lane: minimums, or offsets of codes times sub-scales, negated.
    pub(in crate::arch) corrections: [[u32; L]; 8],
    /// The scales.
    pub(in crate::arch) d: [f32; L],
    /// The scales of minimums.
    pub(in crate::arch) m: [f32; L],
}

impl<const L: usize> Block256<L> {
    pub(super) const EMPTY: Self = Block256 {
        codes: [[0; L]; 64],
        high: [[0; L]; 64],
        scales: [[1; L]; 16],
        corrections: [[0; L]; 8],
        d: [0.0; L],
        m: [0.0; L],
    };

    /// Sub-scales of 16 weights, out of four times four bytes.
    #[inline(always)]
    fn set_scales_of_16(&mut self, packed: [[u32; L]; 4], scale: impl Fn(u32) -> i32) {
        for (scales, packed) in self.scales.as_chunks_mut::<4>().0.iter_mut().zip(packed) {
            for (byte, to) in scales.iter_mut().enumerate() {
                *to = each(packed, |packed| scale(packed >> (8 * byte) & 0xFF));
            }
        }
    }

    /// Corrections for codes that have an offset, with sub-scales of 16 weights.
    #[inline(always)]
    fn take_off_by_16(&mut self, offset: i32) {
        for (to, &[a, b]) in self.corrections.iter_mut().zip(self.scales.as_chunks().0) {
            *to = pair(each(a, |scale| -offset * scale), each(b, |scale| -offset * scale));
        }
    }

    /// Corrections for codes that have an offset, with sub-scales of 32 weights.
    #[inline(always)]
    fn take_off_by_32(&mut self, offset: i32) {
        for (to, &scale) in self.corrections.iter_mut().zip(&self.scales) {
            let correction = each(scale, |scale| -offset * scale);
            *to = pair(correction, correction);
        }
    }

    /// The scales and minimums of q4_k and q5_k, out of the first 16 bytes of blocks.
    #[inline(always)]
    fn set_scales_and_minimums<V: Level<L>>(&mut self, level: V, head: [[u32; L]; 4]) {
        let [d, s, m, h] = head;
        self.d = level.halves(each(d, |bits| bits & 0xFFFF));
        self.m = level.halves(each(d, |bits| bits >> 16));
        // The first four are the low 6 bits, the last four a nibble of `h` below the 2 bits
        // left over above the first four.
        let scales = [
            each(s, |s| s & bytes(63)),
            both(h, s, |h, s| (h & bytes(15)) | (s >> 2 & bytes(0x30))),
        ];
        let minimums = [
            each(m, |m| m & bytes(63)),
            both(h, m, |h, m| (h >> 4 & bytes(15)) | (m >> 2 & bytes(0x30))),
        ];
        let to = self.scales.as_chunks_mut::<4>().0.iter_mut();
        let to = to.zip(self.corrections.as_chunks_mut::<4>().0);
        for ((to, corrections), (scales, minimums)) in to.zip(scales.into_iter().zip(minimums)) {
            for (byte, (to, correction)) in to.iter_mut().zip(corrections).enumerate() {
                *to = each(scales, |scales| (scales >> (8 * byte) & 0xFF) as i32);
                let minimum = each(minimums, |minimums| (minimums >> (8 * byte) & 0xFF) as i32);
                *correction = pair(minimum, minimum);
            }
        }
    }

    /// Codes from 2-bit ones: of each 32 bytes from `at` on the lowest two bits, then the
    /// next, and so on.
    #[inline(always)]
    fn set_two_bits<V: Level<L>, const BYTES: usize>(
        &mut self,
        level: V,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
    ) {
        for (half, codes) in self.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let columns = [0, 16].map(|c| level.transpose(column(blocks, at + 32 * half + c)));
            for (quarter, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                for (to, q) in codes.iter_mut().zip(columns.as_flattened()) {
                    *to = each(*q, |q| q >> (2 * quarter) & bytes(3));
                }
            }
        }
    }

    /// Codes from nibbles: of each 32 bytes from `at` on the low nibbles, then the high ones.
    #[inline(always)]
    fn set_nibbles<V: Level<L>, const BYTES: usize>(
        &mut self,
        level: V,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
    ) {
        for (quarter, codes) in self.codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (low, high) = codes.split_at_mut(8);
            let columns = [0, 16].map(|c| level.transpose(column(blocks, at + 32 * quarter + c)));
            for ((low, high), q) in low.iter_mut().zip(high).zip(columns.as_flattened()) {
                *low = each(*q, |q| q & bytes(15));
                *high = each(*q, |q| q >> 4 & bytes(15));
            }
        }
    }

    /// Adds to the codes a further bit, worth `1 << to_bit`: of each 32 weights the next
    /// higher bit of the 32 bytes from `at` on.
    #[inline(always)]
    fn add_bits<V: Level<L>, const BYTES: usize>(
        &mut self,
        level: V,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
        to_bit: u32,
    ) {
        let columns = [0, 16].map(|c| level.transpose(column(blocks, at + c)));
        for (bit, codes) in self.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            for (to, h) in codes.iter_mut().zip(columns.as_flattened()) {
                *to = both(*to, *h, |code, h| code | (h >> bit & bytes(1)) << to_bit);
            }
        }
    }
}

/// A type of blocks of 256 weights; see [`Level::add_256`].
pub(in crate::arch) trait Type256<const BYTES: usize> {
    /// Takes a block of each row apart.
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; BYTES]; L],
        to: &mut Block256<L>,
    );

    /// [`Level::add_256`].
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    );
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
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 84]; L], to: &mut Block256<L>) {
        to.set_two_bits(level, &blocks, 16);
        let packed = level.transpose(column(&blocks, 0));
        // Minimums are the high nibbles.
        to.set_scales_of_16(packed, |packed| (packed >> 4) as i32);
        to.take_off_by_16(-1);
        to.set_scales_of_16(packed, |packed| (packed & 15) as i32);
        let scales = words(&blocks, 80);
        to.d = level.halves(each(scales, |bits| bits & 0xFFFF));
        to.m = level.halves(each(scales, |bits| bits >> 16));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<16, false, true>(block, b, activations, sums);
    }
}

impl Type256<110> for Q3K {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; 110]; L],
        to: &mut Block256<L>,
    ) {
        to.set_two_bits(level, &blocks, 32);
        to.add_bits(level, &blocks, 0, 2);
        let [low0, low1, high] = [96, 100, 104].map(|at| words(&blocks, at));
        let four = |low: [u32; L], low_shift: u32, high_shift: u32| {
            both(low, high, |low, high| {
                (low >> low_shift & bytes(15)) | (high >> high_shift & bytes(3)) << 4
            })
        };
        let packed = [four(low0, 0, 0), four(low1, 0, 2), four(low0, 4, 4), four(low1, 4, 6)];
        to.set_scales_of_16(packed, |packed| packed as i32 - 32);
        to.take_off_by_16(4);
        to.d = level.halves(shorts(&blocks, 108));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<16, false, false>(block, b, activations, sums);
    }
}

impl Type256<144> for Q4K {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; 144]; L],
        to: &mut Block256<L>,
    ) {
        to.set_scales_and_minimums(level, level.transpose(column(&blocks, 0)));
        to.set_nibbles(level, &blocks, 16);
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<8, false, true>(block, b, activations, sums);
    }
}

impl Type256<176> for Q5K {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; 176]; L],
        to: &mut Block256<L>,
    ) {
        to.set_scales_and_minimums(level, level.transpose(column(&blocks, 0)));
        to.set_nibbles(level, &blocks, 48);
        to.add_bits(level, &blocks, 16, 4);
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<8, false, true>(block, b, activations, sums);
    }
}

impl Type256<210> for Q6K {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; 210]; L],
        to: &mut Block256<L>,
    ) {
        for (half, codes) in to.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let high = [0, 16].map(|c| level.transpose(column(&blocks, 128 + 32 * half + c)));
            let (codes, high) = (codes.as_chunks_mut::<8>().0, high.as_flattened());
            let [first, second, third, fourth] = codes else { return };
            // The upper two bits of the first and the third 32 weights stand beside the
            // nibbles of the first 32 bytes, those of the others beside the rest.
            for (low_codes, high_codes, shift, at) in
                [(first, third, 0, 0), (second, fourth, 2, 32)]
            {
                let at = 64 * half + at;
                let low = [0, 16].map(|c| level.transpose(column(&blocks, at + c)));
                let codes = low_codes.iter_mut().zip(high_codes);
                for ((low_code, high_code), (q, h)) in
                    codes.zip(low.as_flattened().iter().zip(high))
                {
                    let h = each(*h, |h| h >> shift);
                    *low_code = both(*q, h, |q, h| (q & bytes(15)) | (h & bytes(3)) << 4);
                    *high_code = both(*q, h, |q, h| (q >> 4 & bytes(15)) | (h & bytes(0x30)));
                }
            }
        }
        let packed = level.transpose(column(&blocks, 192));
        to.set_scales_of_16(packed, |packed| i32::from(packed as i8));
        to.take_off_by_16(32);
        to.d = level.halves(shorts(&blocks, 208));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<16, false, false>(block, b, activations, sums);
    }
}

impl Type256<136> for Iq4Xs {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(
        level: V,
        blocks: [&[u8; 136]; L],
        to: &mut Block256<L>,
    ) {
        for (j, codes) in to.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let (low, high) = codes.split_at_mut(4);
            let qs = level.transpose(column(&blocks, 8 + 16 * j));
            for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
                *low = level.look_up(&IQ4, each(q, |q| q & bytes(15)));
                *high = level.look_up(&IQ4, each(q, |q| q >> 4 & bytes(15)));
            }
        }
        let (head, low) = (words(&blocks, 0), words(&blocks, 4));
        for (j, scales) in to.scales.iter_mut().take(8).enumerate() {
            let scale =
                |low: u32, head: u32| (low >> (4 * j) & 15) | (head >> (16 + 2 * j) & 3) << 4;
            *scales = each(both(low, head, scale), |scale| scale as i32 - 32);
        }
        to.take_off_by_32(128);
        to.d = level.halves(each(head, |bits| bits & 0xFFFF));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<8, true, false>(block, b, activations, sums);
    }
}

/// The corrections of ternary blocks: an offset of 1, no sub-scales.
#[inline(always)]
fn take_off_one<const L: usize>(to: &mut Block256<L>) {
    to.corrections = [[u32::MAX; L]; 8];
}

impl Type256<54> for Tq1_0 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 54]; L], to: &mut Block256<L>) {
        let columns = [0, 16, 32].map(|at| level.transpose(column(&blocks, at)));
        let ([first, second, third], last) = (columns, words(&blocks, 48));
        // Five digits of 32 bytes, five of 16, four of 4.
        let (of_32, rest) = to.codes.split_at_mut(40);
        let (of_16, of_4) = rest.split_at_mut(20);
        for (k, bytes) in first.into_iter().chain(second).enumerate() {
            put_digits(bytes, of_32.iter_mut().skip(k).step_by(8));
        }
        for (k, bytes) in third.into_iter().enumerate() {
            put_digits(bytes, of_16.iter_mut().skip(k).step_by(4));
        }
        put_digits(last, of_4.iter_mut());
        take_off_one(to);
        to.d = level.halves(shorts(&blocks, 52));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<1, false, false>(block, b, activations, sums);
    }
}

/// Base-3 digits of each byte, highest first, to one vector after another.
#[inline(always)]
fn put_digits<'a, const L: usize>(
    mut bytes: [u32; L],
    codes: impl Iterator<Item = &'a mut [u32; L]>,
) {
    for to in codes {
        (*to, bytes) = digit(bytes);
    }
}

/// The highest base-3 digit of each byte, and what is left for the next.
#[inline(always)]
fn digit<const L: usize>(of: [u32; L]) -> ([u32; L], [u32; L]) {
    // Every second byte, three times, with room for the digit above.
    let even = each(of, |of| (of & 0x00FF_00FF) * 3);
    let odd = each(of, |of| (of >> 8 & 0x00FF_00FF) * 3);
    let digits = both(even, odd, |even, odd| (even >> 8 & 0x00FF_00FF) | (odd & 0xFF00_FF00));
    let rest = both(even, odd, |even, odd| (even & 0x00FF_00FF) | (odd & 0x00FF_00FF) << 8);
    (digits, rest)
}

impl Type256<66> for Tq2_0 {
    #[inline(always)]
    fn unpack<V: Level<L>, const L: usize>(level: V, blocks: [&[u8; 66]; L], to: &mut Block256<L>) {
        to.set_two_bits(level, &blocks, 0);
        take_off_one(to);
        to.d = level.halves(shorts(&blocks, 64));
    }

    #[inline(always)]
    fn add<V: Level<L>, const L: usize>(
        level: V,
        block: &Block256<L>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [Lanes<f32, L>],
    ) {
        level.add_256::<1, false, false>(block, b, activations, sums);
    }
}
