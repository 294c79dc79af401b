//! The demo model, run and spoilt: logits, tokens, errors, and the program itself.

mod errors;
mod logits;
mod model_file;
mod program;
mod sentencepiece;
mod tokens;
