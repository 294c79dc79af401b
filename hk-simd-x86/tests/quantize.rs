//! Every level encodes to the bits of [`Portable`].

mod common;

use common::Random;
use hk_core::{Backend, Portable, StorageType, encode};

/// Types that have an encoder.
fn types() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|&storage| encode::is_encodable(storage))
}

/// Kinds of rows.
const ROWS: usize = 8;

/// Rows with ordinary weights, zeros, very small, large and equal ones.
fn rows(columns: usize, largest: f32, random: &mut Random) -> Vec<f32> {
    let mut weights = random.floats(ROWS * columns);
    for (row, weights) in weights.chunks_exact_mut(columns).enumerate() {
        for weight in weights.iter_mut() {
            *weight = match row {
                1 => 0.0,
                2 => *weight * 1e-7,
                3 => *weight * 1e-38,
                4 => (*weight * 8.0).clamp(-1.0, 1.0) * largest,
                5 => 0.5,
                6 => weight.abs(),
                7 => -weight.abs() - 1.0,
                _ => *weight,
            };
        }
    }
    weights
}

// Miri has no word for `vminps` and others of these; the address sanitizer runs it.
#[test]
#[cfg_attr(miri, ignore = "vector instructions that Miri lacks")]
fn every_level_gives_the_bytes_of_portable() {
    for storage in types() {
        let mut random = Random::new(storage.0.into());
        // Whole blocks of every type, and no whole number of sixteens of small ones.
        let columns = 768;
        let largest = if storage == StorageType::NVFP4 { 100.0 } else { 400.0 };
        let weights = rows(columns, largest, &mut random);
        let importance: Vec<f32> = random.floats(columns).iter().map(|i| i.abs()).collect();
        let len = encode::encoded_len(storage, ROWS, columns).unwrap();
        for importance in [None, Some(&importance[..])] {
            let mut expected = vec![0; len];
            Portable.quantize(storage, &weights, columns, importance, &mut expected).unwrap();
            for (name, level) in hk_simd_x86::variants() {
                let mut out = vec![0; len];
                level.quantize(storage, &weights, columns, importance, &mut out).unwrap();
                let differs = out.iter().zip(&expected).position(|(a, b)| a != b);
                let is_weighted = importance.is_some();
                assert_eq!(differs, None, "{name}: {storage}, importance: {is_weighted}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "nothing unsafe that the other test leaves out")]
fn every_level_names_what_it_refuses() {
    for storage in types() {
        let mut weights = vec![0.25; 1024];
        weights[700] = f32::NAN;
        let mut out = vec![0; encode::encoded_len(storage, 2, 512).unwrap()];
        let expected = Portable.quantize(storage, &weights, 512, None, &mut out);
        assert!(expected.is_err());
        for (name, level) in hk_simd_x86::variants() {
            let result = level.quantize(storage, &weights, 512, None, &mut out);
            assert_eq!(result, expected, "{name}: {storage}");
            let result = level.quantize(storage, &weights, 512, None, &mut []);
            assert_eq!(result, Portable.quantize(storage, &weights, 512, None, &mut []));
        }
    }
    for (_, level) in hk_simd_x86::variants() {
        assert!(level.quantize(StorageType::INT8, &[], 0, None, &mut []).is_err());
    }
}
