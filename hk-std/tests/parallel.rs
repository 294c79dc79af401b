//! Decoding on all cores gives the bits that one core gives.

use std::path::Path;

use hk_std::hk_core::{ErrorKind, Portable, Residual, StorageType};
use hk_std::{Error, ModelFile, TensorSpec, Writer, backend, par_dequantize, par_dequantize_range};
use tempfile::{TempDir, tempdir};

/// Large tensors of one dense type, blocks of 32 and of 256, whose last block is partly
/// used, a reference, zeros, and one that has no decoder.
fn model() -> (TempDir, ModelFile) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("model.hk");
    let mut writer = Writer::new();
    for (name, storage) in
        [("f16", StorageType::F16), ("q4_0", StorageType::Q4_0), ("q6_k", StorageType::Q6_K)]
    {
        writer.tensor(TensorSpec::new(name, storage, &[1001, 333])).unwrap();
    }
    writer.shared("tied", "q6_k", &[333, 1001]).unwrap();
    writer.tensor(TensorSpec::new("null", StorageType::NULL_REF, &[300, 1000])).unwrap();
    writer.tensor(TensorSpec::new("small", StorageType::F32, &[3])).unwrap();
    let lora = TensorSpec { data_size: 9, ..TensorSpec::new("lora", StorageType::LORA_REF, &[3]) };
    writer.tensor(lora).unwrap();
    writer.tensor(TensorSpec::new("huge", StorageType::NULL_REF, &[1 << 61])).unwrap();
    let mut state = 1u32;
    writer
        .write(&path, |spec, part| {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            Ok(std::io::Cursor::new((0..spec.size(part)).map(|_| next()).collect::<Vec<u8>>()))
        })
        .unwrap();
    let model = ModelFile::open(&path).unwrap();
    (folder, model)
}

const LARGE: [&str; 5] = ["f16", "q4_0", "q6_k", "tied", "null"];

fn bits(weights: &[f32]) -> Vec<u32> {
    weights.iter().map(|w| w.to_bits()).collect()
}

fn sequential(model: &ModelFile, name: &str) -> Vec<f32> {
    let tensor = model.tensor(name).unwrap();
    let mut out = vec![f32::NAN; tensor.shape.count() as usize];
    tensor.dequantize_into(&Portable, &mut out, Residual::Add).unwrap();
    out
}

#[test]
fn every_core_gives_the_bits_of_one() {
    let (_folder, model) = model();
    for name in LARGE.into_iter().chain(["small"]) {
        let tensor = model.tensor(name).unwrap();
        let expected = bits(&sequential(&model, name));
        let mut memory = vec![f32::NAN; expected.len() + 32];
        // Wherever the output starts in a cache line.
        for shift in [0, 1, 4, 15, 16] {
            memory.fill(f32::NAN);
            let out = &mut memory[shift..shift + expected.len()];
            par_dequantize(&tensor, &Portable, out, Residual::Add).unwrap();
            assert!(bits(out) == expected, "{name} at {shift}");
            let outside = memory[..shift].iter().chain(&memory[shift + expected.len()..]);
            assert!(outside.into_iter().all(|w| w.is_nan()));
        }
        let whole = model.dequantize(name, &Portable, Residual::Add).unwrap();
        assert!(bits(&whole) == expected, "{name}");
        let chosen = model.dequantize(name, backend().unwrap(), Residual::Skip).unwrap();
        let same =
            |(a, b): (&f32, &u32)| a.to_bits() == *b || (a.is_nan() && f32::from_bits(*b).is_nan());
        assert!(chosen.iter().zip(&expected).all(same), "{name}");
    }
}

#[test]
fn ranges_are_parts_of_the_whole() {
    let (_folder, model) = model();
    for name in LARGE {
        let tensor = model.tensor(name).unwrap();
        let expected = bits(&sequential(&model, name));
        for range in [0..0, 5..5, 1..300_000, 77..200_077, 256..131_072, 299_999..300_000] {
            let mut out = vec![f32::NAN; range.end - range.start];
            let elements = range.start as u64..range.end as u64;
            par_dequantize_range(&tensor, &Portable, elements, &mut out, Residual::Add).unwrap();
            assert!(bits(&out) == expected[range.clone()], "{name} {range:?}");
        }
    }
}

#[test]
fn a_model_goes_through_one_buffer() {
    let (_folder, model) = model();
    let mut seen = Vec::new();
    let decodable = model.tensors().filter(|t| !["lora", "huge"].contains(&t.name));
    model
        .for_each_tensor(decodable, &Portable, Residual::Add, |tensor, weights| {
            assert!(bits(weights) == bits(&sequential(&model, tensor.name)), "{}", tensor.name);
            assert_eq!(tensor.entry(), model.tensor(tensor.name).unwrap().entry());
            seen.push(tensor.name.to_owned());
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, ["f16", "q4_0", "q6_k", "tied", "null", "small"]);
}

#[test]
fn a_tensor_goes_through_a_small_buffer() {
    let (_folder, model) = model();
    for name in LARGE {
        let tensor = model.tensor(name).unwrap();
        let expected = bits(&sequential(&model, name));
        for (range, span) in [(0..expected.len(), 100_000), (123..250_123, 65_536), (9..9, 1)] {
            let (mut next, mut all) = (range.start as u64, Vec::new());
            let elements = range.start as u64..range.end as u64;
            model
                .for_each_span(&tensor, elements, span, &Portable, Residual::Add, |at, weights| {
                    assert_eq!((at.start, at.end - at.start), (next, weights.len() as u64));
                    assert!(weights.len() <= span);
                    next = at.end;
                    all.extend(bits(weights));
                    Ok(())
                })
                .unwrap();
            assert!(all == expected[range], "{name}");
        }
    }
    // The end of a tensor that fits into no memory.
    let huge = model.tensor("huge").unwrap();
    let mut zeros = 0;
    let end = 1u64 << 61;
    model
        .for_each_span(&huge, end - 1000..end, 300, &Portable, Residual::Add, |_, weights| {
            zeros += weights.iter().filter(|w| w.to_bits() == 0).count();
            Ok(())
        })
        .unwrap();
    assert_eq!(zeros, 1000);
}

#[test]
fn errors_name_file_tensor_and_cause() {
    let (_folder, model) = model();
    let check = |result: hk_std::Result<Vec<f32>>, words: &[&str]| {
        let text = result.unwrap_err().to_string();
        for word in words.iter().chain([&"model.hk"]) {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
    };
    let dequantize = |name| model.dequantize(name, &Portable, Residual::Add);
    check(dequantize("nowhere"), &["\"nowhere\"", "hk inspect"]);
    check(dequantize("lora"), &["\"lora\"", "lora_ref"]);
    check(dequantize("huge"), &["\"huge\"", "memory"]);

    let unchanged = |_: &hk_std::hk_core::Tensor<'_>, _: &[f32]| Ok(());
    let all = model.for_each_tensor(model.tensors(), &Portable, Residual::Add, unchanged);
    check(all.map(|()| Vec::new()), &["\"lora\""]);

    let (tensor, mut out) = (model.tensor("q4_0").unwrap(), vec![0.0; 400_000]);
    let error = par_dequantize(&tensor, &Portable, &mut out, Residual::Add).unwrap_err();
    let given = ErrorKind::OutputLength { expected: 333_333, given: 400_000 };
    assert_eq!((error.kind(), error.index()), (given, Some(tensor.index)));
    for (start, end) in [(0, 100), (1, 400_002), (300_000, 200_000)] {
        let range = start..end;
        assert!(
            par_dequantize_range(&tensor, &Portable, range, &mut out, Residual::Add).is_err(),
            "{start}..{end}"
        );
    }
    let spans = |start: u64, end: u64, span| {
        let each = |_, _: &[f32]| Ok(());
        model.for_each_span(&tensor, start..end, span, &Portable, Residual::Add, each)
    };
    assert!(spans(0, 10, 0).unwrap_err().to_string().contains("span of 0"));
    assert!(spans(5, 4, 10).is_err());
    assert!(spans(333_330, 333_334, 10).unwrap_err().to_string().contains("333333"));

    // What the caller's own function says comes back as it is, and ends the walk.
    let mut calls = 0;
    let stopped = model.for_each_tensor(model.tensors(), &Portable, Residual::Add, |_, _| {
        calls += 1;
        if calls == 2 { Err(Error::Invalid("enough".into())) } else { Ok(()) }
    });
    assert_eq!(stopped.unwrap_err().to_string(), "enough");
    assert_eq!(calls, 2);
}

#[test]
fn a_payload_too_short_is_refused_before_memory_is_asked_for() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("short.hk");
    let mut writer = Writer::new();
    writer.tensor(TensorSpec::new("weight", StorageType::Q4_0, &[64])).unwrap();
    writer.write(&path, |_, _| Ok(&[0; 36][..])).unwrap();
    claim(&path, 1 << 50);
    let model = ModelFile::open(&path).unwrap();
    let text = model.dequantize("weight", &Portable, Residual::Add).unwrap_err().to_string();
    assert!(text.contains("\"weight\"") && text.contains("36 bytes"), "{text}");
}

/// Sets the only dimension of the only tensor.
fn claim(path: &Path, dim: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(8).rposition(|w| w == 64u64.to_le_bytes()).unwrap();
    bytes[at..at + 8].copy_from_slice(&dim.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}
