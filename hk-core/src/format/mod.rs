//! The container: header, metadata, table of contents, appendix and seal
//! (format-specification.md).

pub mod appendix;
mod arrays;
#[cfg(feature = "alloc")]
pub mod build;
mod file;
mod header;
mod metadata;
pub mod seal;
mod toc;
pub mod walk;

pub use arrays::{Array, ArrayHead, ArrayKind, Numbers, Strings};
pub use file::{Hk, Outline, Tensor, Tensors};
pub use header::{Flags, HEADER_LEN, Header, MAGIC};
pub use metadata::{Metadata, MetadataEntries, MetadataEntry, MetadataHead, Value, ValueType};
pub use toc::{MAX_DIMENSIONS, MAX_NAME_LEN, Shape, Span, TensorEntry, Toc, TocEntries};
pub use walk::{MetadataWalk, TocWalk, ValueAt};
