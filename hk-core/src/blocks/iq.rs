//! I-quants: codes that are rows of a codebook (blocks.md, "256 weights, I-quants", and
//! `iq4_nl`).
//!
//! `quants` of a block gives the integers that its scales multiply, in the order of the
//! weights. No magnitude in a codebook is 0, so negating one is the same as negating the
//! product.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_PAIRS};
use super::unpack::{UP, apart, fence, look_up};
use super::{Block, F16};
use crate::storage::StorageType;

/// `iq1_s`: rows of -1, 0, 1; groups of 32 with a 3-bit scale and a shift of 1/8 up or down.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq1S {
    pub(crate) d: F16,
    pub(crate) qs: [[u8; 4]; 8],
    /// u16 a group of 32: upper bits of four rows, scale, direction of the shift.
    pub(crate) qh: [[u8; 2]; 8],
}

/// `iq1_m`: rows of -1, 0, 1; groups of 16 with a 3-bit scale, groups of 8 with a shift.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq1M {
    pub(crate) qs: [[u8; 4]; 8],
    /// Nibble a group of 8: upper bits of the row, direction of the shift.
    pub(crate) qh: [[u8; 2]; 8],
    /// u16 each: four 3-bit scales, and a nibble of the f16 scale on top.
    pub(crate) scales: [[u8; 2]; 4],
}

/// `iq2_xxs`: rows of 8 magnitudes, 7-bit sign indexes, groups of 32 with a 4-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq2Xxs {
    pub(crate) d: F16,
    /// A group of 32: four rows, then u32 of four sign indexes and the scale.
    pub(crate) qs: [[[u8; 4]; 2]; 8],
}

/// `iq2_xs`: rows of 8 magnitudes, 7-bit sign indexes, groups of 16 with a 4-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq2Xs {
    pub(crate) d: F16,
    /// u16 a group of 8: 9 bits of row, 7 of sign index.
    pub(crate) qs: [[[u8; 2]; 4]; 8],
    pub(crate) scales: [u8; 8],
}

/// `iq2_s`: rows of 8 magnitudes, sign bytes, groups of 16 with a 4-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
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
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq3Xxs {
    pub(crate) d: F16,
    pub(crate) qs: [[u8; 8]; 8],
    /// u32 a group of 32: four sign indexes and the scale.
    pub(crate) signs: [[u8; 4]; 8],
}

/// `iq3_s`: rows of 4 magnitudes, sign bytes, groups of 32 with a 4-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq3S {
    pub(crate) d: F16,
    pub(crate) qs: [[u8; 8]; 8],
    /// Ninth bits of the rows.
    pub(crate) qh: [u8; 8],
    pub(crate) signs: [[u8; 4]; 8],
    pub(crate) scales: [u8; 4],
}

/// `iq4_nl`: a scale, and 4-bit codes of unevenly spaced values.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq4Nl {
    pub(crate) d: F16,
    pub(crate) qs: [u8; 16],
}

/// `iq4_xs`: 4-bit codes of unevenly spaced values, groups of 32 with a 6-bit scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIq4Xs {
    pub(crate) d: F16,
    pub(crate) scales_h: [u8; 2],
    pub(crate) scales_l: [u8; 4],
    pub(crate) qs: [[u8; 16]; 8],
}

/// 32 weights as `N` rows of `R` magnitudes, and their signs.
pub(crate) struct Group<const N: usize, const R: usize> {
    pub(crate) rows: [&'static [u8; R]; N],
    /// Bit `k` negates weight `k` of the row.
    pub(crate) signs: [u8; N],
}

impl<const N: usize, const R: usize> Group<N, R> {
    /// The signed integers that the scale multiplies, in the order of the weights.
    #[inline(always)]
    pub(crate) fn integers(&self) -> [i8; 32] {
        let mut integers = [0; 32];
        let rows = integers.as_chunks_mut::<R>().0.iter_mut();
        for ((integers, row), signs) in rows.zip(self.rows).zip(self.signs) {
            for ((q, &g), bit) in integers.iter_mut().zip(row).zip(BITS) {
                *q = if u32::from(signs) & bit == 0 { g as i8 } else { -(g as i8) };
            }
        }
        integers
    }

    /// The first and the second 16 weights, each with its scale.
    #[inline(always)]
    fn scale(&self, [first, second]: [f32; 2], out: &mut [f32; 32]) {
        // Not known to the compiler, which would shift each bit to the top by a multiplication.
        let bits = apart(&BITS);
        let rows = self.rows.iter().zip(self.signs).enumerate();
        for (out, (i, (row, signs))) in out.as_chunks_mut().0.iter_mut().zip(rows) {
            let scale = if i < N / 2 { first } else { second };
            scale_row(scale, row, signs, bits, out);
        }
    }
}

/// The bits of a sign byte, lowest first.
static BITS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// `scale * g` for each magnitude of a row, negated where its bit of `signs` is set.
#[inline(always)]
fn scale_row<const R: usize>(
    scale: f32,
    row: &[u8; R],
    signs: u8,
    bits: &[u32; 8],
    out: &mut [f32; R],
) {
    fence();
    for ((w, &g), &bit) in out.iter_mut().zip(row).zip(bits) {
        let sign = if u32::from(signs) & bit == bit { 1 << 31 } else { 0 };
        *w = f32::from_bits((scale * f32::from(g)).to_bits() ^ sign);
    }
}

/// The sign bytes of four 7-bit indexes, one a byte: bit 7 makes the number of ones even.
#[inline(always)]
fn even_signs(indexes: [u8; 4]) -> [u8; 4] {
    let indexes = u32::from_le_bytes(indexes);
    // Bit 0 of each byte becomes the parity of the byte.
    let parity = indexes ^ indexes >> 4;
    let parity = parity ^ parity >> 2;
    let parity = (parity ^ parity >> 1) & 0x0101_0101;
    (indexes | parity << 7).to_le_bytes()
}

/// The sign bytes of a u32 of four 7-bit indexes.
#[inline(always)]
fn packed_signs(indexes: [u8; 4]) -> [u8; 4] {
    let indexes = u32::from_le_bytes(indexes);
    even_signs([0, 7, 14, 21].map(|shift| (indexes >> shift & 127) as u8))
}

/// The nibbles of four bytes, lowest first.
#[inline(always)]
fn in_nibbles([a, b, c, d]: [u8; 4]) -> [u8; 8] {
    [a & 15, a >> 4, b & 15, b >> 4, c & 15, c >> 4, d & 15, d >> 4]
}

/// The scale of a group as most I-quants have it: `(d * (0.5 + s)) * factor`.
#[inline(always)]
fn half_scale(d: f32, s: u8, factor: f32) -> f32 {
    (d * (0.5 + f32::from(s))) * factor
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
        let d = self.d.widened();
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
        let d = self.d().widened();
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
    /// The weights of a group of 32.
    #[inline(always)]
    pub(crate) fn group(&[rows, signs]: &[[u8; 4]; 2]) -> Group<4, 8> {
        let rows = rows.map(|row| &IQ2_XXS[usize::from(row)]);
        Group { rows, signs: packed_signs(signs) }
    }

    /// The 4-bit scale of a group of 32.
    #[inline(always)]
    pub(crate) fn sub_scale([_, signs]: &[[u8; 4]; 2]) -> u8 {
        signs[3] >> 4
    }
}

impl Block<256> for BlockIq2Xxs {
    const STORAGE: StorageType = StorageType::IQ2_XXS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        for (out, qs) in out.as_chunks_mut().0.iter_mut().zip(&self.qs) {
            Self::group(qs).scale([half_scale(d, Self::sub_scale(qs), 0.25); 2], out);
        }
    }
}

/// The scales of the two halves of a group of 32, one a nibble.
#[inline(always)]
fn half_scales(d: f32, scales: u8) -> [f32; 2] {
    [scales & 15, scales >> 4].map(|s| half_scale(d, s, 0.25))
}

impl BlockIq2Xs {
    /// The weights of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: &[[u8; 2]; 4]) -> Group<4, 8> {
        let qs = qs.map(u16::from_le_bytes);
        let rows = qs.map(|q| &IQ2_XS[usize::from(q & 511)]);
        Group { rows, signs: even_signs(qs.map(|q| (q >> 9) as u8)) }
    }
}

impl Block<256> for BlockIq2Xs {
    const STORAGE: StorageType = StorageType::IQ2_XS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let groups = out.as_chunks_mut().0.iter_mut().zip(&self.qs);
        for ((out, qs), &scales) in groups.zip(&self.scales) {
            Self::group(qs).scale(half_scales(d, scales), out);
        }
    }
}

impl BlockIq2S {
    /// The weights of group `ib` of 32, for each.
    #[inline(always)]
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<4, 8>> {
        let groups = self.qs.iter().zip(&self.qh).zip(&self.signs);
        groups.map(|((&[a, b, c, d], &qh), &signs)| {
            let rows = [(a, qh), (b, qh >> 2), (c, qh >> 4), (d, qh >> 6)]
                .map(|(q, high)| &IQ2_S[usize::from(q) | usize::from(high & 3) << 8]);
            Group { rows, signs }
        })
    }
}

impl Block<256> for BlockIq2S {
    const STORAGE: StorageType = StorageType::IQ2_S;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let groups = out.as_chunks_mut().0.iter_mut().zip(self.groups());
        for ((out, group), &scales) in groups.zip(&self.scales) {
            group.scale(half_scales(d, scales), out);
        }
    }
}

impl BlockIq3Xxs {
    /// The weights of a group of 32.
    #[inline(always)]
    pub(crate) fn group(qs: &[u8; 8], signs: [u8; 4]) -> Group<8, 4> {
        let rows = qs.map(|row| &IQ3_XXS[usize::from(row)]);
        Group { rows, signs: in_nibbles(packed_signs(signs)) }
    }
}

impl Block<256> for BlockIq3Xxs {
    const STORAGE: StorageType = StorageType::IQ3_XXS;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let groups = out.as_chunks_mut().0.iter_mut().zip(&self.qs);
        for ((out, qs), &signs) in groups.zip(&self.signs) {
            Self::group(qs, signs).scale([half_scale(d, signs[3] >> 4, 0.5); 2], out);
        }
    }
}

impl BlockIq3S {
    /// The weights of each group of 32.
    #[inline(always)]
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<8, 4>> {
        let groups = self.qs.iter().zip(&self.qh).zip(&self.signs);
        groups.map(|((qs, &qh), &signs)| {
            let mut bit = 0;
            let rows = qs.map(|q| {
                let high = qh >> bit & 1;
                bit += 1;
                &IQ3_S[usize::from(q) | usize::from(high) << 8]
            });
            Group { rows, signs: in_nibbles(signs) }
        })
    }

    /// The eight 4-bit scales.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 8] {
        in_nibbles(self.scales)
    }
}

impl Block<256> for BlockIq3S {
    const STORAGE: StorageType = StorageType::IQ3_S;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let groups = out.as_chunks_mut().0.iter_mut().zip(self.groups());
        for ((out, group), s) in groups.zip(self.sub_scales()) {
            group.scale([d * f32::from(1 + 2 * s); 2], out);
        }
    }
}

/// `d * K[q]` for 32 weights, `d` an f16 or one times a whole number. 2^24 goes into the one
/// factor and out of the other exactly, since no f16 is smaller than 2^-24.
#[inline(always)]
fn scale_uneven(d: f32, qs: &[u8; 16], out: &mut [f32; 32]) {
    look_up(&IQ4_PAIRS, qs, |value| (d * (1.0 / UP)) * value, out);
}

impl Block<32> for BlockIq4Nl {
    const STORAGE: StorageType = StorageType::IQ4_NL;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_uneven(self.d.widened(), &self.qs, out);
    }
}

impl BlockIq4Xs {
    /// The eight 6-bit scales, with an offset of 32.
    #[inline(always)]
    pub(crate) fn sub_scales(&self) -> [u8; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        let mut scales = in_nibbles(self.scales_l);
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
        let d = self.d.widened();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, qs), s) in groups.zip(&self.qs).zip(self.sub_scales()) {
            scale_uneven(d * (f32::from(s) - 32.0), qs, out);
        }
    }
}
