//! I-quants: codes that are rows of a codebook (blocks.md, "256 weights, I-quants", and
//! `iq4_nl`).
//!
//! `quants` of a block gives the integers that its scales multiply, in the order of the
//! weights. No magnitude in a codebook is 0, so negating one is the same as negating the
//! product.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4};
use super::unpack::{nibbles, scale_signed};
use super::{Block, F16};
use crate::storage::StorageType;

/// `iq1_s`: rows of -1, 0, 1; groups of 32 with a 3-bit scale and a shift of 1/8 up or down.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq1S {
    pub(crate) d: F16,
    pub(crate) qs: [[u8; 4]; 8],
    /// u16 a group of 32: upper bits of four rows, scale, direction of the shift.
    pub(crate) qh: [[u8; 2]; 8],
}

/// `iq1_m`: rows of -1, 0, 1; groups of 16 with a 3-bit scale, groups of 8 with a shift.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq1M {
    pub(crate) qs: [[u8; 4]; 8],
    /// Nibble a group of 8: upper bits of the row, direction of the shift.
    pub(crate) qh: [[u8; 2]; 8],
    /// u16 each: four 3-bit scales, and a nibble of the f16 scale on top.
    pub(crate) scales: [[u8; 2]; 4],
}

/// `iq2_xxs`: rows of 8 magnitudes, 7-bit sign indexes, groups of 32 with a 4-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq2Xxs {
    pub(crate) d: F16,
    /// A group of 32: four rows, then u32 of four sign indexes and the scale.
    pub(crate) qs: [[[u8; 4]; 2]; 8],
}

/// `iq2_xs`: rows of 8 magnitudes, 7-bit sign indexes, groups of 16 with a 4-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq2Xs {
    pub(crate) d: F16,
    /// u16 a group of 8: 9 bits of row, 7 of sign index.
    pub(crate) qs: [[[u8; 2]; 4]; 8],
    pub(crate) scales: [u8; 8],
}

/// `iq2_s`: rows of 8 magnitudes, sign bytes, groups of 16 with a 4-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq2S {
    pub(crate) d: F16,
    pub(crate) qs: [[u8; 4]; 8],
    pub(crate) signs: [[u8; 4]; 8],
    /// Upper two bits of the rows.
    pub(crate) qh: [u8; 8],
    pub(crate) scales: [u8; 8],
}

/// `iq3_xxs`: rows of 4 magnitudes, 7-bit sign indexes, groups of 32 with a 4-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq3Xxs {
    pub(crate) d: F16,
    pub(crate) qs: [[[u8; 2]; 4]; 8],
    /// u32 a group of 32: four sign indexes and the scale.
    pub(crate) signs: [[u8; 4]; 8],
}

/// `iq3_s`: rows of 4 magnitudes, sign bytes, groups of 32 with a 4-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq3S {
    pub(crate) d: F16,
    pub(crate) qs: [[[u8; 2]; 4]; 8],
    /// Ninth bits of the rows.
    pub(crate) qh: [u8; 8],
    pub(crate) signs: [[u8; 4]; 8],
    pub(crate) scales: [u8; 4],
}

/// `iq4_nl`: a scale, and 4-bit codes of unevenly spaced values.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq4Nl {
    pub(crate) d: F16,
    pub(crate) qs: [u8; 16],
}

/// `iq4_xs`: 4-bit codes of unevenly spaced values, groups of 32 with a 6-bit scale.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq4Xs {
    pub(crate) d: F16,
    pub(crate) scales_h: [u8; 2],
    pub(crate) scales_l: [u8; 4],
    pub(crate) qs: [[u8; 16]; 8],
}

/// The sign byte of a 7-bit index: bit 7 makes the number of ones even.
#[inline(always)]
fn even_signs(index: u32) -> u8 {
    let index = (index & 127) as u8;
    index | (index.count_ones() as u8 & 1) << 7
}

/// The four sign bytes of a u32 of 7-bit indexes.
#[inline(always)]
fn sign_bytes(indexes: [u8; 4]) -> [u8; 4] {
    let indexes = u32::from_le_bytes(indexes);
    [0, 7, 14, 21].map(|shift| even_signs(indexes >> shift))
}

/// Negates `quants[k]` where bit `k` of `signs` is set, eight at a time.
#[inline(always)]
fn negate(quants: &mut [i8; 32], signs: [u8; 4]) {
    for (quants, signs) in quants.as_chunks_mut::<8>().0.iter_mut().zip(signs) {
        for (k, q) in quants.iter_mut().enumerate() {
            let mask = -((signs >> k & 1) as i8);
            *q = (*q ^ mask) - mask;
        }
    }
}

/// The scale of a group as most I-quants have it: `(d * (0.5 + s)) * factor`.
#[inline(always)]
fn half_scale(d: f32, s: u32, factor: f32) -> f32 {
    (d * (0.5 + s as f32)) * factor
}

impl BlockIq1S {
    /// Row of each group of 8 in group `ib` of 32.
    #[inline(always)]
    pub(crate) fn rows(qs: [u8; 4], qh: u16) -> [usize; 4] {
        let [a, b, c, d] = qs;
        [(a, 0), (b, 3), (c, 6), (d, 9)]
            .map(|(q, shift)| usize::from(q) | usize::from(qh >> shift & 7) << 8)
    }
}

/// `dl * (g + delta)` for the eight weights of a row.
#[inline(always)]
fn ternary_row(dl: f32, delta: f32, row: usize, out: &mut [f32; 8]) {
    for (w, &g) in out.iter_mut().zip(&IQ1[row & 2047]) {
        *w = dl * (f32::from(g as i8) + delta);
    }
}

impl Block<256> for BlockIq1S {
    const STORAGE: StorageType = StorageType::IQ1_S;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, &qs), &qh) in groups.zip(&self.qs).zip(&self.qh) {
            let qh = u16::from_le_bytes(qh);
            let dl = d * f32::from(2 * (qh >> 12 & 7) + 1);
            let delta = if qh & 0x8000 == 0 { 0.125 } else { -0.125 };
            for (out, row) in out.as_chunks_mut::<8>().0.iter_mut().zip(Self::rows(qs, qh)) {
                ternary_row(dl, delta, row, out);
            }
        }
    }
}

impl BlockIq1M {
    /// The scale of the block: its nibbles are the top nibbles of the scales.
    #[inline(always)]
    pub(crate) fn d(&self) -> F16 {
        let [s0, s1, s2, s3] = self.scales.map(u16::from_le_bytes);
        F16((s0 >> 12 | s1 >> 8 & 0x00F0 | s2 >> 4 & 0x0F00 | s3 & 0xF000).to_le_bytes())
    }

    /// The sixteen 3-bit scales.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 16] {
        let mut sub_scales = [0; 16];
        for (sub_scales, scales) in sub_scales.as_chunks_mut::<4>().0.iter_mut().zip(self.scales) {
            let scales = u16::from_le_bytes(scales);
            *sub_scales = [0, 3, 6, 9].map(|shift| (scales >> shift & 7) as u8);
        }
        sub_scales
    }

    /// For each group of 8 the nibble of `qh`.
    #[inline(always)]
    pub(crate) fn high(qh: [u8; 2]) -> [u8; 4] {
        let [a, b] = qh;
        [a & 15, a >> 4, b & 15, b >> 4]
    }
}

impl Block<256> for BlockIq1M {
    const STORAGE: StorageType = StorageType::IQ1_M;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d().to_f32();
        let sub_scales = self.sub_scales();
        let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(sub_scales.as_chunks::<2>().0);
        for (((out, scales), qs), &qh) in groups.zip(&self.qs).zip(&self.qh) {
            let [dl0, dl1] = scales.map(|s| d * f32::from(2 * s + 1));
            let eights = out.as_chunks_mut::<8>().0.iter_mut().zip([dl0, dl0, dl1, dl1]);
            for (((out, dl), &q), n) in eights.zip(qs).zip(Self::high(qh)) {
                let delta = if n & 8 == 0 { 0.125 } else { -0.125 };
                ternary_row(dl, delta, usize::from(q) | usize::from(n & 7) << 8, out);
            }
        }
    }
}

impl BlockIq2Xxs {
    /// The signed values of a group of 32, and its 4-bit scale.
    #[inline(always)]
    pub(crate) fn group(&[rows, signs]: &[[u8; 4]; 2]) -> ([i8; 32], u32) {
        let mut quants = [0; 32];
        for (quants, row) in quants.as_chunks_mut::<8>().0.iter_mut().zip(rows) {
            *quants = IQ2_XXS[usize::from(row)].map(|g| g as i8);
        }
        negate(&mut quants, sign_bytes(signs));
        (quants, u32::from_le_bytes(signs) >> 28)
    }
}

impl Block<256> for BlockIq2Xxs {
    const STORAGE: StorageType = StorageType::IQ2_XXS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (out, group) in out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs) {
            let (quants, s) = Self::group(group);
            scale_signed(half_scale(d, s, 0.25), &quants, out);
        }
    }
}

impl BlockIq2Xs {
    /// The signed values of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: &[[u8; 2]; 4]) -> [i8; 32] {
        let qs = qs.map(u16::from_le_bytes);
        let mut quants = [0; 32];
        for (quants, q) in quants.as_chunks_mut::<8>().0.iter_mut().zip(qs) {
            *quants = IQ2_XS[usize::from(q & 511)].map(|g| g as i8);
        }
        negate(&mut quants, qs.map(|q| even_signs(u32::from(q >> 9))));
        quants
    }
}

/// The two halves of a group of 32, each with a 4-bit scale.
#[inline(always)]
fn scale_halves(d: f32, scales: u8, quants: &[i8; 32], out: &mut [f32; 32]) {
    let halves = quants.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0);
    for ((quants, out), s) in halves.zip([scales & 15, scales >> 4]) {
        scale_signed(half_scale(d, u32::from(s), 0.25), quants, out);
    }
}

impl Block<256> for BlockIq2Xs {
    const STORAGE: StorageType = StorageType::IQ2_XS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, qs), &scales) in groups.zip(&self.qs).zip(&self.scales) {
            scale_halves(d, scales, &Self::group(qs), out);
        }
    }
}

impl BlockIq2S {
    /// The signed values of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: [u8; 4], qh: u8, signs: [u8; 4]) -> [i8; 32] {
        let mut quants = [0; 32];
        let eights = quants.as_chunks_mut::<8>().0.iter_mut().zip(qs);
        for ((quants, q), shift) in eights.zip([0, 2, 4, 6]) {
            let row = usize::from(q) | usize::from(qh >> shift & 3) << 8;
            *quants = IQ2_S[row].map(|g| g as i8);
        }
        negate(&mut quants, signs);
        quants
    }
}

impl Block<256> for BlockIq2S {
    const STORAGE: StorageType = StorageType::IQ2_S;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs).zip(&self.signs);
        for (((out, &qs), &signs), (&qh, &scales)) in groups.zip(self.qh.iter().zip(&self.scales)) {
            scale_halves(d, scales, &Self::group(qs, qh, signs), out);
        }
    }
}

impl BlockIq3Xxs {
    /// The signed values of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: &[[u8; 2]; 4], signs: [u8; 4]) -> [i8; 32] {
        let mut quants = [0; 32];
        for (quants, &row) in quants.as_chunks_mut::<4>().0.iter_mut().zip(qs.as_flattened()) {
            *quants = IQ3_XXS[usize::from(row)].map(|g| g as i8);
        }
        negate(&mut quants, sign_bytes(signs));
        quants
    }
}

impl Block<256> for BlockIq3Xxs {
    const STORAGE: StorageType = StorageType::IQ3_XXS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, qs), &signs) in groups.zip(&self.qs).zip(&self.signs) {
            let db = half_scale(d, u32::from_le_bytes(signs) >> 28, 0.5);
            scale_signed(db, &Self::group(qs, signs), out);
        }
    }
}

impl BlockIq3S {
    /// The signed values of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: &[[u8; 2]; 4], qh: u8, signs: [u8; 4]) -> [i8; 32] {
        let mut quants = [0; 32];
        let fours = quants.as_chunks_mut::<4>().0.iter_mut().zip(qs.as_flattened());
        for (j, (quants, &q)) in fours.enumerate() {
            let row = usize::from(q) | usize::from(qh >> j & 1) << 8;
            *quants = IQ3_S[row].map(|g| g as i8);
        }
        negate(&mut quants, signs);
        quants
    }

    /// The eight 4-bit scales.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 8] {
        let [a, b, c, d] = self.scales;
        [a & 15, a >> 4, b & 15, b >> 4, c & 15, c >> 4, d & 15, d >> 4]
    }
}

impl Block<256> for BlockIq3S {
    const STORAGE: StorageType = StorageType::IQ3_S;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(&self.qs).zip(&self.signs);
        for (((out, qs), &signs), (&qh, s)) in groups.zip(self.qh.iter().zip(self.sub_scales())) {
            scale_signed(d * f32::from(1 + 2 * s), &Self::group(qs, qh, signs), out);
        }
    }
}

/// `d * K[q]` for 32 weights.
#[inline(always)]
fn scale_uneven(d: f32, qs: &[u8; 16], out: &mut [f32; 32]) {
    for (w, code) in out.iter_mut().zip(nibbles(qs)) {
        *w = d * f32::from(IQ4[usize::from(code & 15)]);
    }
}

impl Block<32> for BlockIq4Nl {
    const STORAGE: StorageType = StorageType::IQ4_NL;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_uneven(self.d.to_f32(), &self.qs, out);
    }
}

impl BlockIq4Xs {
    /// The eight 6-bit scales, with an offset of 32.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        let [a, b, c, d] = self.scales_l;
        let mut scales = [a & 15, a >> 4, b & 15, b >> 4, c & 15, c >> 4, d & 15, d >> 4];
        for (j, scale) in scales.iter_mut().enumerate() {
            *scale |= ((high >> (2 * j) & 3) << 4) as u8;
        }
        scales
    }
}

impl Block<256> for BlockIq4Xs {
    const STORAGE: StorageType = StorageType::IQ4_XS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, qs), s) in groups.zip(&self.qs).zip(self.sub_scales()) {
            scale_uneven(d * (f32::from(s) - 32.0), qs, out);
        }
    }
}
