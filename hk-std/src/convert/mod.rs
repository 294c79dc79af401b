//! Other formats to HK.

pub mod gguf;
