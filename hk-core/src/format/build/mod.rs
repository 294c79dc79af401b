//! Owning builders for hosts that have an allocator (feature `alloc`): metadata, packed
//! arrays, table of contents, and the plan of a whole file.
//!
//! [`FileBuilder`] collects what a file shall hold; its [`plan`](FileBuilder::plan) says
//! what stands where, so that a writer only has to stream payloads to the offsets it names.

mod encode;
mod error;
mod plan;
mod spec;

pub use encode::{MetadataBuilder, encode_entry, pack_f32, pack_i32, pack_strings};
pub use error::BuildError;
pub use plan::{FileBuilder, FilePlan, PlannedPart};
pub use spec::TensorSpec;
