//! Appendix records (format-specification.md, section 8).

use core::fmt;

use sha2::{Digest, Sha256};
use zerocopy::little_endian::{F32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, RecordFault, Section};

/// What a record holds (`entry_type`); unknown types are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordType(pub u8);

impl RecordType {
    /// A low-rank adapter.
    pub const LORA_ADAPTER: RecordType = RecordType(1);
    /// A difference to be added to a tensor.
    pub const DELTA_PATCH: RecordType = RecordType(2);
    /// A layer that the model did not have.
    pub const NEW_LAYER: RecordType = RecordType(3);
    /// How the model did in a test of code.
    pub const CODE_EVAL: RecordType = RecordType(4);
    /// Keys and values of a text.
    pub const KV_CACHE_SINK: RecordType = RecordType(5);
    /// A head of another topology.
    pub const TOPOLOGY_HEAD: RecordType = RecordType(6);

    /// The names in the specification, in the order of their numbers from 1 on.
    pub const NAMES: [&'static str; 6] =
        ["lora_adapter", "delta_patch", "new_layer", "code_eval", "kv_cache_sink", "topology_head"];

    /// The name in the specification, or `None` for a type it does not list.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.get(usize::from(self.0.checked_sub(1)?)).copied()
    }

    /// The type called `name` in the specification.
    pub fn from_name(name: &str) -> Option<Self> {
        (1..)
            .zip(Self::NAMES)
            .find(|(_, there)| *there == name)
            .map(|(number, _)| RecordType(number))
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
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

/// The fixed part of a record, which stands in front of its name, target and data: what a host
/// reads that cannot hold the whole record, and what one writes that makes a new one.
///
/// ```
/// use hk_core::format::appendix::{RecordHead, RecordType};
/// let head = RecordHead { kind: RecordType::CODE_EVAL, name_len: 2, ..RecordHead::default() };
/// let read = RecordHead::read(&head.to_bytes());
/// assert_eq!((read, read.size(), read.padded_size()), (head, Some(82), Some(88)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordHead {
    /// What the record holds.
    pub kind: RecordType,
    /// [`ACTIVE`](Self::ACTIVE), [`COMPRESSED`](Self::COMPRESSED).
    pub flags: u8,
    /// Counts up from the first record.
    pub generation: u32,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// SHA-256 of the record before this one.
    pub parent_hash: [u8; 32],
    /// Loss, accuracy, pass rate, custom.
    pub metrics: [f32; 4],
    /// Bytes of the name.
    pub name_len: u16,
    /// Bytes of the target.
    pub target_len: u16,
    /// CRC-32/ISO-HDLC of the data, 0 for none.
    pub data_crc32: u32,
    /// Bytes of the data.
    pub data_size: u64,
}

impl RecordHead {
    /// Bytes of a head.
    pub const LEN: usize = 80;
    /// The record counts.
    pub const ACTIVE: u8 = 1;
    /// The data are compressed; how, the specification does not say.
    pub const COMPRESSED: u8 = 2;

    /// Reads a head. What it claims is to be compared with the file.
    pub fn read(bytes: &[u8; Self::LEN]) -> Self {
        let raw: &RawRecord = zerocopy::transmute_ref!(bytes);
        Self::of(raw)
    }

    fn of(raw: &RawRecord) -> Self {
        RecordHead {
            kind: RecordType(raw.entry_type),
            flags: raw.flags,
            generation: raw.generation.get(),
            timestamp: raw.timestamp.get(),
            parent_hash: raw.parent_hash,
            metrics: raw.metrics.map(F32::get),
            name_len: raw.name_len.get(),
            target_len: raw.target_len.get(),
            data_crc32: raw.data_crc32.get(),
            data_size: raw.data_size.get(),
        }
    }

    /// The head as it stands in a file.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let raw = RawRecord {
            entry_type: self.kind.0,
            flags: self.flags,
            name_len: self.name_len.into(),
            generation: self.generation.into(),
            timestamp: self.timestamp.into(),
            parent_hash: self.parent_hash,
            metrics: self.metrics.map(F32::new),
            target_len: self.target_len.into(),
            reserved: 0.into(),
            data_crc32: self.data_crc32.into(),
            data_size: self.data_size.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Bytes of the record up to the end of its data; `None` past 2^64.
    pub fn size(&self) -> Option<u64> {
        let texts = u64::from(self.name_len).checked_add(u64::from(self.target_len))?;
        texts.checked_add(Self::LEN as u64)?.checked_add(self.data_size)
    }

    /// [`size`](Self::size) with the padding to a multiple of 8.
    pub fn padded_size(&self) -> Option<u64> {
        self.size()?.checked_next_multiple_of(8)
    }
}

impl Default for RecordHead {
    /// An active record of type 0, which is none, without anything in it.
    fn default() -> Self {
        RecordHead {
            kind: RecordType(0),
            flags: Self::ACTIVE,
            generation: 0,
            timestamp: 0,
            parent_hash: [0; 32],
            metrics: [0.0; 4],
            name_len: 0,
            target_len: 0,
            data_crc32: 0,
            data_size: 0,
        }
    }
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
        let head = RecordHead::of(reader.read().map_err(cut)?);
        if head.kind.0 == 0 {
            return Err(fault(RecordFault::ZeroType));
        }
        let name = reader.take(u64::from(head.name_len)).map_err(cut)?;
        let target = reader.take(u64::from(head.target_len)).map_err(cut)?;
        let data = reader.take(head.data_size).map_err(cut)?;
        let text = |bytes| core::str::from_utf8(bytes).map_err(|_| fault(RecordFault::Text));
        let size = reader.offset().saturating_sub(at.offset());
        let padding = size.wrapping_neg() % 8;
        let there = padding.min(reader.rest().len() as u64);
        // Past the whole record, so that one with broken text can be stepped over.
        reader.take(there).map_err(cut)?;
        Ok(Record {
            index,
            kind: head.kind,
            flags: head.flags,
            generation: head.generation,
            timestamp: head.timestamp,
            parent_hash: head.parent_hash,
            metrics: head.metrics,
            name: text(name)?,
            target: text(target)?,
            data_crc32: head.data_crc32,
            data,
            offset: at.offset(),
            missing_padding: (padding - there) as u8,
        })
    }
}

/// Checks the lineage of records: each is given once it is clear that it is whole, that its data
/// have the CRC-32 that it states, and that it follows the one before it. An error says which
/// record fails and why; the ones after it are checked against it all the same.
///
/// Source: format-specification.md, "Lineage hash".
///
/// ```
/// use hk_core::format::appendix::{Appendix, Lineage};
/// # let file = [0; 128];
/// # let offset = 0;
/// for record in Lineage::new(Appendix::new(&file, offset)) {
///     match record {
///         Ok(record) => assert!(record.generation < 1000),
///         Err(error) => panic!("{error}"),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Lineage<'a> {
    records: Appendix<'a>,
    previous: Option<Record<'a>>,
}

impl<'a> Lineage<'a> {
    /// Checks `records`.
    pub const fn new(records: Appendix<'a>) -> Self {
        Lineage { records, previous: None }
    }
}

impl<'a> Iterator for Lineage<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.records.next()? {
            Ok(record) => record,
            Err(error) => {
                self.previous = None;
                return Some(Err(error));
            }
        };
        let previous = self.previous.replace(record);
        // Nothing is said of its parent by a record with a hash of zeros.
        let is_set = record.parent_hash != [0; 32];
        let follows = previous.is_none_or(|previous| !is_set || record.follows(&previous));
        if !follows {
            let kind = ErrorKind::Record(RecordFault::Parent);
            let error = Error::new(kind, Section::Appendix, record.offset);
            return Some(Err(error.at_index(record.index)));
        }
        Some(record.check_crc().map(|()| record))
    }
}

impl<'a> Iterator for Appendix<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        if reader.rest().len() < RecordHead::LEN {
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
    fn lineage_says_which_record_fails_and_why() {
        let mut file = std::vec![0u8; 8];
        file.extend(record(1, b"a", b"one", [7; 32]));
        let first = Appendix::new(&file, 8).next().unwrap().unwrap().hash();
        file.extend(record(2, b"b", b"two", first));
        file.extend(record(3, b"c", b"three", [9; 32]));
        file.extend(record(3, b"d", b"four", [0; 32]));
        let at = file.len() - 88 + 68;
        file[at] = 1;
        let found: Vec<_> = Lineage::new(Appendix::new(&file, 8))
            .map(|record| record.map(|record| record.name).map_err(|e| (e.kind(), e.index())))
            .collect();
        let crc = RecordFault::Crc { stated: 1, found: crc32fast::hash(b"four") };
        assert_eq!(
            found,
            [
                Ok("a"),
                Ok("b"),
                Err((ErrorKind::Record(RecordFault::Parent), Some(2))),
                Err((ErrorKind::Record(crc), Some(3))),
            ]
        );
    }

    #[test]
    fn types_have_names() {
        for (number, name) in (1..).zip(RecordType::NAMES) {
            let kind = RecordType(number);
            assert_eq!((RecordType::from_name(name), kind.name()), (Some(kind), Some(name)));
        }
        assert_eq!(RecordType::from_name("model"), None);
        assert_eq!(std::format!("{} {}", RecordType::NEW_LAYER, RecordType(9)), "new_layer 0x09");
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
