//! A Llama model's tensors, found by name and checked.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use hk_core::decode::Form;
use hk_core::dot::ActivationForm;
use hk_core::{
    Array, Backend, Hk, Portable, Residual, SparsityType, StorageType, Tensor, TensorEntry,
    TileLayout,
};

use crate::error::{Error, Result};
use crate::hyperparameters::{Architecture, Hyperparameters};

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
    pub output_norm: Vector<'a>,
    /// A row for each token: its logit. The embedding itself where the file has no other.
    pub output: Matrix<'a>,
    /// What the frequency of each pair of a head is divided by: Llama 3's scaling.
    pub rope_freqs: Option<Vector<'a>>,
}

/// The tensors of one layer, under their names in the file.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names are those of the tensors
pub struct Layer<'a> {
    pub attn_norm: Vector<'a>,
    pub attn_q: Matrix<'a>,
    pub attn_k: Matrix<'a>,
    pub attn_v: Matrix<'a>,
    pub attn_q_bias: Option<Vector<'a>>,
    pub attn_k_bias: Option<Vector<'a>>,
    pub attn_v_bias: Option<Vector<'a>>,
    pub attn_q_norm: Option<Vector<'a>>,
    pub attn_k_norm: Option<Vector<'a>>,
    pub attn_output: Matrix<'a>,
    pub ffn_norm: Vector<'a>,
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
    /// too few bytes; a tensor that no such model has.
    pub fn read(hk: &Hk<'a>) -> Result<Self> {
        let hyperparameters = Hyperparameters::read(&hk.metadata())?;
        let mut tensors = Tensors::of(hk);
        let width = hyperparameters.width;
        let vocabulary = tensors.vocabulary(hk)?;
        let token_embd = tensors.matrix("token_embd.weight", vocabulary, width)?;
        // Layer by layer: a false count ends at the first layer that is not there.
        let layers = (0..hyperparameters.layers)
            .map(|i| Layer::read(&mut tensors, i, &hyperparameters))
            .collect::<Result<_>>()?;
        let output_norm = tensors.vector("output_norm.weight", width)?;
        let output = match tensors.matrix("output.weight", vocabulary, width) {
            Err(Error::MissingTensor(_)) => token_embd,
            found => found?,
        };
        let rope_freqs = match hyperparameters.architecture {
            Architecture::Llama => {
                tensors.optional("rope_freqs.weight", hyperparameters.rope_len / 2)?
            }
            _ => None,
        };
        tensors.refuse_rest()?;
        Ok(Model { hyperparameters, token_embd, layers, output_norm, output, rope_freqs })
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
        // Counts are under 2^31, so these products saturate on 32-bit hosts only, and fit
        // no shape then.
        let queries = heads.saturating_mul(head_len);
        let keys = kv_heads.saturating_mul(head_len);
        let [q_bias, k_bias, v_bias] =
            [("q", queries), ("k", keys), ("v", keys)].map(|(part, len)| -> Result<_> {
                let name = format!("blk.{i}.attn_{part}.bias");
                match numbers.architecture {
                    Architecture::Llama => tensors.optional(&name, len),
                    Architecture::Qwen2 => tensors.vector(&name, len).map(Some),
                    Architecture::Qwen3 => Ok(None),
                }
            });
        let [q_norm, k_norm] = ["q", "k"].map(|part| match numbers.architecture {
            Architecture::Qwen3 => {
                tensors.vector(&format!("blk.{i}.attn_{part}_norm.weight"), head_len).map(Some)
            }
            _ => Ok(None),
        });
        let mut matrix = |tensor, rows, columns| tensors.matrix(&name(tensor), rows, columns);
        Ok(Layer {
            attn_q: matrix("attn_q", queries, width)?,
            attn_k: matrix("attn_k", keys, width)?,
            attn_v: matrix("attn_v", keys, width)?,
            attn_output: matrix("attn_output", width, queries)?,
            ffn_gate: matrix("ffn_gate", feed_forward, width)?,
            ffn_up: matrix("ffn_up", feed_forward, width)?,
            ffn_down: matrix("ffn_down", width, feed_forward)?,
            attn_norm: tensors.vector(&name("attn_norm"), width)?,
            ffn_norm: tensors.vector(&name("ffn_norm"), width)?,
            attn_q_bias: q_bias?,
            attn_k_bias: k_bias?,
            attn_v_bias: v_bias?,
            attn_q_norm: q_norm?,
            attn_k_norm: k_norm?,
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

impl<'a> Matrix<'a> {
    /// Number of rows, the length of a product's result.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Weights a row, the length of what it is multiplied with.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// How the weights are stored.
    pub fn storage(&self) -> StorageType {
        self.tensor.storage
    }

    /// The name in the file.
    pub fn name(&self) -> &'a str {
        self.tensor.name
    }

    /// Bytes of a row as it is stored, whose blocks follow one another and end with it.
    ///
    /// # Errors
    /// [`Error::Tensor`] naming a tensor whose stored rows no dot product can be taken of:
    /// a type without one, rows that are no whole number of blocks, or weights that are
    /// spread over several payloads or out of order.
    pub fn row_bytes(&self) -> Result<usize> {
        let TensorEntry { storage, tile, sparsity, .. } = *self.tensor.entry();
        let refuse = |problem: String| Err(Error::tensor(self.tensor.name, problem));
        let (Some(form), Some(geometry)) = (ActivationForm::of(storage), storage.geometry()) else {
            return refuse(format!(
                "there is no dot product for {storage} weights: convert the model to another type"
            ));
        };
        let (weights, bytes) = (geometry.weights as usize, geometry.bytes as usize);
        if !self.columns.is_multiple_of(weights) || !self.columns.is_multiple_of(form.block()) {
            return refuse(format!(
                "rows of {} weights are no whole number of {storage} blocks",
                self.columns
            ));
        }
        let plain = matches!(sparsity, SparsityType::NONE | SparsityType::PHYSICAL_PRUNED);
        let alone = self.tensor.residual().is_empty() && self.tensor.scales().is_empty();
        if !plain || !alone || tile != TileLayout::ROW_MAJOR {
            return refuse("its rows are not stored one after another, each in one piece: store it as plain rows".into());
        }
        // The payload has been compared with the shape, so that this many bytes are there.
        Ok(self.columns / weights * bytes)
    }

    /// The stored rows from `first` on, each of `row_bytes`.
    pub(crate) fn rows_from(&self, first: usize, row_bytes: usize) -> &'a [u8] {
        first.checked_mul(row_bytes).and_then(|at| self.tensor.data().get(at..)).unwrap_or_default()
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

/// The weights of a norm, a bias, or other numbers in a row.
#[derive(Clone, Copy, Debug)]
pub struct Vector<'a> {
    tensor: Tensor<'a>,
}

impl Vector<'_> {
    /// Decodes the numbers, as many as `out` takes.
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
    fn vocabulary(&self, hk: &Hk<'a>) -> Result<usize> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        match hk.metadata().get(TOKENS).and_then(|value| value.array().ok()) {
            Some(Array::Strings(tokens)) if tokens.is_empty() => {
                Err(Error::key(TOKENS, "there are no tokens in it: convert the model again"))
            }
            Some(Array::Strings(tokens)) => Ok(tokens.len()),
            // The tokenizer has more to say on what else may stand there.
            _ => {
                let rows = self.by_name.get("token_embd.weight");
                let rows = rows.and_then(|tensor| tensor.shape.first().copied());
                Ok(rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0))
            }
        }
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Matrix<'a>> {
        let tensor = self.take(name, &[rows as u64, columns as u64])?;
        Ok(Matrix { tensor, rows, columns })
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Vector<'a>> {
        Ok(Vector { tensor: self.take(name, &[len as u64])? })
    }

    fn optional(&mut self, name: &str, len: usize) -> Result<Option<Vector<'a>>> {
        if self.by_name.contains_key(name) { self.vector(name, len).map(Some) } else { Ok(None) }
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
        // Of these a payload can be far smaller than its shape says, and memory is asked for by
        // what the file holds, not by what it claims.
        if let Form::Zeros | Form::CompressedRows = tensor.form().map_err(failed)? {
            let problem = format!(
                "as {} it is stored with any number of zeros left out: store it as a dense or block type",
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
        let problem = "no model of this architecture that is known here has one of this name, and without it the text would be garbage";
        Err(Error::tensor(name, String::from(problem)))
    }
}
