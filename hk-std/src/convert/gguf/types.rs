//! The types of GGUF metadata values, and what an HK value says of them.

use std::fmt;

use hk_core::{Array, Value};
use serde_json::Value as Json;

/// The metadata key under which a converted file keeps the GGUF types that its values do
/// not imply.
pub const TYPES_KEY: &str = "hk.gguf.types";

/// The type of a GGUF metadata value, by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)] // The names are GGUF's.
pub enum ValueType {
    Uint8 = 0,
    Int8 = 1,
    Uint16 = 2,
    Int16 = 3,
    Uint32 = 4,
    Int32 = 5,
    Float32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    Uint64 = 10,
    Int64 = 11,
    Float64 = 12,
}

const NAMES: [(ValueType, &str); 13] = [
    (ValueType::Uint8, "UINT8"),
    (ValueType::Int8, "INT8"),
    (ValueType::Uint16, "UINT16"),
    (ValueType::Int16, "INT16"),
    (ValueType::Uint32, "UINT32"),
    (ValueType::Int32, "INT32"),
    (ValueType::Float32, "FLOAT32"),
    (ValueType::Bool, "BOOL"),
    (ValueType::String, "STRING"),
    (ValueType::Array, "ARRAY"),
    (ValueType::Uint64, "UINT64"),
    (ValueType::Int64, "INT64"),
    (ValueType::Float64, "FLOAT64"),
];

impl ValueType {
    /// The type with the number `id`.
    pub fn from_id(id: u32) -> Option<Self> {
        NAMES.get(usize::try_from(id).ok()?).map(|(kind, _)| *kind)
    }

    /// Its number in a GGUF file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Its name in GGUF's documents.
    pub fn name(self) -> &'static str {
        NAMES[self.id() as usize].1
    }

    /// The type called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind)
    }

    /// The fewest bytes that a value takes in a GGUF file; for numbers and bools the exact
    /// size.
    pub const fn min_size(self) -> u64 {
        match self {
            Self::Uint8 | Self::Int8 | Self::Bool => 1,
            Self::Uint16 | Self::Int16 => 2,
            Self::Uint32 | Self::Int32 | Self::Float32 => 4,
            Self::Uint64 | Self::Int64 | Self::Float64 | Self::String => 8,
            Self::Array => 12,
        }
    }
}

/// The whole type of a GGUF metadata value, elements of arrays included.
///
/// [`TYPES_KEY`] keeps it as JSON, which is also its `Display` form. A plain type is its name (`"UINT8"`), an array `["ARRAY", element type]`. An
/// array of arrays nests (`["ARRAY", ["ARRAY", "UINT8"]]`); one without elements is
/// `["ARRAY", "ARRAY"]`; one whose elements have different types lists them:
/// `["ARRAY", {"each": [["ARRAY", "UINT8"], ["ARRAY", "STRING"]]}]`.
///
/// ```
/// use hk_std::convert::gguf::{GgufType, ValueType};
/// let of_bytes = GgufType::array_of(ValueType::Uint8);
/// assert_eq!(of_bytes.to_string(), r#"["ARRAY","UINT8"]"#);
/// let json = serde_json::from_str(&of_bytes.to_string()).unwrap();
/// assert_eq!(GgufType::from_json(&json), Some(of_bytes));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GgufType {
    /// A value that is no array; as the element type of an array, also
    /// [`ValueType::Array`]: no element is there to say more.
    Plain(ValueType),
    /// An array whose elements all have one type.
    Array(Box<GgufType>),
    /// An array of arrays that have different types.
    Mixed(Vec<GgufType>),
}

impl GgufType {
    /// An array of plain values.
    pub fn array_of(element: ValueType) -> Self {
        GgufType::Array(Box::new(GgufType::Plain(element)))
    }

    /// Reads what `Display` writes; `None` for anything else.
    pub fn from_json(json: &Json) -> Option<Self> {
        if let Some(name) = json.as_str() {
            return ValueType::from_name(name).map(GgufType::Plain);
        }
        let [Json::String(array), element] = json.as_array()?.as_slice() else { return None };
        if array != "ARRAY" {
            return None;
        }
        match element.get("each") {
            None => Self::from_json(element).map(|element| GgufType::Array(Box::new(element))),
            Some(each) => {
                let each = each.as_array()?.iter().map(Self::from_json);
                each.collect::<Option<_>>().map(GgufType::Mixed)
            }
        }
    }

    /// The GGUF type that `value` has when nothing else is said of `key` (payloads.md,
    /// "Packed arrays"): int64 is INT64, or UINT32 for the keys that GGUF defines so;
    /// float64 is FLOAT32 when that is exact, else FLOAT64; packed arrays go by kind.
    /// `None` for values that GGUF has no form for: json, other bytes, unknown tags.
    pub fn implied(key: &str, value: &Value<'_>) -> Option<Self> {
        Some(match *value {
            Value::String(_) => GgufType::Plain(ValueType::String),
            Value::Bool(_) => GgufType::Plain(ValueType::Bool),
            Value::Int64(n) if is_uint32_key(key) && u32::try_from(n).is_ok() => {
                GgufType::Plain(ValueType::Uint32)
            }
            Value::Int64(_) => GgufType::Plain(ValueType::Int64),
            Value::Float64(x) if narrow(x).is_some() => GgufType::Plain(ValueType::Float32),
            Value::Float64(_) => GgufType::Plain(ValueType::Float64),
            Value::Bytes(_) => match value.array().ok()? {
                Array::Strings(_) => GgufType::array_of(ValueType::String),
                Array::F32(_) => GgufType::array_of(ValueType::Float32),
                Array::I32(_) => GgufType::array_of(ValueType::Int32),
                _ => return None,
            },
            _ => return None,
        })
    }
}

impl fmt::Display for GgufType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GgufType::Plain(kind) => write!(f, "\"{}\"", kind.name()),
            GgufType::Array(element) => write!(f, "[\"ARRAY\",{element}]"),
            GgufType::Mixed(elements) => {
                f.write_str("[\"ARRAY\",{\"each\":[")?;
                for (index, element) in elements.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{element}")?;
                }
                f.write_str("]}]")
            }
        }
    }
}

/// `x` as f64 without touching a NaN's payload, so that [`narrow`] finds the same bits.
pub(super) fn widen(x: f32) -> f64 {
    if x.is_nan() {
        let bits = u64::from(x.to_bits());
        return f64::from_bits((bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7F_FFFF) << 29);
    }
    f64::from(x)
}

/// The f32 that is exactly `x`, NaN payload included; `None` when there is none.
pub fn narrow(x: f64) -> Option<f32> {
    if x.is_nan() {
        let bits = x.to_bits();
        let narrowed = (bits >> 63) << 31 | 0xFF << 23 | bits >> 29 & 0x7F_FFFF;
        let narrowed = f32::from_bits(narrowed as u32);
        return (widen(narrowed).to_bits() == bits).then_some(narrowed);
    }
    let narrowed = x as f32;
    (f64::from(narrowed) == x).then_some(narrowed)
}

/// Whether GGUF defines `key` as UINT32. Keys of an architecture are known by what
/// follows its name. Files depend on this list: an entry may be added only together with
/// a reader's care for the files that were written before.
fn is_uint32_key(key: &str) -> bool {
    let of_tokenizer = key.strip_prefix("tokenizer.ggml.");
    if let Some(name) = of_tokenizer {
        return name.ends_with("_token_id") || name == "token_type_count";
    }
    let Some((first, rest)) = key.split_once('.') else { return false };
    let list = if first == "general" { &UINT32_GENERAL[..] } else { &UINT32_HYPERPARAMETERS[..] };
    list.binary_search(&rest).is_ok()
}

const UINT32_GENERAL: [&str; 5] =
    ["alignment", "base_model.count", "dataset.count", "file_type", "quantization_version"];

const UINT32_HYPERPARAMETERS: [&str; 52] = [
    "attention.group_norm_groups",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.key_length_swa",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.relative_buckets_count",
    "attention.shared_kv_layers",
    "attention.sliding_window",
    "attention.temperature_length",
    "attention.value_length",
    "attention.value_length_mla",
    "attention.value_length_swa",
    "block_count",
    "context_length",
    "decoder_block_count",
    "decoder_start_token_id",
    "embedding_length",
    "embedding_length_out",
    "embedding_length_per_layer_input",
    "expert_chunk_feed_forward_length",
    "expert_count",
    "expert_feed_forward_length",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_used_count",
    "experts_per_group",
    "features_length",
    "feed_forward_length",
    "full_attention_interval",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "moe_every_n_layers",
    "nextn_predict_layers",
    "pooling_type",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.scaling.original_context_length",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "token_shift_count",
    "vocab_size",
    "wkv.head_size",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (id, (kind, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(kind.id() as usize, id);
            assert_eq!(ValueType::from_id(id as u32), Some(kind));
            assert_eq!(ValueType::from_name(name), Some(kind));
            assert_eq!(kind.name(), name);
        }
        assert_eq!(ValueType::from_id(13), None);
        assert_eq!(ValueType::from_id(u32::MAX), None);
    }

    #[test]
    fn key_lists_are_sorted_for_the_binary_search() {
        assert!(UINT32_GENERAL.is_sorted());
        assert!(UINT32_HYPERPARAMETERS.is_sorted());
        for key in ["general.alignment", "llama.block_count", "tokenizer.ggml.bos_token_id"] {
            assert!(is_uint32_key(key), "{key}");
        }
        for key in ["alignment", "split.count", "general.block_count", "llama.rope.freq_base", ""] {
            assert!(!is_uint32_key(key), "{key}");
        }
    }

    #[test]
    fn floats_narrow_exactly_or_not_at_all() {
        let exact =
            [0x0000_0000, 0x8000_0000, 1, 0x7F80_0000, 0x7F80_0001, 0xFFC1_2345, 0x3F80_0000];
        for bits in exact {
            let x = f32::from_bits(bits);
            assert_eq!(narrow(widen(x)).map(f32::to_bits), Some(bits));
        }
        for x in [0.1, 1e300, f64::MIN_POSITIVE, f64::from_bits(0x7FF0_0000_0000_0001)] {
            assert_eq!(narrow(x), None);
        }
    }

    #[test]
    fn types_survive_json() {
        let bytes = GgufType::array_of(ValueType::Uint8);
        let texts = GgufType::array_of(ValueType::String);
        let nothing = GgufType::array_of(ValueType::Array);
        let nested = GgufType::Array(Box::new(bytes.clone()));
        let mixed = GgufType::Mixed(vec![bytes.clone(), texts, nested.clone()]);
        let plain = GgufType::Plain(ValueType::Float64);
        for kind in [plain, bytes, nothing, nested, mixed] {
            let json = serde_json::from_str(&kind.to_string()).unwrap();
            assert_eq!(GgufType::from_json(&json), Some(kind));
        }
        for text in ["1", "\"UINT7\"", "[\"ARRAY\"]", "[\"LIST\",\"BOOL\"]", "{}", "null"] {
            let json = serde_json::from_str(text).unwrap();
            assert_eq!(GgufType::from_json(&json), None, "{text}");
        }
    }
}
