//! Storage, tile and sparsity codes: names and geometry (format-specification.md,
//! sections 5 to 7).
//!
//! The codes are open: a newtype over the byte in the file with named constants, so that
//! a code nobody knows yet is data, listed and copied like any other.

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, ErrorKind};

/// How a tensor's weights are stored (`storage_type`).
///
/// ```
/// use hk_core::StorageType;
/// let q4_k: StorageType = "q4_k".parse().unwrap();
/// assert_eq!(q4_k, StorageType::Q4_K);
/// assert_eq!(q4_k.geometry().unwrap().weights, 256);
/// assert_eq!(StorageType(0xEE).to_string(), "0xee");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageType(pub u8);

/// How a tensor's elements are ordered (`tile_layout`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TileLayout(pub u8);

/// How a tensor's zeros are left out (`sparsity_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SparsityType(pub u8);

/// The unit that a storage type is stored in: a single element of a dense type, or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Weights a block: 1 for dense types, else 32, 64 or 256.
    pub weights: u32,
    /// Bytes a block.
    pub bytes: u32,
}

impl Geometry {
    /// The block that element `index` lies in, and its place there.
    pub(crate) const fn locate(self, index: u64) -> (u64, usize) {
        // Every block's weights are a power of two: a shift, where a division would link
        // its panic and, on a small host, a division routine.
        let (block, mask) = (index >> self.weights.trailing_zeros(), self.weights as u64 - 1);
        (block, (index & mask) as usize)
    }

    /// Blocks that `count` elements take; the last may be partly used.
    pub(crate) const fn blocks(self, count: u64) -> u64 {
        let (whole, used) = self.locate(count);
        whole + (used > 0) as u64
    }
}

/// A code nobody has given the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no code of this name: use a name of the specification such as q4_k, or a byte such as 0x42")
    }
}

impl core::error::Error for UnknownName {}

macro_rules! codes {
    ($type:ident, $table:ident, $($(#[$doc:meta])* $constant:ident = $code:literal $name:literal;)*) => {
        #[allow(non_upper_case_globals)]
        impl $type {
            $($(#[$doc])* pub const $constant: $type = $type($code);)*
        }
        const $table: &[($type, &str)] = &[$(($type::$constant, $name)),*];
    };
}
codes! { StorageType, STORAGE,
    /// IEEE binary32.
    F32 = 0x00 "f32";
    /// IEEE binary16.
    F16 = 0x01 "f16";
    /// bfloat16.
    BF16 = 0x02 "bf16";
    /// 8-bit float, 4 exponent bits, no infinities.
    FP8_E4M3 = 0x03 "fp8_e4m3";
    /// 8-bit float, 5 exponent bits, with infinities.
    FP8_E5M2 = 0x04 "fp8_e5m2";
    /// Signed 8-bit integers.
    INT8 = 0x05 "int8";
    /// Signed 32-bit integers.
    INT32 = 0x06 "int32";
    /// Signed 64-bit integers.
    INT64 = 0x07 "int64";
    /// Unsigned 8-bit integers.
    UINT8 = 0x08 "uint8";
    /// One byte each, nonzero is true.
    BOOL = 0x09 "bool";
    /// Signed 16-bit integers.
    INT16 = 0x0A "int16";
    /// Unsigned 16-bit integers.
    UINT16 = 0x0B "uint16";
    /// Unsigned 32-bit integers.
    UINT32 = 0x0C "uint32";
    /// Unsigned 64-bit integers.
    UINT64 = 0x0D "uint64";
    /// IEEE binary64.
    F64 = 0x0E "f64";
    /// Dual-mode: NF4 base, optional residual.
    DQ4 = 0x10 "dq4";
    /// Dual-mode: 8-bit base, optional residual.
    DQ8 = 0x11 "dq8";
    /// Dual-mode; no published payload.
    DQ6 = 0x12 "dq6";
    /// Dual-mode; no published payload.
    DQ12 = 0x13 "dq12";
    /// Dual-mode: ternary base, optional residual.
    DQT = 0x14 "dqt";
    /// 4-bit, scale.
    Q4_0 = 0x15 "q4_0";
    /// 8-bit, scale.
    Q8_0 = 0x16 "q8_0";
    /// 4-bit, scale and minimum.
    Q4_1 = 0x17 "q4_1";
    /// 5-bit, scale.
    Q5_0 = 0x18 "q5_0";
    /// 5-bit, scale and minimum.
    Q5_1 = 0x19 "q5_1";
    /// 8-bit, scale and sum.
    Q8_1 = 0x1A "q8_1";
    /// Bitmask and nonzero values.
    SPARSE_F16 = 0x20 "sparse_f16";
    /// No published payload.
    SPARSE_DQ8 = 0x21 "sparse_dq8";
    /// Two of every four values kept.
    SPARSE_2_4 = 0x22 "sparse_2_4";
    /// No published payload.
    SPARSE_DQ4_2_4 = 0x23 "sparse_dq4_2_4";
    /// All zeros, no bytes stored.
    NULL_REF = 0x30 "null_ref";
    /// The bytes of an earlier tensor (tied weights).
    SHARED_REF = 0x31 "shared_ref";
    /// No published payload.
    LORA_REF = 0x32 "lora_ref";
    /// 2-bit K-quant.
    Q2_K = 0x40 "q2_k";
    /// 3-bit K-quant.
    Q3_K = 0x41 "q3_k";
    /// 4-bit K-quant.
    Q4_K = 0x42 "q4_k";
    /// 5-bit K-quant.
    Q5_K = 0x43 "q5_k";
    /// 6-bit K-quant.
    Q6_K = 0x44 "q6_k";
    /// 8-bit K-quant.
    Q8_K = 0x45 "q8_k";
    /// 1.56-bit codebook.
    IQ1_S = 0x50 "iq1_s";
    /// 1.75-bit codebook.
    IQ1_M = 0x51 "iq1_m";
    /// 2.06-bit codebook.
    IQ2_XXS = 0x52 "iq2_xxs";
    /// 2.31-bit codebook.
    IQ2_XS = 0x53 "iq2_xs";
    /// 3.06-bit codebook.
    IQ3_XXS = 0x54 "iq3_xxs";
    /// 4-bit, non-linear.
    IQ4_NL = 0x55 "iq4_nl";
    /// 4.25-bit, non-linear.
    IQ4_XS = 0x56 "iq4_xs";
    /// 2.56-bit codebook.
    IQ2_S = 0x57 "iq2_s";
    /// 3.44-bit codebook.
    IQ3_S = 0x58 "iq3_s";
    /// Ternary, 5 digits a byte.
    TQ1_0 = 0x60 "tq1_0";
    /// Ternary, 2 bits each.
    TQ2_0 = 0x61 "tq2_0";
    /// E2M1 with an E8M0 scale a 32.
    MXFP4 = 0x62 "mxfp4";
    /// E2M1 with an E4M3 scale a 16.
    NVFP4 = 0x63 "nvfp4";
}

codes! { TileLayout, TILES,
    /// Rows one after another.
    ROW_MAJOR = 0x00 "row_major";
    /// The transpose.
    COL_MAJOR = 0x01 "col_major";
    /// Tiles of 16 rows by 16 columns.
    TILE_16X16 = 0x02 "tile_16x16";
    /// Tiles of 16 rows by 8 columns.
    TILE_16X8 = 0x03 "tile_16x8";
    /// Tiles of 32 rows by 16 columns.
    TILE_32X16 = 0x04 "tile_32x16";
    /// Goes with 2:4 storage, to which it adds nothing.
    BLOCK_SPARSE_2_4 = 0x05 "block_sparse_2_4";
    /// Tiles of 32 rows by 32 columns.
    TILE_32X32 = 0x06 "tile_32x32";
    /// Tiles of 64 rows by 64 columns.
    TILE_64X64 = 0x07 "tile_64x64";
}

codes! { SparsityType, SPARSITIES,
    /// Every value is stored.
    NONE = 0x00 "none";
    /// A bit for each element, values for the set ones.
    BITMASK = 0x01 "bitmask";
    /// Compressed sparse rows.
    CSR = 0x02 "csr";
    /// Two of every four values.
    STRUCTURED_2_4 = 0x03 "structured_2_4";
    /// Plain dense data of the stored shape.
    PHYSICAL_PRUNED = 0x04 "physical_pruned";
    /// Block-compressed sparse rows.
    BSR = 0x05 "bsr";
}

impl StorageType {
    /// Every code of the specification, ascending.
    pub fn all() -> impl ExactSizeIterator<Item = StorageType> + Clone {
        STORAGE.iter().map(|&(code, _)| code)
    }

    /// The name in the specification, or `None` for a code it does not list.
    pub fn name(self) -> Option<&'static str> {
        name_of(STORAGE, self)
    }

    /// Weights and bytes a block, for dense types (blocks of one) and block types; `None`
    /// for the others, whose size depends on more than the shape, and for unknown codes.
    ///
    /// Source: blocks.md. The split-scale forms of `iq4_nl`, `mxfp4` and `nvfp4` (a tensor
    /// with scales beside it) are not GGUF's blocks and do not follow this.
    pub const fn geometry(self) -> Option<Geometry> {
        let (weights, bytes) = match self {
            Self::F32 => (1, 4),
            Self::F16 => (1, 2),
            Self::BF16 => (1, 2),
            Self::FP8_E4M3 => (1, 1),
            Self::FP8_E5M2 => (1, 1),
            Self::INT8 => (1, 1),
            Self::INT32 => (1, 4),
            Self::INT64 => (1, 8),
            Self::UINT8 => (1, 1),
            Self::BOOL => (1, 1),
            Self::INT16 => (1, 2),
            Self::UINT16 => (1, 2),
            Self::UINT32 => (1, 4),
            Self::UINT64 => (1, 8),
            Self::F64 => (1, 8),
            Self::Q4_0 => (32, 18),
            Self::Q8_0 => (32, 34),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_1 => (32, 36),
            Self::Q2_K => (256, 84),
            Self::Q3_K => (256, 110),
            Self::Q4_K => (256, 144),
            Self::Q5_K => (256, 176),
            Self::Q6_K => (256, 210),
            Self::Q8_K => (256, 292),
            Self::IQ1_S => (256, 50),
            Self::IQ1_M => (256, 56),
            Self::IQ2_XXS => (256, 66),
            Self::IQ2_XS => (256, 74),
            Self::IQ3_XXS => (256, 98),
            Self::IQ4_NL => (32, 18),
            Self::IQ4_XS => (256, 136),
            Self::IQ2_S => (256, 82),
            Self::IQ3_S => (256, 110),
            Self::TQ1_0 => (256, 54),
            Self::TQ2_0 => (256, 66),
            Self::MXFP4 => (32, 17),
            Self::NVFP4 => (64, 36),
            _ => return None,
        };
        Some(Geometry { weights, bytes })
    }

    /// Whether this is one of the fifteen dense types, `0x00` to `0x0E`.
    pub const fn is_dense(self) -> bool {
        self.0 <= Self::F64.0
    }

    /// Whether this is one of the twenty-five block types of blocks.md.
    pub const fn is_block(self) -> bool {
        !self.is_dense() && self.geometry().is_some()
    }

    /// Whether scales beside a tensor of this type make it the container's own split-scale
    /// form instead of GGUF's blocks (payloads.md, "Split-scale forms").
    pub const fn has_split_form(self) -> bool {
        matches!(self, Self::IQ4_NL | Self::MXFP4 | Self::NVFP4)
    }

    /// Whether this is a virtual reference: `null_ref`, `shared_ref` or `lora_ref`.
    pub const fn is_reference(self) -> bool {
        matches!(self, Self::NULL_REF | Self::SHARED_REF | Self::LORA_REF)
    }

    /// Whether this is an HK dual-mode type, `0x10` to `0x14`.
    pub const fn is_dual_mode(self) -> bool {
        self.0 >= Self::DQ4.0 && self.0 <= Self::DQT.0
    }

    /// Bytes that a plain payload of `shape` takes: `ceil(count / weights)` blocks.
    ///
    /// `shape` is row-major, outermost dimension first; an empty shape is a scalar.
    ///
    /// # Errors
    /// [`ErrorKind::ElementCount`] when the count or the size passes 2^64,
    /// [`ErrorKind::Undecodable`] for a type without a [geometry](Self::geometry).
    pub fn payload_len(self, shape: &[u64]) -> Result<u64, Error> {
        let geometry = self.geometry().ok_or(Error::call(ErrorKind::Undecodable(self)))?;
        element_count(shape)
            .and_then(|count| geometry.blocks(count).checked_mul(u64::from(geometry.bytes)))
            .ok_or(Error::call(ErrorKind::ElementCount))
    }
}

impl TileLayout {
    /// Every code of the specification, ascending.
    pub fn all() -> impl ExactSizeIterator<Item = TileLayout> + Clone {
        TILES.iter().map(|&(code, _)| code)
    }

    /// The name in the specification, or `None` for a code it does not list.
    pub fn name(self) -> Option<&'static str> {
        name_of(TILES, self)
    }

    /// Rows and columns of a tile, for the tiled layouts.
    pub const fn tile(self) -> Option<(u32, u32)> {
        match self {
            Self::TILE_16X16 => Some((16, 16)),
            Self::TILE_16X8 => Some((16, 8)),
            Self::TILE_32X16 => Some((32, 16)),
            Self::TILE_32X32 => Some((32, 32)),
            Self::TILE_64X64 => Some((64, 64)),
            _ => None,
        }
    }
}

impl SparsityType {
    /// Every code of the specification, ascending.
    pub fn all() -> impl ExactSizeIterator<Item = SparsityType> + Clone {
        SPARSITIES.iter().map(|&(code, _)| code)
    }

    /// The name in the specification, or `None` for a code it does not list.
    pub fn name(self) -> Option<&'static str> {
        name_of(SPARSITIES, self)
    }
}

/// Number of elements of `shape`, or `None` when the product passes 2^64. No dimensions
/// make one element; a dimension of 0 makes none, however large the others are.
pub(crate) fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |count, &dim| count.checked_mul(dim))
}

fn name_of<T: Copy + PartialEq>(
    table: &'static [(T, &'static str)],
    code: T,
) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == code).map(|&(_, name)| name)
}

/// A name of `table` in any case, or a byte written as `0x42`.
fn parse_code<T: Copy>(table: &[(T, &str)], text: &str) -> Result<Result<T, u8>, UnknownName> {
    if let Some((code, _)) = table.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        return Ok(Ok(*code));
    }
    let hex = text.strip_prefix("0x").ok_or(UnknownName)?;
    u8::from_str_radix(hex, 16).map(Err).map_err(|_| UnknownName)
}

impl fmt::Display for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl fmt::Debug for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl FromStr for StorageType {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_code(STORAGE, text).map(|code| code.unwrap_or_else(StorageType))
    }
}

impl fmt::Display for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl fmt::Debug for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl FromStr for TileLayout {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_code(TILES, text).map(|code| code.unwrap_or_else(TileLayout))
    }
}

impl fmt::Display for SparsityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl fmt::Debug for SparsityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display_code(f, self.name(), self.0)
    }
}

impl FromStr for SparsityType {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_code(SPARSITIES, text).map(|code| code.unwrap_or_else(SparsityType))
    }
}

fn display_code(f: &mut fmt::Formatter<'_>, name: Option<&str>, code: u8) -> fmt::Result {
    match name {
        Some(name) => f.pad(name),
        None => write!(f, "{code:#04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_round_trip_and_unknown_codes_are_data() {
        for code in 0..=255 {
            let storage = StorageType(code);
            assert_eq!(storage.to_string().parse(), Ok(storage));
            let (tile, sparsity) = (TileLayout(code), SparsityType(code));
            assert_eq!(tile.to_string().parse(), Ok(tile));
            assert_eq!(sparsity.to_string().parse(), Ok(sparsity));
        }
        assert_eq!("Q6_K".parse(), Ok(StorageType::Q6_K));
        assert_eq!("q7_k".parse::<StorageType>(), Err(UnknownName));
        assert_eq!("0x100".parse::<StorageType>(), Err(UnknownName));
    }

    #[test]
    fn counts_of_kinds() {
        assert_eq!(StorageType::all().filter(|t| t.is_dense()).count(), 15);
        assert_eq!(StorageType::all().filter(|t| t.is_block()).count(), 25);
    }

    #[test]
    fn payload_len_rounds_up_to_blocks_and_refuses_overflow() {
        assert_eq!(StorageType::Q4_0.payload_len(&[]), Ok(18));
        assert_eq!(StorageType::Q4_0.payload_len(&[3, 11]), Ok(36));
        assert_eq!(StorageType::F64.payload_len(&[0, u64::MAX, u64::MAX]), Ok(0));
        for shape in [&[u64::MAX, 2][..], &[u64::MAX]] {
            let error = StorageType::F64.payload_len(shape).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ElementCount);
        }
        let error = StorageType::DQ4.payload_len(&[4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecodable(StorageType::DQ4));
    }
}
