//! Tensors by position, name and payload.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use hk_core::{Hk, Span, StorageType, TensorEntry};

/// Where the entries of a table stand, and which has which name. It holds no names: a name
/// is compared with the one in the table.
#[derive(Debug)]
pub(super) struct Index {
    /// Offset of each entry in the file.
    offsets: Vec<u64>,
    /// Hash of a name to the first entry whose name has it.
    names: HashMap<u64, u32, BuildHasherDefault<Ready>>,
    /// Keyed by chance, so that no file can choose names that collide.
    state: RandomState,
    /// Payload to the first entry that is no reference, in files with a `shared_ref`.
    payloads: HashMap<Span, u32>,
}

impl Index {
    pub(super) fn new(hk: &Hk<'_>) -> Self {
        let count = hk.toc().len();
        let state = RandomState::new();
        let mut offsets = Vec::with_capacity(count);
        let mut names = HashMap::with_capacity_and_hasher(count, BuildHasherDefault::default());
        let mut shares = false;
        for entry in hk.toc() {
            offsets.push(entry.offset);
            names.entry(state.hash_one(entry.name)).or_insert(entry.index);
            shares |= entry.storage == StorageType::SHARED_REF;
        }
        let payloads = if shares { payloads(hk) } else { HashMap::new() };
        Index { offsets, names, state, payloads }
    }

    /// Entry `index`.
    pub(super) fn entry<'a>(&self, hk: &Hk<'a>, index: u32) -> Option<TensorEntry<'a>> {
        let offset = *self.offsets.get(usize::try_from(index).ok()?)?;
        hk.toc().entry_at(index, offset)
    }

    /// The first entry called `name`.
    pub(super) fn find<'a>(&self, hk: &Hk<'a>, name: &str) -> Option<TensorEntry<'a>> {
        let index = *self.names.get(&self.state.hash_one(name))?;
        let entry = self.entry(hk, index)?;
        if entry.name == name {
            return Some(entry);
        }
        // Two names of one 64-bit hash: as good as never.
        hk.toc().get(name)
    }

    /// The entry that stores the bytes of a `shared_ref`: the first earlier one that is no
    /// reference and has the same payload.
    pub(super) fn target(&self, entry: &TensorEntry<'_>) -> Option<u32> {
        self.payloads.get(&entry.data).copied().filter(|&index| index < entry.index)
    }
}

fn payloads(hk: &Hk<'_>) -> HashMap<Span, u32> {
    let mut payloads = HashMap::with_capacity(hk.toc().len());
    for entry in hk.toc().iter().filter(|entry| !entry.storage.is_reference()) {
        payloads.entry(entry.data).or_insert(entry.index);
    }
    payloads
}

/// Takes keys that are hashes already as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}
