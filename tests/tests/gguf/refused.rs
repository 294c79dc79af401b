//! What cannot be taken over is refused with the reason, and nothing is left behind.

use hk_std::convert::gguf::{Options, TYPES_KEY};
use hk_tests::gguf::{Built, Gguf, Meta, TensorInfo};

use crate::case::Case;

/// The message about a file that cannot be taken over, after which nothing is left behind.
fn refusal(gguf: &[u8]) -> String {
    let case = Case::new(gguf);
    let error = case.convert(Options::default()).expect_err("to be refused");
    assert_eq!(case.names(), ["in.gguf"]);
    error.to_string()
}

#[track_caller]
fn refused(gguf: &Gguf, words: &[&str]) {
    let text = refusal(&gguf.build().bytes);
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

/// A file with one f32 tensor "w".
fn one_tensor() -> Gguf {
    Gguf::default().tensor("w", 0, &[8], vec![1; 32])
}

fn last_number(gguf: &Gguf, what: &str, value: u64) -> Vec<u8> {
    let built: Built = gguf.build();
    let number = built.numbers.iter().rfind(|number| number.what == what).unwrap();
    built.with(*number, value)
}

#[test]
fn files_of_another_format() {
    for (bytes, words) in [
        (&b""[..], "the file is empty"),
        (b"GG", "it starts with \"GG\""),
        (b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "\\x7fELF"),
        (b"HKNT\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "an HK file already"),
        (b"tjgg\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "older than GGUF"),
        (b"GGUF\x03", "4 bytes are claimed where 1 bytes are left"),
    ] {
        let text = refusal(bytes);
        assert!(text.contains(words) && text.contains("in.gguf"), "{text}");
    }
}

#[test]
fn versions_not_read() {
    for (version, words) in [
        (0, "GGUF version 0"),
        (1, "version 1 has 32-bit lengths"),
        (4, "version 4 is not known"),
        (0x0200_0000, "big-endian"),
        (0x0300_0000, "big-endian"),
        (u32::MAX, "version 4294967295"),
    ] {
        refused(&Gguf { version, ..one_tensor() }, &[words, "byte 4"]);
    }
}

#[test]
fn alignments() {
    for alignment in [0, 3, 48, 131_072, u32::MAX] {
        let gguf = one_tensor().pair("general.alignment", Meta::U32(alignment));
        refused(&gguf, &["pair 0", "general.alignment", &alignment.to_string(), "power of two"]);
    }
    for value in [Meta::U64(32), Meta::I32(32), Meta::text("32"), Meta::Arr(4, vec![])] {
        refused(&one_tensor().pair("general.alignment", value), &["must be a UINT32"]);
    }
}

#[test]
fn keys_and_values() {
    let twice = one_tensor().pair("a", Meta::U8(1)).pair("b", Meta::U8(1)).pair("a", Meta::U8(2));
    refused(&twice, &["metadata pair 2, \"a\"", "the same key"]);
    refused(&one_tensor().pair(TYPES_KEY, Meta::text("{}")), &[TYPES_KEY, "remove it"]);
    refused(&one_tensor().pair(&"k".repeat(65536), Meta::U8(1)), &["65536 bytes", "65535"]);
    let mut bad_key = one_tensor();
    bad_key.pairs.push((vec![b'a', 0xFF], Meta::U8(1)));
    refused(&bad_key, &["metadata pair 0", "the key is not UTF-8", "byte 33"]);
    refused(
        &one_tensor().pair("note", Meta::Str(vec![0xC3])),
        &["\"note\"", "the string is not UTF-8"],
    );
    let nested = Meta::Arr(9, vec![Meta::Arr(8, vec![Meta::Str(vec![0xC3])])]);
    refused(&one_tensor().pair("note", nested), &["a string of a nested array is not UTF-8"]);
    refused(&one_tensor().pair("n", Meta::U64(1 << 63)), &["\"n\"", "9223372036854775808"]);
    refused(&one_tensor().pair("b", Meta::Bool(2)), &["\"b\"", "a BOOL of 2"]);
    let gguf = one_tensor().pair("v", Meta::U8(1));
    for kind in [13, u32::MAX] {
        let text = refusal(&last_number(&gguf, "value type", kind.into()));
        assert!(text.contains(&format!("no value type {kind}")), "{text}");
    }
    let mut deep = Meta::Arr(0, vec![]);
    for _ in 0..40 {
        deep = Meta::Arr(9, vec![deep]);
    }
    refused(&one_tensor().pair("deep", deep), &["\"deep\"", "nested more than 32 deep"]);
}

#[test]
fn the_longest_key_is_taken() {
    let case = Case::new(&one_tensor().pair(&"k".repeat(65535), Meta::U8(1)).build().bytes);
    assert_eq!(case.convert(Options::default()).unwrap().hk().metadata().len(), 2);
}

#[test]
fn tensor_names() {
    let named = |name: &[u8]| {
        let mut gguf = one_tensor();
        gguf.tensors[0].name = name.to_vec();
        gguf
    };
    refused(&named(&[b'n'; 129]), &["tensor 0", "129 bytes", "at most 128"]);
    refused(&named(b"\xFF"), &["tensor 0", "not UTF-8"]);
    let twice = one_tensor().tensor("v", 0, &[1], vec![0; 4]).tensor("w", 0, &[1], vec![0; 4]);
    refused(&twice, &["tensor 2, \"w\"", "the same name"]);
    let longest = named(&[b'n'; 128]);
    assert!(Case::new(&longest.build().bytes).convert(Options::default()).is_ok());
}

#[test]
fn tensor_types() {
    for (kind, words) in [
        (4, "Q4_2"),
        (5, "Q4_3"),
        (31, "Q4_0_4_4"),
        (32, "Q4_0_4_8"),
        (33, "Q4_0_8_8"),
        (36, "IQ4_NL_4_4"),
        (37, "IQ4_NL_4_8"),
        (38, "IQ4_NL_8_8"),
        (41, "Q1_0"),
        (42, "tensor type 42"),
        (u32::MAX, "tensor type 4294967295"),
    ] {
        let mut gguf = one_tensor();
        gguf.tensors[0].kind = kind;
        refused(&gguf, &["tensor 0, \"w\"", words]);
    }
}

#[test]
fn shapes() {
    let with = |dims: &[u64], kind| {
        let mut gguf = one_tensor();
        gguf.tensors[0].dims = dims.to_vec();
        gguf.tensors[0].kind = kind;
        gguf
    };
    refused(&with(&[1; 9], 0), &["9 dimensions", "at most 8"]);
    refused(&with(&[33], 2), &["rows of 33 weights", "q4_0 blocks of 32"]);
    refused(&with(&[128, 2], 12), &["rows of 128 weights", "q4_k blocks of 256"]);
    refused(&with(&[], 8), &["rows of 1 weights"]);
    refused(&with(&[u64::MAX, 2], 0), &["passes 2^64"]);
    refused(&with(&[1 << 62], 0), &["passes 2^64"]);
    refused(&with(&[9], 0), &["tensor \"w\"", "36 bytes", "pass the end of the file"]);
    refused(&with(&[1 << 61], 0), &["pass the end of the file"]);
}

#[test]
fn offsets() {
    let two = |offset| {
        let mut gguf = one_tensor();
        let info = TensorInfo {
            name: b"v".to_vec(),
            dims: vec![9],
            kind: 0,
            data: vec![2; 36],
            offset: Some(offset),
        };
        gguf.tensors.push(info);
        gguf
    };
    assert!(Case::new(&two(32).build().bytes).convert(Options::default()).is_ok());
    refused(&two(0), &["tensor \"v\"", "overlap those of \"w\""]);
    refused(&two(33), &["tensor 1, \"v\"", "33 is no multiple of the alignment 32"]);
    refused(&two(96), &["tensor \"v\"", "pass the end"]);
    refused(&two(u64::MAX - 31), &["tensor \"v\"", "pass the end"]);
    // Nobody's bytes may stand beyond the end, not even none.
    let mut empty = one_tensor().tensor("e", 0, &[0], vec![]);
    empty.tensors[1].offset = Some(64);
    refused(&empty, &["tensor \"e\"", "pass the end"]);
}
