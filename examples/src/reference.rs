//! The model in plain `f32`: weights decoded row by row as they are used, activations
//! never quantized. Slow and plain on purpose: what is faster is tested against it.

use alloc::vec;
use alloc::vec::Vec;

use hk_core::Backend;
use hk_core::dot::dot_f32;

use crate::error::{Error, Result};
use crate::hyperparameters::Hyperparameters;
use crate::math::{self, Dot};
use crate::model::{Layer, Matrix, Model, Vector};
use crate::rows::Rows;

/// Weights decoded at a time: whole blocks of every type, and 4 KB of stack.
const PIECE: usize = 1024;

/// A model and the text it has read so far.
pub struct Reference<'m> {
    model: &'m Model<'m>,
    product: Product<'m>,
    position: usize,
    caches: Vec<Cache>,
    state: State,
}

impl<'m> Reference<'m> {
    /// A model that has read nothing yet.
    pub fn new(model: &'m Model<'m>, backend: &'m dyn Backend, rows: &'m dyn Rows) -> Self {
        let caches = model.layers.iter().map(|_| Cache::default()).collect();
        Reference {
            model,
            product: Product { backend, rows },
            position: 0,
            caches,
            state: State::new(model),
        }
    }

    /// Number of tokens read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of tokens that can still be read before the context is full.
    pub fn room(&self) -> usize {
        self.model.hyperparameters.context - self.position
    }

    /// Reads the next token of the text.
    ///
    /// # Errors
    /// [`Error::ContextFull`], [`Error::Token`], [`Error::Memory`]: nothing has changed
    /// then. [`Error::Decode`] for weights that cannot be decoded.
    pub fn push(&mut self, token: u32) -> Result<()> {
        let numbers = &self.model.hyperparameters;
        if self.room() == 0 {
            return Err(Error::ContextFull(numbers.context));
        }
        let vocabulary = self.model.vocabulary();
        if token as usize >= vocabulary {
            return Err(Error::Token { token, vocabulary });
        }
        self.make_room()?;
        let (state, product) = (&mut self.state, &self.product);
        if self.position == 0 {
            state.set_frequencies(self.model, product.backend)?;
        }
        self.model.token_embd.read(product.backend, token as usize, 0, &mut state.x)?;
        state.turn_to(self.position);
        for (layer, cache) in self.model.layers.iter().zip(&mut self.caches) {
            state.attend(layer, cache, product, numbers)?;
            state.feed_forward(layer, product, numbers)?;
        }
        self.position += 1;
        Ok(())
    }

    /// Makes room for one more position, and takes back what a failed one has left.
    fn make_room(&mut self) -> Result<()> {
        let numbers = &self.model.hyperparameters;
        let len = numbers.kv_heads * numbers.head_len;
        for cache in &mut self.caches {
            for kept in [&mut cache.keys, &mut cache.values] {
                kept.truncate(self.position * len);
                reserve(kept, len)?;
            }
        }
        self.state.scores.clear();
        reserve(&mut self.state.scores, self.position + 1)
    }

    /// The logits of what may follow the text read so far, one a token of the vocabulary.
    ///
    /// # Errors
    /// [`Error::NoToken`] before the first token; [`Error::Decode`].
    pub fn logits(&mut self) -> Result<&[f32]> {
        if self.position == 0 {
            return Err(Error::NoToken);
        }
        let (state, model) = (&mut self.state, self.model);
        let epsilon = model.hyperparameters.epsilon;
        self.product.norm(&model.output_norm, &state.x, epsilon, &mut state.normed)?;
        self.product.multiply(&model.output, &state.normed, &mut state.logits)?;
        Ok(&state.logits)
    }
}

/// Keys and values of all positions so far, position after position.
#[derive(Clone, Debug, Default)]
struct Cache {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// Products with weights in the file.
struct Product<'m> {
    backend: &'m dyn Backend,
    rows: &'m dyn Rows,
}

impl Product<'_> {
    /// `out = matrix * x`.
    fn multiply(&self, matrix: &Matrix<'_>, x: &[f32], out: &mut [f32]) -> Result<()> {
        self.rows.split(out, matrix.columns(), &|first, part| {
            for (row, out) in (first..).zip(part) {
                *out = self.dot_row(matrix, row, x)?;
            }
            Ok(())
        })
    }

    fn dot_row(&self, matrix: &Matrix<'_>, row: usize, x: &[f32]) -> Result<f32> {
        let mut weights = [0.0; PIECE];
        let mut dot = Dot::default();
        for (i, x) in x.chunks(PIECE).enumerate() {
            let weights = &mut weights[..x.len()];
            matrix.read(self.backend, row, i * PIECE, weights)?;
            dot.add(weights, x);
        }
        Ok(dot.sum())
    }

    /// RMS norm: `out = x / sqrt(mean(x^2) + epsilon) * weights`.
    fn norm(&self, norm: &Vector<'_>, x: &[f32], epsilon: f32, out: &mut [f32]) -> Result<()> {
        norm.read(self.backend, out)?;
        let scale = math::rms_scale(x, epsilon);
        for (out, x) in out.iter_mut().zip(x) {
            *out *= x * scale;
        }
        Ok(())
    }
}

/// What one token goes through: buffers made once and written over with each token.
struct State {
    /// The token's state, `width` numbers.
    x: Vec<f32>,
    normed: Vec<f32>,
    /// What a layer adds to `x`.
    added: Vec<f32>,
    queries: Vec<f32>,
    attended: Vec<f32>,
    scores: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    logits: Vec<f32>,
    /// What one position turns each pair of a head by; read with the first token.
    frequencies: Vec<f32>,
    /// Cosine and sine for each pair of a head at this position.
    rotation: Vec<[f32; 2]>,
}

impl State {
    fn new(model: &Model<'_>) -> Self {
        let numbers = &model.hyperparameters;
        let queries = numbers.heads * numbers.head_len;
        let pairs = numbers.rope_len / 2;
        State {
            x: vec![0.0; numbers.width],
            normed: vec![0.0; numbers.width],
            added: vec![0.0; numbers.width],
            queries: vec![0.0; queries],
            attended: vec![0.0; queries],
            scores: Vec::new(),
            gate: vec![0.0; numbers.feed_forward],
            up: vec![0.0; numbers.feed_forward],
            logits: vec![0.0; model.vocabulary()],
            rotation: vec![[1.0, 0.0]; pairs],
            frequencies: Vec::new(),
        }
    }

    /// Reads what the model divides the frequencies of positions by, and sets them.
    fn set_frequencies(&mut self, model: &Model<'_>, backend: &dyn Backend) -> Result<()> {
        let numbers = &model.hyperparameters;
        let mut factors = vec![1.0; self.rotation.len()];
        if let Some(stored) = &model.rope_freqs {
            stored.read(backend, &mut factors)?;
        }
        let frequency = |(pair, factor): (usize, &f32)| {
            let exponent = (2 * pair) as f32 / numbers.rope_len as f32;
            1.0 / (libm::powf(numbers.rope_base, exponent) * numbers.rope_scale * factor)
        };
        self.frequencies = factors.iter().enumerate().map(frequency).collect();
        Ok(())
    }

    /// Sets the rotation for `position`.
    fn turn_to(&mut self, position: usize) {
        for (rotation, frequency) in self.rotation.iter_mut().zip(&self.frequencies) {
            let angle = position as f32 * frequency;
            *rotation = [libm::cosf(angle), libm::sinf(angle)];
        }
    }

    /// Attention: looks back on the text with this layer's keys and values.
    fn attend(
        &mut self,
        layer: &Layer<'_>,
        cache: &mut Cache,
        product: &Product<'_>,
        numbers: &Hyperparameters,
    ) -> Result<()> {
        let (head_len, kv_len) = (numbers.head_len, numbers.kv_heads * numbers.head_len);
        product.norm(&layer.attn_norm, &self.x, numbers.epsilon, &mut self.normed)?;
        product.multiply(&layer.attn_q, &self.normed, &mut self.queries)?;
        let keys = grow(&mut cache.keys, kv_len);
        product.multiply(&layer.attn_k, &self.normed, keys)?;
        let values = grow(&mut cache.values, kv_len);
        product.multiply(&layer.attn_v, &self.normed, values)?;
        let backend = product.backend;
        add_bias(&layer.attn_q_bias, backend, &mut self.queries)?;
        add_bias(&layer.attn_k_bias, backend, keys)?;
        add_bias(&layer.attn_v_bias, backend, values)?;
        norm_heads(&layer.attn_q_norm, backend, numbers, &mut self.queries)?;
        norm_heads(&layer.attn_k_norm, backend, numbers, keys)?;
        for head in self.queries.chunks_exact_mut(head_len).chain(keys.chunks_exact_mut(head_len)) {
            if numbers.architecture.rotates_halves() {
                math::rotate_halves(head, &self.rotation);
            } else {
                math::rotate(head, &self.rotation);
            }
        }
        let queries_per_kv = numbers.heads / numbers.kv_heads;
        let heads = self.queries.chunks_exact(head_len);
        for (i, (query, out)) in heads.zip(self.attended.chunks_exact_mut(head_len)).enumerate() {
            let at = i / queries_per_kv * head_len;
            let keys = cache.keys.chunks_exact(kv_len).map(|all| &all[at..at + head_len]);
            let values = cache.values.chunks_exact(kv_len).map(|all| &all[at..at + head_len]);
            attend_head(query, keys, values, &mut self.scores, out);
        }
        product.multiply(&layer.attn_output, &self.attended, &mut self.added)?;
        math::accumulate(&mut self.x, &self.added);
        Ok(())
    }

    /// The feed-forward part of a layer.
    fn feed_forward(
        &mut self,
        layer: &Layer<'_>,
        product: &Product<'_>,
        numbers: &Hyperparameters,
    ) -> Result<()> {
        product.norm(&layer.ffn_norm, &self.x, numbers.epsilon, &mut self.normed)?;
        product.multiply(&layer.ffn_gate, &self.normed, &mut self.gate)?;
        product.multiply(&layer.ffn_up, &self.normed, &mut self.up)?;
        math::swiglu(&mut self.gate, &self.up);
        product.multiply(&layer.ffn_down, &self.gate, &mut self.added)?;
        math::accumulate(&mut self.x, &self.added);
        Ok(())
    }
}

/// Adds a bias, where there is one.
fn add_bias(bias: &Option<Vector<'_>>, backend: &dyn Backend, numbers: &mut [f32]) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    let mut added = vec![0.0; numbers.len()];
    bias.read(backend, &mut added)?;
    math::accumulate(numbers, &added);
    Ok(())
}

/// Norms each head by itself, where there are weights for that.
fn norm_heads(
    norm: &Option<Vector<'_>>,
    backend: &dyn Backend,
    numbers: &Hyperparameters,
    heads: &mut [f32],
) -> Result<()> {
    let Some(norm) = norm else { return Ok(()) };
    let mut weights = vec![0.0; numbers.head_len];
    norm.read(backend, &mut weights)?;
    for head in heads.chunks_exact_mut(numbers.head_len) {
        let scale = math::rms_scale(head, numbers.epsilon);
        for (number, weight) in head.iter_mut().zip(&weights) {
            *number *= scale * weight;
        }
    }
    Ok(())
}

/// Makes sure that `more` numbers find room.
fn reserve(numbers: &mut Vec<f32>, more: usize) -> Result<()> {
    let memory = Error::Memory(more.saturating_mul(size_of::<f32>()));
    numbers.try_reserve(more).map_err(|_| memory)
}

/// Appends `len` zeros and gives them.
fn grow(numbers: &mut Vec<f32>, len: usize) -> &mut [f32] {
    let start = numbers.len();
    numbers.resize(start + len, 0.0);
    &mut numbers[start..]
}

/// One head: `out` is the mean of `values`, weighted by how well `query` fits the keys.
fn attend_head<'a>(
    query: &[f32],
    keys: impl Iterator<Item = &'a [f32]>,
    values: impl Iterator<Item = &'a [f32]>,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let scale = 1.0 / libm::sqrtf(query.len() as f32);
    scores.clear();
    scores.extend(keys.map(|key| dot_f32(query, key) * scale));
    math::softmax(scores);
    out.fill(0.0);
    for (value, weight) in values.zip(scores.iter()) {
        for (out, value) in out.iter_mut().zip(value) {
            *out += value * weight;
        }
    }
}
