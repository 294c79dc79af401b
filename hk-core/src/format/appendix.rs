//! Appendix records (format-specification.md, section 8).

use sha2::{Digest, Sha256};
use zerocopy::little_endian::{F32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, RecordFault, Section};

/// What a record holds (`entry_type`); unknown types are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordType(pub u8);

impl RecordType {
    const NAMES: [&'static str; 6] =
        ["lora_adapter", "delta_patch", "new_layer", "code_eval", "kv_cache_sink", "topology_head"];

    /// The name in the specification, or `None` for a type it does not list.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.get(usize::from(self.0.checked_sub(1)?)).copied()
    }
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    entry_type: u8,
    flags: u8,
    name_len: U16,
    generation: U32,
    timestamp: U64,
    parent_hash: [u8; 32],
    metrics: [F32; 4],
    target_len: U16,
    reserved: U16,
    data_crc32: U32,
    data_size: U64,
}

/// One appendix record, borrowed from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// Position in the appendix, from 0.
    pub index: u32,
    /// What it holds.
    pub kind: RecordType,
    /// Bit 0 ACTIVE, bit 1 COMPRESSED.
    pub flags: u8,
    /// Counts up from the first record.
    pub generation: u32,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// SHA-256 of the record before this one.
    pub parent_hash: [u8; 32],
    /// Loss, accuracy, pass rate, custom.
    pub metrics: [f32; 4],
    /// Name.
    pub name: &'a str,
    /// What it applies to.
    pub target: &'a str,
    /// CRC-32/ISO-HDLC of `data` as stated, 0 for none.
    pub data_crc32: u32,
    /// Content, as it stands.
    pub data: &'a [u8],
    /// Absolute offset of the record.
    pub offset: u64,
    /// Bytes of zero padding that should follow and do not: the last record may end early.
    pub missing_padding: u8,
}

impl Record<'_> {
    /// SHA-256 of name, target and data: the `parent_hash` of the record after this one.
    pub fn hash(&self) -> [u8; 32] {
        let parts = [self.name.as_bytes(), self.target.as_bytes(), self.data];
        let mut hash = Sha256::new();
        parts.iter().for_each(|part| hash.update(part));
        hash.finalize().into()
    }

    /// Whether `parent_hash` names `previous` as the record before this one, in today's
    /// form or in the older one, SHA-256 of the data alone. The first record of a file has
    /// none before it, and its `parent_hash` says nothing.
    ///
    /// Source: format-specification.md, "Lineage hash".
    pub fn follows(&self, previous: &Record<'_>) -> bool {
        let older = || -> [u8; 32] { Sha256::digest(previous.data).into() };
        self.parent_hash == previous.hash() || self.parent_hash == older()
    }

    /// Compares `data` with the CRC-32 that the record states, if it states one.
    ///
    /// # Errors
    /// [`RecordFault::Crc`].
    pub fn check_crc(&self) -> Result<(), Error> {
        let stated = self.data_crc32;
        if stated == 0 {
            return Ok(());
        }
        let found = crc32fast::hash(self.data);
        if found == stated {
            return Ok(());
        }
        let kind = ErrorKind::Record(RecordFault::Crc { stated, found });
        Err(Error::new(kind, Section::Appendix, self.offset).at_index(self.index))
    }
}

/// Iterator over the records of a file: each record, or an error for a broken one. After
/// one that is cut short or of type 0 nobody knows where the next begins, so it ends.
#[derive(Clone, Debug)]
pub struct Appendix<'a> {
    reader: Option<Reader<'a>>,
    index: u32,
}

impl<'a> Appendix<'a> {
    /// The records from `offset` to the end of `file`; none when `offset` is 0.
    pub fn new(file: &'a [u8], offset: u64) -> Self {
        let bytes = usize::try_from(offset).ok().and_then(|start| file.get(start..));
        let reader = bytes
            .filter(|_| offset != 0)
            .map(|bytes| Reader::new(bytes, Section::Appendix, offset));
        Appendix { reader, index: 0 }
    }

    /// What is left after the last record: fewer bytes than a record's head. Meaningful
    /// once the iterator has ended without an error.
    pub fn leftover(&self) -> &'a [u8] {
        self.reader.map(|reader| reader.rest()).unwrap_or_default()
    }

    fn read(reader: &mut Reader<'a>, index: u32) -> Result<Record<'a>, Error> {
        let at = *reader;
        let fault = |fault| at.error(ErrorKind::Record(fault)).at_index(index);
        let cut = |_| fault(RecordFault::CutShort);
        let raw: &RawRecord = reader.read().map_err(cut)?;
        if raw.entry_type == 0 {
            return Err(fault(RecordFault::ZeroType));
        }
        let name = reader.take(u64::from(raw.name_len.get())).map_err(cut)?;
        let target = reader.take(u64::from(raw.target_len.get())).map_err(cut)?;
        let data = reader.take(raw.data_size.get()).map_err(cut)?;
        let text = |bytes| core::str::from_utf8(bytes).map_err(|_| fault(RecordFault::Text));
        let size = reader.offset().saturating_sub(at.offset());
        let padding = size.wrapping_neg() % 8;
        let there = padding.min(reader.rest().len() as u64);
        // Past the whole record, so that one with broken text can be stepped over.
        reader.take(there).map_err(cut)?;
        Ok(Record {
            index,
            kind: RecordType(raw.entry_type),
            flags: raw.flags,
            generation: raw.generation.get(),
            timestamp: raw.timestamp.get(),
            parent_hash: raw.parent_hash,
            metrics: raw.metrics.map(F32::get),
            name: text(name)?,
            target: text(target)?,
            data_crc32: raw.data_crc32.get(),
            data,
            offset: at.offset(),
            missing_padding: (padding - there) as u8,
        })
    }
}

impl<'a> Iterator for Appendix<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        if reader.rest().len() < size_of::<RawRecord>() {
            return None;
        }
        let record = Self::read(reader, self.index);
        self.index = self.index.saturating_add(1);
        let is_text = |e: &Error| e.kind() == ErrorKind::Record(RecordFault::Text);
        if record.as_ref().is_err_and(|e| !is_text(e)) {
            self.reader = None;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn record(kind: u8, name: &[u8], data: &[u8], parent: [u8; 32]) -> Vec<u8> {
        let mut bytes = std::vec![0u8; 80];
        bytes[0] = kind;
        bytes[2] = name.len() as u8;
        bytes[16..48].copy_from_slice(&parent);
        bytes[72..80].copy_from_slice(&(data.len() as u64).to_le_bytes());
        bytes.extend(name);
        bytes.extend(data);
        while !bytes.len().is_multiple_of(8) {
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn each_record_names_the_one_before_it() {
        let mut file = std::vec![0u8; 8];
        file.extend(record(1, b"a", b"one", [0; 32]));
        let first = Appendix::new(&file, 8).next().unwrap().unwrap().hash();
        file.extend(record(200, b"b", b"two", first));
        let data_only: [u8; 32] = Sha256::digest(b"two").into();
        file.extend(record(3, b"c", b"", data_only));
        let records: Vec<_> = Appendix::new(&file, 8).map(Result::unwrap).collect();
        assert_eq!(records.iter().map(|r| r.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(records[1].offset, 8 + 88);
        assert!(records[1].follows(&records[0]) && records[2].follows(&records[1]));
        assert!(!records[2].follows(&records[0]) && !records[0].follows(&records[1]));
    }

    #[test]
    fn a_name_that_is_no_text_loses_only_its_record() {
        let mut file = std::vec![0u8; 8];
        file.extend(record(1, b"\xFF", b"one", [0; 32]));
        file.extend(record(2, b"b", b"two", [0; 32]));
        file.extend(record(0, b"c", b"", [0; 32]));
        file.extend(record(2, b"d", b"", [0; 32]));
        let mut records = Appendix::new(&file, 8);
        let fault = |record: Result<Record<'_>, Error>| record.unwrap_err().kind();
        assert_eq!(fault(records.next().unwrap()), ErrorKind::Record(RecordFault::Text));
        assert_eq!(records.next().unwrap().unwrap().name, "b");
        assert_eq!(fault(records.next().unwrap()), ErrorKind::Record(RecordFault::ZeroType));
        assert!(records.next().is_none());
    }

    #[test]
    fn the_last_record_may_end_without_its_padding() {
        let mut file = std::vec![0u8; 8];
        file.extend(record(1, b"a", b"one", [0; 32]));
        file.truncate(8 + 84);
        let record = Appendix::new(&file, 8).next().unwrap().unwrap();
        assert_eq!((record.data, record.missing_padding), (&b"one"[..], 4));
        file.truncate(8 + 83);
        let error = Appendix::new(&file, 8).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record(RecordFault::CutShort));
    }
}
