//! Every level multiplies to the bits of the oracle.

mod common;

use common::{AtTheEdge, Random, payload, same};
use hk_core::dot::{ActivationForm, oracle};
use hk_core::{Activation, Backend, Portable, StorageType};
use hk_simd_x86::variants;

/// Activation rows, some with blocks that are zero, tiny or not finite.
fn activation_rows(count: usize, len: usize, random: &mut Random) -> Vec<Vec<f32>> {
    let row = |_| {
        let mut row = random.floats(len);
        for block in row.chunks_mut(32) {
            match random.next() % 40 {
                0 => block.fill(0.0),
                1 => block.iter_mut().for_each(|x| *x *= 1e-33),
                2 => block[block.len() / 2] = f32::INFINITY,
                3 => block[0] = 3e36,
                _ => {}
            }
        }
        row
    };
    (0..count).map(row).collect()
}

/// Rows, activations and blocks (of dense types: 40 weights) a row.
fn shapes() -> Vec<(usize, usize, usize)> {
    if cfg!(miri) {
        return vec![(5, 1, 5), (1, 4, 1)];
    }
    let mut shapes = vec![(1, 1, 1), (4, 1, 4), (3, 1, 2), (16, 1, 8), (17, 2, 9), (5, 3, 5)];
    shapes.extend([(16, 6, 4), (33, 7, 3), (18, 16, 18), (7, 17, 1), (40, 64, 6), (2, 65, 16)]);
    shapes.extend([(1, 4, 7), (31, 12, 13), (64, 5, 2), (15, 33, 11), (9, 1, 33)]);
    shapes
}

fn check(storage: StorageType, (rows, batch, blocks): (usize, usize, usize)) {
    let form = ActivationForm::of(storage).unwrap();
    let geometry = storage.geometry().unwrap();
    // Blocks of 256 weights take Miri long.
    let blocks = if cfg!(miri) && geometry.weights == 256 { 1 } else { blocks };
    let weights = if geometry.weights == 1 {
        40 * blocks - blocks % 3
    } else {
        geometry.weights as usize * blocks
    };
    let mut random = Random::new(rows * batch + weights);
    let source = payload(storage, rows * weights / geometry.weights as usize, &mut random);
    let mut edge = AtTheEdge::new(source.len());
    let bytes = edge.bytes(source.len());
    bytes.copy_from_slice(&source);
    let x = activation_rows(batch, weights, &mut random);
    let mut scratch = vec![vec![0; form.scratch_len(weights)]; batch];
    let mut activations = Vec::new();
    for (x, scratch) in x.iter().zip(&mut scratch) {
        activations.push(Activation::quantize(storage, x, scratch).unwrap());
    }
    let mut expected = vec![0.0; rows * batch];
    oracle::dot_matrix(storage, bytes, &activations, &mut expected).unwrap();
    for (name, backend) in variants() {
        let of = format!("{name}, {storage}, {rows} rows by {batch}, {blocks} blocks");
        let mut out = vec![-1.5; rows * batch];
        backend.dot_matrix(storage, bytes, &activations, &mut out).unwrap();
        for (i, (&product, &expected)) in out.iter().zip(&expected).enumerate() {
            assert!(same(product, expected), "{of}: {product} for {expected}, product {i}");
        }
        if cfg!(miri) && batch == 1 {
            continue; // the same again
        }
        let mut first = vec![-1.5; rows];
        backend.dot_rows(storage, bytes, activations[0], &mut first).unwrap();
        for (r, product) in first.iter().enumerate() {
            assert!(same(*product, expected[r * batch]), "{of}, row {r}");
        }
    }
}

#[test]
fn random_rows() {
    for storage in StorageType::all().filter(|&s| ActivationForm::of(s).is_some()) {
        for shape in shapes() {
            check(storage, shape);
        }
    }
}

/// Rows of scales that are no numbers change no product but their own, however many blocks a
/// row has: kernels may load what stands behind it.
#[test]
fn rows_beside_rows_of_nan() {
    for storage in StorageType::all().filter(|&s| ActivationForm::of(s).is_some()) {
        let geometry = storage.geometry().unwrap();
        for blocks in if cfg!(miri) { 1..2 } else { 1..10 } {
            let weights = geometry.weights as usize * blocks;
            let row = geometry.bytes as usize * blocks;
            let mut random = Random::new(weights);
            let mut bytes = payload(storage, 9 * blocks, &mut random);
            for (i, row) in bytes.chunks_exact_mut(row).enumerate() {
                row.fill(if i % 2 == 0 { 0x3C } else { 0xFF });
            }
            let x = random.floats(weights);
            let mut scratch = vec![0; ActivationForm::of(storage).unwrap().scratch_len(weights)];
            let activation = Activation::quantize(storage, &x, &mut scratch).unwrap();
            let mut expected = [0.0; 9];
            oracle::dot_matrix(storage, &bytes, &[activation], &mut expected).unwrap();
            assert!(expected.iter().step_by(2).all(|product| product.is_finite()), "{storage}");
            for (name, backend) in variants() {
                let mut out = [0.0; 9];
                backend.dot_rows(storage, &bytes, activation, &mut out).unwrap();
                let equal = out.iter().zip(&expected).all(|(a, b)| same(*a, *b));
                assert!(equal, "{name}, {storage}, {blocks} blocks: {out:?} for {expected:?}");
            }
        }
    }
}

/// Long rows, in which a partial sum of too few bits would overflow: the largest codes and
/// sub-scales against the largest activations, of both signs.
#[test]
#[cfg_attr(miri, ignore = "long, and the same instructions as above")]
fn the_largest_sums() {
    for (name, backend) in variants() {
        for storage in StorageType::all().filter(|&s| ActivationForm::of(s).is_some()) {
            let geometry = storage.geometry().unwrap();
            let weights = 1024;
            let blocks = weights / geometry.weights as usize;
            for fill in [0x00, 0x7F, 0x80, 0xFF] {
                for sign in [1.0, -1.0] {
                    let bytes = vec![fill; 4 * blocks * geometry.bytes as usize];
                    let x = vec![sign; weights];
                    let mut scratch =
                        vec![0; ActivationForm::of(storage).unwrap().scratch_len(weights)];
                    let activation = Activation::quantize(storage, &x, &mut scratch).unwrap();
                    for batch in [1, 24] {
                        let activations = vec![activation; batch];
                        let mut expected = vec![0.0; 4 * batch];
                        oracle::dot_matrix(storage, &bytes, &activations, &mut expected).unwrap();
                        let mut out = vec![0.0; 4 * batch];
                        backend.dot_matrix(storage, &bytes, &activations, &mut out).unwrap();
                        for (product, expected) in out.iter().zip(&expected) {
                            assert!(
                                same(*product, *expected),
                                "{name}, {storage}, {fill:x}: {product} for {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// The backend quantizes activations to the codes and scales of hk-core.
#[test]
fn activations() {
    for (name, backend) in variants() {
        for storage in [StorageType::Q8_0, StorageType::Q6_K, StorageType::F16] {
            let form = ActivationForm::of(storage).unwrap();
            for blocks in if cfg!(miri) { 1..3 } else { 0..40 } {
                let len = form.block() * blocks;
                let mut random = Random::new(len);
                let row = activation_rows(1, len, &mut random).remove(0);
                let mut ours = vec![u32::MAX; form.scratch_len(len)];
                let mut theirs = ours.clone();
                let ours = backend.activation(storage, &row, &mut ours).unwrap();
                let theirs = Portable.activation(storage, &row, &mut theirs).unwrap();
                // Debug text shows all parts, and NaN as NaN.
                assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{name}, {storage}");
            }
        }
    }
}

/// A row that is no whole number of blocks, scratch that is too short, a type without products.
#[test]
fn activations_that_cannot_be() {
    let cases = [
        (StorageType::Q8_0, 33, 100),
        (StorageType::NVFP4, 32, 100),
        (StorageType::Q6_K, 128, 1000),
        (StorageType::Q4_0, 64, 21),
        (StorageType::Q4_K, 256, 72),
        (StorageType::Q8_K, 256, 1000),
    ];
    for (name, backend) in variants() {
        for (storage, len, room) in cases {
            let (row, mut ours, mut theirs) = (vec![1.0; len], vec![0; room], vec![0; room]);
            let ours = backend.activation(storage, &row, &mut ours).unwrap_err();
            let theirs = Portable.activation(storage, &row, &mut theirs).unwrap_err();
            assert_eq!(ours, theirs, "{name}, {storage}");
        }
    }
}
