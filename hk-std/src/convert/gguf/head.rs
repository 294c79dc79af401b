//! The head of a GGUF file: magic, version, metadata, tensor table.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{Read, Seek};

use hk_core::Value;

use super::source::{DAMAGED, Fault, Result, Source};
use super::tensors::{Tensor, read_tensors};
use super::types::{GgufType, TYPES_KEY, ValueType};
use super::values::{Converted, Owned, read_value};

/// Alignment of payloads where `general.alignment` does not say otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_ALIGNMENT: u64 = 65536;

/// Fewest bytes of a metadata pair: key length, type, a one-byte value.
const MIN_PAIR: u64 = 8 + 4 + 1;

/// What the head says beside the metadata.
pub(super) struct Head {
    pub(super) tensors: Vec<Tensor>,
    /// Number of files that the model is split over.
    pub(super) split_count: u64,
}

/// Reads the whole head. Each metadata pair goes to `pair` as soon as it is read, the pair
/// [`TYPES_KEY`] last, so that only one is held here.
pub(super) fn read_head<R: Read + Seek>(
    source: &mut Source<R>,
    mut pair: impl FnMut(&str, Value<'_>) -> Result<(), String>,
) -> Result<Head> {
    check_version(source)?;
    let (tensors, pairs) = (source.u64()?, source.u64()?);
    source.need(pairs, MIN_PAIR, "metadata pairs")?;
    let mut seen = Seen::default();
    for index in 0..pairs {
        let start = source.offset();
        let number = format!("metadata pair {index}");
        let key = source.text("the key").map_err(|e| e.within(&number))?;
        let place = || format!("{number}, {}", short(&key));
        let fault = |text: String| Fault::new(start, text).within(place());
        check_key(&key, &seen.keys).map_err(fault)?;
        let converted = read_value(source).map_err(|e| e.within(place()))?;
        pair(&key, converted.value.as_value()).map_err(fault)?;
        seen.note(&key, &converted).map_err(fault)?;
        seen.keys.insert(key);
    }
    let types = format!("{{{}}}", seen.types);
    pair(TYPES_KEY, Value::Json(&types)).map_err(|text| source.fault(text))?;
    let tensors = read_tensors(source, tensors, seen.alignment)?;
    Ok(Head { tensors, split_count: seen.split_count })
}

/// What the pairs so far say.
struct Seen {
    keys: HashSet<String>,
    /// Members of the JSON object of types.
    types: String,
    alignment: u64,
    split_count: u64,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            keys: HashSet::new(),
            types: String::new(),
            alignment: DEFAULT_ALIGNMENT,
            split_count: 1,
        }
    }
}

impl Seen {
    fn note(&mut self, key: &str, converted: &Converted) -> Result<(), String> {
        match key {
            "general.alignment" => self.alignment = read_alignment(converted)?,
            "split.count" => {
                self.split_count = converted.value.as_value().as_u64().unwrap_or(1).max(1);
            }
            _ => {}
        }
        let implied = GgufType::implied(key, &converted.value.as_value());
        if implied.as_ref() != Some(&converted.kind) {
            let comma = if self.types.is_empty() { "" } else { "," };
            let key = serde_json::Value::from(key);
            // Writing to a String cannot fail.
            let _ = write!(self.types, "{comma}{key}:{}", converted.kind);
        }
        Ok(())
    }
}

/// Checks the first 8 bytes.
fn check_version<R: Read + Seek>(source: &mut Source<R>) -> Result<()> {
    let magic = source.peek(4)?;
    if magic != b"GGUF" {
        let text = not_gguf(magic);
        return Err(source.fault(text));
    }
    source.u32()?;
    let start = source.offset();
    let text = match source.u32()? {
        2 | 3 => return Ok(()),
        1 => "GGUF version 1 has 32-bit lengths and is not read here: convert the model again \
              with a newer tool"
            .into(),
        // The low half of a version is never 0, unless its bytes are in the other order.
        version if version & 0xFFFF == 0 && version != 0 => {
            "this GGUF file is big-endian, and only little-endian files are read: make a \
             little-endian one (gguf-convert-endian of the Python package gguf does it)"
                .to_owned()
        }
        version => format!("GGUF version {version} is not known here, only 2 and 3"),
    };
    Err(Fault::new(start, text))
}

/// What to say of a file that does not start with `GGUF`.
fn not_gguf(magic: &[u8]) -> String {
    match magic {
        b"HKNT" => "this is an HK file already, not GGUF".into(),
        [] => "the file is empty, not GGUF".into(),
        b"lmgg" | b"fmgg" | b"tjgg" | b"algg" => {
            "this is a model in a GGML format older than GGUF: convert it to GGUF first".into()
        }
        other => {
            format!("not a GGUF file: it starts with \"{}\", not \"GGUF\"", other.escape_ascii())
        }
    }
}

fn check_key(key: &str, keys: &HashSet<String>) -> Result<(), String> {
    if keys.contains(key) {
        return Err(
            "a pair before it has the same key: write the file again with unique keys".into()
        );
    }
    if key.len() > usize::from(u16::MAX) {
        return Err(format!(
            "a key of {} bytes, where at most 65535 are allowed; {DAMAGED}",
            key.len()
        ));
    }
    if key == TYPES_KEY {
        return Err("HK keeps GGUF's value types under this key: remove it from the file".into());
    }
    Ok(())
}

fn read_alignment(converted: &Converted) -> Result<u64, String> {
    let number = match (&converted.kind, &converted.value) {
        (GgufType::Plain(ValueType::Uint32), Owned::Int64(number)) => *number,
        _ => return Err(format!("the alignment must be a UINT32; {DAMAGED}")),
    };
    match u64::try_from(number) {
        Ok(number) if number.is_power_of_two() && number <= MAX_ALIGNMENT => Ok(number),
        _ => Err(format!(
            "an alignment of {number}, which must be a power of two, at most {MAX_ALIGNMENT}; {DAMAGED}"
        )),
    }
}

/// A key as messages show it: quoted, and no longer than a line.
fn short(key: &str) -> String {
    match key.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", key.get(..end).unwrap_or_default()),
        None => format!("{key:?}"),
    }
}
