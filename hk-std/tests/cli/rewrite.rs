//! `hk quantize`, `hk prune` and `hk pack`.

use std::path::Path;

use hk_std::hk_core::{Flags, Portable, Residual, SparsityType, StorageType, TileLayout, Value};
use hk_std::{ModelFile, TensorSpec, Writer};

use super::{bad, good, good_json, has_line, hk, reference, text, texts};

/// Weights of many sizes, the same on every host.
fn weights(count: usize) -> Vec<f32> {
    let mut state = 7_u32;
    let mut weight = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| weight()).collect()
}

fn bytes(weights: &[f32]) -> Vec<u8> {
    weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()
}

/// A model of two matrices, one of them tied to, a norm, integers and a type without a decoder.
fn model(folder: &Path) -> String {
    let path = folder.join("model.hk");
    let mut writer = Writer::new();
    writer.metadata("general.name", Value::String("small")).unwrap();
    for (name, storage, shape) in [
        ("wide.weight", StorageType::F32, &[6, 512][..]),
        ("narrow.weight", StorageType::F32, &[5, 96][..]),
        ("odd.weight", StorageType::F32, &[3, 50][..]),
        ("norm.weight", StorageType::F32, &[512][..]),
        ("ids", StorageType::INT32, &[4, 32][..]),
    ] {
        writer.tensor(TensorSpec::new(name, storage, shape)).unwrap();
    }
    let lora =
        TensorSpec { data_size: 9, ..TensorSpec::new("lora", StorageType::LORA_REF, &[2, 2]) };
    writer.tensor(lora).unwrap();
    writer.shared("tied.weight", "wide.weight", &[6, 512]).unwrap();
    let payload = |spec: &TensorSpec, _| Ok(std::io::Cursor::new(payload(spec)));
    writer.write(&path, payload).unwrap();
    text(&path).to_owned()
}

fn payload(spec: &TensorSpec) -> Vec<u8> {
    match spec.storage {
        StorageType::LORA_REF => b"something".to_vec(),
        _ => bytes(&weights(spec.data_size as usize / 4)),
    }
}

fn decoded(path: &str, name: &str, residual: Residual) -> Vec<f32> {
    ModelFile::open(path).unwrap().dequantize(name, &Portable, residual).unwrap()
}

fn storage(path: &str, name: &str) -> StorageType {
    ModelFile::open(path).unwrap().tensor(name).expect("is listed").storage
}

/// The norm of the difference over that of the weights.
fn error(found: &[f32], weights: &[f32]) -> f32 {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
    let difference = norm(&mut found.iter().zip(weights).map(|(a, b)| a - b));
    difference / norm(&mut weights.iter().copied())
}

#[test]
fn quantizing_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let output = text(&folder.path().join("out.hk")).to_owned();
    let run = hk(&["quantize", &input, &output, "--type", "q4_k"]);
    let (out, notes) = texts(&run);
    assert!(run.status.success(), "{notes}");
    assert!(notes.contains("narrow.weight stored as q5_0: rows of 96 do not divide"), "{notes}");
    assert!(notes.contains("odd.weight stored as f16: rows of 50 do not divide"), "{notes}");
    assert_eq!(notes.lines().count(), 2, "{notes}");
    assert!(out.lines().any(|line| line.trim_start().starts_with("q4_k")), "{out}");
    assert!(has_line(&out, "int32 1 128 512 32.000 copied"), "{out}");

    let types = ["wide.weight", "narrow.weight", "odd.weight", "norm.weight", "ids", "lora"]
        .map(|name| storage(&output, name));
    let expected = [
        StorageType::Q4_K,
        StorageType::Q5_0,
        StorageType::F16,
        StorageType::F32,
        StorageType::INT32,
        StorageType::LORA_REF,
    ];
    assert_eq!(types, expected);
    let before = weights(6 * 512);
    let wide = decoded(&output, "wide.weight", Residual::Add);
    let found = error(&wide, &before);
    assert!(found > 0.01 && found < 0.08, "{found}");
    // What is tied goes along, and what is not touched stays as it is.
    assert_eq!(decoded(&output, "tied.weight", Residual::Add), wide);
    let (old, new) = (ModelFile::open(&input).unwrap(), ModelFile::open(&output).unwrap());
    for name in ["norm.weight", "ids", "lora"] {
        assert_eq!(old.tensor(name).unwrap().data(), new.tensor(name).unwrap().data(), "{name}");
    }
    assert_eq!(new.metadata().into_iter().count(), 1);
    assert!(!new.header().flags.contains(Flags::RAW_WEIGHT_STORAGE));
    good(&["verify", &output]);
}

#[test]
fn rules_are_taken_in_order_and_the_one_without_a_pattern_last() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let output = text(&folder.path().join("out.hk")).to_owned();
    let rules = [
        "--type",
        "q8_0",
        "--match",
        "{wide,x}.*",
        "--type",
        "bf16",
        "--match",
        "w*",
        "--type",
        "q4_0",
    ];
    let json = good_json(&[&["quantize", &input, &output, "--json"], &rules[..]].concat());
    assert_eq!(storage(&output, "wide.weight"), StorageType::BF16);
    assert_eq!(storage(&output, "narrow.weight"), StorageType::Q8_0);
    assert_eq!(json["tensors_changed"], 3);
    let types = json["types"].as_array().unwrap();
    let q8_0 = types.iter().find(|entry| entry["type"] == "q8_0").expect("is there");
    assert_eq!((&q8_0["weights"], &q8_0["bytes"]), (&480.into(), &(480 / 32 * 34).into()));
    let found = q8_0["rms_error"].as_f64().unwrap();
    let by_hand = error(&decoded(&output, "narrow.weight", Residual::Add), &weights(480));
    assert!((found - f64::from(by_hand)).abs() < 1e-5, "{found} {by_hand}");

    // Nothing is replaced unasked, and what is wrong leaves the old file as it was.
    let before = std::fs::read(&output).unwrap();
    assert!(bad(&["quantize", &input, &output, "--type", "q8_0"], 1).contains("--force"));
    assert!(bad(&["quantize", &input, &input, "--type", "q8_0"], 1).contains("same file"));
    assert_eq!(std::fs::read(&output).unwrap(), before);
    for wrong in [
        &["--type", "q8_0", "--type", "q4_0"][..],
        &["--match", "a", "--match", "b", "--type", "q8_0"],
        &["--type", "q8_0", "--match", "a"],
        &["--type", "iq1_s"],
        &["--type", "q9"],
        &["--type", "q8_0", "--residual"],
        &["--type", "q8_0", "--block-size", "64"],
        &["--type", "dq8", "--block-size", "1"],
        &["--match", "{a", "--type", "q8_0"],
        &[],
    ] {
        bad(&[&["quantize", &input, &output], wrong].concat(), 2);
    }
}

#[test]
fn dual_mode_with_a_residual_gives_the_weights_back() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let output = text(&folder.path().join("out.hk")).to_owned();
    let before = weights(6 * 512);
    for (name, block) in [("dq8", "31"), ("dq4", "65535"), ("dqt", "2")] {
        let args = ["quantize", &input, &output, "--force", "--residual", "--type", name];
        good(&[&args[..], &["--block-size", block]].concat());
        let whole = decoded(&output, "wide.weight", Residual::Add);
        assert!(error(&whole, &before) < 1e-6, "{name}");
        assert!(error(&decoded(&output, "wide.weight", Residual::Skip), &before) > 1e-3, "{name}");
        assert_eq!(decoded(&output, "tied.weight", Residual::Add), whole, "{name}");
        good(&["verify", &output]);
    }
}

#[test]
fn a_weight_that_cannot_be_encoded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("bad.hk"), folder.path().join("out.hk"));
    let count = 3 << 20;
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("w", StorageType::F32, &[3, 1 << 20])).unwrap();
    let mut values = vec![0.5_f32; count];
    values[(2 << 20) + 12345] = f32::NAN;
    let values = bytes(&values);
    writer.write(&input, |_, _| Ok(&values[..])).unwrap();
    let error = bad(&["quantize", text(&input), text(&output), "--type", "q8_0"], 1);
    assert!(error.contains("tensor \"w\": weight 2109497 is NaN"), "{error}");
    assert!(!output.exists());
}

#[test]
fn pruning_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let output = text(&folder.path().join("out.hk")).to_owned();
    let run = hk(&["prune", &input, &output, "--pattern", "2:4"]);
    let (_, notes) = texts(&run);
    assert!(run.status.success() && notes.contains("odd.weight kept"), "{notes}");
    let file = ModelFile::open(&output).unwrap();
    let wide = file.tensor("wide.weight").unwrap();
    assert_eq!((wide.storage, wide.sparsity_ratio), (StorageType::SPARSE_2_4, 0.5));
    assert!(file.header().flags.contains(Flags::SPARSITY_2_4));
    assert_eq!(storage(&output, "norm.weight"), StorageType::F32);
    let (before, after) = (weights(6 * 512), decoded(&output, "wide.weight", Residual::Add));
    for (before, after) in before.chunks(4).zip(after.chunks(4)) {
        let kept = before.iter().zip(after).filter(|(before, after)| before == after).count();
        assert_eq!((kept, after.iter().filter(|&&w| w == 0.0).count()), (2, 2));
    }
    good(&["verify", &output]);
    // The same weights as zeros in the type itself; and packed by another way.
    let dense = text(&folder.path().join("dense.hk")).to_owned();
    good(&["prune", &input, &dense, "--pattern", "2:4", "--dense", "--match", "wide*"]);
    assert_eq!(storage(&dense, "wide.weight"), StorageType::F32);
    assert_eq!(decoded(&dense, "wide.weight", Residual::Add), after);
    good(&["pack", &dense, &output, "--match", "wide*", "--as", "bitmask", "--force"]);
    assert_eq!(storage(&output, "wide.weight"), StorageType::SPARSE_F16);
    assert_eq!(decoded(&output, "wide.weight", Residual::Add), after);
    // In f16 it grows, and that is said.
    let half = text(&folder.path().join("half.hk")).to_owned();
    good(&["quantize", &input, &half, "--type", "f16"]);
    let run = hk(&["prune", &half, &output, "--pattern", "2:4", "--force", "--match", "wide*"]);
    let (_, notes) = texts(&run);
    assert!(notes.contains("wide.weight larger than as f16"), "{notes}");
    // Blocks that may have no code for 0 are not pruned that way.
    let blocks = text(&folder.path().join("blocks.hk")).to_owned();
    good(&["quantize", &input, &blocks, "--match", "wide*", "--type", "q4_1"]);
    let args = ["prune", &blocks, &output, "--pattern", "2:4", "--force", "--dense"];
    let run = hk(&[&args[..], &["--match", "wide*"]].concat());
    let (_, notes) = texts(&run);
    assert!(notes.contains("wide.weight kept: zeros in q4_1 would not stay zeros"), "{notes}");
    assert_eq!(storage(&output, "wide.weight"), StorageType::Q4_1);
    bad(&["prune", &input, &output, "--pattern", "1:4"], 2);
}

#[test]
fn packing_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let [packed, back] =
        ["packed.hk", "back.hk"].map(|name| text(&folder.path().join(name)).to_owned());
    let original = ModelFile::open(&input).unwrap();
    let layouts = [
        "bitmask",
        "bsr:4x7",
        "bsr:1x1",
        "tile_16x16",
        "tile_16x8",
        "tile_32x16",
        "tile_32x32",
        "tile_64x64",
        "col_major",
    ];
    for layout in layouts {
        good(&[
            "pack",
            &input,
            &packed,
            "--match",
            "{wide,narrow,odd}.weight",
            "--as",
            layout,
            "--force",
        ]);
        good(&["verify", &packed]);
        let file = ModelFile::open(&packed).unwrap();
        let odd = file.tensor("odd.weight").unwrap();
        let plain = (odd.storage, odd.sparsity, odd.tile)
            == (StorageType::F32, SparsityType::NONE, TileLayout::ROW_MAJOR);
        assert!(!plain, "{layout}");
        assert_eq!(decoded(&packed, "odd.weight", Residual::Add), weights(150), "{layout}");
        assert_eq!(decoded(&packed, "tied.weight", Residual::Add), weights(6 * 512), "{layout}");
        // From one layout to the next, and back to what it was, byte for byte.
        good(&["pack", &packed, &back, "--match", "*.weight", "--as", "row_major", "--force"]);
        for name in ["wide.weight", "narrow.weight", "odd.weight", "norm.weight", "ids"] {
            let back = ModelFile::open(&back).unwrap();
            assert_eq!(
                back.tensor(name).unwrap().data(),
                original.tensor(name).unwrap().data(),
                "{layout} {name}"
            );
        }
    }
    let run = hk(&["pack", &input, &packed, "--match", "*", "--as", "tile_16x16", "--force"]);
    let (_, notes) = texts(&run);
    assert!(notes.contains("norm.weight kept: only dense matrices"), "{notes}");
    bad(&["pack", &input, &packed, "--match", "*", "--as", "bsr:0x4"], 2);
    bad(&["pack", &input, &packed, "--match", "*", "--as", "tile_3x3"], 2);
}

#[test]
fn every_sparse_and_tiled_form_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let output = text(&folder.path().join("out.hk")).to_owned();
    let input = reference("all_types.hk");
    let run = hk(&[
        "pack",
        &input,
        &output,
        "--match",
        "{tile,bsr,csr,bit,sparse,col}*",
        "--as",
        "row_major",
    ]);
    assert!(run.status.success(), "{}", texts(&run).1);
    for name in ["tile_16x8", "bsr_8x16_ragged", "csr_1x1", "bitmask", "sparse_2_4", "col_major"] {
        let same = decoded(&input, name, Residual::Add) == decoded(&output, name, Residual::Add);
        assert!(same && storage(&output, name) == StorageType::F32, "{name}");
    }
    good(&["verify", &output]);
}

/// NaN and infinity are no trouble where nothing is rounded.
#[test]
fn packing_keeps_what_is_not_finite() {
    let folder = tempfile::tempdir().unwrap();
    let [input, packed, back] =
        ["in.hk", "packed.hk", "back.hk"].map(|name| folder.path().join(name));
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("w", StorageType::F32, &[4, 8])).unwrap();
    let mut values = vec![0.0_f32; 32];
    (values[3], values[9], values[17]) = (f32::NAN, f32::NEG_INFINITY, -0.0);
    let values = bytes(&values);
    writer.write(&input, |_, _| Ok(&values[..])).unwrap();
    for layout in ["bitmask", "bsr:2x3", "tile_16x8"] {
        let run = |from: &Path, to: &Path, layout: &str| {
            good(&["pack", text(from), text(to), "--match", "*", "--as", layout, "--force"]);
        };
        run(&input, &packed, layout);
        run(&packed, &back, "row_major");
        assert_eq!(ModelFile::open(&back).unwrap().tensor("w").unwrap().data(), values, "{layout}");
    }
    // A plain f32 tensor is not what a packed one is.
    good(&["quantize", text(&packed), text(&back), "--type", "f32", "--force"]);
    assert_eq!(ModelFile::open(&back).unwrap().tensor("w").unwrap().tile, TileLayout::ROW_MAJOR);
}

#[test]
fn what_is_stored_as_wanted_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let [first, second] = ["a.hk", "b.hk"].map(|name| text(&folder.path().join(name)).to_owned());
    for args in [&["--type", "q4_0"][..], &["--type", "dq4", "--block-size", "31", "--residual"]] {
        hk(&[&["quantize", &input, &first, "--force"], args].concat());
        let again = [&["quantize", &first, &second, "--force", "--json"], args].concat();
        assert_eq!(good_json(&again)["tensors_changed"], 0, "{args:?}");
        assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap(), "{args:?}");
    }
    let args = ["quantize", &first, &second, "--force", "--json", "--type", "dq4"];
    assert_eq!(good_json(&args)["tensors_changed"], 3);
}

/// The appendix and the seal are of the old weights: what is left behind is said, also where the
/// summary is for a script.
#[test]
fn what_is_left_behind_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = text(&folder.path().join("out.hk")).to_owned();
    let mut said = [0; 2];
    let folder = reference("");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for input in files.filter(|path| path.extension().is_some_and(|ending| ending == "hk")) {
        let model = ModelFile::open(&input).unwrap();
        let has = [model.hk().appendix().count() > 0, model.header().flags.contains(Flags::SEALED)];
        let run = hk(&["quantize", text(&input), &output, "--type", "q8_0", "--force", "--json"]);
        let (_, notes) = texts(&run);
        assert!(run.status.success(), "{notes}");
        let told = ["of the appendix left behind", "not sealed"].map(|note| notes.contains(note));
        assert_eq!(told, has, "{}: {notes}", input.display());
        said = [said[0] + usize::from(has[0]), said[1] + usize::from(has[1])];
        good(&["verify", &output]);
    }
    assert!(said[0] > 0 && said[1] > 0, "{said:?}");
}

/// A shape that claims rows of 2^40 weights gets no memory for them.
#[test]
fn rows_that_are_too_long_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("wide.hk"), folder.path().join("out.hk"));
    let mut writer = Writer::new();
    let spec = TensorSpec {
        sparsity: SparsityType::CSR,
        data_size: 20,
        ..TensorSpec::new("w", StorageType::F32, &[1, 1 << 40])
    };
    writer.tensor(spec).unwrap();
    // Blocks of 1 x 1, two row pointers, no blocks.
    let payload = [1, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    writer.write(&input, |_, _| Ok(&payload[..])).unwrap();
    good(&["verify", text(&input)]);
    let error = bad(&["pack", text(&input), text(&output), "--match", "*", "--as", "bsr:2x2"], 1);
    assert!(error.contains("choose blocks of fewer rows"), "{error}");
    assert!(!output.exists());
}

#[test]
fn an_importance_matrix_makes_columns_count() {
    let folder = tempfile::tempdir().unwrap();
    let input = model(folder.path());
    let [plain, weighted] = ["plain.hk", "weighted.hk"].map(|name| folder.path().join(name));
    let matrix = folder.path().join("imatrix.dat");
    let entry = |name: &str, values: &[f32]| {
        let mut bytes = [1, name.len() as i32].map(i32::to_le_bytes).concat();
        bytes.extend(name.as_bytes());
        bytes.extend([1, values.len() as i32].map(i32::to_le_bytes).concat());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    };
    // Odd columns count a thousand times as much.
    let uneven: Vec<f32> = (0..512).map(|column| (column % 2) as f32 + 0.001).collect();
    std::fs::write(&matrix, entry("wide.weight", &uneven)).unwrap();
    good(&["quantize", &input, text(&plain), "--match", "wide*", "--type", "q3_k"]);
    let args = ["quantize", &input, text(&weighted), "--match", "wide*", "--type", "q3_k"];
    good(&[&args[..], &["--imatrix", text(&matrix)]].concat());
    let before = weights(6 * 512);
    let odd = |path: &Path| {
        let after = decoded(text(path), "wide.weight", Residual::Add);
        let pairs = before.iter().zip(&after).skip(1).step_by(2);
        pairs.map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum::<f64>()
    };
    assert!(odd(&weighted) < 0.9 * odd(&plain), "{} {}", odd(&weighted), odd(&plain));

    std::fs::write(&matrix, entry("other", &uneven)).unwrap();
    let run = hk(&[&args[..], &["--force", "--imatrix", text(&matrix)]].concat());
    assert!(run.status.success() && texts(&run).1.contains("not in the importance matrix"));
    std::fs::write(&matrix, entry("wide.weight", &uneven[..7])).unwrap();
    let error = bad(&[&args[..], &["--force", "--imatrix", text(&matrix)]].concat(), 1);
    assert!(error.contains("another model"), "{error}");
}
