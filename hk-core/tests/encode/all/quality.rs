//! How close encoded weights come, and that they come back.

use hk_core::{Backend, ErrorKind, Portable, StorageType, encode};

use super::common::{Random, decoded, encoded, error, there_and_back};

/// Relative RMS errors that must not be exceeded: of standard normal weights, and of weights
/// after Student's t distribution with 4 degrees of freedom.
const ERRORS: [(StorageType, f64, f64); 10] = [
    (StorageType::Q4_0, 0.0859, 0.1154),
    (StorageType::Q4_1, 0.0782, 0.0938),
    (StorageType::Q5_0, 0.0427, 0.0580),
    (StorageType::Q5_1, 0.0379, 0.0452),
    (StorageType::Q8_0, 0.00535, 0.0073),
    (StorageType::Q2_K, 0.2963, 0.3425),
    (StorageType::Q3_K, 0.1508, 0.1834),
    (StorageType::Q4_K, 0.0714, 0.0866),
    (StorageType::Q5_K, 0.0361, 0.0437),
    (StorageType::Q6_K, 0.0177, 0.0228),
];

/// Checks the table; a smaller sample of heavy tails has an error of its own.
fn check_errors(len: usize, [normal_room, heavy_room]: [f64; 2]) {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let (normals, heavy) = (random.normals(len), random.heavy(len));
    for (storage, normal_error, heavy_error) in ERRORS {
        for (weights, most, room) in
            [(&normals, normal_error, normal_room), (&heavy, heavy_error, heavy_room)]
        {
            let found = error(weights, &there_and_back(storage, weights, 4096));
            println!("{storage}: {found:.5} of {most}");
            assert!(found <= most * room, "{storage}: {found} where {most} is allowed");
            assert!(found > most * 0.7, "{storage}: {found} is too good to be true");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn errors_are_small() {
    check_errors(65_536, [1.008, 1.03]);
}

#[test]
#[ignore = "a million weights: a few seconds"]
fn errors_of_a_million_weights_are_small() {
    check_errors(1 << 20, [1.005, 1.005]);
}

#[test]
fn importance_lowers_the_weighted_error() {
    let columns = 512;
    let mut random = Random(77);
    let weights = random.normals(if cfg!(miri) { 1 } else { 16 } * columns);
    let importance: Vec<f32> = random.heavy(columns).iter().map(|x| x * x).collect();
    for (storage, ..) in ERRORS {
        let weighted = |importance_given: Option<&[f32]>| {
            let payload = encoded(storage, &weights, columns, importance_given);
            let decoded = decoded(storage, &payload, weights.len());
            let off = weights.iter().zip(&decoded).zip(importance.iter().cycle());
            off.map(|((w, d), i)| f64::from(i * ((w - d) * (w - d)))).sum::<f64>()
        };
        let (with, without) = (weighted(Some(&importance)), weighted(None));
        assert!(with < 0.97 * without, "{storage}: {with} with, {without} without");
        // Only the ratios count: the same bytes.
        let scaled: Vec<f32> = importance.iter().map(|i| i * 1_048_576.0).collect();
        let payload = encoded(storage, &weights, columns, Some(&importance));
        assert_eq!(encoded(storage, &weights, columns, Some(&scaled)), payload, "{storage}");
    }
}

#[test]
fn importance_goes_by_columns() {
    // Two rows of two blocks each, of which one column counts.
    for (storage, ..) in ERRORS {
        let columns = 512;
        let weights = Random(5).normals(2 * columns);
        let mut importance = vec![0.0; columns];
        importance[300] = 1.0;
        let payload = encoded(storage, &weights, columns, Some(&importance));
        let decoded = decoded(storage, &payload, weights.len());
        for row in [0, columns] {
            let (weight, near) = (weights[row + 300], decoded[row + 300]);
            assert!((weight - near).abs() <= 0.02 * weight.abs(), "{storage}: {weight} {near}");
        }
    }
}

#[test]
fn decoded_weights_come_back() {
    let mut random = Random(3);
    for (storage, ..) in ERRORS {
        let geometry = storage.geometry().unwrap();
        let weights = random.normals(4096);
        let once = there_and_back(storage, &weights, 512);
        let twice = there_and_back(storage, &once, 512);
        let error = error(&once, &twice);
        // Blocks that do not use the whole range of codes may be encoded another way.
        let most = if geometry.weights == 32 { 0.02 } else { 0.12 };
        assert!(error < most, "{storage}: {error}");
    }
}

#[test]
fn numbers_on_a_grid_are_exact() {
    // Whole multiples of a scale that use both ends of the codes.
    for (storage, low, high) in [
        (StorageType::Q4_0, -8, 7),
        (StorageType::Q4_1, 0, 15),
        (StorageType::Q5_0, -16, 15),
        (StorageType::Q5_1, 0, 31),
        (StorageType::Q8_0, -127, 127),
        (StorageType::Q3_K, -4, 3),
        (StorageType::Q6_K, -32, 31),
    ] {
        let span = high - low + 1;
        let weights: Vec<f32> =
            (0..1024).map(|i| (low + (i * 7 + i / 32) % span) as f32 * 0.25).collect();
        let weights: Vec<f32> = match span {
            255 => (0..1024).map(|i| if i % 32 == 0 { -31.75 } else { (i % 32) as f32 }).collect(),
            _ => weights,
        };
        let ends = weights.chunks(16).all(|w| w.contains(&(low as f32 * 0.25)));
        if ends || span == 255 {
            assert_eq!(there_and_back(storage, &weights, 256), weights, "{storage}");
        } else {
            let error = error(&weights, &there_and_back(storage, &weights, 256));
            assert!(error < 0.01, "{storage}: {error}");
        }
    }
}

#[test]
fn zeros_stay_zeros() {
    for (storage, ..) in ERRORS {
        for zero in [0.0, -0.0] {
            let back = there_and_back(storage, &[zero; 512], 512);
            assert!(back.iter().all(|&w| w == 0.0), "{storage}: {back:?}");
        }
    }
}

#[test]
fn tiny_weights_become_zero_or_themselves() {
    for (storage, ..) in ERRORS {
        for tiny in [f32::from_bits(1), f32::MIN_POSITIVE, 1e-20, 1e-9, 3e-8] {
            let weights: Vec<f32> = (0..512).map(|i| tiny * (i % 5 - 2) as f32).collect();
            for weight in there_and_back(storage, &weights, 512) {
                // The smallest scale is 2^-24.
                assert!(weight.abs() <= tiny * 3.0 + 1e-7, "{storage}: {weight:e} of {tiny:e}");
            }
        }
    }
}

#[test]
fn large_weights_have_finite_scales() {
    for (storage, ..) in ERRORS {
        // The largest that each type takes lies between these two.
        let mut largest = 32_768.0_f32;
        let takes = |largest: f32| {
            let weights = [largest, -largest, 1.0, 0.0].repeat(128);
            let len = encode::encoded_len(storage, 1, 512).unwrap();
            let mut out = vec![0; len];
            match Portable.quantize(storage, &weights, 512, None, &mut out) {
                Ok(()) => Some(decoded(storage, &out, 512)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TooLarge { storage, index: 0 });
                    None
                }
            }
        };
        while let Some(back) = takes(largest) {
            assert!(back.iter().all(|w| w.is_finite()), "{storage}: {largest}");
            let off = (back[0] - largest).abs().max((back[1] + largest).abs()) / largest;
            assert!(off < 0.35, "{storage}: {} for {largest}", back[0]);
            largest *= 1.25;
        }
        assert!(largest > 65_504.0, "{storage}: {largest}");
    }
}

#[test]
fn rows_and_splits_make_no_difference() {
    let weights = Random(9).normals(2560);
    for (storage, ..) in ERRORS {
        let whole = encoded(storage, &weights, 2560, None);
        assert_eq!(encoded(storage, &weights, 256, None), whole, "{storage}");
        let pieces: Vec<u8> =
            weights.chunks(768).flat_map(|w| encoded(storage, w, 256, None)).collect();
        assert_eq!(pieces, whole, "{storage}");
    }
}
