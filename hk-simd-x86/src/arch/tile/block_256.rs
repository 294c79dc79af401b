//! Blocks of 256 weights, taken apart.

use super::Level;
use super::lanes::{bits, bytes, column, columns, negated_times, pair};

/// A block of each row, taken apart.
pub(in crate::arch) struct Block256<V, F> {
    /// Four codes of each row in a vector, unsigned: those of weights `4k` to `4k + 3` in
    /// vector `k`.
    pub(in crate::arch) codes: [V; 64],
    /// A second plane of codes, which count 128 times, where there are no sub-scales.
    pub(in crate::arch) high: [V; 64],
    /// The integer scales of sub-blocks.
    pub(in crate::arch) scales: [V; 16],
    /// What the activation's sums of 16 codes are multiplied with, 16 bits each, those of
    /// two sums in a lane: minimums, or offsets of codes times sub-scales, negated.
    pub(in crate::arch) corrections: [V; 8],
    /// The scales.
    pub(in crate::arch) d: F,
    /// The scales of minimums.
    pub(in crate::arch) m: F,
}

impl<V: Copy, F: Copy> Block256<V, F> {
    /// Blocks of nothing but zeros.
    #[inline(always)]
    pub(super) fn zero<const L: usize>(level: impl Level<L, V = V, F = F>) -> Self {
        let (zero, zero_floats) = (level.splat(0), level.load_floats(&[0.0; L]));
        Block256 {
            codes: [zero; 64],
            high: [zero; 64],
            scales: [zero; 16],
            corrections: [zero; 8],
            d: zero_floats,
            m: zero_floats,
        }
    }

    /// Sub-scales of 16 weights, out of four times four bytes: `scale` of what begins with
    /// the byte.
    #[inline(always)]
    pub(super) fn set_scales_of_16<const L: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        packed: [V; 4],
        scale: impl Fn(V) -> V,
    ) {
        for (scales, packed) in self.scales.as_chunks_mut::<4>().0.iter_mut().zip(packed) {
            for (byte, to) in (0..4).zip(scales) {
                *to = scale(level.shift_right(packed, 8 * byte));
            }
        }
    }

    /// Corrections for codes that have an offset of `1 << log2`, with sub-scales of 16 weights.
    #[inline(always)]
    pub(super) fn take_off_by_16<const L: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        log2: u32,
    ) {
        for (to, &[a, b]) in self.corrections.iter_mut().zip(self.scales.as_chunks().0) {
            let (a, b) = (negated_times(level, log2, a), negated_times(level, log2, b));
            *to = pair(level, a, b);
        }
    }

    /// Corrections for codes that have an offset of `1 << log2`, with sub-scales of 32 weights.
    #[inline(always)]
    pub(super) fn take_off_by_32<const L: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        log2: u32,
    ) {
        for (to, &scale) in self.corrections.iter_mut().zip(&self.scales) {
            let correction = negated_times(level, log2, scale);
            *to = pair(level, correction, correction);
        }
    }

    /// The scales and minimums of q4_k and q5_k, out of the first 16 bytes of blocks.
    #[inline(always)]
    pub(super) fn set_scales_and_minimums<const L: usize>(
        &mut self,
        level: impl Level<L, V = V, F = F>,
        head: [V; 4],
    ) {
        let [d, s, m, h] = head;
        (self.d, self.m) = (level.halves(d), level.halves(level.shift_right(d, 16)));
        // The first four are the low 6 bits, the last four a nibble of `h` below the 2 bits
        // left over above the first four.
        let last = |low, top| level.or(low, bits(level, top, 2, 0x30));
        let scales = [bits(level, s, 0, 63), last(bits(level, h, 0, 15), s)];
        let minimums = [bits(level, m, 0, 63), last(bits(level, h, 4, 15), m)];
        let to = self.scales.as_chunks_mut::<4>().0.iter_mut();
        let to = to.zip(self.corrections.as_chunks_mut::<4>().0);
        for ((to, corrections), (scales, minimums)) in to.zip(scales.into_iter().zip(minimums)) {
            for (byte, (to, correction)) in (0..4).zip(to.iter_mut().zip(corrections)) {
                let one = |from| level.and(level.shift_right(from, 8 * byte), level.splat(0xFF));
                let minimum = one(minimums);
                (*to, *correction) = (one(scales), pair(level, minimum, minimum));
            }
        }
    }

    /// Codes from 2-bit ones: of each 32 bytes from `at` on the lowest two bits, then the
    /// next, and so on.
    #[inline(always)]
    pub(super) fn set_two_bits<const L: usize, const BYTES: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
    ) {
        for (half, codes) in self.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let packed = columns(level, blocks, at + 32 * half);
            for (quarter, codes) in (0..4).zip(codes.as_chunks_mut::<8>().0) {
                for (to, q) in codes.iter_mut().zip(packed) {
                    *to = bits(level, q, 2 * quarter, 3);
                }
            }
        }
    }

    /// Codes from nibbles: of each 32 bytes from `at` on the low nibbles, then the high ones.
    #[inline(always)]
    pub(super) fn set_nibbles<const L: usize, const BYTES: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
    ) {
        for (quarter, codes) in self.codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (low, high) = codes.split_at_mut(8);
            let packed = columns(level, blocks, at + 32 * quarter);
            for ((low, high), q) in low.iter_mut().zip(high).zip(packed) {
                (*low, *high) = (bits(level, q, 0, 15), bits(level, q, 4, 15));
            }
        }
    }

    /// Adds to the codes a further bit, worth `1 << to_bit`: of each 32 weights the next
    /// higher bit of the 32 bytes from `at` on.
    #[inline(always)]
    pub(super) fn add_bits<const L: usize, const BYTES: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        blocks: &[&[u8; BYTES]; L],
        at: usize,
        to_bit: u32,
    ) {
        let packed = columns(level, blocks, at);
        for (bit, codes) in (0..8).zip(self.codes.as_chunks_mut::<8>().0) {
            for (to, h) in codes.iter_mut().zip(packed) {
                let one = level.shift_left(bits(level, h, bit, 1), to_bit);
                *to = level.or(*to, one);
            }
        }
    }

    /// Codes of 4 bits of ql and 2 bits of qh (q6_k).
    #[inline(always)]
    pub(super) fn set_six_bits<const L: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        blocks: &[&[u8; 210]; L],
    ) {
        for (half, codes) in self.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let high = columns(level, blocks, 128 + 32 * half);
            let [first, second, third, fourth] = codes.as_chunks_mut::<8>().0 else { return };
            // The first 32 bytes have the nibbles of the first and the third 32 weights.
            let pairs = [(0, first, third, 0), (32, second, fourth, 2)];
            for (at, low_codes, high_codes, shift) in pairs {
                let low = columns(level, blocks, 64 * half + at);
                let codes = low_codes.iter_mut().zip(high_codes);
                for ((low_code, high_code), (q, h)) in codes.zip(low.into_iter().zip(high)) {
                    let h = level.shift_right(h, shift);
                    let low_bits = level.shift_left(bits(level, h, 0, 3), 4);
                    *low_code = level.or(bits(level, q, 0, 15), low_bits);
                    *high_code = level.or(bits(level, q, 4, 15), bits(level, h, 0, 0x30));
                }
            }
        }
    }

    /// Codes from base-3 digits (tq1_0): five of each of 32 bytes, five of each of 16, and
    /// four of each of 4, the first digits of all before the next.
    #[inline(always)]
    pub(super) fn set_digits<const L: usize>(
        &mut self,
        level: impl Level<L, V = V>,
        of_32: [V; 8],
        of_16: [V; 4],
        of_4: V,
    ) {
        let (codes_of_32, rest) = self.codes.split_at_mut(40);
        let (codes_of_16, codes_of_4) = rest.split_at_mut(20);
        for (k, packed) in of_32.into_iter().enumerate() {
            put_digits(level, packed, codes_of_32.iter_mut().skip(k).step_by(8));
        }
        for (k, packed) in of_16.into_iter().enumerate() {
            put_digits(level, packed, codes_of_16.iter_mut().skip(k).step_by(4));
        }
        put_digits(level, of_4, codes_of_4.iter_mut());
    }
}

/// Base-3 digits of each byte, highest first, to one vector after another.
#[inline(always)]
fn put_digits<'a, V: Level<L>, const L: usize>(
    level: V,
    mut packed: V::V,
    codes: impl Iterator<Item = &'a mut V::V>,
) where
    V::V: 'a,
{
    let every_second = level.splat(0x00FF_00FF);
    let three_times = |a| level.mul(a, level.splat(3));
    for to in codes {
        // Every second byte, three times, with room for the digit above.
        let even = three_times(level.and(packed, every_second));
        let odd = three_times(level.and(level.shift_right(packed, 8), every_second));
        let of_odd = level.and(odd, level.splat(0xFF00_FF00));
        *to = level.or(level.and(level.shift_right(even, 8), every_second), of_odd);
        let rest_of_odd = level.shift_left(level.and(odd, every_second), 8);
        packed = level.or(level.and(even, every_second), rest_of_odd);
    }
}

/// The 6-bit scales of q3_k, less their offset of 32.
#[inline(always)]
pub(super) fn scales_of_q3_k<V: Level<L>, const L: usize>(
    level: V,
    blocks: &[&[u8; 110]; L],
    to: &mut Block256<V::V, V::F>,
) {
    use super::lanes::words;
    let [low0, low1, high] = [96, 100, 104].map(|at| words(level, blocks, at));
    let four = |low, low_shift, high_shift| {
        let top = level.shift_left(bits(level, high, high_shift, 3), 4);
        level.or(bits(level, low, low_shift, 15), top)
    };
    let packed = [four(low0, 0, 0), four(low1, 0, 2), four(low0, 4, 4), four(low1, 4, 6)];
    to.set_scales_of_16(level, packed, |scale| {
        level.sub(level.and(scale, level.splat(63)), level.splat(32))
    });
}

/// The signed 8-bit scales of q6_k.
#[inline(always)]
pub(super) fn scales_of_q6_k<V: Level<L>, const L: usize>(
    level: V,
    blocks: &[&[u8; 210]; L],
    to: &mut Block256<V::V, V::F>,
) {
    to.set_scales_of_16(level, column(level, blocks, 192), |scale| {
        // The sign bit flipped is 128 added, which comes off again as a whole number.
        let raised = level.and(level.xor(scale, level.splat(bytes(0x80))), level.splat(0xFF));
        level.sub(raised, level.splat(128))
    });
}
