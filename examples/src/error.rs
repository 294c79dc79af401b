//! What can be wrong with a model, a prompt, or a run of it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

/// Result of this crate's calls.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// What is wrong, with the metadata key or tensor it concerns. Its text is meant for
/// people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The file itself is no good.
    File(hk_core::Error),
    /// A metadata key that the model needs is not there.
    MissingKey(String),
    /// The value of a metadata key cannot be used.
    Key {
        /// Which key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// A tensor that the model needs is not there.
    MissingTensor(String),
    /// A tensor cannot be used.
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Reading a tensor's weights failed.
    Decode {
        /// The tensor's name.
        name: String,
        /// Why.
        source: hk_core::Error,
    },
    /// A byte of the text has no token in the vocabulary.
    NoTokenForByte(u8),
    /// A token id is outside the vocabulary.
    Token {
        /// The id.
        token: u32,
        /// Number of tokens that there are.
        vocabulary: usize,
    },
    /// The context holds this many tokens and is full.
    ContextFull(usize),
    /// Logits were asked for before the first token.
    NoToken,
    /// No logit is the largest, or an infinite one is.
    NotNumbers,
    /// This many bytes of memory were asked for and not given.
    Memory(usize),
}

impl Error {
    /// A value of `key` that cannot be used.
    pub(crate) fn key(key: &str, problem: impl Into<String>) -> Self {
        Error::Key { key: key.to_owned(), problem: problem.into() }
    }

    /// A tensor that cannot be used.
    pub(crate) fn tensor(name: &str, problem: impl Into<String>) -> Self {
        Error::Tensor { name: name.to_owned(), problem: problem.into() }
    }
}

/// Text of a file as an error quotes it: its beginning, for it may be long.
pub(crate) fn quote(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

/// Text that somebody wrote to be read, without what would play tricks on a terminal, and cut
/// where nobody reads on.
#[cfg(feature = "chat")]
pub(crate) fn plain(text: &str) -> String {
    const MOST: usize = 400;
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    let mut plain: String = text.chars().take(MOST).map(visible).collect();
    if text.chars().nth(MOST).is_some() {
        plain.push('…');
    }
    plain
}

/// "a string value", "an int64 value".
pub(crate) fn a_value(value: &hk_core::Value<'_>) -> String {
    let article = if matches!(value, hk_core::Value::Int64(_)) { "an" } else { "a" };
    format!("{article} {} value", value.tag())
}

impl From<hk_core::Error> for Error {
    fn from(source: hk_core::Error) -> Self {
        Error::File(source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(source) => fmt::Display::fmt(source, f),
            Error::MissingKey(key) => write!(
                f,
                "metadata key {key:?} is missing, and the model cannot run without it: convert the model again from its source"
            ),
            Error::Key { key, problem } => write!(f, "metadata key {key:?}: {problem}"),
            Error::MissingTensor(name) => write!(
                f,
                "tensor {name:?} is missing, and the model cannot run without it: convert the model again from its source"
            ),
            Error::Tensor { name, problem } => write!(f, "tensor {name:?}: {problem}"),
            Error::Decode { name, source } => write!(f, "tensor {name:?}: {source}"),
            Error::NoTokenForByte(byte) => write!(
                f,
                "the text has a byte {byte:#04x}, for which the vocabulary has no token: leave that character out"
            ),
            Error::Token { token, vocabulary } => {
                write!(f, "there is no token {token}: the vocabulary has {vocabulary}")
            }
            Error::ContextFull(tokens) => write!(
                f,
                "the context of {tokens} tokens is full: the model was made for no longer text"
            ),
            Error::NoToken => f.write_str("no token has been read yet, so none can follow"),
            Error::NotNumbers => f.write_str(
                "the model's logits are no finite numbers: its weights are damaged, fetch or convert it again",
            ),
            Error::Memory(bytes) => {
                write!(f, "{bytes} bytes of memory are needed and not to be had")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::File(source) | Error::Decode { source, .. } => Some(source),
            _ => None,
        }
    }
}
