//! Encoders that search for their scales: iq4_nl, iq4_xs, mxfp4, nvfp4, tq1_0, tq2_0.

use hk_core::encode::{Encode, WithEncoder, with_encoder};
use hk_core::{Backend, ErrorKind, Portable, StorageType, encode};

use super::common::{Random, decoded, encoded, weighted_error};

/// Each type, and the relative errors of ggml's quantizers on normal weights and on those of
/// Student's t distribution with four degrees of freedom.
const TYPES: [(StorageType, f64, f64); 6] = [
    (StorageType::IQ4_NL, 0.0761, 0.0934),
    (StorageType::IQ4_XS, 0.0767, 0.0944),
    (StorageType::MXFP4, 0.1151, 0.1312),
    (StorageType::NVFP4, 0.0951, 0.0918),
    // They are meant for ternary weights alone; what half a best scale gives on others.
    (StorageType::TQ1_0, 0.44, 0.56),
    (StorageType::TQ2_0, 0.44, 0.56),
];

const TERNARY: [StorageType; 2] = [StorageType::TQ1_0, StorageType::TQ2_0];

/// What comes back of weights in rows of `columns`.
fn back(
    storage: StorageType,
    weights: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
) -> Vec<f32> {
    decoded(storage, &encoded(storage, weights, columns, importance), weights.len())
}

/// The largest magnitude of each type.
fn largest(storage: StorageType) -> f32 {
    struct Largest;
    impl WithEncoder for Largest {
        type Output = f32;
        fn with<B: Encode<N>, const N: usize>(self) -> f32 {
            B::LARGEST
        }
    }
    with_encoder(storage, Largest).unwrap()
}

/// Fewer under Miri, which takes a thousand times as long.
fn blocks(count: usize) -> usize {
    if cfg!(miri) { 1 } else { count }
}

#[test]
fn errors_are_no_larger_than_those_of_ggml() {
    if cfg!(miri) {
        return;
    }
    let len = 1 << 17;
    let (normal, student) = (Random(1).normals(len), Random(2).heavy(len));
    for (storage, on_normal, on_student) in TYPES {
        for (weights, limit) in [(&normal, on_normal), (&student, on_student)] {
            let error = weighted_error(weights, &back(storage, weights, 256, None), &[1.0]);
            assert!(error <= 1.005 * limit, "{storage}: {error} over {limit}");
        }
    }
}

#[test]
fn importance_lessens_the_weighted_error() {
    let len = 256 * blocks(64);
    let (normal, student) = (Random(3).normals(len), Random(4).heavy(len));
    let importance = Random(5).importance(256);
    for (storage, ..) in TYPES {
        for weights in [&normal, &student] {
            let without = weighted_error(weights, &back(storage, weights, 256, None), &importance);
            let back = back(storage, weights, 256, Some(&importance));
            let with = weighted_error(weights, &back, &importance);
            assert!(with < without, "{storage}: {with}, {without} without");
            // Only ratios count.
            let halves: Vec<f32> = importance.iter().map(|i| i * 0.5).collect();
            assert_eq!(encoded(storage, weights, 256, Some(&halves)), {
                encoded(storage, weights, 256, Some(&importance))
            });
        }
        let all_the_same = encoded(storage, &normal, 256, Some(&[3.0; 256]));
        if storage != StorageType::MXFP4 {
            assert_eq!(all_the_same, encoded(storage, &normal, 256, None), "{storage}");
        }
    }
}

#[test]
fn importance_of_any_size_does_no_harm() {
    let weights = Random(6).normals(256 * 4);
    for (storage, ..) in TYPES {
        let plain = weighted_error(&weights, &back(storage, &weights, 256, None), &[1.0]);
        for importance in [0.0, -0.0, f32::from_bits(1), f32::MIN_POSITIVE, 1e-30, f32::MAX] {
            let back = back(storage, &weights, 256, Some(&[importance; 256]));
            let error = weighted_error(&weights, &back, &[1.0]);
            assert!(error <= plain * 1.01, "{storage}, {importance}: {error}");
        }
        // Where it is 0, encoding is no worse than it has to be.
        let mut importance = [0.0; 256];
        importance[..32].fill(f32::MAX);
        let back = back(storage, &weights, 256, Some(&importance));
        let error = weighted_error(&weights, &back, &[1.0]);
        assert!(error <= plain * 1.5, "{storage}: {error}");
    }
}

#[test]
fn ternary_weights_are_exact() {
    let mut random = Random(7);
    for storage in TERNARY {
        // Every f16 that is no infinity, in steps.
        for half in (1..0x7C00_u16).step_by(if cfg!(miri) { 10_007 } else { 37 }) {
            let scale = decoded(StorageType::F16, &half.to_le_bytes(), 1)[0];
            let often = random.bits() % 8;
            let mut weights: Vec<f32> = (0..256)
                .map(|_| match random.bits() >> 16 & 7 {
                    bits if bits < often => [scale, -scale][(bits & 1) as usize],
                    _ => 0.0,
                })
                .collect();
            weights[(half & 0xFF) as usize] = -scale;
            let importance = random.importance(256);
            for importance in [None, Some(&importance[..])] {
                assert_eq!(back(storage, &weights, 256, importance), weights, "{storage} {scale}");
            }
        }
    }
    // Other scales are rounded to the nearest f16.
    let weights: Vec<f32> = (0..256).map(|i| [0.1, 0.0, -0.1][i % 3]).collect();
    let rounded: Vec<f32> =
        weights.iter().map(|w| w.signum() * w.abs().min(0.099_975_586)).collect();
    for storage in TERNARY {
        let back = back(storage, &weights, 256, None);
        assert!(back.iter().zip(&rounded).all(|(a, b)| a.abs() == b.abs() && a * b >= 0.0));
    }
}

#[test]
fn ternary_forms_hold_the_same_weights() {
    let weights = Random(8).normals(256 * blocks(16));
    let [first, second] = TERNARY.map(|storage| back(storage, &weights, 256, None));
    assert_eq!(first, second);
}

/// A block of random codes with scales from `scale`.
fn block(storage: StorageType, random: &mut Random, step: u32) -> Vec<u8> {
    let len = storage.geometry().unwrap().bytes as usize;
    let mut block: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
    // An f16 that is neither infinite nor close to the end of the small ones.
    let d = (0x0400 + (step * 97) % 0x7400) as u16 | (step as u16 & 1) << 15;
    match storage {
        StorageType::IQ4_NL => block[..2].copy_from_slice(&d.to_le_bytes()),
        StorageType::IQ4_XS => {
            block[..2].copy_from_slice(&d.to_le_bytes());
            // One multiple of the scale is -32: from 24 on it would be found again.
            block[2] &= 0xFC;
            block[4] &= 0xF0;
        }
        StorageType::MXFP4 => block[0] = (step % 253) as u8,
        _ => {
            for (i, d) in block[..4].iter_mut().enumerate() {
                *d = ((step + 31 * i as u32) % 127) as u8;
            }
        }
    }
    block
}

#[test]
fn values_on_the_grid_come_back() {
    let mut random = Random(9);
    for (storage, ..) in TYPES.iter().filter(|(storage, ..)| !TERNARY.contains(storage)) {
        let storage = *storage;
        let len = storage.geometry().unwrap().weights as usize;
        for step in 0..2 * blocks(254) as u32 {
            let weights = decoded(storage, &block(storage, &mut random, step), len);
            let importance = random.importance(len);
            for importance in [None, Some(&importance[..])] {
                let back = back(storage, &weights, len, importance);
                assert_eq!(back, weights, "{storage}, {step}");
            }
        }
    }
}

#[test]
fn what_was_encoded_once_encodes_to_itself() {
    let weights = Random(10).normals(256 * blocks(64));
    for (storage, ..) in TYPES {
        let once = back(storage, &weights, 256, None);
        let twice = back(storage, &once, 256, None);
        assert_eq!(once, twice, "{storage}");
    }
}

#[test]
fn zeros_stay_zeros() {
    let mut weights = [0.0; 512];
    weights[..256].iter_mut().step_by(3).for_each(|weight| *weight = -0.0);
    for (storage, ..) in TYPES {
        for importance in [None, Some(&[0.0; 256][..]), Some(&[7.0; 256][..])] {
            let back = back(storage, &weights, 256, importance);
            assert!(back.iter().all(|weight| *weight == 0.0), "{storage}: {back:?}");
        }
    }
}

#[test]
fn the_smallest_weights_lose_no_more_than_they_are() {
    let normal = Random(11).normals(256);
    for (storage, ..) in TYPES {
        for power in [1e-44_f32, 1e-40, 1e-37, 1e-30, 1e-20, 1e-9, 1e-7, 1e-6, 1e-5] {
            let weights: Vec<f32> = normal.iter().map(|weight| weight * power).collect();
            let error = weighted_error(&weights, &back(storage, &weights, 256, None), &[1.0]);
            assert!(error <= 1.0, "{storage}, {power}: {error}");
        }
        // Scales in f16 are exact enough from here on; a power of two changes nothing.
        let weights: Vec<f32> = normal.iter().map(|weight| weight * 0.125).collect();
        let of = |weights| weighted_error(weights, &back(storage, weights, 256, None), &[1.0]);
        assert!(of(&weights) < 1.01 * of(&normal) + 0.01, "{storage}");
    }
}

#[test]
fn the_largest_weights_fit_and_larger_ones_do_not() {
    for (storage, ..) in TYPES {
        let largest = largest(storage);
        let mut weights = [0.0; 256];
        for (i, weight) in weights.iter_mut().enumerate() {
            *weight = [largest, -largest, 0.0][i % 3];
        }
        let back = back(storage, &weights, 256, None);
        let error = weighted_error(&weights, &back, &[1.0]);
        assert!(error < 0.1 && back.iter().all(|weight| weight.is_finite()), "{storage}: {error}");

        let mut blocks = vec![0; encode::encoded_len(storage, 1, 256).unwrap()];
        for too_large in [largest.next_up(), -largest.next_up(), f32::MAX] {
            weights[77] = too_large;
            let result = Portable.quantize(storage, &weights, 256, None, &mut blocks);
            let kind = result.unwrap_err().kind();
            assert_eq!(kind, ErrorKind::TooLarge { storage, index: 77 });
        }
    }
}
