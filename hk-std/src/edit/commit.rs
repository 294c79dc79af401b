//! Carrying an edit out so that a crash at any moment leaves the old file or the new one.

use std::io;

use hk_core::format::HEADER_LEN;
use hk_core::format::seal::Sealer;
use hk_core::{Flags, Header};

use super::files::Files;
use super::journal::{Journal, Kind};

/// Bytes that are read at once where all of a file is hashed.
const CHUNK: usize = 1 << 20;

/// An edit that is worked out.
#[derive(Debug)]
pub(super) struct Edit {
    /// The header as it will be; a seal is filled in here.
    pub(super) header: Header,
    /// What is written before the header, in any order; ranges do not overlap.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
    /// Whether a write goes over bytes that the old header leads to.
    pub(super) overlaps: bool,
}

/// Told of the bytes hashed so far, and of all.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Carries `edit` out on a file with the header `old`.
///
/// Where nothing overlaps and the file is not sealed, new bytes go where nothing live stands,
/// and are synced before the header is written: 128 bytes within one sector, which a disk writes
/// whole or not at all. Else a journal holds what is written over. It is synced before the first
/// write, and taken away after the last: as long as it is there, the next editor undoes the
/// edit.
pub(super) fn commit(
    files: &mut dyn Files,
    old: &Header,
    mut edit: Edit,
    progress: Progress<'_>,
) -> io::Result<Header> {
    let len = files.len()?;
    if edit.header.flags.contains(Flags::SEALED) {
        let digest = digest(files, &edit.header, &edit.writes, len, progress)?;
        seal(&mut edit.header, &digest);
    }
    // The digest of a sealed file is wrong from the first write to the last.
    let sealed = old.flags.contains(Flags::SEALED) && !edit.writes.is_empty();
    let journaled = edit.overlaps || sealed;
    let journal = before(files, len, old, &edit)?;
    if journaled {
        files.write_journal(&journal.to_bytes())?;
    }
    match write(files, &edit).and_then(|()| if journaled { files.remove_journal() } else { Ok(()) })
    {
        Ok(()) => Ok(edit.header),
        Err(error) => {
            // At once, so that a full disk leaves the old file. Should this fail too, the
            // journal is still there.
            put_back(files, &journal, journaled);
            Err(error)
        }
    }
}

fn write(files: &mut dyn Files, edit: &Edit) -> io::Result<()> {
    for (offset, bytes) in &edit.writes {
        files.write_at(*offset, bytes)?;
    }
    if !edit.writes.is_empty() {
        files.sync()?;
    }
    files.write_at(0, &edit.header.to_bytes())?;
    files.sync()
}

fn put_back(files: &mut dyn Files, journal: &Journal, journaled: bool) {
    if journaled {
        let _ = journal.undo(files);
        return;
    }
    // The header first, and for good: no byte that it leads to may go before.
    let back = files.write_at(0, &journal.headers[0]).and_then(|()| files.sync());
    if back.is_ok() && files.len().is_ok_and(|now| now > journal.len) {
        let _ = files.set_len(journal.len).and_then(|()| files.sync());
    }
}

/// What stands in the places that `edit` writes to.
fn before(files: &mut dyn Files, len: u64, old: &Header, edit: &Edit) -> io::Result<Journal> {
    let mut ranges = Vec::new();
    for (offset, bytes) in &edit.writes {
        let there = len.saturating_sub(*offset).min(bytes.len() as u64);
        // As long as `bytes` at most.
        let mut range = vec![0; there as usize];
        files.read_at(*offset, &mut range)?;
        if there > 0 {
            ranges.push((*offset, range));
        }
    }
    Ok(Journal { kind: Kind::Undo, len, headers: [old.to_bytes(), edit.header.to_bytes()], ranges })
}

/// Puts a digest into a header (payloads.md, "Seal").
pub(super) fn seal(header: &mut Header, digest: &[u8; 32]) {
    header.flags = header.flags.with(Flags::SEALED);
    header.reserved.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    let [a, b, c, d, e, f, g, h, ..] = *digest;
    header.checksum = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
}

/// Takes the digest out of a header.
pub(super) fn unseal(header: &mut Header) {
    header.flags = Flags(header.flags.0 & !Flags::SEALED.0);
    header.reserved.iter_mut().take(32).for_each(|byte| *byte = 0);
    header.checksum = 0;
}

/// Gives a file the header `header`, whose seal is filled in, and cuts it to `len`.
///
/// Without a new header the cut is one step. With one, it comes after the header, which leads to
/// nothing behind the cut; and a journal finishes the cut of a sealed file, whose new digest is
/// that of the shorter one.
pub(super) fn cut(
    files: &mut dyn Files,
    old: &Header,
    mut header: Header,
    len: u64,
    progress: Progress<'_>,
) -> io::Result<()> {
    let sealed = header.flags.contains(Flags::SEALED);
    if sealed {
        let digest = digest(files, &header, &[], len, progress)?;
        seal(&mut header, &digest);
        let headers = [old.to_bytes(), header.to_bytes()];
        let journal = Journal { kind: Kind::Cut, len, headers, ranges: Vec::new() };
        files.write_journal(&journal.to_bytes())?;
    }
    let before = files.len()?;
    let done = shorten(files, (header != *old).then_some(&header), len);
    let put_back = match &done {
        // Nothing is cut off yet.
        Err(_) if files.len()? == before => {
            files.write_at(0, &old.to_bytes())?;
            files.sync()
        }
        Err(_) => return done,
        Ok(()) => Ok(()),
    };
    put_back?;
    if sealed {
        files.remove_journal()?;
    }
    done
}

fn shorten(files: &mut dyn Files, header: Option<&Header>, len: u64) -> io::Result<()> {
    if let Some(header) = header {
        files.write_at(0, &header.to_bytes())?;
        files.sync()?;
    }
    files.set_len(len)?;
    files.sync()
}

/// The digest of a file of `len` bytes with `header`, once `writes` are done.
pub(super) fn digest(
    files: &mut dyn Files,
    header: &Header,
    writes: &[(u64, Vec<u8>)],
    len: u64,
    progress: Progress<'_>,
) -> io::Result<[u8; 32]> {
    let end = |(offset, bytes): &(u64, Vec<u8>)| offset + bytes.len() as u64;
    let total = writes.iter().map(end).fold(len, u64::max);
    let mut sealer = Sealer::new(header);
    let mut at = HEADER_LEN as u64;
    let mut chunk = vec![0; CHUNK];
    while at < total {
        let now = (total - at).min(CHUNK as u64) as usize;
        let chunk = &mut chunk[..now];
        let (there, beyond) = chunk.split_at_mut(len.saturating_sub(at).min(now as u64) as usize);
        files.read_at(at, there)?;
        beyond.fill(0);
        for (offset, bytes) in writes {
            lay_over(chunk, at, *offset, bytes);
        }
        sealer.update(chunk);
        at += now as u64;
        progress(at, total);
    }
    Ok(sealer.finish())
}

/// Writes `bytes`, which stand at `offset` of a file, into `chunk`, which stands at `at`.
fn lay_over(chunk: &mut [u8], at: u64, offset: u64, bytes: &[u8]) {
    let skip = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
    let cut = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
    let to = chunk.get_mut(skip..).unwrap_or_default();
    let from = bytes.get(cut..).unwrap_or_default();
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}
