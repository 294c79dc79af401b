//! The legacy blocks of 32 weights (blocks.md, "32 weights").

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::unpack::{nibbles, scale, scale_add, scale_signed};
use super::{Block, F16};
use crate::storage::StorageType;

/// `q4_0`: a scale, and 4-bit codes with an offset of 8.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_0 {
    pub(crate) d: F16,
    pub(crate) qs: [u8; 16],
}

/// `q4_1`: a scale, a minimum, and 4-bit codes.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_1 {
    pub(crate) d: F16,
    pub(crate) m: F16,
    pub(crate) qs: [u8; 16],
}

/// `q5_0`: a scale, and 5-bit codes with an offset of 16.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_0 {
    pub(crate) d: F16,
    /// The fifth bits, one a weight.
    pub(crate) qh: [u8; 4],
    pub(crate) qs: [u8; 16],
}

/// `q5_1`: a scale, a minimum, and 5-bit codes.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_1 {
    pub(crate) d: F16,
    pub(crate) m: F16,
    /// The fifth bits, one a weight.
    pub(crate) qh: [u8; 4],
    pub(crate) qs: [u8; 16],
}

/// `q8_0`: a scale, and 8-bit integers.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_0 {
    pub(crate) d: F16,
    pub(crate) qs: [i8; 32],
}

/// `q8_1`: a scale, the scaled sum of the integers (not needed to decode), and 8-bit
/// integers.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_1 {
    pub(crate) d: F16,
    pub(crate) s: F16,
    pub(crate) qs: [i8; 32],
}

/// The 5-bit codes of a block: nibbles, and bit `i` of `qh` for weight `i`.
#[inline(always)]
pub(crate) fn five_bits(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let qh = u32::from_le_bytes(qh);
    let mut codes = nibbles(qs);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((qh >> i & 1) << 4) as u8;
    }
    codes
}

impl Block<32> for BlockQ4_0 {
    const STORAGE: StorageType = StorageType::Q4_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale(self.d.to_f32(), &nibbles(&self.qs), 8, out);
    }
}

impl Block<32> for BlockQ4_1 {
    const STORAGE: StorageType = StorageType::Q4_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_add(self.d.to_f32(), self.m.to_f32(), &nibbles(&self.qs), out);
    }
}

impl Block<32> for BlockQ5_0 {
    const STORAGE: StorageType = StorageType::Q5_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale(self.d.to_f32(), &five_bits(self.qh, &self.qs), 16, out);
    }
}

impl Block<32> for BlockQ5_1 {
    const STORAGE: StorageType = StorageType::Q5_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_add(self.d.to_f32(), self.m.to_f32(), &five_bits(self.qh, &self.qs), out);
    }
}

impl Block<32> for BlockQ8_0 {
    const STORAGE: StorageType = StorageType::Q8_0;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_signed(self.d.to_f32(), &self.qs, out);
    }
}

impl Block<32> for BlockQ8_1 {
    const STORAGE: StorageType = StorageType::Q8_1;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_signed(self.d.to_f32(), &self.qs, out);
    }
}
