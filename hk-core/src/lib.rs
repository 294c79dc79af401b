//! HK model files over `&[u8]`: parse, list, dequantize and multiply tensors, on any host.
//!
//! Bytes in, numbers out. This crate needs no operating system, no allocator and no
//! `unsafe`; it panics on no input, and it gives the same bits on every host. Memory maps,
//! threads, writing and vector kernels live in the crates built on it.
//!
//! - [`Hk::parse`] checks a whole file once, without touching a payload; after it has
//!   succeeded, walking header, metadata and tensors cannot fail.
//! - A host that cannot hold the file reads it in pieces: [`format::walk`] has the example.
//! - [`Tensor::dequantize_into`] and [`Tensor::dequantize_range`] turn a tensor into `f32`:
//!   elements, blocks, codes with scales beside them, sparse payloads, tiles; a
//!   [`Form`](decode::Form) says which.
//! - [`Backend`] is what a set of kernels can do; [`Portable`] is the one that runs anywhere.
//! - [`dequantize_blocks`] decodes one known block type and links nothing else.
//! - [`encode`] is the way back: rows of `f32` to blocks.
//!
//! Features, all on by default, choose the block families that are linked: `k-quants`,
//! `i-quants`, `ternary` and `fp4`. The legacy blocks and dense types are always there. `alloc`, off by
//! default, adds owning builders for writers (`build`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod attention;
pub mod backend;
pub mod blocks;
mod bytes;
pub mod decode;
pub mod dot;
pub mod encode;
mod error;
pub mod format;
mod storage;
pub mod vector;

pub use backend::{Backend, Portable};
pub use blocks::{Block, dequantize_blocks};
pub use decode::Residual;
pub use dot::Activation;
pub use encode::Encode;
pub use error::{Error, ErrorKind, Part, RecordFault, Section, SparseFault};
#[cfg(feature = "alloc")]
pub use format::build;
pub use format::{
    Array, Flags, Header, Hk, Metadata, MetadataEntry, MetadataHead, Outline, Shape, Span, Tensor,
    TensorEntry, Tensors, Toc, Value, ValueType,
};
pub use storage::{Geometry, SparsityType, StorageType, TileLayout};
