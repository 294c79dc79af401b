//! The fixed header (format-specification.md, section 2).

use core::fmt;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bytes::Reader;
use crate::error::{Error, ErrorKind, Section};
use crate::format::Span;

/// Bytes of the header.
pub const HEADER_LEN: usize = 128;
/// The first four bytes of every HK file.
pub const MAGIC: [u8; 4] = *b"HKNT";
/// Most bytes of a metadata entry that are not value: a key length, type and value length.
const METADATA_ENTRY_MIN: u64 = 2 + 1 + 4;
/// Fewest bytes of a TOC entry: no name, no dimensions.
const TOC_ENTRY_MIN: u64 = 2 + 4 + 6 * 8 + 2 + 4;

/// Header flags by bit. Unknown bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Always set.
    pub const LITTLE_ENDIAN: Flags = Flags(1);
    /// There are appendix records.
    pub const HAS_APPENDIX: Flags = Flags(1 << 1);
    /// Reserved.
    pub const HAS_QUANT_TABLE: Flags = Flags(1 << 2);
    /// Some tensor is 2:4 sparse.
    pub const SPARSITY_2_4: Flags = Flags(1 << 3);
    /// The alignment is a multiple of 128.
    pub const TILE_ALIGNED: Flags = Flags(1 << 4);
    /// The alignment is no multiple of 128.
    pub const FLEXIBLE_ALIGNMENT: Flags = Flags(1 << 5);
    /// The file is one shard of a model.
    pub const IS_SHARDED: Flags = Flags(1 << 6);
    /// Every payload is of a dense type.
    pub const RAW_WEIGHT_STORAGE: Flags = Flags(1 << 7);
    /// The alignment is at least 4096.
    pub const UNIVERSAL_PAGE_ALIGNED: Flags = Flags(1 << 8);
    /// The file carries a digest of itself (payloads.md, "Seal").
    pub const SEALED: Flags = Flags(1 << 9);

    const NAMES: [&'static str; 10] = [
        "LITTLE_ENDIAN",
        "HAS_APPENDIX",
        "HAS_QUANT_TABLE",
        "SPARSITY_2_4",
        "TILE_ALIGNED",
        "FLEXIBLE_ALIGNMENT",
        "IS_SHARDED",
        "RAW_WEIGHT_STORAGE",
        "UNIVERSAL_PAGE_ALIGNED",
        "SEALED",
    ];

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bits that the specification gives no name.
    pub const fn unknown(self) -> u32 {
        self.0 >> Self::NAMES.len() << Self::NAMES.len()
    }

    /// Names of the set bits that have one, lowest bit first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 == 1)
            .map(|(_, name)| name)
    }

    /// The flags that a payload alignment in bytes implies.
    pub const fn for_alignment(alignment: u32) -> Flags {
        let tiled = if alignment.is_multiple_of(128) {
            Flags::TILE_ALIGNED
        } else {
            Flags::FLEXIBLE_ALIGNMENT
        };
        if alignment >= 4096 { tiled.with(Flags::UNIVERSAL_PAGE_ALIGNED) } else { tiled }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#x})", self.0)
    }
}

/// The header as it stands in the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    version_major: U16,
    version_minor: U16,
    flags: U32,
    alignment: U16,
    split_index: U16,
    tensor_count: U64,
    metadata_kv_count: U64,
    metadata_offset: U64,
    metadata_size: U64,
    tensor_toc_offset: U64,
    tensor_toc_size: U64,
    tensor_data_offset: U64,
    appendix_offset: U64,
    checksum: U64,
    split_count: U16,
    reserved: [u8; 38],
}

/// The header's fields, all offsets absolute, all sizes in bytes.
///
/// For hosts that cannot hold a whole file this is the first step: it says which ranges to
/// fetch next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// 1 in every file there is.
    pub version_major: u16,
    /// Any value is accepted.
    pub version_minor: u16,
    /// What the writer says of the file.
    pub flags: Flags,
    /// Payload alignment as recorded: 0 stands for 65536, which does not fit the field.
    /// [`Header::payload_alignment`] gives the number.
    pub alignment: u16,
    /// Index of this shard, from 0.
    pub split_index: u16,
    /// Number of shards as recorded; 0 counts as 1.
    pub split_count: u16,
    /// Number of TOC entries.
    pub tensor_count: u64,
    /// Number of metadata pairs.
    pub metadata_kv_count: u64,
    /// Where the metadata stand.
    pub metadata: Span,
    /// Where the table of contents stands.
    pub toc: Span,
    /// Offset of the first aligned payload.
    pub tensor_data_offset: u64,
    /// Offset of the first appendix record, 0 if none.
    pub appendix_offset: u64,
    /// The first 8 bytes of a sealed file's digest, else 0.
    pub checksum: u64,
    /// Reserved bytes; a sealed file's digest stands in the first 32 of them.
    pub reserved: [u8; 38],
}

impl Header {
    /// Reads the header from the first [`HEADER_LEN`] bytes of a file. Offsets and sizes
    /// are as claimed until [`check`](Self::check) has compared them with the file.
    ///
    /// # Errors
    /// Too few bytes, another magic, another major version, or a big-endian file.
    ///
    /// ```
    /// let mut file = [0u8; 128];
    /// file[..4].copy_from_slice(b"HKNT");
    /// file[4] = 1; // version
    /// file[8] = 1; // little-endian
    /// let header = hk_core::Header::parse(&file).unwrap();
    /// assert_eq!(header.tensor_count, 0);
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let mut reader = Reader::new(bytes, Section::Header, 0);
        if !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes) {
            return Err(reader.error(ErrorKind::NotHk));
        }
        let raw: &RawHeader = reader.read()?;
        let major = raw.version_major.get();
        if major != 1 {
            return Err(Error::new(ErrorKind::Version(major), Section::Header, 4));
        }
        let flags = Flags(raw.flags.get());
        if !flags.contains(Flags::LITTLE_ENDIAN) {
            return Err(Error::new(ErrorKind::NotLittleEndian, Section::Header, 8));
        }
        Ok(Header {
            version_major: major,
            version_minor: raw.version_minor.get(),
            flags,
            alignment: raw.alignment.get(),
            split_index: raw.split_index.get(),
            split_count: raw.split_count.get(),
            tensor_count: raw.tensor_count.get(),
            metadata_kv_count: raw.metadata_kv_count.get(),
            metadata: Span { offset: raw.metadata_offset.get(), size: raw.metadata_size.get() },
            toc: Span { offset: raw.tensor_toc_offset.get(), size: raw.tensor_toc_size.get() },
            tensor_data_offset: raw.tensor_data_offset.get(),
            appendix_offset: raw.appendix_offset.get(),
            checksum: raw.checksum.get(),
            reserved: raw.reserved,
        })
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let raw = RawHeader {
            magic: MAGIC,
            version_major: self.version_major.into(),
            version_minor: self.version_minor.into(),
            flags: self.flags.0.into(),
            alignment: self.alignment.into(),
            split_index: self.split_index.into(),
            tensor_count: self.tensor_count.into(),
            metadata_kv_count: self.metadata_kv_count.into(),
            metadata_offset: self.metadata.offset.into(),
            metadata_size: self.metadata.size.into(),
            tensor_toc_offset: self.toc.offset.into(),
            tensor_toc_size: self.toc.size.into(),
            tensor_data_offset: self.tensor_data_offset.into(),
            appendix_offset: self.appendix_offset.into(),
            checksum: self.checksum.into(),
            split_count: self.split_count.into(),
            reserved: self.reserved,
        };
        zerocopy::transmute!(raw)
    }

    /// Compares the sections with the file's length, and the counts with the sections.
    ///
    /// # Errors
    /// A section or the appendix outside the file, more entries than a section can hold,
    /// or more than 2^32 of them.
    pub fn check(&self, file_len: u64) -> Result<(), Error> {
        let section = |span: Span, field: u64| {
            let bad = ErrorKind::SectionOutOfBounds { size: span.size, file: file_len };
            span.within(file_len).then_some(()).ok_or(Error::new(bad, Section::Header, field))
        };
        section(self.metadata, 0x20)?;
        section(self.toc, 0x30)?;
        section(Span { offset: self.appendix_offset, size: 0 }, 0x48)?;
        check_count(self.tensor_count, self.toc.size / TOC_ENTRY_MIN, 0x10)?;
        check_count(self.metadata_kv_count, self.metadata.size / METADATA_ENTRY_MIN, 0x18)
    }

    /// Payload alignment in bytes, 1 to 65536.
    pub const fn payload_alignment(&self) -> u32 {
        if self.alignment == 0 { 65536 } else { self.alignment as u32 }
    }

    /// Number of shards, at least 1.
    pub const fn shards(&self) -> u16 {
        if self.split_count == 0 { 1 } else { self.split_count }
    }

    /// A header for a new file: version 1.0, little-endian, one shard, nothing in it.
    pub const fn empty() -> Header {
        Header {
            version_major: 1,
            version_minor: 0,
            flags: Flags::LITTLE_ENDIAN,
            alignment: 128,
            split_index: 0,
            split_count: 1,
            tensor_count: 0,
            metadata_kv_count: 0,
            metadata: Span { offset: 0, size: 0 },
            toc: Span { offset: 0, size: 0 },
            tensor_data_offset: 0,
            appendix_offset: 0,
            checksum: 0,
            reserved: [0; 38],
        }
    }
}

fn check_count(claimed: u64, possible: u64, field: u64) -> Result<(), Error> {
    let possible = possible.min(u64::from(u32::MAX));
    if claimed > possible {
        let kind = ErrorKind::Count { claimed, possible };
        return Err(Error::new(kind, Section::Header, field));
    }
    Ok(())
}
