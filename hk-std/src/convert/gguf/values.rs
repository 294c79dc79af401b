//! GGUF metadata values as HK values (payloads.md, "Packed arrays").

use std::fmt::Write as _;
use std::io::{Read, Seek};

use hk_core::Value;
use hk_core::build::{BuildError, pack_f32, pack_i32, pack_strings};

use super::source::{DAMAGED, Fault, Result, Source};
use super::types::{GgufType, ValueType, widen};

/// Deepest nesting of arrays that is read.
const MAX_DEPTH: u32 = 32;

/// A value of the HK file, and the GGUF type that it came from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Converted {
    pub(super) value: Owned,
    pub(super) kind: GgufType,
}

/// An HK value with bytes of its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Owned {
    String(String),
    Int64(i64),
    Float64(f64),
    Bool(bool),
    Json(String),
    /// A packed array.
    Bytes(Vec<u8>),
}

impl Owned {
    pub(super) fn as_value(&self) -> Value<'_> {
        match self {
            Owned::String(text) => Value::String(text),
            Owned::Int64(number) => Value::Int64(*number),
            Owned::Float64(number) => Value::Float64(*number),
            Owned::Bool(truth) => Value::Bool(*truth),
            Owned::Json(text) => Value::Json(text),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// Reads a value's type and the value.
pub(super) fn read_value<R: Read + Seek>(source: &mut Source<R>) -> Result<Converted> {
    let kind = read_type(source)?;
    let value = match kind {
        ValueType::String => Owned::String(source.text("the string")?),
        ValueType::Bool => Owned::Bool(read_bool(source)?),
        ValueType::Float32 => Owned::Float64(widen(f32::from_le_bytes(source.array()?))),
        ValueType::Float64 => Owned::Float64(f64::from_le_bytes(source.array()?)),
        ValueType::Array => return read_array(source),
        integer => {
            let start = source.offset();
            let number = read_integer(source, integer)?;
            Owned::Int64(i64::try_from(number).map_err(|_| {
                Fault::new(
                    start,
                    format!(
                        "the UINT64 {number} is above 9223372036854775807, the largest integer \
                         that HK metadata holds: store it as a string"
                    ),
                )
            })?)
        }
    };
    Ok(Converted { value, kind: GgufType::Plain(kind) })
}

fn read_type<R: Read + Seek>(source: &mut Source<R>) -> Result<ValueType> {
    let start = source.offset();
    let id = source.u32()?;
    ValueType::from_id(id).ok_or_else(|| {
        Fault::new(start, format!("GGUF defines no value type {id}, only 0 to 12; {DAMAGED}"))
    })
}

fn read_bool<R: Read + Seek>(source: &mut Source<R>) -> Result<bool> {
    match source.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [byte] => Err(Fault::new(
            source.offset() - 1,
            format!("a BOOL of {byte}, where GGUF allows 0 and 1; {DAMAGED}"),
        )),
    }
}

/// Reads an integer or bool of any width.
fn read_integer<R: Read + Seek>(source: &mut Source<R>, kind: ValueType) -> Result<i128> {
    Ok(match kind {
        ValueType::Uint8 => u8::from_le_bytes(source.array()?).into(),
        ValueType::Int8 => i8::from_le_bytes(source.array()?).into(),
        ValueType::Uint16 => u16::from_le_bytes(source.array()?).into(),
        ValueType::Int16 => i16::from_le_bytes(source.array()?).into(),
        ValueType::Uint32 => u32::from_le_bytes(source.array()?).into(),
        ValueType::Int32 => i32::from_le_bytes(source.array()?).into(),
        ValueType::Uint64 => u64::from_le_bytes(source.array()?).into(),
        ValueType::Int64 => i64::from_le_bytes(source.array()?).into(),
        ValueType::Bool => read_bool(source)?.into(),
        other => return Err(source.fault(format!("{} is no integer", other.name()))),
    })
}

/// Reads an array: its element type, its count, its elements.
fn read_array<R: Read + Seek>(source: &mut Source<R>) -> Result<Converted> {
    let (element, count) = read_array_head(source)?;
    let start = source.offset();
    let packed = match element {
        ValueType::String => read_strings(source, count)?,
        ValueType::Float32 => {
            let mut numbers = Vec::new();
            source.values(count, |bytes| numbers.push(f32::from_le_bytes(bytes)))?;
            pack_f32(numbers)
        }
        ValueType::Float64 | ValueType::Array => return read_json_array(source, element, count),
        _ => match read_integers(source, element, count)? {
            Integers::Narrow(numbers) => pack_i32(numbers),
            Integers::Wide(text) => {
                let kind = GgufType::array_of(element);
                return Ok(Converted { value: Owned::Json(text), kind });
            }
        },
    };
    let packed = packed.map_err(|e| Fault::new(start, e.to_string()))?;
    Ok(Converted { value: Owned::Bytes(packed), kind: GgufType::array_of(element) })
}

fn read_array_head<R: Read + Seek>(source: &mut Source<R>) -> Result<(ValueType, u64)> {
    let element = read_type(source)?;
    let count = source.u64()?;
    source.need(count, element.min_size(), "array elements")?;
    Ok((element, count))
}

/// Packs strings while they are read. They need not be UTF-8: vocabularies hold parts of
/// characters.
fn read_strings<R: Read + Seek>(
    source: &mut Source<R>,
    count: u64,
) -> Result<Result<Vec<u8>, BuildError>> {
    let mut fault = None;
    let strings = (0..count).map_while(|_| read_bytes(source).map_err(|e| fault = Some(e)).ok());
    let packed = pack_strings(strings);
    match fault {
        Some(fault) => Err(fault),
        None => Ok(packed),
    }
}

fn read_bytes<R: Read + Seek>(source: &mut Source<R>) -> Result<Vec<u8>> {
    let len = source.u64()?;
    let mut bytes = Vec::new();
    source.append(&mut bytes, len)?;
    Ok(bytes)
}

/// The elements of an array of integers or bools.
enum Integers {
    /// All fit i32.
    Narrow(Vec<i32>),
    /// Some do not: the JSON text of all.
    Wide(String),
}

fn read_integers<R: Read + Seek>(
    source: &mut Source<R>,
    element: ValueType,
    count: u64,
) -> Result<Integers> {
    let mut narrow = Vec::new();
    for index in 0..count {
        let number = read_integer(source, element)?;
        let Ok(number) = i32::try_from(number) else {
            let text = json_from(source, element, &narrow, number, count - index - 1)?;
            return Ok(Integers::Wide(text));
        };
        narrow.push(number);
    }
    Ok(Integers::Narrow(narrow))
}

/// The JSON text of integers of which `before` and `first` have been read, and `left` not.
fn json_from<R: Read + Seek>(
    source: &mut Source<R>,
    element: ValueType,
    before: &[i32],
    first: i128,
    left: u64,
) -> Result<String> {
    let mut text = String::from("[");
    for number in before {
        push(&mut text, format_args!("{number},"));
    }
    push(&mut text, format_args!("{first}"));
    for _ in 0..left {
        let number = read_integer(source, element)?;
        push(&mut text, format_args!(",{number}"));
    }
    text.push(']');
    Ok(text)
}

/// Reads an array that no packed form has room for.
fn read_json_array<R: Read + Seek>(
    source: &mut Source<R>,
    element: ValueType,
    count: u64,
) -> Result<Converted> {
    let mut text = String::new();
    let kind = push_array(source, element, count, 1, &mut text)?;
    Ok(Converted { value: Owned::Json(text), kind })
}

/// Appends the JSON text of an array whose head has been read.
fn push_array<R: Read + Seek>(
    source: &mut Source<R>,
    element: ValueType,
    count: u64,
    depth: u32,
    text: &mut String,
) -> Result<GgufType> {
    let mut kinds = Kinds::default();
    text.push('[');
    for index in 0..count {
        if index > 0 {
            text.push(',');
        }
        if element == ValueType::Array {
            let deeper = depth + 1;
            if deeper > MAX_DEPTH {
                return Err(source.fault(format!(
                    "arrays are nested more than {MAX_DEPTH} deep, which no model needs; {DAMAGED}"
                )));
            }
            let (element, count) = read_array_head(source)?;
            kinds.push(push_array(source, element, count, deeper, text)?);
        } else {
            push_element(source, element, text)?;
        }
    }
    text.push(']');
    Ok(match element {
        ValueType::Array => kinds.into_type(),
        plain => GgufType::array_of(plain),
    })
}

fn push_element<R: Read + Seek>(
    source: &mut Source<R>,
    kind: ValueType,
    text: &mut String,
) -> Result<()> {
    match kind {
        ValueType::String => {
            let string = source.text("a string of a nested array")?;
            push(text, format_args!("{}", serde_json::Value::from(string)));
        }
        ValueType::Bool => text.push_str(if read_bool(source)? { "true" } else { "false" }),
        ValueType::Float32 => push_f64(f32::from_le_bytes(source.array()?).into(), text),
        ValueType::Float64 => push_f64(f64::from_le_bytes(source.array()?), text),
        integer => {
            let number = read_integer(source, integer)?;
            push(text, format_args!("{number}"));
        }
    }
    Ok(())
}

/// Appends the shortest text that reads back as the same f64.
fn push_f64(x: f64, text: &mut String) {
    match non_finite(x) {
        Some(word) => push(text, format_args!("\"{word}\"")),
        None => push(text, format_args!("{x:?}")),
    }
}

fn non_finite(x: f64) -> Option<&'static str> {
    if x.is_nan() {
        Some("NaN")
    } else if x == f64::INFINITY {
        Some("Infinity")
    } else if x == f64::NEG_INFINITY {
        Some("-Infinity")
    } else {
        None
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(arguments);
}

/// The types of an array's elements, as one while they are equal.
#[derive(Default)]
struct Kinds {
    common: Option<GgufType>,
    count: usize,
    mixed: Vec<GgufType>,
}

impl Kinds {
    fn push(&mut self, kind: GgufType) {
        self.count += 1;
        if !self.mixed.is_empty() {
            self.mixed.push(kind);
            return;
        }
        match &self.common {
            None => self.common = Some(kind),
            Some(common) if *common == kind => {}
            Some(common) => {
                self.mixed = vec![common.clone(); self.count - 1];
                self.mixed.push(kind);
            }
        }
    }

    fn into_type(self) -> GgufType {
        if !self.mixed.is_empty() {
            return GgufType::Mixed(self.mixed);
        }
        match self.common {
            Some(common) => GgufType::Array(Box::new(common)),
            None => GgufType::array_of(ValueType::Array),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn convert(bytes: &[u8]) -> Result<Converted> {
        let mut source = Source::new(Cursor::new(bytes)).unwrap();
        let converted = read_value(&mut source)?;
        assert_eq!(source.offset(), bytes.len() as u64);
        Ok(converted)
    }

    /// The head of an array value: type ARRAY, element type, count.
    fn array(element: ValueType, count: u64) -> Vec<u8> {
        let mut bytes = ValueType::Array.id().to_le_bytes().to_vec();
        bytes.extend(inner(element, count));
        bytes
    }

    fn inner(element: ValueType, count: u64) -> Vec<u8> {
        [&element.id().to_le_bytes()[..], &count.to_le_bytes()].concat()
    }

    #[test]
    fn mixed_nesting_keeps_text_and_types() {
        let mut bytes = array(ValueType::Array, 3);
        bytes.extend(inner(ValueType::Uint8, 2));
        bytes.extend([7, 255]);
        bytes.extend(inner(ValueType::Float32, 3));
        for x in [0.1f32, f32::NAN, -0.0] {
            bytes.extend(x.to_le_bytes());
        }
        bytes.extend(inner(ValueType::Array, 0));
        let converted = convert(&bytes).unwrap();
        assert_eq!(
            converted.value,
            Owned::Json("[[7,255],[0.10000000149011612,\"NaN\",-0.0],[]]".into())
        );
        assert_eq!(
            converted.kind.to_string(),
            r#"["ARRAY",{"each":[["ARRAY","UINT8"],["ARRAY","FLOAT32"],["ARRAY","ARRAY"]]}]"#
        );
    }

    #[test]
    fn integers_are_packed_when_all_fit_i32() {
        let mut bytes = array(ValueType::Uint64, 3);
        for n in [1, 2, i32::MAX as u64] {
            bytes.extend(n.to_le_bytes());
        }
        let Owned::Bytes(packed) = convert(&bytes).unwrap().value else { panic!() };
        assert_eq!(packed, pack_i32([1, 2, i32::MAX]).unwrap());
        let last = bytes.len() - 8;
        bytes[last..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(
            convert(&bytes).unwrap().value,
            Owned::Json("[1,2,18446744073709551615]".into())
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let mut bytes = array(ValueType::Array, 1);
            for _ in 2..depth {
                bytes.extend(inner(ValueType::Array, 1));
            }
            bytes.extend(inner(ValueType::Bool, 0));
            bytes
        };
        assert!(convert(&nested(MAX_DEPTH as usize)).is_ok());
        let text = convert(&nested(MAX_DEPTH as usize + 1)).unwrap_err().to_string();
        assert!(text.contains("nested more than 32 deep"), "{text}");
        assert!(convert(&nested(100_000)).is_err());
    }

    #[test]
    fn numbers_that_hk_has_no_room_for_are_refused() {
        let mut bytes = ValueType::Uint64.id().to_le_bytes().to_vec();
        bytes.extend((1u64 << 63).to_le_bytes());
        let text = convert(&bytes).unwrap_err().to_string();
        assert!(text.contains("UINT64 9223372036854775808"), "{text}");
        let bytes = [&ValueType::Bool.id().to_le_bytes()[..], &[2]].concat();
        assert!(convert(&bytes).unwrap_err().to_string().contains("a BOOL of 2"));
        assert!(convert(&13u32.to_le_bytes()).unwrap_err().to_string().contains("value type 13"));
    }
}
