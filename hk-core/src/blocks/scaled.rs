//! Blocks of codes with their scales beside them: the dual-mode types and the split-scale
//! forms (payloads.md, "Dual-mode payloads" and "Split-scale forms").
//!
//! A block is as long as the file says, so that it is no struct; its codes begin at a byte
//! of their own.

use core::num::{NonZeroU16, NonZeroU64};

use super::steps::each_scaled_block;
use super::unpack::{apart, fence, scale_signed};
use crate::error::{Error, ErrorKind, Part, Section};
use crate::storage::StorageType;

/// What codes and scales stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaledType {
    /// `dq4`: [`NF4`], f32 scales.
    Dq4,
    /// `dq8`: signed bytes, f32 scales.
    Dq8,
    /// `dqt`: 0, plus or minus the scale, f32 scales.
    Dqt,
    /// Split-scale `iq4_nl`: [`IQ4`], f32 scales.
    Iq4Nl,
    /// Split-scale `mxfp4`: [`E2M1`], powers of two as scales, 32 weights a block.
    Mxfp4,
    /// Split-scale `nvfp4`: [`E2M1`], signed fp8_e4m3 scales, 16 weights a block.
    Nvfp4,
}

/// The values of the 4-bit codes of `dq4`.
pub const NF4: [f32; 16] = [
    -1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.0910500, 0.0, 0.0795803,
    0.1609302, 0.2461123, 0.3379152, 0.4407098, 0.562_617, 0.7229568, 1.0,
];

/// The values of the 4-bit codes of split-scale `iq4_nl`.
pub const IQ4: [f32; 16] = [
    -1.0, -0.7903226, -0.6129032, -0.4677419, -0.3387097, -0.2258065, -0.1290323, -0.0483871,
    0.0483871, 0.1290323, 0.2258065, 0.3387097, 0.4677419, 0.6129032, 0.7903226, 1.0,
];

/// The values of the 4-bit codes of split-scale `mxfp4` and `nvfp4`.
pub const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

impl ScaledType {
    /// What `storage` is once it has scales beside it.
    pub const fn of(storage: StorageType) -> Option<Self> {
        Some(match storage {
            StorageType::DQ4 => Self::Dq4,
            StorageType::DQ8 => Self::Dq8,
            StorageType::DQT => Self::Dqt,
            StorageType::IQ4_NL => Self::Iq4Nl,
            StorageType::MXFP4 => Self::Mxfp4,
            StorageType::NVFP4 => Self::Nvfp4,
            _ => return None,
        })
    }

    /// The storage type of such tensors.
    pub const fn storage(self) -> StorageType {
        match self {
            Self::Dq4 => StorageType::DQ4,
            Self::Dq8 => StorageType::DQ8,
            Self::Dqt => StorageType::DQT,
            Self::Iq4Nl => StorageType::IQ4_NL,
            Self::Mxfp4 => StorageType::MXFP4,
            Self::Nvfp4 => StorageType::NVFP4,
        }
    }

    /// Codes a byte, the first in the lowest bits: 1, 2 or 4.
    pub const fn codes_a_byte(self) -> usize {
        match self {
            Self::Dq8 => 1,
            Self::Dqt => 4,
            Self::Dq4 | Self::Iq4Nl | Self::Mxfp4 | Self::Nvfp4 => 2,
        }
    }

    /// Bytes of a scale.
    pub const fn scale_bytes(self) -> usize {
        match self {
            Self::Mxfp4 | Self::Nvfp4 => 1,
            Self::Dq4 | Self::Dq8 | Self::Dqt | Self::Iq4Nl => 4,
        }
    }

    /// Whether a residual stream beside it counts.
    pub const fn takes_residual(self) -> bool {
        matches!(self, Self::Dq4 | Self::Dq8 | Self::Dqt)
    }
}

/// Codes and scales in blocks of some length: what decides how large a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledForm {
    kind: ScaledType,
    block: NonZeroU16,
}

impl ScaledForm {
    /// Blocks of `block_size` weights; of `mxfp4` 32 and of `nvfp4` 16, whatever is said.
    ///
    /// ```
    /// use hk_core::blocks::{ScaledForm, ScaledType};
    /// let form = ScaledForm::new(ScaledType::Dq4, 31)?;
    /// // A block of 31 takes 16 bytes, the last one of 7 needs 4.
    /// assert_eq!((form.data_len(38), form.scales_len(38)), (20, 8));
    /// # Ok::<(), hk_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::BlockSize`] for 0.
    pub const fn new(kind: ScaledType, block_size: u16) -> Result<Self, Error> {
        let block_size = match kind {
            ScaledType::Mxfp4 => 32,
            ScaledType::Nvfp4 => 16,
            _ => block_size,
        };
        match NonZeroU16::new(block_size) {
            Some(block) => Ok(ScaledForm { kind, block }),
            None => Err(Error::new(ErrorKind::BlockSize(kind.storage()), Section::Toc, 0)),
        }
    }

    /// What codes and scales stand for.
    pub const fn kind(self) -> ScaledType {
        self.kind
    }

    /// Weights a block.
    pub const fn block(self) -> NonZeroU16 {
        self.block
    }

    /// Bytes of the codes of `weights` weights of one block.
    pub(crate) const fn code_bytes(self, weights: usize) -> usize {
        match self.kind.codes_a_byte() {
            1 => weights,
            2 => weights.div_ceil(2),
            _ => weights.div_ceil(4),
        }
    }

    /// Bytes of a whole block's codes, from the start of one to that of the next.
    pub const fn block_bytes(self) -> usize {
        self.code_bytes(self.block.get() as usize)
    }

    /// The block that element `index` lies in, and its place there.
    pub(crate) fn locate(self, index: u64) -> (u64, usize) {
        let block = NonZeroU64::from(self.block);
        (index / block, (index % block) as usize)
    }

    /// The bytes of codes that `count` weights need: of the last block its own codes only.
    /// 2^64 - 1 where that passes 2^64.
    pub fn data_len(self, count: u64) -> u64 {
        let (whole, last) = self.locate(count);
        let whole = whole.saturating_mul(self.block_bytes() as u64);
        whole.saturating_add(self.code_bytes(last) as u64)
    }

    /// [`data_len`](Self::data_len) where the last block is padded out.
    pub fn padded_len(self, count: u64) -> u64 {
        self.blocks(count).saturating_mul(self.block_bytes() as u64)
    }

    /// The bytes of scales that `count` weights need. 2^64 - 1 where that passes 2^64.
    pub fn scales_len(self, count: u64) -> u64 {
        self.blocks(count).saturating_mul(self.kind.scale_bytes() as u64)
    }

    /// Blocks that `count` weights are; the last may be short.
    pub fn blocks(self, count: u64) -> u64 {
        let (whole, last) = self.locate(count);
        whole.saturating_add(u64::from(last > 0))
    }
}

/// Consecutive blocks of codes, their scales, and where there is one the residual.
#[derive(Clone, Copy, Debug)]
pub struct ScaledBlocks<'a> {
    /// What they stand for, and how long a block is.
    pub form: ScaledForm,
    /// The codes, each block from a byte of its own on.
    pub codes: &'a [u8],
    /// The scales, one a block, little-endian.
    pub scales: &'a [u8],
    /// What to add to each weight, f32, little-endian; empty for nothing.
    pub residual: &'a [u8],
}

impl ScaledBlocks<'_> {
    /// Whether this is enough for `weights` weights.
    ///
    /// # Errors
    /// [`ErrorKind::TooShort`] naming the part.
    pub fn check(&self, weights: usize) -> Result<(), Error> {
        let count = weights as u64;
        check_part(Part::Data, self.form.data_len(count), self.codes)?;
        check_part(Part::Scales, self.form.scales_len(count), self.scales)?;
        let residual = if self.residual.is_empty() { 0 } else { count.saturating_mul(4) };
        check_part(Part::Residual, residual, self.residual)
    }
}

/// Whether `part` has the bytes that it needs.
pub(crate) fn check_part(part: Part, needed: u64, bytes: &[u8]) -> Result<(), Error> {
    let available = bytes.len() as u64;
    if available < needed {
        let kind = ErrorKind::TooShort { part, needed, available };
        return Err(Error::new(kind, Section::Payload, 0));
    }
    Ok(())
}

/// Decodes the first `out.len()` weights of `blocks`: the code times its scale, then plus the
/// residual, each rounded once. What stands behind
/// [`Backend::dequantize_scaled`](crate::Backend::dequantize_scaled).
///
/// ```
/// use hk_core::blocks::{ScaledBlocks, ScaledForm, ScaledType, dequantize_scaled};
/// let scales = [0.5_f32, 10.0].map(f32::to_le_bytes);
/// let blocks = ScaledBlocks {
///     form: ScaledForm::new(ScaledType::Dq8, 2)?,
///     codes: &[1, 2, 0xFF],
///     scales: scales.as_flattened(),
///     residual: &[],
/// };
/// let mut weights = [0.0; 3];
/// dequantize_scaled(&blocks, &mut weights)?;
/// assert_eq!(weights, [0.5, 1.0, -10.0]);
/// # Ok::<(), hk_core::Error>(())
/// ```
///
/// # Errors
/// As [`ScaledBlocks::check`]; [`ErrorKind::NotBuiltIn`] where the type's block family was left
/// out.
#[inline(always)]
pub fn dequantize_scaled(blocks: &ScaledBlocks<'_>, out: &mut [f32]) -> Result<(), Error> {
    blocks.check(out.len())?;
    let from_f32 = f32::from_le_bytes;
    match blocks.form.kind {
        ScaledType::Dq4 => each_block(blocks, out, from_f32, |scale, codes, out| {
            look_up(&NF4_PAIRS, scale, codes, out);
        }),
        ScaledType::Dq8 => each_block(blocks, out, from_f32, |scale, codes: &[u8; 32], out| {
            scale_signed(scale, &codes.map(u8::cast_signed), out);
        }),
        ScaledType::Dqt => each_block(blocks, out, from_f32, ternary_codes),
        #[cfg(feature = "i-quants")]
        ScaledType::Iq4Nl => each_block(blocks, out, from_f32, |scale, codes, out| {
            look_up(&IQ4_PAIRS, scale, codes, out);
        }),
        #[cfg(feature = "fp4")]
        ScaledType::Mxfp4 => each_block(blocks, out, from_e8m0, |scale, codes, out| {
            look_up(&E2M1_PAIRS, scale, codes, out);
        }),
        #[cfg(feature = "fp4")]
        ScaledType::Nvfp4 => each_block(blocks, out, from_e4m3, |scale, codes, out| {
            look_up(&E2M1_PAIRS, scale, codes, out);
        }),
        #[cfg(not(all(feature = "i-quants", feature = "fp4")))]
        kind => return Err(Error::call(ErrorKind::NotBuiltIn(kind.storage()))),
    }
    Ok(())
}

/// Decodes block after block, 32 weights at a time.
#[inline(always)]
fn each_block<const S: usize, const C: usize>(
    blocks: &ScaledBlocks<'_>,
    out: &mut [f32],
    scale: impl Fn([u8; S]) -> f32,
    decode: impl Fn(f32, &[u8; C], &mut [f32; 32]),
) {
    each_scaled_block(blocks, out, scale, |scale, codes, residual: Option<&[u8; 128]>, out| {
        decode(scale, codes, out);
        if let Some(residual) = residual {
            for (weight, bytes) in out.iter_mut().zip(residual.as_chunks().0) {
                *weight += f32::from_le_bytes(*bytes);
            }
        }
    });
}

/// 2^(e-127), which is a subnormal for e = 0, and infinite for e = 255.
#[cfg(feature = "fp4")]
#[inline(always)]
fn from_e8m0([e]: [u8; 1]) -> f32 {
    f32::from_bits(if e == 0 { 0x0040_0000 } else { u32::from(e) << 23 })
}

#[cfg(feature = "fp4")]
#[inline(always)]
fn from_e4m3([code]: [u8; 1]) -> f32 {
    let mut weight = [0.0];
    super::Block::decode(&super::Fp8E4M3(code), &mut weight);
    weight[0]
}

/// Both codes of a byte, the low one first.
type Pairs = [[f32; 2]; 256];

const fn pairs(values: &[f32; 16]) -> Pairs {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [values[byte & 15], values[byte >> 4]];
        byte += 1;
    }
    pairs
}

static NF4_PAIRS: Pairs = pairs(&NF4);
#[cfg(feature = "i-quants")]
static IQ4_PAIRS: Pairs = pairs(&IQ4);
#[cfg(feature = "fp4")]
static E2M1_PAIRS: Pairs = pairs(&E2M1);

/// 4-bit codes, two at a look.
#[inline(always)]
fn look_up(values: &Pairs, scale: f32, codes: &[u8; 16], out: &mut [f32; 32]) {
    fence();
    for (out, &code) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
        *out = values[usize::from(code)].map(|value| value * scale);
    }
}

/// For each byte of four ternary codes what becomes of the scale: 0, 1 where it stays, -1
/// where it changes its sign.
static SIGNS: [[i8; 4]; 256] = {
    const OF: [i8; 4] = [0, 1, -1, -1];
    let mut signs = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        signs[byte] = [OF[byte & 3], OF[byte >> 2 & 3], OF[byte >> 4 & 3], OF[byte >> 6]];
        byte += 1;
    }
    signs
};

/// 2-bit codes, four at a look. No product: 0 is 0 also where the scale is infinite.
#[inline(always)]
fn ternary_codes(scale: f32, codes: &[u8; 8], out: &mut [f32; 32]) {
    let mut signs = [0; 32];
    for (signs, &code) in signs.as_chunks_mut::<4>().0.iter_mut().zip(codes) {
        *signs = SIGNS[usize::from(code)];
    }
    // By way of memory, or the signs are made vectors four at a time.
    let signs = apart(signs);
    fence();
    for (out, &sign) in out.iter_mut().zip(&signs) {
        let sign = i32::from(sign);
        // All ones where there is one: the sign bit of the number or of its negative.
        let there = (sign | sign.wrapping_neg()) >> 31;
        let flipped = scale.to_bits() ^ (sign as u32 & 0x8000_0000);
        *out = f32::from_bits(flipped & there as u32);
    }
}
