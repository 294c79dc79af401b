//! K-quants: super-blocks of 256 weights with quantized sub-block scales (blocks.md,
//! "256 weights, K-quants").

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::unpack::{
    apart, quarters, scale, scale_less, scale_signed, split_nibbles, split_quarters, two_bits,
};
use super::{Block, F16};
use crate::storage::StorageType;

/// `q2_k`: 2-bit codes, sub-blocks of 16 with a 4-bit scale and a 4-bit minimum.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ2K {
    pub(crate) scales: [u8; 16],
    pub(crate) qs: [[u8; 32]; 2],
    pub(crate) d: F16,
    pub(crate) dmin: F16,
}

/// `q3_k`: 3-bit codes with an offset of 4, sub-blocks of 16 with a 6-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ3K {
    /// The third bits.
    pub(crate) hmask: [u8; 32],
    pub(crate) qs: [[u8; 32]; 2],
    pub(crate) scales: [u8; 12],
    pub(crate) d: F16,
}

/// `q4_k`: 4-bit codes, sub-blocks of 32 with a 6-bit scale and a 6-bit minimum.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4K {
    pub(crate) d: F16,
    pub(crate) dmin: F16,
    pub(crate) scales: [u8; 12],
    pub(crate) qs: [[u8; 32]; 4],
}

/// `q5_k`: 5-bit codes, sub-blocks of 32 with a 6-bit scale and a 6-bit minimum.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5K {
    pub(crate) d: F16,
    pub(crate) dmin: F16,
    pub(crate) scales: [u8; 12],
    /// The fifth bits.
    pub(crate) qh: [u8; 32],
    pub(crate) qs: [[u8; 32]; 4],
}

/// `q6_k`: 6-bit codes with an offset of 32, sub-blocks of 16 with an 8-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ6K {
    pub(crate) ql: [[u8; 64]; 2],
    /// The upper two bits.
    pub(crate) qh: [[u8; 32]; 2],
    pub(crate) scales: [i8; 16],
    pub(crate) d: F16,
}

/// `q8_k`: an f32 scale, 8-bit integers, and their sums by 16 (not needed to decode).
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8K {
    pub(crate) d: [u8; 4],
    pub(crate) qs: [i8; 256],
    pub(crate) bsums: [[u8; 2]; 16],
}

/// A 6-bit scale as f32: to load a number takes less than to convert one.
#[inline(always)]
fn whole(scale: u8) -> f32 {
    static WHOLE: [f32; 64] = {
        let mut whole = [0.0; 64];
        let mut scale = 0;
        while scale < 64 {
            whole[scale] = scale as f32;
            scale += 1;
        }
        whole
    };
    WHOLE[usize::from(scale & 63)]
}

impl BlockQ2K {
    /// The codes, 0 to 3, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        two_bits(&self.qs)
    }
}

impl Block<256> for BlockQ2K {
    const STORAGE: StorageType = StorageType::Q2_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.widened(), self.dmin.widened());
        let halves = out.as_chunks_mut::<128>().0.iter_mut().zip(&self.qs);
        for ((out, qs), scales) in halves.zip(self.scales.as_chunks::<8>().0) {
            // Sub-blocks are 16 weights: the first halves of the four rows, then the second.
            let [s0, s1, s2, s3, s4, s5, s6, s7] = *scales;
            let (first, second) = qs.split_at(16);
            let rows = quarters(out).map(|row| row.split_at_mut_checked(16).unwrap_or_default());
            let [(a0, b0), (a1, b1), (a2, b2), (a3, b3)] = rows;
            for (qs, scales, out) in [
                (first, [s0, s2, s4, s6], [a0, a1, a2, a3]),
                (second, [s1, s3, s5, s7], [b0, b1, b2, b3]),
            ] {
                let [s0, s1, s2, s3] = scales;
                let terms = [(s0, 1.0), (s1, 4.0), (s2, 16.0), (s3, 64.0)]
                    .map(|(s, power)| (d / power * whole(s & 15), dmin * whole(s >> 4)));
                split_quarters(qs, 0, terms, |code, (d, m)| (d * code as i32 as f32) - m, out);
            }
        }
    }
}

impl BlockQ3K {
    /// The codes, 0 to 7 with an offset of 4, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        let mut codes = two_bits(&self.qs);
        for (bit, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, h) in codes.iter_mut().zip(&self.hmask) {
                *code |= (h >> bit & 1) << 2;
            }
        }
        codes
    }

    /// The sub-block scales, 0 to 63 with an offset of 32.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 16] {
        let [low @ .., h0, h1, h2, h3] = self.scales;
        let high = [h0, h1, h2, h3];
        let mut scales = [0; 16];
        let (first, second) = scales.split_at_mut(8);
        for ((first, second), low) in first.iter_mut().zip(second).zip(low) {
            *first = low & 15;
            *second = low >> 4;
        }
        for (quarter, scales) in scales.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            for (scale, high) in scales.iter_mut().zip(high) {
                *scale |= (high >> (2 * quarter) & 3) << 4;
            }
        }
        scales
    }
}

impl Block<256> for BlockQ3K {
    const STORAGE: StorageType = StorageType::Q3_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let codes = apart(self.codes());
        let sub_blocks = codes.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0);
        for ((codes, out), sc) in sub_blocks.zip(self.sub_scales()) {
            scale(d * (whole(sc) - 32.0), codes, 4.0, out);
        }
    }
}

/// The eight 6-bit scales and the eight 6-bit minimums of `q4_k` and `q5_k`.
#[inline(always)]
pub(crate) fn scales_and_minimums(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let [s0, s1, s2, s3, m0, m1, m2, m3, h0, h1, h2, h3] = *packed;
    let (s, m, h) = ([s0, s1, s2, s3], [m0, m1, m2, m3], [h0, h1, h2, h3]);
    let (s, m, h) = (u32::from_le_bytes(s), u32::from_le_bytes(m), u32::from_le_bytes(h));
    // Four bytes at a time: the first four are the low 6 bits, the last four a nibble of
    // `h` below the 2 bits left over above the first four.
    const SIX: u32 = 0x3F3F_3F3F;
    const FOUR: u32 = 0x0F0F_0F0F;
    const TOP: u32 = 0x3030_3030;
    let scales = u64::from(s & SIX) | u64::from(h & FOUR | s >> 2 & TOP) << 32;
    let minimums = u64::from(m & SIX) | u64::from(h >> 4 & FOUR | m >> 2 & TOP) << 32;
    (scales.to_le_bytes(), minimums.to_le_bytes())
}

/// The 4-bit codes of `qs`: of each 32 bytes the low nibbles, then the high ones.
#[inline(always)]
fn nibbles_by_32(qs: &[[u8; 32]; 4]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (codes, qs) in codes.as_chunks_mut::<64>().0.iter_mut().zip(qs) {
        let (low, high) = codes.split_at_mut(32);
        for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
            *low = q & 15;
            *high = q >> 4;
        }
    }
    codes
}

impl BlockQ4K {
    /// The codes, 0 to 15, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        nibbles_by_32(&self.qs)
    }
}

impl Block<256> for BlockQ4K {
    const STORAGE: StorageType = StorageType::Q4_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.widened(), self.dmin.widened());
        let (scales, minimums) = scales_and_minimums(&self.scales);
        let sub_blocks = scales.as_chunks::<2>().0.iter().zip(minimums.as_chunks::<2>().0);
        let rows = out.as_chunks_mut::<64>().0.iter_mut().zip(&self.qs);
        for ((out, qs), (&[s0, s1], &[m0, m1])) in rows.zip(sub_blocks) {
            let terms = [(d, s0, m0), (d / 16.0, s1, m1)]
                .map(|(d, sc, mn)| (d * whole(sc), dmin * whole(mn)));
            split_nibbles(qs, 0, terms, |code, (d, m)| (d * code as i32 as f32) - m, out);
        }
    }
}

impl BlockQ5K {
    /// The codes, 0 to 31, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        let mut codes = nibbles_by_32(&self.qs);
        for (bit, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, h) in codes.iter_mut().zip(&self.qh) {
                *code |= (h >> bit & 1) << 4;
            }
        }
        codes
    }
}

impl Block<256> for BlockQ5K {
    const STORAGE: StorageType = StorageType::Q5_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.widened(), self.dmin.widened());
        let codes = apart(self.codes());
        let (scales, minimums) = scales_and_minimums(&self.scales);
        let sub_blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for ((out, codes), (sc, mn)) in sub_blocks.zip(scales.into_iter().zip(minimums)) {
            scale_less(d * whole(sc), dmin * whole(mn), codes, out);
        }
    }
}

impl BlockQ6K {
    /// The codes, 0 to 63 with an offset of 32, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        let mut codes = [0; 256];
        let halves = codes.as_chunks_mut::<128>().0.iter_mut();
        for ((codes, ql), qh) in halves.zip(&self.ql).zip(&self.qh) {
            let (low, high) = codes.split_at_mut(64);
            for ((low, high), q) in low.iter_mut().zip(high).zip(ql) {
                *low = q & 15;
                *high = q >> 4;
            }
            for (quarter, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (code, h) in codes.iter_mut().zip(qh) {
                    *code |= (h >> (2 * quarter) & 3) << 4;
                }
            }
        }
        codes
    }
}

impl Block<256> for BlockQ6K {
    const STORAGE: StorageType = StorageType::Q6_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let codes = apart(self.codes());
        let sub_blocks = codes.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0);
        for ((codes, out), &sc) in sub_blocks.zip(&self.scales) {
            scale(d * f32::from(sc), codes, 32.0, out);
        }
    }
}

impl Block<256> for BlockQ8K {
    const STORAGE: StorageType = StorageType::Q8_K;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = f32::from_le_bytes(self.d);
        let rows = out.as_chunks_mut::<64>().0.iter_mut().zip(self.qs.as_chunks::<64>().0);
        for (out, qs) in rows {
            scale_signed(d, qs, out);
        }
    }
}
