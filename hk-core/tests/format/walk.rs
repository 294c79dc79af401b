use hk_core::{Error, ErrorKind, Header, Hk, Section, Span, Value};

use crate::{Bytes, parts};

fn small() -> Vec<u8> {
    let metadata = Bytes::default().pair("first", 1, "a value of some length").pair("k", 4, [1]);
    let toc = Bytes::default().tensor("t", 0, &[2], [400, 8]).tensor("u", 0x30, &[5], [0, 0]);
    Bytes::file((2, metadata), (2, toc), &[0; 112])
}

fn at(file: &[u8], span: Span) -> &[u8] {
    &file[span.offset as usize..][..span.size as usize]
}

/// Walks with a window of `most` bytes.
fn walk(file: &[u8], most: usize) -> Result<(Vec<String>, Vec<String>), Error> {
    let (header, len) = (Header::parse(file)?, file.len() as u64);
    let (mut keys, mut names) = (Vec::new(), Vec::new());
    let mut pairs = header.walk_metadata(len)?;
    while let Some(span) = pairs.next_span(most) {
        let (key, value) = pairs.pair(at(file, span))?;
        assert_eq!(value.index as usize, keys.len());
        keys.push(format!("{key} {:?}", value.read(at(file, value.span))?));
    }
    let mut tensors = header.walk_toc(len)?;
    while let Some(span) = tensors.next_span(most) {
        names.push(tensors.entry(at(file, span))?.name.to_owned());
    }
    Ok((keys, names))
}

#[test]
fn a_small_window_is_as_good_as_a_large_one() {
    let file = small();
    let hk = Hk::parse(&file).unwrap();
    let large = walk(&file, 10_000).unwrap();
    let keys: Vec<String> =
        hk.metadata().iter().map(|e| format!("{} {:?}", e.key, e.value)).collect();
    assert_eq!((keys, vec!["t".to_owned(), "u".to_owned()]), large);
    // 69 bytes hold either entry; the value of the first pair is longer than its head.
    for most in [69, 70, 128] {
        assert_eq!(walk(&file, most).unwrap(), large, "{most}");
    }
}

#[test]
fn a_window_too_small_says_so_and_can_grow() {
    let file = small();
    let header = Header::parse(&file).unwrap();
    let mut pairs = header.walk_metadata(file.len() as u64).unwrap();
    let window = pairs.next_span(11).unwrap();
    let error = pairs.pair(at(&file, window)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{error}");
    assert_eq!((error.section(), error.index()), (Section::Metadata, Some(0)));
    // The walk stands where it stood.
    let window = pairs.next_span(12).unwrap();
    assert_eq!(window, Span { offset: 128, size: 12 });
    let (key, value) = pairs.pair(at(&file, window)).unwrap();
    assert_eq!((key, value.span), ("first", Span { offset: 140, size: 22 }));
    let text = Value::String("a value of some length");
    assert_eq!(value.read(at(&file, value.span)), Ok(text));
    assert!(value.read(&[0; 21]).is_err());
}

#[test]
fn what_passes_the_section_is_an_error_at_its_place() {
    let mut file = small();
    // The second pair's value would reach into the table of contents.
    let second = 128 + 12 + 22;
    file[second + 4] = 2;
    let errors = (walk(&file, 200).unwrap_err(), Hk::parse(&file).unwrap_err());
    let place = |e: Error| (parts(e).1, e.offset(), e.index());
    assert_eq!(place(errors.0), place(errors.1));
    assert_eq!(place(errors.0), (Section::Metadata, second as u64 + 8, Some(1)));
    // A window never shows what comes after the section.
    let header = Header::parse(&file).unwrap();
    let span = header.walk_metadata(file.len() as u64).unwrap().next_span(200);
    assert_eq!(span.map(|span| span.size), Some(header.metadata.size));
}

#[test]
fn errors_count_from_the_start_of_the_file() {
    let mut file = small();
    let second = Header::parse(&file).unwrap().toc.offset as usize + 69;
    file[second + 1] = 0xFF; // a name of 65 KB
    let errors = (walk(&file, 252).unwrap_err(), Hk::parse(&file).unwrap_err());
    assert_eq!(parts(errors.0), parts(errors.1));
    let mut file = small();
    file[128 + 11] = 0xFF; // the first value is said to be 4 GiB long
    let errors = (walk(&file, 252).unwrap_err(), Hk::parse(&file).unwrap_err());
    assert_eq!(parts(errors.0), parts(errors.1));
}

#[test]
fn a_header_that_does_not_fit_the_file_starts_no_walk() {
    let file = small();
    let header = Header::parse(&file).unwrap();
    let short = header.toc.offset;
    assert!(header.walk_toc(short).is_err());
    assert_eq!(header.walk_metadata(10).unwrap_err().section(), Section::Header);
}
