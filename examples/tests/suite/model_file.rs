//! The demo model's file, and changed copies of it.

use std::path::{Path, PathBuf};

use hk_core::build::{FileBuilder, TensorSpec, pack_strings};
use hk_core::{Hk, Part, StorageType, Value};

/// Where the model stands.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/stories.hk")
}

/// The model's file.
pub fn read() -> Vec<u8> {
    std::fs::read(path()).unwrap()
}

/// A file of `tests/data/demo`.
pub fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/demo").join(name)
}

/// The content of a file, to be changed and written anew.
pub struct Copy<'a> {
    pub metadata: Vec<(String, Value<'a>)>,
    pub tensors: Vec<(TensorSpec, Vec<u8>)>,
}

impl<'a> Copy<'a> {
    pub fn of(file: &'a [u8]) -> Self {
        let hk = Hk::parse(file).unwrap();
        let metadata = hk.metadata().iter().map(|entry| (entry.key.to_owned(), entry.value));
        let tensors = hk.tensors().map(|tensor| {
            let spec = TensorSpec::new(tensor.entry().name, tensor.storage, &tensor.shape);
            (spec, tensor.data().to_vec())
        });
        Copy { metadata: metadata.collect(), tensors: tensors.collect() }
    }

    /// Gives `key` another value, or one at all.
    pub fn set(mut self, key: &str, value: Value<'a>) -> Self {
        self.metadata.retain(|(other, _)| other != key);
        self.metadata.push((key.to_owned(), value));
        self
    }

    /// Takes a key away.
    pub fn without_key(mut self, key: &str) -> Self {
        let before = self.metadata.len();
        self.metadata.retain(|(other, _)| other != key);
        assert_eq!(self.metadata.len() + 1, before, "{key}");
        self
    }

    /// Takes a tensor away.
    pub fn without_tensor(mut self, name: &str) -> Self {
        let before = self.tensors.len();
        self.tensors.retain(|(spec, _)| spec.name != name);
        assert_eq!(self.tensors.len() + 1, before, "{name}");
        self
    }

    /// Puts a tensor in the place of the one of that name, or at the end.
    pub fn with_tensor(mut self, spec: TensorSpec, data: Vec<u8>) -> Self {
        match self.tensors.iter_mut().find(|(other, _)| other.name == spec.name) {
            Some(tensor) => *tensor = (spec, data),
            None => self.tensors.push((spec, data)),
        }
        self
    }

    /// A tensor and its bytes.
    pub fn tensor(&self, name: &str) -> (TensorSpec, Vec<u8>) {
        self.tensors.iter().find(|(spec, _)| spec.name == name).unwrap().clone()
    }

    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let mut builder = FileBuilder::new();
        for (key, value) in &self.metadata {
            builder.metadata(key, *value).unwrap();
        }
        for (spec, _) in &self.tensors {
            builder.tensor(spec.clone()).unwrap();
        }
        let plan = builder.plan().unwrap();
        let mut file = plan.head().concat();
        for part in plan.parts() {
            file.resize(part.span.offset as usize, 0);
            let (spec, bytes) = self.tensor(&part.tensor.name);
            // Data, scales and residual, one after another.
            let scales = spec.data_size as usize;
            let residual = scales + spec.scales_size as usize;
            let range = match part.part {
                Part::Data => 0..scales,
                Part::Scales => scales..residual,
                Part::Residual => residual..bytes.len(),
            };
            file.extend(&bytes[range]);
        }
        file
    }
}

/// A tensor of f32 weights.
pub fn f32_tensor(name: &str, shape: &[u64], weights: &[f32]) -> (TensorSpec, Vec<u8>) {
    let bytes = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    (TensorSpec::new(name, StorageType::F32, shape), bytes)
}

/// A packed array of strings.
pub fn strings(strings: &[&str]) -> Vec<u8> {
    pack_strings(strings.iter().copied()).unwrap()
}
