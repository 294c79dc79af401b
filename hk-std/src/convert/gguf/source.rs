//! Checked forward reading of a GGUF file through a small window.

use std::fmt::{self, Display};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::error::Error;

/// What a person can do about a file whose numbers do not add up.
pub(super) const DAMAGED: &str = "the file is damaged or cut short: fetch or write it again";

/// Most bytes of metadata and tensor table that are read: several times what the largest
/// vocabularies take. It keeps a hostile file from filling the memory.
pub(super) const MAX_HEAD: u64 = 128 << 20;

/// Bytes of the file that are held at once.
const WINDOW: usize = 64 << 10;

/// Result of the GGUF reader's functions.
pub(super) type Result<T, E = Fault> = std::result::Result<T, E>;

/// What is wrong with a GGUF file, and where.
#[derive(Debug)]
pub(super) enum Fault {
    /// The system failed to read it.
    Io(io::Error),
    /// Its content is wrong.
    Content {
        /// The metadata pair or tensor, where it is in one.
        place: Option<String>,
        /// Absolute byte offset.
        offset: u64,
        /// What is wrong and what to do about it.
        text: String,
    },
}

impl Fault {
    /// Wrong content at absolute byte `offset`.
    pub(super) fn new(offset: u64, text: impl Into<String>) -> Self {
        Fault::Content { place: None, offset, text: text.into() }
    }

    /// The same fault, in the metadata pair or tensor that `place` names.
    pub(super) fn within(self, place: impl Display) -> Self {
        match self {
            Fault::Content { place: None, offset, text } => {
                Fault::Content { place: Some(place.to_string()), offset, text }
            }
            other => other,
        }
    }

    /// The crate's error for this fault in the file `path`.
    pub(super) fn in_file(self, path: &Path) -> Error {
        match self {
            Fault::Io(source) => Error::io("read", path, source),
            content => Error::Invalid(format!("{}: {content}", path.display())),
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(source) => write!(f, "{source}"),
            Fault::Content { place: Some(place), offset, text } => {
                write!(f, "{place}: {text} (GGUF, byte {offset})")
            }
            Fault::Content { place: None, offset, text } => {
                write!(f, "{text} (GGUF, byte {offset})")
            }
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

/// Reads the head of a GGUF file from front to back. It knows the file's length, so that
/// every claimed count is compared with what is there before anything is read or held.
#[derive(Debug)]
pub(super) struct Source<R> {
    inner: BufReader<R>,
    offset: u64,
    len: u64,
}

impl<R: Read + Seek> Source<R> {
    /// A source at the start of `inner`.
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        let len = inner.seek(SeekFrom::End(0))?;
        inner.rewind()?;
        Ok(Source { inner: BufReader::with_capacity(WINDOW, inner), offset: 0, len })
    }

    /// Absolute offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// A fault at the next byte.
    pub(super) fn fault(&self, text: impl Into<String>) -> Fault {
        Fault::new(self.offset, text)
    }

    /// Checks that `count` things of at least `size` bytes each can still follow.
    pub(super) fn need(&self, count: u64, size: u64, things: &str) -> Result<()> {
        let left = self.len - self.offset;
        let fits = count.checked_mul(size).filter(|&bytes| bytes <= left);
        let Some(bytes) = fits else {
            return Err(self.fault(format!(
                "{count} {things} are claimed where {left} bytes are left; {DAMAGED}"
            )));
        };
        if bytes > MAX_HEAD.saturating_sub(self.offset) {
            return Err(self.fault(format!(
                "{count} {things} take metadata and tensor table past {MAX_HEAD} bytes, \
                 more than is accepted; {DAMAGED}"
            )));
        }
        Ok(())
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.need(N as u64, 1, "bytes")?;
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }

    /// The next u32.
    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next u64.
    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Appends the next `len` bytes to `out`.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, len: u64) -> Result<()> {
        self.need(len, 1, "bytes")?;
        let read = self.inner.by_ref().take(len).read_to_end(out)?;
        if read as u64 != len {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.offset += len;
        Ok(())
    }

    /// Hands each of the next `count` values of `N` bytes to `each`.
    pub(super) fn values<const N: usize>(
        &mut self,
        count: u64,
        mut each: impl FnMut([u8; N]),
    ) -> Result<()> {
        self.need(count, N as u64, "array elements")?;
        for _ in 0..count {
            let mut bytes = [0; N];
            self.inner.read_exact(&mut bytes)?;
            each(bytes);
        }
        self.offset += count * N as u64;
        Ok(())
    }

    /// The next string: a u64 length and that many bytes of UTF-8.
    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        let len = self.u64()?;
        let start = self.offset;
        let mut bytes = Vec::new();
        self.append(&mut bytes, len)?;
        String::from_utf8(bytes).map_err(|e| {
            let at = start + e.utf8_error().valid_up_to() as u64;
            Fault::new(at, format!("{what} is not UTF-8, as GGUF demands: write the file again"))
        })
    }

    /// The next bytes without reading past them, at most `len`, fewer at the end.
    pub(super) fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let buffer = self.inner.fill_buf()?;
        Ok(buffer.get(..len).unwrap_or(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn claims_are_compared_with_what_is_left() {
        let mut source = Source::new(Cursor::new(vec![0; 16])).unwrap();
        source.u64().unwrap();
        source.need(2, 4, "things").unwrap();
        source.need(0, u64::MAX, "things").unwrap();
        for (count, size) in [(3, 4), (u64::MAX, 4), (1 << 62, 8)] {
            let text = source.need(count, size, "things").unwrap_err().to_string();
            assert!(text.contains("where 8 bytes are left"), "{text}");
            assert!(text.contains("byte 8"), "{text}");
        }
        assert!(source.array::<9>().is_err());
        let mut bytes = Vec::new();
        assert!(source.append(&mut bytes, u64::MAX).is_err());
        source.append(&mut bytes, 8).unwrap();
        assert_eq!((bytes, source.offset()), (vec![0; 8], 16));
    }

    #[test]
    fn text_says_where_it_stops_being_utf8() {
        let mut bytes = 4u64.to_le_bytes().to_vec();
        bytes.extend(b"ab\xFFc");
        let mut source = Source::new(Cursor::new(bytes)).unwrap();
        let text = source.text("the key").unwrap_err().within("pair 3").to_string();
        assert_eq!(
            text,
            "pair 3: the key is not UTF-8, as GGUF demands: write the file again (GGUF, byte 10)"
        );
    }
}
