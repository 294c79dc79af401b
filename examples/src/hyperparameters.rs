//! A model's hyperparameters, from metadata under the names that GGUF gives them.

use alloc::format;
use alloc::string::String;

use hk_core::{Array, Metadata, Value};

use crate::error::{Error, Result, a_value, quote};

/// A family of models, by how it departs from Llama.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// Llama: neighbouring numbers of a head are rotated in pairs.
    Llama,
    /// Qwen 2: biases on queries, keys and values; halves of a head are rotated in pairs.
    Qwen2,
    /// Qwen 3: a norm for each head of queries and keys; pairs as Qwen 2.
    Qwen3,
}

impl Architecture {
    const ALL: [Architecture; 3] = [Self::Llama, Self::Qwen2, Self::Qwen3];

    /// The name in metadata.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Whether a head's first half is rotated with its second, number by number; else each
    /// number with its neighbour.
    pub const fn rotates_halves(self) -> bool {
        !matches!(self, Self::Llama)
    }
}

/// The numbers that say how a model's tensors work together, checked so that no division
/// by zero and no odd pairing can come of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyperparameters {
    /// The family (`general.architecture`).
    pub architecture: Architecture,
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
    /// Positions are divided by this before the rotation: linear scaling
    /// (`rope.scaling.factor`, else 1).
    pub rope_scale: f32,
    /// Added to the mean square in RMS norms (`attention.layer_norm_rms_epsilon`).
    pub epsilon: f32,
    /// Longest text in tokens (`context_length`).
    pub context: usize,
}

impl Hyperparameters {
    /// Reads the hyperparameters of a model.
    ///
    /// # Errors
    /// Another architecture, a key that is missing, or a value that fits no such model;
    /// each names the key.
    pub fn read(metadata: &Metadata<'_>) -> Result<Self> {
        let keys = Keys::of(metadata)?;
        let layers = keys.count("block_count")?;
        let width = keys.count("embedding_length")?;
        let heads = keys.same_in_all(layers, "attention.head_count")?;
        let heads = heads.ok_or_else(|| keys.missing("attention.head_count"))?;
        let head_len = match keys.optional_count("attention.key_length")? {
            Some(len) => len,
            None => keys.quotient(width, heads, "embedding_length", "attention.head_count")?,
        };
        let kv_heads = keys.same_in_all(layers, "attention.head_count_kv")?.unwrap_or(heads);
        keys.quotient(heads, kv_heads, "attention.head_count", "attention.head_count_kv")?;
        let rope_len = keys.optional_count("rope.dimension_count")?.unwrap_or(head_len);
        if rope_len > head_len || !rope_len.is_multiple_of(2) {
            let problem = format!(
                "{rope_len} numbers of a head cannot be rotated in pairs; a head has {head_len}"
            );
            return Err(Error::key(&keys.name("rope.dimension_count"), problem));
        }
        keys.refuse_what_is_not_done(head_len)?;
        let feed_forward = keys.same_in_all(layers, "feed_forward_length")?;
        Ok(Hyperparameters {
            architecture: keys.architecture,
            layers,
            width,
            feed_forward: feed_forward.ok_or_else(|| keys.missing("feed_forward_length"))?,
            heads,
            kv_heads,
            head_len,
            rope_len,
            rope_base: keys.optional_positive("rope.freq_base")?.unwrap_or(10_000.0),
            rope_scale: keys.rope_scale()?,
            epsilon: keys.positive("attention.layer_norm_rms_epsilon")?,
            context: keys.count("context_length")?,
        })
    }
}

/// Lookups of `<architecture>.<name>` that name the key when something is wrong.
struct Keys<'a> {
    metadata: &'a Metadata<'a>,
    architecture: Architecture,
}

impl<'a> Keys<'a> {
    /// For the architectures that are known here.
    fn of(metadata: &'a Metadata<'a>) -> Result<Self> {
        const KEY: &str = "general.architecture";
        match metadata.get(KEY) {
            None => Err(Error::MissingKey(KEY.into())),
            Some(Value::String(name)) => {
                let known = Architecture::ALL.into_iter().find(|known| known.name() == name);
                let Some(architecture) = known else {
                    let problem = format!(
                        "{} models are not known here, only llama, qwen2 and qwen3 models",
                        quote(name)
                    );
                    return Err(Error::key(KEY, problem));
                };
                Ok(Keys { metadata, architecture })
            }
            Some(other) => Err(Error::key(KEY, format!("{} is no name", a_value(&other)))),
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name())
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

    /// A count that may also stand in the file once a layer: then it must be the same in
    /// all of them.
    fn same_in_all(&self, layers: usize, name: &str) -> Result<Option<usize>> {
        let value = self.metadata.hyperparameter(name);
        let Some(Array::I32(counts)) = value.and_then(|value| value.array().ok()) else {
            return self.optional_count(name);
        };
        let wrong = |problem| Err(Error::key(&self.name(name), problem));
        if counts.len() != layers {
            return wrong(format!("it has {} values for {layers} layers", counts.len()));
        }
        let first = counts.iter().next().unwrap_or(0);
        if let Some(other) = counts.iter().find(|&count| count != first) {
            return wrong(format!(
                "layers differ in it ({first} and {other}): such models are not known here"
            ));
        }
        match usize::try_from(first) {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => wrong(format!("{first} is no whole number from 1 to 2147483647")),
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
        if let Some(value) = self.metadata.hyperparameter("expert_count")
            && value.as_u64() != Some(0)
        {
            let problem = format!("{}: models with experts are not known here", describe(&value));
            return Err(Error::key(&self.name("expert_count"), problem));
        }
        Ok(())
    }

    /// What positions are divided by. As in llama.cpp a factor without a type is linear,
    /// `rope.scale_linear` is its old name, and a factor of 0 is none.
    fn rope_scale(&self) -> Result<f32> {
        match self.metadata.hyperparameter("rope.scaling.type") {
            None | Some(Value::String("linear")) => {}
            Some(Value::String("none")) => return Ok(1.0),
            Some(value) => {
                let problem =
                    format!("{} scaling of positions is not known here", describe(&value));
                return Err(Error::key(&self.name("rope.scaling.type"), problem));
            }
        }
        for name in ["rope.scaling.factor", "rope.scale_linear"] {
            match self.metadata.hyperparameter(name).and_then(|value| value.as_f64()) {
                Some(0.0) => return Ok(1.0),
                _ => match self.optional_positive(name)? {
                    Some(factor) => return Ok(factor),
                    None => continue,
                },
            }
        }
        Ok(1.0)
    }
}

/// A value as an error quotes it.
fn describe(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Int64(number) => format!("{number}"),
        Value::Float64(number) => format!("{number:?}"),
        Value::Bool(truth) => format!("{truth}"),
        other => a_value(other),
    }
}
