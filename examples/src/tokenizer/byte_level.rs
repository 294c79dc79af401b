//! Byte-level byte pair encoding (model `gpt2`).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::alphabet;
use super::keys::Keys;
use super::merges::{Merge, Merges, Word};
use super::vocabulary::Vocabulary;
use super::words::{NAMES, Pre};
use crate::error::{Error, Result, quote};

const MERGES: &str = "tokenizer.ggml.merges";

/// How text becomes tokens: words, then bytes, of which pairs merge.
#[derive(Clone, Debug)]
pub(super) struct ByteLevel {
    pub(super) pre: Pre,
    merges: Merges,
    byte_tokens: [Option<u32>; 256],
}

impl ByteLevel {
    pub(super) fn read(keys: &Keys<'_, '_>, vocabulary: &Vocabulary<'_>) -> Result<Self> {
        let pre = keys.choice("tokenizer.ggml.pre", &NAMES)?;
        let lines = keys.strings(MERGES)?;
        let merges = (0..)
            .zip(lines.iter())
            .map(|(rank, line)| read_merge(vocabulary, rank, line))
            .collect::<Result<_>>()?;
        let mut byte_tokens = [None; 256];
        for (byte, token) in (0..=u8::MAX).zip(&mut byte_tokens) {
            let mut buffer = [0; 4];
            *token = vocabulary.id(alphabet::letter(byte).encode_utf8(&mut buffer).as_bytes());
        }
        Ok(ByteLevel { pre, merges: Merges::new(merges), byte_tokens })
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary<'_>,
        text: &str,
        tokens: &mut Vec<u32>,
    ) -> Result<()> {
        let mut parts = Word::default();
        for word in self.pre.words.words(text) {
            if let Some(token) = self.whole(vocabulary, word) {
                tokens.push(token);
                continue;
            }
            for byte in word.bytes() {
                let token = self.byte_tokens[usize::from(byte)];
                parts.push(token.ok_or(Error::NoTokenForByte(byte))?);
            }
            parts.merge(&self.merges, tokens);
        }
        Ok(())
    }

    /// The token of a whole word, for vocabularies where that goes before all merges.
    fn whole(&self, vocabulary: &Vocabulary<'_>, word: &str) -> Option<u32> {
        if !self.pre.whole_words {
            return None;
        }
        let letters: String = word.bytes().map(alphabet::letter).collect();
        vocabulary.id_of_text(letters.as_bytes())
    }
}

fn read_merge(vocabulary: &Vocabulary<'_>, rank: u32, line: &[u8]) -> Result<Merge> {
    let quoted = |text: &[u8]| quote(&String::from_utf8_lossy(text));
    // A space inside a token is spelled U+0120; a token that begins with a raw one all the
    // same has it before the separator.
    let Some(space) = (1..line.len()).find(|&at| line[at] == b' ') else {
        let problem = format!("merge {rank}, {}, has no space between its halves", quoted(line));
        return Err(Error::key(MERGES, problem));
    };
    let (left, right) = (&line[..space], &line[space + 1..]);
    let id = |text: &[u8]| {
        vocabulary.id(text).ok_or_else(|| {
            let (line, text) = (quoted(line), quoted(text));
            let problem = format!(
                "merge {rank}, {line}, needs {text}, which is not in tokenizer.ggml.tokens"
            );
            Error::key(MERGES, problem)
        })
    };
    let joined = [left, right].concat();
    Ok(Merge { left: id(left)?, right: id(right)?, rank, joined: id(&joined)? })
}

/// The bytes that the letters of a token's text stand for. What is no such letter stands
/// for itself.
pub(super) fn spelled_out(text: &[u8]) -> Vec<u8> {
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
