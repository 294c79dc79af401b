//! What stands where in a new file.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::encode::{MetadataBuilder, encode_entry, entry_len};
use super::{BuildError, TensorSpec};
use crate::error::Part;
use crate::format::{Flags, HEADER_LEN, Header, Shape, Span, TensorEntry, Value};
use crate::storage::StorageType;

/// Collects what a file shall hold.
///
/// ```
/// use hk_core::{Hk, StorageType, Value, build::{FileBuilder, TensorSpec}};
/// let mut builder = FileBuilder::new();
/// builder.metadata("general.name", Value::String("tiny")).unwrap();
/// builder.tensor(TensorSpec::new("w", StorageType::F32, &[2])).unwrap();
/// let plan = builder.plan().unwrap();
///
/// let mut file: Vec<u8> = plan.head().concat();
/// for part in plan.parts() {
///     file.resize(part.span.offset as usize, 0); // zero padding
///     file.extend([1f32, 2.0].map(f32::to_le_bytes).as_flattened());
/// }
/// let hk = Hk::parse(&file).unwrap();
/// assert_eq!(hk.tensor("w").unwrap().data().len(), 8);
/// ```
#[derive(Clone, Debug)]
pub struct FileBuilder {
    alignment: u32,
    room: u64,
    shard: Option<(u16, u16)>,
    metadata: MetadataBuilder,
    tensors: Vec<Item>,
    names: BTreeMap<String, u32>,
}

/// A tensor, its shape once more in checked form, and for a `shared_ref` the index of the
/// tensor that stores its bytes.
#[derive(Clone, Debug)]
struct Item {
    spec: TensorSpec,
    shape: Shape,
    target: Option<u32>,
}

impl Default for FileBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FileBuilder {
    /// A file with nothing in it, aligned to 128 bytes.
    pub const fn new() -> Self {
        FileBuilder {
            alignment: 128,
            room: 0,
            shard: None,
            metadata: MetadataBuilder::new(),
            tensors: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// Aligns payloads to any number of bytes from 1 to 65536.
    ///
    /// # Errors
    /// [`BuildError::Alignment`].
    pub fn alignment(&mut self, alignment: u32) -> Result<&mut Self, BuildError> {
        if !(1..=65536).contains(&alignment) {
            return Err(BuildError::Alignment(alignment));
        }
        self.alignment = alignment;
        Ok(self)
    }

    /// Leaves at least `bytes` bytes unused in front of the first payload, so that metadata can
    /// grow without being moved to the end of the file (storage-and-sparsity.md, section 3). A
    /// file without payloads has none: its metadata stand at its end anyway.
    pub const fn metadata_room(&mut self, bytes: u64) -> &mut Self {
        self.room = bytes;
        self
    }

    /// Makes the file shard `index`, counted from 0, of `count`.
    ///
    /// # Errors
    /// [`BuildError::Shard`].
    pub fn shard(&mut self, index: u16, count: u16) -> Result<&mut Self, BuildError> {
        if index >= count {
            return Err(BuildError::Shard { index, count });
        }
        self.shard = Some((index, count));
        Ok(self)
    }

    /// Adds a metadata pair.
    ///
    /// # Errors
    /// As [`MetadataBuilder::push`].
    pub fn metadata(&mut self, key: &str, value: Value<'_>) -> Result<&mut Self, BuildError> {
        self.metadata.push(key, value)?;
        Ok(self)
    }

    /// Adds a tensor after the ones before it.
    ///
    /// # Errors
    /// A name that is there already or too long, more than 8 dimensions, an element count
    /// over 2^64, a payload size that does not fit type and shape, a `null_ref` with
    /// bytes; a `shared_ref` is added by [`shared`](Self::shared).
    pub fn tensor(&mut self, spec: TensorSpec) -> Result<&mut Self, BuildError> {
        if spec.storage == StorageType::SHARED_REF {
            return Err(BuildError::SharedWithoutTarget);
        }
        self.push(spec, None)
    }

    /// Adds a `shared_ref`: another name and shape for the bytes of `target`, an earlier
    /// tensor that is no reference and has as many elements.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), [`BuildError::NoTarget`],
    /// [`BuildError::TargetIsReference`], [`BuildError::SharedCount`];
    /// [`BuildError::AmbiguousTarget`] comes from [`plan`](Self::plan).
    pub fn shared(
        &mut self,
        name: impl Into<String>,
        target: &str,
        shape: &[u64],
    ) -> Result<&mut Self, BuildError> {
        let index = *self.names.get(target).ok_or(BuildError::NoTarget)?;
        let stored = self.tensors.get(index as usize).ok_or(BuildError::NoTarget)?;
        if stored.spec.storage.is_reference() {
            return Err(BuildError::TargetIsReference);
        }
        let spec = TensorSpec {
            name: name.into(),
            storage: StorageType::SHARED_REF,
            shape: shape.into(),
            ..stored.spec.clone()
        };
        let (target, given) = (stored.shape.count(), spec.check()?.count());
        if target != given {
            return Err(BuildError::SharedCount { target, given });
        }
        self.push(spec, Some(index))
    }

    fn push(&mut self, spec: TensorSpec, target: Option<u32>) -> Result<&mut Self, BuildError> {
        let shape = spec.check()?;
        if self.names.contains_key(&spec.name) {
            return Err(BuildError::DuplicateName);
        }
        let index = u32::try_from(self.tensors.len()).map_err(|_| BuildError::TooMany)?;
        self.names.insert(spec.name.clone(), index);
        self.tensors.push(Item { spec, shape, target });
        Ok(self)
    }

    /// The tensors so far, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.tensors.iter().map(|item| &item.spec)
    }

    /// Says what stands where: metadata after the header, then the table, then payloads,
    /// each part at an aligned offset of its own.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`] when offsets pass 2^64, [`BuildError::AmbiguousTarget`].
    pub fn plan(&self) -> Result<FilePlan<'_>, BuildError> {
        let metadata = Span { offset: HEADER_LEN as u64, size: self.metadata.bytes().len() as u64 };
        let entry_lens =
            self.tensors.iter().map(|item| entry_len(item.spec.name.len(), item.shape.len()));
        let toc_len: usize = entry_lens.sum();
        let toc = Span { offset: end(metadata)?, size: toc_len as u64 };
        let room = if self.tensors.iter().any(Item::is_stored) { self.room } else { 0 };
        let sections = end(toc)?.checked_add(room).ok_or(BuildError::TooLarge)?;
        let mut cursor = Cursor { at: sections, alignment: u64::from(self.alignment) };
        let tensor_data_offset = cursor.align()?;
        cursor.at = tensor_data_offset;

        let (entries, parts) = self.place(&mut cursor)?;
        let mut bytes = Vec::with_capacity(toc_len);
        for entry in &entries {
            encode_entry(entry, &mut bytes);
        }
        let (split_index, split_count) = self.shard.unwrap_or((0, 1));
        let header = Header {
            flags: self.flags(),
            // 65536 does not fit the field and is recorded as 0.
            alignment: u16::try_from(self.alignment).unwrap_or(0),
            split_index,
            split_count,
            tensor_count: entries.len() as u64,
            metadata_kv_count: u64::from(self.metadata.len()),
            metadata,
            toc,
            tensor_data_offset,
            ..Header::empty()
        };
        Ok(FilePlan {
            header,
            header_bytes: header.to_bytes(),
            metadata: self.metadata.bytes(),
            toc: bytes,
            parts,
            file_len: cursor.at,
        })
    }

    /// The table's entries, and the parts that need bytes.
    fn place(
        &self,
        cursor: &mut Cursor,
    ) -> Result<(Vec<TensorEntry<'_>>, Vec<PlannedPart<'_>>), BuildError> {
        let mut entries: Vec<TensorEntry<'_>> = Vec::with_capacity(self.tensors.len());
        let mut parts = Vec::new();
        for (index, item) in self.tensors.iter().enumerate() {
            // `push` counts with 32 bits.
            let index = index as u32;
            let spans = match item.target {
                Some(target) => shared_spans(&entries, target)?,
                None if item.spec.storage == StorageType::NULL_REF => [Span::default(); 3],
                None => {
                    let mut spans = [Span::default(); 3];
                    for (span, part) in spans.iter_mut().zip(TensorSpec::PARTS) {
                        *span = cursor.part(&item.spec, part)?;
                        if span.size > 0 {
                            parts.push(PlannedPart { tensor: &item.spec, part, span: *span });
                        }
                    }
                    spans
                }
            };
            entries.push(item.entry(index, spans));
        }
        Ok((entries, parts))
    }

    fn flags(&self) -> Flags {
        let mut payloads = self.tensors.iter().filter(|item| item.is_stored()).peekable();
        let mut flags = Flags::LITTLE_ENDIAN.with(Flags::for_alignment(self.alignment));
        if payloads.peek().is_some() && payloads.all(|item| item.spec.storage.is_dense()) {
            flags = flags.with(Flags::RAW_WEIGHT_STORAGE);
        }
        if self.tensors.iter().any(|item| item.spec.is_2_4()) {
            flags = flags.with(Flags::SPARSITY_2_4);
        }
        if self.shard.is_some() {
            flags = flags.with(Flags::IS_SHARDED);
        }
        flags
    }
}

impl Item {
    /// Whether the file holds bytes for it alone.
    const fn is_stored(&self) -> bool {
        self.target.is_none() && self.spec.data_size > 0
    }

    fn entry(&self, index: u32, spans: [Span; 3]) -> TensorEntry<'_> {
        let [data, scales, residual] = spans;
        TensorEntry {
            index,
            name: &self.spec.name,
            storage: self.spec.storage,
            tile: self.spec.tile,
            sparsity: self.spec.sparsity,
            shape: self.shape,
            data,
            residual,
            scales,
            block_size: self.spec.block_size,
            sparsity_ratio: self.spec.sparsity_ratio,
            offset: 0,
        }
    }
}

/// The spans of a `shared_ref`'s target, once it is sure that readers find that very
/// tensor: they take the first that is no reference and has the same data, and tensors
/// without bytes can have the same.
fn shared_spans(entries: &[TensorEntry<'_>], target: u32) -> Result<[Span; 3], BuildError> {
    let stored = entries.get(target as usize).ok_or(BuildError::NoTarget)?;
    if stored.data.size == 0 {
        let same =
            |entry: &&TensorEntry<'_>| !entry.storage.is_reference() && entry.data == stored.data;
        if entries.iter().find(same).map(|entry| entry.index) != Some(target) {
            return Err(BuildError::AmbiguousTarget);
        }
    }
    Ok([stored.data, stored.scales, stored.residual])
}

/// Where the next payload may stand.
struct Cursor {
    at: u64,
    alignment: u64,
}

impl Cursor {
    fn align(&self) -> Result<u64, BuildError> {
        self.at.checked_next_multiple_of(self.alignment).ok_or(BuildError::TooLarge)
    }

    /// The place of one part: none for scales and residuals that are not there, but always
    /// one for data.
    fn part(&mut self, spec: &TensorSpec, part: Part) -> Result<Span, BuildError> {
        let size = spec.size(part);
        if size == 0 && part != Part::Data {
            return Ok(Span::default());
        }
        let span = Span { offset: self.align()?, size };
        self.at = end(span)?;
        Ok(span)
    }
}

fn end(span: Span) -> Result<u64, BuildError> {
    span.end().ok_or(BuildError::TooLarge)
}

/// One run of bytes that a file needs beside its head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedPart<'a> {
    /// The tensor.
    pub tensor: &'a TensorSpec,
    /// Which of its parts.
    pub part: Part,
    /// Where it stands; never empty.
    pub span: Span,
}

/// What stands where in a file: made by [`FileBuilder::plan`].
#[derive(Clone, Debug)]
pub struct FilePlan<'a> {
    header: Header,
    header_bytes: [u8; HEADER_LEN],
    metadata: &'a [u8],
    toc: Vec<u8>,
    parts: Vec<PlannedPart<'a>>,
    file_len: u64,
}

impl<'a> FilePlan<'a> {
    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes that stand before all payloads, one after the other from the file's
    /// start: header, metadata, table of contents.
    pub fn head(&self) -> [&[u8]; 3] {
        [&self.header_bytes, self.metadata, &self.toc]
    }

    /// The runs of payload bytes in file order. Zeros stand between them, and between the
    /// head and the first.
    pub fn parts(&self) -> &[PlannedPart<'a>] {
        &self.parts
    }

    /// Length of the whole file in bytes.
    pub const fn file_len(&self) -> u64 {
        self.file_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Hk;
    use std::format;

    /// The file of a plan, every payload byte `b'p'`.
    fn file(plan: &FilePlan<'_>) -> Vec<u8> {
        let mut file = plan.head().concat();
        for part in plan.parts() {
            file.resize(part.span.offset as usize, 0);
            file.resize(part.span.end().unwrap() as usize, b'p');
        }
        file.resize(plan.file_len() as usize, 0);
        file
    }

    #[test]
    fn a_plan_parses_back_to_its_specs() {
        let mut builder = FileBuilder::new();
        builder.metadata("a", Value::Int64(-1)).unwrap();
        for (i, storage) in StorageType::all().enumerate() {
            if storage == StorageType::SHARED_REF {
                continue;
            }
            let mut spec = TensorSpec::new(format!("t{i}"), storage, &[4, 86]);
            if storage.geometry().is_none() && storage != StorageType::NULL_REF {
                spec.data_size = 1001;
                spec.residual_size = 1377;
                spec.scales_size = 51;
            }
            builder.tensor(spec).unwrap();
        }
        for alignment in [1, 7, 128, 65536] {
            let plan = builder.alignment(alignment).unwrap().plan().unwrap();
            let file = file(&plan);
            let hk = Hk::parse(&file).unwrap();
            assert_eq!(hk.header(), plan.header());
            assert_eq!(hk.header().payload_alignment(), alignment);
            assert_eq!(hk.metadata().get("a"), Some(Value::Int64(-1)));
            assert_eq!(hk.tensors().len(), builder.tensors().len());
            for (tensor, spec) in hk.tensors().zip(builder.tensors()) {
                assert_eq!((tensor.name, tensor.storage), (spec.name.as_str(), spec.storage));
                for (part, span) in tensor.parts() {
                    assert_eq!(span.size, spec.size(part));
                    assert!(span.offset.is_multiple_of(u64::from(alignment)));
                }
                let bytes = [tensor.data(), tensor.scales(), tensor.residual()].concat();
                assert!(bytes.iter().all(|&byte| byte == b'p'));
            }
        }
    }

    #[test]
    fn offsets_that_pass_2_64_are_refused() {
        let sizes = [u64::MAX, u64::MAX - 300, u64::MAX / 2 + 1];
        for size in sizes {
            let mut builder = FileBuilder::new();
            for name in ["a", "b"] {
                builder.tensor(TensorSpec::new(name, StorageType::INT8, &[size])).unwrap();
            }
            assert_eq!(builder.plan().unwrap_err(), BuildError::TooLarge);
        }
        let mut builder = FileBuilder::new();
        builder.tensor(TensorSpec::new("a", StorageType::INT8, &[u64::MAX - 300])).unwrap();
        assert_eq!(builder.plan().unwrap().file_len(), u64::MAX - 300 + 256);
    }
}
