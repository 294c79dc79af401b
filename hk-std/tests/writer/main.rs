//! Files written and read back: every field, every alignment, and nothing left of a write
//! that fails.

mod content;
mod replacing;

use std::fs;
use std::io;
use std::path::Path;

use hk_std::hk_core::build::{FileBuilder, pack_f32, pack_i32, pack_strings};
use hk_std::hk_core::{
    Array, Flags, Part, SparsityType, StorageType, TileLayout, Value, ValueType,
};
use hk_std::{Error, ModelFile, TensorSpec, Writer};
use tempfile::tempdir;

/// Bytes that no other tensor or part has.
fn payload(name: &str, part: Part, size: u64) -> Vec<u8> {
    let mut state = name.bytes().fold(part as u32 + 1, |h, b| h.wrapping_mul(31) + u32::from(b));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect()
}

fn write(writer: &Writer, path: &Path) -> hk_std::Result<u64> {
    writer.write(path, |spec, part| Ok(io::Cursor::new(payload(&spec.name, part, spec.size(part)))))
}

/// Only this file is in the folder.
fn alone(path: &Path) {
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [path.file_name().unwrap()]);
}

/// Tensors of every kind, with every field away from its default somewhere.
fn specs() -> Vec<TensorSpec> {
    let new = TensorSpec::new;
    vec![
        new("scalar", StorageType::F64, &[]),
        new("blocks", StorageType::Q4_K, &[3, 300]),
        TensorSpec {
            data_size: 70,
            scales_size: 20,
            residual_size: 560,
            block_size: 32,
            ..new("dual", StorageType::DQ4, &[14, 10])
        },
        TensorSpec {
            data_size: 8,
            scales_size: 4,
            block_size: 16,
            ..new("split", StorageType::IQ4_NL, &[16])
        },
        TensorSpec {
            tile: TileLayout::TILE_16X8,
            data_size: 32 * 8 * 2,
            ..new("tiled", StorageType::F16, &[17, 5])
        },
        TensorSpec { tile: TileLayout::COL_MAJOR, ..new("columns", StorageType::BF16, &[3, 5]) },
        TensorSpec {
            sparsity: SparsityType::BITMASK,
            sparsity_ratio: 0.75,
            data_size: 12,
            ..new("mask", StorageType::F32, &[8])
        },
        new("null", StorageType::NULL_REF, &[1000, 1000]),
        TensorSpec { data_size: 33, ..new("lora", StorageType::LORA_REF, &[7]) },
        TensorSpec {
            tile: TileLayout(0x77),
            sparsity: SparsityType(0x66),
            data_size: 5,
            block_size: u16::MAX,
            ..new("unknown ünï", StorageType(0xEE), &[1, 2, 3, 4, 5, 6, 7, 8])
        },
        new("empty", StorageType::F32, &[0, 9]),
        new(&"n".repeat(128), StorageType::BOOL, &[3]),
    ]
}

/// Adds a few metadata pairs, every tensor of `specs`, and a `shared_ref`.
fn everything(alignment: u32) -> Writer {
    let mut writer = Writer::new();
    writer.alignment(alignment).unwrap();
    writer.metadata("general.name", Value::String("tïny")).unwrap();
    for spec in specs() {
        writer.tensor(spec).unwrap();
    }
    writer.shared("tied", "dual", &[140]).unwrap();
    writer
}
