//! Appendix records: appended, and taken back (format-specification.md, section 8;
//! payloads.md, "Appendix").

use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use hk_core::format::appendix::{RecordHead, RecordType};
use hk_core::{Flags, Header};
use sha2::{Digest, Sha256};

use super::commit::{Progress, digest, seal};
use super::files::Files;
use super::head::Head;
use super::journal::{Journal, Kind};
use crate::error::Error;

/// Bytes that are copied or hashed at once.
const CHUNK: usize = 1 << 20;

/// A record to be appended, without its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewRecord<'a> {
    /// What it holds; not 0.
    pub kind: RecordType,
    /// Its name, of at most 65535 bytes.
    pub name: &'a str,
    /// What it applies to, of at most 65535 bytes.
    pub target: &'a str,
    /// [`RecordHead::ACTIVE`], [`RecordHead::COMPRESSED`].
    pub flags: u8,
    /// Its generation; without one, that of the last record plus 1.
    pub generation: Option<u32>,
    /// Seconds since 1970; without them, those of now.
    pub timestamp: Option<u64>,
    /// Loss, accuracy, pass rate, custom.
    pub metrics: [f32; 4],
}

impl<'a> NewRecord<'a> {
    /// An active record of the next generation, of now.
    pub const fn new(kind: RecordType, name: &'a str) -> Self {
        let flags = RecordHead::ACTIVE;
        let (generation, timestamp) = (None, None);
        NewRecord { kind, name, target: "", flags, generation, timestamp, metrics: [0.0; 4] }
    }
}

/// A record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// Its position, from 0.
    pub index: u32,
    /// Its generation.
    pub generation: u32,
    /// Where it stands in the file.
    pub offset: u64,
    /// Bytes of its data.
    pub data_size: u64,
}

/// What is left of an appendix after a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolledBack {
    /// Records that stay.
    pub kept: usize,
    /// Bytes that were cut off.
    pub cut: u64,
}

/// A record where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) head: RecordHead,
    pub(super) offset: u64,
}

/// The records of a file, by their heads alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) places: Vec<Place>,
    /// Where the next one goes.
    pub(super) end: u64,
    /// The record behind the whole ones, where it is none.
    pub(super) broken: Option<Broken>,
}

/// A record that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The file ends inside it, or it is one that was not finished: nothing follows it.
    Last,
    /// Something follows it.
    Damaged,
}

impl Records {
    /// Reads heads from `start` on to the end of a file of `len` bytes.
    pub(super) fn read(files: &mut dyn Files, start: u64, len: u64) -> io::Result<Self> {
        let mut records = Records { end: start, ..Records::default() };
        let mut bytes = [0; RecordHead::LEN];
        while len.saturating_sub(records.end) >= RecordHead::LEN as u64 {
            let offset = records.end;
            files.read_at(offset, &mut bytes)?;
            let head = RecordHead::read(&bytes);
            let ends = |size: Option<u64>| size.and_then(|size| offset.checked_add(size));
            let (end, next) = (ends(head.size()), ends(head.padded_size()));
            let (Some(_), Some(next)) = (end.filter(|&end| end <= len), next) else {
                records.broken = Some(Broken::Last);
                break;
            };
            if head.kind.0 == 0 {
                // Of a record that was not finished any part can be there, its sizes or not.
                let follow = Self::read(files, next, len)?.are_all();
                records.broken = Some(if follow { Broken::Damaged } else { Broken::Last });
                break;
            }
            records.places.push(Place { head, offset });
            records.end = next;
        }
        Ok(records)
    }

    /// Whether there is something, and all of it is whole records of known types.
    pub(super) fn are_all(&self) -> bool {
        let is_known = |place: &Place| place.head.kind.name().is_some();
        !self.places.is_empty() && self.broken.is_none() && self.places.iter().all(is_known)
    }

    /// The records of `head`; none where it has no appendix.
    pub(super) fn of(files: &mut dyn Files, head: &Head) -> io::Result<Self> {
        match head.header.appendix_offset {
            0 => Ok(Records { end: head.len.next_multiple_of(8), ..Records::default() }),
            start => Self::read(files, start, head.len),
        }
    }

    /// The hash by which the next record names the last one; zeros where there is none.
    fn parent_hash(&self, files: &mut dyn Files) -> io::Result<[u8; 32]> {
        let Some(last) = self.places.last() else { return Ok([0; 32]) };
        let mut at = last.offset + RecordHead::LEN as u64;
        // Within the file, as `read` has seen.
        let end = last.offset + last.head.size().unwrap_or_default();
        let mut hash = Sha256::new();
        let mut chunk = vec![0; CHUNK.min((end - at) as usize)];
        while at < end {
            let now = (end - at).min(CHUNK as u64) as usize;
            files.read_at(at, &mut chunk[..now])?;
            hash.update(&chunk[..now]);
            at += now as u64;
        }
        Ok(hash.finalize().into())
    }
}

/// Appends a record to a file with these `records`, and says where it is.
///
/// The first record of a file is behind its end until the header leads to it. A later one is
/// there, for a reader, as soon as its bytes are: so it is written with type 0, which is no
/// record, and its one byte of type last. A sealed file has a journal meanwhile.
pub(super) fn append(
    files: &mut dyn Files,
    head: &Head,
    records: &Records,
    record: &NewRecord<'_>,
    data: &mut dyn Read,
    progress: Progress<'_>,
) -> io::Result<Appended> {
    let new = head_of(record, records, records.parent_hash(files)?)?;
    let mut header = head.header;
    if header.appendix_offset == 0 {
        header.appendix_offset = records.end;
    }
    header.flags = header.flags.with(Flags::HAS_APPENDIX);
    // Too few bytes for a record can stand where the new one goes.
    let mut there = vec![0; head.len.saturating_sub(records.end) as usize];
    if !there.is_empty() {
        files.read_at(records.end, &mut there)?;
    }
    let mut undo = Journal {
        kind: Kind::Undo,
        len: head.len,
        headers: [head.header.to_bytes(); 2],
        ranges: if there.is_empty() { Vec::new() } else { vec![(records.end, there)] },
    };
    let sealed = header.flags.contains(Flags::SEALED);
    let later = head.header.appendix_offset != 0;
    if sealed {
        files.write_journal(&undo.to_bytes())?;
    }
    let mut write = || -> io::Result<u64> {
        let data_size = write_record(files, records.end, new, record, data, later)?;
        if sealed {
            let len = files.len()?;
            let last = [(records.end, vec![new.kind.0])];
            let digest = digest(files, &header, &last, len, progress)?;
            seal(&mut header, &digest);
            undo.headers[1] = header.to_bytes();
            files.write_journal(&undo.to_bytes())?;
        }
        if later {
            files.write_at(records.end, &[new.kind.0])?;
            files.sync()?;
        }
        if header != head.header {
            files.write_at(0, &header.to_bytes())?;
            files.sync()?;
        }
        if sealed {
            files.remove_journal()?;
        }
        Ok(data_size)
    };
    let result = write();
    if result.is_err() {
        put_back(files, &undo, &head.header, sealed);
    }
    let (index, generation) = (records.places.len() as u32, new.generation);
    result.map(|data_size| Appended { index, generation, offset: records.end, data_size })
}

/// After an error. Without a journal the header goes first, and for good.
fn put_back(files: &mut dyn Files, undo: &Journal, old: &Header, sealed: bool) {
    if sealed {
        let _ = undo.undo(files);
        return;
    }
    let mut back = || -> io::Result<()> {
        files.write_at(0, &old.to_bytes())?;
        files.sync()?;
        undo.ranges.iter().try_for_each(|(offset, range)| files.write_at(*offset, range))?;
        files.set_len(undo.len)?;
        files.sync()
    };
    // What is left else is cut off by the next repair.
    let _ = back();
}

/// The head of a new record, its data aside.
fn head_of(
    record: &NewRecord<'_>,
    records: &Records,
    parent_hash: [u8; 32],
) -> io::Result<RecordHead> {
    let refuse = |text: String| io::Error::other(Error::Invalid(text));
    let len = |what: &str, text: &str| {
        let bytes = text.len();
        u16::try_from(bytes).map_err(|_| {
            refuse(format!("the record's {what} has {bytes} bytes: at most 65535 fit"))
        })
    };
    if record.kind.0 == 0 {
        return Err(refuse("0 is no type of a record".to_owned()));
    }
    let last = records.places.last().map_or(0, |last| last.head.generation);
    let next = || last.checked_add(1).ok_or_else(|| refuse("no generation is left".to_owned()));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(RecordHead {
        kind: record.kind,
        flags: record.flags,
        generation: record.generation.map_or_else(next, Ok)?,
        timestamp: record.timestamp.unwrap_or_else(now),
        parent_hash,
        metrics: record.metrics,
        name_len: len("name", record.name)?,
        target_len: len("target", record.target)?,
        ..RecordHead::default()
    })
}

/// Writes a record at `offset`, with its type or, if that comes `later`, without; all is synced.
/// Gives the length of the data.
fn write_record(
    files: &mut dyn Files,
    offset: u64,
    mut head: RecordHead,
    record: &NewRecord<'_>,
    data: &mut dyn Read,
    later: bool,
) -> io::Result<u64> {
    let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
    let texts = [record.name, record.target].concat();
    let mut at = offset.checked_add(RecordHead::LEN as u64).ok_or_else(too_large)?;
    files.write_at(at, texts.as_bytes())?;
    at += texts.len() as u64;
    let (mut crc, mut chunk) = (crc32fast::Hasher::new(), vec![0; CHUNK]);
    loop {
        let bytes = match data.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => &chunk[..count],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                let text = format!("cannot read the record's data: {e}");
                return Err(io::Error::other(Error::Invalid(text)));
            }
        };
        files.write_at(at, bytes)?;
        crc.update(bytes);
        at = at.checked_add(bytes.len() as u64).ok_or_else(too_large)?;
        head.data_size += bytes.len() as u64;
    }
    head.data_crc32 = crc.finalize();
    let padding = (at - offset).wrapping_neg() % 8;
    files.write_at(at, &[0; 8][..padding as usize])?;
    if later {
        head.kind = RecordType(0);
    }
    files.write_at(offset, &head.to_bytes())?;
    files.sync()?;
    Ok(head.data_size)
}
