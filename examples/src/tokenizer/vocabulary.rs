//! Tokens: their texts and types (`tokenizer.ggml.tokens`, `tokenizer.ggml.token_type`).

use alloc::vec::Vec;

use hk_core::format::Strings;

use super::keys::{Keys, List};
use crate::error::Result;

/// What a token is for (`token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Stands for text; also what the file gives no type, or one that is not known here.
    Ordinary,
    /// Stands for text, and is found in any text before all else.
    UserDefined,
    /// Stands for one byte.
    Byte,
    /// Stands for no text: control tokens and the unknown one.
    Special,
}

/// Tokens. Their texts stay in the file.
#[derive(Clone, Debug)]
pub(super) struct Vocabulary<'a> {
    texts: Strings<'a>,
    /// Fewer than tokens, or none: the others are ordinary.
    types: Option<List<'a>>,
    /// Ids by text, then id.
    sorted: Vec<(&'a [u8], u32)>,
    /// Tokens that are special whatever their type says. Few, by id.
    special: Vec<u32>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn read(keys: &Keys<'_, 'a>) -> Result<Self> {
        let texts = keys.strings("tokenizer.ggml.tokens")?;
        let types = keys.optional_numbers("tokenizer.ggml.token_type")?;
        let mut sorted: Vec<_> = texts.iter().zip(0..).collect();
        sorted.sort_unstable();
        Ok(Vocabulary { texts, types, sorted, special: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The text of a token as it stands in the file.
    pub(super) fn text(&self, token: u32) -> Option<&'a [u8]> {
        self.texts.get(usize::try_from(token).ok()?)
    }

    /// The token whose text is `text`; of two equal texts, the first.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        let at = self.sorted.partition_point(|&(other, _)| other < text);
        self.sorted.get(at).filter(|(found, _)| *found == text).map(|&(_, id)| id)
    }

    /// The token that stands for `text` and for nothing but text.
    pub(super) fn id_of_text(&self, text: &[u8]) -> Option<u32> {
        let is_text = |id: &u32| matches!(self.kind(*id), Kind::Ordinary | Kind::UserDefined);
        let at = self.sorted.partition_point(|&(other, _)| other < text);
        let equal = self.sorted.iter().skip(at).take_while(|(found, _)| *found == text);
        equal.map(|&(_, id)| id).find(is_text)
    }

    /// Makes a token special.
    pub(super) fn set_special(&mut self, token: u32) {
        if let Err(at) = self.special.binary_search(&token) {
            self.special.insert(at, token);
        }
    }

    pub(super) fn kind(&self, token: u32) -> Kind {
        if self.special.binary_search(&token).is_ok() {
            return Kind::Special;
        }
        let index = usize::try_from(token).ok();
        let number = index.and_then(|index| self.types.as_ref()?.get(index));
        match number {
            // Unknown, and control.
            Some(2.0 | 3.0) => Kind::Special,
            Some(4.0) => Kind::UserDefined,
            Some(6.0) => Kind::Byte,
            _ => Kind::Ordinary,
        }
    }

    /// Whether the file says what kind of token this is.
    pub(super) fn has_type(&self, token: u32) -> bool {
        self.types.as_ref().is_some_and(|types| (token as usize) < types.len())
    }

    /// Tokens with a text, by it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a [u8], u32)> {
        self.sorted.iter().copied().filter(|(text, _)| !text.is_empty())
    }
}
