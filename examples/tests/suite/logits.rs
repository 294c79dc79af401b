//! The f32 model against logits that f64 arithmetic got from the same weights.

use hk_core::{Hk, Portable, Residual, StorageType, Tensor};
use hk_examples::{Model, Reference, Result, Rows, Serial};

use crate::model_file::{self, Copy, f32_tensor};

fn numbers<const N: usize, T>(name: &str, decode: fn([u8; N]) -> T) -> Vec<T> {
    let bytes = std::fs::read(model_file::demo(name)).unwrap();
    bytes.as_chunks().0.iter().map(|&bytes| decode(bytes)).collect()
}

/// The demo text, which a model wrote.
pub fn tokens() -> Vec<u32> {
    numbers("tokens.i32", u32::from_le_bytes)
}

/// The logits after each token of it, by f64 arithmetic.
pub fn demo_logits() -> Vec<Vec<f32>> {
    let numbers: Vec<f32> = numbers("logits.f32", f32::from_le_bytes);
    numbers.chunks_exact(512).map(<[f32]>::to_vec).collect()
}

/// The logits after each of `tokens`.
fn logits(file: &[u8], rows: &dyn Rows, tokens: &[u32]) -> Vec<Vec<f32>> {
    let hk = Hk::parse(file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut reference = Reference::new(&model, &Portable, rows);
    let after = |token: &u32| {
        reference.push(*token).unwrap();
        reference.logits().unwrap().to_vec()
    };
    tokens.iter().map(after).collect()
}

fn bits(logits: &[Vec<f32>]) -> Vec<u32> {
    logits.iter().flatten().map(|logit| logit.to_bits()).collect()
}

#[test]
fn logits_are_those_of_f64_arithmetic() {
    let expected: Vec<f32> = numbers("logits.f32", f32::from_le_bytes);
    let logits = logits(&model_file::read(), &Serial, &tokens());
    assert_eq!((logits.len(), logits[0].len()), (180, 512));
    assert_eq!(expected.len(), 180 * 512);
    let differences = logits.iter().flatten().zip(&expected).map(|(a, b)| (a - b).abs());
    let largest = differences.fold(0.0, |largest: f32, d| if d <= largest { largest } else { d });
    // f32 arithmetic leaves about 4e-5; 1e-3 is what is promised.
    assert!(largest < 1e-3, "{largest}");
}

/// Splits rows into uneven parts and computes the last one first.
struct Uneven(usize);

impl Rows for Uneven {
    fn split(
        &self,
        out: &mut [f32],
        _row_len: usize,
        job: &(dyn Fn(usize, &mut [f32]) -> Result<()> + Sync),
    ) -> Result<()> {
        let mut parts = out.chunks_mut(self.0).enumerate().rev();
        parts.try_for_each(|(i, part)| job(i * self.0, part))
    }
}

#[test]
fn how_rows_are_split_changes_no_bit() {
    let (file, tokens) = (model_file::read(), &tokens()[..20]);
    let whole = bits(&logits(&file, &Serial, tokens));
    for rows in [1, 7, 64, 1000] {
        assert_eq!(bits(&logits(&file, &Uneven(rows), tokens)), whole, "{rows} rows a part");
    }
}

fn weights(tensor: &Tensor<'_>) -> Vec<f32> {
    let mut weights = vec![0.0; tensor.shape.count() as usize];
    tensor.dequantize_into(&Portable, &mut weights, Residual::Add).unwrap();
    weights
}

#[test]
fn how_weights_are_stored_changes_no_bit() {
    let (file, tokens) = (model_file::read(), &tokens()[..12]);
    let expected = bits(&logits(&file, &Serial, tokens));
    let mut copy = Copy::of(&file);
    for tensor in Hk::parse(&file).unwrap().tensors() {
        let (spec, data) = f32_tensor(tensor.entry().name, &tensor.shape, &weights(&tensor));
        copy = copy.with_tensor(spec, data);
    }
    assert!(copy.tensors.iter().all(|(spec, _)| spec.storage == StorageType::F32));
    assert_eq!(bits(&logits(&copy.build(), &Serial, tokens)), expected);
}

#[test]
fn an_output_matrix_of_its_own_is_used() {
    let (file, tokens) = (model_file::read(), &tokens()[..5]);
    let tied = logits(&file, &Serial, tokens);
    let hk = Hk::parse(&file).unwrap();
    let mut doubled = weights(&hk.tensor("token_embd.weight").unwrap());
    doubled.iter_mut().for_each(|weight| *weight *= 2.0);
    let (spec, data) = f32_tensor("output.weight", &[512, 128], &doubled);
    let untied = logits(&Copy::of(&file).with_tensor(spec, data).build(), &Serial, tokens);
    for (untied, tied) in untied.iter().flatten().zip(tied.iter().flatten()) {
        assert_eq!(*untied, tied * 2.0);
    }
}

#[test]
fn a_model_that_has_refused_a_token_goes_on_as_before() {
    let (file, tokens) = (model_file::read(), &tokens()[..6]);
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut reference = Reference::new(&model, &Portable, &Serial);
    for &token in tokens {
        reference.push(token).unwrap();
        assert!(reference.push(512).is_err());
    }
    let expected = logits(&file, &Serial, tokens).pop().unwrap();
    assert_eq!(reference.logits().unwrap(), expected);
}
