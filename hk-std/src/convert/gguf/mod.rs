//! GGUF to HK (payloads.md, "GGUF" and "Metadata").
//!
//! [`convert`] reads the head of a GGUF file (metadata and tensor table) through a small
//! window, checks every number in it against the file, and then streams each tensor's
//! bytes as they are into an HK file. It holds one metadata value and one window of payload
//! at a time beside the head of the HK file, whatever the size of the model.
//!
//! # Metadata
//! Integers become `int64`, floats `float64`, strings and bools stay; arrays become packed
//! arrays in `bytes` values (strings, f32, and integers and bools that all fit i32), or
//! else `json`, with NaN and infinities as the strings `"NaN"`, `"Infinity"`,
//! `"-Infinity"`.
//!
//! # The way back
//! The converted file's last metadata pair, [`TYPES_KEY`] (`json`), is an object. It maps
//! each key whose GGUF type is not [implied](GgufType::implied) by its HK value to that
//! type, in the form of [`GgufType`]:
//!
//! ```json
//! {"split.count": "UINT16", "general.flags": ["ARRAY", "BOOL"], "x.y": ["ARRAY", ["ARRAY", "UINT8"]]}
//! ```
//!
//! A value kept as `json` always has its type there. The object is empty when all types are
//! implied. Floats in `json` values are written as f64, in the shortest form that reads back
//! as the same f64 (serde_json needs its feature `float_roundtrip` for that); a NaN there
//! loses its payload.

mod head;
mod source;
mod tensors;
mod types;
mod values;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use hk_core::build::TensorSpec;

use crate::error::{Error, Result};
use crate::replace::check_output;
use crate::writer::{Progress, Writer};
use head::read_head;
use source::Source;
use tensors::Tensor;

pub use types::{GgufType, TYPES_KEY, ValueType, narrow};

/// How to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Alignment of the HK file's payloads in bytes, 1 to 65536.
    pub alignment: u32,
    /// Bytes that are left unused in front of the first payload, for metadata to grow.
    pub metadata_room: u64,
    /// Whether an existing output may be replaced.
    pub overwrite: bool,
}

impl Default for Options {
    /// 128 bytes, the room of [`Writer::METADATA_ROOM`], and nothing is replaced.
    fn default() -> Self {
        Options { alignment: 128, metadata_room: Writer::METADATA_ROOM, overwrite: false }
    }
}

/// What a conversion wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of metadata pairs, [`TYPES_KEY`] included.
    pub metadata: u64,
    /// Length of the HK file in bytes.
    pub file_len: u64,
    /// Number of files that the model is split over, 1 for a whole one (`split.count`).
    pub split_count: u64,
}

/// Converts the GGUF file `input` to the HK file `output`, and tells `progress` how far it
/// has come; it says whether to go on.
///
/// # Errors
/// `input` is no sound GGUF file of version 2 or 3, or it holds what HK has no form for:
/// the text says what, where, and what to do. `output` is `input`, or exists and may not be
/// replaced, `progress` says to stop, or the system refuses something. `output` is then as
/// it was.
///
/// ```
/// use hk_std::convert::gguf::{Options, convert};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (input, output) = (folder.path().join("tiny.gguf"), folder.path().join("tiny.hk"));
/// // The smallest GGUF file: magic, version 3, no tensors, no metadata.
/// std::fs::write(&input, b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")?;
/// let go_on = |_| std::ops::ControlFlow::Continue(());
/// let summary = convert(&input, &output, Options::default(), go_on)?;
/// assert_eq!((summary.tensors, summary.metadata), (0, 1));
/// # Ok(())
/// # }
/// ```
pub fn convert(
    input: &Path,
    output: &Path,
    options: Options,
    progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Summary> {
    let file = open(input)?;
    check_output(input, output, options.overwrite)?;
    let mut writer = Writer::new();
    writer.alignment(options.alignment)?.metadata_room(options.metadata_room);
    let plan = plan(&file, input, &mut writer)?;
    let payload = |spec: &TensorSpec, _part| {
        let offset = plan.offsets.get(&spec.name).ok_or(ErrorKind::NotFound)?;
        (&file).seek(SeekFrom::Start(*offset))?;
        Ok((&file).take(spec.data_size))
    };
    let file_len = writer.write_with_progress(output, payload, progress)?;
    Ok(Summary {
        tensors: plan.offsets.len() as u64,
        metadata: plan.metadata,
        file_len,
        split_count: plan.split_count,
    })
}

/// Opens a regular file: only that can be sought in.
fn open(path: &Path) -> Result<File> {
    let failed = |e| Error::io("open", path, e);
    // Asked first, since opening a pipe waits for its other end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::Invalid(format!(
            "{}: not a regular file; a GGUF file is read here and there, so store it as one",
            path.display()
        )));
    }
    File::open(path).map_err(failed)
}

/// The tensors of `file`, the GGUF file at `path`, and where their bytes stand.
pub(crate) fn tensors(file: &File, path: &Path) -> Result<Vec<(TensorSpec, u64)>> {
    let mut source = Source::new(file).map_err(|e| Error::io("read", path, e))?;
    let head = read_head(&mut source, |_, _| Ok(())).map_err(|fault| fault.in_file(path))?;
    Ok(head.tensors.into_iter().map(|tensor| (tensor.spec, tensor.offset)).collect())
}

/// What is to be copied.
struct Plan {
    /// Where each tensor's bytes stand in the GGUF file.
    offsets: HashMap<String, u64>,
    /// Number of metadata pairs.
    metadata: u64,
    split_count: u64,
}

/// Reads the head of `file`, the GGUF file at `path`, and tells `writer` all of it.
fn plan(file: &File, path: &Path, writer: &mut Writer) -> Result<Plan> {
    let mut source = Source::new(file).map_err(|e| Error::io("read", path, e))?;
    let mut metadata = 0;
    let head = read_head(&mut source, |key, value| {
        metadata += 1;
        writer.metadata(key, value).map(drop).map_err(|e| e.to_string())
    })
    .map_err(|fault| fault.in_file(path))?;
    let mut offsets = HashMap::with_capacity(head.tensors.len());
    for Tensor { spec, offset, .. } in head.tensors {
        offsets.insert(spec.name.clone(), offset);
        writer.tensor(spec)?;
    }
    Ok(Plan { offsets, metadata, split_count: head.split_count })
}
