//! A model written anew with some of its tensors stored in another way: quantized, pruned,
//! packed, tiled.
//!
//! [`rewrite`] asks for each tensor what shall become of it, and copies the rest byte for
//! byte: metadata, order, tensors of types that nobody here knows. A tied tensor stays tied to
//! its target, whatever becomes of that. Weights are decoded, encoded and written in spans, on
//! all cores, so that memory does not depend on the size of the model.
//!
//! What stands behind the weights in the old file is of the old weights and does not come
//! along: records of the appendix, and the seal. [`Summary`] says how many there were.

mod layouts;
mod pieces;
mod reader;
mod source;
mod target;
mod total;

use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use hk_core::build::TensorSpec;
use hk_core::{Backend, Part, Span, StorageType, Tensor};

use crate::error::{Error, Result};
use crate::model::ModelFile;
use crate::replace::check_output;
use crate::writer::{Progress, Writer};

pub use target::{Leftover, Target, fallback};
pub use total::{Totals, TypeTotal};

use source::Source;

/// What a rewrite did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Bytes of all payloads of the old file, those of tied tensors once.
    pub bytes_before: u64,
    /// Bytes of all payloads of the new file.
    pub bytes_after: u64,
    /// Weights of all tensors but references.
    pub weights: u64,
    /// Length of the new file.
    pub file_len: u64,
    /// Tensors that were encoded anew.
    pub changed: u64,
    /// What became of the tensors, by their new storage type.
    pub totals: Totals,
    /// Records of the appendix that did not come along.
    pub records: u64,
    /// Whether the old file was sealed, which the new one is not.
    pub was_sealed: bool,
}

/// Writes the model `input` to `output`, each tensor as `choose` says: `None` copies it.
/// References are not asked for.
///
/// ```
/// use hk_std::hk_core::StorageType;
/// use hk_std::rewrite::{Options, Target, rewrite};
/// use hk_std::{ModelFile, backend};
/// # fn main() -> hk_std::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/reference/ref_128.hk");
/// # let folder = tempfile::tempdir().unwrap();
/// # let output = folder.path().join("small.hk");
/// let model = ModelFile::open(path)?;
/// let options = Options::new(backend()?);
/// let go_on = |_| std::ops::ControlFlow::Continue(());
/// let summary = rewrite(&model, &output, options, |tensor| {
///     let row = tensor.shape.last().copied().unwrap_or(0);
///     let is_matrix = tensor.storage == StorageType::F32 && row > 0 && row % 32 == 0;
///     Ok(is_matrix.then_some(Target::Blocks(StorageType::Q8_0)))
/// }, go_on)?;
/// assert!(summary.bytes_after <= summary.bytes_before);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A tensor that cannot be decoded or stored as its target, a file that repeats a metadata key
/// or a tensor name, `output` is `input`, or exists and may not be replaced, `progress` says to
/// stop, or the system refuses something. `output` is then as it was.
pub fn rewrite<'m>(
    input: &'m ModelFile,
    output: &Path,
    options: Options<'m>,
    mut choose: impl FnMut(&Tensor<'m>) -> Result<Option<Target>>,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Summary> {
    let Options { overwrite, metadata_room, backend } = options;
    check_output(input.path(), output, overwrite)?;
    let mut writer = head(input)?;
    writer.metadata_room(metadata_room);
    let mut summary = Summary {
        records: input.hk().appendix().count() as u64,
        was_sealed: input.header().flags.contains(hk_core::Flags::SEALED),
        ..Summary::default()
    };
    let mut plans = HashMap::new();
    // What a tied tensor can be tied to: the first tensor with its bytes.
    // How long the new file becomes is known only when all tensors have been looked at, some of
    // them through all their weights.
    let total = input.hk().bytes().len() as u64;
    let mut targets: HashMap<Span, &str> = HashMap::new();
    for tensor in input.tensors() {
        if tensor.storage == StorageType::SHARED_REF {
            let target = targets.get(&tensor.data).ok_or_else(|| dangling(input, &tensor))?;
            writer.shared(tensor.name, target, &tensor.shape)?;
            continue;
        }
        targets.entry(tensor.data).or_insert(tensor.name);
        if progress(Progress { done: 0, total }).is_break() {
            return Err(Error::Stopped);
        }
        let target = if tensor.storage.is_reference() { None } else { choose(&tensor)? };
        let spec = match &target {
            None => copied(&tensor),
            Some(target) => {
                summary.changed += 1;
                Source { input, backend, tensor }.spec(target)?
            }
        };
        summary.bytes_before += tensor.data.size + tensor.scales.size + tensor.residual.size;
        summary.bytes_after += spec.data_size + spec.scales_size + spec.residual_size;
        if !tensor.storage.is_reference() {
            summary.weights += tensor.shape.count();
            summary.totals.add(&spec, tensor.shape.count(), target.is_some());
        }
        // Tensors may lie over each other, but not so that a small file becomes a huge one.
        if summary.bytes_before > total.saturating_mul(4) {
            return Err(Error::Invalid(format!(
                "{}: its tensors overlap many times over: `hk verify` says where",
                input.path().display()
            )));
        }
        writer.tensor(spec)?;
        plans.insert(tensor.name, (tensor, target));
    }
    let totals = std::cell::RefCell::new(std::mem::take(&mut summary.totals));
    let payload = |spec: &TensorSpec, part: Part| -> io::Result<Box<dyn Read + '_>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let (tensor, target) = plans.get(spec.name.as_str()).ok_or_else(missing)?;
        match target {
            None => Ok(Box::new(match part {
                Part::Data => tensor.data(),
                Part::Scales => tensor.scales(),
                Part::Residual => tensor.residual(),
            })),
            Some(target) => {
                let source = Source { input, backend, tensor: *tensor };
                source.reader(target, spec, part, &totals).map_err(io::Error::other)
            }
        }
    };
    summary.file_len = writer.write_with_progress(output, payload, progress)?;
    summary.totals = totals.into_inner();
    Ok(summary)
}

/// How to rewrite.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether an existing output may be replaced.
    pub overwrite: bool,
    /// Bytes that are left unused in front of the first payload, for metadata to grow.
    pub metadata_room: u64,
    /// What decodes and encodes.
    pub backend: &'a dyn Backend,
}

impl<'a> Options<'a> {
    /// The room of [`Writer::METADATA_ROOM`], and nothing is replaced.
    pub fn new(backend: &'a dyn Backend) -> Self {
        Options { overwrite: false, metadata_room: Writer::METADATA_ROOM, backend }
    }
}

/// A writer with all that stands before the tensors.
fn head(input: &ModelFile) -> Result<Writer> {
    let mut writer = Writer::new();
    let header = input.header();
    writer.alignment(header.payload_alignment())?;
    if header.split_count > 1 {
        writer.shard(header.split_index, header.split_count)?;
    }
    for entry in input.metadata() {
        writer.metadata(entry.key, entry.value)?;
    }
    Ok(writer)
}

fn dangling(input: &ModelFile, tensor: &Tensor<'_>) -> Error {
    let source = hk_core::Error::call(hk_core::ErrorKind::DanglingReference);
    Error::format(input.path(), Some(tensor.name), source.at_index(tensor.index))
}

/// A tensor as it is.
fn copied(tensor: &Tensor<'_>) -> TensorSpec {
    TensorSpec {
        tile: tensor.tile,
        sparsity: tensor.sparsity,
        data_size: tensor.data.size,
        scales_size: tensor.scales.size,
        residual_size: tensor.residual.size,
        block_size: tensor.block_size,
        sparsity_ratio: tensor.sparsity_ratio,
        ..TensorSpec::new(tensor.name, tensor.storage, &tensor.shape)
    }
}
