//! Pre-tokenizers: text to the words within which byte pairs merge.

use core::iter;

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// How text is split before byte pairs merge (`tokenizer.ggml.pre`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PreTokenizer {
    /// `gpt-2`: the expression of GPT-2,
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
    Gpt2,
    /// `smollm`: each number character (`\p{N}`) is a word, and what lies between them is
    /// split as by [`Gpt2`](Self::Gpt2).
    SmolLm,
    /// `llama-bpe`: the expression of Llama 3,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
    LlamaBpe,
    /// `qwen2`: as [`LlamaBpe`](Self::LlamaBpe), but each number character is a word.
    Qwen2,
}

/// What a name in `tokenizer.ggml.pre` says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pre {
    pub words: PreTokenizer,
    /// A word that is a token is that token, whatever would merge.
    pub whole_words: bool,
    /// A text begins with a token for that, unless the file says otherwise.
    pub adds_begin: bool,
}

impl Pre {
    const fn new(words: PreTokenizer) -> Self {
        Pre { words, whole_words: false, adds_begin: false }
    }
}

const GPT2: Pre = Pre::new(PreTokenizer::Gpt2);
const SMOLLM: Pre = Pre::new(PreTokenizer::SmolLm);
const LLAMA3: Pre = Pre { words: PreTokenizer::LlamaBpe, whole_words: true, adds_begin: true };
const LIKE_LLAMA3: Pre = Pre::new(PreTokenizer::LlamaBpe);
const QWEN2: Pre = Pre::new(PreTokenizer::Qwen2);

/// The names in metadata: one for each model that was the first to need it, and many split
/// alike.
pub(super) const NAMES: [(&str, Pre); 41] = [
    ("gpt-2", GPT2),
    ("smollm", SMOLLM),
    ("llama-bpe", LLAMA3),
    ("qwen2", QWEN2),
    ("a.x-4.0", GPT2),
    ("chatglm-bpe", LIKE_LLAMA3),
    ("codeshell", SMOLLM),
    ("command-r", SMOLLM),
    ("dbrx", LIKE_LLAMA3),
    ("deepseek-r1-qwen", QWEN2),
    ("exaone", SMOLLM),
    ("exaone4", GPT2),
    ("falcon-h1", LLAMA3),
    ("falcon3", LLAMA3),
    ("gigachat", GPT2),
    ("glm4", LIKE_LLAMA3),
    ("granite-docling", GPT2),
    ("grok-2", QWEN2),
    ("hunyuan", QWEN2),
    ("jais", GPT2),
    ("jina-de", GPT2),
    ("jina-es", GPT2),
    ("jina-v2-de", GPT2),
    ("jina-v2-es", GPT2),
    ("kormo", QWEN2),
    ("lfm2", LLAMA3),
    ("llama-v3", LLAMA3),
    ("llama3", LLAMA3),
    ("megrez", QWEN2),
    ("mellum", GPT2),
    ("midm-2.0", LLAMA3),
    ("minerva-7b", SMOLLM),
    ("mpt", GPT2),
    ("olmo", GPT2),
    ("phi-2", GPT2),
    ("pixtral", LLAMA3),
    ("refact", SMOLLM),
    ("smaug-bpe", LIKE_LLAMA3),
    ("stablelm2", QWEN2),
    ("starcoder", SMOLLM),
    ("trillion", GPT2),
];

impl PreTokenizer {
    /// The words of `text`: no byte is left out, and none is in two.
    ///
    /// ```
    /// use hk_examples::PreTokenizer;
    /// let words = PreTokenizer::Gpt2.words("It's 1996,  she\n\nsaid");
    /// assert!(words.eq(["It", "'s", " 1996", ",", " ", " she", "\n", "\n", "said"]));
    /// ```
    pub fn words(self, text: &str) -> impl Iterator<Item = &str> {
        let word_len = match self {
            PreTokenizer::Gpt2 | PreTokenizer::SmolLm => gpt2_word_len,
            PreTokenizer::LlamaBpe => |text: &str| llama_word_len(text, 3),
            PreTokenizer::Qwen2 => |text: &str| llama_word_len(text, 1),
        };
        self.pieces(text).flat_map(move |piece| split(piece, word_len))
    }

    /// What the expression then sees one by one.
    fn pieces(self, text: &str) -> impl Iterator<Item = &str> {
        split(
            text,
            match self {
                PreTokenizer::SmolLm => digit_or_rest_len,
                PreTokenizer::Gpt2 | PreTokenizer::LlamaBpe | PreTokenizer::Qwen2 => str::len,
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

/// What the expression of Llama 3 matches at the front of `text`, with words of up to
/// `digits` number characters.
fn llama_word_len(text: &str, digits: usize) -> usize {
    if let Some(len) = any_case_contraction_len(text) {
        return len;
    }
    if let Some(len) = letters_len(text) {
        return len;
    }
    let number = text.char_indices().take_while(|&(_, c)| Class::of(c) == Class::Number);
    if let Some((at, last)) = number.take(digits).last() {
        return at + last.len_utf8();
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let other = run_len(body, Class::Other);
    if other > 0 {
        let line_ends = &body[other..];
        let ended = line_ends.trim_start_matches(['\r', '\n']);
        return text.len() - ended.len();
    }
    let spaces = &text[..run_len(text, Class::Space)];
    // `\s*[\r\n]+`: up to the last end of a line.
    spaces.rfind(['\r', '\n']).map_or_else(|| space_len(text), |at| at + 1)
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)`. Without regard to case, U+017F is an s too.
fn any_case_contraction_len(text: &str) -> Option<usize> {
    let after = text.strip_prefix('\'')?;
    if after.starts_with('\u{17F}') {
        return Some('\''.len_utf8() + '\u{17F}'.len_utf8());
    }
    let mut letters = after.bytes().map(|byte| byte.to_ascii_lowercase());
    match (letters.next()?, letters.next()) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}

/// `[^\r\n\p{L}\p{N}]?\p{L}+`
fn letters_len(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let body = match Class::of(first) {
        Class::Letter => text,
        Class::Number => return None,
        Class::Space | Class::Other if matches!(first, '\r' | '\n') => return None,
        Class::Space | Class::Other => text.strip_prefix(first).unwrap_or(text),
    };
    let run = run_len(body, Class::Letter);
    (run > 0).then_some(text.len() - body.len() + run)
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

    /// Texts, and the words of the `tokenizers` package (0.23.3) for Llama 3's expression.
    const LLAMA: &[(&str, &[&str])] = &[
        (
            "It's I'D we'LL 'til x'ſy",
            &["It", "'s", " I", "'D", " we", "'LL", " '", "til", " x", "'ſ", "y"],
        ),
        ("don't.\tTab\u{a0}nbsp", &["don", "'t", ".", "\tTab", "\u{a0}nbsp"]),
        ("a\r\n \r\n  b\n\n\n   c  ", &["a", "\r\n \r\n", " ", " b", "\n\n\n", "  ", " c", "  "]),
        ("   \n  ", &["   \n", "  "]),
        ("!?\r\n\n  (x) == y\n", &["!?\r\n\n", " ", " (", "x", ")", " ==", " y", "\n"]),
        (
            "_snake-case é e\u{301} क्ष ⓐ",
            &["_snake", "-case", " é", " e", "\u{301}", " क", "्ष", " ⓐ"],
        ),
        ("你好，世界 🦀🦀a", &["你好", "，世界", " 🦀🦀", "a"]),
        (
            "\n1 2  3\u{2003}\u{2003}z",
            &["\n", "1", " ", "2", " ", " ", "3", "\u{2003}", "\u{2003}z"],
        ),
        (" '\n's", &[" '\n", "'s"]),
    ];

    #[test]
    fn llama_words_are_those_of_the_reference() {
        for (text, words) in LLAMA {
            for pre in [PreTokenizer::LlamaBpe, PreTokenizer::Qwen2] {
                assert_eq!(pre.words(text).collect::<Vec<_>>(), *words);
            }
        }
        let numbers = "12345 6789x²Ⅱ½";
        let words: Vec<_> = PreTokenizer::LlamaBpe.words(numbers).collect();
        assert_eq!(words, ["123", "45", " ", "678", "9", "x", "²Ⅱ½"]);
        let words = PreTokenizer::Qwen2.words(numbers);
        assert_eq!(words.filter(|word| word.chars().count() > 1).count(), 0);
    }

    #[test]
    fn no_byte_is_lost() {
        let text = "fn main() {\n\tprintln!(\"héllo, 世界 🦀 {}\", 1_000);\r\n}\n\n  e\u{301}\0";
        for (_, pre) in NAMES {
            assert_eq!(pre.words.words(text).collect::<Vec<_>>().concat(), text);
            assert!(pre.words.words("").next().is_none());
        }
    }
}
