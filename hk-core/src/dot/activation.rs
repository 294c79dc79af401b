//! Activation rows: f32, or quantized by blocks of 32 or 256 (dot-products.md,
//! "Activation").

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::quantize;
use crate::error::{Error, ErrorKind};
use crate::storage::{Geometry, StorageType};

/// Which form of activation a weight type is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationForm {
    /// Plain f32: for f32, f16 and bf16 rows.
    F32,
    /// Blocks of 32: for the 32-weight types and nvfp4.
    Q32,
    /// Blocks of 256: for K-, I- and ternary super-blocks and iq4_xs.
    Q256,
}

impl ActivationForm {
    /// The form that weights of type `storage` are multiplied with; `None` for a type
    /// without a dot product.
    ///
    /// ```
    /// use hk_core::{StorageType, dot::ActivationForm};
    /// assert_eq!(ActivationForm::of(StorageType::Q6_K), Some(ActivationForm::Q256));
    /// assert_eq!(ActivationForm::of(StorageType::Q8_K), None);
    /// ```
    pub const fn of(storage: StorageType) -> Option<Self> {
        match storage {
            StorageType::F32 | StorageType::F16 | StorageType::BF16 => Some(Self::F32),
            StorageType::Q4_0
            | StorageType::Q4_1
            | StorageType::Q5_0
            | StorageType::Q5_1
            | StorageType::Q8_0
            | StorageType::IQ4_NL
            | StorageType::MXFP4
            | StorageType::NVFP4 => Some(Self::Q32),
            StorageType::Q2_K
            | StorageType::Q3_K
            | StorageType::Q4_K
            | StorageType::Q5_K
            | StorageType::Q6_K
            | StorageType::IQ4_XS
            | StorageType::TQ1_0
            | StorageType::TQ2_0
            | StorageType::IQ1_S
            | StorageType::IQ1_M
            | StorageType::IQ2_XXS
            | StorageType::IQ2_XS
            | StorageType::IQ2_S
            | StorageType::IQ3_XXS
            | StorageType::IQ3_S => Some(Self::Q256),
            _ => None,
        }
    }

    /// Weights a block of this form: 1, 32 or 256.
    pub const fn block(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Q32 => 32,
            Self::Q256 => 256,
        }
    }

    /// Words of scratch memory that a row of `len` weights takes in this form: none for
    /// [`F32`](Self::F32), which borrows the row.
    pub const fn scratch_len(self, len: usize) -> usize {
        match self {
            Self::F32 => 0,
            Self::Q32 => len / 32 * WORDS_Q32,
            Self::Q256 => len / 256 * WORDS_Q256,
        }
    }
}

/// Words a block of 32: codes, `d`, `s` and the sum.
const WORDS_Q32: usize = 32 / 4 + 3;
/// Words a block of 256: codes, `d` and sixteen 16-bit sums.
const WORDS_Q256: usize = 256 / 4 + 1 + 16 / 2;

/// One activation row in the form that a weight type needs.
///
/// A row quantized once serves weights of every type of its [form](ActivationForm).
///
/// ```
/// use hk_core::{Activation, Backend, Portable, StorageType};
/// let row = [0.5_f32; 64];
/// let mut scratch = vec![0; Activation::scratch_len(StorageType::Q8_0, row.len())];
/// let activation = Activation::quantize(StorageType::Q8_0, &row, &mut scratch)?;
///
/// let mut block = [2_u8; 34]; // f16 0.25, then 32 codes of 2
/// block[..2].copy_from_slice(&[0x00, 0x34]);
/// let weights = [block, block].concat();
/// let product = Portable.dot(StorageType::Q8_0, &weights, activation)?;
/// assert!((product - 64.0 * 0.5 * 0.5).abs() < 1e-5);
/// # Ok::<(), hk_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Activation<'a> {
    /// The row as it is.
    F32(&'a [f32]),
    /// Quantized by blocks of 32.
    Q32(RowQ32<'a>),
    /// Quantized by blocks of 256.
    Q256(RowQ256<'a>),
}

impl<'a> Activation<'a> {
    /// Words of `scratch` that [`quantize`](Self::quantize) needs for a row of `len`
    /// weights; 0 also for a type without a dot product.
    pub const fn scratch_len(storage: StorageType, len: usize) -> usize {
        match ActivationForm::of(storage) {
            Some(form) => form.scratch_len(len),
            None => 0,
        }
    }

    /// Brings `row` into the form that weights of type `storage` are multiplied with: scalar
    /// code, straight from dot-products.md. The result lives in `scratch`, of which it takes
    /// the first [`scratch_len`](Self::scratch_len) words.
    ///
    /// # Errors
    /// [`NoDotProduct`](ErrorKind::NoDotProduct) naming the type,
    /// [`Activation`](ErrorKind::Activation) when `row` is no whole number of the type's
    /// blocks, [`OutputLength`](ErrorKind::OutputLength) when `scratch` is too short.
    pub fn quantize(
        storage: StorageType,
        row: &'a [f32],
        scratch: &'a mut [u32],
    ) -> Result<Activation<'a>, Error> {
        let (form, _) = check_len(storage, row.len())?;
        let (expected, given) = (form.scratch_len(row.len()) as u64, scratch.len() as u64);
        match form {
            ActivationForm::F32 => Some(Activation::F32(row)),
            ActivationForm::Q32 => quantize::row_q32(row, scratch).map(Activation::Q32),
            ActivationForm::Q256 => quantize::row_q256(row, scratch).map(Activation::Q256),
        }
        .ok_or(Error::call(ErrorKind::OutputLength { expected, given }))
    }

    /// The form of this row.
    pub const fn form(&self) -> ActivationForm {
        match self {
            Self::F32(_) => ActivationForm::F32,
            Self::Q32(_) => ActivationForm::Q32,
            Self::Q256(_) => ActivationForm::Q256,
        }
    }

    /// Weights in this row.
    pub const fn len(&self) -> usize {
        match self {
            Self::F32(row) => row.len(),
            Self::Q32(row) => row.q.as_flattened().len(),
            Self::Q256(row) => row.q.as_flattened().len(),
        }
    }

    /// Whether the row has no weights.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The form and the geometry of `storage`, whose blocks a row of `len` weights must be a
/// whole number of.
pub(super) fn check_len(
    storage: StorageType,
    len: usize,
) -> Result<(ActivationForm, Geometry), Error> {
    let (Some(form), Some(geometry)) = (ActivationForm::of(storage), storage.geometry()) else {
        return Err(Error::call(ErrorKind::NoDotProduct(storage)));
    };
    let (activation, weights) = (len as u64, u64::from(geometry.weights));
    if geometry.locate(activation).1 != 0 {
        return Err(Error::call(ErrorKind::Activation { activation, weights }));
    }
    Ok((form, geometry))
}

/// A row quantized by blocks of 32. Each slice has one entry a block, so that a vector
/// kernel loads the codes or the scales of several blocks at once.
#[derive(Clone, Copy, Debug)]
pub struct RowQ32<'a> {
    q: &'a [[i8; 32]],
    d: &'a [f32],
    s: &'a [f32],
    sums: &'a [i32],
}

impl<'a> RowQ32<'a> {
    /// A row of parts that were quantized elsewhere, or `None` where the slices differ in
    /// length: codes `q` within -127..=127, scales `d`, the `sums` of each block's codes and
    /// `s = d * sum as f32`.
    ///
    /// Only the lengths are checked: the values must be those that [`Activation::quantize`]
    /// would give, since kernels rely on different ones of them.
    pub const fn from_parts(
        q: &'a [[i8; 32]],
        d: &'a [f32],
        s: &'a [f32],
        sums: &'a [i32],
    ) -> Option<Self> {
        let blocks = q.len();
        if d.len() == blocks && s.len() == blocks && sums.len() == blocks {
            Some(RowQ32 { q, d, s, sums })
        } else {
            None
        }
    }

    /// The codes, within -127..=127.
    pub const fn q(&self) -> &'a [[i8; 32]] {
        self.q
    }

    /// The scales: what a code of 1 stands for; NaN for a block that is not finite.
    pub const fn d(&self) -> &'a [f32] {
        self.d
    }

    /// The scale times the sum of the codes, which a minimum is multiplied with.
    pub const fn s(&self) -> &'a [f32] {
        self.s
    }

    /// The sum of each block's codes, for kernels that take an offset out of their weights.
    pub const fn sums(&self) -> &'a [i32] {
        self.sums
    }

    /// Block by block.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = BlockQ32<'a>> + Clone + use<'a> {
        let scales = self.d.iter().zip(self.s);
        self.q.iter().zip(scales).map(|(q, (&d, &s))| BlockQ32 { q, d, s })
    }
}

/// One block of a [`RowQ32`].
#[derive(Clone, Copy, Debug)]
pub struct BlockQ32<'a> {
    /// The codes.
    pub q: &'a [i8; 32],
    /// The scale.
    pub d: f32,
    /// The scale times the sum of the codes.
    pub s: f32,
}

/// A row quantized by blocks of 256. Each slice has one entry a block.
#[derive(Clone, Copy, Debug)]
pub struct RowQ256<'a> {
    q: &'a [[i8; 256]],
    d: &'a [f32],
    sums: &'a [[i16; 16]],
}

impl<'a> RowQ256<'a> {
    /// A row of parts that were quantized elsewhere, or `None` where the slices differ in
    /// length: codes `q` within -127..=127, scales `d`, and the `sums` of each 16 codes.
    ///
    /// Only the lengths are checked: the values must be those that [`Activation::quantize`]
    /// would give, since kernels rely on different ones of them.
    pub const fn from_parts(
        q: &'a [[i8; 256]],
        d: &'a [f32],
        sums: &'a [[i16; 16]],
    ) -> Option<Self> {
        if d.len() == q.len() && sums.len() == q.len() {
            Some(RowQ256 { q, d, sums })
        } else {
            None
        }
    }

    /// The codes, within -127..=127.
    pub const fn q(&self) -> &'a [[i8; 256]] {
        self.q
    }

    /// The scales: what a code of 1 stands for; NaN for a block that is not finite.
    pub const fn d(&self) -> &'a [f32] {
        self.d
    }

    /// The sums of each 16 consecutive codes.
    pub const fn sums(&self) -> &'a [[i16; 16]] {
        self.sums
    }

    /// Block by block.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = BlockQ256<'a>> + Clone + use<'a> {
        let rest = self.d.iter().zip(self.sums);
        self.q.iter().zip(rest).map(|(q, (&d, sums))| BlockQ256 { q, d, sums })
    }
}

/// One block of a [`RowQ256`].
#[derive(Clone, Copy, Debug)]
pub struct BlockQ256<'a> {
    /// The codes.
    pub q: &'a [i8; 256],
    /// The scale.
    pub d: f32,
    /// The sums of each 16 consecutive codes.
    pub sums: &'a [i16; 16],
}

/// The memory of a [`RowQ32`] that is being made: a vector kernel carves it from its
/// scratch words, fills it, and turns it into the row.
///
/// ```
/// use hk_core::dot::{ActivationForm, PartsQ32};
/// let mut scratch = vec![0; ActivationForm::Q32.scratch_len(64)];
/// let parts = PartsQ32::carve(&mut scratch, 2).unwrap();
/// parts.q[1][31] = 127;
/// assert_eq!(parts.into_row().unwrap().q()[1][31], 127);
/// assert!(PartsQ32::carve(&mut scratch, 3).is_none());
/// ```
#[derive(Debug)]
pub struct PartsQ32<'a> {
    /// The codes.
    pub q: &'a mut [[i8; 32]],
    /// The scales.
    pub d: &'a mut [f32],
    /// The scales times the sums.
    pub s: &'a mut [f32],
    /// The sums of the codes.
    pub sums: &'a mut [i32],
}

impl<'a> PartsQ32<'a> {
    /// Parts of `blocks` blocks over the first [`ActivationForm::scratch_len`] words of
    /// `scratch`, whatever these hold; `None` when it has fewer.
    pub fn carve(scratch: &'a mut [u32], blocks: usize) -> Option<Self> {
        let mut rest = scratch.as_mut_bytes();
        let q = take(&mut rest, blocks)?;
        let d = take(&mut rest, blocks)?;
        let s = take(&mut rest, blocks)?;
        let sums = take(&mut rest, blocks)?;
        Some(PartsQ32 { q, d, s, sums })
    }

    /// The row of these parts, as [`RowQ32::from_parts`].
    pub fn into_row(self) -> Option<RowQ32<'a>> {
        RowQ32::from_parts(self.q, self.d, self.s, self.sums)
    }
}

/// The memory of a [`RowQ256`] that is being made; see [`PartsQ32`].
#[derive(Debug)]
pub struct PartsQ256<'a> {
    /// The codes.
    pub q: &'a mut [[i8; 256]],
    /// The scales.
    pub d: &'a mut [f32],
    /// The sums of each 16 codes.
    pub sums: &'a mut [[i16; 16]],
}

impl<'a> PartsQ256<'a> {
    /// Parts of `blocks` blocks over the first [`ActivationForm::scratch_len`] words of
    /// `scratch`, whatever these hold; `None` when it has fewer.
    pub fn carve(scratch: &'a mut [u32], blocks: usize) -> Option<Self> {
        let mut rest = scratch.as_mut_bytes();
        let q = take(&mut rest, blocks)?;
        let d = take(&mut rest, blocks)?;
        let sums = take(&mut rest, blocks)?;
        Some(PartsQ256 { q, d, sums })
    }

    /// The row of these parts, as [`RowQ256::from_parts`].
    pub fn into_row(self) -> Option<RowQ256<'a>> {
        RowQ256::from_parts(self.q, self.d, self.sums)
    }
}

/// The first `len` values of `bytes`, which go on after them.
fn take<'a, T>(bytes: &mut &'a mut [u8], len: usize) -> Option<&'a mut [T]>
where
    T: FromBytes + IntoBytes + Immutable,
    [T]: KnownLayout<PointerMetadata = usize>,
{
    let (values, rest) = <[T]>::mut_from_prefix_with_elems(core::mem::take(bytes), len).ok()?;
    *bytes = rest;
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_different_lengths_make_no_row() {
        let (q, d, sums) = ([[1; 32]; 2], [0.5; 2], [32; 2]);
        let s = [16.0; 2];
        let row = RowQ32::from_parts(&q, &d, &s, &sums).unwrap();
        assert_eq!(Activation::Q32(row).len(), 64);
        assert_eq!(row.blocks().map(|block| block.d + block.s).sum::<f32>(), 33.0);
        assert!(RowQ32::from_parts(&q[..1], &d, &s, &sums).is_none());
        assert!(RowQ32::from_parts(&q, &d[..1], &s, &sums).is_none());
        assert!(RowQ32::from_parts(&q, &d, &s[..1], &sums).is_none());
        assert!(RowQ32::from_parts(&q, &d, &s, &sums[..1]).is_none());

        let (q, sums) = ([[1; 256]; 2], [[16; 16]; 2]);
        let row = RowQ256::from_parts(&q, &d, &sums).unwrap();
        assert_eq!(Activation::Q256(row).len(), 512);
        assert!(RowQ256::from_parts(&q[..1], &d, &sums).is_none());
        assert!(RowQ256::from_parts(&q, &d[..1], &sums).is_none());
        assert!(RowQ256::from_parts(&q, &d, &sums[..1]).is_none());
    }

    #[test]
    fn rows_go_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Activation<'_>>();
        shared::<PartsQ32<'_>>();
        shared::<PartsQ256<'_>>();
    }
}
