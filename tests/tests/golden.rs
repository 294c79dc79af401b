//! Every dense and block type against its golden vector, bit for bit.
//!
//! The vectors are compiled in, so that this runs where there are no files.

use hk_core::{Backend, Portable, StorageType};

/// A storage type with a payload and the f32 that it decodes to, little-endian.
struct Vector {
    storage: StorageType,
    payload: &'static [u8],
    expected: &'static [u8],
}

macro_rules! vectors {
    ($($name:literal)*) => {
        &[$((
            $name,
            include_bytes!(concat!("../data/vectors/", $name, ".blocks")),
            include_bytes!(concat!("../data/vectors/", $name, ".f32")),
        )),*]
    };
}

const VECTORS: &[(&str, &[u8], &[u8])] = vectors! {
    "f32" "f16" "bf16" "fp8_e4m3" "fp8_e5m2" "int8" "int32" "int64" "uint8" "bool" "int16"
    "uint16" "uint32" "uint64" "f64"
    "q4_0" "q4_1" "q5_0" "q5_1" "q8_0" "q8_1" "q2_k" "q3_k" "q4_k" "q5_k" "q6_k" "q8_k"
    "iq1_s" "iq1_m" "iq2_xxs" "iq2_xs" "iq2_s" "iq3_xxs" "iq3_s" "iq4_nl" "iq4_xs"
    "tq1_0" "tq2_0" "mxfp4" "nvfp4"
};

fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.iter().map(|&(name, payload, expected)| Vector {
        storage: name.parse().unwrap(),
        payload,
        expected,
    })
}

impl Vector {
    fn expected(&self) -> Vec<f32> {
        let (elements, rest) = self.expected.as_chunks();
        assert!(rest.is_empty());
        elements.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }
}

/// Whether the bits of a NaN are settled: dense floats move them, arithmetic makes new ones.
fn moves_nans(storage: StorageType) -> bool {
    storage.is_dense() && storage != StorageType::F64
}

#[track_caller]
fn assert_same(storage: StorageType, found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{storage}, {what}: length");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let both_nan = found.is_nan() && expected.is_nan() && !moves_nans(storage);
        assert!(
            found.to_bits() == expected.to_bits() || both_nan,
            "{storage}, {what}: weight {i} is {found:e} ({:#010x}), expected {expected:e} ({:#010x})",
            found.to_bits(),
            expected.to_bits(),
        );
    }
}

fn decode(storage: StorageType, payload: &[u8], count: usize) -> Vec<f32> {
    // Not zeros: a weight that is left out shows.
    let mut out = vec![f32::from_bits(0x7F80_5A5A); count];
    Portable.dequantize(storage, payload, &mut out).unwrap();
    out
}

#[test]
fn the_vectors_are_every_dense_and_block_type() {
    let mut found: Vec<_> = vectors().map(|v| v.storage).collect();
    found.sort();
    let decodable = |s: &StorageType| s.is_dense() || s.is_block();
    assert_eq!(found, StorageType::all().filter(decodable).collect::<Vec<_>>());
    assert_eq!(found.len(), 15 + 25);
}

#[test]
fn every_vector_decodes_to_the_bit() {
    for vector in vectors() {
        let expected = vector.expected();
        let found = decode(vector.storage, vector.payload, expected.len());
        assert_same(vector.storage, &found, &expected, "whole");
    }
}
