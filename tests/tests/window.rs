//! A whole file read through a window of 512 bytes, as a microcontroller reads serial flash
//! or a browser reads HTTP ranges: nothing is ever held but one window and a few numbers,
//! and what comes out is what `Hk::parse` gives of the file at once.

use std::ops::Range;

use hk_core::format::{ArrayHead, ArrayKind};
use hk_core::{
    Array, Error, ErrorKind, Header, Hk, Portable, Residual, Span, StorageType, TensorEntry, Value,
    decode,
};
use hk_tests::build::{Builder, Tensor, one_of_everything, pack_numbers, pack_strings};
use hk_tests::{bits, data, mutate, reference_names};

const WINDOW: usize = 512;
/// Elements that fit the window in any type, from a multiple of this number on.
const STEP: u64 = 64;
/// Elements compared of one tensor: a spoilt shape can claim 2^64 zeros.
const MOST: u64 = 100_000;

/// Flash behind a slow bus: hands out at most a window of bytes at a time.
struct Flash<'f> {
    file: &'f [u8],
    window: [u8; WINDOW],
}

impl<'f> Flash<'f> {
    fn new(file: &'f [u8]) -> Self {
        Flash { file, window: [0; WINDOW] }
    }

    fn len(&self) -> u64 {
        self.file.len() as u64
    }

    /// Fetches `span`; the borrow sees to it that nobody still reads what was there.
    fn fetch(&mut self, span: Span) -> &[u8] {
        let (offset, size) = (span.offset as usize, span.size as usize);
        self.window.fill(0xAA);
        self.window[..size].copy_from_slice(&self.file[offset..offset + size]);
        &self.window[..size]
    }

    /// Fetches a part of what stands at `whole`.
    fn fetch_in(&mut self, whole: Span, part: Span) -> &[u8] {
        self.fetch(Span { offset: whole.offset + part.offset, size: part.size })
    }
}

fn header(flash: &mut Flash<'_>) -> Result<Header, Error> {
    let size = flash.len().min(128);
    Header::parse(flash.fetch(Span { offset: 0, size }))
}

/// One line a metadata pair: small values whole, of larger ones the elements when they are
/// packed arrays.
fn metadata(flash: &mut Flash<'_>, header: &Header) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let mut walk = header.walk_metadata(flash.len())?;
    while let Some(span) = walk.next_span(WINDOW) {
        let (key, value) = walk.pair(flash.fetch(span))?;
        let mut line = format!("{key} {} {}", value.tag, value.span.size);
        if value.span.size <= WINDOW as u64 {
            line += &format!(" {:?}", value.read(flash.fetch(value.span))?);
        } else {
            line += &array(flash, value.span);
        }
        lines.push(line);
    }
    Ok(lines)
}

/// The elements of a packed array that is larger than the window.
fn array(flash: &mut Flash<'_>, value: Span) -> String {
    let head = flash.fetch(Span { size: ArrayHead::LEN, ..value });
    let Ok(head) = ArrayHead::read(head, value.size) else { return String::new() };
    let mut line = format!(" {:?}", head.kind);
    assert_eq!(head.element(head.count), None);
    for index in 0..head.count {
        let element = flash.fetch_in(value, head.element(index).expect("not past the end"));
        if head.kind == ArrayKind::Strings {
            let string = head.string(element).expect("a sound array");
            let bytes = flash.fetch_in(value, string);
            line += &format!(" {:?}", String::from_utf8_lossy(bytes));
        } else {
            line += &format!(" {element:?}");
        }
    }
    line
}

/// The same lines from a file that is held whole.
fn metadata_at_once(hk: &Hk<'_>) -> Vec<String> {
    let lines = hk.metadata().iter().map(|entry| {
        let value = entry.value;
        let bytes = match value {
            Value::String(text) | Value::Json(text) => text.as_bytes(),
            Value::Bytes(bytes) | Value::Unknown(_, bytes) => bytes,
            Value::Bool(_) => &[0],
            _ => &[0; 8],
        };
        let start = format!("{} {} {}", entry.key, value.tag(), bytes.len());
        if bytes.len() <= WINDOW {
            return format!("{start} {value:?}");
        }
        let elements: Vec<String> = match value.array() {
            Ok(Array::Strings(strings)) => {
                strings.iter().map(|s| format!("{:?}", String::from_utf8_lossy(s))).collect()
            }
            Ok(Array::F32(numbers)) => {
                numbers.iter().map(|n| format!("{:?}", n.to_le_bytes())).collect()
            }
            Ok(Array::I32(numbers)) => {
                numbers.iter().map(|n| format!("{:?}", n.to_le_bytes())).collect()
            }
            _ => return start,
        };
        let kind = ["", "Strings", "F32", "I32"][usize::from(bytes[0])];
        [vec![start, kind.into()], elements].concat().join(" ")
    });
    lines.collect()
}

/// Name, description and weights of each tensor; an error for one that does not decode.
type Weights = Vec<(String, TensorEntry<'static>, Result<Vec<u32>, Error>)>;

fn tensors(flash: &mut Flash<'_>, header: &Header) -> Result<Weights, Error> {
    let mut tensors = Weights::new();
    let mut walk = header.walk_toc(flash.len())?;
    while let Some(span) = walk.next_span(WINDOW) {
        let entry = walk.entry(flash.fetch(span))?;
        let (name, entry) = (entry.name.to_owned(), entry.without_name());
        let weights = resolve(flash, header, &entry).and_then(|entry| weights(flash, &entry));
        tensors.push((name, entry, weights));
    }
    Ok(tensors)
}

/// Looks for what a `shared_ref` refers to by walking the table once more.
fn resolve<'e>(
    flash: &mut Flash<'_>,
    header: &Header,
    entry: &TensorEntry<'e>,
) -> Result<TensorEntry<'e>, Error> {
    let mut walk = header.walk_toc(flash.len())?;
    while let Some(span) = walk.next_span(WINDOW) {
        let earlier = walk.entry(flash.fetch(span))?;
        if earlier.index >= entry.index {
            break;
        }
        if entry.refers_to(&earlier) {
            return entry.resolve_to(Some(&earlier));
        }
    }
    entry.resolve_to(None)
}

fn weights(flash: &mut Flash<'_>, entry: &TensorEntry<'_>) -> Result<Vec<u32>, Error> {
    let mut all = Vec::new();
    let count = entry.shape.count().min(MOST);
    // An empty tensor takes one step too, which says whether it decodes.
    for start in (0..count.max(1)).step_by(STEP as usize) {
        all.extend(piece(flash, entry, start..count.min(start + STEP))?);
    }
    Ok(all)
}

fn piece(
    flash: &mut Flash<'_>,
    entry: &TensorEntry<'_>,
    range: Range<u64>,
) -> Result<Vec<u32>, Error> {
    let mut buffer = [0.5; STEP as usize];
    let out = &mut buffer[..(range.end - range.start) as usize];
    let cover = entry.locate(range)?;
    let bytes = flash.fetch(cover.span());
    decode::dequantize_slice(&Portable, entry.storage, bytes, cover.skip, out)?;
    Ok(bits(out))
}

fn tensors_at_once(hk: &Hk<'_>) -> Weights {
    let weights = |tensor: &hk_core::Tensor<'_>| {
        let count = tensor.shape.count().min(MOST);
        let mut out = vec![0.5; count as usize];
        tensor.dequantize_range(&Portable, 0..count, &mut out, Residual::Add)?;
        Ok(bits(&out))
    };
    hk.tensors().map(|t| (t.name.to_owned(), t.without_name(), weights(&t))).collect()
}

/// Both ways to read a file come to the same.
fn compare(file: &[u8]) -> Result<usize, Error> {
    let mut flash = Flash::new(file);
    let through_window = header(&mut flash).and_then(|header| {
        let metadata = metadata(&mut flash, &header)?;
        let tensors = tensors(&mut flash, &header)?;
        Ok((header, metadata, tensors))
    });
    let hk = Hk::parse(file);
    let (header, lines, tensors) = match (through_window, &hk) {
        (Ok(read), Ok(_)) => read,
        (Err(error), Err(at_once)) => {
            // The same fault at the same place; how much was missing depends on the window.
            assert_eq!(error.section(), at_once.section(), "{error} {at_once}");
            assert_eq!(error.index(), at_once.index(), "{error} {at_once}");
            return Err(error);
        }
        (through_window, _) => panic!("through a window {through_window:?}, at once {hk:?}"),
    };
    let hk = hk?;
    assert_eq!(&header, hk.header());
    assert_eq!(lines, metadata_at_once(&hk));
    let at_once = tensors_at_once(&hk);
    assert_eq!(tensors.len(), at_once.len());
    for ((name, entry, weights), at_once) in tensors.iter().zip(&at_once) {
        // As text: a ratio can be NaN.
        assert_eq!(format!("{name} {entry:?}"), format!("{} {:?}", at_once.0, at_once.1));
        match weights {
            // It says so, and that the whole payload has to be fetched.
            Err(error) if matches!(error.kind(), ErrorKind::Scattered(_)) => {
                assert!(error.to_string().contains("fetch the whole payload"), "{error}");
            }
            _ => assert_eq!(weights, &at_once.2, "{name}"),
        }
    }
    Ok(tensors.iter().filter(|tensor| tensor.2.is_ok()).count())
}

#[test]
fn reference_files() {
    for name in reference_names() {
        let file = data(&format!("reference/{name}"));
        let decoded = compare(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(decoded > 0, "{name}");
    }
}

#[test]
fn arrays_larger_than_the_window() {
    let words: Vec<Vec<u8>> = (0..400u32).map(|n| format!("wörd {n}").into_bytes()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let numbers: Vec<[u8; 4]> =
        (0..400u32).map(|n| n.wrapping_mul(77_777_777).to_le_bytes()).collect();
    let built = Builder::default()
        .pair("words", 6, pack_strings(&words))
        .pair("scores", 6, pack_numbers(2, &numbers))
        .pair("types", 6, pack_numbers(3, &numbers))
        .pair("prose", 1, "long ".repeat(300))
        .pair("blob", 6, vec![7; 3000])
        .tensor(Tensor::new("t", 0, &[1], vec![0; 4]))
        .build();
    assert_eq!(compare(&built.bytes), Ok(1));
    let hk = Hk::parse(&built.bytes).expect("a sound file");
    assert_eq!(hk.metadata().get("words").and_then(|v| Some(v.array().ok()?.len())), Some(400));
}

#[test]
fn every_type_from_its_payload_alone() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let plain = |tensor: &hk_core::Tensor<'_>| {
        tensor.storage.geometry().is_some() && tensor.locate(0..1).is_ok()
    };
    let types: Vec<StorageType> = hk.tensors().filter(plain).map(|t| t.storage).collect();
    assert_eq!(types.len(), 15 + 25);
    // A window of 512 bytes is enough for any of them.
    for storage in types {
        for start in [0, STEP, 3 * STEP] {
            let cover = decode::cover(storage, start..start + STEP).expect("plain");
            assert!(cover.span().size <= WINDOW as u64, "{storage}");
        }
    }
}

#[test]
fn corrupt_files() {
    let built = one_of_everything();
    let spoilt = mutate::numbers(&built).chain(mutate::truncations(&built.bytes));
    let (mut refused, mut read) = (0, 0);
    for file in spoilt.chain(mutate::random(&built.bytes, 2, 3000)) {
        match compare(&file.bytes) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000 && read > 1000, "{refused} refused, {read} read");
}
