//! The metadata section (format-specification.md, section 3).

use core::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, Section};
use crate::format::{Array, Header};

/// The tag of a metadata value; unknown tags are data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ValueType(pub u8);

impl ValueType {
    /// UTF-8 text.
    pub const STRING: ValueType = ValueType(1);
    /// Signed 64-bit integer.
    pub const INT64: ValueType = ValueType(2);
    /// IEEE binary64.
    pub const FLOAT64: ValueType = ValueType(3);
    /// One byte, nonzero is true.
    pub const BOOL: ValueType = ValueType(4);
    /// JSON text.
    pub const JSON: ValueType = ValueType(5);
    /// Opaque bytes; packed arrays are kept as these.
    pub const BYTES: ValueType = ValueType(6);

    /// The name in the specification, or `None` for a tag it does not list.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::STRING => "string",
            Self::INT64 => "int64",
            Self::FLOAT64 => "float64",
            Self::BOOL => "bool",
            Self::JSON => "json",
            Self::BYTES => "bytes",
            _ => return None,
        })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl fmt::Debug for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A metadata value, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// UTF-8 text.
    String(&'a str),
    /// Signed integer.
    Int64(i64),
    /// Float.
    Float64(f64),
    /// Truth value.
    Bool(bool),
    /// JSON text; not parsed here.
    Json(&'a str),
    /// Opaque bytes. [`Value::array`] reads a packed array from them.
    Bytes(&'a [u8]),
    /// A tag this version does not know, and its bytes.
    Unknown(ValueType, &'a [u8]),
}

impl<'a> Value<'a> {
    /// Reads a value of `tag`; `offset` is where `bytes` start, for the error.
    pub(super) fn parse(tag: ValueType, bytes: &'a [u8], offset: u64) -> Result<Value<'a>, Error> {
        let error = |kind| Error::new(kind, Section::Metadata, offset);
        let length = || error(ErrorKind::ValueLength { tag: tag.0, length: bytes.len() as u32 });
        let text = || Reader::new(bytes, Section::Metadata, offset).text(bytes.len() as u64);
        Ok(match tag {
            ValueType::STRING => Value::String(text()?),
            ValueType::JSON => Value::Json(text()?),
            ValueType::INT64 => {
                Value::Int64(i64::from_le_bytes(bytes.try_into().map_err(|_| length())?))
            }
            ValueType::FLOAT64 => {
                Value::Float64(f64::from_le_bytes(bytes.try_into().map_err(|_| length())?))
            }
            ValueType::BOOL => match bytes {
                [byte] => Value::Bool(*byte != 0),
                _ => return Err(length()),
            },
            ValueType::BYTES => Value::Bytes(bytes),
            _ => Value::Unknown(tag, bytes),
        })
    }

    /// The tag that stands in the file.
    pub const fn tag(&self) -> ValueType {
        match self {
            Value::String(_) => ValueType::STRING,
            Value::Int64(_) => ValueType::INT64,
            Value::Float64(_) => ValueType::FLOAT64,
            Value::Bool(_) => ValueType::BOOL,
            Value::Json(_) => ValueType::JSON,
            Value::Bytes(_) => ValueType::BYTES,
            Value::Unknown(tag, _) => *tag,
        }
    }

    /// The text of a string value.
    pub const fn as_str(&self) -> Option<&'a str> {
        match *self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an int64 value that is not negative.
    pub const fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Int64(number) if number >= 0 => Some(number as u64),
            _ => None,
        }
    }

    /// The number of an int64 value.
    pub const fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Int64(number) => Some(number),
            _ => None,
        }
    }

    /// The number of a float64 value, or of an int64 value as a float.
    pub const fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Float64(number) => Some(number),
            Value::Int64(number) => Some(number as f64),
            _ => None,
        }
    }

    /// The truth value of a bool.
    pub const fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The packed array that a bytes value holds (payloads.md, "Packed arrays").
    ///
    /// # Errors
    /// [`ErrorKind::Array`] when the value is no bytes value or its structure is broken.
    pub fn array(&self) -> Result<Array<'a>, Error> {
        match *self {
            Value::Bytes(bytes) => Array::parse(bytes),
            _ => Err(Error::new(ErrorKind::Array, Section::Metadata, 0)),
        }
    }
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ValueHead {
    tag: u8,
    len: U32,
}

/// What stands in front of a metadata value: for hosts that walk the section through a
/// window smaller than its values. The value is the `value_len` bytes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataHead<'a> {
    /// The key.
    pub key: &'a str,
    /// The value's type.
    pub tag: ValueType,
    /// The value's length in bytes.
    pub value_len: u32,
    /// The length in bytes of the head itself: key, tag and both lengths.
    pub len: u32,
}

impl<'a> MetadataHead<'a> {
    /// Reads a head from the start of `bytes`, which may end after it.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] when `bytes` end inside the head (fetch more and try
    /// again), [`ErrorKind::Text`] for a key that is not UTF-8.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::read_from(&mut Reader::new(bytes, Section::Metadata, 0))
    }

    pub(super) fn read_from(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let key_len = reader.read::<U16>()?.get();
        let key = reader.text(u64::from(key_len))?;
        let ValueHead { tag, len } = reader.read()?;
        let head_len = 2 + u32::from(key_len) + 5;
        Ok(MetadataHead { key, tag: ValueType(*tag), value_len: len.get(), len: head_len })
    }

    /// The value, from the `value_len` bytes that follow the head.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`], [`ErrorKind::ValueLength`], [`ErrorKind::Text`].
    pub fn value<'b>(&self, bytes: &'b [u8]) -> Result<Value<'b>, Error> {
        let mut reader = Reader::new(bytes, Section::Metadata, 0);
        Value::parse(self.tag, reader.take(u64::from(self.value_len))?, 0)
    }
}

/// A metadata pair.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetadataEntry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value.
    pub value: Value<'a>,
    /// Offset of the entry in the file, or in the slice that was parsed.
    pub offset: u64,
}

impl<'a> MetadataEntry<'a> {
    fn read_from(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let offset = reader.offset();
        let head = MetadataHead::read_from(reader)?;
        let at = reader.offset();
        let value = Value::parse(head.tag, reader.take(u64::from(head.value_len))?, at)?;
        Ok(MetadataEntry { key: head.key, value, offset })
    }
}

/// The metadata section, checked.
///
/// ```
/// use hk_core::{Metadata, Value};
/// let section = b"\x01\x00a\x04\x01\x00\x00\x00\x07"; // key "a", bool, one byte
/// let metadata = Metadata::parse(section, 1).unwrap();
/// assert_eq!(metadata.get("a"), Some(Value::Bool(true)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    bytes: &'a [u8],
    base: u64,
    count: u32,
    used: u64,
}

impl<'a> Metadata<'a> {
    /// Checks a section of `count` pairs that starts at `bytes`.
    ///
    /// # Errors
    /// A pair that passes the end, text that is not UTF-8, or a value whose length does
    /// not fit its type; offsets count from the start of `bytes`.
    pub fn parse(bytes: &'a [u8], count: u64) -> Result<Self, Error> {
        Self::parse_at(bytes, count, 0)
    }

    pub(crate) fn parse_at(bytes: &'a [u8], count: u64, base: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Section::Metadata, base);
        let total = u32::try_from(count).map_err(|_| {
            reader.error(ErrorKind::Count { claimed: count, possible: u64::from(u32::MAX) })
        })?;
        for index in 0..total {
            MetadataEntry::read_from(&mut reader).map_err(|e| e.at_index(index))?;
        }
        let used = reader.offset().saturating_sub(base);
        Ok(Metadata { bytes, base, count: total, used })
    }

    /// The section of a file whose header and pairs have been checked.
    pub(crate) fn trusted(bytes: &'a [u8], header: &Header, used: u64) -> Self {
        // The header's check keeps the count to 32 bits.
        let count = u32::try_from(header.metadata_kv_count).unwrap_or(0);
        Metadata { bytes, base: header.metadata.offset, count, used }
    }

    /// Number of pairs.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the pairs take; what is left of the section belongs to none.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// The pairs in file order.
    pub const fn iter(&self) -> MetadataEntries<'a> {
        let reader = Reader::new(self.bytes, Section::Metadata, self.base);
        MetadataEntries { reader, left: self.count }
    }

    /// The value of `key`; of two equal keys, the first.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.find(|other| other == key)
    }

    /// The value of the first key that `matches`. Other values are passed over unread.
    fn find(&self, mut matches: impl FnMut(&str) -> bool) -> Option<Value<'a>> {
        let mut reader = Reader::new(self.bytes, Section::Metadata, self.base);
        for _ in 0..self.count {
            let head = MetadataHead::read_from(&mut reader).ok()?;
            let at = reader.offset();
            let value = reader.take(u64::from(head.value_len)).ok()?;
            if matches(head.key) {
                return Value::parse(head.tag, value, at).ok();
            }
        }
        None
    }

    /// `general.architecture`.
    pub fn architecture(&self) -> Option<&'a str> {
        self.get("general.architecture")?.as_str()
    }

    /// The value of a hyperparameter, `<arch>.<name>` with `<arch>` the
    /// [architecture](Self::architecture): `hyperparameter("block_count")`.
    pub fn hyperparameter(&self, name: &str) -> Option<Value<'a>> {
        let architecture = self.architecture()?;
        self.find(|key| {
            let rest = key.strip_prefix(architecture);
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(name)
        })
    }
}

impl<'a> IntoIterator for Metadata<'a> {
    type Item = MetadataEntry<'a>;
    type IntoIter = MetadataEntries<'a>;

    fn into_iter(self) -> MetadataEntries<'a> {
        self.iter()
    }
}

/// Iterator over the pairs of a [`Metadata`].
#[derive(Clone, Debug)]
pub struct MetadataEntries<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Iterator for MetadataEntries<'a> {
    type Item = MetadataEntry<'a>;

    fn next(&mut self) -> Option<MetadataEntry<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Cannot fail: `Metadata::parse` has read every entry once.
        MetadataEntry::read_from(&mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for MetadataEntries<'_> {}
