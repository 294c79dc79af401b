//! Files written and read back: every field, every alignment, and nothing left of a write
//! that fails.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use hk_std::hk_core::build::{FileBuilder, pack_f32, pack_i32, pack_strings};
use hk_std::hk_core::{
    Array, Flags, Part, SparsityType, StorageType, TileLayout, Value, ValueType,
};
use hk_std::{Error, ModelFile, Progress, TensorSpec, Writer};
use tempfile::tempdir;

/// Bytes that no other tensor or part has.
fn payload(name: &str, part: Part, size: u64) -> Vec<u8> {
    let mut state = name.bytes().fold(part as u32 + 1, |h, b| h.wrapping_mul(31) + u32::from(b));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect()
}

fn write(writer: &Writer, path: &Path) -> hk_std::Result<u64> {
    writer.write(path, |spec, part| Ok(io::Cursor::new(payload(&spec.name, part, spec.size(part)))))
}

/// Only this file is in the folder.
fn alone(path: &Path) {
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [path.file_name().unwrap()]);
}

/// Tensors of every kind, with every field away from its default somewhere.
fn specs() -> Vec<TensorSpec> {
    let new = TensorSpec::new;
    vec![
        new("scalar", StorageType::F64, &[]),
        new("blocks", StorageType::Q4_K, &[3, 300]),
        TensorSpec {
            data_size: 70,
            scales_size: 20,
            residual_size: 560,
            block_size: 32,
            ..new("dual", StorageType::DQ4, &[14, 10])
        },
        TensorSpec {
            data_size: 8,
            scales_size: 4,
            block_size: 16,
            ..new("split", StorageType::IQ4_NL, &[16])
        },
        TensorSpec {
            tile: TileLayout::TILE_16X8,
            data_size: 32 * 8 * 2,
            ..new("tiled", StorageType::F16, &[17, 5])
        },
        TensorSpec { tile: TileLayout::COL_MAJOR, ..new("columns", StorageType::BF16, &[3, 5]) },
        TensorSpec {
            sparsity: SparsityType::BITMASK,
            sparsity_ratio: 0.75,
            data_size: 12,
            ..new("mask", StorageType::F32, &[8])
        },
        new("null", StorageType::NULL_REF, &[1000, 1000]),
        TensorSpec { data_size: 33, ..new("lora", StorageType::LORA_REF, &[7]) },
        TensorSpec {
            tile: TileLayout(0x77),
            sparsity: SparsityType(0x66),
            data_size: 5,
            block_size: u16::MAX,
            ..new("unknown ünï", StorageType(0xEE), &[1, 2, 3, 4, 5, 6, 7, 8])
        },
        new("empty", StorageType::F32, &[0, 9]),
        new(&"n".repeat(128), StorageType::BOOL, &[3]),
    ]
}

/// Adds a few metadata pairs, every tensor of `specs`, and a `shared_ref`.
fn everything(alignment: u32) -> Writer {
    let mut writer = Writer::new();
    writer.alignment(alignment).unwrap();
    writer.metadata("general.name", Value::String("tïny")).unwrap();
    for spec in specs() {
        writer.tensor(spec).unwrap();
    }
    writer.shared("tied", "dual", &[140]).unwrap();
    writer
}

#[test]
fn every_field_comes_back_at_every_alignment() {
    for alignment in [1, 2, 3, 48, 100, 128, 4096, 4100, 65535, 65536] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("all.hk");
        let length = write(&everything(alignment), &path).unwrap();
        assert_eq!(length, fs::metadata(&path).unwrap().len());
        alone(&path);

        let model = ModelFile::open(&path).unwrap();
        let header = model.header();
        assert_eq!(header.payload_alignment(), alignment);
        assert_eq!(header.flags, Flags::LITTLE_ENDIAN.with(Flags::for_alignment(alignment)));
        assert!(header.tensor_data_offset.is_multiple_of(u64::from(alignment)));
        assert_eq!((header.split_index, header.split_count), (0, 1));
        assert_eq!((header.appendix_offset, header.checksum, header.reserved), (0, 0, [0; 38]));
        assert_eq!(model.hk().toc().used(), header.toc.size);

        let specs = specs();
        assert_eq!(model.tensors().len(), specs.len() + 1);
        for (spec, tensor) in specs.iter().zip(model.tensors()) {
            same(spec, &tensor);
            for (part, span) in tensor.parts() {
                assert!(
                    span.offset.is_multiple_of(u64::from(alignment)),
                    "{part} of {}",
                    spec.name
                );
                assert!(span.offset >= header.tensor_data_offset);
            }
            assert_eq!(tensor.data(), payload(&spec.name, Part::Data, spec.data_size));
            assert_eq!(tensor.scales(), payload(&spec.name, Part::Scales, spec.scales_size));
            assert_eq!(tensor.residual(), payload(&spec.name, Part::Residual, spec.residual_size));
        }
    }
}

fn same(spec: &TensorSpec, tensor: &hk_std::hk_core::Tensor<'_>) {
    assert_eq!(tensor.name, spec.name);
    assert_eq!(tensor.storage, spec.storage);
    assert_eq!(tensor.tile, spec.tile);
    assert_eq!(tensor.sparsity, spec.sparsity);
    assert_eq!(tensor.shape[..], spec.shape[..]);
    assert_eq!(tensor.block_size, spec.block_size);
    assert_eq!(tensor.sparsity_ratio, spec.sparsity_ratio);
    let sizes = (tensor.data.size, tensor.scales.size, tensor.residual.size);
    assert_eq!(sizes, (spec.data_size, spec.scales_size, spec.residual_size));
}

#[test]
fn parts_do_not_overlap_and_only_zeros_stand_between_them() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("all.hk");
    write(&everything(100), &path).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let (header, mut bytes) = (model.header(), fs::read(&path).unwrap());
    let mut end = header.toc.offset + header.toc.size;
    assert_eq!(header.metadata.offset, 128);
    assert_eq!(header.metadata.offset + header.metadata.size, header.toc.offset);
    for tensor in model.tensors().filter(|t| t.storage != StorageType::SHARED_REF) {
        for (_, span) in tensor.parts() {
            assert!(span.offset >= end && span.offset - end < 100);
            end = span.offset + span.size;
            bytes[span.offset as usize..end as usize].fill(0);
        }
    }
    assert_eq!(end, bytes.len() as u64);
    let toc_end = (header.toc.offset + header.toc.size) as usize;
    assert!(bytes[toc_end..].iter().all(|&b| b == 0));
}

#[test]
fn references_store_no_bytes() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("refs.hk");
    write(&everything(128), &path).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let null = model.tensor("null").unwrap();
    assert_eq!((null.data.offset, null.data.size), (0, 0));

    let (tied, dual) = (model.tensor("tied").unwrap(), model.tensor("dual").unwrap());
    assert_eq!(tied.storage, StorageType::SHARED_REF);
    let spans = |t: &hk_std::hk_core::Tensor<'_>| (t.data, t.scales, t.residual);
    assert_eq!(spans(&tied), spans(&dual));
    for resolved in [model.resolve(&tied).unwrap(), tied.resolve().unwrap()] {
        assert_eq!(resolved.storage, StorageType::DQ4);
        assert_eq!((resolved.name, &resolved.shape[..]), ("tied", &[140][..]));
    }
}

#[test]
fn flags_say_what_the_payloads_are() {
    let flags = |storages: &[(&str, StorageType, SparsityType, u64)], shard: bool| {
        let mut builder = FileBuilder::new();
        for &(name, storage, sparsity, data_size) in storages {
            let spec = TensorSpec { sparsity, data_size, ..TensorSpec::new(name, storage, &[32]) };
            builder.tensor(spec).unwrap();
        }
        if shard {
            builder.shard(1, 3).unwrap();
        }
        let header = *builder.plan().unwrap().header();
        assert_eq!((header.split_index, header.split_count), if shard { (1, 3) } else { (0, 1) });
        assert!(header.flags.contains(Flags::LITTLE_ENDIAN.with(Flags::TILE_ALIGNED)));
        Flags(header.flags.0 & !Flags::LITTLE_ENDIAN.with(Flags::TILE_ALIGNED).0)
    };
    let none = SparsityType::NONE;
    let f32 = ("f32", StorageType::F32, none, 128);
    let q8_0 = ("q8_0", StorageType::Q8_0, none, 34);
    let null = ("null", StorageType::NULL_REF, none, 0);
    let two_four = ("2:4", StorageType::SPARSE_2_4, none, 68);
    let tagged = ("tagged", StorageType::F32, SparsityType::STRUCTURED_2_4, 68);
    assert_eq!(flags(&[], false), Flags(0));
    assert_eq!(flags(&[f32, null], false), Flags::RAW_WEIGHT_STORAGE);
    assert_eq!(flags(&[f32, q8_0], false), Flags(0));
    assert_eq!(flags(&[null], false), Flags(0));
    assert_eq!(flags(&[q8_0, two_four], false), Flags::SPARSITY_2_4);
    assert!(flags(&[tagged], false).contains(Flags::SPARSITY_2_4));
    assert_eq!(flags(&[q8_0], true), Flags::IS_SHARDED);
}

#[test]
fn metadata_of_every_type_come_back() {
    let strings = pack_strings(["", "a", "ünï", "\u{10FFFF}"]).unwrap();
    let floats = pack_f32([0.0, -0.0, 1.5, f32::INFINITY]).unwrap();
    let numbers = pack_i32([i32::MIN, -1, 0, i32::MAX]).unwrap();
    let long = "x".repeat(100_000);
    let pairs = [
        ("string", Value::String("tïny")),
        ("long", Value::String(&long)),
        ("int64", Value::Int64(i64::MIN)),
        ("float64", Value::Float64(-0.1)),
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("json", Value::Json("{\"a\": [1]}")),
        ("bytes", Value::Bytes(&[0, 255, 7])),
        ("strings", Value::Bytes(&strings)),
        ("floats", Value::Bytes(&floats)),
        ("numbers", Value::Bytes(&numbers)),
        ("unknown", Value::Unknown(ValueType(0x4D), &[1, 2])),
        ("", Value::Bytes(&[])),
    ];
    let folder = tempdir().unwrap();
    let path = folder.path().join("metadata.hk");
    let mut writer = Writer::new();
    for (key, value) in pairs {
        writer.metadata(key, value).unwrap();
    }
    write(&writer, &path).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let metadata = model.metadata();
    assert!(metadata.iter().map(|entry| (entry.key, entry.value)).eq(pairs));
    assert_eq!(metadata.used(), model.header().metadata.size);
    for (key, value) in pairs {
        assert_eq!(metadata.get(key), Some(value));
    }
    let Ok(Array::Strings(strings)) = metadata.get("strings").unwrap().array() else { panic!() };
    assert!(strings.iter().eq(["", "a", "ünï", "\u{10FFFF}"].map(str::as_bytes)));
    let Ok(Array::F32(floats)) = metadata.get("floats").unwrap().array() else { panic!() };
    let bits = |x: f32| x.to_bits();
    assert!(floats.iter().map(bits).eq([0.0, -0.0, 1.5, f32::INFINITY].map(bits)));
    let Ok(Array::I32(numbers)) = metadata.get("numbers").unwrap().array() else { panic!() };
    assert!(numbers.iter().eq([i32::MIN, -1, 0, i32::MAX]));
}

#[test]
fn what_cannot_be_written_is_refused_by_name() {
    fn refused<T>(result: hk_std::Result<T>, words: &[&str]) {
        let Err(error @ Error::Invalid(_)) = result else { panic!("not refused: {words:?}") };
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
    }
    let f32 = |name: &str, shape: &[u64]| TensorSpec::new(name, StorageType::F32, shape);
    let mut writer = everything(128);

    refused(writer.alignment(0).map(drop), &["0 bytes", "1 to 65536"]);
    refused(writer.alignment(65537).map(drop), &["65537 bytes"]);
    refused(writer.shard(2, 2).map(drop), &["shard 2 of 2"]);
    refused(
        writer.metadata("general.name", Value::Bool(true)).map(drop),
        &["\"general.name\"", "already"],
    );
    refused(
        writer.metadata(&"k".repeat(65536), Value::Bool(true)).map(drop),
        &["65536 bytes", "65535"],
    );
    refused(
        writer.metadata("raw", Value::Unknown(ValueType::INT64, &[1])).map(drop),
        &["\"raw\"", "int64"],
    );

    refused(writer.tensor(f32("blocks", &[1])).map(drop), &["\"blocks\"", "already"]);
    refused(writer.tensor(f32(&"ü".repeat(65), &[1])).map(drop), &["130 bytes", "128"]);
    refused(writer.tensor(f32("nine", &[1; 9])).map(drop), &["\"nine\"", "9 dimensions", "8"]);
    refused(writer.tensor(f32("huge", &[1 << 33, 1 << 33])).map(drop), &["\"huge\"", "2^64"]);
    let wide = TensorSpec { data_size: 4, ..f32("wide", &[1 << 63]) };
    refused(writer.tensor(wide).map(drop), &["\"wide\"", "2^64"]);
    for given in [127, 129, 0] {
        let spec = TensorSpec { data_size: given, ..f32("wrong", &[32]) };
        refused(writer.tensor(spec).map(drop), &["\"wrong\"", &format!("{given} bytes"), "128"]);
    }
    let spec =
        TensorSpec { scales_size: 4, ..TensorSpec::new("zeros", StorageType::NULL_REF, &[]) };
    refused(writer.tensor(spec).map(drop), &["\"zeros\"", "scales"]);
    let spec = TensorSpec::new("shared", StorageType::SHARED_REF, &[]);
    refused(writer.tensor(spec).map(drop), &["\"shared\"", "whose bytes"]);

    refused(writer.shared("a", "nowhere", &[1]).map(drop), &["\"a\"", "\"nowhere\"", "not there"]);
    for reference in ["null", "tied", "lora"] {
        refused(writer.shared("a", reference, &[1]).map(drop), &["\"a\"", "reference"]);
    }
    refused(writer.shared("a", "dual", &[141]).map(drop), &["141 elements", "140"]);
    refused(writer.shared("blocks", "dual", &[140]).map(drop), &["\"blocks\"", "already"]);

    // Nothing of that was kept.
    let folder = tempdir().unwrap();
    let path = folder.path().join("all.hk");
    write(&writer, &path).unwrap();
    let first = fs::read(&path).unwrap();
    write(&everything(128), &path).unwrap();
    assert!(first == fs::read(&path).unwrap());
}

#[test]
fn an_empty_target_is_shared_only_where_readers_find_it() {
    let empty = |name: &str, storage| TensorSpec::new(name, storage, &[0]);
    let mut builder = FileBuilder::new();
    builder.tensor(empty("first", StorageType::F32)).unwrap();
    builder.tensor(empty("second", StorageType::Q4_0)).unwrap();
    builder.shared("good", "first", &[0, 3]).unwrap();
    assert!(builder.plan().is_ok());
    builder.shared("bad", "second", &[0]).unwrap();
    let text = builder.plan().unwrap_err().to_string();
    assert!(text.contains("without bytes"), "{text}");
}

#[test]
fn sizes_that_pass_the_end_of_offsets_are_refused() {
    let mut builder = FileBuilder::new();
    for name in ["a", "b"] {
        let spec = TensorSpec::new(name, StorageType::INT8, &[u64::MAX / 2 + 1]);
        builder.tensor(spec).unwrap();
    }
    let text = builder.plan().unwrap_err().to_string();
    assert!(text.contains("2^64"), "{text}");
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    fs::write(&path, "old").unwrap();
    let writer = everything(128);
    let size = specs()[1].data_size;
    let cases: [(&str, usize, &[&str]); 2] = [
        ("short", size as usize - 1, &["data of tensor \"blocks\"", "575 of 576"]),
        ("long", size as usize + 1, &["data of tensor \"blocks\"", "after the 576"]),
    ];
    for (case, given, words) in cases {
        let result = writer.write(&path, |spec, part| {
            let mut bytes = payload(&spec.name, part, spec.size(part));
            if spec.name == "blocks" {
                bytes.resize(given, 0);
            }
            Ok(io::Cursor::new(bytes))
        });
        let text = result.unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{case}: {text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        alone(&path);
    }

    // The source fails when it is opened, and when it is read.
    let error = || io::Error::other("the cable fell out");
    let opened = writer.write(&path, |_, _| Err::<io::Empty, _>(error()));
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable fell out"))
        }
    }
    let read = writer.write(&path, |_, _| Ok(Broken));
    for result in [opened, read] {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("the cable fell out") && text.contains("\"scalar\""), "{text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        alone(&path);
    }

    // The source says that it gave more than there was room for.
    struct Boaster;
    impl Read for Boaster {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(buffer.len() + 1)
        }
    }
    let text = writer.write(&path, |_, _| Ok(Boaster)).unwrap_err().to_string();
    assert!(text.contains("more bytes than it was asked for"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    alone(&path);

    // The source panics.
    let panicked = std::panic::catch_unwind(|| {
        let _ = writer.write(&path, |_, _| -> io::Result<io::Empty> { panic!("by the test") });
    });
    assert!(panicked.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    alone(&path);

    write(&writer, &path).unwrap();
    assert!(ModelFile::open(&path).is_ok());
    alone(&path);
}

#[test]
fn a_reader_may_give_little_at_a_time_and_be_interrupted() {
    struct Slow(Vec<u8>, usize);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = self.0.len().min(7).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }
    let folder = tempdir().unwrap();
    let (fast, slow) = (folder.path().join("fast.hk"), folder.path().join("slow.hk"));
    let writer = everything(128);
    write(&writer, &fast).unwrap();
    let parts = |spec: &TensorSpec, part| Ok(Slow(payload(&spec.name, part, spec.size(part)), 0));
    writer.write(&slow, parts).unwrap();
    assert!(fs::read(&fast).unwrap() == fs::read(&slow).unwrap());
}

#[test]
fn a_write_stops_when_asked_to() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large.hk");
    fs::write(&path, "old").unwrap();
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("large", StorageType::UINT8, &[5_000_000])).unwrap();
    let zeros = |_: &TensorSpec, _| Ok(io::repeat(7).take(5_000_000));
    let stop = |p: Progress| match p.done < 2_000_000 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let result = writer.write_with_progress(&path, zeros, stop);
    assert!(matches!(result, Err(hk_std::Error::Stopped)));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn progress_runs_to_the_length_of_the_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("large.hk");
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("large", StorageType::UINT8, &[5_000_000])).unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    let zeros = |_: &TensorSpec, _| Ok(io::repeat(7).take(5_000_000));
    let length = writer.write_with_progress(&path, zeros, |p| {
        seen.push(p);
        ControlFlow::Continue(())
    });
    let length = length.unwrap();
    assert!(seen.len() >= 5);
    assert!(seen.is_sorted_by(|a, b| a.done < b.done));
    assert!(seen.iter().all(|p| p.total == length));
    assert_eq!(seen.last().unwrap().done, length);
    let model = ModelFile::open(&path).unwrap();
    assert!(model.tensor("large").unwrap().data().iter().all(|&byte| byte == 7));
}

#[test]
fn parts_are_asked_for_once_and_in_order() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("all.hk");
    let mut asked = Vec::new();
    everything(128)
        .write(&path, |spec, part| {
            asked.push((spec.name.clone(), part));
            Ok(io::Cursor::new(payload(&spec.name, part, spec.size(part))))
        })
        .unwrap();
    let mut expected = Vec::new();
    for spec in specs() {
        for part in [Part::Data, Part::Scales, Part::Residual] {
            if spec.size(part) > 0 {
                expected.push((spec.name.clone(), part));
            }
        }
    }
    assert_eq!(asked, expected);
}

#[test]
fn a_target_that_is_no_file_is_refused_before_anything_is_asked() {
    let folder = tempdir().unwrap();
    let refused = |path: &Path, words: &[&str]| {
        let result = Writer::new().write(path, |_, _| -> io::Result<io::Empty> { unreachable!() });
        let text = result.unwrap_err().to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    refused(folder.path(), &["is a directory"]);
    refused(&folder.path().join("nowhere/model.hk"), &["there is no folder", "make it first"]);
    #[cfg(unix)]
    refused(Path::new("/dev/null"), &["/dev/null", "no regular file"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_stays_and_its_target_is_replaced() {
    let folder = tempdir().unwrap();
    let elsewhere = tempdir().unwrap();
    let (link, target) = (folder.path().join("link.hk"), elsewhere.path().join("model.hk"));
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    write(&everything(128), &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(ModelFile::open(&target).is_ok());
    alone(&link);
    alone(&target);

    fs::remove_file(&target).unwrap();
    let text = write(&everything(128), &link).unwrap_err().to_string();
    assert!(text.contains("link.hk"), "{text}");
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_the_old_file_or_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let folder = tempdir().unwrap();
    let (path, plain) = (folder.path().join("model.hk"), folder.path().join("plain"));
    fs::write(&plain, "").unwrap();
    write(&everything(128), &path).unwrap();
    assert_eq!(mode(&path), mode(&plain));
    // The superuser's writes leave a file to its owner; others cannot give files away.
    let owner = if std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_ok() {
        (1234, 4321)
    } else {
        owner(&path)
    };
    for old in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(old)).unwrap();
        write(&everything(128), &path).unwrap();
        assert_eq!(mode(&path), old);
        assert_eq!(self::owner(&path), owner);
    }
}

#[cfg(unix)]
fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

#[test]
fn an_open_file_survives_its_replacement() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    write(&everything(128), &path).unwrap();
    let old = ModelFile::open(&path).unwrap();
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("new", StorageType::F32, &[4])).unwrap();
    // Windows refuses to replace a mapped file; then the old one must stand.
    let replaced = write(&writer, &path).is_ok();
    assert!(replaced || cfg!(windows));
    let blocks = old.tensor("blocks").unwrap();
    assert!(blocks.data() == payload("blocks", Part::Data, 576));
    assert_eq!(ModelFile::open(&path).unwrap().tensor("new").is_some(), replaced);
}

#[test]
fn sources_of_many_kinds_can_be_mixed() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("file", StorageType::UINT8, &[3])).unwrap();
    writer.tensor(TensorSpec::new("memory", StorageType::UINT8, &[2])).unwrap();
    let source = folder.path().join("source");
    fs::write(&source, "abc").unwrap();
    writer
        .write(&path, |spec, _| -> io::Result<Box<dyn Read>> {
            Ok(match spec.name.as_str() {
                "file" => Box::new(fs::File::open(&source)?),
                _ => Box::new(&b"de"[..]),
            })
        })
        .unwrap();
    let model = ModelFile::open(&path).unwrap();
    let data: HashMap<_, _> = model.tensors().map(|t| (t.name, t.data())).collect();
    assert_eq!(data, HashMap::from([("file", &b"abc"[..]), ("memory", b"de")]));
}

/// The reference library's files, written again from what they hold: the same bytes but for
/// the seal, and for bit 7, which it sets on request and we set by the payloads.
#[test]
fn reference_files_written_again_are_the_same() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("again.hk");
    let names = [
        "ref_128",
        "ref_48",
        "ref_4096_raw",
        "ref_65536",
        "ref-00001-of-00002",
        "ref-00002-of-00002",
    ];
    for name in names {
        let reference = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../tests/data/reference/{name}.hk"));
        let model = ModelFile::open(&reference).unwrap();
        let header = model.header();
        let mut writer = Writer::new();
        writer.alignment(header.payload_alignment()).unwrap();
        if header.flags.contains(Flags::IS_SHARDED) {
            writer.shard(header.split_index, header.split_count).unwrap();
        }
        for entry in model.metadata() {
            writer.metadata(entry.key, entry.value).unwrap();
        }
        for tensor in model.tensors() {
            let spec = TensorSpec {
                data_size: tensor.data.size,
                ..TensorSpec::new(tensor.name, tensor.storage, &tensor.shape)
            };
            writer.tensor(spec).unwrap();
        }
        writer.write(&path, |spec, _| Ok(model.tensor(&spec.name).unwrap().data())).unwrap();

        let unsealed = |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            let flags = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            let ignored = Flags::SEALED.with(Flags::RAW_WEIGHT_STORAGE).0;
            bytes[8..12].copy_from_slice(&(flags & !ignored).to_le_bytes());
            bytes[0x50..0x58].fill(0);
            bytes[0x5A..0x7A].fill(0);
            bytes
        };
        assert!(unsealed(&path) == unsealed(&reference), "{name}");
    }
}
