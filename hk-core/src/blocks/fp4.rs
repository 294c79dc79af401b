//! 4-bit floats (E2M1) with 8-bit float scales (blocks.md, "32 weights").

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::unpack::{UP, look_up, pairs};
use super::{Block, Fp8E4M3};
use crate::storage::StorageType;

/// `mxfp4`: 32 weights, a power of two as scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockMxfp4 {
    pub(crate) e: u8,
    pub(crate) qs: [u8; 16],
}

/// `nvfp4`: 64 weights, groups of 16 with an unsigned E4M3 scale.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockNvfp4 {
    pub(crate) d: [u8; 4],
    pub(crate) qs: [[u8; 8]; 4],
}

/// Twice the value of each E2M1 code, as whole numbers.
pub(crate) static DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// [`DOUBLED`] for both codes of a byte.
static PAIRS: [u16; 256] = pairs(&DOUBLED);

/// What the codes stand for, doubled.
#[inline(always)]
pub(crate) fn doubled<const N: usize>(codes: [u8; N]) -> [i8; N] {
    codes.map(|code| DOUBLED[usize::from(code & 15)])
}

/// `scale * value` for the codes of `qs`. The scale can be too small to be divided by 2^24
/// before.
#[inline(always)]
fn scale_values(scale: f32, qs: &[u8], out: &mut [f32]) {
    look_up(&PAIRS, qs, |value| scale * (value * (1.0 / UP)), out);
}

impl BlockMxfp4 {
    /// The scale of a whole number in [`doubled`]: 2^(e-128), a subnormal for e < 2.
    #[inline(always)]
    pub(crate) fn scale(&self) -> f32 {
        let e = u32::from(self.e);
        f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
    }
}

impl Block<32> for BlockMxfp4 {
    const STORAGE: StorageType = StorageType::MXFP4;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 32]) {
        scale_values(self.scale(), &self.qs, out);
    }
}

impl BlockNvfp4 {
    /// The scale of a whole number in [`doubled`]: unsigned E4M3, halved. The sign bit is
    /// not looked at; the code of all ones below it means 0.
    #[inline(always)]
    pub(crate) fn scale(d: u8) -> f32 {
        if d == 0x7F { 0.0 } else { Fp8E4M3::magnitude(d) * 0.5 }
    }

    /// The codes of a group of 16: low nibbles, then high ones.
    #[inline(always)]
    pub(crate) fn codes(qs: &[u8; 8]) -> [u8; 16] {
        let mut codes = [0; 16];
        let (low, high) = codes.split_at_mut(8);
        for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
            *low = q & 15;
            *high = q >> 4;
        }
        codes
    }
}

impl Block<64> for BlockNvfp4 {
    const STORAGE: StorageType = StorageType::NVFP4;

    #[inline(always)]
    fn decode(&self, out: &mut [f32; 64]) {
        let groups = out.as_chunks_mut::<16>().0.iter_mut();
        for ((out, qs), &d) in groups.zip(&self.qs).zip(&self.d) {
            scale_values(Self::scale(d), qs, out);
        }
    }
}
