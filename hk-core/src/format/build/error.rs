//! What a file cannot be built of.

use core::fmt;

use crate::error::Part;
use crate::format::ValueType;

/// Why something cannot be put into a file. Its text says what to do instead; the caller
/// knows which key or tensor it speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// An alignment outside 1 to 65536.
    Alignment(u32),
    /// A shard index that is not below the number of shards.
    Shard {
        /// Index given.
        index: u16,
        /// Number of shards given.
        count: u16,
    },
    /// The metadata key is there already.
    DuplicateKey,
    /// A metadata key over 65535 bytes.
    KeyLength(usize),
    /// A metadata value over 2^32 - 1 bytes.
    ValueLength(usize),
    /// A value given as of unknown type, with the tag of a known one.
    KnownTag(ValueType),
    /// A packed array of more elements or text than its 32-bit counts can hold.
    ArrayLength,
    /// The tensor name is there already.
    DuplicateName,
    /// A tensor name over 128 bytes.
    NameLength(usize),
    /// More than 8 dimensions.
    Dimensions(usize),
    /// The product of the dimensions passes 2^64.
    ElementCount,
    /// A payload of another size than type and shape have.
    DataSize {
        /// Bytes that type and shape have.
        expected: u64,
        /// Bytes given.
        given: u64,
    },
    /// A part with fewer bytes than type, shape and block size need.
    PartSize {
        /// Which part.
        part: Part,
        /// Bytes needed at least.
        needed: u64,
        /// Bytes given.
        given: u64,
    },
    /// A dual-mode or split-scale tensor with blocks of no weights.
    BlockSize,
    /// A 2:4 tensor whose element count is no multiple of 4.
    Groups(u64),
    /// A `null_ref` with bytes.
    NullWithBytes(Part),
    /// A `shared_ref` given as a tensor of its own.
    SharedWithoutTarget,
    /// The target of a `shared_ref` is no tensor before it.
    NoTarget,
    /// The target of a `shared_ref` is itself a reference.
    TargetIsReference,
    /// A `shared_ref` of another element count than its target.
    SharedCount {
        /// Elements of the target.
        target: u64,
        /// Elements given.
        given: u64,
    },
    /// An empty target that readers could not tell from another empty tensor.
    AmbiguousTarget,
    /// More than 2^32 - 1 tensors or metadata pairs.
    TooMany,
    /// Offsets would pass 2^64.
    TooLarge,
}

impl core::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BuildError::Alignment(given) => {
                write!(f, "an alignment of {given} bytes: use 1 to 65536")
            }
            BuildError::Shard { index, count } => write!(
                f,
                "shard {index} of {count}: shards are counted from 0, so the index must be below their number"
            ),
            BuildError::DuplicateKey => f.write_str("this metadata key is there already: use each key once"),
            BuildError::KeyLength(length) => {
                write!(f, "a metadata key of {length} bytes: at most 65535 fit")
            }
            BuildError::ValueLength(length) => {
                write!(f, "a metadata value of {length} bytes: at most 4294967295 fit")
            }
            BuildError::KnownTag(tag) => write!(
                f,
                "raw bytes under the tag {tag}: give the value as one of that type"
            ),
            BuildError::ArrayLength => f.write_str(
                "a packed array counts elements and bytes with 32 bits, and this one has more: split it",
            ),
            BuildError::DuplicateName => f.write_str("this tensor name is there already: use each name once"),
            BuildError::NameLength(length) => {
                write!(f, "a tensor name of {length} bytes: at most 128 are allowed")
            }
            BuildError::Dimensions(ndim) => {
                write!(f, "a tensor of {ndim} dimensions: at most 8 are allowed")
            }
            BuildError::ElementCount => f.write_str("the product of the dimensions passes 2^64"),
            BuildError::DataSize { expected, given } => write!(
                f,
                "a payload of {given} bytes, where type and shape make {expected}"
            ),
            BuildError::PartSize { part, needed, given } => write!(
                f,
                "{part} of {given} bytes where type, shape and block size need {needed}: give the size that will be written"
            ),
            BuildError::BlockSize => {
                f.write_str("a block size of 0: blocks hold at least one weight")
            }
            BuildError::Groups(count) => {
                write!(f, "{count} elements, which 2:4 sparsity cannot group by 4: store it another way")
            }
            BuildError::NullWithBytes(part) => {
                write!(f, "a null_ref stores no bytes, but a size of {part} is given: set it to 0")
            }
            BuildError::SharedWithoutTarget => {
                f.write_str("a shared_ref needs the name of the tensor whose bytes it shares")
            }
            BuildError::NoTarget => f.write_str(
                "the tensor whose bytes a shared_ref shares is not there yet: add it first",
            ),
            BuildError::TargetIsReference => f.write_str(
                "a shared_ref cannot share the bytes of a reference: name the tensor that stores them",
            ),
            BuildError::SharedCount { target, given } => write!(
                f,
                "a shared_ref of {given} elements over a tensor of {target}: both need as many"
            ),
            BuildError::AmbiguousTarget => f.write_str(
                "a shared_ref to a tensor without bytes cannot be told from one to the empty tensor before it: store it as a tensor of its own",
            ),
            BuildError::TooMany => f.write_str("more than 4294967295 entries: split the file"),
            BuildError::TooLarge => f.write_str("the file's offsets would pass 2^64: split the file"),
        }
    }
}
