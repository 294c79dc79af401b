//! Byte-level byte pair encoding, from a file's metadata.

mod alphabet;
mod merges;
mod vocabulary;
mod words;

use alloc::string::String;
use alloc::vec::Vec;

use hk_core::Metadata;

use crate::error::{Error, Result};
use crate::text::TextStream;
use merges::{Merges, Word};
use vocabulary::{Keys, Vocabulary};
pub use words::PreTokenizer;

/// Turns text into tokens and back, with vocabulary and merges from the file
/// (`tokenizer.ggml.*`, model `gpt2`).
///
/// Text is taken as it stands: what looks like a special token in it is text.
#[derive(Clone, Debug)]
pub struct Tokenizer<'a> {
    vocabulary: Vocabulary<'a>,
    merges: Merges,
    pre: PreTokenizer,
    begin: Option<u32>,
    end: Option<u32>,
    adds_begin: bool,
}

impl<'a> Tokenizer<'a> {
    /// Reads the tokenizer of a file.
    ///
    /// # Errors
    /// A key that is missing, of another type, or with a value that fits the others not;
    /// a tokenizer or pre-tokenizer that is not known here. Each names the key.
    pub fn read(metadata: &Metadata<'a>) -> Result<Self> {
        let keys = Keys::new(metadata);
        keys.require_model("gpt2")?;
        let pre = keys.choice("tokenizer.ggml.pre", &PreTokenizer::NAMES)?;
        let (vocabulary, merges) = Vocabulary::read(&keys)?;
        let merges = Merges::new(merges);
        let begin = vocabulary.read_id(&keys, "tokenizer.ggml.bos_token_id")?;
        let adds_begin = keys.optional_bool("tokenizer.ggml.add_bos_token")?.unwrap_or(false);
        if adds_begin && begin.is_none() {
            return Err(Error::MissingKey("tokenizer.ggml.bos_token_id".into()));
        }
        let end = vocabulary.read_id(&keys, "tokenizer.ggml.eos_token_id")?;
        Ok(Tokenizer { vocabulary, merges, pre, begin, end, adds_begin })
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How text is split into words.
    pub const fn pre_tokenizer(&self) -> PreTokenizer {
        self.pre
    }

    /// The token that begins a text (`bos_token_id`).
    pub const fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The token that ends a text (`eos_token_id`).
    pub const fn end(&self) -> Option<u32> {
        self.end
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`Error::NoTokenForByte`]: some vocabularies lack control characters.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        self.encode_to(text, &mut tokens)?;
        Ok(tokens)
    }

    /// The tokens of `text` as a model wants them at the start: after the token that
    /// begins a text, where the file asks for it (`add_bos_token`). A text of no tokens
    /// gets it too where there is one, for a model needs a token to go on from.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        if self.adds_begin || text.is_empty() {
            tokens.extend(self.begin);
        }
        self.encode_to(text, &mut tokens)?;
        Ok(tokens)
    }

    fn encode_to(&self, text: &str, tokens: &mut Vec<u32>) -> Result<()> {
        let mut parts = Word::default();
        for word in self.pre.words(text) {
            for byte in word.bytes() {
                let token = self.vocabulary.byte_token(byte);
                parts.push(token.ok_or(Error::NoTokenForByte(byte))?);
            }
            parts.merge(&self.merges, tokens);
        }
        Ok(())
    }

    /// The bytes that `token` stands for, which need be no whole characters: none for
    /// control tokens such as the one that ends a text.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn bytes(&self, token: u32) -> Result<Vec<u8>> {
        if self.begin == Some(token) || self.end == Some(token) {
            return Ok(Vec::new());
        }
        let error = Error::Token { token, vocabulary: self.len() };
        self.vocabulary.bytes(token).ok_or(error)
    }

    /// The text of `tokens`. Bytes that make no character become U+FFFD.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        let mut stream = TextStream::default();
        let mut text = String::new();
        for &token in tokens {
            text.push_str(&stream.push(&self.bytes(token)?));
        }
        text.push_str(&stream.finish());
        Ok(text)
    }
}
