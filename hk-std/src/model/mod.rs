//! An HK file opened from disk.

mod dequantize;
mod index;
mod source;

use std::path::{Path, PathBuf};

use hk_core::{Header, Hk, Metadata, Outline, Tensor, Tensors};

use crate::error::{Error, Result};
use index::Index;
pub(crate) use source::Bytes;

/// How a model's payloads will be read, so that the system reads ahead or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// No advice.
    #[default]
    Normal,
    /// From front to back, once.
    Sequential,
    /// Here and there.
    Random,
}

/// An open HK file, checked once, with an index of its tensors by name.
///
/// # Files that change while they are open
/// With the feature `mmap`, [`open`](Self::open) maps the file instead of reading it. As
/// with every memory map, nobody may then write into the file or cut it short: what is read
/// from a changed page is unspecified, and reading past a new end stops the process
/// (`SIGBUS`). Replacing the file by renaming another over it, as [`Writer`](crate::Writer)
/// does, is fine: the map keeps the old one. Where others may write into the file,
/// [`read`](Self::read) it into memory.
///
/// ```
/// # fn main() -> hk_std::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/reference/ref_128.hk");
/// let model = hk_std::ModelFile::open(path)?;
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name, tensor.storage, &tensor.shape[..]);
/// }
/// # assert!(model.tensors().len() > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    bytes: Bytes,
    outline: Outline,
    index: Index,
}

impl ModelFile {
    /// Opens and checks `path`, for reads in any order.
    ///
    /// # Errors
    /// The file is not there or cannot be read, is a directory, pipe or device, is empty,
    /// or is no HK file; the text says which, and for files of other known kinds what they
    /// are.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_for(path, Access::Normal)
    }

    /// [`open`](Self::open), saying how payloads will be read.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_for(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let model = Self::over(path, Bytes::open(path)?)?;
        if access != Access::Normal {
            model.advise(access);
        }
        Ok(model)
    }

    /// Reads the whole of `path` into memory and checks it: safe whatever happens to the
    /// file later.
    ///
    /// # Errors
    /// As [`open`](Self::open), and a file that does not fit into memory.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::over(path, Bytes::read(path)?)
    }

    fn over(path: &Path, bytes: Bytes) -> Result<Self> {
        let hk = Hk::parse(&bytes).map_err(|e| source::explain(path, &bytes, e))?;
        let (outline, index) = (hk.outline(), Index::new(&hk));
        Ok(ModelFile { path: path.to_owned(), bytes, outline, index })
    }

    /// Where it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The parsed file. It is not checked again: this costs nothing.
    pub fn hk(&self) -> Hk<'_> {
        self.outline.over(&self.bytes)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.outline.header()
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        self.hk().metadata()
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> Tensors<'_> {
        self.hk().tensors()
    }

    /// The tensor called `name`, found by hash; of two equal names, the first.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let hk = self.hk();
        self.index.find(&hk, name).map(|entry| hk.bind(entry))
    }

    /// The tensor at position `index` of the table of contents.
    pub fn tensor_at(&self, index: u32) -> Option<Tensor<'_>> {
        let hk = self.hk();
        self.index.entry(&hk, index).map(|entry| hk.bind(entry))
    }

    /// A tensor of this file as it decodes: itself, or for a `shared_ref` its own name and
    /// shape over the storage of its target. [`Tensor::resolve`] finds the target by a
    /// walk, this by hash.
    ///
    /// # Errors
    /// A `shared_ref` whose target is not there.
    pub fn resolve<'a>(&'a self, tensor: &Tensor<'a>) -> Result<Tensor<'a>> {
        let fault = |e| Error::format(&self.path, Some(tensor.name), e);
        if tensor.storage != hk_core::StorageType::SHARED_REF {
            return Ok(*tensor);
        }
        let target = self.index.target(tensor.entry());
        let target = target.and_then(|index| self.index.entry(&self.hk(), index));
        tensor.resolve_to(target.as_ref()).map_err(fault)
    }

    /// Tells the system how payloads will be read. It is advice: where the system takes
    /// none, or the file was read into memory, nothing happens.
    pub fn advise(&self, access: Access) {
        self.bytes.advise(access);
    }
}
