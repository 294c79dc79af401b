//! Writing HK files.

mod sink;

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use hk_core::build::{BuildError, FileBuilder, TensorSpec};
use hk_core::{Part, Value};

use crate::error::{Error, Result};
use crate::replace::Replacement;
use sink::Sink;

/// How far a write has come, in bytes of the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written so far.
    pub done: u64,
    /// Length of the whole file.
    pub total: u64,
}

/// Plans a file (metadata and tensors), then streams its payloads: memory does not depend
/// on their size.
///
/// ```
/// use hk_std::hk_core::{StorageType, Value};
/// use hk_std::{ModelFile, TensorSpec, Writer};
/// # fn main() -> hk_std::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("tiny.hk");
/// let mut writer = Writer::new();
/// writer.alignment(4096)?.metadata("general.name", Value::String("tiny"))?;
/// writer.tensor(TensorSpec::new("w", StorageType::F32, &[2]))?;
/// writer.shared("w.tied", "w", &[2, 1])?;
/// writer.write(&path, |tensor, _part| {
///     assert_eq!(tensor.name, "w"); // asked only for what stores bytes of its own
///     Ok(&[0, 0, 128, 63, 0, 0, 0, 64][..]) // 1.0 and 2.0
/// })?;
/// assert_eq!(ModelFile::open(&path)?.tensor("w.tied").unwrap().data().len(), 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    file: FileBuilder,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// Bytes that are left unused in front of the first payload, unless
    /// [`metadata_room`](Self::metadata_room) says otherwise: people edit chat templates after
    /// the fact.
    pub const METADATA_ROOM: u64 = 16 << 10;

    /// A file with nothing in it, aligned to 128 bytes.
    pub fn new() -> Self {
        let mut file = FileBuilder::new();
        file.metadata_room(Self::METADATA_ROOM);
        Writer { file }
    }

    /// Leaves at least `bytes` bytes unused in front of the first payload, so that metadata can
    /// grow there ([`mod@crate::edit`]). A file without payloads needs none, and has none.
    pub fn metadata_room(&mut self, bytes: u64) -> &mut Self {
        self.file.metadata_room(bytes);
        self
    }

    /// Aligns payloads to `alignment` bytes, any number from 1 to 65536.
    ///
    /// # Errors
    /// Another number.
    pub fn alignment(&mut self, alignment: u32) -> Result<&mut Self> {
        self.file.alignment(alignment).map_err(|e| Error::Invalid(e.to_string()))?;
        Ok(self)
    }

    /// Makes the file shard `index`, counted from 0, of `count`.
    ///
    /// # Errors
    /// An index that is not below the count.
    pub fn shard(&mut self, index: u16, count: u16) -> Result<&mut Self> {
        self.file.shard(index, count).map_err(|e| Error::Invalid(e.to_string()))?;
        Ok(self)
    }

    /// Adds a metadata pair; its bytes are copied. [`hk_core::build`] packs arrays.
    ///
    /// # Errors
    /// A key that is there already, or a key or value that is too long.
    pub fn metadata(&mut self, key: &str, value: Value<'_>) -> Result<&mut Self> {
        let fault = |e: BuildError| Error::Invalid(format!("metadata {}: {e}", short(key)));
        self.file.metadata(key, value).map_err(fault)?;
        Ok(self)
    }

    /// Adds a tensor whose bytes come later. A `null_ref` stores none: leave its sizes 0.
    ///
    /// # Errors
    /// A name that is there already or over 128 bytes, more than 8 dimensions, a payload
    /// size that does not fit type and shape, a `shared_ref` (which [`shared`](Self::shared)
    /// adds).
    pub fn tensor(&mut self, spec: TensorSpec) -> Result<&mut Self> {
        let name = short(&spec.name);
        self.file.tensor(spec).map_err(|e| in_tensor(&name, e))?;
        Ok(self)
    }

    /// Adds a `shared_ref`: another name and shape for the bytes of `target`, which is an
    /// earlier tensor, no reference, of as many elements.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and a target that is none.
    pub fn shared(&mut self, name: &str, target: &str, shape: &[u64]) -> Result<&mut Self> {
        self.file
            .shared(name, target, shape)
            .map_err(|e| Error::Invalid(format!("tensor {} -> {target:?}: {e}", short(name))))?;
        Ok(self)
    }

    /// What is planned so far.
    pub const fn builder(&self) -> &FileBuilder {
        &self.file
    }

    /// Writes the file, and gives its length: asks `payload` for a reader of the bytes of
    /// each tensor and part in file order (data, scales, residual; only those of a size
    /// over 0), which must end exactly after them. `payload` gives a [`std::io::Result`]: a
    /// [`File`](std::fs::File) sought to the place, a slice, or any other reader.
    ///
    /// The bytes go to a temporary file beside `path`, which is synced and then renamed to
    /// `path`: at any time, and after any error, either the old file or the whole new one
    /// stands there. A file that is replaced hands on its owner and permissions, and a symbolic
    /// link stays one: the file that it points to is replaced. Only a process that is killed
    /// leaves the temporary file, `.NAME.*.tmp`, behind.
    ///
    /// # Errors
    /// A reader that fails, ends early or goes on after the bytes, a `path` that is
    /// something other than a file, or whatever the system refuses. The old file is then
    /// as it was, and the temporary file is gone. (Only a directory that cannot be synced
    /// is reported after the new file is in place.)
    pub fn write<R: Read>(
        &self,
        path: &Path,
        payload: impl FnMut(&TensorSpec, Part) -> std::io::Result<R>,
    ) -> Result<u64> {
        self.write_with_progress(path, payload, |_| ControlFlow::Continue(()))
    }

    /// [`write`](Self::write), calling `progress` after about every mebibyte and at the
    /// end; it says whether to go on.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`Error::Stopped`] when `progress` says so.
    pub fn write_with_progress<R: Read>(
        &self,
        path: &Path,
        mut payload: impl FnMut(&TensorSpec, Part) -> std::io::Result<R>,
        progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<u64> {
        let plan = self.file.plan().map_err(|e| Error::Invalid(e.to_string()))?;
        let mut replacement = Replacement::of(path)?;
        let mut sink = Sink::new(replacement.file(), path, plan.file_len(), progress);
        for bytes in plan.head() {
            sink.bytes(bytes)?;
        }
        for part in plan.parts() {
            let spec = part.tensor;
            sink.zeros_to(part.span.offset)?;
            let name = || format!("{} of tensor {:?}", part.part, spec.name);
            let reader = payload(spec, part.part).map_err(|e| unreadable(&name(), e))?;
            sink.payload(reader, part.span.size, name)?;
        }
        sink.zeros_to(plan.file_len())?;
        sink.finish()?;
        replacement.commit()?;
        Ok(plan.file_len())
    }
}

/// A name as messages show it: quoted, and no longer than a line.
fn short(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}...", name.get(..end).unwrap_or_default()),
        None => format!("{name:?}"),
    }
}

fn in_tensor(name: &str, error: BuildError) -> Error {
    Error::Invalid(format!("tensor {name}: {error}"))
}

/// A payload that could not be had: the source failed, not the file being written.
/// An error of ours is told as it is.
fn unreadable(name: &str, error: std::io::Error) -> Error {
    let foreign = |error| Error::Invalid(format!("cannot read {name}: {error}"));
    error.downcast().unwrap_or_else(foreign)
}
