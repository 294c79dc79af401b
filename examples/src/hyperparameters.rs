//! A model's hyperparameters, from metadata under the names that GGUF gives them.

use alloc::format;
use alloc::string::String;

use hk_core::{Metadata, Value};

use crate::error::{Error, Result};

/// The numbers that say how a Llama model's tensors work together, checked so that no
/// division by zero and no odd pairing can come of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyperparameters {
    /// Layers (`block_count`).
    pub layers: usize,
    /// Numbers in the state of a token (`embedding_length`).
    pub width: usize,
    /// Inner width of the feed-forward part (`feed_forward_length`).
    pub feed_forward: usize,
    /// Attention heads (`attention.head_count`).
    pub heads: usize,
    /// Heads of keys and values, which divide the heads (`attention.head_count_kv`).
    pub kv_heads: usize,
    /// Numbers in a head (`attention.key_length`, else width over heads).
    pub head_len: usize,
    /// Numbers of a head that are rotated, even (`rope.dimension_count`, else all).
    pub rope_len: usize,
    /// Base of the rotation's frequencies (`rope.freq_base`, else 10000).
    pub rope_base: f32,
    /// Added to the mean square in RMS norms (`attention.layer_norm_rms_epsilon`).
    pub epsilon: f32,
    /// Longest text in tokens (`context_length`).
    pub context: usize,
}

impl Hyperparameters {
    /// Reads the hyperparameters of a Llama model.
    ///
    /// # Errors
    /// Another architecture, a key that is missing, or a value that fits no such model;
    /// each names the key.
    pub fn read(metadata: &Metadata<'_>) -> Result<Self> {
        let keys = Keys::llama(metadata)?;
        let (heads, width) = (keys.count("attention.head_count")?, keys.count("embedding_length")?);
        let head_len = match keys.optional_count("attention.key_length")? {
            Some(len) => len,
            None => keys.quotient(width, heads, "embedding_length", "attention.head_count")?,
        };
        let kv_heads = keys.optional_count("attention.head_count_kv")?.unwrap_or(heads);
        keys.quotient(heads, kv_heads, "attention.head_count", "attention.head_count_kv")?;
        let rope_len = keys.optional_count("rope.dimension_count")?.unwrap_or(head_len);
        if rope_len > head_len || !rope_len.is_multiple_of(2) {
            let problem = format!(
                "{rope_len} numbers of a head cannot be rotated in pairs; a head has {head_len}"
            );
            return Err(Error::key(&keys.name("rope.dimension_count"), problem));
        }
        keys.refuse_what_is_not_done(head_len)?;
        Ok(Hyperparameters {
            layers: keys.count("block_count")?,
            width,
            feed_forward: keys.count("feed_forward_length")?,
            heads,
            kv_heads,
            head_len,
            rope_len,
            rope_base: keys.optional_positive("rope.freq_base")?.unwrap_or(10_000.0),
            epsilon: keys.positive("attention.layer_norm_rms_epsilon")?,
            context: keys.count("context_length")?,
        })
    }
}

/// Lookups of `llama.<name>` that name the key when something is wrong.
struct Keys<'a> {
    metadata: &'a Metadata<'a>,
}

impl<'a> Keys<'a> {
    /// For the one architecture that is known here.
    fn llama(metadata: &'a Metadata<'a>) -> Result<Self> {
        const KEY: &str = "general.architecture";
        match metadata.get(KEY) {
            None => Err(Error::MissingKey(KEY.into())),
            Some(Value::String("llama")) => Ok(Keys { metadata }),
            Some(Value::String(other)) => Err(Error::key(
                KEY,
                format!("{other:?} models are not known here, only \"llama\" models"),
            )),
            Some(other) => Err(Error::key(KEY, format!("a {} value is no name", other.tag()))),
        }
    }

    fn name(&self, name: &str) -> String {
        format!("llama.{name}")
    }

    fn missing(&self, name: &str) -> Error {
        Error::MissingKey(self.name(name))
    }

    /// A whole number from 1 to 2^31 - 1, if the key is there. The limit is what GGUF
    /// readers hold such numbers in; products of two then fit 64 bits.
    fn optional_count(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.metadata.hyperparameter(name) else { return Ok(None) };
        let count = value.as_u64().filter(|&count| count > 0);
        let count = count.and_then(|count| i32::try_from(count).ok());
        match count {
            Some(count) => Ok(Some(count as usize)),
            None => Err(Error::key(
                &self.name(name),
                format!("{} is no whole number from 1 to 2147483647", describe(&value)),
            )),
        }
    }

    fn count(&self, name: &str) -> Result<usize> {
        self.optional_count(name)?.ok_or_else(|| self.missing(name))
    }

    /// A finite number over 0, if the key is there.
    fn optional_positive(&self, name: &str) -> Result<Option<f32>> {
        let Some(value) = self.metadata.hyperparameter(name) else { return Ok(None) };
        let number = value.as_f64().map(|number| number as f32);
        match number.filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(Error::key(
                &self.name(name),
                format!("{} is no finite number over 0", describe(&value)),
            )),
        }
    }

    fn positive(&self, name: &str) -> Result<f32> {
        self.optional_positive(name)?.ok_or_else(|| self.missing(name))
    }

    /// `whole / part`, which must come out even.
    fn quotient(&self, whole: usize, part: usize, name: &str, by: &str) -> Result<usize> {
        if !whole.is_multiple_of(part) {
            let problem = format!("{whole} is no multiple of {} {part}", self.name(by));
            return Err(Error::key(&self.name(name), problem));
        }
        Ok(whole / part)
    }

    /// Variants of the architecture whose text would be garbage without code for them.
    fn refuse_what_is_not_done(&self, head_len: usize) -> Result<()> {
        if let Some(len) = self.optional_count("attention.value_length")?
            && len != head_len
        {
            let problem = format!("values of {len} numbers beside keys of {head_len}");
            return Err(Error::key(&self.name("attention.value_length"), problem));
        }
        match self.metadata.hyperparameter("rope.scaling.type") {
            None | Some(Value::String("none")) => Ok(()),
            Some(value) => Err(Error::key(
                &self.name("rope.scaling.type"),
                format!("{} scaling of positions is not known here", describe(&value)),
            )),
        }
    }
}

/// A value as an error quotes it.
fn describe(value: &Value<'_>) -> String {
    match value {
        Value::String(text) if text.len() <= 40 => format!("{text:?}"),
        Value::Int64(number) => format!("{number}"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Bool(truth) => format!("{truth}"),
        other => format!("a {} value", other.tag()),
    }
}
