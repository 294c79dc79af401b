//! The table of contents (format-specification.md, section 4).

use core::ops::Deref;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, Part, Section};
use crate::format::Header;
use crate::storage::{SparsityType, StorageType, TileLayout, element_count};

/// Longest tensor name in bytes.
pub const MAX_NAME_LEN: usize = 128;
/// Most dimensions of a tensor.
pub const MAX_DIMENSIONS: usize = 8;

/// A byte range of a file, as claimed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Absolute offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Span {
    /// One past the last byte, or `None` when that passes 2^64.
    pub const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }

    /// Whether the whole range lies in a file of `len` bytes.
    pub const fn within(self, len: u64) -> bool {
        match self.end() {
            Some(end) => end <= len,
            None => false,
        }
    }
}

/// A tensor's dimensions, outermost first; none by default, which is a scalar. It derefs to a
/// slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    dims: [u64; MAX_DIMENSIONS],
    ndim: u8,
}

impl Shape {
    /// A shape of at most [`MAX_DIMENSIONS`] dimensions.
    ///
    /// # Errors
    /// [`ErrorKind::Dimensions`] for more, [`ErrorKind::ElementCount`] when their product
    /// passes 2^64.
    pub fn new(dims: &[u64]) -> Result<Shape, Error> {
        let mut shape = Shape { dims: [0; MAX_DIMENSIONS], ndim: 0 };
        let ndim = u8::try_from(dims.len()).unwrap_or(u8::MAX);
        let too_many = Error::call(ErrorKind::Dimensions(ndim));
        shape.dims.get_mut(..dims.len()).ok_or(too_many)?.copy_from_slice(dims);
        shape.ndim = ndim;
        element_count(dims).ok_or(Error::call(ErrorKind::ElementCount))?;
        Ok(shape)
    }

    /// Number of elements: the product, 1 for a scalar.
    pub fn count(&self) -> u64 {
        // A shape whose product does not fit is never made.
        element_count(self).unwrap_or(u64::MAX)
    }

    /// The last dimension, the length of a row; 1 for a scalar.
    pub fn row_len(&self) -> u64 {
        self.last().copied().unwrap_or(1)
    }
}

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.dims.get(..usize::from(self.ndim)).unwrap_or_default()
    }
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Kinds {
    storage: u8,
    tile: u8,
    sparsity: u8,
    ndim: u8,
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Ranges {
    data_offset: U64,
    data_size: U64,
    residual_offset: U64,
    residual_size: U64,
    scale_offset: U64,
    scale_size: U64,
    block_size: U16,
    sparsity_ratio: U32,
}

/// What the table of contents says of one tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorEntry<'a> {
    /// Position in the table, from 0.
    pub index: u32,
    /// Name, at most 128 bytes.
    pub name: &'a str,
    /// How the weights are stored.
    pub storage: StorageType,
    /// How they are ordered.
    pub tile: TileLayout,
    /// How zeros are left out.
    pub sparsity: SparsityType,
    /// Dimensions, outermost first.
    pub shape: Shape,
    /// Where the payload stands.
    pub data: Span,
    /// Where the residual stands; size 0 means none.
    pub residual: Span,
    /// Where the scales stand; size 0 means none.
    pub scales: Span,
    /// Weights a block of dual-mode and split-scale types.
    pub block_size: u16,
    /// Fraction of zeros, 0 if unknown; informational.
    pub sparsity_ratio: f32,
    /// Offset of this entry in the file, or in the slice that was parsed.
    pub offset: u64,
}

impl<'a> TensorEntry<'a> {
    /// Reads entry `index` from the start of `bytes`, and says how many bytes it takes: for
    /// hosts that walk the table through a window. 252 bytes hold any entry. Ranges are
    /// as claimed until [`check`](Self::check) has compared them with the file.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] when `bytes` end inside the entry (fetch more and try
    /// again), a name that is too long or not UTF-8, too many dimensions, or an element
    /// count over 2^64.
    pub fn read(bytes: &'a [u8], index: u32) -> Result<(Self, usize), Error> {
        let mut reader = Reader::new(bytes, Section::Toc, 0);
        let entry = Self::read_from(&mut reader, index)?;
        Ok((entry, bytes.len() - reader.rest().len()))
    }

    pub(super) fn read_from(reader: &mut Reader<'a>, index: u32) -> Result<Self, Error> {
        Self::read_fields(reader, index).map_err(|e| e.at_index(index))
    }

    fn read_fields(reader: &mut Reader<'a>, index: u32) -> Result<Self, Error> {
        let start = *reader;
        let name_len = reader.read::<U16>()?.get();
        if usize::from(name_len) > MAX_NAME_LEN {
            return Err(start.error(ErrorKind::NameLength(name_len)));
        }
        let name = reader.text(u64::from(name_len))?;
        let kinds: &Kinds = reader.read()?;
        let shape = read_shape(reader, kinds.ndim)?;
        let ranges: &Ranges = reader.read()?;
        let span = |offset: U64, size: U64| Span { offset: offset.get(), size: size.get() };
        Ok(TensorEntry {
            index,
            name,
            storage: StorageType(kinds.storage),
            tile: TileLayout(kinds.tile),
            sparsity: SparsityType(kinds.sparsity),
            shape,
            data: span(ranges.data_offset, ranges.data_size),
            residual: span(ranges.residual_offset, ranges.residual_size),
            scales: span(ranges.scale_offset, ranges.scale_size),
            block_size: ranges.block_size.get(),
            sparsity_ratio: f32::from_bits(ranges.sparsity_ratio.get()),
            offset: start.offset(),
        })
    }

    /// The same entry without its name, so that it outlives the bytes it was read from:
    /// for hosts that walk the table through a window.
    pub const fn without_name<'b>(&self) -> TensorEntry<'b> {
        TensorEntry {
            index: self.index,
            name: "",
            storage: self.storage,
            tile: self.tile,
            sparsity: self.sparsity,
            shape: self.shape,
            data: self.data,
            residual: self.residual,
            scales: self.scales,
            block_size: self.block_size,
            sparsity_ratio: self.sparsity_ratio,
            offset: self.offset,
        }
    }

    /// The entry as it decodes, once `target` has been looked up: itself, or for a
    /// `shared_ref` its own name and shape over the storage of `target`, the first earlier
    /// entry that is no reference and has the same [`data`](Self::data) (payloads.md, "Table
    /// of contents"). Without one it is f32 if the sizes match.
    ///
    /// # Errors
    /// [`ErrorKind::DanglingReference`].
    pub fn resolve_to(&self, target: Option<&TensorEntry<'_>>) -> Result<Self, Error> {
        if self.storage != StorageType::SHARED_REF {
            return Ok(*self);
        }
        if let Some(target) = target {
            return Ok(TensorEntry {
                index: self.index,
                name: self.name,
                shape: self.shape,
                offset: self.offset,
                ..target.without_name()
            });
        }
        if StorageType::F32.payload_len(&self.shape) == Ok(self.data.size) {
            return Ok(TensorEntry { storage: StorageType::F32, ..*self });
        }
        let error = Error::new(ErrorKind::DanglingReference, Section::Toc, self.offset);
        Err(error.at_index(self.index))
    }

    /// Whether this `shared_ref` refers to `earlier`, if that is the first it could.
    pub fn refers_to(&self, earlier: &TensorEntry<'_>) -> bool {
        !earlier.storage.is_reference() && earlier.data == self.data
    }

    /// An error of decoding this tensor, whose offset counts from the start of the part that
    /// it is in, or of this entry, as one of the file.
    pub(crate) fn error(&self, error: Error) -> Error {
        let part = match error.kind() {
            ErrorKind::TooShort { part, .. } => self.part(part),
            _ => self.data,
        };
        let moved = match error.section() {
            // A part of no bytes stands nowhere: then this entry is what is wrong.
            Section::Payload if part.size == 0 => {
                Error::new(error.kind(), Section::Toc, self.offset)
            }
            Section::Payload => error.moved_by(part.offset),
            Section::Toc => error.moved_by(self.offset),
            _ => error,
        };
        moved.at_index(self.index)
    }

    /// Where a part stands.
    pub const fn part(&self, part: Part) -> Span {
        match part {
            Part::Data => self.data,
            Part::Scales => self.scales,
            Part::Residual => self.residual,
        }
    }

    /// Its three byte ranges that are not empty, with their names.
    pub fn parts(&self) -> impl Iterator<Item = (Part, Span)> + use<> {
        [Part::Data, Part::Scales, Part::Residual]
            .map(|part| (part, self.part(part)))
            .into_iter()
            .filter(|(_, span)| span.size > 0)
    }

    /// Compares the tensor's byte ranges with the file's length.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`].
    pub fn check(&self, file_len: u64) -> Result<(), Error> {
        for (part, span) in self.parts() {
            if !span.within(file_len) {
                let kind = ErrorKind::OutOfBounds { part, size: span.size, file: file_len };
                return Err(Error::new(kind, Section::Toc, self.offset).at_index(self.index));
            }
        }
        Ok(())
    }
}

fn read_shape(reader: &mut Reader<'_>, ndim: u8) -> Result<Shape, Error> {
    let mut shape = Shape { dims: [0; MAX_DIMENSIONS], ndim };
    let start = *reader;
    // The count stands in the byte before the dimensions.
    let count_at = start.offset().saturating_sub(1);
    let too_many = Error::new(ErrorKind::Dimensions(ndim), Section::Toc, count_at);
    for dim in shape.dims.get_mut(..usize::from(ndim)).ok_or(too_many)? {
        *dim = reader.read::<U64>()?.get();
    }
    element_count(&shape).ok_or(start.error(ErrorKind::ElementCount))?;
    Ok(shape)
}

/// The table of contents, checked.
#[derive(Clone, Copy, Debug)]
pub struct Toc<'a> {
    bytes: &'a [u8],
    base: u64,
    count: u32,
    used: u64,
}

impl<'a> Toc<'a> {
    /// Checks a table of `count` entries that starts at `bytes`, of a file of `file_len`
    /// bytes.
    ///
    /// # Errors
    /// As [`TensorEntry::read`] and [`TensorEntry::check`]; offsets count from the start
    /// of `bytes`.
    pub fn parse(bytes: &'a [u8], count: u64, file_len: u64) -> Result<Self, Error> {
        Self::parse_at(bytes, count, file_len, 0)
    }

    pub(crate) fn parse_at(
        bytes: &'a [u8],
        count: u64,
        file_len: u64,
        base: u64,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, Section::Toc, base);
        let total = u32::try_from(count).map_err(|_| {
            reader.error(ErrorKind::Count { claimed: count, possible: u64::from(u32::MAX) })
        })?;
        for index in 0..total {
            TensorEntry::read_from(&mut reader, index)?.check(file_len)?;
        }
        let used = reader.offset().saturating_sub(base);
        Ok(Toc { bytes, base, count: total, used })
    }

    /// The table of a file whose header and entries have been checked.
    pub(crate) fn trusted(bytes: &'a [u8], header: &Header, used: u64) -> Self {
        // The header's check keeps the count to 32 bits.
        let count = u32::try_from(header.tensor_count).unwrap_or(0);
        Toc { bytes, base: header.toc.offset, count, used }
    }

    /// Number of tensors.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the entries take; what is left of the section belongs to none.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// The entries in file order.
    pub const fn iter(&self) -> TocEntries<'a> {
        let reader = Reader::new(self.bytes, Section::Toc, self.base);
        TocEntries { reader, index: 0, count: self.count }
    }

    /// Entry `index`, which stands at `offset` (its [`offset`](TensorEntry::offset)): for an
    /// index that remembers offsets instead of entries. `None` where no entry stands.
    pub fn entry_at(&self, index: u32, offset: u64) -> Option<TensorEntry<'a>> {
        let start = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        let mut reader = Reader::new(self.bytes.get(start..)?, Section::Toc, offset);
        TensorEntry::read_from(&mut reader, index).ok()
    }

    /// The entry called `name`; of two equal names, the first.
    pub fn get(&self, name: &str) -> Option<TensorEntry<'a>> {
        self.iter().find(|entry| entry.name == name)
    }
}

impl<'a> IntoIterator for Toc<'a> {
    type Item = TensorEntry<'a>;
    type IntoIter = TocEntries<'a>;

    fn into_iter(self) -> TocEntries<'a> {
        self.iter()
    }
}

/// Iterator over the entries of a [`Toc`].
#[derive(Clone, Debug)]
pub struct TocEntries<'a> {
    reader: Reader<'a>,
    index: u32,
    count: u32,
}

impl<'a> Iterator for TocEntries<'a> {
    type Item = TensorEntry<'a>;

    fn next(&mut self) -> Option<TensorEntry<'a>> {
        if self.index == self.count {
            return None;
        }
        let index = self.index;
        self.index += 1;
        // Cannot fail: `Toc::parse` has read every entry once.
        TensorEntry::read_from(&mut self.reader, index).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.count - self.index) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for TocEntries<'_> {}
