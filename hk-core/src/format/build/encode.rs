//! Metadata pairs, packed arrays and TOC entries as bytes.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::BuildError;
use crate::format::{Span, TensorEntry, Value};

/// A metadata section in the making (format-specification.md, section 3).
///
/// ```
/// use hk_core::{Metadata, Value, build::MetadataBuilder};
/// let mut section = MetadataBuilder::new();
/// section.push("general.architecture", Value::String("llama")).unwrap();
/// section.push("llama.block_count", Value::Int64(30)).unwrap();
/// let metadata = Metadata::parse(section.bytes(), section.len().into()).unwrap();
/// assert_eq!(metadata.hyperparameter("block_count"), Some(Value::Int64(30)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct MetadataBuilder {
    bytes: Vec<u8>,
    keys: BTreeSet<String>,
    count: u32,
}

impl MetadataBuilder {
    /// A section with nothing in it.
    pub const fn new() -> Self {
        MetadataBuilder { bytes: Vec::new(), keys: BTreeSet::new(), count: 0 }
    }

    /// Adds a pair at the end. The bytes are copied.
    ///
    /// # Errors
    /// [`BuildError::DuplicateKey`], [`BuildError::KeyLength`],
    /// [`BuildError::ValueLength`], [`BuildError::TooMany`]; [`BuildError::KnownTag`] for a
    /// [`Value::Unknown`] with the tag of a known type. The section is then as before.
    pub fn push(&mut self, key: &str, value: Value<'_>) -> Result<(), BuildError> {
        let key_len = u16::try_from(key.len()).map_err(|_| BuildError::KeyLength(key.len()))?;
        if let Value::Unknown(tag, _) = value
            && tag.name().is_some()
        {
            return Err(BuildError::KnownTag(tag));
        }
        if self.keys.contains(key) {
            return Err(BuildError::DuplicateKey);
        }
        let count = self.count.checked_add(1).ok_or(BuildError::TooMany)?;
        with_value_bytes(value, |bytes| {
            let value_len =
                u32::try_from(bytes.len()).map_err(|_| BuildError::ValueLength(bytes.len()))?;
            self.bytes.extend_from_slice(&key_len.to_le_bytes());
            self.bytes.extend_from_slice(key.as_bytes());
            self.bytes.push(value.tag().0);
            self.bytes.extend_from_slice(&value_len.to_le_bytes());
            self.bytes.extend_from_slice(bytes);
            Ok(())
        })?;
        self.keys.insert(key.into());
        self.count = count;
        Ok(())
    }

    /// The section's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of pairs.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Hands the bytes of `value` to `then`.
fn with_value_bytes<T>(value: Value<'_>, then: impl FnOnce(&[u8]) -> T) -> T {
    match value {
        Value::String(text) | Value::Json(text) => then(text.as_bytes()),
        Value::Int64(number) => then(&number.to_le_bytes()),
        Value::Float64(number) => then(&number.to_le_bytes()),
        Value::Bool(truth) => then(&[u8::from(truth)]),
        Value::Bytes(bytes) | Value::Unknown(_, bytes) => then(bytes),
    }
}

/// Packs byte strings, kind 1 (payloads.md, "Packed arrays"), for a [`Value::Bytes`].
///
/// # Errors
/// [`BuildError::ArrayLength`] for more than 2^32 - 1 strings, or bytes of them.
///
/// ```
/// use hk_core::{Array, build::pack_strings};
/// let packed = pack_strings(["a", "", "bc"]).unwrap();
/// let Ok(Array::Strings(strings)) = Array::parse(&packed) else { panic!() };
/// assert!(strings.iter().eq([b"a".as_slice(), b"", b"bc"]));
/// ```
pub fn pack_strings<S: AsRef<[u8]>>(
    strings: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, BuildError> {
    let mut packed = head(1);
    packed.extend_from_slice(&[0; 4]);
    let mut data = Vec::new();
    let mut count = 0u32;
    for string in strings {
        data.extend_from_slice(string.as_ref());
        let end = u32::try_from(data.len()).map_err(|_| BuildError::ArrayLength)?;
        packed.extend_from_slice(&end.to_le_bytes());
        count = count.checked_add(1).ok_or(BuildError::ArrayLength)?;
    }
    packed.append(&mut data);
    set_count(&mut packed, count);
    Ok(packed)
}

/// Packs floats, kind 2.
///
/// # Errors
/// [`BuildError::ArrayLength`] for more than 2^32 - 1.
pub fn pack_f32(numbers: impl IntoIterator<Item = f32>) -> Result<Vec<u8>, BuildError> {
    pack_words(2, numbers.into_iter().map(f32::to_le_bytes))
}

/// Packs integers, kind 3.
///
/// # Errors
/// [`BuildError::ArrayLength`] for more than 2^32 - 1.
pub fn pack_i32(numbers: impl IntoIterator<Item = i32>) -> Result<Vec<u8>, BuildError> {
    pack_words(3, numbers.into_iter().map(i32::to_le_bytes))
}

fn pack_words(kind: u8, words: impl Iterator<Item = [u8; 4]>) -> Result<Vec<u8>, BuildError> {
    let mut packed = head(kind);
    let mut count = 0u32;
    for word in words {
        packed.extend_from_slice(&word);
        count = count.checked_add(1).ok_or(BuildError::ArrayLength)?;
    }
    set_count(&mut packed, count);
    Ok(packed)
}

/// Kind, three zeros, and room for the count.
fn head(kind: u8) -> Vec<u8> {
    Vec::from([kind, 0, 0, 0, 0, 0, 0, 0])
}

fn set_count(packed: &mut [u8], count: u32) {
    if let Some([_, _, _, _, rest @ ..]) = packed.first_chunk_mut::<8>() {
        *rest = count.to_le_bytes();
    }
}

/// Bytes that a table entry takes.
pub(super) fn entry_len(name_len: usize, ndim: usize) -> usize {
    2 + name_len + 4 + 8 * ndim + 6 * 8 + 2 + 4
}

/// Appends a table entry as it stands in a file (format-specification.md, section 4). A
/// name over 65535 bytes is cut; [`FileBuilder`](super::FileBuilder) refuses any over 128.
pub fn encode_entry(entry: &TensorEntry<'_>, out: &mut Vec<u8>) {
    let name_len = u16::try_from(entry.name.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend(entry.name.bytes().take(usize::from(name_len)));
    // A shape has at most 8 dimensions.
    let ndim = entry.shape.len() as u8;
    out.extend_from_slice(&[entry.storage.0, entry.tile.0, entry.sparsity.0, ndim]);
    for dim in entry.shape.iter() {
        out.extend_from_slice(&dim.to_le_bytes());
    }
    for Span { offset, size } in [entry.data, entry.residual, entry.scales] {
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
    }
    out.extend_from_slice(&entry.block_size.to_le_bytes());
    out.extend_from_slice(&entry.sparsity_ratio.to_bits().to_le_bytes());
}
