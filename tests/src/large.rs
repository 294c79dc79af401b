//! A file as large as they come in everything but its payloads.

use crate::build::{Builder, Tensor, pack_numbers, pack_strings};
use crate::rng::Rng;

/// Tensors of [`large_model`].
pub const TENSORS: usize = 10_000;
/// Least bytes of metadata of [`large_model`].
pub const METADATA: u64 = 5_000_000;

/// A file of ten thousand tensors and five megabytes of metadata: a vocabulary of 200,000
/// words with merges, scores and types, hyperparameters and a long chat template.
pub fn large_model() -> Vec<u8> {
    let mut rng = Rng::new(7);
    let words: Vec<Vec<u8>> = (0..200_000)
        .map(|_| (0..1 + rng.below(12)).map(|_| rng.pick(b"abcdefghijklmnoprstuvwy")).collect())
        .collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let numbers: Vec<[u8; 4]> = (0..200_000u32).map(u32::to_le_bytes).collect();
    let mut builder = Builder::default()
        .pair("general.architecture", 1, "llama")
        .pair("general.name", 1, "Large")
        .pair("tokenizer.ggml.tokens", 6, pack_strings(&words))
        .pair("tokenizer.ggml.merges", 6, pack_strings(&words))
        .pair("tokenizer.ggml.scores", 6, pack_numbers(2, &numbers))
        .pair("tokenizer.ggml.token_type", 6, pack_numbers(3, &numbers))
        .pair("tokenizer.chat_template", 1, "{% for message in messages %}žluť".repeat(300));
    for n in 0..60i64 {
        builder = builder.pair(&format!("llama.hyperparameter.{n}"), 2, n.to_le_bytes());
    }
    for n in 0..TENSORS {
        let name = format!("blk.{}.ffn_experts.{}.up_proj.weight", n / 100, n % 100);
        builder = builder.tensor(Tensor::new(&name, 0x15, &[4, 32], vec![0x33; 72]));
    }
    builder.build().bytes
}
