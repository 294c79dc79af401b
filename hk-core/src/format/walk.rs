//! Metadata and table of contents read piece by piece, for hosts that cannot hold a whole
//! section: serial flash, HTTP ranges.
//!
//! A walk does no reading itself. It says which bytes it needs next, takes them, and gives
//! the entry that they hold, checked as [`Hk::parse`](crate::Hk::parse) checks it, with
//! errors that count from the start of the file. Then [`TensorEntry::locate`] says which
//! bytes hold which weights.
//!
//! ```
//! use hk_core::{Error, Header, Portable, Span, decode};
//!
//! /// The host's own: fills `buffer` from `span` on, and gives back what it holds.
//! fn fetch<'b>(flash: &[u8], span: Span, buffer: &'b mut [u8; 512]) -> &'b [u8] {
//!     let (from, size) = (span.offset as usize, span.size as usize);
//!     buffer[..size].copy_from_slice(&flash[from..from + size]);
//!     &buffer[..size]
//! }
//!
//! /// Adds up all weights of a file that lies in flash.
//! fn sum(flash: &[u8], file_len: u64) -> Result<f32, Error> {
//!     let (mut window, mut weights) = ([0; 512], [0.0; 64]);
//!     let header = Header::parse(fetch(flash, Span { offset: 0, size: 128 }, &mut window))?;
//!     let mut total = 0.0;
//!     let mut walk = header.walk_toc(file_len)?;
//!     while let Some(span) = walk.next_span(512) {
//!         let entry = walk.entry(fetch(flash, span, &mut window))?.without_name();
//!         for start in (0..entry.shape.count()).step_by(64) {
//!             // 64 weights from a multiple of 64 on take 512 bytes at most, in any type.
//!             let end = entry.shape.count().min(start + 64);
//!             let cover = entry.locate(start..end)?;
//!             let payload = fetch(flash, cover.span(), &mut window);
//!             let weights = &mut weights[..(end - start) as usize];
//!             decode::dequantize_slice(&Portable, entry.storage, payload, cover.skip, weights)?;
//!             total += weights.iter().sum::<f32>();
//!         }
//!     }
//!     Ok(total)
//! }
//! # let mut file = [0u8; 128];
//! # file[..4].copy_from_slice(b"HKNT");
//! # file[4] = 1;
//! # file[8] = 1;
//! # assert_eq!(sum(&file, 128), Ok(0.0));
//! ```

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, Section};
use crate::format::{Header, MetadataHead, Span, TensorEntry, Value, ValueType};

/// Where a walk stands in its section.
#[derive(Clone, Debug)]
struct Place {
    section: Section,
    at: u64,
    end: u64,
    index: u32,
    count: u32,
}

impl Place {
    /// The start of a section that has been compared with the file.
    fn new(section: Section, span: Span, count: u64) -> Self {
        let end = span.offset.saturating_add(span.size);
        // A header that passes its check counts no further.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Place { section, at: span.offset, end, index: 0, count }
    }

    fn next_span(&self, most: usize) -> Option<Span> {
        let size = self.end.saturating_sub(self.at).min(most as u64);
        (self.index < self.count).then_some(Span { offset: self.at, size })
    }

    /// A reader of what belongs to the section.
    fn reader<'b>(&self, bytes: &'b [u8]) -> Reader<'b> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..left).unwrap_or(bytes);
        Reader::new(bytes, self.section, self.at)
    }

    /// Goes on to the entry that starts at `next`.
    fn advance(&mut self, next: u64) {
        self.at = next;
        self.index = self.index.saturating_add(1);
    }
}

/// A walk through the metadata; [`Header::walk_metadata`] starts it.
#[derive(Clone, Debug)]
pub struct MetadataWalk {
    place: Place,
}

impl MetadataWalk {
    /// The bytes to hand to [`pair`](Self::pair) next, `most` of them or what is left of the
    /// section; `None` at the end.
    pub fn next_span(&self, most: usize) -> Option<Span> {
        self.place.next_span(most)
    }

    /// Takes the bytes of the last [`next_span`](Self::next_span), and gives the key of the
    /// pair that starts there and where its value stands, which need not be fetched.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] when the pair passes the section, or all of it but the value
    /// passes the window (512 bytes are enough for keys of up to 505), [`ErrorKind::Text`]
    /// for a key that is not UTF-8. The walk then stays where it is.
    pub fn pair<'b>(&mut self, bytes: &'b [u8]) -> Result<(&'b str, ValueAt), Error> {
        let index = self.place.index;
        let mut reader = self.place.reader(bytes);
        let head = MetadataHead::read_from(&mut reader).map_err(|e| e.at_index(index))?;
        let span = Span { offset: reader.offset(), size: u64::from(head.value_len) };
        let Some(next) = span.end().filter(|&end| end <= self.place.end) else {
            let available = self.place.end.saturating_sub(span.offset);
            let kind = ErrorKind::Truncated { needed: span.size, available };
            return Err(reader.error(kind).at_index(index));
        };
        self.place.advance(next);
        Ok((head.key, ValueAt { tag: head.tag, span, index }))
    }
}

/// A metadata value that has not been fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueAt {
    /// Its type.
    pub tag: ValueType,
    /// Where it stands in the file.
    pub span: Span,
    /// Position of its pair, from 0.
    pub index: u32,
}

impl ValueAt {
    /// Reads the value from the bytes of [`span`](Self::span). Of one that is larger than
    /// the window, [`ArrayHead`](crate::format::ArrayHead) finds single elements.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] for fewer bytes, [`ErrorKind::ValueLength`],
    /// [`ErrorKind::Text`].
    pub fn read<'b>(&self, bytes: &'b [u8]) -> Result<Value<'b>, Error> {
        let Span { offset, size } = self.span;
        let value = Reader::new(bytes, Section::Metadata, offset)
            .take(size)
            .and_then(|bytes| Value::parse(self.tag, bytes, offset));
        value.map_err(|e| e.at_index(self.index))
    }
}

/// A walk through the table of contents; [`Header::walk_toc`] starts it.
#[derive(Clone, Debug)]
pub struct TocWalk {
    place: Place,
    file_len: u64,
}

impl TocWalk {
    /// The bytes to hand to [`entry`](Self::entry) next, `most` of them or what is left of
    /// the section; `None` at the end. 252 bytes hold any entry.
    pub fn next_span(&self, most: usize) -> Option<Span> {
        self.place.next_span(most)
    }

    /// Takes the bytes of the last [`next_span`](Self::next_span), and gives the tensor that
    /// they describe, its ranges compared with the file's length.
    ///
    /// # Errors
    /// As [`TensorEntry::read`] and [`TensorEntry::check`]. The walk then stays where it is.
    pub fn entry<'b>(&mut self, bytes: &'b [u8]) -> Result<TensorEntry<'b>, Error> {
        let mut reader = self.place.reader(bytes);
        let entry = TensorEntry::read_from(&mut reader, self.place.index)?;
        entry.check(self.file_len)?;
        self.place.advance(reader.offset());
        Ok(entry)
    }
}

impl Header {
    /// Starts a walk through the metadata of a file of `file_len` bytes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn walk_metadata(&self, file_len: u64) -> Result<MetadataWalk, Error> {
        self.check(file_len)?;
        let place = Place::new(Section::Metadata, self.metadata, self.metadata_kv_count);
        Ok(MetadataWalk { place })
    }

    /// Starts a walk through the table of contents of a file of `file_len` bytes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn walk_toc(&self, file_len: u64) -> Result<TocWalk, Error> {
        self.check(file_len)?;
        let place = Place::new(Section::Toc, self.toc, self.tensor_count);
        Ok(TocWalk { place, file_len })
    }
}
