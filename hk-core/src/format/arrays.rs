//! Packed arrays in metadata values (payloads.md, "Packed arrays").

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{self, Reader};
use crate::error::{Error, ErrorKind, Section};
use crate::format::Span;

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
        let head = ArrayHead::read(value, value.len() as u64)?;
        let body = value.get(ArrayHead::LEN as usize..).unwrap_or_default();
        match head.kind {
            ArrayKind::Strings => Strings::parse(body, head.count).map(Array::Strings),
            ArrayKind::F32 => Numbers::parse(body, f32::from_le_bytes).map(Array::F32),
            ArrayKind::I32 => Numbers::parse(body, i32::from_le_bytes).map(Array::I32),
        }
        .ok_or(BROKEN)
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

const BROKEN: Error = Error::new(ErrorKind::Array, Section::Metadata, 0);

/// What a packed array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayKind {
    /// Kind 1: byte strings.
    Strings,
    /// Kind 2: f32.
    F32,
    /// Kind 3: i32.
    I32,
}

/// What stands in front of a packed array: for hosts that look up single elements of an
/// array that is larger than their window. All spans count from the start of the value.
///
/// ```
/// use hk_core::format::{ArrayHead, Span};
/// // Two strings, "hi" and "HK".
/// let value = b"\x01\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0hiHK";
/// let fetch = |span: Span| &value[span.offset as usize..][..span.size as usize];
/// let head = ArrayHead::read(&value[..8], value.len() as u64).unwrap();
/// let ends = fetch(head.element(1).unwrap());
/// assert_eq!(fetch(head.string(ends).unwrap()), b"HK");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayHead {
    /// What it holds.
    pub kind: ArrayKind,
    /// Number of elements.
    pub count: u32,
    size: u64,
}

impl ArrayHead {
    /// Bytes of the head itself.
    pub const LEN: u64 = size_of::<Head>() as u64;

    /// Reads the head from the first [`LEN`](Self::LEN) bytes of a value of `size` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Array`] for too few bytes, an unknown kind, or a count that does not fit
    /// the size.
    pub fn read(bytes: &[u8], size: u64) -> Result<Self, Error> {
        let (head, _) = Head::ref_from_prefix(bytes).map_err(|_| BROKEN)?;
        let kind = match (head.kind, head.zero) {
            (1, [0, 0, 0]) => ArrayKind::Strings,
            (2, [0, 0, 0]) => ArrayKind::F32,
            (3, [0, 0, 0]) => ArrayKind::I32,
            _ => return Err(BROKEN),
        };
        let head = ArrayHead { kind, count: head.count.get(), size };
        let body = Self::LEN + 4 * u64::from(head.count);
        let fits = if kind == ArrayKind::Strings { body + 4 <= size } else { body == size };
        if fits { Ok(head) } else { Err(BROKEN) }
    }

    /// The 4 bytes of number `index`, or the 8 bytes that say where string `index` stands,
    /// for [`string`](Self::string); `None` past the end.
    pub fn element(&self, index: u32) -> Option<Span> {
        let size = if self.kind == ArrayKind::Strings { 8 } else { 4 };
        let offset = Self::LEN + 4 * u64::from(index);
        (index < self.count).then_some(Span { offset, size })
    }

    /// Where the string stands whose two offsets are `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Array`] when these are no 8 bytes of an array of strings, or point
    /// outside the value.
    pub fn string(&self, bytes: &[u8]) -> Result<Span, Error> {
        let (ends, []) = bytes.as_chunks() else { return Err(BROKEN) };
        let (&[start, end], ArrayKind::Strings) = (ends, self.kind) else { return Err(BROKEN) };
        let (start, end) = (u32::from_le_bytes(start), u32::from_le_bytes(end));
        let data = Self::LEN + 4 * (u64::from(self.count) + 1);
        let span = end
            .checked_sub(start)
            .map(|size| Span { offset: data + u64::from(start), size: u64::from(size) });
        span.filter(|span| span.within(self.size)).ok_or(BROKEN)
    }
}

/// Strings of a packed array. They are byte strings: GGUF does not promise UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    offsets: &'a [[u8; 4]],
    data: &'a [u8],
}

impl<'a> Strings<'a> {
    fn parse(body: &'a [u8], count: u32) -> Option<Self> {
        let mut reader = Reader::new(body, Section::Metadata, 0);
        let (offsets, _) = reader.take((u64::from(count) + 1) * 4).ok()?.as_chunks();
        let strings = Strings { offsets, data: reader.rest() };
        strings.check().then_some(strings)
    }

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
    /// All of `body`, whose length the head has been compared with.
    fn parse(body: &'a [u8], decode: fn([u8; 4]) -> T) -> Option<Self> {
        let (values, left) = body.as_chunks();
        left.is_empty().then_some(Numbers { values, decode })
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
