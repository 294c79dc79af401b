//! The demo model, run and spoilt: logits, tokens, errors, and the program itself.

mod chat;
mod compare;
mod engine;
mod errors;
mod logits;
mod model_file;
mod program;
mod random;
mod sentencepiece;
mod tokens;
