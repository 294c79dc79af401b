//! Every dense and block type against its golden vector, bit for bit.
//!
//! The vectors are compiled in, so that this runs where there are no files.

use hk_core::blocks::{self, Block};
use hk_core::{Backend, ErrorKind, Part, Portable, StorageType, dequantize_blocks};

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

fn decode(backend: &dyn Backend, storage: StorageType, payload: &[u8], count: usize) -> Vec<f32> {
    // Not zeros: a weight that is left out shows.
    let mut out = vec![f32::from_bits(0x7F80_5A5A); count];
    backend.dequantize(storage, payload, &mut out).unwrap();
    out
}

/// Every vector with every backend of this machine.
fn cases() -> impl Iterator<Item = (&'static dyn Backend, Vector)> {
    hk_std::backends().into_iter().flat_map(|backend| vectors().map(move |v| (backend, v)))
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
    for (backend, vector) in cases() {
        let expected = vector.expected();
        let found = decode(backend, vector.storage, vector.payload, expected.len());
        assert_same(vector.storage, &found, &expected, backend.name());
    }
}

/// Where a vector starts in memory, and how much of it is asked for, makes no difference,
/// also when the last block is partly used.
#[test]
fn every_vector_decodes_in_part_and_from_any_address() {
    for (backend, vector) in cases() {
        let expected = vector.expected();
        let weights = vector.storage.geometry().unwrap().weights as usize;
        for (start, count) in [1, weights - 1, weights + 1, 33, 100, 255, 256].iter().enumerate() {
            let mut moved = vec![0xA5; start];
            moved.extend_from_slice(vector.payload);
            let found = decode(backend, vector.storage, &moved[start..], *count);
            assert_same(vector.storage, &found, &expected[..*count], backend.name());
        }
    }
}

/// Blocks that do not start a payload decode as those that do.
#[test]
fn every_vector_decodes_block_by_block() {
    for (backend, vector) in cases() {
        let geometry = vector.storage.geometry().unwrap();
        let (weights, bytes) = (geometry.weights as usize, geometry.bytes as usize);
        let expected = vector.expected();
        let blocks = vector.payload.chunks(bytes).zip(expected.chunks(weights));
        for (block, expected) in blocks.take(300) {
            let found = decode(backend, vector.storage, block, expected.len());
            assert_same(vector.storage, &found, expected, backend.name());
        }
    }
}

#[test]
fn a_vector_that_ends_early_is_an_error() {
    for vector in vectors() {
        let (needed, available) = (vector.payload.len() as u64, vector.payload.len() as u64 - 1);
        let mut out = vec![0.0; vector.expected().len()];
        let short = &vector.payload[..available as usize];
        let error = Portable.dequantize(vector.storage, short, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooShort { part: Part::Data, needed, available });
        assert!(error.to_string().contains(&format!("needs {needed}")), "{error}");
    }
}

/// The direct call of one known type is what the table calls.
#[test]
fn a_direct_call_decodes_the_same() {
    fn check<B: Block<N>, const N: usize>() {
        let vector = vectors().find(|v| v.storage == B::STORAGE).unwrap();
        let expected = vector.expected();
        let mut found = vec![0.0; expected.len()];
        dequantize_blocks::<B, N>(vector.payload, &mut found).unwrap();
        assert_same(B::STORAGE, &found, &expected, "direct call");
    }
    check::<blocks::F16, 1>();
    check::<blocks::Fp8E4M3, 1>();
    check::<blocks::BlockQ4_0, 32>();
    check::<blocks::BlockNvfp4, 64>();
    check::<blocks::BlockQ4K, 256>();
    check::<blocks::BlockIq2S, 256>();
    check::<blocks::BlockTq1_0, 256>();
}
