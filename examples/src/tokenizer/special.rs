//! Tokens that are found in text as they are spelled, before all else: those that the
//! model defines so, and, where that is asked for, special ones.

use alloc::string::String;
use alloc::vec::Vec;

use super::vocabulary::{Kind, Vocabulary};

/// Goes before a character at which no special token begins, whatever follows. It is no
/// character that Unicode will ever assign; in text that has it, it is doubled.
const GUARD: char = '\u{FDD0}';

/// Part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Token(u32),
}

/// Tokens of one kind, by the text that is looked for.
#[derive(Clone, Debug)]
pub(super) struct Literals(Vec<(String, u32)>);

impl Literals {
    /// The tokens of `kind`; `spelling` gives the text that one stands for.
    pub(super) fn new(
        vocabulary: &Vocabulary<'_>,
        kind: Kind,
        spelling: impl Fn(&str) -> String,
    ) -> Self {
        let alike = vocabulary.iter().filter(|&(_, token)| vocabulary.kind(token) == kind);
        let spelled = alike
            .filter_map(|(text, token)| Some((spelling(core::str::from_utf8(text).ok()?), token)));
        let mut literals: Vec<_> = spelled.collect();
        literals.sort_unstable();
        Literals(literals)
    }

    /// Cuts a text at its tokens.
    pub(super) fn split(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.longest(rest) {
                Some((len, token)) => rest = pieces.token(token, rest, len),
                None => rest = pieces.char(first, rest),
            }
        }
        pieces.finish()
    }

    /// Cuts a text at its tokens. Parts that [`guard`](Self::guard) has been over hold none.
    pub(super) fn split_unguarded(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(guarded) = rest.strip_prefix(GUARD) {
                let Some(first) = guarded.chars().next() else { break };
                rest = pieces.char(first, guarded);
                continue;
            }
            match self.longest(rest) {
                Some((len, token)) => rest = pieces.token(token, rest, len),
                None => rest = pieces.char(first, rest),
            }
        }
        pieces.finish()
    }

    /// The text for [`split_unguarded`](Self::split_unguarded) in which there are no tokens.
    pub(super) fn guard(&self, text: &str) -> String {
        let mut guarded = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            if c == GUARD || text.get(at..).is_some_and(|rest| self.longest(rest).is_some()) {
                guarded.push(GUARD);
            }
            guarded.push(c);
        }
        guarded
    }

    /// The longest token that `text` begins with: its length and itself. Of equal ones the last.
    fn longest(&self, text: &str) -> Option<(usize, u32)> {
        let mut found = None;
        // Those that begin as `text` does, up to byte `at`.
        let mut alike = self.0.as_slice();
        for (at, byte) in text.bytes().enumerate() {
            // One that ends here stands before those that go on, as a byte of none.
            let next = |entry: &(String, u32)| entry.0.as_bytes().get(at).copied();
            let from = alike.partition_point(|entry| next(entry) < Some(byte));
            let to = alike.partition_point(|entry| next(entry) <= Some(byte));
            alike = alike.get(from..to).unwrap_or_default();
            if alike.is_empty() {
                break;
            }
            let ends = alike.partition_point(|(literal, _)| literal.len() <= at + 1);
            if let Some((literal, token)) = ends.checked_sub(1).and_then(|last| alike.get(last)) {
                found = Some((literal.len(), *token));
            }
        }
        found
    }
}

#[derive(Default)]
struct Pieces {
    pieces: Vec<Piece>,
    text: String,
}

impl Pieces {
    /// Takes one character off `rest`.
    fn char<'t>(&mut self, first: char, rest: &'t str) -> &'t str {
        self.text.push(first);
        rest.get(first.len_utf8()..).unwrap_or("")
    }

    /// Takes a token of `len` bytes off `rest`.
    fn token<'t>(&mut self, token: u32, rest: &'t str, len: usize) -> &'t str {
        self.end_text();
        self.pieces.push(Piece::Token(token));
        rest.get(len..).unwrap_or("")
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(core::mem::take(&mut self.text)));
        }
    }

    fn finish(mut self) -> Vec<Piece> {
        self.end_text();
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn literals(texts: &[(&str, u32)]) -> Literals {
        let mut list: Vec<_> =
            texts.iter().map(|&(text, token)| (text.to_string(), token)).collect();
        list.sort_unstable();
        Literals(list)
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_string())
    }

    #[test]
    fn of_several_tokens_the_longest_is_found() {
        let spaces = literals(&[("  ", 1), ("    ", 2), ("<t>", 3)]);
        assert_eq!(spaces.split("       b"), [Piece::Token(2), Piece::Token(1), text(" b")]);
        assert_eq!(spaces.split("<<t>é"), [text("<"), Piece::Token(3), text("é")]);
        assert_eq!(spaces.split(""), []);
    }

    #[test]
    fn the_longest_is_found_among_any_others() {
        // Every text of up to three of the letters a, b and é, but for some.
        let mut texts = alloc::vec![String::new()];
        for at in 0..13 {
            texts.extend(["a", "b", "é"].map(|letter| [&texts[at], letter].concat()));
        }
        let some: Vec<_> = (0..).zip(&texts).filter(|(at, _)| at % 4 > 1).collect();
        let list =
            literals(&some.iter().map(|&(at, text)| (text.as_str(), at)).collect::<Vec<_>>());
        for text in &texts {
            let all = some.iter().filter(|(_, literal)| text.starts_with(literal.as_str()));
            let longest = all.max_by_key(|(_, literal)| literal.len());
            assert_eq!(list.longest(text), longest.map(|&(at, literal)| (literal.len(), at)));
        }
        assert_eq!(literals(&[("a", 1), ("a", 2), ("ab", 3)]).longest("ac"), Some((1, 2)));
    }

    #[test]
    fn guarded_text_holds_no_token() {
        let literals = literals(&[("<e>", 10), ("<e>x", 11), ("e>y", 12), ("§", 13)]);
        assert_eq!(literals.split_unguarded("a<e>xé"), [text("a"), Piece::Token(11), text("é")]);
        for harmless in ["<e>x", "<e>y<e>", "§§", "\u{FDD0}<e>", "<\u{FDD0}e>\u{FDD0}", "é"] {
            assert_eq!(literals.split_unguarded(&literals.guard(harmless)), [text(harmless)]);
        }
        let both = [&literals.guard("<e>"), "<e>"].concat();
        assert_eq!(literals.split_unguarded(&both), [text("<e>"), Piece::Token(10)]);
        assert_eq!(literals.split_unguarded("a\u{FDD0}"), [text("a")]);
    }
}
