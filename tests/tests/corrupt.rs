//! Corrupt files: each gives an error or well-defined content, never a panic, and what it
//! gives is what a second reader, written from the specification alone, makes of it.

use std::collections::HashSet;

use hk_core::{ErrorKind, Hk, Part, Portable, Residual, Section};
use hk_tests::build::{Builder, Built, Tensor, one_of_everything};
use hk_tests::mutate::{self, Corrupt};
use hk_tests::walk::{Walked, walk};
use hk_tests::{data, reference_names};

/// Walks each file; says how many were refused and how many read.
fn walk_all(files: impl Iterator<Item = Corrupt>) -> (usize, usize) {
    let (mut refused, mut read) = (0, 0);
    let mut distinct = HashSet::new();
    for Corrupt { what, bytes } in files {
        let result = std::panic::catch_unwind(|| walk(&bytes));
        match result.unwrap_or_else(|_| panic!("the panic above came from: {what}")) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
        distinct.insert(bytes);
    }
    assert!(distinct.len() > 300, "only {} files", distinct.len());
    (refused, read)
}

#[test]
fn the_seed_file_is_sound() {
    let expected = Walked {
        pairs: 10,
        arrays: 3,
        tensors: 8,
        decoded: 7,
        records: 2,
        sealed: false,
        sound: true,
    };
    let walked = walk(&one_of_everything().bytes).expect("a sound file");
    // Unknown types do not decode.
    assert_eq!(walked, expected);
}

#[test]
fn cut_at_every_byte() {
    let built = one_of_everything();
    let (refused, read) = walk_all(mutate::truncations(&built.bytes));
    // All that can be missed are the two records after the payloads.
    let appendix = built.get(built.field("header.appendix_offset")) as usize;
    assert_eq!((refused, read), (appendix, built.bytes.len() - appendix));
}

#[test]
fn every_number_spoilt() {
    let (refused, read) = walk_all(mutate::numbers(&one_of_everything()));
    assert!(refused > 700 && read > 700, "{refused} refused, {read} read");
}

#[test]
fn random_changes() {
    let file = one_of_everything().bytes;
    let (refused, read) = walk_all(mutate::random(&file, 1, 6000));
    assert!(refused > 1000 && read > 1000, "{refused} refused, {read} read");
}

#[test]
fn random_changes_of_reference_files() {
    for (seed, name) in reference_names().iter().enumerate() {
        let file = data(&format!("reference/{name}"));
        let count = (1_000_000 / file.len()).clamp(320, 1000);
        walk_all(mutate::random(&file, seed as u64, count));
    }
}

#[test]
fn reference_files_cut() {
    let names = reference_names();
    for name in names.iter().filter(|name| *name != "all_types.hk" && *name != "ref_65536.hk") {
        walk_all(mutate::truncations(&data(&format!("reference/{name}"))));
    }
}

fn parse_error(file: &[u8]) -> (ErrorKind, Section, u64) {
    walk(file).expect_err("walks, and should not");
    let error = Hk::parse(file).expect_err("parses, and should not");
    (error.kind(), error.section(), error.offset())
}

/// The kinds that the rest of a `match` is written for, by name of the spoilt number.
fn spoilt(built: &Built, field: &str, value: u64) -> (ErrorKind, Section, u64) {
    parse_error(&built.with(field, value))
}

#[test]
fn four_gibibytes_wrap_nowhere() {
    let built = one_of_everything();
    let file = built.bytes.len() as u64;
    let far = 1 << 32;
    for (field, at) in [("header.metadata", 0x20), ("header.tensor_toc", 0x30)] {
        let size = built.get(built.field(&format!("{field}_size")));
        let error = spoilt(&built, &format!("{field}_offset"), far);
        assert_eq!(error, (ErrorKind::SectionOutOfBounds { size, file }, Section::Header, at));
        let error = spoilt(&built, &format!("{field}_size"), far + size);
        let kind = ErrorKind::SectionOutOfBounds { size: far + size, file };
        assert_eq!(error, (kind, Section::Header, at));
    }
    let appendix = built.get(built.field("header.appendix_offset"));
    let error = spoilt(&built, "header.appendix_offset", far + appendix);
    assert_eq!(error, (ErrorKind::SectionOutOfBounds { size: 0, file }, Section::Header, 0x48));
    for (count, at) in [("header.tensor_count", 0x10), ("header.metadata_kv_count", 0x18)] {
        let there = built.get(built.field(count));
        let (kind, section, offset) = spoilt(&built, count, far + there);
        assert!(matches!(kind, ErrorKind::Count { claimed, .. } if claimed == far + there));
        assert_eq!((section, offset), (Section::Header, at));
    }
    for (part, name) in
        [(Part::Data, "data"), (Part::Scales, "scales"), (Part::Residual, "residual")]
    {
        let size = built.get(built.field(&format!("tensor 5.{name}_size")));
        let there = built.get(built.field(&format!("tensor 5.{name}_offset")));
        let (kind, section, _) = spoilt(&built, &format!("tensor 5.{name}_offset"), far + there);
        assert_eq!((kind, section), (ErrorKind::OutOfBounds { part, size, file }, Section::Toc));
        let (kind, ..) = spoilt(&built, &format!("tensor 5.{name}_size"), far + size);
        assert_eq!(kind, ErrorKind::OutOfBounds { part, size: far + size, file });
    }
}

#[test]
fn sizes_that_wrap_u64() {
    let built = one_of_everything();
    let file = built.bytes.len() as u64;
    let offset = built.get(built.field("tensor 0.data_offset"));
    // offset + size = 2^64: wraps to 0, which lies inside the file.
    let size = offset.wrapping_neg();
    let (kind, ..) = spoilt(&built, "tensor 0.data_size", size);
    assert_eq!(kind, ErrorKind::OutOfBounds { part: Part::Data, size, file });
    let size = 128u64.wrapping_neg();
    let (kind, ..) = spoilt(&built, "header.metadata_size", size);
    assert_eq!(kind, ErrorKind::SectionOutOfBounds { size, file });
}

#[test]
fn products_that_wrap_u64() {
    let shape = |shape: &[u64], storage: u8| {
        let tensor = Tensor::new("t", storage, shape, vec![0; 8]);
        Builder::default().tensor(tensor).build().bytes
    };
    for dims in
        [&[1 << 32, 1 << 32][..], &[u64::MAX, 2], &[3; 8].map(|n| n << 20), &[1 << 63, 1, 2]]
    {
        let (kind, section, _) = parse_error(&shape(dims, 0));
        assert_eq!((kind, section), (ErrorKind::ElementCount, Section::Toc), "{dims:?}");
    }
    // The product fits, its size in bytes does not, or lies far past the file.
    for (storage, count) in [(0u8, u64::MAX), (0x0E, 1 << 61), (0x15, u64::MAX), (0, 1 << 32)] {
        let file = shape(&[count], storage);
        assert_eq!(walk(&file).expect("parses").decoded, 0, "{storage:#x} {count}");
        let hk = Hk::parse(&file).expect("parses");
        let tensor = hk.tensor("t").expect("is listed");
        let (range, mut out) = (count - 1..count, [0.0]);
        let result = tensor.dequantize_range(&Portable, range, &mut out, Residual::Add);
        let error = result.expect_err("has no such payload");
        let needed = u128::from(count) * if storage == 0 { 4 } else { 8 };
        match error.kind() {
            ErrorKind::TooShort { needed: n, available: 8, .. } if storage != 0x15 => {
                assert_eq!(u128::from(n), needed);
            }
            ErrorKind::TooShort { needed: n, available: 8, .. } => {
                assert_eq!(n, count.div_ceil(32) * 18);
            }
            kind => {
                assert_eq!(kind, ErrorKind::ElementCount);
                assert!(needed > u128::from(u64::MAX), "{error}");
            }
        }
    }
    // A dimension of 0 makes no elements, whatever stands beside it.
    let walked = walk(&shape(&[u64::MAX, 0, u64::MAX], 0)).expect("parses");
    assert_eq!(walked.decoded, 1);
    // No bytes are needed for 2^64 - 1 zeros.
    assert_eq!(walk(&shape(&[u64::MAX], 0x30)).expect("parses").decoded, 1);
}

#[test]
fn overlapping_sections_are_read_as_they_lie() {
    let built = one_of_everything();
    let toc = built.get(built.field("header.tensor_toc_offset"));
    let payload = built.get(built.field("tensor 0.data_offset"));
    // Metadata over the table and the table over a payload: whatever they hold there.
    let _ = walk(&built.with("header.metadata_offset", toc));
    let _ = walk(&built.with("header.tensor_toc_offset", payload));
    let _ = walk(&built.with("header.tensor_toc_offset", 0));
    let _ = walk(&built.with("header.appendix_offset", 128));
    // Payloads over header, metadata and each other: they are read.
    for offset in [0, 64, 128, toc, payload + 1] {
        let walked = walk(&built.with("tensor 2.data_offset", offset)).expect("parses");
        assert_eq!((walked.tensors, walked.decoded), (8, 7));
    }
    // An appendix over the payloads hides none of them.
    let walked = walk(&built.with("header.appendix_offset", payload)).expect("parses");
    assert_eq!((walked.tensors, walked.decoded), (8, 7));
}

#[test]
fn errors_say_where() {
    let built = one_of_everything();
    let at = |name: &str| built.field(name).offset as u64;
    let entry = |name: &str, value| {
        let error = Hk::parse(&built.with(name, value)).expect_err("parses, and should not");
        (error.kind(), error.section(), error.offset(), error.index())
    };
    let toc = Section::Toc;
    let start = |n: usize| at(&format!("tensor {n}.name_len"));
    assert_eq!(
        entry("tensor 2.name_len", 129),
        (ErrorKind::NameLength(129), toc, start(2), Some(2))
    );
    assert_eq!(
        entry("tensor 3.ndim", 9),
        (ErrorKind::Dimensions(9), toc, at("tensor 3.ndim"), Some(3))
    );
    let kind = ErrorKind::ValueLength { tag: 2, length: 7 };
    let value = at("pair 1.value_len") + 4;
    assert_eq!(entry("pair 1.value_len", 7), (kind, Section::Metadata, value, Some(1)));
    let kind = ErrorKind::ValueLength { tag: 4, length: 5 };
    let value = at("pair 0.value_len") + 4;
    assert_eq!(entry("pair 0.type", 4), (kind, Section::Metadata, value, Some(0)));
    assert_eq!(entry("header.version_major", 2), (ErrorKind::Version(2), Section::Header, 4, None));
    assert_eq!(
        entry("header.flags", 0xFFFF_FFFE),
        (ErrorKind::NotLittleEndian, Section::Header, 8, None)
    );
}

#[test]
fn what_is_open_reads_on() {
    let built = one_of_everything();
    let sound = walk(&built.bytes).expect("parses");
    let open = [
        ("header.version_minor", 0xFFFF),
        ("header.flags", 0xFFFF_FFFF),
        ("header.flags", 1),
        ("header.alignment", 0),
        ("header.alignment", 3),
        ("header.split_count", 0),
        ("header.tensor_data_offset", u64::MAX),
        ("header.checksum", 77),
        ("pair 0.type", 0xFF),
        ("tensor 7.storage", 0x70),
        ("tensor 7.tile", 0xFF),
        ("tensor 7.sparsity", 0xFF),
        ("record 0.type", 0xFF),
    ];
    for (field, value) in open {
        let walked = walk(&built.with(field, value)).expect("parses");
        // Some of these are faults to `verify`; to a reader they make no difference.
        assert_eq!(Walked { sound: true, ..walked }, sound, "{field} = {value:#x}");
    }
}

#[test]
fn broken_records_leave_the_ones_before_them() {
    let built = one_of_everything();
    let records = |name: &str, value| walk(&built.with(name, value)).expect("parses").records;
    assert_eq!(records("record 1.type", 0), 1);
    assert_eq!(records("record 1.data_size", u64::MAX), 1);
    assert_eq!(records("record 1.data_size", 1 << 32), 1);
    assert_eq!(records("record 1.name_len", 3), 1); // cuts a letter of two bytes
    assert_eq!(records("record 0.type", 0), 0);
    assert_eq!(records("record 0.data_size", (1 << 32) + 7), 0);
    let bytes = built.with("record 0.data_crc32", 5);
    let hk = Hk::parse(&bytes).expect("parses");
    let record = hk.appendix().next().expect("a record").expect("a whole one");
    assert!(record.check_crc().is_err());
    let error = record.check_crc().expect_err("a wrong checksum");
    assert!(error.to_string().contains("CRC-32"), "{error}");
}

#[test]
fn opening_from_disk_gives_the_same_verdict() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("corrupt.hk");
    let built = one_of_everything();
    let files = mutate::truncations(&built.bytes).step_by(7);
    let (mut refused, mut opened) = (0, 0);
    for Corrupt { what, bytes } in files.chain(mutate::random(&built.bytes, 3, 400)) {
        std::fs::write(&path, &bytes).expect("a temporary file");
        let model = hk_std::ModelFile::open(&path);
        match (model, Hk::parse(&bytes)) {
            (Ok(model), Ok(hk)) => {
                let names = |hk: Hk<'_>| hk.tensors().map(|t| t.name.to_owned()).collect();
                let expected: Vec<String> = names(hk);
                assert_eq!(
                    expected,
                    {
                        let there: Vec<String> = names(model.hk());
                        there
                    },
                    "{what}"
                );
                for tensor in hk.tensors() {
                    let found = model.tensor(tensor.name).expect("an index of every name");
                    let first = hk.tensor(tensor.name).expect("is listed");
                    assert_eq!(found.index, first.index, "{what}");
                }
                opened += 1;
            }
            (Err(error), Err(_)) => {
                let text = error.to_string();
                assert!(text.contains("corrupt.hk"), "{text}");
                refused += 1;
            }
            (model, hk) => panic!("{what}: from disk {model:?}, from memory {hk:?}"),
        }
    }
    assert!(refused > 100 && opened > 50, "{refused} refused, {opened} opened");
}
