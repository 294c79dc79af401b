//! Any bytes as a payload: every backend decodes them to the same bits as `Portable`, from
//! any range, and multiplies them to the bits of the oracle.
//!
//! Input: storage type, activation pattern, start of the range (two bytes), then payload.
#![no_main]

use hk_core::{Activation, Backend, Portable, StorageType, decode, dot};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [storage, pattern, low, high, payload @ ..] = data else { return };
    let Some(storage) = StorageType::all().nth(usize::from(*storage)) else { return };
    let Some(geometry) = storage.geometry() else { return };
    let (weights, bytes) = (geometry.weights as usize, geometry.bytes as usize);
    let count = (payload.len() / bytes * weights).min(4096);
    let start = usize::from(u16::from_le_bytes([*low, *high])) % (count + 1);
    for backend in hk_std::backends() {
        decode_all(backend, storage, payload, count, start);
        multiply(backend, storage, payload, count.min(1024), *pattern);
    }
});

fn same(a: &[f32], b: &[f32]) -> bool {
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn decode_all(
    backend: &dyn Backend,
    storage: StorageType,
    payload: &[u8],
    count: usize,
    start: usize,
) {
    let (mut whole, mut part) = (vec![0.5; count], vec![0.25; count - start]);
    Portable.dequantize(storage, payload, &mut whole).expect("whole blocks");
    let cover = decode::cover(storage, start as u64..count as u64).expect("a small range");
    let covered = &payload[cover.bytes.start as usize..cover.bytes.end as usize];
    decode::dequantize_slice(backend, storage, covered, cover.skip, &mut part).expect("enough");
    assert!(same(&part, &whole[start..]), "{storage} by {}", backend.name());
}

fn multiply(backend: &dyn Backend, storage: StorageType, payload: &[u8], count: usize, seed: u8) {
    // Large, small, zero and sometimes non-finite activations.
    let row: Vec<f32> = (0..count as u32)
        .map(|i| f32::from_bits(i.wrapping_mul(0x9E37_79B9) ^ u32::from(seed) << 23))
        .map(|x| if x.is_finite() || seed & 1 == 1 { x } else { 0.0 })
        .collect();
    let mut scratch = vec![0; Activation::scratch_len(storage, count)];
    let Ok(activation) = backend.activation(storage, &row, &mut scratch) else { return };
    let (mut found, mut expected) = ([0.5], [0.25]);
    let results = (
        backend.dot_rows(storage, payload, activation, &mut found),
        dot::oracle::dot_rows(storage, payload, activation, &mut expected),
    );
    assert_eq!(results.0.is_ok(), results.1.is_ok(), "{storage} by {}", backend.name());
    if results.0.is_ok() {
        assert!(same(&found, &expected), "{storage} by {}: {found:?} {expected:?}", backend.name());
    }
}
