//! The legacy blocks of 32 weights (blocks.md, "32 weights").

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::unpack::{
    RAISE, RAISED, apart, masks, nibbles, scale, scale_less, scale_signed, split_nibbles,
};
use super::{Block, F16};
use crate::storage::StorageType;

/// `q4_0`: a scale, and 4-bit codes with an offset of 8.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_0 {
    pub(crate) d: F16,
    pub(crate) qs: [u8; 16],
}

/// `q4_1`: a scale, a minimum, and 4-bit codes.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_1 {
    pub(crate) d: F16,
    pub(crate) m: F16,
    pub(crate) qs: [u8; 16],
}

/// `q5_0`: a scale, and 5-bit codes with an offset of 16.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_0 {
    pub(crate) d: F16,
    /// The fifth bits, one a weight.
    pub(crate) qh: [u8; 4],
    pub(crate) qs: [u8; 16],
}

/// `q5_1`: a scale, a minimum, and 5-bit codes.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_1 {
    pub(crate) d: F16,
    pub(crate) m: F16,
    /// The fifth bits, one a weight.
    pub(crate) qh: [u8; 4],
    pub(crate) qs: [u8; 16],
}

/// `q8_0`: a scale, and 8-bit integers.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_0 {
    pub(crate) d: F16,
    pub(crate) qs: [i8; 32],
}

/// `q8_1`: a scale, the scaled sum of the integers (not needed to decode), and 8-bit
/// integers.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_1 {
    pub(crate) d: F16,
    pub(crate) s: F16,
    pub(crate) qs: [i8; 32],
}

/// The 5-bit codes of a block: nibbles, and bit `i` of `qh` for weight `i`.
#[inline(always)]
pub(crate) fn five_bits(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let mut codes = nibbles(qs);
    for (code, mask) in codes.iter_mut().zip(masks(qh)) {
        *code |= mask & 16;
    }
    codes
}

impl Block<32> for BlockQ4_0 {
    const STORAGE: StorageType = StorageType::Q4_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.widened();
        let terms = [(d, RAISE + 8.0), (d / 16.0, RAISE + 8.0 * 16.0)];
        let weight = |bits, (d, offset)| d * (f32::from_bits(bits) - offset);
        split_nibbles(&self.qs, RAISED, terms, weight, out);
    }
}

impl Block<32> for BlockQ4_1 {
    const STORAGE: StorageType = StorageType::Q4_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        let (d, m) = (self.d.widened(), self.m.widened());
        split_nibbles(&self.qs, 0, [d, d / 16.0], |code, d| (d * code as i32 as f32) + m, out);
    }
}

impl Block<32> for BlockQ5_0 {
    const STORAGE: StorageType = StorageType::Q5_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale(self.d.widened(), &apart(five_bits(self.qh, &self.qs)), 16.0, out);
    }
}

impl Block<32> for BlockQ5_1 {
    const STORAGE: StorageType = StorageType::Q5_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        // Subtracting the negated minimum is adding it.
        let (d, m) = (self.d.widened(), -self.m.widened());
        scale_less(d, m, &apart(five_bits(self.qh, &self.qs)), out);
    }
}

impl Block<32> for BlockQ8_0 {
    const STORAGE: StorageType = StorageType::Q8_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_signed(self.d.widened(), &self.qs, out);
    }
}

impl Block<32> for BlockQ8_1 {
    const STORAGE: StorageType = StorageType::Q8_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_signed(self.d.widened(), &self.qs, out);
    }
}
