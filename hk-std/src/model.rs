//! An HK file opened from disk.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use hk_core::{Hk, Tensor};

use crate::error::{Error, Result};

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

/// An open HK file, parsed, with an index of its tensors by name.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    bytes: Vec<u8>,
    names: HashMap<String, u32>,
}

impl ModelFile {
    /// Opens and parses `path`.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or is no HK file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let _ = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
        let hk = Hk::parse(&bytes).map_err(|e| Error::format(path, None, e))?;
        let names = hk.tensors().map(|t| (t.name.to_owned(), t.index)).collect();
        Ok(ModelFile { path: path.to_owned(), bytes, names })
    }

    /// Where it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The parsed file.
    pub fn hk(&self) -> Hk<'_> {
        todo_replace(Hk::parse(&self.bytes))
    }

    /// The tensor called `name`; of two equal names, the first.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let index = *self.names.get(name)?;
        self.hk().tensors().nth(index as usize)
    }
}

fn todo_replace(hk: std::result::Result<Hk<'_>, hk_core::Error>) -> Hk<'_> {
    hk.unwrap_or_else(|e| unreachable!("{e}"))
}
