//! A layer: attention, then the feed-forward part, each added to the tokens' states.

use alloc::vec::Vec;

use hk_core::Backend;

use super::attention;
use super::cache::Cache;
use super::linear::{Kernels, Linear, Scratch};
use super::memory;
use super::probe::Part;
use super::read;
use super::rope::Rope;
use crate::error::Result;
use crate::hyperparameters::Hyperparameters;
use crate::math::accumulate;
use crate::model::{self, Vector};

/// The tensors of a layer; what is not a matrix is decoded.
pub(super) struct Layer<'a> {
    attn_norm: Vec<f32>,
    q: Linear<'a>,
    k: Linear<'a>,
    v: Linear<'a>,
    q_extra: Extra,
    k_extra: Extra,
    v_extra: Extra,
    attn_output: Linear<'a>,
    ffn_norm: Vec<f32>,
    ffn_gate: Linear<'a>,
    ffn_up: Linear<'a>,
    ffn_down: Linear<'a>,
}

impl<'a> Layer<'a> {
    pub(super) fn new(
        layer: &model::Layer<'a>,
        numbers: &Hyperparameters,
        backend: &dyn Backend,
    ) -> Result<Self> {
        let (width, head_len) = (numbers.width, numbers.head_len);
        let extra =
            |bias: &Option<Vector<'_>>, norm: &Option<Vector<'_>>, rows: usize| -> Result<Extra> {
                let read = |vector: &Option<Vector<'_>>, len| {
                    vector.as_ref().map(|vector| read(vector, len, backend)).transpose()
                };
                Ok(Extra { bias: read(bias, rows)?, norm: read(norm, head_len)? })
            };
        Ok(Layer {
            attn_norm: read(&layer.attn_norm, width, backend)?,
            q: Linear::new(layer.attn_q)?,
            k: Linear::new(layer.attn_k)?,
            v: Linear::new(layer.attn_v)?,
            q_extra: extra(&layer.attn_q_bias, &layer.attn_q_norm, layer.attn_q.rows())?,
            k_extra: extra(&layer.attn_k_bias, &layer.attn_k_norm, layer.attn_k.rows())?,
            v_extra: extra(&layer.attn_v_bias, &None, layer.attn_v.rows())?,
            attn_output: Linear::new(layer.attn_output)?,
            ffn_norm: read(&layer.ffn_norm, width, backend)?,
            ffn_gate: Linear::new(layer.ffn_gate)?,
            ffn_up: Linear::new(layer.ffn_up)?,
            ffn_down: Linear::new(layer.ffn_down)?,
        })
    }
}

/// What some models do to queries, keys or values after the product.
struct Extra {
    /// Added.
    bias: Option<Vec<f32>>,
    /// Weights of a norm for each head.
    norm: Option<Vec<f32>>,
}

impl Extra {
    fn apply(&self, backend: &dyn Backend, heads: &mut [f32], numbers: &Hyperparameters) {
        if let Some(bias) = &self.bias {
            accumulate(heads, bias);
        }
        if let Some(weights) = &self.norm {
            for head in heads.chunks_exact_mut(numbers.head_len) {
                let scale = rms_scale(backend, head, numbers.epsilon);
                for (number, weight) in head.iter_mut().zip(weights) {
                    *number = weight * (*number * scale);
                }
            }
        }
    }
}

/// Memory for what a batch of tokens goes through, kept from one batch to the next. Rows
/// are tokens, except in `products`, whose rows are those of matrices.
#[derive(Default)]
pub(super) struct Buffers {
    /// The tokens' states, which layers add to.
    pub(super) x: Vec<f32>,
    pub(super) normed: Vec<f32>,
    products: Vec<f32>,
    queries: Vec<f32>,
    /// Answers in the order in which they are found.
    answers: Vec<f32>,
    attended: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    hidden: Vec<f32>,
    /// Cosine and sine for each pair of a head.
    pub(super) rotations: Vec<[f32; 2]>,
}

impl Buffers {
    /// Brings everything to the size that `tokens` need.
    pub(super) fn make_room(
        &mut self,
        numbers: &Hyperparameters,
        tokens: usize,
        pairs: usize,
    ) -> Result<()> {
        let &Hyperparameters { width, feed_forward, heads, kv_heads, head_len, .. } = numbers;
        // Each of these is the length of a matrix in the file; only sums and products with
        // the number of tokens could pass what a 32-bit host can address.
        let (queries, kept) = (heads * head_len, kv_heads * head_len);
        let rows = kept.saturating_mul(2).saturating_add(queries);
        let most = rows.max(feed_forward.saturating_mul(2)).max(width);
        let per_token = [
            (&mut self.x, width),
            (&mut self.normed, width),
            (&mut self.products, most),
            (&mut self.queries, queries),
            (&mut self.answers, queries),
            (&mut self.attended, queries),
            (&mut self.keys, kept),
            (&mut self.values, kept),
            (&mut self.hidden, feed_forward),
        ];
        for (buffer, len) in per_token {
            memory::resize(buffer, len.saturating_mul(tokens))?;
        }
        memory::resize(&mut self.rotations, pairs * tokens)
    }
}

/// A batch of tokens on its way through the layers.
pub(super) struct Stage<'s, 'm> {
    pub(super) kernels: &'s Kernels<'m>,
    pub(super) numbers: &'s Hyperparameters,
    pub(super) rope: &'s Rope,
    /// Position of the first token.
    pub(super) start: usize,
    pub(super) buffers: &'s mut Buffers,
    pub(super) scratch: &'s mut Scratch,
}

impl Stage<'_, '_> {
    /// Attention: looks back on the text with this layer's keys and values.
    pub(super) fn attend(&mut self, layer: &Layer<'_>, cache: &mut Cache) -> Result<()> {
        let numbers = self.numbers;
        self.norm(&layer.attn_norm);
        self.multiply_normed(&[&layer.q, &layer.k, &layer.v])?;
        self.spread(layer, cache);
        let Buffers { queries, answers, attended, .. } = &mut *self.buffers;
        attention::attend(self.kernels, cache, numbers, self.start, queries, answers, attended)?;
        let rows = numbers.width * self.tokens();
        let (products, attended) = (&mut self.buffers.products[..rows], &self.buffers.attended);
        let columns = numbers.heads * numbers.head_len;
        self.kernels.multiply(&[&layer.attn_output], attended, columns, self.scratch, products)?;
        self.accumulate();
        Ok(())
    }

    /// The feed-forward part.
    pub(super) fn feed_forward(&mut self, layer: &Layer<'_>) -> Result<()> {
        let (width, feed_forward) = (self.numbers.width, self.numbers.feed_forward);
        self.norm(&layer.ffn_norm);
        self.multiply_normed(&[&layer.ffn_gate, &layer.ffn_up])?;
        let tokens = self.tokens();
        let Buffers { products, hidden, .. } = &mut *self.buffers;
        let (gate, up) = products.split_at_mut(feed_forward * tokens);
        self.kernels.backend.swiglu(gate, up);
        transpose(gate, tokens, hidden, |to, from| *to = from);
        let products = &mut products[..width * tokens];
        let scratch = &mut *self.scratch;
        self.kernels.multiply(&[&layer.ffn_down], hidden, feed_forward, scratch, products)?;
        self.accumulate();
        Ok(())
    }

    fn tokens(&self) -> usize {
        self.buffers.x.len() / self.numbers.width
    }

    fn norm(&mut self, weights: &[f32]) {
        self.kernels.enter(Part::Norms);
        let width = self.numbers.width;
        let Buffers { x, normed, .. } = &mut *self.buffers;
        for (x, normed) in x.chunks_exact(width).zip(normed.chunks_exact_mut(width)) {
            norm(self.kernels.backend, x, weights, self.numbers.epsilon, normed);
        }
    }

    fn multiply_normed(&mut self, matrices: &[&Linear<'_>]) -> Result<()> {
        let rows: usize = matrices.iter().map(|matrix| matrix.rows()).sum();
        let rows = rows * self.tokens();
        let Buffers { normed, products, .. } = &mut *self.buffers;
        let (width, products) = (self.numbers.width, &mut products[..rows]);
        self.kernels.multiply(matrices, normed, width, self.scratch, products)
    }

    /// Takes queries, keys and values out of the products: queries to their rows, keys and
    /// values to the cache.
    fn spread(&mut self, layer: &Layer<'_>, cache: &mut Cache) {
        let (numbers, tokens, backend) = (self.numbers, self.tokens(), self.kernels.backend);
        let Buffers { products, queries, keys, values, rotations, .. } = &mut *self.buffers;
        let (q, rest) = products.split_at(layer.q.rows() * tokens);
        let (k, v) = rest.split_at(layer.k.rows() * tokens);
        for (from, to) in [(q, &mut *queries), (k, &mut *keys), (v, &mut *values)] {
            transpose(from, tokens, to, |to, from| *to = from);
        }
        let pairs = self.rope.pairs();
        let queries = queries.chunks_exact_mut(layer.q.rows());
        let keys = keys.chunks_exact_mut(layer.k.rows());
        let values = values.chunks_exact_mut(layer.v.rows());
        for (token, ((query, key), value)) in queries.zip(keys).zip(values).enumerate() {
            let rotation = &rotations[token * pairs..][..pairs];
            for (heads, extra) in [(query, &layer.q_extra), (&mut *key, &layer.k_extra)] {
                extra.apply(backend, heads, numbers);
                for head in heads.chunks_exact_mut(numbers.head_len) {
                    self.rope.rotate(head, rotation);
                }
            }
            layer.v_extra.apply(backend, value, numbers);
            cache.set(backend, self.start + token, key, value);
        }
    }

    /// Adds the products to the tokens' states.
    fn accumulate(&mut self) {
        let tokens = self.tokens();
        let Buffers { x, products, .. } = &mut *self.buffers;
        transpose(products, tokens, x, |to, from| *to += from);
    }
}

/// RMS norm: `out = x / sqrt(mean(x^2) + epsilon) * weights`.
pub(super) fn norm(
    backend: &dyn Backend,
    x: &[f32],
    weights: &[f32],
    epsilon: f32,
    out: &mut [f32],
) {
    backend.scale(x, rms_scale(backend, x, epsilon), weights, out);
}

fn rms_scale(backend: &dyn Backend, x: &[f32], epsilon: f32) -> f32 {
    let mean = backend.dot_f32(x, x) / x.len() as f32;
    1.0 / libm::sqrtf(mean + epsilon)
}

/// Rows and columns that are transposed together, so that both sides stay in the first
/// cache.
const TILE: usize = 16;

/// Gives `put` each number of `from`, rows of `columns`, together with its place in `to`,
/// whose rows are the columns of `from`. What `from` has more than `to` is left alone.
fn transpose(from: &[f32], columns: usize, to: &mut [f32], put: impl Fn(&mut f32, f32)) {
    if columns == 1 {
        to.iter_mut().zip(from).for_each(|(to, from)| put(to, *from));
        return;
    }
    let (from, rows) = (&from[..to.len()], to.len() / columns);
    for first_column in (0..columns).step_by(TILE) {
        let strip = &mut to[first_column * rows..];
        let width = TILE.min(columns - first_column);
        for (tile, first_row) in from.chunks(columns * TILE).zip((0..rows).step_by(TILE)) {
            let height = tile.len() / columns;
            for (column, to) in strip.chunks_exact_mut(rows).take(width).enumerate() {
                let to = &mut to[first_row..][..height];
                for (to, row) in to.iter_mut().zip(tile.chunks_exact(columns)) {
                    put(to, row[first_column + column]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_tile_by_tile() {
        for (rows, columns) in [(1, 1), (7, 1), (1, 9), (16, 16), (33, 18), (40, 65)] {
            let from: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let mut to = alloc::vec![0.5; from.len()];
            transpose(&from, columns, &mut to, |to, from| *to += from);
            for (i, number) in to.iter().enumerate() {
                assert_eq!(*number, 0.5 + from[i % rows * columns + i / rows]);
            }
        }
    }
}
