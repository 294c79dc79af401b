//! Changes of metadata (storage-and-sparsity.md, section 3; payloads.md, "Metadata edit").

use hk_core::build::{BuildError, MetadataBuilder};
use hk_core::format::HEADER_LEN;
use hk_core::{Header, Metadata, Span, Value};

use super::commit::Edit;
use super::head::Head;

/// What is to become of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetadataChange<'a> {
    /// It gets this value: in place of the one that it has, else as the last pair.
    Set {
        /// The key.
        key: &'a str,
        /// The value.
        value: Value<'a>,
    },
    /// It goes; that it is not there is an error.
    Unset {
        /// The key.
        key: &'a str,
    },
}

/// Where the metadata stand after an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataPlace {
    /// As they were: the file has the values already, and nothing was written.
    Unchanged,
    /// In front of the first payload.
    InFront,
    /// At the end of the file; where they stood before are unused bytes now, which
    /// a repacked copy of the file does without.
    EndOfFile,
}

/// Why metadata cannot be changed so.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The key is not there.
    NoKey(String),
    /// The pair cannot stand in a file.
    Pair(String, BuildError),
    /// The pairs are larger than the room in front of the first payload, and an appendix
    /// stands at the end.
    NoRoom { needed: u64, room: u64 },
    /// Offsets would pass 2^64.
    TooLarge,
}

/// A metadata section in the making.
struct Section {
    /// Key and bytes of each pair.
    pairs: Vec<(String, Vec<u8>)>,
}

impl Section {
    /// The pairs that there are, byte for byte.
    fn read(bytes: &[u8], header: &Header) -> Result<Self, hk_core::Error> {
        let metadata = Metadata::parse(bytes, header.metadata_kv_count)?;
        let ends = metadata.iter().skip(1).map(|entry| entry.offset).chain([metadata.used()]);
        let pair = |(entry, end): (hk_core::format::MetadataEntry<'_>, u64)| {
            // Offsets within `bytes`, in order.
            let bytes = bytes.get(entry.offset as usize..end as usize).unwrap_or_default();
            (entry.key.to_owned(), bytes.to_owned())
        };
        Ok(Section { pairs: metadata.iter().zip(ends).map(pair).collect() })
    }

    fn change(&mut self, change: &MetadataChange<'_>) -> Result<(), Refusal> {
        match *change {
            MetadataChange::Unset { key } => {
                let before = self.pairs.len();
                self.pairs.retain(|(there, _)| there != key);
                if self.pairs.len() == before {
                    return Err(Refusal::NoKey(key.to_owned()));
                }
            }
            MetadataChange::Set { key, value } => {
                let mut pair = MetadataBuilder::new();
                pair.push(key, value).map_err(|e| Refusal::Pair(key.to_owned(), e))?;
                let mut new = Some((key.to_owned(), pair.bytes().to_owned()));
                // Of equal keys, which a file should not have, the first is the one that counts.
                self.pairs.retain_mut(|pair| match (pair.0 == key, &mut new) {
                    (false, _) => true,
                    (true, Some(_)) => new.take().map(|new| *pair = new).is_some(),
                    (true, None) => false,
                });
                self.pairs.extend(new);
            }
        }
        Ok(())
    }

    fn bytes(&self) -> Vec<u8> {
        self.pairs.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }
}

/// Works out an edit; `None` where the file says all that already.
pub(super) fn plan(
    head: &Head,
    changes: &[MetadataChange<'_>],
) -> Result<Option<(Edit, MetadataPlace)>, Refusal> {
    let mut section =
        Section::read(&head.metadata, &head.header).unwrap_or(Section { pairs: vec![] });
    changes.iter().try_for_each(|change| section.change(change))?;
    let bytes = section.bytes();
    let count = section.pairs.len() as u64;
    if bytes == head.metadata && count == head.header.metadata_kv_count {
        return Ok(None);
    }
    let mut header = head.header;
    header.metadata_kv_count = count;
    let (size, len) = (bytes.len() as u64, HEADER_LEN as u64);
    let room = head.first_payload().saturating_sub(len);
    let with_toc = size.saturating_add(header.toc.size);

    if let Some(offset) = head.gap(size) {
        header.metadata = Span { offset, size };
        let edit = Edit { header, writes: vec![(offset, bytes)], overlaps: false };
        return Ok(Some((edit, MetadataPlace::InFront)));
    }
    if with_toc <= room {
        header.metadata = Span { offset: len, size };
        header.toc.offset = len + size;
        let sections = [bytes, head.toc.clone()].concat();
        let edit = Edit { header, writes: vec![(len, sections)], overlaps: true };
        return Ok(Some((edit, MetadataPlace::InFront)));
    }
    if header.appendix_offset != 0 {
        return Err(Refusal::NoRoom { needed: with_toc, room });
    }
    let offset = head.len.checked_next_multiple_of(8).ok_or(Refusal::TooLarge)?;
    offset.checked_add(size).ok_or(Refusal::TooLarge)?;
    header.metadata = Span { offset, size };
    let edit = Edit { header, writes: vec![(offset, bytes)], overlaps: false };
    Ok(Some((edit, MetadataPlace::EndOfFile)))
}
