//! Portable decoding of every dense and block type, one thread, 65,536 weights:
//! `cargo bench -p hk-tests --bench dequantize [-- FILTER]`.
//!
//! Criterion measures and keeps its history. A table at the end compares each type with
//! `memset` of the same output in the same moments, which says more than seconds do on a
//! machine that has other work: both take turns, and the fastest of each counts.

mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use hk_core::{Backend, Portable, StorageType};

const WEIGHTS: usize = 65_536;

fn main() {
    table::run(bench_all, print_table);
}

/// Dense types, then block types, in the order of their codes.
fn types() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|storage| storage.geometry().is_some())
}

/// A payload of pseudorandom bytes (xorshift64), the same in every run, whose f16 are
/// ordinary numbers: a scale that is infinite or NaN is not what a model is made of.
fn payload(storage: StorageType) -> Vec<u8> {
    let geometry = storage.geometry().unwrap();
    let len = storage.payload_len(&[WEIGHTS as u64]).unwrap() as usize;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let mut payload: Vec<u8> = std::iter::repeat_with(next).take(len).collect();
    for block in payload.chunks_mut(geometry.bytes as usize) {
        for at in halves(storage) {
            // Exponents 8 to 15: up to 2^-7, up to 2.
            block[at + 1] = block[at + 1] & 0x9F | 0x20;
        }
    }
    payload
}

/// Where in a block its f16 stand (blocks.md).
fn halves(storage: StorageType) -> &'static [usize] {
    match storage {
        StorageType::Q4_1 | StorageType::Q5_1 | StorageType::Q8_1 => &[0, 2],
        StorageType::Q4_K | StorageType::Q5_K => &[0, 2],
        StorageType::Q2_K => &[80, 82],
        StorageType::Q3_K => &[108],
        StorageType::Q6_K => &[208],
        StorageType::TQ1_0 => &[52],
        StorageType::TQ2_0 => &[64],
        // No f16, or, in iq1_m, one that is scattered over the block.
        StorageType::Q8_K | StorageType::IQ1_M | StorageType::MXFP4 | StorageType::NVFP4 => &[],
        _ if storage.is_block() || storage == StorageType::F16 => &[0],
        _ => &[],
    }
}

fn fill(out: &mut [f32]) {
    black_box(&mut *out).fill(0.0);
    black_box(out);
}

fn decode(storage: StorageType, payload: &[u8], out: &mut [f32]) {
    Portable.dequantize(black_box(storage), black_box(payload), black_box(&mut *out)).unwrap();
    black_box(out);
}

fn bench_all(criterion: &mut Criterion) {
    let mut out = vec![0.0; WEIGHTS];
    let mut group = criterion.benchmark_group("dequantize");
    group.throughput(Throughput::Elements(WEIGHTS as u64));
    group.bench_function("memset", |bencher| bencher.iter(|| fill(&mut out)));
    for storage in types() {
        let payload = payload(storage);
        group.bench_function(BenchmarkId::from_parameter(storage), |bencher| {
            bencher.iter(|| decode(storage, &payload, &mut out));
        });
    }
    group.finish();
}

/// Shortest of many runs of `decode` and of `fill`, taking turns for `budget`.
fn best(storage: StorageType, budget: Duration) -> (Duration, Duration) {
    let payload = payload(storage);
    let mut out = vec![0.0; WEIGHTS];
    let mut shortest = (Duration::MAX, Duration::MAX);
    let begin = Instant::now();
    while begin.elapsed() < budget {
        let start = Instant::now();
        fill(&mut out);
        let middle = Instant::now();
        decode(storage, &payload, &mut out);
        let end = Instant::now();
        shortest = (shortest.0.min(end - middle), shortest.1.min(middle - start));
    }
    shortest
}

fn print_table(filter: &str) {
    println!("\n{:<10} {:>12} {:>10} {:>14}", "type", "Gweights/s", "GB/s read", "ratio, memset");
    let mut memset = Duration::MAX;
    for storage in types().filter(|s| s.to_string().contains(filter)) {
        let (decoding, filling) = best(storage, Duration::from_millis(250));
        memset = memset.min(filling);
        let nanos = decoding.as_nanos() as f64;
        println!(
            "{:<10} {:>12.2} {:>10.2} {:>14.3}",
            storage.to_string(),
            WEIGHTS as f64 / nanos,
            payload(storage).len() as f64 / nanos,
            filling.as_nanos() as f64 / nanos,
        );
    }
    println!("memset: {:.2} Gf32/s", WEIGHTS as f64 / memset.as_nanos() as f64);
}
