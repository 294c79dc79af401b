//! Logits of the engine and of the reference, and how near they are.

use std::sync::Mutex;

use hk_core::{Backend, Hk, Portable};
use hk_examples::{Engine, Model, Reference, Serial, Task, Threads};

/// Logits after each of `tokens`, of which the engine reads `piece` at a time.
pub fn engine_logits(
    file: &[u8],
    threads: &dyn Threads,
    tokens: &[u32],
    piece: usize,
) -> Vec<Vec<f32>> {
    logits_with(&Portable, file, threads, tokens, piece)
}

/// As [`engine_logits`], with the kernels of `backend`.
pub fn logits_with(
    backend: &dyn Backend,
    file: &[u8],
    threads: &dyn Threads,
    tokens: &[u32],
    piece: usize,
) -> Vec<Vec<f32>> {
    let hk = Hk::parse(file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut engine = Engine::new(&model, backend, threads).unwrap();
    let mut logits = Vec::new();
    for piece in tokens.chunks(piece) {
        engine.read_each(piece, |after| logits.push(after.to_vec())).unwrap();
    }
    assert_eq!(engine.position(), tokens.len());
    logits
}

/// Logits of the f32 reference after each of `tokens`.
pub fn reference_logits(file: &[u8], tokens: &[u32]) -> Vec<Vec<f32>> {
    let hk = Hk::parse(file).unwrap();
    let model = Model::read(&hk).unwrap();
    let mut reference = Reference::new(&model, &Portable, &Serial);
    let after = |token: &u32| {
        reference.push(*token).unwrap();
        reference.logits().unwrap().to_vec()
    };
    tokens.iter().map(after).collect()
}

pub fn bits(logits: &[Vec<f32>]) -> Vec<u32> {
    logits.iter().flatten().map(|logit| logit.to_bits()).collect()
}

/// Asserts that every backend of this machine gives the bits `expected`, for a prompt at once
/// and token by token.
pub fn assert_every_backend(file: &[u8], tokens: &[u32], expected: &[u32]) {
    for backend in hk_std::backends() {
        for piece in [1, 5, tokens.len()] {
            let found = bits(&logits_with(backend, file, &Scoped(2), tokens, piece));
            assert!(found == expected, "{}, {piece} tokens at a time", backend.name());
        }
    }
}

/// Asserts that at each position the cosine of both is at least `least`.
pub fn assert_close(ours: &[Vec<f32>], exact: &[Vec<f32>], least: f64) {
    assert_eq!(ours.len(), exact.len());
    for (position, (ours, exact)) in ours.iter().zip(exact).enumerate() {
        assert_eq!(ours.len(), exact.len());
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let cosine = dot(ours, exact) / (dot(ours, ours) * dot(exact, exact)).sqrt();
        assert!(cosine >= least, "cosine {cosine} at position {position}");
    }
}

/// Perplexity of a text: each token by the logits before it.
pub fn perplexity(logits: &[Vec<f32>], tokens: &[u32]) -> f64 {
    let loss = |(logits, &next): (&Vec<f32>, &u32)| {
        let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit))).sum();
        libm::log(sum) - f64::from(logits[next as usize])
    };
    let losses: f64 = logits.iter().zip(&tokens[1..]).map(loss).sum();
    libm::exp(losses / (tokens.len() - 1) as f64)
}

/// As many threads as it says, started for each piece of work; the last task goes first.
pub struct Scoped(pub usize);

impl Threads for Scoped {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, tasks: &mut [&mut Task<'_>]) {
        let tasks = Mutex::new(tasks.iter_mut().rev());
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(|| {
                    loop {
                        let task = tasks.lock().unwrap().next();
                        let Some(task) = task else { break };
                        task();
                    }
                });
            }
        });
    }
}
