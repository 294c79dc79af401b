//! The engine: weights multiplied as they are stored, a prompt read many tokens at a time,
//! keys and values kept in f16, work shared by threads.
//!
//! The logits are the same bits on every host, with every backend, for any number of
//! threads, and however a text is cut into pieces that are read at once: products follow
//! dot-products.md, and so does what stands between them. Every f32 operation is rounded
//! once. Sums over a row (norms) and scores (`q.k`) follow the rule of f32 rows; the softmax
//! takes the exact maximum, one `exp` of its own everywhere, and sums in 16 lanes by
//! position; weighted values are added position by position and divided by that sum. Threads
//! split rows of matrices, heads and queries, never a sum.

mod attention;
mod cache;
mod layer;
mod linear;
mod memory;
mod probe;
mod rope;
mod threads;

use alloc::vec::Vec;

use hk_core::Backend;

use self::cache::Cache;
use self::layer::{Buffers, Layer, Stage, norm};
use self::linear::{Kernels, Linear, Scratch};
pub use self::probe::{Part, Probe};
use self::rope::Rope;
pub use self::threads::{Task, Threads};
use crate::error::{Error, Result};
use crate::hyperparameters::Hyperparameters;
use crate::model::{Model, Vector};

/// Tokens of a prompt that go through the model together: each weight is fetched and
/// unpacked once for all of them.
const BATCH: usize = 64;

/// A model and the text it has read so far.
///
/// ```no_run
/// # fn main() -> Result<(), hk_examples::Error> {
/// # let file: &[u8] = &[];
/// use hk_examples::{Engine, Model, Serial, greedy};
///
/// let model = Model::read(&hk_core::Hk::parse(file)?)?;
/// let mut engine = Engine::new(&model, &hk_core::Portable, &Serial)?;
/// engine.read(&[1, 2, 3])?;
/// let next = greedy(engine.logits()?)?;
/// # Ok(())
/// # }
/// ```
pub struct Engine<'m> {
    model: &'m Model<'m>,
    kernels: Kernels<'m>,
    layers: Vec<Layer<'m>>,
    output_norm: Vec<f32>,
    output: Linear<'m>,
    rope: Rope,
    context: usize,
    position: usize,
    caches: Vec<Cache>,
    buffers: Buffers,
    scratch: Scratch,
    /// The state of the last token read.
    last: Vec<f32>,
    logits: Vec<f32>,
}

impl<'m> Engine<'m> {
    /// A model that has read nothing yet, and can read as much as it was made for.
    ///
    /// # Errors
    /// [`Error::Tensor`] naming a matrix of a type without dot products, [`Error::Decode`],
    /// [`Error::Memory`].
    pub fn new(
        model: &'m Model<'m>,
        backend: &'m dyn Backend,
        threads: &'m dyn Threads,
    ) -> Result<Self> {
        let numbers = &model.hyperparameters;
        let layers: Vec<Layer<'m>> = model
            .layers
            .iter()
            .map(|layer| Layer::new(layer, numbers, backend))
            .collect::<Result<_>>()?;
        Ok(Engine {
            model,
            kernels: Kernels { backend, threads, probe: None },
            output_norm: read(&model.output_norm, numbers.width, backend)?,
            output: Linear::new(model.output)?,
            rope: Rope::new(model, backend)?,
            context: numbers.context,
            position: 0,
            caches: layers.iter().map(|_| Cache::new(numbers)).collect(),
            layers,
            buffers: Buffers::default(),
            scratch: Scratch::default(),
            last: Vec::new(),
            logits: Vec::new(),
        })
    }

    /// Lets the text grow to `tokens` at most, or to what the model was made for, if that
    /// is less.
    #[must_use]
    pub fn with_context(mut self, tokens: usize) -> Self {
        self.context = tokens.min(self.model.hyperparameters.context);
        self
    }

    /// Lets `probe` know from now on what the engine is at.
    #[must_use]
    pub fn with_probe(mut self, probe: &'m dyn Probe) -> Self {
        self.kernels.probe = Some(probe);
        self
    }

    /// Most tokens that the text can have.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Number of tokens read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Number of tokens that can still be read before the context is full.
    pub fn room(&self) -> usize {
        self.context.saturating_sub(self.position)
    }

    /// Bytes that the keys and values of the text so far take.
    pub fn cache_bytes(&self) -> usize {
        self.caches.iter().map(Cache::bytes).sum()
    }

    /// Goes back to the first `position` tokens of the text. What may follow them is known
    /// once another token has been read.
    pub fn rewind(&mut self, position: usize) {
        if position < self.position {
            self.position = position;
            self.last.clear();
        }
    }

    /// Reads the next token of the text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn push(&mut self, token: u32) -> Result<()> {
        self.read(&[token])
    }

    /// Reads the next tokens of the text.
    ///
    /// # Errors
    /// [`Error::ContextFull`], [`Error::Token`]: nothing has been read then.
    /// [`Error::Memory`] and [`Error::Decode`]: a part may have been read, up to
    /// [`position`](Self::position).
    pub fn read(&mut self, tokens: &[u32]) -> Result<()> {
        self.check(tokens)?;
        tokens.chunks(BATCH).try_for_each(|batch| self.forward(batch))
    }

    /// Reads the next tokens of the text and gives the logits after each to `each`, for
    /// those who want to know how well the text fits the model.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_each(&mut self, tokens: &[u32], mut each: impl FnMut(&[f32])) -> Result<()> {
        self.check(tokens)?;
        let width = self.model.hyperparameters.width;
        for batch in tokens.chunks(BATCH) {
            self.forward(batch)?;
            for token in 0..batch.len() {
                self.last.copy_from_slice(&self.buffers.x[token * width..][..width]);
                each(self.logits()?);
            }
        }
        Ok(())
    }

    fn check(&self, tokens: &[u32]) -> Result<()> {
        let vocabulary = self.model.vocabulary();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(Error::Token { token, vocabulary });
        }
        if tokens.len() > self.room() {
            return Err(Error::ContextFull(self.context));
        }
        Ok(())
    }

    /// Takes up to [`BATCH`] tokens through the model.
    fn forward(&mut self, tokens: &[u32]) -> Result<()> {
        self.kernels.enter(Part::Rest);
        let numbers = &self.model.hyperparameters;
        let (start, width) = (self.position, numbers.width);
        for cache in &mut self.caches {
            cache.grow(start + tokens.len())?;
        }
        self.buffers.make_room(numbers, tokens.len(), self.rope.pairs())?;
        memory::resize(&mut self.last, width)?;
        let rows = self.buffers.x.chunks_exact_mut(width);
        for (&token, x) in tokens.iter().zip(rows) {
            self.model.token_embd.read(self.kernels.backend, token as usize, 0, x)?;
        }
        if self.rope.pairs() > 0 {
            let rotations = self.buffers.rotations.chunks_exact_mut(self.rope.pairs());
            for (position, rotation) in (start..).zip(rotations) {
                self.rope.turn_to(position, rotation);
            }
        }
        let mut stage = Stage {
            kernels: &self.kernels,
            numbers,
            rope: &self.rope,
            start,
            buffers: &mut self.buffers,
            scratch: &mut self.scratch,
        };
        for (layer, cache) in self.layers.iter().zip(&mut self.caches) {
            stage.attend(layer, cache)?;
            stage.feed_forward(layer)?;
        }
        let last = self.buffers.x.chunks_exact(width).next_back();
        self.last.copy_from_slice(last.unwrap_or_default());
        self.position += tokens.len();
        Ok(())
    }

    /// The logits of what may follow the text read so far, one a token of the vocabulary.
    ///
    /// # Errors
    /// [`Error::NoToken`] before the first token, and after going back;
    /// [`Error::Decode`], [`Error::Memory`].
    pub fn logits(&mut self) -> Result<&[f32]> {
        if self.position == 0 || self.last.is_empty() {
            return Err(Error::NoToken);
        }
        let Hyperparameters { width, epsilon, .. } = self.model.hyperparameters;
        memory::resize(&mut self.logits, self.output.rows())?;
        let normed = &mut self.buffers.normed;
        memory::resize(normed, width)?;
        let backend = self.kernels.backend;
        self.kernels.enter(Part::Norms);
        norm(backend, &self.last, &self.output_norm, epsilon, normed);
        let (scratch, logits) = (&mut self.scratch, &mut self.logits);
        self.kernels.multiply(&[&self.output], normed, width, scratch, logits)?;
        Ok(&self.logits)
    }
}

/// The numbers of a vector in the file.
fn read(vector: &Vector<'_>, len: usize, backend: &dyn Backend) -> Result<Vec<f32>> {
    let mut numbers = memory::zeros(len)?;
    vector.read(backend, &mut numbers)?;
    Ok(numbers)
}
