//! Every form that is not plain: decoded whole and in ranges to the weights that a second
//! encoder made it of, by every backend; and each kind of corruption to its own error.

use std::ops::Range;

use hk_core::{
    Backend, Error, ErrorKind, Hk, Part, Portable, Residual, Section, SparseFault, StorageType,
    Tensor, decode,
};
use hk_tests::build::{self, Builder};
use hk_tests::forms::{self, Sample};
use hk_tests::mutate;
use hk_tests::rng::Rng;
use hk_tests::walk::walk;

fn file_of(tensor: build::Tensor) -> Vec<u8> {
    let builder = Builder { alignment: 1, ..Builder::default() };
    builder.tensor(tensor).build().bytes
}

fn decode_by(
    backend: &dyn Backend,
    tensor: &Tensor<'_>,
    range: Range<u64>,
    residual: Residual,
) -> Result<Vec<f32>, Error> {
    // Not zeros: a weight that is left out shows.
    let mut out = vec![f32::from_bits(0x7F80_5A5A); (range.end - range.start) as usize];
    tensor.dequantize_range(backend, range, &mut out, residual)?;
    Ok(out)
}

#[track_caller]
fn assert_same(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{what}: weight {i} is {found:e}, expected {expected:e}");
    }
}

/// The whole, and a few ranges of it, by every backend.
fn check(sample: &Sample, rng: &mut Rng) {
    let file = file_of(sample.tensor.clone());
    let hk = Hk::parse(&file).expect("a sound file");
    let tensor = hk.tensors().next().expect("is listed");
    let count = tensor.shape.count();
    for backend in hk_std::backends() {
        let what =
            format!("{} {} {:?} by {}", tensor.name, tensor.storage, tensor.shape, backend.name());
        for (residual, expected) in [(Residual::Skip, &sample.base), (Residual::Add, &sample.whole)]
        {
            let found = decode_by(backend, &tensor, 0..count, residual).expect("decodes");
            assert_same(&what, &found, expected);
            for _ in 0..5 {
                let ends = [(); 2].map(|()| rng.below(count as usize + 1));
                let [start, end] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
                let part = decode_by(backend, &tensor, start as u64..end as u64, residual);
                let what = format!("{what}, {start}..{end}");
                assert_same(&what, &part.expect("decodes"), &expected[start..end]);
            }
        }
    }
    let located = tensor.locate(0..count).map_err(|error| error.kind());
    assert_eq!(located, Err(ErrorKind::Scattered(tensor.storage)));
    let walked = walk(&file).expect("a sound file");
    assert!(walked.sound && walked.decoded == 1, "{walked:?}");
}

#[test]
fn any_form_of_any_size() {
    for seed in 0..1500 {
        let rng = &mut Rng::new(seed);
        check(&forms::any(rng), rng);
    }
}

#[test]
fn blocks_of_any_length() {
    let rng = &mut Rng::new(1);
    for block in [2, 3, 31, 100, 2048, 4096, 65_535] {
        for storage in [forms::DQ4, forms::DQ8, forms::DQT, forms::IQ4_NL] {
            let count = 2 * usize::from(block) + 1 + rng.below(usize::from(block));
            check(&forms::scaled(storage, count, block, storage <= forms::DQT, rng), rng);
        }
    }
}

#[test]
fn every_element_of_a_block_can_be_the_first() {
    let rng = &mut Rng::new(2);
    for storage in [forms::DQ4, forms::DQ8, forms::DQT, forms::NVFP4] {
        let sample = forms::scaled(storage, 70, 11, storage <= forms::DQT, rng);
        let file = file_of(sample.tensor.clone());
        let hk = Hk::parse(&file).expect("a sound file");
        let tensor = hk.tensors().next().expect("is listed");
        for start in 0..70 {
            for end in start..=70 {
                let part = decode_by(&Portable, &tensor, start..end, Residual::Add);
                let expected = &sample.whole[start as usize..end as usize];
                assert_same("part", &part.expect("decodes"), expected);
            }
        }
    }
}

/// On threads, where a tensor is large enough for them.
#[test]
fn threads_share_any_form() {
    let rng = &mut Rng::new(3);
    let samples = [
        forms::scaled(forms::DQ4, 300_001, 100, true, rng),
        forms::bitmask(400_003, true, rng),
        forms::two_of_four(300_004, false, rng),
        forms::compressed_rows([601, 503], [3, 16], rng),
        forms::ordered(0, 1, [601, 503], rng),
        forms::ordered(10, 4, [601, 503], rng),
    ];
    for sample in samples {
        let file = file_of(sample.tensor.clone());
        let hk = Hk::parse(&file).expect("a sound file");
        let tensor = hk.tensors().next().expect("is listed");
        let mut out = vec![0.5; sample.whole.len()];
        for backend in hk_std::backends() {
            out.fill(0.5);
            hk_std::par_dequantize(&tensor, backend, &mut out, Residual::Add).expect("decodes");
            assert_same(backend.name(), &out, &sample.whole);
        }
    }
}

/// A host that has fetched the parts of a tensor decodes ranges of it without a file.
#[test]
fn a_tensor_fetched_whole() {
    let rng = &mut Rng::new(4);
    let sample = forms::scaled(forms::DQ8, 90, 31, true, rng);
    let file = file_of(sample.tensor);
    let hk = Hk::parse(&file).expect("a sound file");
    let tensor = hk.tensors().next().expect("is listed");
    let source = tensor.entry().source(tensor.data(), tensor.scales(), tensor.residual());
    let mut out = [0.5; 40];
    decode::dequantize_range(&Portable, &source, 20..60, &mut out, Residual::Add).expect("decodes");
    assert_same("parts", &out, &sample.whole[20..60]);
}

#[test]
fn references_to_any_form() {
    let rng = &mut Rng::new(5);
    let sample = forms::scaled(forms::DQ4, 60, 7, true, rng);
    let mut tied = build::Tensor::new("tied", 0x31, &[6, 10], Vec::new());
    tied.shares = Some(0);
    let file = Builder::default().tensor(sample.tensor).tensor(tied).build().bytes;
    let hk = Hk::parse(&file).expect("a sound file");
    let tied = hk.tensor("tied").expect("is listed");
    let found = decode_by(&Portable, &tied, 0..60, Residual::Add).expect("decodes");
    assert_same("tied", &found, &sample.whole);
}

/// What decoding a changed tensor says: kind, section, offset from the start of the part that
/// is wrong or of the entry.
fn error_of(sample: &Sample, change: impl FnOnce(&mut build::Tensor)) -> (ErrorKind, Section, u64) {
    let mut tensor = sample.tensor.clone();
    change(&mut tensor);
    // Not the first, so that its number and offsets are none that any tensor has.
    let first = build::Tensor::new("first", 0, &[3], vec![0; 12]);
    let file = Builder::default().tensor(first).tensor(tensor).build().bytes;
    let hk = Hk::parse(&file).expect("parses all the same");
    let tensor = hk.tensors().nth(1).expect("is listed");
    let count = tensor.shape.count();
    let mut out = vec![0.5; count as usize];
    let error = tensor.dequantize_into(&Portable, &mut out, Residual::Add).expect_err("corrupt");
    assert_eq!(error.index(), Some(1));
    assert!(!walk(&file).expect("parses").sound, "verify finds nothing: {error}");
    let start = match (error.section(), error.kind()) {
        (Section::Payload, ErrorKind::TooShort { part, .. }) => tensor.part(part).offset,
        (Section::Payload, _) => tensor.data.offset,
        (Section::Toc, _) => tensor.offset,
        _ => 0,
    };
    (error.kind(), error.section(), error.offset() - start)
}

#[test]
fn corrupt_blocks_with_scales() {
    let rng = &mut Rng::new(8);
    let sample = &forms::scaled(forms::DQ4, 38, 31, true, rng);
    let short = |part, needed, available| ErrorKind::TooShort { part, needed, available };
    let (payload, toc) = (Section::Payload, Section::Toc);
    let error = error_of(sample, |t| t.block_size = 0);
    assert_eq!(error, (ErrorKind::BlockSize(StorageType::DQ4), toc, 0));
    let error = error_of(sample, |t| t.scales.truncate(7));
    assert_eq!(error, (short(Part::Scales, 8, 7), payload, 0));
    // Without any there is no place in the payloads to name.
    let error = error_of(sample, |t| t.scales.clear());
    assert_eq!(error, (short(Part::Scales, 8, 0), toc, 0));
    let error = error_of(sample, |t| t.data.truncate(19));
    assert_eq!(error, (short(Part::Data, 20, 19), payload, 0));
    let error = error_of(sample, |t| t.residual.truncate(151));
    assert_eq!(error, (short(Part::Residual, 152, 151), payload, 0));
    let split = &forms::scaled(forms::NVFP4, 38, 9, false, rng);
    let error = error_of(split, |t| t.scales.truncate(2));
    assert_eq!(error, (short(Part::Scales, 3, 2), payload, 0));
}

#[test]
fn corrupt_masks_and_groups() {
    let rng = &mut Rng::new(14);
    let sparse = |fault| (ErrorKind::Sparse(fault), Section::Payload, 0);
    let sample = &forms::bitmask(64, true, rng);
    let values = (sample.tensor.data.len() as u64 - 8) / 4;
    assert!((1..64).contains(&values));
    let error = error_of(sample, |t| t.data[..8].fill(0xFF));
    assert_eq!(error, sparse(SparseFault::Ones { ones: 64, values }));
    let error = error_of(sample, |t| t.data.truncate(t.data.len() - 1));
    assert_eq!(error, sparse(SparseFault::Ones { ones: values, values: values - 1 }));
    let error = error_of(sample, |t| t.data.truncate(7));
    let kind = ErrorKind::TooShort { part: Part::Data, needed: 8, available: 7 };
    assert_eq!(error, (kind, Section::Payload, 0));
    let sample = &forms::two_of_four(64, true, rng);
    let error = error_of(sample, |t| t.shape = vec![3, 21]);
    assert_eq!(error, sparse(SparseFault::Groups { count: 63 }));
    let error = error_of(sample, |t| t.data.truncate(135));
    let kind = ErrorKind::TooShort { part: Part::Data, needed: 136, available: 135 };
    assert_eq!(error, (kind, Section::Payload, 0));
}

/// 4 x 5 in blocks of 2 x 2: two rows of blocks, three columns, three blocks.
fn rows_sample(columns: [u32; 3]) -> Sample {
    let mut data = vec![2, 0, 2, 0];
    let words = [3, 3, 0, 2, 3].into_iter().chain(columns);
    data.extend(words.flat_map(u32::to_le_bytes));
    data.extend([0; 48]);
    let mut tensor = build::Tensor::new("rows", 0, &[4, 5], data);
    tensor.codes[2] = 5;
    Sample { tensor, base: vec![0.0; 20], whole: vec![0.0; 20] }
}

#[test]
fn corrupt_rows() {
    let sound = &rows_sample([2, 0, 1]);
    let word = |at: usize, value: u32| {
        error_of(sound, |t| t.data[at..at + 4].copy_from_slice(&value.to_le_bytes()))
    };
    let sparse = |fault, offset| (ErrorKind::Sparse(fault), Section::Payload, offset);
    let row_ptr = |row, found, least, most| {
        sparse(SparseFault::RowPointer { row, found, least, most }, 12 + 4 * row)
    };
    assert_eq!(word(12, 1), row_ptr(0, 1, 0, 0));
    assert_eq!(word(16, 4), row_ptr(1, 4, 0, 3));
    assert_eq!(word(20, 2), row_ptr(2, 2, 3, 3));
    // More rows of blocks, so that a pointer decreases.
    let error = error_of(sound, |t| {
        t.shape = vec![6, 5];
        t.data[4] = 4;
        t.data.splice(20..20, 1u32.to_le_bytes());
    });
    assert_eq!(error, row_ptr(2, 1, 2, 3));
    let fault = SparseFault::RowPointerCount { found: 4, needed: 3 };
    assert_eq!(word(4, 4), sparse(fault, 4));
    let fault = SparseFault::BlockColumn { column: 3, columns: 3 };
    assert_eq!(word(28, 3), sparse(fault, 28));
    let fault = SparseFault::Twice { row: 0, column: 2 };
    assert_eq!(word(28, 2), sparse(fault, 28));
    let fault = SparseFault::BlockShape { rows: 0, columns: 2 };
    assert_eq!(word(0, 2 << 16), sparse(fault, 0));
    let error = error_of(sound, |t| t.shape = vec![4, 5, 1]);
    assert_eq!(error, sparse(SparseFault::Dimensions { found: 3 }, 0));
    let short = |needed, available| {
        let kind = ErrorKind::TooShort { part: Part::Data, needed, available };
        (kind, Section::Payload, 0)
    };
    assert_eq!(error_of(sound, |t| t.data.truncate(83)), short(84, 83));
    assert_eq!(error_of(sound, |t| t.data.truncate(11)), short(12, 11));
    // As many blocks as 32 bits can say, each of as many values as 16 and 16 can.
    let error = error_of(sound, |t| {
        t.shape = vec![1, 5];
        t.data[..12].fill(0xFF);
        t.data[4..8].copy_from_slice(&2u32.to_le_bytes());
    });
    assert!(matches!(error.0, ErrorKind::TooShort { available: 84, .. }), "{error:?}");
    assert!(matches!(word(8, u32::MAX).0, ErrorKind::TooShort { available: 84, .. }));
}

/// A range says nothing of rows that it does not touch, and fails where it does.
#[test]
fn a_range_sees_its_own_rows() {
    let file = file_of(rows_sample([1, 1, 9]).tensor);
    let hk = Hk::parse(&file).expect("parses");
    let tensor = hk.tensors().next().expect("is listed");
    let kind =
        |range| decode_by(&Portable, &tensor, range, Residual::Add).map_err(|error| error.kind());
    let twice = Err(ErrorKind::Sparse(SparseFault::Twice { row: 0, column: 1 }));
    assert_eq!(kind(0..2), Ok(vec![0.0; 2]));
    assert_eq!(kind(2..3), twice);
    assert_eq!(kind(0..10), twice);
    assert!(matches!(kind(10..11), Err(ErrorKind::Sparse(SparseFault::BlockColumn { .. }))));
}

#[test]
fn combinations_without_a_decoder() {
    let rng = &mut Rng::new(21);
    let dense = forms::ordered(0, 2, [16, 16], rng).tensor;
    let coded = |storage: u8, tile: u8, sparsity: u8, shape: &[u64]| {
        let tensor = build::Tensor {
            codes: [storage, tile, sparsity],
            shape: shape.to_vec(),
            ..dense.clone()
        };
        let file = file_of(tensor);
        let hk = Hk::parse(&file).expect("parses");
        let tensor = hk.tensors().next().expect("is listed");
        let form = tensor.form().map_err(|error| error.kind());
        let decoded = decode_by(&Portable, &tensor, 0..1, Residual::Add).map_err(|e| e.kind());
        assert_eq!(form.is_err(), decoded.is_err());
        decoded.err()
    };
    let (tile, sparsity) = (
        |error: Option<ErrorKind>| matches!(error, Some(ErrorKind::TileLayout(..))),
        |error: Option<ErrorKind>| matches!(error, Some(ErrorKind::Sparsity(..))),
    );
    assert!(tile(coded(0, 2, 0, &[256])) && tile(coded(0, 2, 0, &[4, 4, 16])));
    assert!(tile(coded(0x15, 2, 0, &[16, 16])) && tile(coded(0, 5, 0, &[16, 16])));
    assert!(tile(coded(forms::SPARSE_F16, 1, 0, &[16, 2])));
    assert!(tile(coded(0, 8, 0, &[16, 16])));
    assert!(sparsity(coded(1, 0, 1, &[16])) && sparsity(coded(forms::DQ4, 0, 2, &[16])));
    assert!(sparsity(coded(forms::SPARSE_F16, 0, 3, &[16])));
    assert!(sparsity(coded(forms::SPARSE_2_4, 0, 4, &[16])) && sparsity(coded(0, 0, 6, &[16])));
    for storage in [0x12, 0x13, 0x21, 0x23, 0x32, 0x77] {
        let undecodable = Some(ErrorKind::Undecodable(StorageType(storage)));
        assert_eq!(coded(storage, 0, 0, &[16]), undecodable);
    }
    // 2:4 storage with the tile layout that says so, and pruned in fact.
    assert_eq!(coded(forms::SPARSE_2_4, 5, 0, &[16]), None);
    assert_eq!(coded(0, 2, 4, &[16, 16]), None);
}

#[test]
fn every_number_and_random_bytes_spoilt() {
    let built = forms::every_form();
    let sound = walk(&built.bytes).expect("a sound file");
    assert!(sound.sound && sound.decoded == sound.tensors && sound.tensors == 12, "{sound:?}");
    let files = mutate::numbers(&built).chain(mutate::random(&built.bytes, 11, 4000));
    let mut decoded = 0;
    for mutate::Corrupt { what, bytes } in files {
        let result = std::panic::catch_unwind(|| walk(&bytes));
        let result = result.unwrap_or_else(|_| panic!("the panic above came from: {what}"));
        decoded += result.map_or(0, |walked| walked.decoded);
    }
    assert!(decoded > 10_000, "{decoded}");
}

/// Damage to the payloads alone, where the table of contents is sound.
#[test]
fn random_payloads() {
    let built = forms::every_form();
    let start = built.get(built.field("header.tensor_data_offset")) as usize;
    for seed in 0..3000 {
        let rng = &mut Rng::new(seed);
        let mut bytes = built.bytes.clone();
        for _ in 0..1 + rng.below(4) {
            let at = start + rng.below(bytes.len() - start);
            bytes[at] = rng.pick(&[0, 1, 0xFF, rng.clone().next_u64() as u8]);
        }
        let result = std::panic::catch_unwind(|| walk(&bytes));
        assert!(result.is_ok_and(|walked| walked.is_ok()), "the panic above came from {seed}");
    }
}
