//! Ternary blocks (blocks.md, "256 weights, ternary").

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::unpack::{RAISE, RAISED, apart, quarters, scale, split_quarters, two_bits};
use super::{Block, F16};
use crate::storage::StorageType;

/// `tq1_0`: five base-3 digits a byte, in the last four bytes four.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockTq1_0 {
    pub(crate) qs: [u8; 48],
    pub(crate) qh: [u8; 4],
    pub(crate) d: F16,
}

/// `tq2_0`: 2-bit codes with an offset of 1.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockTq2_0 {
    pub(crate) qs: [[u8; 32]; 2],
    pub(crate) d: F16,
}

/// Digit after digit of `bytes`, highest first, into as many rows of `digits`.
#[inline(always)]
fn base3<const N: usize>(bytes: &[u8], digits: &mut [u8]) {
    let mut rest = [0; N];
    for (rest, byte) in rest.iter_mut().zip(bytes) {
        *rest = *byte;
    }
    for digits in digits.as_chunks_mut::<N>().0 {
        for (digit, rest) in digits.iter_mut().zip(&mut rest) {
            // What (rest * 3) >> 8 gives: 3 * 86 is the first over 255, 3 * 171 over 511.
            *digit = u8::from(*rest > 85) + u8::from(*rest > 170);
            *rest = rest.wrapping_mul(3);
        }
    }
}

impl BlockTq1_0 {
    /// The digits, 0 to 2 with an offset of 1, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        let mut codes = [0; 256];
        let (first, rest) = codes.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        let (qs32, qs16) = self.qs.split_at(32);
        base3::<32>(qs32, first);
        base3::<16>(qs16, second);
        base3::<4>(&self.qh, third);
        codes
    }
}

impl Block<256> for BlockTq1_0 {
    const STORAGE: StorageType = StorageType::TQ1_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        let codes = apart(self.codes());
        let rows = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for (out, codes) in rows {
            scale(d, codes, 1.0, out);
        }
    }
}

impl BlockTq2_0 {
    /// The codes, 0 to 3 with an offset of 1, in the order of the weights.
    #[inline(always)]
    pub(crate) fn codes(&self) -> [u8; 256] {
        two_bits(&self.qs)
    }
}

impl Block<256> for BlockTq2_0 {
    const STORAGE: StorageType = StorageType::TQ2_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.widened();
        // Each code comes times a power of 4, and so does its offset.
        let terms = [1.0, 4.0, 16.0, 64.0].map(|power| (d / power, RAISE + power));
        let weight = |bits, (d, offset)| d * (f32::from_bits(bits) - offset);
        for (out, qs) in out.as_chunks_mut::<128>().0.iter_mut().zip(&self.qs) {
            split_quarters(qs, RAISED, terms, weight, quarters(out));
        }
    }
}
