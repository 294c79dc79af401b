//! What can be wrong with a file or a request, and where.

mod sparse;

use core::fmt;

pub use sparse::SparseFault;

use crate::storage::{SparsityType, StorageType, TileLayout};

/// The part of a file an [`Error`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Section {
    /// The fixed 128 bytes at the start of the file.
    Header,
    /// The metadata key/value section.
    Metadata,
    /// The tensor table of contents.
    Toc,
    /// The bytes of a tensor.
    Payload,
    /// The records after the payloads.
    Appendix,
    /// An argument of the call, not the file.
    Call,
}

/// Which of a tensor's byte ranges an [`ErrorKind`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The payload itself.
    Data,
    /// The scales beside it.
    Scales,
    /// The residual stream beside it.
    Residual,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file does not start with `HKNT`.
    NotHk,
    /// The file's major version is not 1.
    Version(u16),
    /// Flag bit 0 is clear: the file says it is not little-endian.
    NotLittleEndian,
    /// Fewer bytes are there than the structure needs.
    Truncated {
        /// Bytes needed at that offset.
        needed: u64,
        /// Bytes that are there.
        available: u64,
    },
    /// A section lies outside the file.
    SectionOutOfBounds {
        /// Size that the header claims, in bytes.
        size: u64,
        /// Length of the file in bytes.
        file: u64,
    },
    /// More entries are claimed than the section could hold.
    Count {
        /// Entries claimed.
        claimed: u64,
        /// The most that fit into the section.
        possible: u64,
    },
    /// Text is not UTF-8.
    Text,
    /// A metadata value's length does not fit its type.
    ValueLength {
        /// The type tag.
        tag: u8,
        /// The length in bytes that stands in the file.
        length: u32,
    },
    /// A packed array's structure is broken.
    Array,
    /// A tensor name is over 128 bytes.
    NameLength(u16),
    /// A tensor has more than 8 dimensions.
    Dimensions(u8),
    /// The product of a tensor's dimensions passes 2^64.
    ElementCount,
    /// A tensor's byte range passes the end of the file.
    OutOfBounds {
        /// Which range.
        part: Part,
        /// Its size in bytes.
        size: u64,
        /// Length of the file in bytes.
        file: u64,
    },
    /// A tensor's bytes are fewer than its shape and type need.
    TooShort {
        /// Which range.
        part: Part,
        /// Bytes needed.
        needed: u64,
        /// Bytes there.
        available: u64,
    },
    /// A tensor of one storage type was read as another, or is not stored plainly.
    StorageType {
        /// The type it was read as.
        asked: StorageType,
        /// The type it has.
        found: StorageType,
    },
    /// No decoder exists for this storage type here.
    Undecodable(StorageType),
    /// The block family of this storage type was left out of this build.
    NotBuiltIn(StorageType),
    /// No decoder exists for this tile layout on this storage type.
    TileLayout(StorageType, TileLayout),
    /// No decoder exists for this sparsity type on this storage type.
    Sparsity(StorageType, SparsityType),
    /// A block size of 0 weights, of a type whose blocks are as long as the file says.
    BlockSize(StorageType),
    /// The content of a sparse payload makes no sense.
    Sparse(SparseFault),
    /// Elements of a tensor that is stored in this way are in no one run of bytes.
    Scattered(StorageType),
    /// A `shared_ref` whose offsets match no earlier tensor.
    DanglingReference,
    /// The storage type has no dot product.
    NoDotProduct(StorageType),
    /// An appendix record is broken.
    Record(RecordFault),
    /// An output slice has the wrong length.
    OutputLength {
        /// Elements expected.
        expected: u64,
        /// Elements given.
        given: u64,
    },
    /// A range of elements passes the end of the tensor, or ends before it starts.
    Range {
        /// First element asked for.
        start: u64,
        /// One past the last element asked for.
        end: u64,
        /// Elements there are.
        count: u64,
    },
    /// An activation row does not fit the weight rows it is multiplied with.
    Activation {
        /// Weights in the activation row.
        activation: u64,
        /// Weights in a weight row, or the multiple the type needs.
        weights: u64,
    },
    /// An activation row is not in the form that weights of this type are multiplied with.
    ActivationForm(StorageType),
    /// No encoder exists for this storage type.
    NotEncodable(StorageType),
    /// A weight to encode is NaN or infinite.
    NotFinite {
        /// Which one.
        index: u64,
    },
    /// A group of four weights to pack as 2:4 has more than two that are not zero.
    NotTwoOfFour {
        /// The first weight of the group.
        index: u64,
    },
    /// A weight to encode is larger than any that the type can hold.
    TooLarge {
        /// The type it was to be encoded as.
        storage: StorageType,
        /// Which weight.
        index: u64,
    },
    /// Rows to encode do not divide into blocks, or weights not into rows.
    RowLength {
        /// Weights in a row, or in all of them.
        weights: u64,
        /// What they must be a multiple of.
        multiple: u64,
    },
    /// Importance weights are not one a column.
    ImportanceLength {
        /// Columns there are.
        columns: u64,
        /// Importance weights given.
        given: u64,
    },
    /// An importance weight is negative, NaN or infinite.
    Importance {
        /// Its column.
        column: u64,
    },
    /// A buffer for encoded weights has the wrong length.
    EncodedLength {
        /// Bytes expected.
        expected: u64,
        /// Bytes given.
        given: u64,
    },
    /// Something must be held in memory at once and does not fit the address space.
    AddressSpace(u64),
}

/// What is wrong with an appendix record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordFault {
    /// The file ends inside it.
    CutShort,
    /// Its type is 0.
    ZeroType,
    /// Its name or target is not UTF-8.
    Text,
    /// Its `parent_hash` is not that of the record before it.
    Parent,
    /// Its data does not have the CRC-32 that it states.
    Crc {
        /// What the record states.
        stated: u32,
        /// What its data has.
        found: u32,
    },
}

/// What is wrong, in which section, at which byte, in which tensor or entry.
///
/// Its text says what happened, where, and what to do about it.
///
/// ```
/// let error = hk_core::Hk::parse(b"GGUF....").unwrap_err();
/// assert_eq!(error.kind(), hk_core::ErrorKind::NotHk);
/// assert!(error.to_string().contains("not an HK file"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    section: Section,
    offset: u64,
    index: Option<u32>,
}

impl Error {
    /// An error at absolute byte `offset` of `section`.
    pub const fn new(kind: ErrorKind, section: Section, offset: u64) -> Self {
        Error { kind, section, offset, index: None }
    }

    /// An error in the arguments of a call.
    pub const fn call(kind: ErrorKind) -> Self {
        Error::new(kind, Section::Call, 0)
    }

    /// The same error, as one of entry `index` (a tensor, metadata pair or record).
    #[must_use]
    pub const fn at_index(mut self, index: u32) -> Self {
        self.index = Some(index);
        self
    }

    /// The same error, `base` bytes further into the file: for a section that was
    /// parsed from a slice of its own.
    #[must_use]
    pub(crate) const fn moved_by(mut self, base: u64) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }

    /// What is wrong.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where it is wrong.
    pub const fn section(&self) -> Section {
        self.section
    }

    /// Absolute byte offset in the file; from the start of the slice when a section was
    /// parsed on its own.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Index of the tensor, metadata pair or appendix record, counted from 0.
    pub const fn index(&self) -> Option<u32> {
        self.index
    }
}

impl core::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        let entry = match self.section {
            Section::Call => {
                return match self.index {
                    Some(index) => write!(f, " (tensor {index})"),
                    None => Ok(()),
                };
            }
            Section::Header => {
                return write!(f, " (header, byte {})", self.offset);
            }
            Section::Metadata => {
                write!(f, " (metadata, byte {}", self.offset)?;
                "entry"
            }
            Section::Toc => {
                write!(f, " (table of contents, byte {}", self.offset)?;
                "tensor"
            }
            Section::Payload => {
                write!(f, " (payload, byte {}", self.offset)?;
                "tensor"
            }
            Section::Appendix => {
                write!(f, " (appendix, byte {}", self.offset)?;
                "record"
            }
        };
        match self.index {
            Some(index) => write!(f, ", {entry} {index})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Data => "data",
            Part::Scales => "scales",
            Part::Residual => "residual",
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAMAGED: &str = "the file is damaged or cut short: fetch or write it again";
        match *self {
            ErrorKind::NotHk => f.write_str(
                "not an HK file: it does not start with \"HKNT\" (a GGUF file becomes one with `hk convert`)",
            ),
            ErrorKind::Version(major) => write!(
                f,
                "HK version {major} is not known here, only version 1: use a newer release of this program"
            ),
            ErrorKind::NotLittleEndian => {
                f.write_str("the LITTLE_ENDIAN flag is clear; only little-endian HK files exist: write the file again")
            }
            ErrorKind::Truncated { needed, available } => {
                write!(f, "{needed} bytes needed, {available} there; {DAMAGED}")
            }
            ErrorKind::SectionOutOfBounds { size, file } => write!(
                f,
                "a section of {size} bytes passes the end of the file of {file} bytes; {DAMAGED}"
            ),
            ErrorKind::Count { claimed, possible } => write!(
                f,
                "{claimed} entries claimed where at most {possible} fit; {DAMAGED}"
            ),
            ErrorKind::Text => f.write_str("text is not UTF-8: write the file again with UTF-8 names and values"),
            ErrorKind::ValueLength { tag, length } => write!(
                f,
                "a value of type {tag:#04x} cannot be {length} bytes long; {DAMAGED}"
            ),
            ErrorKind::Array => f.write_str("the offsets or counts of a packed array do not fit its length: write the value again"),
            ErrorKind::NameLength(length) => {
                write!(f, "a tensor name of {length} bytes, at most 128 allowed; {DAMAGED}")
            }
            ErrorKind::Dimensions(ndim) => {
                write!(f, "a tensor of {ndim} dimensions, at most 8 allowed; {DAMAGED}")
            }
            ErrorKind::ElementCount => {
                write!(f, "the product of the dimensions passes 2^64; {DAMAGED}")
            }
            ErrorKind::OutOfBounds { part, size, file } => write!(
                f,
                "{part} of {size} bytes pass the end of the file of {file} bytes; {DAMAGED}"
            ),
            ErrorKind::TooShort { part, needed, available } => write!(
                f,
                "{part} of {available} bytes where the shape needs {needed}; {DAMAGED}"
            ),
            ErrorKind::StorageType { asked, found } if asked == found => {
                write!(f, "{found} here is not stored as plain blocks: decode it with a backend")
            }
            ErrorKind::StorageType { asked, found } => {
                write!(f, "the tensor is {found}, not {asked}: decode it as what it is")
            }
            ErrorKind::Undecodable(storage) => write!(
                f,
                "{storage} has no decoder here; its bytes can still be read as they are"
            ),
            ErrorKind::NotBuiltIn(storage) => write!(
                f,
                "{storage} was left out of this build: turn on its block family's feature of hk-core"
            ),
            ErrorKind::TileLayout(storage, tile) => write!(
                f,
                "tile layout {tile} on {storage} has no decoder here; its bytes can still be read as they are"
            ),
            ErrorKind::Sparsity(storage, sparsity) => write!(
                f,
                "sparsity {sparsity} on {storage} has no decoder here; its bytes can still be read as they are"
            ),
            ErrorKind::BlockSize(storage) => {
                write!(f, "block_size is 0, which {storage} cannot have; {DAMAGED}")
            }
            ErrorKind::Sparse(fault) => write!(f, "{fault}"),
            ErrorKind::Scattered(storage) => write!(
                f,
                "elements of {storage} stored like this are in no one run of bytes: fetch the whole payload, scales and residual, and decode a range of them"
            ),
            ErrorKind::DanglingReference => f.write_str(
                "a shared_ref whose offset and size match no earlier tensor: write the file again with its target before it",
            ),
            ErrorKind::NoDotProduct(storage) => {
                write!(f, "{storage} has no dot product: convert the tensor to a type that has one")
            }
            ErrorKind::Record(fault) => write!(f, "{fault}"),
            ErrorKind::OutputLength { expected, given } => {
                write!(f, "an output of {given} elements where {expected} are needed")
            }
            ErrorKind::Range { start, end, count } => {
                write!(f, "elements {start}..{end} asked of a tensor of {count}")
            }
            ErrorKind::Activation { activation, weights } => write!(
                f,
                "an activation row of {activation} does not fit weight rows of {weights}"
            ),
            ErrorKind::ActivationForm(storage) => write!(
                f,
                "an activation row in another form than {storage} needs: quantize it for {storage}"
            ),
            ErrorKind::NotEncodable(storage) => {
                write!(f, "{storage} has no encoder: choose another type to quantize to")
            }
            ErrorKind::NotFinite { index } => write!(
                f,
                "weight {index} is NaN or infinite, which cannot be encoded: look into where the weights come from"
            ),
            ErrorKind::NotTwoOfFour { index } => write!(
                f,
                "of the four weights from {index} on more than two are not zero: prune to 2:4 first"
            ),
            ErrorKind::TooLarge { storage, index } => write!(
                f,
                "weight {index} is too large for {storage}: keep the tensor in a type of wider range, such as bf16"
            ),
            ErrorKind::RowLength { weights, multiple } => write!(
                f,
                "{weights} weights are no multiple of {multiple}: choose a type with smaller blocks"
            ),
            ErrorKind::ImportanceLength { columns, given } => {
                write!(f, "{given} importance weights for {columns} columns: give one a column")
            }
            ErrorKind::Importance { column } => write!(
                f,
                "the importance weight of column {column} is negative, NaN or infinite: give a finite one"
            ),
            ErrorKind::EncodedLength { expected, given } => {
                write!(f, "a buffer of {given} bytes where encoding takes {expected}")
            }
            ErrorKind::AddressSpace(size) => write!(
                f,
                "{size} bytes do not fit this host's address space: read the tensor in ranges"
            ),
        }
    }
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RecordFault::CutShort => f.write_str(
                "the file ends inside this record: the append was interrupted; the records before it are whole",
            ),
            RecordFault::ZeroType => f.write_str(
                "a record of type 0: the appendix is damaged from here on; the records before it are whole",
            ),
            RecordFault::Text => f.write_str("a record's name or target is not UTF-8"),
            RecordFault::Parent => f.write_str(
                "parent_hash is not the hash of the record before it: one of the two was changed",
            ),
            RecordFault::Crc { stated, found } => write!(
                f,
                "a record's data has CRC-32 {found:08x} where {stated:08x} is stated: the record is damaged"
            ),
        }
    }
}
