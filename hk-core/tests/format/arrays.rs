use hk_core::format::{ArrayHead, ArrayKind};
use hk_core::{Array, ErrorKind, Span};

use crate::Bytes;

fn head(kind: u8, count: u32) -> Bytes {
    Bytes::default().raw([kind, 0, 0, 0]).u32(count)
}

fn strings(offsets: &[u32], data: &str) -> Vec<u8> {
    let count = offsets.len() as u32 - 1;
    offsets.iter().fold(head(1, count), |bytes, &offset| bytes.u32(offset)).raw(data).0
}

fn is_broken(value: &[u8]) -> bool {
    match Array::parse(value) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Array);
            true
        }
    }
}

#[test]
fn strings_in_order_and_by_index() {
    let value = strings(&[0, 2, 2, 5], "hiabc");
    let Ok(Array::Strings(strings)) = Array::parse(&value) else { panic!("no strings") };
    assert!(strings.iter().eq([&b"hi"[..], b"", b"abc"]));
    assert_eq!((strings.get(2), strings.get(3)), (Some(&b"abc"[..]), None));
    assert_eq!((strings.get(usize::MAX), strings.len()), (None, 3));
}

#[test]
fn numbers_in_order_and_by_index() {
    let value = head(3, 2).u32(7).raw((-1i32).to_le_bytes()).0;
    let Ok(Array::I32(numbers)) = Array::parse(&value) else { panic!("no numbers") };
    assert!(numbers.iter().eq([7, -1]));
    assert_eq!((numbers.get(1), numbers.get(2)), (Some(-1), None));
    let value = head(2, 1).raw(f32::NAN.to_le_bytes()).0;
    let Ok(Array::F32(numbers)) = Array::parse(&value) else { panic!("no numbers") };
    assert_eq!(numbers.get(0).map(f32::to_bits), Some(f32::NAN.to_bits()));
}

#[test]
fn none_at_all() {
    for value in [strings(&[0], ""), head(2, 0).0, head(3, 0).0] {
        assert!(Array::parse(&value).unwrap().is_empty());
    }
}

#[test]
fn broken_heads() {
    assert!(is_broken(&[]));
    assert!(is_broken(&head(3, 0).0[..7]));
    assert!(is_broken(&head(0, 0).0));
    assert!(is_broken(&head(4, 0).0));
    for at in 1..4 {
        let mut value = head(3, 0).0;
        value[at] = 1;
        assert!(is_broken(&value));
    }
}

#[test]
fn counts_that_do_not_fit_the_length() {
    for kind in [2, 3] {
        assert!(!is_broken(&head(kind, 1).u32(0).0));
        assert!(is_broken(&head(kind, 1).0));
        assert!(is_broken(&head(kind, 1).u32(0).u8(0).0));
        assert!(is_broken(&head(kind, 0).u8(0).0));
        assert!(is_broken(&head(kind, 1 << 30).0));
        assert!(is_broken(&head(kind, u32::MAX).u32(0).0));
    }
    assert!(is_broken(&head(1, 0).0), "not even the one offset");
    assert!(is_broken(&head(1, u32::MAX).u32(0).0));
    assert!(is_broken(&head(1, (1 << 30) - 1).u32(0).0));
}

#[test]
fn offsets_that_decrease_or_miss_the_ends() {
    assert!(!is_broken(&strings(&[0, 0, 3], "abc")));
    assert!(is_broken(&strings(&[1, 1, 3], "abc")), "does not start at 0");
    assert!(is_broken(&strings(&[0, 2, 1, 3], "abc")), "decreases");
    assert!(is_broken(&strings(&[0, 2], "abc")), "bytes left over");
    assert!(is_broken(&strings(&[0, 4], "abc")), "past the end");
    assert!(is_broken(&strings(&[0, u32::MAX, 3], "abc")), "past the end in between");
    assert!(is_broken(&strings(&[0], "abc")), "bytes of no string");
}

#[test]
fn single_elements_of_an_array_that_is_not_held() {
    let value = strings(&[0, 2, 2, 5], "hiabc");
    let head = ArrayHead::read(&value[..8], value.len() as u64).unwrap();
    assert_eq!((head.kind, head.count), (ArrayKind::Strings, 3));
    let fetch = |span: Span| &value[span.offset as usize..(span.offset + span.size) as usize];
    let string = |index| fetch(head.string(fetch(head.element(index).unwrap())).unwrap());
    assert_eq!((string(0), string(1), string(2)), (&b"hi"[..], &b""[..], &b"abc"[..]));
    assert_eq!(head.element(3), None);

    let offsets = |a: u32, b: u32| Bytes::default().u32(a).u32(b).0;
    assert!(head.string(&offsets(0, 5)).is_ok());
    assert!(head.string(&offsets(0, 6)).is_err(), "past the end");
    assert!(head.string(&offsets(2, 1)).is_err(), "decreases");
    assert!(head.string(&offsets(u32::MAX, u32::MAX)).is_err());
    assert!(head.string(&offsets(0, 0)[..7]).is_err());
    let numbers = ArrayHead::read(&[3, 0, 0, 0, 2, 0, 0, 0], 16).unwrap();
    assert_eq!(numbers.element(1), Some(Span { offset: 12, size: 4 }));
    assert!(numbers.string(&offsets(0, 0)).is_err(), "not strings");
    assert!(ArrayHead::read(&[3, 0, 0, 0, 2, 0, 0, 0], 17).is_err());
    assert!(ArrayHead::read(&[3, 0, 0, 0, 2, 0, 0], 16).is_err());
}
