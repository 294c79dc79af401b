//! A whole file over `&[u8]`.

use core::ops::{Deref, Range};

use crate::backend::Backend;
use crate::blocks::{Block, dequantize_blocks};
use crate::bytes;
use crate::decode::{self, Residual, Source};
use crate::error::{Error, ErrorKind};
use crate::format::appendix::Appendix;
use crate::format::{Header, Metadata, Span, TensorEntry, Toc, TocEntries};
use crate::storage::StorageType;

/// An HK file, checked: header, metadata and table of contents. Payloads are not touched.
///
/// ```
/// # fn main() -> Result<(), hk_core::Error> {
/// # let mut file = [0u8; 128];
/// # file[..4].copy_from_slice(b"HKNT");
/// # file[4] = 1;
/// # file[8] = 1;
/// let hk = hk_core::Hk::parse(&file)?;
/// for tensor in hk.tensors() {
///     let mut weights = [0.0; 4096]; // any size: a tensor streams through a small buffer
///     let end = tensor.shape.count().min(4096);
///     tensor.dequantize_range(
///         &hk_core::Portable,
///         0..end,
///         &mut weights[..end as usize],
///         hk_core::Residual::Add,
///     )?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hk<'a> {
    bytes: &'a [u8],
    header: Header,
    metadata: Metadata<'a>,
    toc: Toc<'a>,
}

impl<'a> Hk<'a> {
    /// Checks header, metadata and table of contents in one pass, without allocating.
    ///
    /// # Errors
    /// What is wrong first, with its section, absolute byte offset and entry. Faults of
    /// single payloads and of appendix records show up only when those are used.
    pub fn parse(bytes: &'a [u8]) -> Result<Hk<'a>, Error> {
        let file_len = bytes.len() as u64;
        let header = Header::parse(bytes)?;
        header.check(file_len)?;
        // `check` has compared both spans with the length, so neither is cut here.
        let section = |span: Span| bytes::range(bytes, span.offset, span.size).unwrap_or_default();
        let metadata = Metadata::parse_at(
            section(header.metadata),
            header.metadata_kv_count,
            header.metadata.offset,
        )?;
        let toc =
            Toc::parse_at(section(header.toc), header.tensor_count, file_len, header.toc.offset)?;
        Ok(Hk { bytes, header, metadata, toc })
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The metadata.
    pub const fn metadata(&self) -> Metadata<'a> {
        self.metadata
    }

    /// The table of contents.
    pub const fn toc(&self) -> Toc<'a> {
        self.toc
    }

    /// The tensors in file order.
    pub const fn tensors(&self) -> Tensors<'a> {
        Tensors { entries: self.toc.iter(), file: self.bytes, toc: self.toc }
    }

    /// The tensor called `name`; of two equal names, the first. Walks the table: hk-std
    /// has an index by name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'a>> {
        self.toc.get(name).map(|entry| self.bind(entry))
    }

    /// The tensor that an entry of this file describes.
    pub const fn bind(&self, entry: TensorEntry<'a>) -> Tensor<'a> {
        Tensor { entry, file: self.bytes, toc: self.toc }
    }

    /// The appendix records; none when there is no appendix.
    pub fn appendix(&self) -> Appendix<'a> {
        Appendix::new(self.bytes, self.header.appendix_offset)
    }

    /// The whole file.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What parsing has found, without the bytes: for hosts that own the bytes and want to
    /// check them once.
    pub const fn outline(&self) -> Outline {
        Outline {
            header: self.header,
            metadata_used: self.metadata.used(),
            toc_used: self.toc.used(),
        }
    }
}

/// What [`Hk::parse`] has found in a file, without a borrow of its bytes.
///
/// ```
/// # fn main() -> Result<(), hk_core::Error> {
/// # let mut file = [0u8; 128];
/// # file[..4].copy_from_slice(b"HKNT");
/// # file[4] = 1;
/// # file[8] = 1;
/// let outline = hk_core::Hk::parse(&file)?.outline(); // checks the file
/// let hk = outline.over(&file); // checks nothing
/// assert_eq!(hk.tensors().len(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    header: Header,
    metadata_used: u64,
    toc_used: u64,
}

impl Outline {
    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The file again, over the bytes that were parsed, in no time. Over other bytes it is
    /// of no use: walks end at the first entry that makes no sense.
    pub fn over<'a>(&self, bytes: &'a [u8]) -> Hk<'a> {
        let header = &self.header;
        let section = |span: Span| bytes::range(bytes, span.offset, span.size).unwrap_or_default();
        let metadata = section(header.metadata);
        let metadata = Metadata::trusted(metadata, header, self.metadata_used);
        let toc = Toc::trusted(section(header.toc), header, self.toc_used);
        Hk { bytes, header: *header, metadata, toc }
    }
}

/// Iterator over the tensors of a file.
#[derive(Clone, Debug)]
pub struct Tensors<'a> {
    entries: TocEntries<'a>,
    file: &'a [u8],
    toc: Toc<'a>,
}

impl<'a> Iterator for Tensors<'a> {
    type Item = Tensor<'a>;

    fn next(&mut self) -> Option<Tensor<'a>> {
        let entry = self.entries.next()?;
        Some(Tensor { entry, file: self.file, toc: self.toc })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl ExactSizeIterator for Tensors<'_> {}

/// A tensor of a file: its entry, which it derefs to, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    entry: TensorEntry<'a>,
    file: &'a [u8],
    toc: Toc<'a>,
}

impl<'a> Deref for Tensor<'a> {
    type Target = TensorEntry<'a>;

    fn deref(&self) -> &TensorEntry<'a> {
        &self.entry
    }
}

impl<'a> Tensor<'a> {
    /// What the table of contents says of it.
    pub const fn entry(&self) -> &TensorEntry<'a> {
        &self.entry
    }

    /// The stored payload.
    pub fn data(&self) -> &'a [u8] {
        self.span(self.entry.data)
    }

    /// The stored scales, empty if none.
    pub fn scales(&self) -> &'a [u8] {
        self.span(self.entry.scales)
    }

    /// The stored residual, empty if none.
    pub fn residual(&self) -> &'a [u8] {
        self.span(self.entry.residual)
    }

    fn span(&self, span: Span) -> &'a [u8] {
        // Never cut: parsing has compared every span with the file's length.
        bytes::range(self.file, span.offset, span.size).unwrap_or_default()
    }

    /// The tensor as it decodes: itself, or for a `shared_ref` its own name and shape over
    /// the storage of the first earlier tensor that is no reference and has the same data
    /// (payloads.md, "Table of contents"). Without one it is f32 if the sizes match.
    ///
    /// # Errors
    /// [`ErrorKind::DanglingReference`].
    pub fn resolve(&self) -> Result<Tensor<'a>, Error> {
        if self.entry.storage != StorageType::SHARED_REF {
            return Ok(*self);
        }
        let mut earlier = self.toc.iter().take(self.entry.index as usize);
        let target = earlier.find(|entry| self.entry.refers_to(entry));
        self.resolve_to(target.as_ref())
    }

    /// [`resolve`](Self::resolve) for a host that has looked up the target itself, by an
    /// index instead of a walk.
    ///
    /// # Errors
    /// [`ErrorKind::DanglingReference`].
    pub fn resolve_to(&self, target: Option<&TensorEntry<'a>>) -> Result<Tensor<'a>, Error> {
        let entry = self.entry.resolve_to(target)?;
        Ok(Tensor { entry, ..*self })
    }

    /// Decodes the whole tensor to `out`, row-major, [`count`](crate::Shape::count)
    /// elements.
    ///
    /// # Errors
    /// [`ErrorKind::OutputLength`], a type or layout without a decoder (named), a payload
    /// too short for the shape, a reference to nothing. `out` is then unspecified.
    pub fn dequantize_into(
        &self,
        backend: &dyn Backend,
        out: &mut [f32],
        residual: Residual,
    ) -> Result<(), Error> {
        let count = self.entry.shape.count();
        if out.len() as u64 != count {
            let kind = ErrorKind::OutputLength { expected: count, given: out.len() as u64 };
            return Err(Error::call(kind).at_index(self.entry.index));
        }
        self.dequantize_range(backend, 0..count, out, residual)
    }

    /// Decodes elements `range` in row-major order to `out`, which has as many: any span,
    /// also one that begins or ends inside a block. A tensor streams through a small
    /// buffer this way.
    ///
    /// # Errors
    /// As [`dequantize_into`](Self::dequantize_into), and [`ErrorKind::Range`].
    pub fn dequantize_range(
        &self,
        backend: &dyn Backend,
        range: Range<u64>,
        out: &mut [f32],
        residual: Residual,
    ) -> Result<(), Error> {
        let resolved = self.resolve()?;
        decode::dequantize_range(backend, &resolved.source(), range, out, residual)
            .map_err(|e| resolved.entry.error(e))
    }

    /// Decodes the first `out.len()` weights as blocks of one known type, or elements of one
    /// dense type, and links that type's decoder alone: for firmware that knows its model.
    ///
    /// ```
    /// # fn decode(tensor: hk_core::Tensor<'_>) -> Result<(), hk_core::Error> {
    /// use hk_core::blocks::BlockQ8_0;
    /// let mut weights = [0.0; 128];
    /// tensor.dequantize_blocks::<BlockQ8_0, _>(&mut weights)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::StorageType`] when the tensor, references resolved, is of another type
    /// or not stored as plain row-major blocks of it; [`ErrorKind::Range`] when it has fewer
    /// weights; a payload too short for them.
    pub fn dequantize_blocks<B: Block<N>, const N: usize>(
        &self,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let resolved = self.resolve()?;
        let entry = &resolved.entry;
        let error = |kind| Error::call(kind).at_index(entry.index);
        let plain = decode::is_plain(&resolved.source());
        if entry.storage != B::STORAGE || !plain {
            let kind = ErrorKind::StorageType { asked: B::STORAGE, found: entry.storage };
            return Err(error(kind));
        }
        let (end, count) = (out.len() as u64, entry.shape.count());
        if end > count {
            return Err(error(ErrorKind::Range { start: 0, end, count }));
        }
        dequantize_blocks::<B, N>(resolved.data(), out).map_err(|e| entry.error(e))
    }

    /// What the decoder needs, once references are resolved.
    fn source(&self) -> Source<'a> {
        self.entry.source(self.data(), self.scales(), self.residual())
    }
}
