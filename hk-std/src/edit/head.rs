//! What an edit has to know of a file: header, metadata, table, and which bytes are in use.

use std::io;

use hk_core::format::HEADER_LEN;
use hk_core::{Header, Metadata, Span, Toc};

use super::files::Files;

/// Why a head cannot be read.
#[derive(Debug)]
pub(super) enum HeadError {
    Io(io::Error),
    Format(hk_core::Error),
}

impl From<io::Error> for HeadError {
    fn from(error: io::Error) -> Self {
        HeadError::Io(error)
    }
}

impl From<hk_core::Error> for HeadError {
    fn from(error: hk_core::Error) -> Self {
        HeadError::Format(error)
    }
}

/// A file without its payloads.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) header: Header,
    /// The metadata section.
    pub(super) metadata: Vec<u8>,
    /// The table of contents.
    pub(super) toc: Vec<u8>,
    /// Length of the file.
    pub(super) len: u64,
    /// Byte ranges of tensors, by their start.
    payloads: Vec<Span>,
}

impl Head {
    /// Reads and checks everything but payloads and appendix.
    pub(super) fn read(files: &mut dyn Files) -> Result<Self, HeadError> {
        let len = files.len()?;
        let header = header(files, len)?;
        header.check(len)?;
        let metadata = section(files, header.metadata)?;
        Metadata::parse(&metadata, header.metadata_kv_count)?;
        let toc = section(files, header.toc)?;
        let mut payloads: Vec<Span> = Toc::parse(&toc, header.tensor_count, len)?
            .iter()
            .flat_map(|entry| entry.parts().map(|(_, span)| span))
            .collect();
        payloads.sort_by_key(|span| span.offset);
        Ok(Head { header, metadata, toc, len, payloads })
    }

    /// Where the first payload begins, or what stands behind the sections of a file without.
    pub(super) fn first_payload(&self) -> u64 {
        let appendix = Some(self.header.appendix_offset).filter(|&offset| offset > 0);
        let first = self.payloads.first().map(|span| span.offset);
        [first, appendix].into_iter().flatten().fold(self.len, u64::min)
    }

    /// Where everything that the header leads to ends, the appendix aside.
    pub(super) fn end(&self) -> u64 {
        let sections = [self.header.metadata, self.header.toc];
        let spans = self.payloads.iter().copied().chain(sections);
        spans.filter_map(Span::end).fold(HEADER_LEN as u64, u64::max)
    }

    /// A place for `size` bytes in front of the first payload, where nothing stands that the
    /// header leads to.
    pub(super) fn gap(&self, size: u64) -> Option<u64> {
        let mut sections = [self.header.metadata, self.header.toc];
        sections.sort_by_key(|span| span.offset);
        let mut at = HEADER_LEN as u64;
        for span in sections.into_iter().filter(|span| span.size > 0) {
            if span.offset >= at.saturating_add(size) {
                break;
            }
            at = at.max(span.offset + span.size);
        }
        at.checked_add(size).filter(|&end| end <= self.first_payload()).map(|_| at)
    }
}

fn header(files: &mut dyn Files, len: u64) -> Result<Header, HeadError> {
    let mut bytes = [0; HEADER_LEN];
    // As many as there are: the core says what is wrong with fewer.
    let there = len.min(HEADER_LEN as u64) as usize;
    files.read_at(0, &mut bytes[..there])?;
    Ok(Header::parse(&bytes[..there])?)
}

/// A section that lies within the file.
fn section(files: &mut dyn Files, span: Span) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
    let size = usize::try_from(span.size).map_err(|_| too_large())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| too_large())?;
    bytes.resize(size, 0);
    files.read_at(span.offset, &mut bytes)?;
    Ok(bytes)
}
