//! The container, part by part, over hand-written bytes: small enough for Miri and for
//! 32-bit hosts under emulation.

mod arrays;
mod file;
mod header;
mod metadata;
mod seal;
mod toc;
mod walk;

use hk_core::{Error, ErrorKind, Section};

/// What a test compares of an error: kind, section, offset and entry.
fn parts(error: Error) -> (ErrorKind, Section, u64, Option<u32>) {
    (error.kind(), error.section(), error.offset(), error.index())
}

/// The bytes of a file, all integers little-endian as everywhere in the format.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u8(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    fn u16(mut self, number: u16) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// A header with two sections at the given offsets and sizes.
    fn header(kv_count: u64, metadata: [u64; 2], tensor_count: u64, toc: [u64; 2]) -> Self {
        let start = Bytes::default().raw("HKNT").u16(1).u16(0).u32(1).u16(128).u16(0);
        let counts = start.u64(tensor_count).u64(kv_count);
        let sections = counts.u64(metadata[0]).u64(metadata[1]).u64(toc[0]).u64(toc[1]);
        sections.u64(0).u64(0).u64(0).u16(1).raw([0; 38])
    }

    /// A metadata pair.
    fn pair(self, key: &str, tag: u8, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let head = self.u16(key.len() as u16).raw(key).u8(tag);
        head.u32(value.len() as u32).raw(value)
    }

    /// A TOC entry: name, storage type, shape, data offset and size.
    fn tensor(self, name: &str, storage: u8, shape: &[u64], data: [u64; 2]) -> Self {
        let kinds = [storage, 0, 0, shape.len() as u8];
        let head = self.u16(name.len() as u16).raw(name).raw(kinds);
        let entry = shape.iter().fold(head, |entry, &dim| entry.u64(dim));
        let spans = [data[0], data[1], 0, 0, 0, 0];
        spans.iter().fold(entry, |entry, &number| entry.u64(number)).u16(32).u32(0)
    }

    /// A whole file: header, the metadata, the table, then `payload`.
    fn file(metadata: (u64, Bytes), toc: (u64, Bytes), payload: &[u8]) -> Vec<u8> {
        let (metadata_len, toc_len) = (metadata.1.0.len() as u64, toc.1.0.len() as u64);
        let sections = ([128, metadata_len], [128 + metadata_len, toc_len]);
        let header = Bytes::header(metadata.0, sections.0, toc.0, sections.1);
        header.raw(metadata.1.0).raw(toc.1.0).raw(payload).0
    }
}
