//! Pre-tokenizers: text to the words within which byte pairs merge.

use core::iter;

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// How text is split before byte pairs merge (`tokenizer.ggml.pre`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreTokenizer {
    /// `gpt-2`: the expression of GPT-2,
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    Gpt2,
    /// `smollm`: each number character (`\p{N}`) is a word, and what lies between them is
    /// split as by [`Gpt2`](Self::Gpt2).
    SmolLm,
}

impl PreTokenizer {
    /// The names in metadata.
    pub(crate) const NAMES: [(&'static str, PreTokenizer); 2] =
        [("gpt-2", PreTokenizer::Gpt2), ("smollm", PreTokenizer::SmolLm)];

    /// The words of `text`: no byte is left out, and none is in two.
    ///
    /// ```
    /// use hk_examples::PreTokenizer;
    /// let words = PreTokenizer::Gpt2.words("It's 1996,  she\n\nsaid");
    /// assert!(words.eq(["It", "'s", " 1996", ",", " ", " she", "\n", "\n", "said"]));
    /// ```
    pub fn words(self, text: &str) -> impl Iterator<Item = &str> {
        self.pieces(text).flat_map(|piece| split(piece, gpt2_word_len))
    }

    /// What the expression of GPT-2 then sees one by one.
    fn pieces(self, text: &str) -> impl Iterator<Item = &str> {
        split(
            text,
            match self {
                PreTokenizer::Gpt2 => str::len,
                PreTokenizer::SmolLm => digit_or_rest_len,
            },
        )
    }
}

/// Cuts `text` at its front again and again; `len` says how many bytes come off, at least
/// one and up to a character's end.
fn split(text: &str, len: fn(&str) -> usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (front, back) = rest.split_at(len(rest));
        rest = back;
        Some(front)
    })
}

/// One number character, or everything up to the next.
fn digit_or_rest_len(text: &str) -> usize {
    let is_number = |c| Class::of(c) == Class::Number;
    match text.char_indices().find(|&(_, c)| is_number(c)) {
        Some((0, digit)) => digit.len_utf8(),
        Some((at, _)) => at,
        None => text.len(),
    }
}

/// The kinds of characters that the expressions tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `\s`
    Space,
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `[^\s\p{L}\p{N}]`
    Other,
}

impl Class {
    // The general category, not `char::is_alphabetic`: vowel signs (Mn, Mc) and circled
    // letters (So) are alphabetic and no `\p{L}`.
    fn of(c: char) -> Class {
        if c.is_whitespace() {
            return Class::Space;
        }
        match c.general_category_group() {
            GeneralCategoryGroup::Letter => Class::Letter,
            GeneralCategoryGroup::Number => Class::Number,
            _ => Class::Other,
        }
    }
}

/// What the expression of GPT-2 matches at the front of `text`.
fn gpt2_word_len(text: &str) -> usize {
    if let Some(len) = contraction_len(text) {
        return len;
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    match body.chars().next().map(Class::of) {
        None | Some(Class::Space) => space_len(text),
        Some(class) => text.len() - body.len() + run_len(body, class),
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d`
fn contraction_len(text: &str) -> Option<usize> {
    let endings = ["s", "t", "re", "ve", "m", "ll", "d"];
    let after = text.strip_prefix('\'')?;
    endings.iter().find(|ending| after.starts_with(**ending)).map(|ending| 1 + ending.len())
}

/// Bytes of the characters of `class` at the front of `text`.
fn run_len(text: &str, class: Class) -> usize {
    text.find(|c| Class::of(c) != class).unwrap_or(text.len())
}

/// `\s+(?!\S)|\s+`: a run of spaces leaves its last one to the word that follows, unless
/// it is the only one.
fn space_len(text: &str) -> usize {
    let run = run_len(text, Class::Space);
    let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
    if run < text.len() && run > last { run - last } else { run }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn gpt2(text: &str) -> Vec<&str> {
        PreTokenizer::Gpt2.words(text).collect()
    }

    fn smollm(text: &str) -> Vec<&str> {
        PreTokenizer::SmolLm.words(text).collect()
    }

    #[test]
    fn contractions_come_off_before_the_quote_mark() {
        assert_eq!(
            gpt2("we'll'sx 'til I'D"),
            ["we", "'ll", "'s", "x", " '", "til", " I", "'", "D"]
        );
    }

    #[test]
    fn a_run_of_spaces_leaves_the_last_one_to_the_word() {
        assert_eq!(gpt2("a   b"), ["a", "  ", " b"]);
        assert_eq!(gpt2("a\t\tb\n"), ["a", "\t", "\t", "b", "\n"]);
        assert_eq!(gpt2("  \n  "), ["  \n  "]);
        assert_eq!(gpt2(" \u{a0}\u{2003}x"), [" \u{a0}", "\u{2003}", "x"]);
    }

    #[test]
    fn letters_are_those_of_the_general_category() {
        // DEVANAGARI SIGN VIRAMA (Mn), CIRCLED LATIN SMALL LETTER A (So), ROMAN NUMERAL
        // TWO (Nl), SUPERSCRIPT TWO (No): only the first two are no letters or numbers.
        assert_eq!(gpt2("क्ष ⓐ x²Ⅱ"), ["क", "्", "ष", " ⓐ", " x", "²Ⅱ"]);
    }

    #[test]
    fn smollm_takes_digits_one_by_one_and_looks_ahead_no_further() {
        assert_eq!(smollm("in  2024!"), ["in", "  ", "2", "0", "2", "4", "!"]);
        assert_eq!(gpt2("in  2024!"), ["in", " ", " 2024", "!"]);
    }

    #[test]
    fn no_byte_is_lost() {
        let text = "fn main() {\n\tprintln!(\"héllo, 世界 🦀 {}\", 1_000);\r\n}\n\n  e\u{301}\0";
        for (_, pre) in PreTokenizer::NAMES {
            assert_eq!(pre.words(text).collect::<Vec<_>>().concat(), text);
            assert!(pre.words("").next().is_none());
        }
    }
}
