//! Tokenizers from a file's metadata.

mod alphabet;
mod byte_level;
mod keys;
mod merges;
mod sentencepiece;
mod special;
mod vocabulary;
mod words;

use alloc::borrow::{Cow, ToOwned};
use alloc::string::String;
use alloc::vec::Vec;

use hk_core::Metadata;

use crate::error::{Error, Result};
use crate::text::TextStream;
use byte_level::ByteLevel;
use keys::Keys;
use sentencepiece::SentencePiece;
use special::{Literals, Piece};
use vocabulary::{Kind, Vocabulary};
pub use words::PreTokenizer;

const BEGIN: &str = "tokenizer.ggml.bos_token_id";

/// Keys of tokens that end what a model has to say.
const ENDS: [&str; 3] = ["eos", "eot", "eom"];

/// Texts of tokens that do so in one family of models or another, although few files name
/// them under a key: the ends of a text, a turn, a message.
const END_TEXTS: [&str; 14] = [
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
];

/// Turns text into tokens and back, with the vocabulary of the file (`tokenizer.ggml.*`):
/// byte-level byte pair encoding (model `gpt2`) or SentencePiece (model `llama`).
///
/// Text is taken as it stands: what looks like a special token in it is text, except in
/// [`encode_chat`](Self::encode_chat). Tokens that the file calls user-defined are found
/// in any text.
#[derive(Clone, Debug)]
pub struct Tokenizer<'a> {
    vocabulary: Vocabulary<'a>,
    model: TokenModel,
    special: Literals,
    user_defined: Literals,
    begin: Option<u32>,
    end: Option<u32>,
    /// All tokens that end a text or a turn.
    ends: Vec<u32>,
    adds_begin: bool,
}

/// How stretches of text become tokens.
#[derive(Clone, Debug)]
enum TokenModel {
    ByteLevel(ByteLevel),
    SentencePiece(SentencePiece),
}

/// What the value of `tokenizer.ggml.model` can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    ByteLevel,
    SentencePiece,
}

impl<'a> Tokenizer<'a> {
    /// Reads the tokenizer of a file.
    ///
    /// # Errors
    /// A key that is missing, of another type, or with a value that fits the others not;
    /// a tokenizer or pre-tokenizer that is not known here. Each names the key.
    pub fn read(metadata: &Metadata<'a>) -> Result<Self> {
        let keys = Keys::new(metadata);
        let families = [("gpt2", Family::ByteLevel), ("llama", Family::SentencePiece)];
        let family = keys.choice("tokenizer.ggml.model", &families)?;
        let mut vocabulary = Vocabulary::read(&keys)?;
        let count = vocabulary.len();
        let id = |name: &str, default: u32| {
            let default = Some(default).filter(|&id| {
                family == Family::SentencePiece && usize::try_from(id).is_ok_and(|id| id < count)
            });
            let key = ["tokenizer.ggml.", name, "_token_id"].concat();
            keys.optional_id(&key, count).map(|id| id.or(default))
        };
        let (begin, end) = (id("bos", 1)?, id("eos", 2)?);
        let unknown = if family == Family::SentencePiece { id("unknown", 0)? } else { None };
        let ends = read_ends(&keys, &vocabulary, end)?;
        for &token in ends.iter().chain(&begin).chain(&unknown) {
            vocabulary.set_special(token);
        }
        let model = match family {
            Family::ByteLevel => TokenModel::ByteLevel(ByteLevel::read(&keys, &vocabulary)?),
            Family::SentencePiece => {
                TokenModel::SentencePiece(SentencePiece::read(&keys, &vocabulary, unknown)?)
            }
        };
        let special = Literals::new(&vocabulary, Kind::Special, ToOwned::to_owned);
        let user_defined = Literals::new(&vocabulary, Kind::UserDefined, |text| match family {
            Family::ByteLevel => text.to_owned(),
            Family::SentencePiece => sentencepiece::spelled_out(text),
        });
        let adds_begin = keys.optional_bool("tokenizer.ggml.add_bos_token")?;
        let adds_begin = adds_begin.unwrap_or(model.adds_begin());
        if adds_begin && begin.is_none() {
            return Err(Error::MissingKey(BEGIN.into()));
        }
        Ok(Tokenizer { vocabulary, model, special, user_defined, begin, end, ends, adds_begin })
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How text is split into words, in a byte-level tokenizer.
    pub const fn pre_tokenizer(&self) -> Option<PreTokenizer> {
        match &self.model {
            TokenModel::ByteLevel(model) => Some(model.pre.words),
            TokenModel::SentencePiece(_) => None,
        }
    }

    /// The token that begins a text (`bos_token_id`).
    pub const fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The token that ends a text (`eos_token_id`).
    pub const fn end(&self) -> Option<u32> {
        self.end
    }

    /// Whether `token` ends a text or a turn, so that nothing is to be generated after it.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The text of a token as it stands in the file, which is how chat templates write
    /// special ones.
    pub fn spelling(&self, token: u32) -> Option<&'a str> {
        core::str::from_utf8(self.vocabulary.text(token)?).ok()
    }

    /// The tokens of `text`.
    ///
    /// # Errors
    /// [`Error::NoTokenForByte`]: some vocabularies lack control characters.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        self.encode_to(text, true, &mut tokens)?;
        Ok(tokens)
    }

    /// The tokens of `text` as a model wants them at the start: after the token that
    /// begins a text, where the file asks for it (`add_bos_token`). A text of no tokens
    /// gets it too where there is one, for a model needs a token to go on from. No token
    /// that ends a text is added (`add_eos_token`): the model is to go on.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        if self.adds_begin || text.is_empty() {
            tokens.extend(self.begin);
        }
        self.encode_to(text, true, &mut tokens)?;
        Ok(tokens)
    }

    /// The tokens of what a chat template made, in which special tokens are parsed, except
    /// within text that [`guard`](Self::guard) has been over. Where the file asks for a
    /// token that begins a text and the template wrote none, it is added.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_chat(&self, text: &str) -> Result<Vec<u32>> {
        let pieces = self.special.split_unguarded(text);
        let mut tokens = Vec::new();
        let begins = |token| pieces.first() == Some(&Piece::Token(token));
        if self.adds_begin && !self.begin.is_some_and(begins) {
            tokens.extend(self.begin);
        }
        let mut at_start = true;
        for piece in pieces {
            at_start = match piece {
                Piece::Token(token) => {
                    tokens.push(token);
                    true
                }
                Piece::Text(text) => {
                    self.encode_to(&text, at_start, &mut tokens)?;
                    false
                }
            };
        }
        Ok(tokens)
    }

    /// Text for a chat template in which nothing will be taken for a special token: what a
    /// person said must not end their turn.
    pub fn guard(&self, text: &str) -> String {
        self.special.guard(text)
    }

    /// Appends the tokens of `text`, which stands at the start or after a special token, or
    /// goes on.
    fn encode_to(&self, text: &str, at_start: bool, tokens: &mut Vec<u32>) -> Result<()> {
        let spaced = at_start && self.model.adds_space() && !text.is_empty();
        let text = if spaced { Cow::Owned([" ", text].concat()) } else { Cow::Borrowed(text) };
        for piece in self.user_defined.split(&text) {
            match (piece, &self.model) {
                (Piece::Token(token), _) => tokens.push(token),
                (Piece::Text(text), TokenModel::ByteLevel(model)) => {
                    model.encode(&self.vocabulary, &text, tokens)?;
                }
                (Piece::Text(text), TokenModel::SentencePiece(model)) => {
                    model.encode(&self.vocabulary, &text, tokens)?;
                }
            }
        }
        Ok(())
    }

    /// The bytes that `token` stands for, which need be no whole characters: none for
    /// special tokens such as the one that ends a text.
    ///
    /// # Errors
    /// [`Error::Token`].
    pub fn bytes(&self, token: u32) -> Result<Vec<u8>> {
        let error = Error::Token { token, vocabulary: self.len() };
        let text = self.vocabulary.text(token).ok_or(error)?;
        Ok(match (self.vocabulary.kind(token), &self.model) {
            (Kind::Special, _) => Vec::new(),
            (_, TokenModel::SentencePiece(_)) => {
                sentencepiece::bytes(&self.vocabulary, token, text)
            }
            (Kind::UserDefined, TokenModel::ByteLevel(_)) => text.to_vec(),
            (_, TokenModel::ByteLevel(_)) => byte_level::spelled_out(text),
        })
    }

    /// The text of `tokens`. Bytes that make no character become U+FFFD. A space that
    /// [`encode`](Self::encode) adds at the start is taken away again.
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
        if self.model.adds_space() && text.starts_with(' ') {
            text.remove(0);
        }
        Ok(text)
    }
}

impl TokenModel {
    /// Whether a text begins with a token for that where the file does not say.
    const fn adds_begin(&self) -> bool {
        match self {
            TokenModel::ByteLevel(model) => model.pre.adds_begin,
            TokenModel::SentencePiece(_) => true,
        }
    }

    /// Whether text gets a space at its start.
    const fn adds_space(&self) -> bool {
        match self {
            TokenModel::ByteLevel(_) => false,
            TokenModel::SentencePiece(model) => model.space_prefix,
        }
    }
}

/// All tokens that end a text or a turn: by key, and by text.
fn read_ends(
    keys: &Keys<'_, '_>,
    vocabulary: &Vocabulary<'_>,
    end: Option<u32>,
) -> Result<Vec<u32>> {
    let mut ends: Vec<u32> = end.into_iter().collect();
    for name in ENDS {
        let key = ["tokenizer.ggml.", name, "_token_id"].concat();
        ends.extend(keys.optional_id(&key, vocabulary.len())?);
    }
    ends.extend(END_TEXTS.iter().filter_map(|text| vocabulary.id(text.as_bytes())));
    Ok(ends)
}
