//! Metadata values, shortened for people and whole as JSON.

use std::fmt;
use std::io::{self, Write};

use hk_std::hk_core::{Array, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::text;

/// Characters of a value that a line shows.
const LINE: usize = 72;
/// Elements of an array that a line shows, before it is shortened.
const ELEMENTS: usize = 16;

/// One line about a value: the value itself, or its beginning and size.
pub fn line(value: &Value<'_>) -> String {
    match *value {
        Value::String(string) | Value::Json(string) => match text::shorten(string, LINE) {
            short if short.ends_with('…') && !string.ends_with('…') => {
                format!("{short} ({} bytes)", string.len())
            }
            whole => whole,
        },
        Value::Int64(number) => number.to_string(),
        Value::Float64(number) => format!("{number:?}"),
        Value::Bool(truth) => truth.to_string(),
        Value::Bytes(bytes) => match Array::parse(bytes) {
            Ok(array) => array_line(&array),
            Err(_) => bytes_line(bytes),
        },
        Value::Unknown(_, bytes) => bytes_line(bytes),
        _ => String::new(),
    }
}

fn bytes_line(bytes: &[u8]) -> String {
    let count = text::count(bytes.len() as u64, "byte");
    let shown = &bytes[..bytes.len().min(LINE / 2)];
    let more = if shown.len() < bytes.len() { "…" } else { "" };
    format!("{count}: {}{more}", text::hex(shown))
}

fn array_line(array: &Array<'_>) -> String {
    let (kind, elements) = match array {
        Array::Strings(strings) => {
            let show = |string| text::shorten(&text::quote(string, LINE), LINE);
            ("string", list(strings.iter().map(show), strings.len()))
        }
        Array::F32(numbers) => {
            ("float", list(numbers.iter().map(|n| format!("{n:?}")), numbers.len()))
        }
        Array::I32(numbers) => {
            ("integer", list(numbers.iter().map(|n| n.to_string()), numbers.len()))
        }
        _ => ("element", String::new()),
    };
    format!("{}: {elements}", text::count(array.len() as u64, kind))
}

/// The first elements in brackets.
fn list(elements: impl Iterator<Item = String>, len: usize) -> String {
    let mut line = String::from("[");
    let mut shown = 0;
    for element in elements.take(ELEMENTS) {
        if line.len() + element.len() > LINE && shown > 0 {
            break;
        }
        if shown > 0 {
            line.push_str(", ");
        }
        line.push_str(&element);
        shown += 1;
    }
    line.push_str(if shown < len { ", …]" } else { "]" });
    line
}

/// Writes a value as JSON, whole:
///
/// - a string, number or truth value as such; NaN and infinities as the strings `"NaN"`,
///   `"Infinity"`, `"-Infinity"`;
/// - JSON as the document itself, or as a string where it does not parse;
/// - a packed array as an array; a string in it that is not UTF-8 as `{"hex": "..."}`;
/// - other bytes, and values of an unknown type, as a string of hexadecimal digits.
///
/// # Errors
/// `out` cannot be written.
pub fn json(out: &mut dyn Write, value: &Value<'_>) -> io::Result<()> {
    match *value {
        Value::String(string) => json_string(out, string),
        Value::Int64(number) => write!(out, "{number}"),
        Value::Float64(number) => json_float(out, number),
        Value::Bool(truth) => write!(out, "{truth}"),
        // As it stands, so that no digit of a number is lost.
        Value::Json(text) if is_json(text) => out.write_all(text.trim().as_bytes()),
        Value::Json(text) => json_string(out, text),
        Value::Bytes(bytes) => match Array::parse(bytes) {
            Ok(array) => json_array(out, &array),
            Err(_) => json_hex(out, bytes),
        },
        Value::Unknown(_, bytes) => json_hex(out, bytes),
        _ => out.write_all(b"null"),
    }
}

/// Writes `string` as a JSON string.
///
/// # Errors
/// `out` cannot be written.
pub fn json_string(out: &mut dyn Write, string: &str) -> io::Result<()> {
    serde_json::to_writer(out, string).map_err(io::Error::from)
}

/// Writes a float as a JSON number in the fewest digits that give it back, or as a string
/// where JSON has no number for it.
fn json_float<F: Into<f64> + Copy + serde::Serialize>(
    out: &mut dyn Write,
    number: F,
) -> io::Result<()> {
    let wide: f64 = number.into();
    if wide.is_finite() {
        serde_json::to_writer(out, &number).map_err(io::Error::from)
    } else {
        write!(out, "\"{}\"", non_finite(wide))
    }
}

/// The name of a float that is no number in JSON.
pub fn non_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Whether `text` is a JSON document that any reader takes: one that nests over 128 deep,
/// or has a number past the range of f64, is none. Builds nothing.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<Checked>(text).is_ok()
}

/// Any JSON value, checked and thrown away. (`IgnoredAny` would nest without a limit.)
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Checked)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Checked, A::Error> {
        while elements.next_element::<Checked>()?.is_some() {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Checked, A::Error> {
        while entries.next_entry::<Checked, Checked>()?.is_some() {}
        Ok(Checked)
    }
}

fn json_hex(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    for chunk in bytes.chunks(4096) {
        out.write_all(text::hex(chunk).as_bytes())?;
    }
    out.write_all(b"\"")
}

fn json_array(out: &mut dyn Write, array: &Array<'_>) -> io::Result<()> {
    match array {
        Array::Strings(strings) => json_list(out, strings.iter(), json_element),
        Array::F32(numbers) => json_list(out, numbers.iter(), json_float),
        Array::I32(numbers) => json_list(out, numbers.iter(), |out, n| write!(out, "{n}")),
        _ => out.write_all(b"null"),
    }
}

fn json_element(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(string) => json_string(out, string),
        Err(_) => {
            out.write_all(b"{\"hex\": ")?;
            json_hex(out, bytes)?;
            out.write_all(b"}")
        }
    }
}

/// Writes `[a, b, c]`.
fn json_list<T>(
    out: &mut dyn Write,
    elements: impl Iterator<Item = T>,
    write: impl Fn(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.write_all(b", ")?;
        }
        write(out, element)?;
    }
    out.write_all(b"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_json(value: Value<'_>) -> String {
        let mut out = Vec::new();
        json(&mut out, &value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_values_lose_nothing() {
        assert_eq!(as_json(Value::Int64(i64::MIN)), "-9223372036854775808");
        assert_eq!(as_json(Value::Float64(0.1)), "0.1");
        assert_eq!(as_json(Value::Float64(f64::NEG_INFINITY)), "\"-Infinity\"");
        assert_eq!(
            as_json(Value::Json("[1, 12345678901234567890123]")),
            "[1, 12345678901234567890123]"
        );
        let every_kind =
            r#" {"a": [null, true, -1, 1e300, "x\n", {}], "b": 18446744073709551615} "#;
        assert_eq!(as_json(Value::Json(every_kind)), every_kind.trim());
        assert_eq!(as_json(Value::Json("[1,")), "\"[1,\"");
        assert_eq!(as_json(Value::Json("1 2")), "\"1 2\"");
        assert_eq!(as_json(Value::Json("")), "\"\"");
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(as_json(Value::Json(&deep)), format!("\"{deep}\""));
        assert_eq!(as_json(Value::Bytes(&[0, 255])), "\"00ff\"");
        let mut strings = vec![1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0];
        strings.extend(b"a\xC3\x28");
        assert_eq!(as_json(Value::Bytes(&strings)), r#"["a", {"hex": "c328"}]"#);
        let mut floats = vec![2, 0, 0, 0, 2, 0, 0, 0];
        floats.extend([0.1f32, f32::NAN].iter().flat_map(|n| n.to_le_bytes()));
        assert_eq!(as_json(Value::Bytes(&floats)), r#"[0.1, "NaN"]"#);
    }

    #[test]
    fn lines_are_short() {
        let long = "word ".repeat(1000);
        let shown = line(&Value::String(&long));
        assert!(shown.chars().count() < 100 && shown.ends_with("… (5000 bytes)"), "{shown}");
        let mut numbers = vec![3, 0, 0, 0, 100, 0, 0, 0];
        numbers.extend((0..100i32).flat_map(|n| n.to_le_bytes()));
        let shown = line(&Value::Bytes(&numbers));
        assert!(shown.starts_with("100 integers: [0, 1, 2"), "{shown}");
        assert!(shown.ends_with(", …]"), "{shown}");
        assert_eq!(line(&Value::Bytes(&[0xAB])), "1 byte: ab");
    }
}
