//! The fifteen dense types (payloads.md, "Conventions"): an element is a block of one.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::Block;
use crate::storage::StorageType;

/// One element of the dense type `f32`: IEEE binary32.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct F32(pub [u8; 4]);

/// One element of the dense type `f16`: IEEE binary16.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct F16(pub [u8; 2]);

/// One element of the dense type `bf16`: the upper half of an f32.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Bf16(pub [u8; 2]);

/// One element of the dense type `fp8_e4m3`: bias 7, no infinities, 0x7F and 0xFF are NaN.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Fp8E4M3(pub u8);

/// One element of the dense type `fp8_e5m2`: the upper half of an f16.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Fp8E5M2(pub u8);

/// One element of the dense type `int8`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Int8(pub i8);

/// One element of the dense type `int16`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Int16(pub [u8; 2]);

/// One element of the dense type `int32`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Int32(pub [u8; 4]);

/// One element of the dense type `int64`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Int64(pub [u8; 8]);

/// One element of the dense type `uint8`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Uint8(pub u8);

/// One element of the dense type `uint16`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Uint16(pub [u8; 2]);

/// One element of the dense type `uint32`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Uint32(pub [u8; 4]);

/// One element of the dense type `uint64`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Uint64(pub [u8; 8]);

/// One element of the dense type `bool`: nonzero is true.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Bool(pub u8);

/// One element of the dense type `f64`: IEEE binary64.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct F64(pub [u8; 8]);

/// The f32 whose bits every NaN of an 8-bit float becomes.
const FP8_NAN: u32 = 0x7FC0_0000;

impl F16 {
    /// The same number as f32. A NaN keeps its sign and payload and gets its quiet bit.
    ///
    /// Integer arithmetic, so that every host gives the same bits (hosts differ in what
    /// they do to a NaN), and without branches, so that a loop over it is vectorized.
    ///
    /// ```
    /// use hk_core::blocks::F16;
    /// assert_eq!(F16([0x00, 0x3C]).to_f32(), 1.0);
    /// assert_eq!(F16([0x01, 0x80]).to_f32(), -(2f32.powi(-24)));
    /// assert_eq!(F16([0x01, 0xFC]).to_f32().to_bits(), 0xFFC0_2000);
    /// ```
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        widen(u32::from(u16::from_le_bytes(self.0)))
    }
}

/// The bits of an f16, in the low half of `half`, to f32.
#[inline(always)]
fn widen(half: u32) -> f32 {
    const INFINITY: u32 = 0x7C00 << 13;
    const QUIET: u32 = 1 << 22;
    let magnitude = (half & 0x7FFF) << 13;
    // The exponent's bias grows by 112; infinities and NaN go from exponent 143 to 255.
    let rebiased = magnitude + (112 << 23);
    let special = magnitude + (224 << 23);
    // A subnormal has no implicit one: give it the exponent of 2^-14, take 2^-14 off.
    let subnormal = f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23);
    let quiet = if magnitude > INFINITY { QUIET } else { 0 };
    let finite = if magnitude < (1 << 23) { subnormal.to_bits() } else { rebiased };
    let bits = if magnitude < INFINITY { finite } else { special | quiet };
    f32::from_bits(bits | (half & 0x8000) << 16)
}

impl Block<1> for F32 {
    const STORAGE: StorageType = StorageType::F32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from_le_bytes(self.0)];
    }
}

impl Block<1> for F16 {
    const STORAGE: StorageType = StorageType::F16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [self.to_f32()];
    }
}

impl Block<1> for Bf16 {
    const STORAGE: StorageType = StorageType::BF16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from_bits(u32::from(u16::from_le_bytes(self.0)) << 16)];
    }
}

impl Fp8E4M3 {
    /// The number that the low seven bits of a code stand for, NaN not told apart.
    #[inline(always)]
    pub(super) fn magnitude(code: u8) -> f32 {
        let magnitude = u32::from(code & 0x7F) << 20;
        // As for f16, with a bias that grows by 120.
        let subnormal = f32::from_bits(magnitude + (121 << 23)) - f32::from_bits(121 << 23);
        let normal = f32::from_bits(magnitude + (120 << 23));
        if magnitude < (1 << 23) { subnormal } else { normal }
    }
}

impl Block<1> for Fp8E4M3 {
    const STORAGE: StorageType = StorageType::FP8_E4M3;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        let bits = Self::magnitude(self.0).to_bits() | u32::from(self.0 & 0x80) << 24;
        *out = [f32::from_bits(if self.0 & 0x7F == 0x7F { FP8_NAN } else { bits })];
    }
}

impl Block<1> for Fp8E5M2 {
    const STORAGE: StorageType = StorageType::FP8_E5M2;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        let bits = widen(u32::from(self.0) << 8).to_bits();
        *out = [f32::from_bits(if self.0 & 0x7F > 0x7C { FP8_NAN } else { bits })];
    }
}

impl Block<1> for Int8 {
    const STORAGE: StorageType = StorageType::INT8;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from(self.0)];
    }
}

impl Block<1> for Int16 {
    const STORAGE: StorageType = StorageType::INT16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from(i16::from_le_bytes(self.0))];
    }
}

impl Block<1> for Int32 {
    const STORAGE: StorageType = StorageType::INT32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [i32::from_le_bytes(self.0) as f32];
    }
}

impl Block<1> for Int64 {
    const STORAGE: StorageType = StorageType::INT64;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [i64::from_le_bytes(self.0) as f32];
    }
}

impl Block<1> for Uint8 {
    const STORAGE: StorageType = StorageType::UINT8;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from(self.0)];
    }
}

impl Block<1> for Uint16 {
    const STORAGE: StorageType = StorageType::UINT16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from(u16::from_le_bytes(self.0))];
    }
}

impl Block<1> for Uint32 {
    const STORAGE: StorageType = StorageType::UINT32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [u32::from_le_bytes(self.0) as f32];
    }
}

impl Block<1> for Uint64 {
    const STORAGE: StorageType = StorageType::UINT64;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [u64::from_le_bytes(self.0) as f32];
    }
}

impl Block<1> for Bool {
    const STORAGE: StorageType = StorageType::BOOL;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [if self.0 == 0 { 0.0 } else { 1.0 }];
    }
}

impl Block<1> for F64 {
    const STORAGE: StorageType = StorageType::F64;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f64::from_le_bytes(self.0) as f32];
    }
}
