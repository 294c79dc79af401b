//! The engine against the f32 reference, and against itself: however a text is cut, and
//! for any number of threads, it gives the same bits.

use hk_core::build::TensorSpec;
use hk_core::{Hk, Portable, Residual, SparsityType, StorageType, TileLayout, Value};
use hk_examples::{Engine, Error, Model, Reference, Serial, Task, Threads, greedy};

use crate::compare::{
    Scoped, assert_close, assert_every_backend, bits, engine_logits, perplexity, reference_logits,
};
use crate::logits::{demo_logits, tokens};
use crate::model_file::{self, Copy, f32_tensor};

#[test]
fn the_demo_model_says_what_the_reference_says() {
    let (file, tokens) = (model_file::read(), tokens());
    let engine = engine_logits(&file, &Serial, &tokens, tokens.len());
    let reference = reference_logits(&file, &tokens);
    assert_eq!(engine.len(), 180);
    assert_close(&engine, &reference, 0.999);
    assert_close(&engine, &demo_logits(), 0.999);
    let (ours, exact) = (perplexity(&engine, &tokens), perplexity(&reference, &tokens));
    assert!((ours / exact - 1.0).abs() < 0.01, "perplexity {ours} instead of {exact}");
}

/// A story of the model's own, as long as it goes on; the model fits it far better than it
/// would any other text, so that a difference shows.
#[test]
fn it_says_so_all_along_a_longer_text() {
    let file = model_file::read();
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, &Portable, &Serial).unwrap();
    let mut tokens = tokens()[..8].to_vec();
    engine.read(&tokens).unwrap();
    while tokens.len() < 240 {
        let next = greedy(engine.logits().unwrap()).unwrap();
        engine.push(next).unwrap();
        tokens.push(next);
    }
    let ours = engine_logits(&file, &Serial, &tokens, 64);
    let reference = reference_logits(&file, &tokens);
    assert_close(&ours, &reference, 0.999);
    let (ours, exact) = (perplexity(&ours, &tokens), perplexity(&reference, &tokens));
    assert!((ours / exact - 1.0).abs() < 0.01, "perplexity {ours} instead of {exact}");
}

#[test]
fn every_backend_gives_the_same_bits() {
    let (file, tokens) = (model_file::read(), &tokens()[..150]);
    let expected = bits(&engine_logits(&file, &Serial, tokens, 64));
    assert_every_backend(&file, tokens, &expected);
}

#[test]
fn a_prompt_at_once_gives_the_bits_of_single_tokens() {
    let (file, tokens) = (model_file::read(), &tokens()[..140]);
    let single = bits(&engine_logits(&file, &Serial, tokens, 1));
    for piece in [2, 7, 64, 65, 140] {
        let pieces = bits(&engine_logits(&file, &Serial, tokens, piece));
        assert!(pieces == single, "{piece} tokens at a time");
    }
    for threads in [2, 3] {
        let shared = bits(&engine_logits(&file, &Scoped(threads), tokens, 140));
        assert!(shared == single, "{threads} threads");
    }
}

#[test]
fn logits_after_a_prompt_are_those_of_its_last_token() {
    let (file, tokens) = (model_file::read(), &tokens()[..100]);
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, &Portable, &Serial).unwrap();
    assert_eq!(engine.logits(), Err(Error::NoToken));
    engine.read(&tokens[..90]).unwrap();
    engine.logits().unwrap();
    engine.read(&tokens[90..]).unwrap();
    let all = engine_logits(&file, &Serial, tokens, 100);
    assert_eq!(engine.logits().unwrap(), all[99]);
    assert_eq!(engine.logits().unwrap(), all[99]);
}

#[test]
fn a_text_that_goes_back_goes_on_as_if_it_had_not_been_longer() {
    let (file, tokens) = (model_file::read(), &tokens()[..100]);
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, &Portable, &Serial).unwrap();
    engine.read(tokens).unwrap();
    let expected = bits(&[engine.logits().unwrap().to_vec()]);
    for position in [99, 64, 3, 0] {
        engine.read(&tokens[..17]).unwrap();
        engine.rewind(200);
        assert_eq!(engine.position(), 117);
        engine.rewind(position);
        assert_eq!((engine.position(), engine.logits()), (position, Err(Error::NoToken)));
        engine.read(&tokens[position..]).unwrap();
        assert_eq!(bits(&[engine.logits().unwrap().to_vec()]), expected);
    }
}

/// Threads that nobody may wake.
struct Asleep;

impl Threads for Asleep {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, tasks: &mut [&mut Task<'_>]) {
        panic!("woken for {} pieces of a small matrix", tasks.len());
    }
}

#[test]
fn a_token_of_a_small_model_wakes_no_thread() {
    let file = model_file::read();
    let logits = engine_logits(&file, &Asleep, &tokens()[..5], 1);
    assert_eq!(bits(&logits), bits(&engine_logits(&file, &Serial, &tokens()[..5], 1)));
}

#[test]
fn keys_and_values_take_pages_of_f16() {
    let file = model_file::read();
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, &Portable, &Serial).unwrap();
    assert_eq!(engine.cache_bytes(), 0);
    // Keys and values of 4 layers, 2 heads of 32 numbers, 64 positions a page.
    let page = 2 * 4 * 2 * 32 * 64 * 2;
    for (read, pages) in [(1, 1), (63, 1), (1, 2), (63, 2), (1, 3)] {
        engine.read(&tokens()[..read]).unwrap();
        assert_eq!(engine.cache_bytes(), pages * page, "{} tokens", engine.position());
    }
}

#[test]
fn a_full_context_and_an_unknown_token_change_nothing() {
    let file = model_file::read();
    let hk = Hk::parse(&file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, &Portable, &Serial).unwrap().with_context(5);
    assert_eq!((engine.context(), engine.room()), (5, 5));
    assert_eq!(engine.read(&[1, 512]), Err(Error::Token { token: 512, vocabulary: 512 }));
    assert_eq!(engine.read(&[1; 6]), Err(Error::ContextFull(5)));
    assert_eq!(engine.position(), 0);
    engine.read(&tokens()[..5]).unwrap();
    let full = bits(&[engine.logits().unwrap().to_vec()]);
    assert_eq!(engine.push(1), Err(Error::ContextFull(5)));
    assert_eq!(bits(&[engine.logits().unwrap().to_vec()]), full);
    let whole = engine_logits(&file, &Serial, &tokens()[..5], 5);
    assert_eq!(full, bits(&whole[4..]));
    let longer = Engine::new(&model, &Portable, &Serial).unwrap().with_context(usize::MAX);
    assert_eq!(longer.context(), model.hyperparameters.context);
}

#[test]
fn a_matrix_without_dot_products_is_named() {
    let file = model_file::read();
    let name = "blk.2.ffn_up.weight";
    let spec = hk_core::build::TensorSpec::new(name, StorageType::INT8, &[384, 128]);
    let copy = Copy::of(&file).with_tensor(spec, vec![1; 384 * 128]).build();
    let hk = Hk::parse(&copy).unwrap();
    let model = Model::read(&hk).unwrap();
    let error = Engine::new(&model, &Portable, &Serial).err().unwrap().to_string();
    for part in [name, "no dot product for int8"] {
        assert!(error.contains(part), "{error}");
    }
    // The reference, which decodes weights, runs it.
    assert!(Reference::new(&model, &Portable, &Serial).push(1).is_ok());
}

/// The same matrix in forms that are decoded and not multiplied with: the engine refuses them
/// by name, and the reference makes of them what it makes of the plain one.
#[test]
fn matrices_of_other_forms_are_named() {
    let file = model_file::read();
    let (name, shape) = ("blk.1.attn_output.weight", [128, 128]);
    let mut weights = vec![0.0; 128 * 128];
    let hk = Hk::parse(&file).unwrap();
    let tensor = hk.tensor(name).unwrap();
    tensor.dequantize_into(&Portable, &mut weights, Residual::Add).unwrap();
    let bytes = |weights: &[f32]| -> Vec<u8> {
        weights.iter().flat_map(|weight| weight.to_le_bytes()).collect()
    };
    let expected = reference_logits(&file, &tokens()[..20]);
    let check = |spec: TensorSpec, data: Vec<u8>, least: f64| {
        let storage = spec.storage;
        let copy = Copy::of(&file).with_tensor(spec, data).build();
        let hk = Hk::parse(&copy).unwrap();
        let model = Model::read(&hk).unwrap();
        let error = Engine::new(&model, &Portable, &Serial).err().unwrap().to_string();
        assert!(error.contains(name), "{storage}: {error}");
        assert_close(&reference_logits(&copy, &tokens()[..20]), &expected, least);
        error
    };

    // dq8 with what it loses as a residual.
    let (mut codes, mut scales, mut residual) = (Vec::new(), Vec::new(), Vec::new());
    for block in weights.chunks(32) {
        let largest = block.iter().fold(1e-8_f32, |most, weight| most.max(weight.abs()));
        let scale = largest / 127.0;
        scales.push(scale);
        for weight in block {
            let code = (weight / scale).round();
            codes.push(code as i8 as u8);
            residual.push(weight - code * scale);
        }
    }
    let spec = TensorSpec {
        data_size: codes.len() as u64,
        scales_size: 4 * scales.len() as u64,
        residual_size: 4 * residual.len() as u64,
        ..TensorSpec::new(name, StorageType::DQ8, &shape)
    };
    let data = [codes, bytes(&scales), bytes(&residual)].concat();
    let error = check(spec, data, 0.999_999);
    assert!(error.contains("no dot product for dq8"), "{error}");

    // A mask of ones, and all values.
    let masked = [vec![0xFF; 128 * 16], bytes(&weights)].concat();
    let spec = TensorSpec {
        data_size: masked.len() as u64,
        ..TensorSpec::new(name, StorageType::SPARSE_F16, &shape)
    };
    check(spec.clone(), masked.clone(), 0.999_999);
    let tagged = TensorSpec { storage: StorageType::F32, sparsity: SparsityType::BITMASK, ..spec };
    check(tagged, masked, 0.999_999);

    // Column after column.
    let transposed: Vec<f32> = (0..128 * 128).map(|i| weights[i % 128 * 128 + i / 128]).collect();
    let spec = TensorSpec {
        tile: TileLayout::COL_MAJOR,
        ..TensorSpec::new(name, StorageType::F32, &shape)
    };
    check(spec, bytes(&transposed), 0.999_999);
}

#[test]
fn positions_can_be_scaled() {
    let (file, tokens) = (model_file::read(), &tokens()[..40]);
    let plain = bits(&reference_logits(&file, tokens));
    let factors: Vec<f32> = (0..16).map(|i| 1.0 + i as f32 / 4.0).collect();
    let (spec, data) = f32_tensor("rope_freqs.weight", &[16], &factors);
    let linear = |factor| Copy::of(&file).set("llama.rope.scaling.factor", Value::Float64(factor));
    let typed = linear(2.0).set("llama.rope.scaling.type", Value::String("linear"));
    for scaled in [typed, linear(2.0), Copy::of(&file).with_tensor(spec, data)] {
        let scaled = scaled.build();
        let reference = reference_logits(&scaled, tokens);
        assert_ne!(bits(&reference), plain);
        assert_close(&engine_logits(&scaled, &Serial, tokens, 40), &reference, 0.999);
    }
    let none = linear(2.0).set("llama.rope.scaling.type", Value::String("none")).build();
    assert_eq!(bits(&reference_logits(&none, tokens)), plain);
    assert_eq!(bits(&reference_logits(&linear(0.0).build(), tokens)), plain);
}
