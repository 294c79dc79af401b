//! Dot products against the golden results, and against an independent computation of the
//! definition on rows that the golden ones do not have.

mod definition;

use definition::{F16_ZERO, Scales, decode, product, scales, with_scales};
use hk_core::dot::{ActivationForm, oracle};
use hk_core::{Activation, Backend, ErrorKind, StorageType};

/// Names and weight rows of every type that has a dot product: whole block files, of which
/// the first and the last row count, and the dense rows made for these results.
macro_rules! golden {
    ($($file:literal)*) => {
        [$(($file, include_bytes!(concat!("../../data/vectors/", $file)) as &[u8])),*]
    };
}
const GOLDEN: [(&str, &[u8]); 26] = golden!(
    "dots.f32" "dots.f16" "dots.bf16" "q4_0.blocks" "q4_1.blocks" "q5_0.blocks" "q5_1.blocks"
    "q8_0.blocks" "iq4_nl.blocks" "mxfp4.blocks" "nvfp4.blocks" "q2_k.blocks" "q3_k.blocks"
    "q4_k.blocks" "q5_k.blocks" "q6_k.blocks" "iq4_xs.blocks" "tq1_0.blocks" "tq2_0.blocks"
    "iq1_s.blocks" "iq1_m.blocks" "iq2_xxs.blocks" "iq2_xs.blocks" "iq2_s.blocks"
    "iq3_xxs.blocks" "iq3_s.blocks"
);
const ACTIVATIONS: &[u8] = include_bytes!("../../data/vectors/dots.act");
const RESULTS: &str = include_str!("../../data/vectors/dots.json");

/// The types of [`GOLDEN`].
fn types() -> impl Iterator<Item = StorageType> {
    GOLDEN.iter().map(|(file, _)| {
        let name = file.strip_prefix("dots.").or(file.strip_suffix(".blocks"));
        name.expect("a name").parse().expect("a storage type")
    })
}

fn backends() -> Vec<&'static dyn Backend> {
    hk_std::backends()
}

/// A row in the form that `storage` needs, over memory that is never given back.
fn activation(storage: StorageType, row: &[f32]) -> Activation<'static> {
    let scratch = vec![u32::MAX; Activation::scratch_len(storage, row.len())];
    Activation::quantize(storage, row.to_vec().leak(), scratch.leak()).expect("a whole row")
}

/// Bits, of which those of every NaN are the same.
fn bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

fn all_bits(x: &[f32]) -> Vec<u32> {
    x.iter().copied().map(bits).collect()
}

#[test]
fn golden_results() {
    let golden: serde_json::Value = serde_json::from_str(RESULTS).expect("JSON");
    let results = golden["results"].as_object().expect("results by type");
    assert_eq!(results.len(), GOLDEN.len());
    let (words, _) = ACTIVATIONS.as_chunks();
    let x: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();

    for (storage, (_, weights)) in types().zip(GOLDEN) {
        let geometry = storage.geometry().expect("a geometry");
        let row = 1280 / geometry.weights as usize * geometry.bytes as usize;
        let rows = [&weights[..row], &weights[weights.len() - row..]].concat();
        let expected: Vec<u32> = results[&storage.to_string()]
            .as_array()
            .expect("a list")
            .iter()
            .map(|hex| match hex.as_str().expect("text") {
                "nan" => f32::NAN.to_bits(),
                hex => u32::from_str_radix(hex, 16).expect("hexadecimal"),
            })
            .collect();
        assert_eq!(expected.len(), 6);
        for backend in backends() {
            let mut scratch = vec![vec![0; Activation::scratch_len(storage, 1280)]; 3];
            let activations: Vec<_> = x
                .chunks(1280)
                .zip(&mut scratch)
                .map(|(x, scratch)| backend.activation(storage, x, scratch).expect("a whole row"))
                .collect();
            let mut out = [0.0; 6];
            backend.dot_matrix(storage, &rows, &activations, &mut out).expect("products");
            assert_eq!(all_bits(&out), expected, "{storage} by {}", backend.name());
        }
    }
}

/// A seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between -1 and 1.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// A row of random bytes; its scales are tame with `tame`, and anything without.
fn random_row(storage: StorageType, len: usize, random: &mut Random, tame: bool) -> Vec<u8> {
    let geometry = storage.geometry().expect("a geometry");
    if storage.is_dense() && tame {
        let values = (0..len).map(|_| random.float());
        return match storage {
            StorageType::F32 => values.flat_map(f32::to_le_bytes).collect(),
            StorageType::BF16 => values
                .flat_map(|x| [(x.to_bits() >> 16) as u8, (x.to_bits() >> 24) as u8])
                .collect(),
            _ => (0..len).flat_map(|_| [random.next() as u8, random.next() as u8 & 0xBF]).collect(),
        };
    }
    let blocks = len / geometry.weights as usize;
    let mut row: Vec<u8> =
        (0..blocks * geometry.bytes as usize).map(|_| random.next() as u8).collect();
    if tame {
        for block in row.chunks_mut(geometry.bytes as usize) {
            // Signed, of magnitudes from 2^-6 to 2.
            let mut f16 = || [random.next() as u8, (random.next() as u8 & 0x9F) + 0x24];
            match scales(storage) {
                Scales::Bytes(count, one) => {
                    block[..count].iter_mut().for_each(|d| *d = *d % 16 + one - 8);
                }
                _ => {
                    let tamed = with_scales(storage, block, f16(), f16());
                    block.copy_from_slice(&tamed);
                }
            }
        }
    }
    row
}

/// Activation rows with everything that the definition tells apart.
fn activation_rows(len: usize, random: &mut Random) -> Vec<Vec<f32>> {
    let border = f32::from_bits((127 - 100) << 23);
    let plain: Vec<f32> = (0..len).map(|_| random.float()).collect();
    let scaled = |scale: f32| plain.iter().map(|x| x * scale).collect::<Vec<f32>>();
    let mut rows = vec![plain.clone(), vec![0.0; len], vec![-0.0; len]];
    // Below the border, from just below it up, subnormal, and so large that sums overflow.
    rows.extend([scaled(border), scaled(1e-42), scaled(f32::MAX)]);
    for x in [border, -border.next_down(), f32::from_bits(1), f32::MAX] {
        let mut row = scaled(border / 2.0);
        for block in row.chunks_mut(32) {
            block[0] = x;
        }
        rows.push(row);
    }
    // Halves between two codes: 127 makes the scale 1.
    rows.push((0..len).map(|i| if i % 32 == 0 { 127.0 } else { (i % 41) as f32 - 20.5 }).collect());
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut row = plain.clone();
        row[len / 2] = x;
        rows.push(row);
    }
    rows
}

/// Lengths of test rows: few and odd numbers of blocks.
fn lengths(storage: StorageType) -> impl Iterator<Item = usize> {
    let block = storage.geometry().expect("a geometry").weights as usize;
    let dense = [1, 2, 15, 16, 17, 31, 33, 47, 64, 101];
    let blocks = [1, 2, 3, 4, 5, 7, 9];
    let counts = if block == 1 { dense.to_vec() } else { blocks.to_vec() };
    counts.into_iter().map(move |count| count * block)
}

#[test]
fn every_row_as_defined() {
    let mut random = Random(1);
    let (mut finite, mut other) = (0, 0);
    for storage in types() {
        for len in lengths(storage) {
            let rows = [true, true, false].map(|tame| random_row(storage, len, &mut random, tame));
            for x in activation_rows(len, &mut random) {
                let expected = rows.each_ref().map(|row| bits(product(storage, row, &x)));
                let nan = expected.iter().filter(|&&bits| f32::from_bits(bits).is_nan()).count();
                (finite, other) = (finite + 3 - nan, other + nan);

                let (rows, mut out) = (rows.concat(), [0.0; 3]);
                oracle::dot_rows(storage, &rows, activation(storage, &x), &mut out)
                    .expect("products");
                assert_eq!(out.map(bits), expected, "{storage}, {len} weights: {x:?}");
                for backend in backends() {
                    let mut scratch = vec![0; Activation::scratch_len(storage, len)];
                    let activation =
                        backend.activation(storage, &x, &mut scratch).expect("a whole row");
                    backend.dot_rows(storage, &rows, activation, &mut out).expect("products");
                    assert_eq!(out.map(bits), expected, "{storage}, {len}: {}", backend.name());
                }
            }
        }
    }
    assert!(finite > 3000 && other > 300, "{finite} finite, {other} not");
}

#[test]
fn scales_that_are_not_finite() {
    let mut random = Random(2);
    let x: Vec<f32> = (0..1280).map(|_| random.float()).collect();
    for storage in types().filter(|storage| !storage.is_dense()) {
        if matches!(scales(storage), Scales::Bytes(..)) {
            continue; // These have no codes for them.
        }
        for d in [[0x00, 0x7C], [0x00, 0xFC], [0x01, 0x7C], [0x00, 0x7E], F16_ZERO, [0x01, 0x00]] {
            let mut row = random_row(storage, 1280, &mut random, true);
            let bytes = storage.geometry().expect("a geometry").bytes as usize;
            let changed = with_scales(storage, &row[bytes..2 * bytes], d, d);
            row[bytes..2 * bytes].copy_from_slice(&changed);
            let expected = product(storage, &row, &x);
            for backend in backends() {
                let product = backend.dot(storage, &row, activation(storage, &x)).expect("one");
                assert_eq!(bits(product), bits(expected), "{storage}: {}", backend.name());
                let finite = d[1] & 0x7C != 0x7C;
                assert_eq!(product.is_finite(), finite, "{storage}: {product} for {d:x?}");
            }
        }
    }
}

#[test]
fn a_matrix_is_its_rows() {
    let mut random = Random(3);
    for storage in types() {
        let len = 768;
        let rows: Vec<Vec<u8>> =
            (0..7).map(|_| random_row(storage, len, &mut random, true)).collect();
        let x: Vec<Vec<f32>> = (0..5).map(|_| (0..len).map(|_| random.float()).collect()).collect();
        let activations: Vec<_> = x.iter().map(|x| activation(storage, x)).collect();
        for backend in backends() {
            for count in 0..=activations.len() {
                let activations = &activations[..count];
                let mut out = vec![f32::NAN; rows.len() * count];
                backend.dot_matrix(storage, &rows.concat(), activations, &mut out).expect("all");
                for (row, out) in rows.iter().zip(out.chunks(count.max(1))) {
                    for (&activation, &out) in activations.iter().zip(out) {
                        let one = backend.dot(storage, row, activation).expect("one");
                        assert_eq!(bits(out), bits(one), "{storage} by {}", backend.name());
                        assert!(out.is_finite());
                    }
                }
            }
        }
    }
}

#[test]
fn many_activations_as_the_oracle() {
    let mut random = Random(5);
    let mut finite = 0;
    for storage in types() {
        for len in lengths(storage) {
            // Rows that are taken together, and some left over.
            let tame = [true, true, false, true, true, true, false];
            let rows = tame.map(|tame| random_row(storage, len, &mut random, tame)).concat();
            let x: Vec<Vec<f32>> = (0..2).flat_map(|_| activation_rows(len, &mut random)).collect();
            let activations: Vec<_> = x.iter().map(|x| activation(storage, x)).collect();
            for count in [1, 2, 3, 5, 8, 17] {
                let start = random.next() as usize % (activations.len() - count);
                let activations = &activations[start..start + count];
                let mut expected = vec![f32::NAN; tame.len() * count];
                oracle::dot_matrix(storage, &rows, activations, &mut expected).expect("all");
                let expected = all_bits(&expected);
                finite += expected.iter().filter(|&&bits| f32::from_bits(bits).is_finite()).count();
                for backend in backends() {
                    let mut out = vec![f32::NAN; tame.len() * count];
                    backend.dot_matrix(storage, &rows, activations, &mut out).expect("all");
                    let name = backend.name();
                    assert_eq!(all_bits(&out), expected, "{storage}, {len} x {count}: {name}");
                }
            }
        }
    }
    assert!(finite > 10_000, "{finite}");
}

#[test]
fn near_the_product_of_the_decoded_weights() {
    let mut random = Random(4);
    for storage in types() {
        for _ in 0..20 {
            let len = 1280;
            let row = random_row(storage, len, &mut random, true);
            let x: Vec<f32> = (0..len).map(|_| random.float()).collect();
            let weights = decode(storage, &row);
            let block = ActivationForm::of(storage).expect("a form").block();
            let (mut exact, mut bound) = (0.0, 0.0);
            for (w, x) in weights.chunks(block.max(16)).zip(x.chunks(block.max(16))) {
                let amax = x.iter().fold(0.0, |amax: f32, x| amax.max(x.abs()));
                // Half a code each, nothing where the activation stays f32; and roundings.
                let half = if block == 1 { 0.0 } else { f64::from(amax) / 254.0 };
                for (&w, &x) in w.iter().zip(x) {
                    let (w, x) = (f64::from(w), f64::from(x));
                    exact += w * x;
                    bound += w.abs() * (half * 1.0001 + x.abs() * 1e-6);
                }
                // The minimum is taken off after the sum: products may be larger than weights.
                bound += f64::from(amax) * 1e-3;
            }
            for backend in backends() {
                let product = backend.dot(storage, &row, activation(storage, &x)).expect("one");
                let error = (f64::from(product) - exact).abs();
                assert!(error <= bound, "{storage}: {product} for {exact}, {error} > {bound}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = [1.0_f32; 1024];
    let rows = [0; 4096];
    let mut out = [0.0; 2];
    for backend in backends() {
        for code in 0..=255 {
            let storage = StorageType(code);
            if types().any(|has| has == storage) {
                continue;
            }
            let none = Err(ErrorKind::NoDotProduct(storage));
            let mut scratch = [0; 1024];
            let made = backend.activation(storage, &x, &mut scratch);
            assert_eq!(made.map(|_| ()).map_err(|e| e.kind()), none);
            assert_eq!(Activation::scratch_len(storage, 1024), 0);
            let f32_row = Activation::F32(&x);
            let rows_of = backend.dot_rows(storage, &rows, f32_row, &mut out);
            assert_eq!(rows_of.map_err(|e| e.kind()), none);
            for activations in [&[f32_row][..], &[]] {
                let matrix = backend.dot_matrix(storage, &rows, activations, &mut out);
                assert_eq!(matrix.map_err(|e| e.kind()), none);
            }
        }
        types().for_each(|storage| refused(backend, storage, &x, &mut out));
    }
}

/// Wrong lengths and forms, for a type that has a dot product.
fn refused(backend: &dyn Backend, storage: StorageType, x: &[f32], out: &mut [f32; 2]) {
    let geometry = storage.geometry().expect("a geometry");
    let weights = u64::from(geometry.weights);
    let given = activation(storage, x);
    let row = x.len() / geometry.weights as usize * geometry.bytes as usize;
    let rows = vec![0; 2 * row];
    let kind = |result: Result<(), hk_core::Error>| result.expect_err("an error").kind();

    // Rows that end early, by one byte and altogether.
    for rows in [&rows[..2 * row - 1], &[]] {
        let short = kind(backend.dot_rows(storage, rows, given, out));
        let (needed, available) = (2 * row as u64, rows.len() as u64);
        let part = hk_core::Part::Data;
        assert_eq!(short, ErrorKind::TooShort { part, needed, available }, "{storage}");
        assert_eq!(kind(backend.dot_matrix(storage, rows, &[given], out)), short);
    }
    // More bytes than needed are left alone.
    let more = [&rows[..], &[0xFF; 3]].concat();
    backend.dot_rows(storage, &more, given, out).expect("products");

    // Scratch memory that is one word short.
    let mut scratch = vec![0; Activation::scratch_len(storage, x.len())];
    let expected = scratch.len() as u64;
    if let Some((_, short)) = scratch.split_first_mut() {
        let given = expected - 1;
        let error = backend.activation(storage, x, short).map(|_| ());
        assert_eq!(kind(error), ErrorKind::OutputLength { expected, given });
    }

    // Rows that end inside a block.
    for len in [1, 31, 33, 96, 255, 1023].into_iter().filter(|len| len % weights != 0) {
        let mut scratch = [0; 1024];
        let made = backend.activation(storage, &x[..len as usize], &mut scratch).map(|_| ());
        assert_eq!(kind(made), ErrorKind::Activation { activation: len, weights }, "{storage}");
    }
    if storage == StorageType::NVFP4 {
        let half = activation(StorageType::Q4_0, &x[..32]);
        let error = kind(backend.dot_rows(storage, &rows, half, out));
        assert_eq!(error, ErrorKind::Activation { activation: 32, weights: 64 });
    }

    // Another form.
    for other in [StorageType::F32, StorageType::Q4_0, StorageType::Q6_K] {
        let other = activation(other, x);
        if other.form() != given.form() {
            let form = ErrorKind::ActivationForm(storage);
            assert_eq!(kind(backend.dot_rows(storage, &rows, other, out)), form);
            assert_eq!(kind(backend.dot_matrix(storage, &rows, &[given, other], out)), form);
        }
    }

    // Activations of two lengths, and outputs that are no whole rows.
    let shorter = activation(storage, &x[..512]);
    let error = kind(backend.dot_matrix(storage, &rows, &[given, shorter], out));
    assert_eq!(error, ErrorKind::Activation { activation: 512, weights: 1024 });
    let error = kind(backend.dot_matrix(storage, &rows, &[given, given, given], out));
    assert_eq!(error, ErrorKind::OutputLength { expected: 0, given: 2 });
    let error = kind(backend.dot_matrix(storage, &rows, &[], out));
    assert_eq!(error, ErrorKind::OutputLength { expected: 0, given: 2 });

    // No rows, and rows of no weights.
    backend.dot_rows(storage, &[], given, &mut []).expect("nothing");
    *out = [f32::NAN; 2];
    backend.dot_rows(storage, &[], activation(storage, &[]), out).expect("empty rows");
    assert_eq!(out.map(f32::to_bits), [0; 2], "{storage}");
}
