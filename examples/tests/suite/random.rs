//! Tiny models of random weights: of every type that has dot products, and of every
//! architecture.

use half::f16;
use hk_core::build::TensorSpec;
use hk_core::{Backend, Portable, StorageType, Value};
use hk_examples::Serial;

use crate::compare::{
    Scoped, assert_close, assert_every_backend, bits, engine_logits, reference_logits,
};
use crate::model_file::{Copy, f32_tensor};

const WIDTH: usize = 256;
const FEED_FORWARD: usize = 512;
const VOCABULARY: usize = 300;
const HEADS: (usize, usize) = (4, 2);
const HEAD_LEN: usize = 64;
const TOKENS: [u32; 20] =
    [3, 141, 59, 265, 35, 89, 79, 32, 38, 46, 264, 33, 83, 279, 50, 288, 41, 97, 169, 39];

/// Where a block has its f16 scale, where its minimum, if any, and what multiple of the
/// scale that is, so that weights have a mean near 0.
type Scales = (usize, Option<(usize, f32)>);

/// Every type that has dot products.
const TYPES: [(StorageType, Scales); 26] = [
    (StorageType::F32, (0, None)),
    (StorageType::F16, (0, None)),
    (StorageType::BF16, (0, None)),
    (StorageType::Q4_0, (0, None)),
    (StorageType::Q4_1, (0, Some((2, -7.5)))),
    (StorageType::Q5_0, (0, None)),
    (StorageType::Q5_1, (0, Some((2, -15.5)))),
    (StorageType::Q8_0, (0, None)),
    (StorageType::IQ4_NL, (0, None)),
    (StorageType::MXFP4, (0, None)),
    (StorageType::NVFP4, (0, None)),
    (StorageType::Q2_K, (80, Some((82, 1.5)))),
    (StorageType::Q3_K, (108, None)),
    (StorageType::Q4_K, (0, Some((2, 7.5)))),
    (StorageType::Q5_K, (0, Some((2, 15.5)))),
    (StorageType::Q6_K, (208, None)),
    (StorageType::IQ4_XS, (0, None)),
    (StorageType::TQ1_0, (52, None)),
    (StorageType::TQ2_0, (64, None)),
    (StorageType::IQ1_S, (0, None)),
    (StorageType::IQ1_M, (0, None)),
    (StorageType::IQ2_XXS, (0, None)),
    (StorageType::IQ2_XS, (0, None)),
    (StorageType::IQ2_S, (0, None)),
    (StorageType::IQ3_XXS, (0, None)),
    (StorageType::IQ3_S, (0, None)),
];

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// From -1 to 1.
    fn signed(&mut self) -> f32 {
        (self.next() % 65_537) as f32 / 32_768.0 - 1.0
    }
}

/// Stored weights of `storage`: random blocks whose scale is about `unit`.
fn blocks(storage: StorageType, scales: Scales, count: usize, unit: f32, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let numbers = |random: &mut Random| (0..count).map(|_| random.signed() * unit).collect();
    let geometry = storage.geometry().unwrap();
    match storage {
        StorageType::F32 => {
            let numbers: Vec<f32> = numbers(&mut random);
            return numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        }
        StorageType::F16 => {
            let numbers: Vec<f32> = numbers(&mut random);
            return numbers.iter().flat_map(|&n| f16::from_f32(n).to_le_bytes()).collect();
        }
        StorageType::BF16 => {
            let numbers: Vec<f32> = numbers(&mut random);
            return numbers.iter().flat_map(|&n| half::bf16::from_f32(n).to_le_bytes()).collect();
        }
        _ => {}
    }
    let len = count / geometry.weights as usize * geometry.bytes as usize;
    let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    for block in bytes.chunks_exact_mut(geometry.bytes as usize) {
        let scale = unit * (1.0 + random.signed() / 2.0);
        set_scale(storage, scales, block, scale);
    }
    bytes
}

fn set_scale(storage: StorageType, (at, minimum): Scales, block: &mut [u8], scale: f32) {
    match storage {
        // A power of two, and a number with 4 bits of exponent, whose bias is 7 instead of
        // 127, and 3 bits of mantissa.
        StorageType::MXFP4 => block[0] = (scale.to_bits() >> 23) as u8,
        StorageType::NVFP4 => {
            let bits = (scale.to_bits() >> 20).saturating_sub(120 << 3);
            block[..4].fill(bits as u8 | 1);
        }
        // The scale's four nibbles stand above those of the block's four words of scales.
        StorageType::IQ1_M => {
            let bits = f16::from_f32(scale).to_bits();
            for (i, word) in block[48..56].chunks_exact_mut(2).enumerate() {
                word[1] = (word[1] & 0x0F) | ((bits >> (4 * i) & 0x0F) << 4) as u8;
            }
        }
        _ => {
            block[at..][..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
            if let Some((at, ratio)) = minimum {
                block[at..][..2].copy_from_slice(&f16::from_f32(scale * ratio).to_le_bytes());
            }
        }
    }
}

/// A matrix whose products with a row of numbers of size 1 are about of size 1.
fn matrix(
    name: &str,
    (storage, scales): (StorageType, Scales),
    rows: usize,
    columns: usize,
) -> (TensorSpec, Vec<u8>) {
    let seed = name.bytes().fold(88_172_645_463_325_252, |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let size = |unit| {
        let bytes = blocks(storage, scales, rows * columns, unit, seed);
        let mut weights = vec![0.0; rows * columns];
        Portable.dequantize(storage, &bytes, &mut weights).unwrap();
        let squares: f32 = weights.iter().map(|weight| weight * weight).sum();
        (squares / weights.len() as f32).sqrt()
    };
    let unit = 1.0 / size(1.0) / (columns as f32).sqrt();
    let bytes = blocks(storage, scales, rows * columns, unit, seed);
    (TensorSpec::new(name, storage, &[rows as u64, columns as u64]), bytes)
}

/// A vector of numbers about `center`.
fn vector(name: &str, len: usize, center: f32) -> (TensorSpec, Vec<u8>) {
    let mut random = Random(name.bytes().map(u64::from).sum::<u64>() << 20 | 1);
    (0..20).for_each(|_| _ = random.next());
    let numbers: Vec<f32> = (0..len).map(|_| center + random.signed() / 2.0).collect();
    f32_tensor(name, &[len as u64], &numbers)
}

/// A model of `architecture` with two layers.
fn model(architecture: &str, weights: (StorageType, Scales)) -> Vec<u8> {
    let key = |name: &str| format!("{architecture}.{name}");
    let count = |n: usize| Value::Int64(n as i64);
    let metadata = vec![
        ("general.architecture".to_owned(), Value::String(architecture)),
        (key("block_count"), count(2)),
        (key("context_length"), count(64)),
        (key("embedding_length"), count(WIDTH)),
        (key("feed_forward_length"), count(FEED_FORWARD)),
        (key("attention.head_count"), count(HEADS.0)),
        (key("attention.head_count_kv"), count(HEADS.1)),
        (key("attention.layer_norm_rms_epsilon"), Value::Float64(1e-5)),
        (key("rope.freq_base"), Value::Float64(1e4)),
    ];
    let (queries, keys) = (HEADS.0 * HEAD_LEN, HEADS.1 * HEAD_LEN);
    let mut tensors = vec![
        matrix("token_embd.weight", weights, VOCABULARY, WIDTH),
        vector("output_norm.weight", WIDTH, 1.0),
    ];
    for layer in 0..2 {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let matrices = [
            ("attn_q", queries, WIDTH),
            ("attn_k", keys, WIDTH),
            ("attn_v", keys, WIDTH),
            ("attn_output", WIDTH, queries),
            ("ffn_gate", FEED_FORWARD, WIDTH),
            ("ffn_up", FEED_FORWARD, WIDTH),
            ("ffn_down", WIDTH, FEED_FORWARD),
        ];
        for (part, rows, columns) in matrices {
            tensors.push(matrix(&name(&format!("{part}.weight")), weights, rows, columns));
        }
        tensors.push(vector(&name("attn_norm.weight"), WIDTH, 1.0));
        tensors.push(vector(&name("ffn_norm.weight"), WIDTH, 1.0));
        if architecture == "qwen2" {
            tensors.push(vector(&name("attn_q.bias"), queries, 0.0));
            tensors.push(vector(&name("attn_k.bias"), keys, 0.0));
            tensors.push(vector(&name("attn_v.bias"), keys, 0.0));
        }
        if architecture == "qwen3" {
            tensors.push(vector(&name("attn_q_norm.weight"), HEAD_LEN, 1.0));
            tensors.push(vector(&name("attn_k_norm.weight"), HEAD_LEN, 1.0));
        }
    }
    Copy { metadata, tensors }.build()
}

/// Asserts that the engine agrees with the reference, and with itself to the bit however
/// tokens are read.
fn assert_runs(file: &[u8], least: f64) {
    let whole = engine_logits(file, &Serial, &TOKENS, TOKENS.len());
    assert!(whole.iter().flatten().all(|logit| logit.is_finite()));
    assert_close(&whole, &reference_logits(file, &TOKENS), least);
    let whole = bits(&whole);
    assert!(bits(&engine_logits(file, &Serial, &TOKENS, 1)) == whole, "token by token");
    assert!(bits(&engine_logits(file, &Scoped(2), &TOKENS, 1)) == whole, "two threads");
    assert!(bits(&engine_logits(file, &Scoped(3), &TOKENS, 13)) == whole, "three threads");
    assert_every_backend(file, &TOKENS, &whole);
}

#[test]
fn every_weight_type_runs() {
    for (storage, scales) in TYPES {
        // What is left to differ by: f16 keys and values; activations of 8 bits, with one
        // scale for 32 or for 256 of them, where random weights leave outliers.
        let least = match storage.geometry().unwrap().weights {
            1 => 0.999_99,
            32 | 64 => 0.999,
            _ => 0.997,
        };
        println!("{storage}");
        assert_runs(&model("llama", (storage, scales)), least);
    }
}

#[test]
fn every_architecture_runs() {
    let mut seen = Vec::new();
    for architecture in ["llama", "qwen2", "qwen3"] {
        let file = model(architecture, TYPES[0]);
        assert_runs(&file, 0.999_99);
        assert_runs(&model(architecture, TYPES[7]), 0.999);
        let logits = bits(&engine_logits(&file, &Serial, &TOKENS, 20));
        assert!(!seen.contains(&logits), "{architecture} says what another says");
        seen.push(logits);
    }
}
