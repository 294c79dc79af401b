//! Opening a file of 10,000 tensors and 5 MB of metadata (a large vocabulary), and decoding
//! a large tensor on one core and on all.
//!
//! `cargo bench -p hk-tests --bench open`

use std::hint::black_box;
use std::io;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hk_std::hk_core::build::pack_strings;
use hk_std::hk_core::{Hk, Residual, StorageType, Tensor, Value};
use hk_std::{ModelFile, TensorSpec, Writer, backend, par_dequantize};

/// A row of `q4_k`, long enough to be a payload of its own.
const SHAPE: [u64; 2] = [8, 256];

fn many_tensors(path: &Path) {
    let mut writer = Writer::new();
    let tokens = pack_strings((0..340_000).map(|i| format!("token{i:06}"))).unwrap();
    assert!(tokens.len() > 5_000_000);
    writer.metadata("general.architecture", Value::String("llama")).unwrap();
    writer.metadata("tokenizer.ggml.tokens", Value::Bytes(&tokens)).unwrap();
    for i in 0..10_000 {
        let name = format!("blk.{}.ffn_gate_exps.{}.weight", i / 100, i % 100);
        writer.tensor(TensorSpec::new(name, StorageType::Q4_K, &SHAPE)).unwrap();
    }
    let payload = vec![0; StorageType::Q4_K.payload_len(&SHAPE).unwrap() as usize];
    writer.write(path, |_, _| Ok(&payload[..])).unwrap();
}

fn opening(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.hk");
    many_tensors(&path);
    let bytes = std::fs::read(&path).unwrap();
    let model = ModelFile::open(&path).unwrap();

    let mut group = criterion.benchmark_group("10,000 tensors, 5 MB of metadata");
    group.bench_function("Hk::parse", |b| b.iter(|| Hk::parse(black_box(&bytes)).unwrap().toc()));
    group.bench_function("ModelFile::open", |b| b.iter(|| ModelFile::open(&path).unwrap()));
    let name = "blk.55.ffn_gate_exps.7.weight";
    group.bench_function("ModelFile::tensor", |b| {
        b.iter(|| model.tensor(black_box(name)).unwrap().index)
    });
    group.finish();
}

fn decoding(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.hk");
    let (rows, columns) = (4096, 4096);
    let mut writer = Writer::new();
    let spec = TensorSpec::new("large", StorageType::Q8_0, &[rows, columns]);
    let size = spec.data_size;
    writer.tensor(spec).unwrap();
    writer.write(&path, |_, _| Ok(io::Read::take(io::repeat(0x3C), size))).unwrap();
    let model = ModelFile::open(&path).unwrap();
    let tensor = model.tensor("large").unwrap();
    let mut out = vec![0.0f32; (rows * columns) as usize];
    let backend = backend().unwrap();

    let mut group = criterion.benchmark_group("16 M weights of q8_0");
    group.throughput(Throughput::Elements(rows * columns));
    let one = |tensor: &Tensor<'_>, out: &mut [f32]| {
        tensor.dequantize_into(backend, out, Residual::Add).unwrap()
    };
    group.bench_function("one core", |b| b.iter(|| one(&tensor, black_box(&mut out))));
    let all = |tensor: &Tensor<'_>, out: &mut [f32]| {
        par_dequantize(tensor, backend, out, Residual::Add).unwrap()
    };
    group.bench_function("all cores", |b| b.iter(|| all(&tensor, black_box(&mut out))));
    group.finish();
}

criterion_group!(benches, opening, decoding);
criterion_main!(benches);
