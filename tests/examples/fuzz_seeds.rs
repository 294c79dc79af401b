//! Writes the seeds of the fuzz targets anew: `cargo run -p hk-tests --example fuzz_seeds`.
//! Inputs that fuzzing found and that were kept (`found-*`) stay.

use std::fs;
use std::path::Path;

use hk_core::StorageType;
use hk_tests::build::{Builder, Tensor, one_of_everything};
use hk_tests::gguf::{Gguf, Meta, TYPES};
use hk_tests::rng::Rng;
use hk_tests::{data, reference_names};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder.join(target);
        fs::create_dir_all(&folder).expect("a folder for seeds");
        fs::write(folder.join(name), bytes).expect("a seed");
    };
    write("parse", "one-of-everything.hk", &one_of_everything().bytes);
    write("parse", "plain-types.hk", &plain_types());
    write("parse", "other-types.hk", &other_types());
    for name in reference_names() {
        let file = data(&format!("reference/{name}"));
        if file.len() < 2000 {
            write("parse", &name, &file);
        }
    }
    for (index, storage) in StorageType::all().enumerate() {
        if let Some(geometry) = storage.geometry() {
            let blocks = 512u32.div_ceil(geometry.weights).min(16);
            let payload = Rng::new(index as u64).bytes((blocks * geometry.bytes) as usize);
            let head = [index as u8, index as u8, 3, 0];
            write("kernels", &storage.to_string(), &[&head[..], &payload].concat());
        } else if storage.is_dual_mode() || [0x20, 0x22].contains(&storage.0) {
            // A block size of 9 where there are blocks.
            let sparsity_and_block = if storage.is_dual_mode() { 9 << 3 } else { 0 };
            let payload = Rng::new(index as u64).bytes(400);
            let head = [index as u8, sparsity_and_block, 3, 0];
            write("kernels", &storage.to_string(), &[&head[..], &payload].concat());
        }
    }
    write("gguf", "metadata.gguf", &gguf_metadata().build().bytes);
    write("gguf", "tensors.gguf", &gguf_tensors().build().bytes);
}

/// A file with a block or two of every plain type.
fn plain_types() -> Vec<u8> {
    let mut builder = Builder { alignment: 1, ..Builder::default() };
    for storage in StorageType::all() {
        let Some(geometry) = storage.geometry() else { continue };
        let payload = Rng::new(u64::from(storage.0)).bytes(2 * geometry.bytes as usize);
        let shape = [u64::from(geometry.weights) + 1];
        builder = builder.tensor(Tensor::new(&storage.to_string(), storage.0, &shape, payload));
    }
    builder.build().bytes
}

/// A file of the smaller vectors of all other types: dual-mode, split-scale, sparse, tiled.
fn other_types() -> Vec<u8> {
    let vector = |name: &str, part: &str| data(&format!("vectors/{name}.{part}"));
    let mut builder = Builder { alignment: 1, ..Builder::default() };
    let scaled = [
        ("dq4_b2", 0x10, 2, 11, true),
        ("dqt_b3", 0x14, 3, 50, true),
        ("dq8_b100", 0x11, 100, 1001, false),
        ("split_iq4_nl", 0x55, 32, 320, false),
        ("split_mxfp4", 0x62, 32, 320, false),
        ("split_nvfp4", 0x63, 16, 320, false),
    ];
    for (name, storage, block_size, count, residual) in scaled {
        let mut tensor = Tensor::new(name, storage, &[count], vector(name, "blocks"));
        tensor.scales = vector(name, "scales");
        tensor.residual = if residual { vector(name, "residual") } else { Vec::new() };
        tensor.block_size = block_size;
        builder = builder.tensor(tensor);
    }
    let others: [(&str, [u8; 3], &[u64]); 5] = [
        ("bitmask", [0x20, 0, 0], &[1003]),
        ("sparse_2_4", [0x22, 0, 0], &[1004]),
        ("csr_1x1", [0, 0, 2], &[16, 24]),
        ("bsr_4x4", [0, 0, 5], &[32, 64]),
        ("col_major", [0, 1, 0], &[7, 11]),
    ];
    for (name, codes, shape) in others {
        let mut tensor = Tensor::new(name, codes[0], shape, vector(name, "blocks"));
        tensor.codes = codes;
        builder = builder.tensor(tensor);
    }
    let mut tiled = Tensor::new("tile_16x8", 0x05, &[17, 9], vec![3; 32 * 16]);
    tiled.codes[1] = 3;
    builder.tensor(tiled).build().bytes
}

/// A GGUF file with a metadata pair of every type.
fn gguf_metadata() -> Gguf {
    let words = ["a", "", "wörd"].map(Meta::text).to_vec();
    let nested = vec![Meta::Arr(4, vec![Meta::U32(1)]), Meta::Arr(8, words.clone())];
    let pairs = [
        ("general.architecture", Meta::text("llama")),
        ("general.alignment", Meta::U32(8)),
        ("llama.block_count", Meta::U32(2)),
        ("u8", Meta::U8(255)),
        ("i8", Meta::I8(-1)),
        ("u16", Meta::U16(9)),
        ("i16", Meta::I16(-9)),
        ("i32", Meta::I32(i32::MIN)),
        ("f32", Meta::F32(0.1)),
        ("bool", Meta::Bool(1)),
        ("u64", Meta::U64(7)),
        ("i64", Meta::I64(-7)),
        ("f64", Meta::F64(f64::NAN)),
        ("words", Meta::Arr(8, words)),
        ("scores", Meta::Arr(6, vec![Meta::F32(-1.5), Meta::F32(f32::INFINITY)])),
        ("types", Meta::Arr(5, vec![Meta::I32(1), Meta::I32(-1)])),
        ("large", Meta::Arr(10, vec![Meta::U64(1 << 40)])),
        ("flags", Meta::Arr(7, vec![Meta::Bool(0), Meta::Bool(1)])),
        ("doubles", Meta::Arr(12, vec![Meta::F64(0.1)])),
        ("nested", Meta::Arr(9, nested)),
    ];
    let gguf = Gguf { alignment: 8, ..Gguf::default() };
    let gguf = pairs.into_iter().fold(gguf, |gguf, (key, value)| gguf.pair(key, value));
    gguf.tensor("t", 0, &[2], vec![0; 8])
}

/// A GGUF file with a tensor of every type.
fn gguf_tensors() -> Gguf {
    let mut rng = Rng::new(11);
    TYPES.into_iter().fold(Gguf::default(), |gguf, (id, weights, size, name)| {
        gguf.tensor(name, id, &[weights, 2], rng.bytes(2 * size))
    })
}
