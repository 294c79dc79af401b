//! Shared code of the tests: a small HK file builder and a reader that are independent of
//! the product, a seeded generator of corrupt files, and a walk over everything that a
//! file offers.

pub mod build;
pub mod forms;
pub mod gguf;
pub mod large;
pub mod mutate;
pub mod oracle;
pub mod rng;
pub mod walk;

use std::path::PathBuf;

/// The folder of reference files and vectors.
pub fn data_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// The bytes of a file under [`data_dir`].
///
/// # Panics
/// When it cannot be read.
pub fn data(name: &str) -> Vec<u8> {
    let path = data_dir().join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of the HK files under `data/reference`, sorted.
///
/// # Panics
/// When the folder cannot be read.
pub fn reference_names() -> Vec<String> {
    let folder = data_dir().join("reference");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a folder entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".hk"))
        .collect();
    names.sort();
    names
}

/// A little-endian f32 file under [`data_dir`], as bit patterns: comparing those tells NaNs
/// and zeros of either sign apart.
pub fn data_f32_bits(name: &str) -> Vec<u32> {
    data(name).chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Bit patterns of floats, one for all NaNs: the bits of a NaN that arithmetic makes are left
/// to the host (payloads.md, "Conventions").
pub fn bits(values: &[f32]) -> Vec<u32> {
    let bits = |value: &f32| if value.is_nan() { 0x7FC0_0000 } else { value.to_bits() };
    values.iter().map(bits).collect()
}

/// The README's programs, compiled as it prints them.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
