//! SentencePiece byte pair encoding (model `llama`): characters merge to the tokens of
//! the highest scores.

use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use super::keys::Keys;
use super::vocabulary::{Kind, Vocabulary};
use crate::error::{Error, Result};

const SCORES: &str = "tokenizer.ggml.scores";

/// What stands for a space in the texts of tokens, U+2581.
const SPACE: &str = "\u{2581}";

/// How text becomes tokens.
#[derive(Clone, Debug)]
pub(super) struct SentencePiece {
    /// One a token.
    scores: Vec<f32>,
    /// Tokens `<0x00>` to `<0xFF>`, for characters that have none of their own.
    byte_tokens: [Option<u32>; 256],
    unknown: Option<u32>,
    /// Whether a space goes before text at the start.
    pub(super) space_prefix: bool,
}

impl SentencePiece {
    pub(super) fn read(
        keys: &Keys<'_, '_>,
        vocabulary: &Vocabulary<'_>,
        unknown: Option<u32>,
    ) -> Result<Self> {
        let scores =
            keys.optional_numbers(SCORES)?.ok_or_else(|| Error::MissingKey(SCORES.into()))?;
        let (have, need) = (scores.len(), vocabulary.len());
        if have < need {
            let problem =
                format!("{have} scores for {need} tokens: convert the model again from its source");
            return Err(Error::key(SCORES, problem));
        }
        // Adding 0 makes -0 equal to 0 in the order of scores.
        let score = |index| scores.get(index).map_or(0.0, |score| score as f32 + 0.0);
        let scores = (0..need).map(score).collect();
        let mut byte_tokens = [None; 256];
        for (byte, token) in (0..=u8::MAX).zip(&mut byte_tokens) {
            *token = vocabulary.id(format!("<0x{byte:02X}>").as_bytes());
        }
        let space_prefix = keys.optional_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        Ok(SentencePiece { scores, byte_tokens, unknown, space_prefix })
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary<'_>,
        text: &str,
        tokens: &mut Vec<u32>,
    ) -> Result<()> {
        let text = text.replace(' ', SPACE);
        let mut after_unknown = false;
        for piece in pieces(&text, |text| {
            let token = vocabulary.id_of_text(text.as_bytes())?;
            self.scores.get(token as usize).copied()
        }) {
            if let Some(token) = vocabulary.id_of_text(piece.as_bytes()) {
                tokens.push(token);
                after_unknown = false;
            } else if let Some(bytes) = self.bytes_of(piece) {
                tokens.extend(bytes);
                after_unknown = false;
            } else {
                // One unknown token stands for all the characters in a row that have none.
                let byte = piece.bytes().next().unwrap_or(0);
                let unknown = self.unknown.ok_or(Error::NoTokenForByte(byte))?;
                tokens.extend((!after_unknown).then_some(unknown));
                after_unknown = true;
            }
        }
        Ok(())
    }

    /// The byte tokens of a character, if there are all of them.
    fn bytes_of(&self, piece: &str) -> Option<Vec<u32>> {
        piece.bytes().map(|byte| self.byte_tokens[usize::from(byte)]).collect()
    }
}

/// The bytes that `token` with this text stands for.
pub(super) fn bytes(vocabulary: &Vocabulary<'_>, token: u32, text: &[u8]) -> Vec<u8> {
    let may_be_byte = vocabulary.kind(token) == Kind::Byte || !vocabulary.has_type(token);
    match (byte_of(text).filter(|_| may_be_byte), core::str::from_utf8(text)) {
        (Some(byte), _) => [byte].to_vec(),
        (None, Ok(text)) => spelled_out(text).into_bytes(),
        (None, Err(_)) => text.to_vec(),
    }
}

/// The text that a token's text stands for.
pub(super) fn spelled_out(text: &str) -> String {
    text.replace(SPACE, " ")
}

/// The byte that `<0x0A>` and the like name.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let [high, low] = <[u8; 2]>::try_from(digits).ok()?;
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A pair of neighbours that may merge.
struct Pair {
    score: f32,
    left: usize,
    /// Length of both in bytes: if it is another by then, they have merged with others.
    len: usize,
}

impl Pair {
    /// Highest score first, then leftmost.
    fn order(&self) -> (Reverse<usize>, usize) {
        (Reverse(self.left), self.len)
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.order().cmp(&other.order()))
    }
}

/// A piece of the text by its place, and those beside it.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    /// 0 for one that was merged into the one on its left.
    len: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Cuts `text` into characters and merges neighbours for whose joint text `score` has an
/// answer, the highest first, until none is left.
fn pieces(text: &str, score: impl Fn(&str) -> Option<f32>) -> impl Iterator<Item = &str> {
    let mut merging = Merging { text, score, parts: Vec::new(), waiting: BinaryHeap::new() };
    for (at, (start, c)) in text.char_indices().enumerate() {
        let next = (start + c.len_utf8() < text.len()).then_some(at + 1);
        merging.parts.push(Part { start, len: c.len_utf8(), previous: at.checked_sub(1), next });
    }
    for left in 0..merging.parts.len() {
        merging.consider(left);
    }
    while let Some(pair) = merging.waiting.pop() {
        merging.apply(&pair);
    }
    let parts = merging.parts.into_iter().filter(|part| part.len > 0);
    parts.filter_map(move |part| text.get(part.start..part.start + part.len))
}

struct Merging<'t, S> {
    text: &'t str,
    score: S,
    parts: Vec<Part>,
    waiting: BinaryHeap<Pair>,
}

impl<S: Fn(&str) -> Option<f32>> Merging<'_, S> {
    /// Lets the part at `left` and the next one wait, if they merge.
    fn consider(&mut self, left: usize) {
        let part = self.parts[left];
        let Some(right) = part.next else { return };
        let len = part.len + self.parts[right].len;
        let joint = self.text.get(part.start..part.start + len);
        if let Some(score) = joint.and_then(|joint| (self.score)(joint)) {
            self.waiting.push(Pair { score, left, len });
        }
    }

    /// Merges a pair, unless either has changed meanwhile.
    fn apply(&mut self, pair: &Pair) {
        let part = self.parts[pair.left];
        let Some(right) = part.next.filter(|_| part.len > 0) else { return };
        if part.len + self.parts[right].len != pair.len {
            return;
        }
        let next = self.parts[right].next;
        self.parts[right].len = 0;
        self.parts[pair.left].len = pair.len;
        self.parts[pair.left].next = next;
        if let Some(next) = next {
            self.parts[next].previous = Some(pair.left);
        }
        self.consider(pair.left);
        if let Some(previous) = part.previous {
            self.consider(previous);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec;

    use super::*;

    /// Merges by definition: again and again the pair of the highest score, the leftmost.
    fn by_definition<'t>(text: &'t str, scores: &BTreeMap<&str, f32>) -> Vec<&'t str> {
        let mut cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        cuts.push(text.len());
        loop {
            let pairs = (1..cuts.len().saturating_sub(1)).filter_map(|at| {
                Some((*scores.get(&text[cuts[at - 1]..cuts[at + 1]])?, Reverse(at)))
            });
            let best = pairs.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let Some((_, Reverse(at))) = best else { break };
            cuts.remove(at);
        }
        cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect()
    }

    #[test]
    fn merges_as_defined() {
        let list = ["ab", "bb", "ba", "abb", "bbb", "bbbb", "ac", "acab", "é", "éa", "aé"];
        let scores: BTreeMap<&str, f32> = list
            .into_iter()
            .zip([-3.0, -1.0, -3.0, -2.0, -7.0, -5.0, -3.0, -4.0, -1.0, -2.0, -2.0])
            .collect();
        for code in 0..4_usize.pow(7) {
            let text: String =
                (0..7).map(|i| ["a", "b", "c", "é"][code / 4_usize.pow(i) % 4]).collect();
            let merged: Vec<&str> = pieces(&text, |text| scores.get(text).copied()).collect();
            assert_eq!(merged, by_definition(&text, &scores), "{text}");
        }
        assert_eq!(pieces("", |_| Some(0.0)).count(), 0);
        assert_eq!(pieces("xyz", |_| Some(f32::NAN)).collect::<Vec<_>>(), vec!["xyz"]);
    }

    #[test]
    fn byte_tokens_are_known_by_their_text() {
        assert_eq!(byte_of(b"<0x0A>"), Some(10));
        assert_eq!(byte_of(b"<0xff>"), Some(255));
        for bad in ["<0x>", "<0x0AA>", "0x0A", "<0x+1>", "<0xé>", "<0x0g>"] {
            assert_eq!(byte_of(bad.as_bytes()), None, "{bad}");
        }
    }
}
