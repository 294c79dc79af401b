//! Lookups in metadata that name the key when something is wrong.

use alloc::format;
use alloc::vec::Vec;

use hk_core::format::{Numbers, Strings};
use hk_core::{Array, Metadata, Value};

use crate::error::{Error, Result, a_value, quote};

/// The metadata of a file.
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

    /// What a text value chooses among `choices`.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T> {
        let value = self.required(key)?;
        let Some(text) = value.as_str() else { return Err(wrong_type(key, &value, "a string")) };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let (text, names) = (quote(text), names.join(", "));
            Error::key(key, format!("{text} is not known here, only {names}"))
        })
    }

    pub(super) fn optional_bool(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(truth) => Ok(Some(truth)),
            None => Err(wrong_type(key, &value, "a bool")),
        }
    }

    pub(super) fn strings(&self, key: &str) -> Result<Strings<'a>> {
        let value = self.required(key)?;
        match value.array() {
            Ok(Array::Strings(strings)) => Ok(strings),
            _ => Err(wrong_type(key, &value, "a packed array of strings")),
        }
    }

    /// Numbers that the file has packed, or, when they are too wide for that, as JSON.
    pub(super) fn optional_numbers(&self, key: &str) -> Result<Option<List<'a>>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        let list = match (value, value.array()) {
            (_, Ok(Array::I32(numbers))) => Some(List::I32(numbers)),
            (_, Ok(Array::F32(numbers))) => Some(List::F32(numbers)),
            (Value::Json(text), _) => json_numbers(text).map(List::F64),
            _ => None,
        };
        list.map(Some).ok_or_else(|| wrong_type(key, &value, "an array of numbers"))
    }

    /// The id of one of `count` tokens.
    pub(super) fn optional_id(&self, key: &str, count: usize) -> Result<Option<u32>> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        let Some(id) = value.as_i64() else { return Err(wrong_type(key, &value, "an integer")) };
        let known = u32::try_from(id).ok().filter(|&id| (id as usize) < count);
        known.map(Some).ok_or_else(|| {
            Error::key(key, format!("{id} is no token: tokenizer.ggml.tokens has {count}"))
        })
    }
}

fn wrong_type(key: &str, value: &Value<'_>, wanted: &str) -> Error {
    Error::key(key, format!("{} where {wanted} is needed", a_value(value)))
}

/// An array of numbers.
#[derive(Clone, Debug)]
pub(super) enum List<'a> {
    I32(Numbers<'a, i32>),
    F32(Numbers<'a, f32>),
    F64(Vec<f64>),
}

impl List<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            List::I32(numbers) => numbers.len(),
            List::F32(numbers) => numbers.len(),
            List::F64(numbers) => numbers.len(),
        }
    }

    /// Number `index`. Integers of up to 53 bits are exact.
    pub(super) fn get(&self, index: usize) -> Option<f64> {
        match self {
            List::I32(numbers) => numbers.get(index).map(f64::from),
            List::F32(numbers) => numbers.get(index).map(f64::from),
            List::F64(numbers) => numbers.get(index).copied(),
        }
    }
}

/// The numbers of a JSON array that holds nothing else.
fn json_numbers(text: &str) -> Option<Vec<f64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn numbers_are_read_from_json() {
        let wide = "[1, 3 ,18446744073709551615,-0.5e1]";
        assert_eq!(json_numbers(wide), Some(vec![1.0, 3.0, 18446744073709551615.0, -5.0]));
        assert_eq!(json_numbers(" [ ] "), Some(vec![]));
        for bad in ["", "1", "[1,]", "[[1]]", "[null]", "{}", "[1", "[\"1\"]"] {
            assert_eq!(json_numbers(bad), None, "{bad}");
        }
    }
}
