//! A file's bytes, mapped or read, and what a file is that is none of ours.

use std::fs::{self, File};
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use hk_core::ErrorKind;

use super::Access;
use crate::error::{Error, Result};

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// Mapped: pages come from disk when they are read.
    #[cfg(feature = "mmap")]
    Mapped(memmap2::Mmap),
    /// Read into memory.
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            #[cfg(feature = "mmap")]
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Maps `path`.
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "the one place that maps a file")]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let (file, len) = open(path)?;
        fits(path, len)?;
        // SAFETY: the map is read-only and private to this value, and it is handed out only
        // as shared borrows of this value. What is left is that the file changes under the
        // map, which no program can rule out by itself: `ModelFile` documents it as the
        // caller's part and offers `read` for files that others write into. Damage stays
        // bounded even then: the core checks every number and text again each time it reads
        // them, and is safe code over any bytes.
        let map = unsafe { memmap2::Mmap::map(&file) };
        map.map(Bytes::Mapped).map_err(|e| Error::io("map", path, e))
    }

    /// Reads `path`, in a build without memory maps.
    #[cfg(not(feature = "mmap"))]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::read(path)
    }

    /// Reads `path` into memory.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let (file, len) = open(path)?;
        let too_large = |_| too_large(path, len);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(fits(path, len)?).map_err(too_large)?;
        // No more than there is room for, should the file grow meanwhile.
        file.take(len).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
        Ok(Bytes::Owned(bytes))
    }

    /// Passes advice on to the system.
    pub(super) fn advise(&self, access: Access) {
        match self {
            #[cfg(all(feature = "mmap", unix))]
            Bytes::Mapped(map) => {
                let advice = match access {
                    Access::Normal => memmap2::Advice::Normal,
                    Access::Sequential => memmap2::Advice::Sequential,
                    Access::Random => memmap2::Advice::Random,
                };
                // Advice that is not taken changes nothing but speed.
                let _ = map.advise(advice);
            }
            #[cfg(all(feature = "mmap", not(unix)))]
            Bytes::Mapped(_) => _ = access,
            Bytes::Owned(_) => _ = access,
        }
    }
}

/// Opens a regular file that is not empty, and says how long it is. Asks what it is before
/// it opens it: opening a pipe would wait for a writer.
fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |e| Error::io("open", path, e);
    let invalid = |text: &str| Err(Error::Invalid(format!("{}: {text}", path.display())));
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return invalid("this is a directory: name a .hk file in it");
    }
    if !metadata.is_file() {
        return invalid("this is a pipe or device, not a file: copy its content to a file first");
    }
    let file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    if len == 0 {
        return invalid("the file is empty: fetch or write it again");
    }
    Ok((file, len))
}

/// `len` as a length in memory.
fn fits(path: &Path, len: u64) -> Result<usize> {
    // No slice is longer than isize::MAX bytes.
    let fits = usize::try_from(len).ok().filter(|&len| isize::try_from(len).is_ok());
    fits.ok_or_else(|| too_large(path, len))
}

fn too_large(path: &Path, len: u64) -> Error {
    Error::Invalid(format!(
        "{}: its {len} bytes do not fit into this machine's memory",
        path.display()
    ))
}

/// The error of a file that does not parse; where it is no HK file, what it is instead.
pub(super) fn explain(path: &Path, bytes: &[u8], error: hk_core::Error) -> Error {
    match (error.kind(), kind_of(bytes)) {
        (ErrorKind::NotHk, Some(kind)) => {
            Error::Invalid(format!("{}: this is {kind}", path.display()))
        }
        _ => Error::format(path, None, error),
    }
}

/// What a file that is none of ours seems to be, and what to do.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 9] = [
        (b"GGUF", "a GGUF file: make it an HK file with `hk convert IN.gguf OUT.hk`"),
        (
            b"version https://git-lfs",
            "a Git LFS pointer, not the file: fetch it with `git lfs pull`",
        ),
        (b"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint), not an HK file"),
        (b"\x80\x02", "a Python pickle (perhaps a PyTorch checkpoint), not an HK file"),
        (b"\x1F\x8B", "a gzip archive: unpack it first"),
        (b"\x28\xB5\x2F\xFD", "a zstd archive: unpack it first"),
        (b"\xFD7zXZ\0", "an xz archive: unpack it first"),
        (b"\x89HDF\r\n", "an HDF5 file, not an HK file"),
        (b"<", "a web page or XML, not an HK file: the download went wrong"),
    ];
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|&(_, kind)| kind);
    known.or_else(|| {
        is_safetensors(bytes).then_some(
            "a safetensors file: convert it to GGUF first, then use `hk convert IN.gguf OUT.hk`",
        )
    })
}

/// A safetensors file starts with the length of its JSON head, then the head.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((len, head)) = bytes.split_first_chunk::<8>() else { return false };
    u64::from_le_bytes(*len) <= head.len() as u64 && head.starts_with(b"{\"")
}
