//! The reference files: `all_types.hk`, made from the golden vectors, and the files that
//! the reference library wrote, edited, appended to and rolled back (payloads.md,
//! "Reference files"). What is expected of them stands here in full.

use hk_core::format::seal::{self, Seal};
use hk_core::{Array, Backend, Error, Flags, Hk, Portable, Residual, StorageType, Tensor, Value};
use hk_tests::{bits, data, data_f32_bits, reference_names};

fn decode(tensor: &Tensor<'_>, residual: Residual) -> Result<Vec<f32>, Error> {
    decode_by(&Portable, tensor, residual)
}

fn decode_by(
    backend: &dyn Backend,
    tensor: &Tensor<'_>,
    residual: Residual,
) -> Result<Vec<f32>, Error> {
    let mut out = vec![0.5; tensor.shape.count() as usize];
    tensor.dequantize_into(backend, &mut out, residual)?;
    Ok(out)
}

/// Compares bit by bit; which NaN arithmetic makes is the host's affair, which NaN a dense
/// 16-bit float holds is not.
#[track_caller]
fn assert_same(tensor: &Tensor<'_>, found: &[f32], expected: &[u32]) {
    assert_eq!(found.len(), expected.len(), "{}", tensor.name);
    let exact = [StorageType::F32, StorageType::F16, StorageType::BF16].contains(&tensor.storage);
    for (i, (found, &expected)) in found.iter().zip(expected).enumerate() {
        let nan = found.is_nan() && f32::from_bits(expected).is_nan() && !exact;
        let (name, bits) = (tensor.name, found.to_bits());
        assert!(nan || bits == expected, "{name}[{i}]: {bits:#010x}, expected {expected:#010x}");
    }
}

#[test]
fn every_tensor_of_all_types() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    assert_eq!(hk.tensors().len(), 65);
    let mut decoded = 0;
    let backends = hk_std::backends();
    let cases = backends.iter().flat_map(|&backend| hk.tensors().map(move |t| (backend, t)));
    for (backend, tensor) in cases {
        let vector = match tensor.name {
            "nothing" => vec![0; 20],
            "tied" => data_f32_bits("vectors/f32.f32"),
            name => data_f32_bits(&format!("vectors/{name}.f32")),
        };
        let decode = |residual| decode_by(backend, &tensor, residual);
        let base = decode(Residual::Skip).unwrap_or_else(|e| panic!("{e}"));
        assert_same(&tensor, &base, &vector);
        let whole = decode(Residual::Add).unwrap_or_else(|e| panic!("{e}"));
        if tensor.residual().is_empty() {
            assert_eq!(bits(&whole), bits(&base), "{}", tensor.name);
        } else {
            let vector = data_f32_bits(&format!("vectors/{}.with_residual.f32", tensor.name));
            assert_same(&tensor, &whole, &vector);
        }
        decoded += 1;
    }
    // Fifteen dense types, twenty-five block types, two references; nine dual-mode and three
    // split-scale tensors, two with bitmask and 2:4, three with CSR and BSR, six orders.
    assert_eq!(decoded / backends.len(), 15 + 25 + 2 + (9 + 3 + 2 + 3 + 6));
}

#[test]
fn payloads_of_all_types_are_the_vectors() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    for tensor in hk.tensors() {
        let name = match tensor.name {
            "nothing" => continue,
            "tied" => "f32",
            name => name,
        };
        assert_eq!(tensor.data(), data(&format!("vectors/{name}.blocks")), "{name}");
        for (bytes, part) in [(tensor.scales(), "scales"), (tensor.residual(), "residual")] {
            if !bytes.is_empty() {
                assert_eq!(bytes, data(&format!("vectors/{name}.{part}")), "{name}.{part}");
            }
        }
    }
}

#[test]
fn what_all_types_says_of_itself() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let header = hk.header();
    assert_eq!(header.flags, Flags::LITTLE_ENDIAN.with(Flags::TILE_ALIGNED));
    assert_eq!((header.payload_alignment(), header.shards()), (128, 1));
    let metadata = hk.metadata();
    let keys: Vec<&str> = metadata.iter().map(|entry| entry.key).collect();
    let expected =
        ["general.architecture", "answer", "pi", "flag", "list", "blob", "tokens", "nums"];
    assert_eq!(keys, expected);
    assert_eq!(metadata.architecture(), Some("llama"));
    assert_eq!(metadata.get("answer"), Some(Value::Int64(-42)));
    assert_eq!(metadata.get("pi"), Some(Value::Float64(3.25)));
    assert_eq!(metadata.get("flag"), Some(Value::Bool(true)));
    assert_eq!(metadata.get("list"), Some(Value::Json("[1, 2, {\"a\": null}]")));
    assert_eq!(metadata.get("blob"), Some(Value::Bytes(&[0, 1, 2, 3, 4, 5, 6])));
    assert_eq!(metadata.get("no such key"), None);
    let array = |key| metadata.get(key).and_then(|value| value.array().ok());
    let Some(Array::Strings(tokens)) = array("tokens") else { panic!("no strings") };
    assert!(tokens.iter().eq(["hi", "", "wörld"].map(str::as_bytes)));
    let Some(Array::I32(numbers)) = array("nums") else { panic!("no numbers") };
    assert!(numbers.iter().eq([-1, 7]));
    assert!(array("blob").is_none());
    let ratios = hk.tensors().all(|t| t.sparsity_ratio == 0.0);
    assert!(ratios && hk.appendix().next().is_none());
    let block_sizes: Vec<(&str, u16)> =
        hk.tensors().filter(|t| t.block_size != 32).map(|t| (t.name, t.block_size)).collect();
    let expected = [
        ("dq4_b64", 64),
        ("dq4_b31", 31),
        ("dq4_b2", 2),
        ("dq4_b4096", 4096),
        ("dq8_b100", 100),
        ("dqt_b3", 3),
        ("split_nvfp4", 16),
    ];
    assert_eq!(block_sizes, expected);
}

/// A file of the reference library.
struct Written {
    name: &'static str,
    flags: &'static [Flags],
    alignment: (u16, u32),
    shard: (u16, u16),
    tensors: &'static [Listed],
    note: Option<usize>,
    records: usize,
}

/// A tensor of such a file: name, type, shape, offset.
type Listed = (&'static str, StorageType, &'static [u64], u64);

const THREE: &[Listed] = &[
    ("a", StorageType::F32, &[3, 4, 5], 512),
    ("q", StorageType::Q8_0, &[64], 768),
    ("empty", StorageType::F32, &[0], 896),
];
const RAW: &[Listed] =
    &[("bf", StorageType::BF16, &[8], 4096), ("i64", StorageType::INT64, &[4], 8192)];
const RAW_FLAGS: &[Flags] =
    &[Flags::TILE_ALIGNED, Flags::RAW_WEIGHT_STORAGE, Flags::UNIVERSAL_PAGE_ALIGNED];

const WRITTEN: &[Written] = &[
    Written {
        name: "ref-00001-of-00002.hk",
        flags: &[Flags::TILE_ALIGNED, Flags::IS_SHARDED],
        shard: (0, 2),
        tensors: &[("t0", StorageType::F32, &[2, 2], 384)],
        ..PLAIN
    },
    Written {
        name: "ref-00002-of-00002.hk",
        flags: &[Flags::TILE_ALIGNED, Flags::IS_SHARDED],
        shard: (1, 2),
        tensors: &[("t1", StorageType::F32, &[2, 2], 384)],
        ..PLAIN
    },
    PLAIN,
    Written {
        name: "ref_4096_raw.hk",
        flags: RAW_FLAGS,
        alignment: (4096, 4096),
        tensors: RAW,
        ..PLAIN
    },
    Written {
        name: "ref_48.hk",
        flags: &[Flags::FLEXIBLE_ALIGNMENT],
        alignment: (48, 48),
        tensors: &[("x", StorageType::F32, &[4], 384), ("y", StorageType::F32, &[4], 432)],
        ..PLAIN
    },
    Written {
        name: "ref_65536.hk",
        flags: &[Flags::TILE_ALIGNED, Flags::UNIVERSAL_PAGE_ALIGNED],
        // 65536 does not fit the field.
        alignment: (0, 65536),
        tensors: &[("x", StorageType::F32, &[4], 65536)],
        ..PLAIN
    },
    Written {
        name: "ref_appendix.hk",
        flags: &[Flags::TILE_ALIGNED, Flags::HAS_APPENDIX],
        records: 3,
        ..PLAIN
    },
    Written {
        name: "ref_appendix_rolled_back.hk",
        flags: &[Flags::TILE_ALIGNED, Flags::HAS_APPENDIX],
        records: 2,
        ..PLAIN
    },
    Written {
        name: "ref_edited.hk",
        flags: RAW_FLAGS,
        alignment: (4096, 4096),
        tensors: RAW,
        note: Some(11),
        ..PLAIN
    },
    Written { name: "ref_edited_eof.hk", note: Some(500), ..PLAIN },
];

const PLAIN: Written = Written {
    name: "ref_128.hk",
    flags: &[Flags::TILE_ALIGNED],
    alignment: (128, 128),
    shard: (0, 1),
    tensors: THREE,
    note: None,
    records: 0,
};

#[test]
fn no_reference_file_is_left_out() {
    let names: Vec<&str> = WRITTEN.iter().map(|written| written.name).collect();
    assert_eq!(reference_names(), [vec!["all_types.hk"], names].concat());
}

#[test]
fn headers_metadata_and_tables_of_written_files() {
    for written in WRITTEN {
        let (name, file) = (written.name, data(&format!("reference/{}", written.name)));
        let hk = Hk::parse(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let header = hk.header();
        let always = Flags::LITTLE_ENDIAN.with(Flags::SEALED);
        let flags = written.flags.iter().fold(always, |all, &flag| all.with(flag));
        assert_eq!(header.flags, flags, "{name}");
        assert_eq!((header.version_major, header.version_minor), (1, 0));
        let alignment = (header.alignment, header.payload_alignment());
        assert_eq!(alignment, written.alignment, "{name}");
        assert_eq!((header.split_index, header.shards()), written.shard, "{name}");
        check_metadata(&hk, written);
        assert_eq!(hk.appendix().flatten().count(), written.records, "{name}");
        let first = written.tensors[0].3;
        assert_eq!(header.tensor_data_offset, first, "{name}");
        assert_eq!(hk.tensors().len(), written.tensors.len());
        for (tensor, &(tensor_name, storage, shape, offset)) in hk.tensors().zip(written.tensors) {
            assert_eq!((tensor.name, tensor.storage), (tensor_name, storage), "{name}");
            assert_eq!((&tensor.shape[..], tensor.data.offset), (shape, offset), "{name}");
            assert_eq!(storage.payload_len(shape), Ok(tensor.data.size), "{name}");
            assert_eq!((tensor.scales().len(), tensor.residual().len()), (0, 0));
            assert_eq!((tensor.tile.0, tensor.sparsity.0, tensor.block_size), (0, 0, 32));
        }
    }
}

fn check_metadata(hk: &Hk<'_>, written: &Written) {
    let metadata = hk.metadata();
    assert_eq!(metadata.len(), 5 + usize::from(written.note.is_some()));
    assert_eq!(metadata.used(), hk.header().metadata.size);
    assert_eq!(metadata.get("general.name"), Some(Value::String("réf")));
    assert_eq!(metadata.get("i"), Some(Value::Int64(-1 << 40)));
    assert_eq!(metadata.get("f"), Some(Value::Float64(0.1)));
    assert_eq!(metadata.get("b"), Some(Value::Bool(true)));
    assert_eq!(metadata.get("j"), Some(Value::Json("{\"k\":[1,2]}")));
    let note = metadata.get("note").map(|note| note.as_str().map(str::len));
    assert_eq!(note, written.note.map(Some));
}

#[test]
fn weights_of_written_files() {
    let counting: Vec<f32> = (0..60u8).map(f32::from).collect();
    for written in WRITTEN {
        let file = data(&format!("reference/{}", written.name));
        let hk = Hk::parse(&file).expect("a sound file");
        for tensor in hk.tensors() {
            let weights = decode(&tensor, Residual::Add).expect("a plain type");
            let payload = tensor.data();
            let expected: Vec<f32> = match tensor.name {
                "a" => counting.clone(),
                "x" | "t0" => counting[..4].to_vec(),
                "y" | "t1" => counting[4..8].to_vec(),
                "empty" => Vec::new(),
                "q" => payload.chunks(34).flat_map(q8_0).collect(),
                "bf" => payload
                    .chunks(2)
                    .map(|b| f32::from_bits(u32::from_le_bytes([0, 0, b[0], b[1]])))
                    .collect(),
                "i64" => payload
                    .chunks(8)
                    .map(|b| i64::from_le_bytes(b.try_into().expect("8 bytes")) as f32)
                    .collect(),
                name => panic!("{}: an unknown tensor {name}", written.name),
            };
            assert_eq!(bits(&weights), bits(&expected), "{} {}", written.name, tensor.name);
        }
    }
}

/// blocks.md: f16 d, then 32 signed codes; a weight is d times its code.
fn q8_0(block: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let bits = u16::from_le_bytes([block[0], block[1]]);
    let (exponent, mantissa) = (u32::from(bits >> 10 & 31), f32::from(bits & 0x3FF));
    assert!((1..31).contains(&exponent), "a normal number");
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let d = sign * (1.0 + mantissa / 1024.0) * f32::from_bits((exponent + 127 - 15) << 23);
    block[2..].iter().map(move |&code| d * f32::from(code as i8))
}

#[test]
fn seals_are_as_the_reference_says() {
    let report: serde_json::Value =
        serde_json::from_slice(&data("reference/report.json")).expect("JSON");
    for name in reference_names() {
        let mut file = data(&format!("reference/{name}"));
        let seal = |file: &[u8]| {
            let hk = Hk::parse(file).expect("a sound file");
            seal::verify(file, hk.header())
        };
        let expected = match report["sealed"][&name].as_u64() {
            Some(0) => Seal::Intact,
            Some(1) => Seal::None,
            other => panic!("{name}: {other:?} in the report"),
        };
        assert_eq!(seal(&file), expected, "{name}");
        // Any byte counts, also the last one and those of the digest.
        for at in [0x10, 0x57, 0x5A, 0x79, 0x7A, file.len() - 1] {
            file[at] ^= 0x80;
            let spoilt = Hk::parse(&file).map(|_| seal(&file));
            let broken = if expected == Seal::None { Seal::None } else { Seal::Broken };
            assert!(spoilt.is_err() || spoilt == Ok(broken), "{name}: byte {at}: {spoilt:?}");
            file[at] ^= 0x80;
        }
        assert_eq!(seal(&file), expected, "{name}");
    }
}

#[test]
fn records_of_the_appendix() {
    let file = data("reference/ref_appendix.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let records: Vec<_> = hk.appendix().map(|r| r.expect("a whole record")).collect();
    let lines: Vec<_> =
        records.iter().map(|r| (r.kind.name(), r.name, r.target, r.data.len(), r.offset)).collect();
    let expected = [
        (Some("lora_adapter"), "math-lora", "blk.0.attn_q.weight", 13, 896),
        (Some("delta_patch"), "patch", "", 37, 1024),
        (Some("code_eval"), "eval", "humaneval", 11, 1152),
    ];
    assert_eq!(lines, expected);
    assert_eq!(records[0].data, b"adapter-bytes");
    assert_eq!(records[1].data, [1; 37]);
    assert_eq!(records[2].data, b"{\"pass\": 3}");
    for (record, n) in records.iter().zip(1u32..) {
        assert_eq!((record.index, record.generation), (n - 1, n));
        assert_eq!(record.timestamp, 1_700_000_000 + u64::from(n));
        assert_eq!((record.flags, record.missing_padding), (1, 0));
        assert_eq!(record.metrics, [0.5, 0.25, 1.0, 0.0]);
        assert_ne!(record.data_crc32, 0);
        assert_eq!(record.check_crc(), Ok(()));
    }
    assert_eq!(records[0].parent_hash, [0; 32]);
    assert!(records[1].follows(&records[0]) && records[2].follows(&records[1]));
    assert!(!records[2].follows(&records[0]));
    let mut all = hk.appendix();
    assert_eq!(all.by_ref().count(), 3);
    assert!(all.leftover().is_empty());

    let rolled_back = data("reference/ref_appendix_rolled_back.hk");
    let hk = Hk::parse(&rolled_back).expect("a sound file");
    let left: Vec<_> = hk.appendix().map(|r| r.expect("a whole record")).collect();
    assert_eq!(left, records[..2]);
}

#[test]
fn reference_files_verify() {
    for name in reference_names() {
        let report = hk_std::verify::verify(&data(&format!("reference/{name}")));
        let faults: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
        assert!(report.is_sound(), "{name}: {faults:#?}");
    }
}

#[test]
fn shared_references_take_the_first_tensor_over_the_same_bytes() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let (tied, f32) = (hk.tensor("tied").expect("listed"), hk.tensor("f32").expect("listed"));
    assert_eq!(tied.storage, StorageType::SHARED_REF);
    let resolved = tied.resolve().expect("a target");
    assert_eq!((resolved.name, resolved.index), ("tied", tied.index));
    assert_eq!((resolved.storage, resolved.data), (StorageType::F32, f32.data));
    // An ordinary tensor resolves to itself.
    assert_eq!(f32.resolve().map(|t| *t.entry()), Ok(*f32.entry()));
}
