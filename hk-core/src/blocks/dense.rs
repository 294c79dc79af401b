//! The fifteen dense types (payloads.md, "Conventions"): an element is a block of one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::unpack::{apart, fence, signed};
use super::{Block, one_by_one};
use crate::storage::StorageType;

/// One element of the dense type `f32`: IEEE binary32.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct F32(pub [u8; 4]);

/// One element of the dense type `f16`: IEEE binary16.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct F16(pub [u8; 2]);

/// One element of the dense type `bf16`: the upper half of an f32.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Bf16(pub [u8; 2]);

/// One element of the dense type `fp8_e4m3`: bias 7, no infinities, 0x7F and 0xFF are NaN.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(transparent)]
pub struct Fp8E4M3(pub u8);

/// One element of the dense type `fp8_e5m2`: the upper half of an f16.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
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
        let half = u32::from(u16::from_le_bytes(self.0));
        let quiet = if half & 0x7FFF > 0x7C00 { 1 << 22 } else { 0 };
        f32::from_bits(widen(half).to_bits() | quiet)
    }

    /// As [`to_f32`](Self::to_f32), but a NaN may be a signalling one, which makes no
    /// difference to a scale; and quicker alone than many at a time.
    #[inline(always)]
    pub(crate) fn widened(self) -> f32 {
        let half = i16::from_le_bytes(self.0);
        // Exponents 1 to 30 only take another bias; the shift leaves the sign where it is.
        if (i32::from(half) + 0x0400) & 0x7800 != 0 {
            let shifted = (i32::from(half) << 13) as u32;
            f32::from_bits((shifted & 0x8FFF_E000) + (112 << 23))
        } else {
            widen(u32::from(half as u16))
        }
    }
}

/// The bits of an f16, in the low half of `half`, to f32.
#[inline(always)]
const fn widen(half: u32) -> f32 {
    let magnitude = (half & 0x7FFF) << 13;
    // The exponent's bias grows by 112; infinities and NaN go from exponent 31 to 255.
    let rebias = if magnitude < (0x7C00 << 13) { 112 << 23 } else { 224 << 23 };
    // A subnormal has no implicit one: give it the exponent of 2^-14, take 2^-14 off.
    let subnormal = f32::from_bits(magnitude + (113 << 23)) - f32::from_bits(113 << 23);
    let bits = if magnitude < (1 << 23) { subnormal.to_bits() } else { magnitude + rebias };
    f32::from_bits(bits | (half & 0x8000) << 16)
}

impl Block<1> for F32 {
    const STORAGE: StorageType = StorageType::F32;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from_le_bytes(self.0)];
    }

    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; 1]]) {
        // A copy of memory, which compilers see in a plain loop.
        one_by_one(blocks, out);
    }
}

impl Block<1> for Bf16 {
    const STORAGE: StorageType = StorageType::BF16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [f32::from_bits(u32::from(u16::from_le_bytes(self.0)) << 16)];
    }
}

impl Block<1> for Int8 {
    const STORAGE: StorageType = StorageType::INT8;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [signed(self.0)];
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

impl Uint64 {
    /// The same number, rounded to nearest even. The compiler's own conversion branches on
    /// the highest bit.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        let number = u64::from_le_bytes(self.0);
        // A number that no i64 holds is halved; its last bit still says which way to round.
        let top = number >> 63;
        let half = number >> top | number & top;
        half as i64 as f32 * f32::from_bits((127 + top as u32) << 23)
    }
}

impl Block<1> for Uint64 {
    const STORAGE: StorageType = StorageType::UINT64;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [self.to_f32()];
    }

    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; 1]]) {
        one_by_one(blocks, out);
    }
}

impl Block<1> for F16 {
    const STORAGE: StorageType = StorageType::F16;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        *out = [self.to_f32()];
    }

    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; 1]]) {
        let (steps, rest) = blocks.as_chunks::<32>();
        let (out_steps, out_rest) = out.as_chunks_mut::<32>();
        for (elements, out) in steps.iter().zip(out_steps) {
            decode_step(elements, out);
        }
        decode_any(rest, out_rest);
    }
}

/// 32 elements: almost always none is 0, subnormal, infinite or NaN, and those that are not
/// only take another bias.
#[inline(always)]
fn decode_step(elements: &[F16; 32], out: &mut [[f32; 1]; 32]) {
    fence();
    let mut ordinary = true;
    for element in elements {
        ordinary &= u16::from_le_bytes(element.0).wrapping_add(0x0400) & 0x7800 != 0;
    }
    if ordinary {
        for (element, out) in elements.iter().zip(out) {
            let shifted = (u32::from(u16::from_le_bytes(element.0)) << 16) as i32 >> 3;
            *out = [f32::from_bits((shifted as u32 & 0x8FFF_E000) + (112 << 23))];
        }
    } else {
        decode_any(elements, out);
    }
}

/// Elements of any kind. Not inlined, so that the number of elements is not known and the
/// loop is vectorized rather than unrolled.
#[inline(never)]
fn decode_any(elements: &[F16], out: &mut [[f32; 1]]) {
    one_by_one(elements, out);
}

impl Fp8E4M3 {
    /// The number that the low seven bits of a code stand for, NaN not told apart.
    #[inline(always)]
    pub(crate) const fn magnitude(code: u8) -> f32 {
        let magnitude = ((code & 0x7F) as u32) << 20;
        if magnitude < (1 << 23) {
            // As for f16, with a bias that grows by 120.
            f32::from_bits(magnitude + (121 << 23)) - f32::from_bits(121 << 23)
        } else {
            f32::from_bits(magnitude + (120 << 23))
        }
    }
}

/// The upper halves of the f32 that the codes of an 8-bit float stand for (the lower ones
/// are 0), from the positive ones and the code of the first NaN.
const fn upper_halves(positive: [f32; 128], nan: usize) -> [u16; 256] {
    let mut halves = [0; 256];
    let mut code = 0;
    while code < 128 {
        let half = if code < nan { (positive[code].to_bits() >> 16) as u16 } else { 0x7FC0 };
        halves[code] = half;
        halves[code + 128] = if code < nan { half | 0x8000 } else { half };
        code += 1;
    }
    halves
}

static E4M3: [u16; 256] = {
    let mut positive = [0.0; 128];
    let mut code = 0;
    while code < 128 {
        positive[code] = Fp8E4M3::magnitude(code as u8);
        code += 1;
    }
    upper_halves(positive, 0x7F)
};

static E5M2: [u16; 256] = {
    let mut positive = [0.0; 128];
    let mut code = 0;
    while code < 128 {
        positive[code] = widen((code as u32) << 8);
        code += 1;
    }
    upper_halves(positive, 0x7D)
};

/// Looks up 8-bit floats, four a word: single stores would take most of the time.
#[inline(always)]
fn look_up(halves: &[u16; 256], codes: &[u8], out: &mut [[f32; 1]]) {
    let (steps, rest) = codes.as_chunks::<32>();
    let (out_steps, out_rest) = out.as_chunks_mut::<32>();
    for (codes, out) in steps.iter().zip(out_steps) {
        let mut words = [[0; 8]; 8];
        for (word, codes) in words.iter_mut().zip(codes.as_chunks::<4>().0) {
            let join = |word: u64, code: &u8| word << 16 | u64::from(halves[usize::from(*code)]);
            *word = codes.iter().rev().fold(0, join).to_le_bytes();
        }
        let words = apart(words);
        for (half, out) in words.as_flattened().as_chunks().0.iter().zip(out) {
            Bf16(*half).decode(out);
        }
    }
    for (code, out) in rest.iter().zip(out_rest) {
        *out = [f32::from_bits(u32::from(halves[usize::from(*code)]) << 16)];
    }
}

impl Block<1> for Fp8E4M3 {
    const STORAGE: StorageType = StorageType::FP8_E4M3;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        look_up(&E4M3, &[self.0], core::slice::from_mut(out));
    }

    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; 1]]) {
        look_up(&E4M3, blocks.as_bytes(), out);
    }
}

impl Block<1> for Fp8E5M2 {
    const STORAGE: StorageType = StorageType::FP8_E5M2;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 1]) {
        look_up(&E5M2, &[self.0], core::slice::from_mut(out));
    }

    #[inline(always)]
    fn decode_all(blocks: &[Self], out: &mut [[f32; 1]]) {
        look_up(&E5M2, blocks.as_bytes(), out);
    }
}
