//! Any bytes as a payload: every backend decodes them to the same bits as `Portable`, from
//! any range, and multiplies them to the bits of the oracle.
//!
//! Input: storage type, activation pattern, start of the range (two bytes), then payload. Of a
//! type without a geometry the pattern is the sparsity type and the block size, and the first
//! quarter of the payload are the scales.
#![no_main]

use hk_core::decode::{self, Source};
use hk_core::{
    Activation, Backend, Portable, Residual, Shape, SparsityType, StorageType, TileLayout, dot,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [storage, pattern, low, high, payload @ ..] = data else { return };
    let Some(storage) = StorageType::all().nth(usize::from(*storage)) else { return };
    let start = usize::from(u16::from_le_bytes([*low, *high]));
    let Some(geometry) = storage.geometry() else {
        return decode_form(storage, *pattern, payload, start);
    };
    let (weights, bytes) = (geometry.weights as usize, geometry.bytes as usize);
    let count = (payload.len() / bytes * weights).min(4096);
    let start = start % (count + 1);
    for backend in hk_std::backends() {
        decode_all(backend, storage, payload, count, start);
        multiply(backend, storage, payload, count, *pattern);
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

/// The whole and a part by every backend: what Portable makes of it, be it an error.
fn decode_form(storage: StorageType, pattern: u8, payload: &[u8], start: usize) {
    let (scales, data) = payload.split_at(payload.len() / 4);
    let shape = [16, (data.len() as u64 / 8).min(256)];
    let source = Source {
        storage,
        tile: TileLayout::ROW_MAJOR,
        sparsity: SparsityType(pattern & 7),
        shape: Shape::new(&shape).expect("a small shape"),
        block_size: u16::from(pattern >> 3),
        data,
        scales,
        residual: scales,
    };
    let count = source.shape.count();
    for range in [0..count, start as u64 % (count + 1)..count] {
        let decode = |backend: &dyn Backend| {
            let mut out = vec![0.5; (range.end - range.start) as usize];
            decode::dequantize_range(backend, &source, range.clone(), &mut out, Residual::Skip)
                .map(|()| out)
        };
        let expected = decode(&Portable);
        for backend in hk_std::backends() {
            match (decode(backend), &expected) {
                (Ok(found), Ok(expected)) => assert!(same(&found, expected), "{storage}"),
                (found, expected) => assert_eq!(found.err(), expected.clone().err()),
            }
        }
    }
}

/// Rows of at most 512 weights, with one to eight activation rows.
fn multiply(backend: &dyn Backend, storage: StorageType, payload: &[u8], count: usize, seed: u8) {
    let (len, batch) = (count.min(512), 1 + usize::from(seed >> 1) % 8);
    let rows = count.checked_div(len).unwrap_or(0);
    // Large, small, zero and sometimes non-finite activations.
    let number = |i: usize| {
        let bits = (i as u32).wrapping_mul(0x9E37_79B9) ^ u32::from(seed) << 23;
        Some(f32::from_bits(bits)).filter(|x| x.is_finite() || seed & 1 == 1).unwrap_or(0.0)
    };
    let x: Vec<f32> = (0..len * batch).map(number).collect();
    let words = Activation::scratch_len(storage, len);
    let mut scratch = vec![0; words * batch];
    let mut activations = Vec::new();
    for (x, scratch) in x.chunks(len.max(1)).zip(scratch.chunks_mut(words.max(1))) {
        let Ok(activation) = backend.activation(storage, x, scratch) else { return };
        activations.push(activation);
    }
    let (mut found, mut expected) = (vec![0.5; rows * batch], vec![0.25; rows * batch]);
    let results = (
        backend.dot_matrix(storage, payload, &activations, &mut found),
        dot::oracle::dot_matrix(storage, payload, &activations, &mut expected),
    );
    assert_eq!(results.0, results.1, "{storage} by {}", backend.name());
    if results.0.is_ok() {
        assert!(same(&found, &expected), "{storage} by {}: {found:?} {expected:?}", backend.name());
    }
}
