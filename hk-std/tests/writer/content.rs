//! What is written comes back, and what cannot be written is refused.

use super::*;

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
    let mut end = header.toc.offset + header.toc.size + Writer::METADATA_ROOM;
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
        writer.alignment(header.payload_alignment()).unwrap().metadata_room(0);
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
