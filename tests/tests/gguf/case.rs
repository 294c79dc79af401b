//! A folder in which a file is converted.

use std::ops::ControlFlow;
use std::path::PathBuf;

use hk_std::convert::gguf::{Options, convert};
use hk_std::{Error, ModelFile};
use hk_tests::gguf::Gguf;
use tempfile::TempDir;

/// A folder with a GGUF file in it.
pub(crate) struct Case {
    pub(crate) folder: TempDir,
}

impl Case {
    pub(crate) fn new(gguf: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("in.gguf"), gguf).unwrap();
        Case { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn convert(&self, options: Options) -> Result<ModelFile, Error> {
        convert(&self.path("in.gguf"), &self.path("out.hk"), options, |_| {
            ControlFlow::Continue(())
        })?;
        Ok(ModelFile::open(self.path("out.hk")).expect("what was written is sound"))
    }

    /// Names in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn converted(gguf: &Gguf) -> ModelFile {
    Case::new(&gguf.build().bytes).convert(Options::default()).unwrap()
}
