//! The journal: what an edit is about to write over, so that it can be undone; or where it is
//! about to cut the file, so that it can be finished.
//!
//! Layout, little-endian: the eight bytes `HKUNDO1\n` or `HKCUT01\n`, the length (u64) that the
//! file has before the edit, or after the cut; its header, the header that the edit writes last,
//! then for each range its offset and length (u64 each) and its bytes, and at the end the CRC-32
//! of all that.

use std::io;

use hk_core::format::HEADER_LEN;

use super::files::Files;

const UNDO: [u8; 8] = *b"HKUNDO1\n";
const CUT: [u8; 8] = *b"HKCUT01\n";

/// What is to be done by a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Put back what stood there.
    Undo,
    /// Cut the file to its length, if its header is the new one already.
    Cut,
}

/// What stood in a file before an edit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Journal {
    pub(super) kind: Kind,
    /// Length of the file: before the edit, or after the cut.
    pub(super) len: u64,
    /// The header before and after the edit: by them a file is known to be the journal's.
    pub(super) headers: [[u8; HEADER_LEN]; 2],
    /// Ranges that are written over, the header aside.
    pub(super) ranges: Vec<(u64, Vec<u8>)>,
}

/// What a journal that was found says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The journal was not written to its end, so the file was not touched yet.
    Torn,
    /// It was written for another file.
    Foreign,
    /// The edit is undone.
    Undone,
    /// The edit was as good as done, and is finished.
    Finished,
}

impl Journal {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let magic = if self.kind == Kind::Cut { CUT } else { UNDO };
        let mut bytes = magic.to_vec();
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.headers.as_flattened());
        for (offset, range) in &self.ranges {
            bytes.extend(offset.to_le_bytes());
            bytes.extend((range.len() as u64).to_le_bytes());
            bytes.extend(range);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// `None` for bytes that are no whole journal.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (magic, rest) = body.split_first_chunk()?;
        let kind = match *magic {
            UNDO => Kind::Undo,
            CUT => Kind::Cut,
            _ => return None,
        };
        let (len, rest) = number(rest)?;
        let (before, rest) = rest.split_first_chunk()?;
        let (after, mut rest) = rest.split_first_chunk()?;
        let mut ranges = Vec::new();
        while !rest.is_empty() {
            let (offset, more) = number(rest)?;
            let (size, more) = number(more)?;
            let (range, more) = more.split_at_checked(usize::try_from(size).ok()?)?;
            offset.checked_add(size).filter(|&end| end <= len)?;
            ranges.push((offset, range.to_vec()));
            rest = more;
        }
        Some(Journal { kind, len, headers: [*before, *after], ranges })
    }

    /// Puts everything back, and takes the journal away. May be done any number of times, and
    /// needs no room on the disk: the bytes go where others stand.
    pub(super) fn undo(&self, files: &mut dyn Files) -> io::Result<()> {
        for (offset, range) in &self.ranges {
            files.write_at(*offset, range)?;
        }
        files.write_at(0, &self.headers[0])?;
        if files.len()? > self.len {
            files.set_len(self.len)?;
        }
        files.sync()?;
        files.remove_journal()
    }

    /// Whether `header`, as it stands in the file, was seen by the edit.
    fn knows(&self, header: &[u8; HEADER_LEN]) -> bool {
        self.headers.contains(header)
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// Undoes or finishes the edit of `files` that a journal tells of, and says which; `None` for no
/// journal. With `dry_run`, only says. A journal of another file is left alone.
pub(super) fn recover(files: &mut dyn Files, dry_run: bool) -> io::Result<Option<Found>> {
    let Some(bytes) = files.journal()? else { return Ok(None) };
    let Some(journal) = Journal::from_bytes(&bytes) else {
        if !dry_run {
            files.remove_journal()?;
        }
        return Ok(Some(Found::Torn));
    };
    let mut header = [0; HEADER_LEN];
    let is_ours = files.len()? >= journal.len.max(HEADER_LEN as u64) && {
        files.read_at(0, &mut header)?;
        journal.knows(&header)
    };
    if !is_ours {
        return Ok(Some(Found::Foreign));
    }
    let found = match journal.kind {
        Kind::Undo => Found::Undone,
        Kind::Cut if header == journal.headers[1] => Found::Finished,
        // Nothing was done yet.
        Kind::Cut => Found::Torn,
    };
    match found {
        _ if dry_run => {}
        Found::Undone => journal.undo(files)?,
        Found::Finished => {
            files.set_len(journal.len)?;
            files.sync()?;
            files.remove_journal()?;
        }
        _ => files.remove_journal()?,
    }
    Ok(Some(found))
}
