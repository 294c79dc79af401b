//! Packed arrays in metadata values (payloads.md, "Packed arrays").

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{self, Reader};
use crate::error::{Error, ErrorKind, Section};

/// A packed array, checked: vocabularies, merges, scores.
///
/// ```
/// use hk_core::Array;
/// let packed = [3, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
/// let Ok(Array::I32(numbers)) = Array::parse(&packed) else { panic!() };
/// assert!(numbers.iter().eq([7, -1]));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Array<'a> {
    /// Kind 1.
    Strings(Strings<'a>),
    /// Kind 2.
    F32(Numbers<'a, f32>),
    /// Kind 3.
    I32(Numbers<'a, i32>),
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    kind: u8,
    zero: [u8; 3],
    count: U32,
}

impl<'a> Array<'a> {
    /// Reads and checks a packed array.
    ///
    /// # Errors
    /// [`ErrorKind::Array`] when the kind is unknown or counts and offsets do not fit the
    /// length.
    pub fn parse(value: &'a [u8]) -> Result<Array<'a>, Error> {
        parse(value).ok_or(Error::new(ErrorKind::Array, Section::Metadata, 0))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::Strings(strings) => strings.len(),
            Array::F32(numbers) => numbers.len(),
            Array::I32(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn parse(value: &[u8]) -> Option<Array<'_>> {
    let mut reader = Reader::new(value, Section::Metadata, 0);
    let head: &Head = reader.read().ok()?;
    let count = u64::from(head.count.get());
    if head.zero != [0; 3] {
        return None;
    }
    match head.kind {
        1 => {
            let offsets = reader.take((count + 1) * 4).ok()?;
            let (offsets, _) = offsets.as_chunks();
            let strings = Strings { offsets, data: reader.rest() };
            strings.check().then_some(Array::Strings(strings))
        }
        2 => Numbers::parse(reader.rest(), count, f32::from_le_bytes).map(Array::F32),
        3 => Numbers::parse(reader.rest(), count, i32::from_le_bytes).map(Array::I32),
        _ => None,
    }
}

/// Strings of a packed array. They are byte strings: GGUF does not promise UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    offsets: &'a [[u8; 4]],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Offsets start at 0, never decrease, and the last is the data's length.
    fn check(&self) -> bool {
        let mut previous = 0;
        for (i, offset) in self.offsets.iter().enumerate() {
            let offset = u32::from_le_bytes(*offset);
            if offset < previous || (i == 0 && offset != 0) {
                return false;
            }
            previous = offset;
        }
        u64::from(previous) == self.data.len() as u64
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of string `index`.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let start = u32::from_le_bytes(*self.offsets.get(index)?);
        let end = u32::from_le_bytes(*self.offsets.get(index.checked_add(1)?)?);
        bytes::range(self.data, u64::from(start), u64::from(end.checked_sub(start)?))
    }

    /// The strings' bytes in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let strings = *self;
        // Never empty-handed: `check` has seen every offset.
        (0..self.len()).map(move |index| strings.get(index).unwrap_or_default())
    }
}

/// Numbers of a packed array, 4 bytes each.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a, T> {
    values: &'a [[u8; 4]],
    decode: fn([u8; 4]) -> T,
}

impl<'a, T> Numbers<'a, T> {
    fn parse(body: &'a [u8], count: u64, decode: fn([u8; 4]) -> T) -> Option<Self> {
        let (values, left) = body.as_chunks();
        let fits = left.is_empty() && values.len() as u64 == count;
        fits.then_some(Numbers { values, decode })
    }

    /// Number of elements.
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Element `index`.
    pub fn get(&self, index: usize) -> Option<T> {
        self.values.get(index).map(|&bytes| (self.decode)(bytes))
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        let decode = self.decode;
        self.values.iter().map(move |&bytes| decode(bytes))
    }
}
