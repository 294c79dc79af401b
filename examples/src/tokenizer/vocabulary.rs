//! Tokens and their texts, and the reading of `tokenizer.ggml.*`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hk_core::format::{Numbers, Strings};
use hk_core::{Array, Metadata, Value};

use super::alphabet;
use super::merges::Merge;
use crate::error::{Error, Result};

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";

/// Types of tokens (`token_type`) that differ from ordinary ones.
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Lookups in metadata that name the key when something is wrong.
pub(super) struct Keys<'m, 'a> {
    metadata: &'m Metadata<'a>,
}

impl<'m, 'a> Keys<'m, 'a> {
    pub(super) fn new(metadata: &'m Metadata<'a>) -> Self {
        Keys { metadata }
    }

    fn required(&self, key: &str) -> Result<Value<'a>> {
        self.metadata.get(key).ok_or_else(|| Error::MissingKey(key.into()))
    }

    /// The tokenizer must be of the kind `model`.
    pub(super) fn require_model(&self, model: &'static str) -> Result<()> {
        self.choice(MODEL, &[(model, ())])
    }

    /// What a text value chooses among `choices`.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T> {
        let value = self.required(key)?;
        let Some(text) = value.as_str() else { return Err(wrong_type(key, &value, "a string")) };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            Error::key(key, format!("{text:?} is not known here, only {}", names.join(", ")))
        })
    }

    pub(super) fn optional_bool(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(truth) => Ok(Some(truth)),
            None => Err(wrong_type(key, &value, "a bool")),
        }
    }

    fn strings(&self, key: &str) -> Result<Strings<'a>> {
        let value = self.required(key)?;
        match value.array() {
            Ok(Array::Strings(strings)) => Ok(strings),
            _ => Err(wrong_type(key, &value, "a packed array of strings")),
        }
    }

    fn optional_integers(&self, key: &str) -> Result<Option<Numbers<'a, i32>>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match value.array() {
            Ok(Array::I32(numbers)) => Ok(Some(numbers)),
            _ => Err(wrong_type(key, &value, "a packed array of integers")),
        }
    }
}

fn wrong_type(key: &str, value: &Value<'_>, wanted: &str) -> Error {
    Error::key(key, format!("a {} value where {wanted} is needed", value.tag()))
}

/// Tokens and their texts. Texts stay in the file, in the letters of [`alphabet`].
#[derive(Clone, Debug)]
pub(super) struct Vocabulary<'a> {
    texts: Strings<'a>,
    /// Fewer than tokens, or none: the others are ordinary.
    types: Option<Numbers<'a, i32>>,
    byte_tokens: [Option<u32>; 256],
}

impl<'a> Vocabulary<'a> {
    /// Reads the vocabulary, and the pairs of it that merge.
    pub(super) fn read(keys: &Keys<'_, 'a>) -> Result<(Self, Vec<Merge>)> {
        let texts = keys.strings(TOKENS)?;
        let types = keys.optional_integers(TYPES)?;
        let index = Index::of(texts);
        let merges = index.read_merges(keys)?;
        let mut byte_tokens = [None; 256];
        for (byte, token) in (0..=u8::MAX).zip(&mut byte_tokens) {
            let mut buffer = [0; 4];
            *token = index.id(alphabet::letter(byte).encode_utf8(&mut buffer).as_bytes());
        }
        Ok((Vocabulary { texts, types, byte_tokens }, merges))
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The token that stands for a single byte.
    pub(super) fn byte_token(&self, byte: u8) -> Option<u32> {
        self.byte_tokens[usize::from(byte)]
    }

    /// The bytes of a token: none for a control token.
    pub(super) fn bytes(&self, token: u32) -> Option<Vec<u8>> {
        let index = usize::try_from(token).ok()?;
        let text = self.texts.get(index)?;
        Some(match self.types.and_then(|types| types.get(index)) {
            Some(CONTROL) => Vec::new(),
            Some(USER_DEFINED) => text.to_vec(),
            _ => spelled_out(text),
        })
    }

    /// A token id under `key`, if it is there.
    pub(super) fn read_id(&self, keys: &Keys<'_, 'a>, key: &str) -> Result<Option<u32>> {
        let Some(value) = keys.metadata.get(key) else { return Ok(None) };
        let Some(id) = value.as_i64() else { return Err(wrong_type(key, &value, "an integer")) };
        let known = u32::try_from(id).ok().filter(|&id| (id as usize) < self.len());
        known.map(Some).ok_or_else(|| {
            Error::key(key, format!("{id} is no token: {TOKENS} has {}", self.len()))
        })
    }
}

/// Tokens by text: needed only until merges are read.
struct Index<'a> {
    /// By text, then id.
    sorted: Vec<(&'a [u8], u32)>,
}

impl<'a> Index<'a> {
    fn of(texts: Strings<'a>) -> Self {
        let mut sorted: Vec<_> = texts.iter().zip(0..).collect();
        sorted.sort_unstable();
        Index { sorted }
    }

    /// The token whose text is `text`; of two equal texts, the first.
    fn id(&self, text: &[u8]) -> Option<u32> {
        let at = self.sorted.partition_point(|&(other, _)| other < text);
        self.sorted.get(at).filter(|(found, _)| *found == text).map(|&(_, id)| id)
    }

    /// The pairs that merge, as tokens.
    fn read_merges(&self, keys: &Keys<'_, 'a>) -> Result<Vec<Merge>> {
        let lines = keys.strings(MERGES)?;
        (0..).zip(lines.iter()).map(|(rank, line)| self.read_merge(rank, line)).collect()
    }

    fn read_merge(&self, rank: u32, line: &[u8]) -> Result<Merge> {
        let quoted = || String::from_utf8_lossy(line);
        // A space inside a token is spelled U+0120, so the first one is the separator.
        let Some(space) = line.iter().position(|&byte| byte == b' ') else {
            let problem = format!("merge {rank}, {:?}, has no space between its halves", quoted());
            return Err(Error::key(MERGES, problem));
        };
        let (left, right) = (&line[..space], &line[space + 1..]);
        let id = |text: &[u8]| {
            self.id(text).ok_or_else(|| {
                let text = String::from_utf8_lossy(text);
                let problem = format!(
                    "merge {rank}, {:?}, needs {text:?}, which is not in {TOKENS}",
                    quoted()
                );
                Error::key(MERGES, problem)
            })
        };
        let joined = [left, right].concat();
        Ok(Merge { left: id(left)?, right: id(right)?, rank, joined: id(&joined)? })
    }
}

/// The bytes that the letters of a token's text stand for. What is no such letter stands
/// for itself.
fn spelled_out(text: &[u8]) -> Vec<u8> {
    let Ok(letters) = core::str::from_utf8(text) else { return text.to_vec() };
    let mut bytes = Vec::with_capacity(text.len());
    for letter in letters.chars() {
        match alphabet::byte(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
