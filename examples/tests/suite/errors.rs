//! Spoilt copies of the demo model: each is refused with the key or tensor named.

use hk_core::build::{TensorSpec, pack_i32};
use hk_core::{Hk, Portable, StorageType, Value};
use hk_examples::{Engine, Error, Hyperparameters, Model, Reference, Serial, Tokenizer, greedy};

use crate::model_file::{self, Copy, f32_tensor, strings};

/// What is said of a model file.
fn model_error(file: &[u8]) -> String {
    Model::read(&Hk::parse(file).unwrap()).unwrap_err().to_string()
}

/// What is said of a tokenizer.
fn tokenizer_error(file: &[u8]) -> String {
    Tokenizer::read(&Hk::parse(file).unwrap().metadata()).unwrap_err().to_string()
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
}

#[test]
fn a_missing_key_is_named() {
    let file = model_file::read();
    let needed = [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ];
    for key in needed {
        let error = model_error(&Copy::of(&file).without_key(key).build());
        assert_says(&error, &[&format!("{key:?} is missing"), "convert the model again"]);
    }
    for key in ["model", "pre", "tokens", "merges", "bos_token_id"] {
        let key = format!("tokenizer.ggml.{key}");
        let error = tokenizer_error(&Copy::of(&file).without_key(&key).build());
        assert_says(&error, &[&format!("{key:?} is missing")]);
    }
}

#[test]
fn keys_that_have_a_default_may_be_missing() {
    let file = model_file::read();
    let copy = Copy::of(&file)
        .without_key("llama.rope.dimension_count")
        .without_key("llama.rope.freq_base")
        .build();
    let read = |file| Hyperparameters::read(&Hk::parse(file).unwrap().metadata()).unwrap();
    assert_eq!(read(&copy), read(&file));
    let alone = Copy::of(&file).without_key("llama.attention.head_count_kv").build();
    assert_eq!(read(&alone).kv_heads, 4);
    // One number a layer, the same for all, is as good as one number.
    let (heads, kv_heads) = (pack_i32([4; 4]).unwrap(), pack_i32([2; 4]).unwrap());
    let arrays = Copy::of(&file)
        .set("llama.attention.head_count", Value::Bytes(&heads))
        .set("llama.attention.head_count_kv", Value::Bytes(&kv_heads))
        .build();
    assert_eq!(read(&arrays), read(&file));
    let without = Copy::of(&file)
        .without_key("tokenizer.ggml.token_type")
        .without_key("tokenizer.ggml.eos_token_id")
        .build();
    let hk = Hk::parse(&without).unwrap();
    assert_eq!(Tokenizer::read(&hk.metadata()).unwrap().end(), None);
}

#[test]
fn a_value_that_makes_no_sense_is_named() {
    let file = model_file::read();
    let differing = pack_i32([4, 4, 2, 4]).unwrap();
    let long = "x".repeat(1000);
    let none = strings(&[]);
    let few = pack_i32([4; 3]).unwrap();
    let zeros = pack_i32([0; 4]).unwrap();
    let cases = [
        (
            "general.architecture",
            Value::String("mamba"),
            "\"mamba\" models are not known here, only llama, qwen2 and qwen3",
        ),
        ("general.architecture", Value::Int64(1), "an int64 value is no name"),
        ("llama.attention.head_count", Value::Int64(0), "0 is no whole number from 1"),
        ("llama.attention.head_count", Value::Bytes(&[1, 2, 3]), "a bytes value"),
        ("llama.attention.head_count", Value::Bytes(&differing), "layers differ in it (4 and 2)"),
        ("llama.attention.head_count", Value::Bytes(&few), "3 values for 4 layers"),
        ("llama.attention.head_count", Value::Bytes(&zeros), "0 is no whole number from 1"),
        ("llama.feed_forward_length", Value::Bytes(&differing), "layers differ in it"),
        ("llama.attention.head_count", Value::Int64(3), "is no multiple"),
        ("llama.attention.head_count_kv", Value::Int64(3), "4 is no multiple"),
        ("llama.embedding_length", Value::Int64(-128), "-128"),
        ("llama.embedding_length", Value::Int64(1 << 40), "1099511627776"),
        ("llama.context_length", Value::Float64(0.5), "0.5"),
        ("llama.rope.dimension_count", Value::Int64(31), "31"),
        ("llama.rope.dimension_count", Value::Int64(64), "a head has 32"),
        ("llama.rope.freq_base", Value::Float64(f64::NAN), "NaN"),
        ("llama.rope.scaling.type", Value::String("yarn"), "\"yarn\""),
        ("llama.rope.scaling.factor", Value::Float64(-2.0), "-2"),
        ("llama.rope.scale_linear", Value::String("2"), "finite number over 0"),
        ("llama.attention.layer_norm_rms_epsilon", Value::Float64(0.0), "finite number over 0"),
        ("llama.attention.layer_norm_rms_epsilon", Value::Float64(1e300), "finite number over 0"),
        ("llama.attention.value_length", Value::Int64(16), "values of 16 numbers"),
        ("tokenizer.ggml.tokens", Value::Bytes(&none), "there are no tokens in it"),
        ("llama.expert_count", Value::Int64(8), "8: models with experts are not known here"),
        (
            "general.architecture",
            Value::String(&long),
            "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"… models",
        ),
    ];
    for (key, value, problem) in cases {
        let copy = Copy::of(&file).set(key, value).build();
        let error = model_error(&copy);
        // A count that does not divide another may be told under the other's key.
        let divides = problem.contains("no multiple");
        assert_says(&error, &[if divides { "llama.attention.head_count" } else { key }, problem]);
    }
}

#[test]
fn a_tokenizer_that_makes_no_sense_is_named() {
    let file = model_file::read();
    let numbers = pack_i32([1]).unwrap();
    let [no_space, unknown, one] = [["he"], ["h €"], ["h e"]].map(|list| strings(&list));
    let long = "h".repeat(1000);
    let long_merge = strings(&[&long]);
    let cases = [
        ("model", Value::String("bert"), "\"bert\" is not known here, only gpt2, llama"),
        ("pre", Value::String("default"), "only gpt-2, smollm, llama-bpe, qwen2"),
        ("pre", Value::Int64(3), "an int64 value where a string is needed"),
        ("pre", Value::String(&long), "h\"… is not known here"),
        ("merges", Value::Bytes(&long_merge), "h\"…, has no space"),
        ("tokens", Value::Bytes(&numbers), "packed array of strings"),
        ("tokens", Value::Bytes(&[1, 0, 0, 0, 255, 255, 255, 255]), "packed array of strings"),
        ("token_type", Value::Bytes(&one), "array of numbers"),
        ("merges", Value::Bytes(&no_space), "merge 0, \"he\", has no space"),
        ("merges", Value::Bytes(&unknown), "needs \"€\", which is not in tokenizer.ggml.tokens"),
        ("bos_token_id", Value::Int64(512), "512 is no token"),
        ("eos_token_id", Value::Int64(-1), "-1 is no token"),
        ("eos_token_id", Value::String("0"), "string"),
        ("add_bos_token", Value::Int64(1), "int64"),
    ];
    for (key, value, problem) in cases {
        let key = format!("tokenizer.ggml.{key}");
        let copy = Copy::of(&file).set(&key, value).build();
        let error = tokenizer_error(&copy);
        assert_says(&error, &[&key, problem]);
        // The model, which is read before, finds no other fault.
        assert!(Model::read(&Hk::parse(&copy).unwrap()).is_ok(), "{key}");
        assert!(error.len() < 1000, "{error}");
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let file = model_file::read();
    let names: Vec<String> =
        Copy::of(&file).tensors.iter().map(|(spec, _)| spec.name.clone()).collect();
    assert_eq!(names.len(), 38);
    for name in names {
        let error = model_error(&Copy::of(&file).without_tensor(&name).build());
        assert_says(&error, &[&format!("tensor {name:?} is missing")]);
    }
    // A count that claims more layers than there are, however many.
    let copy = Copy::of(&file).set("llama.block_count", Value::Int64(i32::MAX.into())).build();
    assert_says(&model_error(&copy), &["\"blk.4.attn_q.weight\" is missing"]);
}

#[test]
fn a_tensor_that_is_not_used_is_named() {
    let file = model_file::read();
    let fewer = Copy::of(&file).set("llama.block_count", Value::Int64(3)).build();
    assert_says(&model_error(&fewer), &["blk.3.", "would be garbage"]);
    let (spec, data) = f32_tensor("blk.0.attn_q_norm.weight", &[32], &[1.0; 32]);
    let normed = Copy::of(&file).with_tensor(spec, data).build();
    assert_says(&model_error(&normed), &["\"blk.0.attn_q_norm.weight\""]);
}

#[test]
fn a_wrong_shape_is_named() {
    let file = model_file::read();
    let cases: [(&str, &[u64], &str); 4] = [
        ("blk.2.ffn_up.weight", &[128, 384], "[384, 128]"),
        ("blk.0.attn_k.weight", &[64 * 128], "[64, 128]"),
        ("output_norm.weight", &[1, 128], "[128]"),
        ("token_embd.weight", &[500, 128], "[512, 128]"),
    ];
    for (name, shape, needed) in cases {
        let count = shape.iter().product::<u64>() as usize;
        let (spec, data) = f32_tensor(name, shape, &vec![0.0; count]);
        let error = model_error(&Copy::of(&file).with_tensor(spec, data).build());
        assert_says(&error, &[name, &format!("{shape:?}"), &format!("the model needs {needed}")]);
    }
}

#[test]
fn weights_that_cannot_be_read_by_rows_are_named() {
    let file = model_file::read();
    let name = "blk.1.attn_output.weight";
    for storage in [StorageType::NULL_REF, StorageType(0xEE), StorageType::LORA_REF] {
        let spec = TensorSpec::new(name, storage, &[128, 128]);
        let error = model_error(&Copy::of(&file).with_tensor(spec, vec![]).build());
        assert_says(&error, &[name, &storage.to_string()]);
    }
}

#[test]
fn a_payload_that_is_too_short_is_named() {
    let mut file = model_file::read();
    let name = "blk.1.attn_output.weight";
    let (offset, size) = {
        let entry = *Hk::parse(&file).unwrap().tensor(name).unwrap().entry();
        (entry.offset as usize, entry.data.size)
    };
    // Length and bytes of the name, four codes, two dimensions and the offset.
    let size_at = offset + 2 + name.len() + 4 + 2 * 8 + 8;
    assert_eq!(file[size_at..][..8], size.to_le_bytes());
    file[size_at..][..8].copy_from_slice(&(size - 1).to_le_bytes());
    assert_says(&model_error(&file), &[name, "17407 bytes", "17408"]);
}

#[test]
fn a_full_context_and_an_unknown_token_are_errors() {
    let file = model_file::read();
    let copy = Copy::of(&file).set("llama.context_length", Value::Int64(3)).build();
    let hk = Hk::parse(&copy).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut reference = Reference::new(&model, &Portable, &Serial);
    assert_eq!(reference.logits(), Err(Error::NoToken));
    for left in (0..3).rev() {
        assert_eq!(reference.push(512), Err(Error::Token { token: 512, vocabulary: 512 }));
        reference.push(393).unwrap();
        assert_eq!(reference.room(), left);
    }
    assert_eq!(reference.push(393), Err(Error::ContextFull(3)));
    assert_eq!(reference.position(), 3);
    assert!(reference.logits().is_ok());
}

#[test]
fn damaged_weights_are_no_choice_of_token_zero() {
    let file = model_file::read();
    let damaged = |name: &str, shape: &[u64], weights: &[f32]| {
        let (spec, data) = f32_tensor(name, shape, weights);
        let copy = Copy::of(&file).with_tensor(spec, data).build();
        let hk = Hk::parse(&copy).unwrap();
        let model = Model::read(&hk).unwrap();
        let mut reference = Reference::new(&model, &Portable, &Serial);
        reference.push(0).unwrap();
        assert_eq!(greedy(reference.logits().unwrap()), Err(Error::NotNumbers), "{name}");
        let mut engine = Engine::new(&model, &Portable, &Serial).unwrap();
        engine.push(0).unwrap();
        assert_eq!(greedy(engine.logits().unwrap()), Err(Error::NotNumbers), "{name}");
    };
    damaged("output_norm.weight", &[128], &[f32::NAN; 128]);
    // Of one column that is infinite: every logit is, of the same sign.
    for weight in [f32::INFINITY, f32::NEG_INFINITY] {
        let mut weights = vec![0.0; 512 * 128];
        weights.iter_mut().step_by(128).for_each(|first| *first = weight);
        damaged("output.weight", &[512, 128], &weights);
    }
    assert_eq!(greedy(&[]), Err(Error::NotNumbers));
}

/// A few bytes of header, metadata or table of contents, spoilt at random.
pub fn spoil(file: &mut [u8], end: usize, random: &mut impl FnMut() -> u64) {
    for _ in 0..=random() % 3 {
        let at = random() as usize % (end - 8);
        match random() % 3 {
            0 => file[at] = random() as u8,
            1 => file[at] ^= 1 << (random() % 8),
            _ => {
                let edges = [0, 1, 255, 1 << 31, 1 << 32, u64::MAX - 1, u64::MAX];
                let number = edges[random() as usize % edges.len()].to_le_bytes();
                let width = 1 << (random() % 4);
                file[at..][..width].copy_from_slice(&number[..width]);
            }
        }
    }
}

/// Numbers by chance, the same in every run (xorshift64).
pub fn random() -> impl FnMut() -> u64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 16
    }
}

#[test]
fn spoilt_bytes_give_an_error_or_a_model_that_runs() {
    let file = model_file::read();
    let first = Hk::parse(&file).unwrap().tensors().map(|tensor| tensor.data.offset).min();
    let mut random = random();
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut spoilt = file.clone();
        spoil(&mut spoilt, first.unwrap() as usize, &mut random);
        let Ok(hk) = Hk::parse(&spoilt) else { continue };
        if let Ok(tokenizer) = Tokenizer::read(&hk.metadata()) {
            let tokens = tokenizer.encode_prompt("It's Tim,  12\n\n🦀 x").unwrap_or_default();
            let text = tokenizer.decode(&tokens).unwrap();
            assert!(tokens.is_empty() || !text.is_empty());
        }
        match Model::read(&hk) {
            Ok(model) => {
                let mut reference = Reference::new(&model, &Portable, &Serial);
                let read = reference.push(393).and_then(|()| reference.logits().map(<[f32]>::len));
                assert!(matches!(read, Ok(_) | Err(Error::Token { .. })), "{read:?}");
                if let Ok(mut engine) = Engine::new(&model, &Portable, &Serial) {
                    let more = engine.read(&[393; 3]);
                    let full = Err(Error::ContextFull(model.hyperparameters.context));
                    assert!(more.is_ok() || more == full || read.is_err(), "{more:?}");
                }
                ran += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(ran > 100 && refused > 50, "{ran} ran, {refused} refused");
}
