use hk_core::{ErrorKind, Metadata, MetadataHead, Section, Value, ValueType};

use crate::{Bytes, parts};

#[test]
fn every_type_of_value() {
    let section = Bytes::default()
        .pair("s", 1, "text ž")
        .pair("i", 2, (-2i64).to_le_bytes())
        .pair("f", 3, 0.5f64.to_le_bytes())
        .pair("t", 4, [7])
        .pair("n", 4, [0])
        .pair("j", 5, "{}")
        .pair("b", 6, [1, 2])
        .pair("?", 0xFE, [3])
        .0;
    let metadata = Metadata::parse(&section, 8).unwrap();
    let values: Vec<Value<'_>> = metadata.iter().map(|entry| entry.value).collect();
    let unknown = Value::Unknown(ValueType(0xFE), &[3]);
    let expected = [
        Value::String("text ž"),
        Value::Int64(-2),
        Value::Float64(0.5),
        Value::Bool(true),
        Value::Bool(false),
        Value::Json("{}"),
        Value::Bytes(&[1, 2]),
        unknown,
    ];
    assert_eq!(values, expected);
    assert_eq!((metadata.len(), metadata.used()), (8, section.len() as u64));
    let tags: Vec<u8> = values.iter().map(|value| value.tag().0).collect();
    assert_eq!(tags, [1, 2, 3, 4, 4, 5, 6, 0xFE]);
    assert_eq!(ValueType(0xFE).to_string(), "0xfe");
    assert_eq!(ValueType::JSON.to_string(), "json");
}

#[test]
fn values_as_what_is_asked_for() {
    let (int, float, negative) = (Value::Int64(3), Value::Float64(1.5), Value::Int64(-3));
    assert_eq!((int.as_u64(), int.as_i64(), int.as_f64()), (Some(3), Some(3), Some(3.0)));
    assert_eq!((negative.as_u64(), negative.as_i64()), (None, Some(-3)));
    assert_eq!((float.as_u64(), float.as_i64(), float.as_f64()), (None, None, Some(1.5)));
    assert_eq!((Value::Bool(true).as_bool(), int.as_bool()), (Some(true), None));
    assert_eq!((Value::String("x").as_str(), Value::Json("x").as_str()), (Some("x"), None));
    assert_eq!(Value::Json("[]").array().unwrap_err().kind(), ErrorKind::Array);
}

#[test]
fn of_two_equal_keys_the_first() {
    let section = Bytes::default().pair("k", 4, [0]).pair("k", 4, [1]).0;
    let metadata = Metadata::parse(&section, 2).unwrap();
    assert_eq!(metadata.get("k"), Some(Value::Bool(false)));
    assert_eq!(metadata.iter().len(), 2);
    assert_eq!(metadata.get(""), None);
}

#[test]
fn hyperparameters_by_suffix() {
    let count = 30i64.to_le_bytes();
    let section = Bytes::default()
        .pair("general.architecture", 1, "llama")
        .pair("llama.block_count.x", 2, [0; 8])
        .pair("llamablock_count", 2, [0; 8])
        .pair("llama.block_count", 2, count)
        .0;
    let metadata = Metadata::parse(&section, 4).unwrap();
    assert_eq!(metadata.architecture(), Some("llama"));
    assert_eq!(metadata.hyperparameter("block_count"), Some(Value::Int64(30)));
    assert_eq!(metadata.hyperparameter("head_count"), None);
    let nameless = Metadata::parse(&section, 0).unwrap();
    assert_eq!(nameless.hyperparameter("block_count"), None);
}

#[test]
fn lengths_that_do_not_fit_the_type() {
    for (tag, lengths) in [(2, [0, 7, 9]), (3, [4, 7, 16]), (4, [0, 2, 8])] {
        for length in lengths {
            let value = vec![0; length as usize];
            let section = Bytes::default().pair("first", 6, []).pair("k", tag, value).0;
            let error = parts(Metadata::parse(&section, 2).unwrap_err());
            // 12 bytes of the first pair, then 8 up to the value.
            let kind = ErrorKind::ValueLength { tag, length };
            assert_eq!(error, (kind, Section::Metadata, 12 + 8, Some(1)));
        }
    }
}

#[test]
fn text_that_is_none() {
    let text = |section: Bytes| parts(Metadata::parse(&section.0, 1).unwrap_err());
    let at = |offset| (ErrorKind::Text, Section::Metadata, offset, Some(0));
    // The offset is that of the first bad byte.
    assert_eq!(text(Bytes::default().pair("k", 1, b"ab\xFFcd")), at(2 + 1 + 5 + 2));
    assert_eq!(text(Bytes::default().pair("k", 5, b"\xC5")), at(8));
    let key = Bytes::default().u16(2).raw(b"k\xFF").u8(4).u32(1).u8(1);
    assert_eq!(text(key), at(2 + 1));
    // What need not be text is none.
    let section = Bytes::default().pair("k", 6, b"\xFF").pair("l", 9, b"\xFF").0;
    assert_eq!(Metadata::parse(&section, 2).unwrap().len(), 2);
}

#[test]
fn cut_at_every_byte() {
    let section = Bytes::default().pair("key", 1, "value").pair("k", 6, [5; 9]).0;
    for len in 0..section.len() {
        let error = Metadata::parse(&section[..len], 2).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Truncated { .. }), "{len}: {error}");
        assert_eq!(error.index(), Some(u32::from(len >= 15)), "{len}: {error}");
    }
    // What is left over belongs to no pair.
    let metadata = Metadata::parse(&section, 1).unwrap();
    assert_eq!((metadata.len(), metadata.used()), (1, 15));
}

#[test]
fn claims_that_no_section_can_keep() {
    let huge = Bytes::default().u16(1).raw("k").u8(6).u32(u32::MAX).u8(0).0;
    let error = parts(Metadata::parse(&huge, 1).unwrap_err());
    let kind = ErrorKind::Truncated { needed: u64::from(u32::MAX), available: 1 };
    assert_eq!(error, (kind, Section::Metadata, 8, Some(0)));
    let kind = Metadata::parse(&huge, u64::MAX).unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::Count { claimed: u64::MAX, .. }));
    // As many pairs as claimed, and no more bytes: stops at the first that is missing.
    let error = Metadata::parse(&[], u64::from(u32::MAX)).unwrap_err();
    assert_eq!(error.index(), Some(0));
}

#[test]
fn heads_without_their_values() {
    let section = Bytes::default().pair("key", 1, "value").0;
    let head = MetadataHead::read(&section[..10]).unwrap();
    assert_eq!((head.key, head.tag), ("key", ValueType::STRING));
    assert_eq!((head.value_len, head.len), (5, 10));
    assert_eq!(head.value(&section[10..]), Ok(Value::String("value")));
    assert!(head.value(&section[11..]).is_err());
    assert!(MetadataHead::read(&section[..9]).is_err());
}
