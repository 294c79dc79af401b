//! What the examples share: a Llama model over the tensors of an HK file, a tokenizer
//! from its metadata, and what turns the two into text.
//!
//! It needs an allocator but no operating system, and takes no float function from the
//! host, so that a model says the same on a server and on a microcontroller.
//!
//! - [`Hyperparameters`] and [`Model`] read a file and check it: what is missing or has
//!   another shape is an error that names the key or tensor.
//! - [`Engine`] runs the model: weights multiplied as they are stored, prompts many tokens
//!   at a time, on all threads.
//! - [`Reference`] runs the model in plain `f32`, one token at a time.
//! - [`Tokenizer`] turns text into tokens and back; [`TextStream`] puts the bytes of
//!   tokens together to whole characters.
//! - [`greedy`] and [`Sampler`] pick the next token.
//!
//! ```no_run
//! # fn main() -> Result<(), hk_examples::Error> {
//! # let file: &[u8] = &[];
//! use hk_examples::{Engine, Model, Serial, Tokenizer, greedy};
//!
//! let hk = hk_core::Hk::parse(file)?;
//! let model = Model::read(&hk)?;
//! let tokenizer = Tokenizer::read(&hk.metadata())?;
//! let mut engine = Engine::new(&model, &hk_core::Portable, &Serial)?;
//! engine.read(&tokenizer.encode_prompt("Once upon a time")?)?;
//! let next = greedy(engine.logits()?)?;
//! # Ok(())
//! # }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(feature = "chat")]
mod chat;
mod engine;
mod error;
mod hyperparameters;
mod math;
mod model;
mod reference;
mod rows;
mod sampling;
mod text;
mod tokenizer;

#[cfg(feature = "chat")]
pub use chat::{ChatTemplate, Message, Role};
pub use engine::{Engine, Part, Probe, Task, Threads};
pub use error::{Error, Result};
pub use hyperparameters::{Architecture, Hyperparameters};
pub use model::{Layer, Matrix, Model, Vector};
pub use reference::Reference;
pub use rows::{Rows, Serial};
pub use sampling::{Sampler, Sampling, greedy};
pub use text::TextStream;
pub use tokenizer::{PreTokenizer, Tokenizer};
