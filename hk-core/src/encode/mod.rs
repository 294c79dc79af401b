//! Rows of `f32` weights to elements and blocks: the way back from [`blocks`].
//!
//! [`quantize`] encodes to any type that has an encoder, [`encode_blocks`] to one known type
//! and links nothing else. An encoder is a function of its block's weights and importance
//! alone, so that rows and threads may be split at will, and every host gives the same bytes.
//!
//! The forms whose payloads are no elements or blocks of fixed size have modules of their own:
//! [`dual`], [`two_of_four`], [`bitmask`], [`bsr`] and [`order`]. Each says how many bytes it
//! needs, and can make a payload in pieces, so that memory need not hold a whole tensor.
//!
//! An encoder writes a block whose decoded weights have a small squared error, where
//! `importance` counts a column's squares more or less. The search for scales is this
//! project's own: formats say what a block means, not how it is found.

pub mod bitmask;
pub mod bsr;
mod dense;
pub mod dual;
#[cfg(feature = "fp4")]
mod fp4;
#[cfg(feature = "i-quants")]
mod iq4;
#[cfg(feature = "k-quants")]
mod k;
pub mod lanes;
mod legacy;
pub mod order;
mod scale;
mod search;
#[cfg(feature = "ternary")]
mod ternary;
pub mod two_of_four;

use zerocopy::{FromBytes, IntoBytes};

use self::lanes::{Lanes, Sixteen};
use crate::blocks::{self, Block};
use crate::error::{Error, ErrorKind};
use crate::storage::{Geometry, StorageType};

/// A block that can be made of `N` weights.
pub trait Encode<const N: usize>: Block<N> + IntoBytes + Sized {
    /// The largest magnitude that a block of this type can hold.
    const LARGEST: f32;

    /// The block for `weights`, which are finite and at most [`LARGEST`](Self::LARGEST).
    /// `importance` says how much the square of each error counts: finite, not negative, and
    /// all the same where there is none.
    ///
    /// `#[inline(always)]`, since a backend compiles it anew for an instruction set, with
    /// vectors `V` of its own.
    fn encode<V: Lanes>(weights: &[f32; N], importance: Option<&[f32; N]>) -> Self;

    /// Consecutive blocks where there is no importance, as many as both slices have. Types for
    /// which blocks one by one are not the fastest way have their own.
    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; N]], out: &mut [Self]) {
        for (weights, out) in weights.iter().zip(out) {
            *out = Self::encode::<V>(weights, None);
        }
    }
}

/// What is done with an encoder, once the type is known.
pub trait WithEncoder {
    /// What comes of it.
    type Output;

    /// Does it with the encoder of `B`.
    fn with<B: Encode<N>, const N: usize>(self) -> Self::Output;
}

/// The table of encoders: `what` is done with that of type `storage`.
///
/// # Errors
/// [`ErrorKind::NotEncodable`] or [`ErrorKind::NotBuiltIn`] naming the type.
#[inline(always)]
pub fn with_encoder<W: WithEncoder>(storage: StorageType, what: W) -> Result<W::Output, Error> {
    Ok(match storage {
        StorageType::F32 => what.with::<blocks::F32, _>(),
        StorageType::F16 => what.with::<blocks::F16, _>(),
        StorageType::BF16 => what.with::<blocks::Bf16, _>(),
        StorageType::FP8_E4M3 => what.with::<blocks::Fp8E4M3, _>(),
        StorageType::FP8_E5M2 => what.with::<blocks::Fp8E5M2, _>(),
        StorageType::Q4_0 => what.with::<blocks::BlockQ4_0, _>(),
        StorageType::Q4_1 => what.with::<blocks::BlockQ4_1, _>(),
        StorageType::Q5_0 => what.with::<blocks::BlockQ5_0, _>(),
        StorageType::Q5_1 => what.with::<blocks::BlockQ5_1, _>(),
        StorageType::Q8_0 => what.with::<blocks::BlockQ8_0, _>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_NL => what.with::<blocks::BlockIq4Nl, _>(),
        #[cfg(feature = "i-quants")]
        StorageType::IQ4_XS => what.with::<blocks::BlockIq4Xs, _>(),
        #[cfg(feature = "ternary")]
        StorageType::TQ1_0 => what.with::<blocks::BlockTq1_0, _>(),
        #[cfg(feature = "ternary")]
        StorageType::TQ2_0 => what.with::<blocks::BlockTq2_0, _>(),
        #[cfg(feature = "fp4")]
        StorageType::MXFP4 => what.with::<blocks::BlockMxfp4, _>(),
        #[cfg(feature = "fp4")]
        StorageType::NVFP4 => what.with::<blocks::BlockNvfp4, _>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q2_K => what.with::<blocks::BlockQ2K, _>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q3_K => what.with::<blocks::BlockQ3K, _>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q4_K => what.with::<blocks::BlockQ4K, _>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q5_K => what.with::<blocks::BlockQ5K, _>(),
        #[cfg(feature = "k-quants")]
        StorageType::Q6_K => what.with::<blocks::BlockQ6K, _>(),
        #[cfg(not(feature = "k-quants"))]
        StorageType::Q2_K
        | StorageType::Q3_K
        | StorageType::Q4_K
        | StorageType::Q5_K
        | StorageType::Q6_K => return Err(Error::call(ErrorKind::NotBuiltIn(storage))),
        #[cfg(not(feature = "i-quants"))]
        StorageType::IQ4_NL | StorageType::IQ4_XS => {
            return Err(Error::call(ErrorKind::NotBuiltIn(storage)));
        }
        #[cfg(not(feature = "ternary"))]
        StorageType::TQ1_0 | StorageType::TQ2_0 => {
            return Err(Error::call(ErrorKind::NotBuiltIn(storage)));
        }
        #[cfg(not(feature = "fp4"))]
        StorageType::MXFP4 | StorageType::NVFP4 => {
            return Err(Error::call(ErrorKind::NotBuiltIn(storage)));
        }
        _ => return Err(Error::call(ErrorKind::NotEncodable(storage))),
    })
}

/// Whether there is an encoder for type `storage` in this build.
///
/// ```
/// use hk_core::{StorageType, encode};
/// assert!(encode::is_encodable(StorageType::Q8_0));
/// assert!(!encode::is_encodable(StorageType::INT64));
/// ```
pub fn is_encodable(storage: StorageType) -> bool {
    struct Found;
    impl WithEncoder for Found {
        type Output = ();
        fn with<B: Encode<N>, const N: usize>(self) {}
    }
    with_encoder(storage, Found).is_ok()
}

/// Bytes that `rows` rows of `columns` weights take, encoded to type `storage`.
///
/// # Errors
/// [`ErrorKind::NotEncodable`] or [`ErrorKind::NotBuiltIn`] naming the type,
/// [`ErrorKind::RowLength`] when a row is no whole number of blocks,
/// [`ErrorKind::AddressSpace`] when so many bytes do not fit this host.
///
/// ```
/// use hk_core::{StorageType, encode};
/// assert_eq!(encode::encoded_len(StorageType::Q8_0, 3, 64), Ok(3 * 2 * 34));
/// ```
pub fn encoded_len(storage: StorageType, rows: usize, columns: usize) -> Result<usize, Error> {
    let geometry = encodable(storage)?;
    if geometry.locate(columns as u64).1 != 0 {
        let multiple = u64::from(geometry.weights);
        return Err(Error::call(ErrorKind::RowLength { weights: columns as u64, multiple }));
    }
    let bytes = geometry
        .blocks(columns as u64)
        .checked_mul(u64::from(geometry.bytes))
        .and_then(|bytes| bytes.checked_mul(rows as u64))
        .ok_or(Error::call(ErrorKind::ElementCount))?;
    usize::try_from(bytes).map_err(|_| Error::call(ErrorKind::AddressSpace(bytes)))
}

/// The geometry of a type that has an encoder.
fn encodable(storage: StorageType) -> Result<Geometry, Error> {
    struct Nothing;
    impl WithEncoder for Nothing {
        type Output = ();
        fn with<B: Encode<N>, const N: usize>(self) {}
    }
    with_encoder(storage, Nothing)?;
    storage.geometry().ok_or(Error::call(ErrorKind::NotEncodable(storage)))
}

/// Encodes `weights`, whole rows of `columns`, to `out`, which has exactly
/// [`encoded_len`] bytes: consecutive elements of a dense type, or consecutive blocks.
///
/// With `importance`, a number for each column, the square of an error counts as many times:
/// for instance the mean square of the activations that the column is multiplied with. Only
/// ratios within a block matter.
///
/// A weight too large for the type is an error, never an infinite scale: over 65,504 times
/// the largest code for scales in f16.
///
/// # Errors
/// [`ErrorKind::NotEncodable`] or [`ErrorKind::NotBuiltIn`] naming the type,
/// [`ErrorKind::RowLength`] when rows do not divide into blocks or `weights` not into rows,
/// [`ErrorKind::EncodedLength`] when `out` has another length,
/// [`ErrorKind::ImportanceLength`] and [`ErrorKind::Importance`],
/// [`ErrorKind::NotFinite`] and [`ErrorKind::TooLarge`] naming the first such weight. `out`
/// is then unspecified.
///
/// ```
/// use hk_core::{Backend, Portable, StorageType, encode};
///
/// let weights: Vec<f32> = (0..64).map(|i| i as f32 - 20.0).collect();
/// let mut blocks = vec![0; encode::encoded_len(StorageType::Q8_0, 2, 32)?];
/// encode::quantize(StorageType::Q8_0, &weights, 32, None, &mut blocks)?;
///
/// let mut decoded = [0.0; 64];
/// Portable.dequantize(StorageType::Q8_0, &blocks, &mut decoded)?;
/// assert!((decoded[63] - 43.0).abs() < 0.2);
/// # Ok::<(), hk_core::Error>(())
/// ```
pub fn quantize(
    storage: StorageType,
    weights: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    struct Portable<'a>(&'a [f32], Option<&'a [f32]>, &'a mut [u8]);
    impl WithEncoder for Portable<'_> {
        type Output = Result<(), Error>;
        fn with<B: Encode<N>, const N: usize>(self) -> Self::Output {
            whole::<B, N>(self.0, self.1, self.2)
        }
    }
    check(storage, weights, columns, importance, out)?;
    with_encoder(storage, Portable(weights, importance, out))?
}

/// [`encode_blocks`] as a function of its own for each type.
#[inline(never)]
fn whole<B: Encode<N>, const N: usize>(
    weights: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    encode_blocks::<B, Sixteen, N>(weights, importance, out)
}

/// Whether the arguments of [`quantize`] fit each other. The weights themselves are looked
/// at as they are encoded.
///
/// # Errors
/// As [`quantize`], but for the weights.
pub fn check(
    storage: StorageType,
    weights: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
    out: &[u8],
) -> Result<(), Error> {
    let rows = weights.len().checked_div(columns).unwrap_or(0);
    let expected = encoded_len(storage, rows, columns)?;
    if weights.len() != rows.saturating_mul(columns) {
        let (weights, multiple) = (weights.len() as u64, columns as u64);
        return Err(Error::call(ErrorKind::RowLength { weights, multiple }));
    }
    if out.len() != expected {
        let (expected, given) = (expected as u64, out.len() as u64);
        return Err(Error::call(ErrorKind::EncodedLength { expected, given }));
    }
    let Some(importance) = importance else { return Ok(()) };
    if importance.len() != columns {
        let (columns, given) = (columns as u64, importance.len() as u64);
        return Err(Error::call(ErrorKind::ImportanceLength { columns, given }));
    }
    match importance.iter().position(|&weight| !(0.0..f32::INFINITY).contains(&weight)) {
        Some(column) => Err(Error::call(ErrorKind::Importance { column: column as u64 })),
        None => Ok(()),
    }
}

/// Encodes whole blocks of one known type, as many as both `weights` and `out` have room
/// for. `importance` has as many numbers as a row has columns, a whole number of blocks, and
/// is taken anew for each row. Links that type's encoder and nothing else.
///
/// # Errors
/// [`ErrorKind::NotFinite`] and [`ErrorKind::TooLarge`] naming the first such weight.
#[inline(always)]
pub fn encode_blocks<B: Encode<N>, V: Lanes, const N: usize>(
    weights: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), Error> {
    let (weights, _) = weights.as_chunks::<N>();
    let count = weights.len().min(out.len().checked_div(size_of::<B>()).unwrap_or(0));
    let Ok((out, _)) = <[B]>::mut_from_prefix_with_elems(out, count) else {
        // There are as many bytes.
        return Ok(());
    };
    // Looked at in pieces that stay in the first cache until they are encoded.
    let piece = const { if N < PIECE { PIECE / N } else { 1 } };
    let mut importance = importance.map(|row| row.as_chunks::<N>().0.iter().cycle());
    for (at, (weights, out)) in weights.chunks(piece).zip(out.chunks_mut(piece)).enumerate() {
        let flat = weights.as_flattened();
        if !all_within(flat, B::LARGEST) {
            return Err(out_of_range(B::STORAGE, flat, B::LARGEST, at as u64 * PIECE as u64));
        }
        match &mut importance {
            None => B::encode_all::<V>(weights, out),
            Some(importance) => {
                for ((weights, out), importance) in weights.iter().zip(out).zip(importance) {
                    *out = B::encode::<V>(weights, Some(importance));
                }
            }
        }
    }
    Ok(())
}

/// Weights that are looked at together: whole blocks of any type.
const PIECE: usize = 1024;

/// Whether no magnitude is over `largest`; NaN is.
#[inline(always)]
fn all_within(weights: &[f32], largest: f32) -> bool {
    // The bits of magnitudes are in the order of the numbers, those of NaN last.
    weights.iter().fold(0, |most, weight| most.max(weight.to_bits() & 0x7FFF_FFFF))
        <= largest.to_bits()
}

/// The error for the first of `weights`, which begin at weight `first`, that is over
/// `largest`.
#[cold]
fn out_of_range(storage: StorageType, weights: &[f32], largest: f32, first: u64) -> Error {
    let is_within = |weight: &f32| weight.to_bits() & 0x7FFF_FFFF <= largest.to_bits();
    let (index, weight) =
        (first..).zip(weights).find(|(_, weight)| !is_within(weight)).unwrap_or((first, &0.0));
    Error::call(match weight.is_finite() {
        true => ErrorKind::TooLarge { storage, index },
        false => ErrorKind::NotFinite { index },
    })
}

/// Whether all of `weights` are finite.
///
/// # Errors
/// [`ErrorKind::NotFinite`] naming the first that is not.
fn check_finite(weights: &[f32]) -> Result<(), Error> {
    if all_within(weights, f32::MAX) {
        return Ok(());
    }
    let index = weights.iter().position(|weight| !weight.is_finite()).unwrap_or_default() as u64;
    Err(Error::call(ErrorKind::NotFinite { index }))
}

/// Whether `out` has `expected` bytes.
///
/// # Errors
/// [`ErrorKind::EncodedLength`].
const fn check_encoded_len(expected: u64, out: &[u8]) -> Result<(), Error> {
    let given = out.len() as u64;
    if given == expected {
        return Ok(());
    }
    Err(Error::call(ErrorKind::EncodedLength { expected, given }))
}
