//! The metadata section, pair by pair.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hk_core::{Header, MetadataHead, Section, Value, ValueType};
use serde::de::IgnoredAny;

use super::header::section;
use super::report::{Report, Severity, bytes, short_name};
use super::space::Space;

/// Checks the metadata. A pair that is wrong is reported and stepped over; only one that
/// passes the section's end stops the walk.
pub(super) fn check(file: &[u8], header: &Header, report: &mut Report, space: &mut Space<'_>) {
    let (bytes_there, base) = section(file, header.metadata);
    let mut walk = Walk { rest: bytes_there, at: base };
    let mut keys: HashMap<&[u8], u64> = HashMap::new();
    for index in 0..header.metadata_kv_count {
        let Some(pair) = walk.next() else {
            let count = header.metadata_kv_count;
            let text = format!("pair {index} of {count} is cut short: {} left", bytes(walk.left()));
            report.fault(Section::Metadata, walk.at, text);
            space.incomplete();
            return;
        };
        match keys.entry(pair.key) {
            Entry::Vacant(entry) => {
                entry.insert(pair.at);
            }
            Entry::Occupied(first) => {
                let text =
                    format!("a second value; readers take the first, at byte {}", first.get());
                let name = String::from_utf8_lossy(pair.key);
                report.about(Severity::Fault, Section::Metadata, pair.at, &name, text);
            }
        }
        check_pair(&pair, header, report);
    }
    if walk.left() > 0 {
        let text = format!("{} left over after the last pair", bytes(walk.left()));
        report.note(Section::Metadata, walk.at, text);
    }
}

/// A pair whose lengths fit; its key and value may be anything.
struct Pair<'a> {
    at: u64,
    key: &'a [u8],
    tag: ValueType,
    value_at: u64,
    value: &'a [u8],
}

struct Walk<'a> {
    rest: &'a [u8],
    at: u64,
}

impl<'a> Walk<'a> {
    fn left(&self) -> u64 {
        self.rest.len() as u64
    }

    fn next(&mut self) -> Option<Pair<'a>> {
        let (key_len, rest) = self.rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_len)))?;
        let ([tag], rest) = rest.split_first_chunk::<1>()?;
        let (value_len, rest) = rest.split_first_chunk::<4>()?;
        let value_len = usize::try_from(u32::from_le_bytes(*value_len)).ok()?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        let at = self.at;
        let value_at = at + 2 + key.len() as u64 + 5;
        self.at = value_at + value.len() as u64;
        self.rest = rest;
        Some(Pair { at, key, tag: ValueType(*tag), value_at, value })
    }
}

fn check_pair(pair: &Pair<'_>, header: &Header, report: &mut Report) {
    let key = std::str::from_utf8(pair.key);
    if let Err(error) = key {
        let at = pair.at + 2 + error.valid_up_to() as u64;
        report.fault(Section::Metadata, at, "a key is not UTF-8");
    }
    let name = &*String::from_utf8_lossy(pair.key);
    let mut add = |severity, at, text| report.about(severity, Section::Metadata, at, name, text);
    let head = MetadataHead {
        key: "",
        tag: pair.tag,
        // The length has been read from 32 bits.
        value_len: pair.value.len() as u32,
        len: 0,
    };
    match head.value(pair.value) {
        Err(error) => {
            let at = pair.value_at.saturating_add(error.offset());
            add(Severity::Fault, at, error.kind().to_string());
        }
        Ok(Value::Unknown(tag, _)) => {
            add(Severity::Note, pair.at, format!("a value of unknown type {tag}"));
        }
        Ok(Value::Json(text)) => {
            if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
                add(Severity::Note, pair.value_at, format!("a json value does not parse: {error}"));
            }
        }
        Ok(value) => check_shard_value(name, &value, header, |text| {
            add(Severity::Note, pair.value_at, text);
        }),
    }
}

/// The metadata may repeat what the header says of the shard: as text or as a number.
fn check_shard_value(key: &str, value: &Value<'_>, header: &Header, note: impl FnOnce(String)) {
    let in_header = match key {
        "split_index" => header.split_index,
        "split_count" => header.shards(),
        _ => return,
    };
    let stated = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    };
    if stated != Some(i64::from(in_header)) {
        let said = match value {
            Value::String(text) => short_name(text),
            value => stated.map_or_else(|| format!("a {}", value.tag()), |n| n.to_string()),
        };
        note(format!("{said:?} here, but {in_header} in the header"));
    }
}
