//! HK model files on hosts with an operating system: memory maps, threads, backend choice
//! at run time, writing and conversion.
//!
//! - [`ModelFile::open`] maps a file and parses it; `tensor(name)` finds a tensor by hash.
//! - [`backend()`] is the fastest set of kernels that this CPU has.
//! - [`Writer`] writes a file from payloads streamed out of any reader.
//! - [`edit`] changes metadata, appendix and seal where they stand, safe against crashes.
//! - [`convert`] brings other formats to HK.
//! - [`mod@rewrite`] stores the tensors of a model in another way: quantized, pruned, packed.
//!
//! Features, all on by default: `mmap`, `rayon`, `simd`, `cli` (the program `hk`) and what it
//! needs: `bench`, to measure kernels.
#![deny(unsafe_code)]

mod backend;
#[cfg(feature = "bench")]
pub mod bench;
pub mod convert;
pub mod edit;
mod error;
pub mod imatrix;
mod model;
mod parallel;
mod pool;
mod replace;
pub mod rewrite;
pub mod verify;
mod writer;

pub use backend::{backend, backends, kernels};
pub use error::{Error, Result};
pub use hk_core::build::TensorSpec;
pub use model::{Access, ModelFile};
pub use parallel::{par_dequantize, par_dequantize_range, threads};
pub use pool::Pool;
pub use replace::Replacement;
pub use writer::{Progress, Writer};

pub use hk_core;
