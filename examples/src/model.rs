//! A Llama model's tensors, found by name and checked.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hk_core::{Backend, Hk, Portable, Residual, Tensor};

use crate::error::{Error, Result};
use crate::hyperparameters::Hyperparameters;

/// A Llama model in an HK file: hyperparameters, and tensors that are used where they
/// stand in the file, in the type they are stored in.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    /// The numbers that say how the tensors work together.
    pub hyperparameters: Hyperparameters,
    /// A row for each token: its first state.
    pub token_embd: Matrix<'a>,
    /// The layers in order.
    pub layers: Vec<Layer<'a>>,
    /// The norm before the output.
    pub output_norm: Norm<'a>,
    /// A row for each token: its logit. The embedding itself where the file has no other.
    pub output: Matrix<'a>,
}

/// The tensors of one layer, under their names in the file.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are those of the tensors
pub struct Layer<'a> {
    pub attn_norm: Norm<'a>,
    pub attn_q: Matrix<'a>,
    pub attn_k: Matrix<'a>,
    pub attn_v: Matrix<'a>,
    pub attn_output: Matrix<'a>,
    pub ffn_norm: Norm<'a>,
    pub ffn_gate: Matrix<'a>,
    pub ffn_up: Matrix<'a>,
    pub ffn_down: Matrix<'a>,
}

impl<'a> Model<'a> {
    /// Finds the model's tensors in a file and checks their shapes, types and payload
    /// sizes. No weight is read.
    ///
    /// # Errors
    /// As [`Hyperparameters::read`]; a tensor that is missing, has another shape than the
    /// hyperparameters say, is stored as something that cannot be read row by row, or has
    /// too few bytes; a tensor that no plain Llama model has.
    pub fn read(hk: &Hk<'a>) -> Result<Self> {
        let hyperparameters = Hyperparameters::read(&hk.metadata())?;
        let mut tensors = Tensors::of(hk);
        let width = hyperparameters.width;
        let vocabulary = tensors.vocabulary(hk);
        let token_embd = tensors.matrix("token_embd.weight", vocabulary, width)?;
        // Layer by layer: a false count ends at the first layer that is not there.
        let layers = (0..hyperparameters.layers)
            .map(|i| Layer::read(&mut tensors, i, &hyperparameters))
            .collect::<Result<_>>()?;
        let output_norm = tensors.norm("output_norm.weight", width)?;
        let output = match tensors.matrix("output.weight", vocabulary, width) {
            Err(Error::MissingTensor(_)) => token_embd,
            found => found?,
        };
        tensors.refuse_rest()?;
        Ok(Model { hyperparameters, token_embd, layers, output_norm, output })
    }

    /// Number of tokens that the model knows.
    pub const fn vocabulary(&self) -> usize {
        self.token_embd.rows
    }
}

impl<'a> Layer<'a> {
    fn read(tensors: &mut Tensors<'a>, i: usize, numbers: &Hyperparameters) -> Result<Self> {
        let &Hyperparameters { width, feed_forward, heads, kv_heads, head_len, .. } = numbers;
        let name = |tensor| format!("blk.{i}.{tensor}.weight");
        let mut matrix = |tensor, rows, columns| tensors.matrix(&name(tensor), rows, columns);
        // Counts are under 2^31, so these products saturate on 32-bit hosts only, and fit
        // no shape then.
        let queries = heads.saturating_mul(head_len);
        let keys = kv_heads.saturating_mul(head_len);
        Ok(Layer {
            attn_q: matrix("attn_q", queries, width)?,
            attn_k: matrix("attn_k", keys, width)?,
            attn_v: matrix("attn_v", keys, width)?,
            attn_output: matrix("attn_output", width, queries)?,
            ffn_gate: matrix("ffn_gate", feed_forward, width)?,
            ffn_up: matrix("ffn_up", feed_forward, width)?,
            ffn_down: matrix("ffn_down", width, feed_forward)?,
            attn_norm: tensors.norm(&name("attn_norm"), width)?,
            ffn_norm: tensors.norm(&name("ffn_norm"), width)?,
        })
    }
}

/// A weight matrix in the file: `rows` rows of `columns` weights.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    tensor: Tensor<'a>,
    rows: usize,
    columns: usize,
}

impl Matrix<'_> {
    /// Number of rows, the length of a product's result.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Weights a row, the length of what it is multiplied with.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// Decodes the weights of `row` from `column` on, as many as `out` takes.
    ///
    /// # Errors
    /// [`Error::Decode`] naming the tensor, also when the row ends before `out` does.
    pub fn read(
        &self,
        backend: &dyn Backend,
        row: usize,
        column: usize,
        out: &mut [f32],
    ) -> Result<()> {
        let start = row as u64 * self.columns as u64 + column as u64;
        read(&self.tensor, backend, start, out)
    }
}

/// The weights of a norm.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    tensor: Tensor<'a>,
}

impl Norm<'_> {
    /// Decodes the weights, as many as the state of a token has numbers.
    ///
    /// # Errors
    /// [`Error::Decode`] naming the tensor.
    pub fn read(&self, backend: &dyn Backend, out: &mut [f32]) -> Result<()> {
        read(&self.tensor, backend, 0, out)
    }
}

fn read(tensor: &Tensor<'_>, backend: &dyn Backend, start: u64, out: &mut [f32]) -> Result<()> {
    let range = start..start.saturating_add(out.len() as u64);
    tensor
        .dequantize_range(backend, range, out, Residual::Add)
        .map_err(|source| Error::Decode { name: tensor.name.into(), source })
}

/// The tensors of a file that have not been asked for yet.
struct Tensors<'a> {
    by_name: BTreeMap<&'a str, Tensor<'a>>,
}

impl<'a> Tensors<'a> {
    fn of(hk: &Hk<'a>) -> Self {
        let mut by_name = BTreeMap::new();
        for tensor in hk.tensors() {
            // Of two equal names, the first.
            by_name.entry(tensor.entry().name).or_insert(tensor);
        }
        Tensors { by_name }
    }

    /// Number of tokens: what the tokenizer has, else the rows of the embedding.
    fn vocabulary(&self, hk: &Hk<'a>) -> usize {
        let tokens = hk.metadata().get("tokenizer.ggml.tokens").and_then(|v| v.array().ok());
        let rows = || self.by_name.get("token_embd.weight").and_then(|t| t.shape.first().copied());
        match tokens {
            Some(tokens) => tokens.len(),
            None => rows().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0),
        }
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Matrix<'a>> {
        let tensor = self.take(name, &[rows as u64, columns as u64])?;
        Ok(Matrix { tensor, rows, columns })
    }

    fn norm(&mut self, name: &str, len: usize) -> Result<Norm<'a>> {
        Ok(Norm { tensor: self.take(name, &[len as u64])? })
    }

    /// The tensor `name`, which must have `shape` and be such that each weight can be
    /// read.
    fn take(&mut self, name: &str, shape: &[u64]) -> Result<Tensor<'a>> {
        let missing = || Error::MissingTensor(name.into());
        let tensor = self.by_name.remove(name).ok_or_else(missing)?;
        let failed = |source| Error::Decode { name: name.into(), source };
        let tensor = tensor.resolve().map_err(failed)?;
        if *tensor.shape != *shape {
            let problem = format!("its shape is {:?}, the model needs {shape:?}", &*tensor.shape);
            return Err(Error::tensor(name, problem));
        }
        // Dense and block types only: there a shape is backed by bytes, so that memory is
        // asked for by what the file holds and not by what it claims.
        if tensor.storage.geometry().is_none() {
            let problem = format!(
                "it is stored as {}, which is not read row by row: store it as a dense or block type",
                tensor.storage
            );
            return Err(Error::tensor(name, problem));
        }
        // Reading nothing checks everything else.
        tensor.dequantize_range(&Portable, 0..0, &mut [], Residual::Add).map_err(failed)?;
        Ok(tensor)
    }

    /// Nothing may be left: a tensor that is not used would be missed in every number.
    fn refuse_rest(&self) -> Result<()> {
        let Some(name) = self.by_name.keys().next() else { return Ok(()) };
        let problem = "a plain Llama model has none of this name, and without it the text would be garbage: this kind of model is not known here";
        Err(Error::tensor(name, String::from(problem)))
    }
}
