//! The encoders of forms that are not blocks of fixed size: payloads of the vectors made again
//! byte for byte, and what they make decoded again.

use hk_core::blocks::{NF4, ScaledForm, ScaledType};
use hk_core::encode::bsr::BlockShape;
use hk_core::encode::order::Order;
use hk_core::encode::{bitmask, bsr, dual, two_of_four};
use hk_core::{Backend, ErrorKind, Hk, Portable, Residual, SparseFault, StorageType, TileLayout};
use hk_tests::rng::Rng;
use hk_tests::{bits, build, data};
use proptest::prelude::*;

/// Weights, and the payload that has to be made of them.
fn vector(name: &str) -> (Vec<f32>, Vec<u64>, Vec<u8>) {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let tensor = hk.tensor(name).expect("is listed");
    let mut weights = vec![0.0; tensor.shape.count() as usize];
    tensor.dequantize_into(&Portable, &mut weights, Residual::Skip).expect("decodes");
    (weights, tensor.shape.to_vec(), tensor.data().to_vec())
}

/// What a tensor decodes to.
fn decoded(tensor: build::Tensor, residual: Residual) -> Vec<f32> {
    let builder = build::Builder { alignment: 1, ..build::Builder::default() };
    let file = builder.tensor(tensor).build().bytes;
    let hk = Hk::parse(&file).expect("a sound file");
    let tensor = hk.tensors().next().expect("is listed");
    let mut weights = vec![f32::NAN; tensor.shape.count() as usize];
    tensor.dequantize_into(&Portable, &mut weights, residual).expect("decodes");
    weights
}

#[test]
fn the_payloads_of_sparse_vectors() {
    let (weights, _, payload) = vector("bitmask");
    let mut out = vec![0xAA; bitmask::packed_len(&weights).unwrap() as usize];
    bitmask::pack(&weights, &mut out).unwrap();
    assert_eq!(out, payload);

    let (weights, _, payload) = vector("sparse_2_4");
    let mut out = vec![0xAA; two_of_four::packed_len(weights.len() as u64).unwrap() as usize];
    two_of_four::pack(&weights, &mut out).unwrap();
    assert_eq!(out, payload);

    for (name, rows, columns) in [("bsr_4x4", 4, 4), ("bsr_8x16_ragged", 8, 16), ("csr_1x1", 1, 1)]
    {
        let (weights, shape, payload) = vector(name);
        let block = BlockShape::new(rows, columns).unwrap();
        let columns = shape[1] as usize;
        let mut out = vec![0xAA; bsr::packed_len(block, &weights, columns).unwrap() as usize];
        bsr::pack(block, &weights, columns, &mut out).unwrap();
        assert_eq!(out, payload, "{name}");
    }
}

#[test]
fn the_payloads_of_vectors_in_tiles_and_columns() {
    let names = ["tile_16x16", "tile_16x8", "tile_32x16", "tile_32x32", "tile_64x64", "col_major"];
    for name in names {
        let (weights, shape, payload) = vector(name);
        let layout: TileLayout = name.parse().unwrap();
        let order = Order::new(StorageType::F32, layout, shape[0], shape[1]).unwrap();
        let rows: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let mut stored = vec![0xAA; order.stored_len()];
        order.store(&rows, &mut stored).unwrap();
        assert_eq!(stored, payload, "{name}");
        let mut back = vec![0xAA; order.row_major_len()];
        order.restore(&stored, &mut back).unwrap();
        assert_eq!(back, rows, "{name}");
    }
}

/// Elements of every width, and pieces of a matrix, go where the whole puts them.
#[test]
fn tiles_of_every_width_and_in_pieces() {
    let mut rng = Rng::new(61);
    let types = [StorageType::BOOL, StorageType::F16, StorageType::F32, StorageType::INT64];
    for layout in TileLayout::all() {
        for storage in types {
            let Ok(order) = Order::new(storage, layout, 131, 75) else { continue };
            let rows = rng.bytes(order.row_major_len());
            let mut stored = vec![0xAA; order.stored_len()];
            order.store(&rows, &mut stored).unwrap();
            let mut back = vec![0xAA; rows.len()];
            order.restore(&stored, &mut back).unwrap();
            assert_eq!(back, rows, "{storage} {layout}");
            let Some((height, _)) = layout.tile() else { continue };
            let mut pieces = Vec::new();
            let row_bytes = rows.len() / 131;
            for piece in rows.chunks(row_bytes * height as usize) {
                let count = (piece.len() / row_bytes) as u64;
                let part = Order::new(storage, layout, count, 75).unwrap();
                let mut out = vec![0xAA; part.stored_len()];
                part.store(piece, &mut out).unwrap();
                pieces.extend(out);
            }
            assert_eq!(pieces, stored, "{storage} {layout}");
        }
    }
    for (storage, layout) in [
        (StorageType::Q4_0, TileLayout::TILE_16X16),
        (StorageType::F32, TileLayout::BLOCK_SPARSE_2_4),
        (StorageType::F32, TileLayout(0x77)),
    ] {
        let error = Order::new(storage, layout, 4, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TileLayout(storage, layout));
    }
    let error = Order::new(StorageType::F64, TileLayout::TILE_64X64, u64::MAX, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ElementCount);
    assert!(Order::new(StorageType::F64, TileLayout::COL_MAJOR, 1 << 40, 1 << 40).is_err());
}

/// Weights from a seed: of many magnitudes, some of them zeros.
fn weights(seed: u64, count: usize, zeros: f64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let mut weight = || {
        let unit = |bits: u64| (bits >> 11) as f64 / (1_u64 << 53) as f64;
        let (x, y, zero) = (unit(rng.next_u64()), unit(rng.next_u64()), unit(rng.next_u64()));
        let x = ((x - 0.5) * (y * 3.0 - 1.0).exp2()) as f32;
        if zero < zeros { 0.0 } else { x }
    };
    (0..count).map(|_| weight()).collect()
}

struct Dual {
    codes: Vec<u8>,
    scales: Vec<u8>,
    residual: Vec<u8>,
}

fn dual(form: ScaledForm, weights: &[f32]) -> Result<Dual, ErrorKind> {
    let count = weights.len() as u64;
    let mut codes = vec![0xAA; form.data_len(count) as usize];
    let mut scales = vec![0xAA; form.scales_len(count) as usize];
    let mut residual = vec![0xAA; dual::residual_len(count).unwrap() as usize];
    let result = dual::quantize(form, weights, &mut codes, &mut scales, Some(&mut residual));
    result.map_err(|error| error.kind())?;
    let (codes_with, scales_with) = (codes.clone(), scales.clone());
    dual::quantize(form, weights, &mut codes, &mut scales, None).unwrap();
    assert_eq!((&codes, &scales), (&codes_with, &scales_with));
    Ok(Dual { codes, scales, residual })
}

/// Base and scale of each weight by the page's rule, as plainly as it is written.
fn by_the_page(kind: ScaledType, block: &[f32]) -> (f32, Vec<f32>) {
    let largest = block.iter().fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
    let largest = if largest == 0.0 { 1e-8 } else { largest };
    match kind {
        ScaledType::Dq4 => {
            let nearest = |x: f32| {
                let distance = |value: f32| (f64::from(x) - f64::from(value)).abs();
                let less = |a: &&f32, b: &&f32| distance(**a).total_cmp(&distance(**b));
                *NF4.iter().min_by(less).unwrap()
            };
            (largest, block.iter().map(|x| nearest(x / largest) * largest).collect())
        }
        ScaledType::Dq8 => {
            let scale = largest / 127.0;
            let q = |x: f32| (x * (127.0 / largest)).round();
            (scale, block.iter().map(|&x| q(x) * scale).collect())
        }
        _ => {
            let sum: f64 = block.iter().map(|x| f64::from(x.abs())).sum();
            let mean = (sum / block.len() as f64) as f32;
            let scale = if mean == 0.0 { 1e-8 } else { mean };
            let value = |x: f32| match x {
                x if x > scale / 2.0 => scale,
                x if x < -scale / 2.0 => -scale,
                _ => 0.0,
            };
            (scale, block.iter().map(|&x| value(x)).collect())
        }
    }
}

const DUAL: [ScaledType; 3] = [ScaledType::Dq4, ScaledType::Dq8, ScaledType::Dqt];

#[test]
fn dual_mode_is_what_the_page_says_and_decodes() {
    for kind in DUAL {
        for block in [2, 3, 31, 32, 100, 2048, 4096, 65_535] {
            let form = ScaledForm::new(kind, block).unwrap();
            for count in [1, 2, 5, 100, 999, 70_001] {
                let mut weights = weights(u64::from(block) + count, count as usize, 0.1);
                // A block of zeros, where there are several.
                weights
                    .iter_mut()
                    .take(usize::from(block))
                    .for_each(|w| *w *= f32::from(count < 200));
                let made = dual(form, &weights).unwrap();
                let tensor = build::Tensor {
                    block_size: block,
                    scales: made.scales.clone(),
                    residual: made.residual.clone(),
                    ..build::Tensor::new("w", kind.storage().0, &[count], made.codes.clone())
                };
                let mut expected = Vec::new();
                for (block, scale) in
                    weights.chunks(usize::from(block)).zip(made.scales.as_chunks().0)
                {
                    let (by_page, base) = by_the_page(kind, block);
                    let scale = f32::from_le_bytes(*scale);
                    // A sum in another order may differ in its last bit.
                    assert!((scale / by_page - 1.0).abs() <= f32::EPSILON, "{kind:?}");
                    if scale == by_page {
                        expected.extend(base);
                    } else {
                        expected.extend(block.iter().map(|_| f32::NAN));
                    }
                }
                let base = decoded(tensor.clone(), Residual::Skip);
                let same = |(a, b): (&f32, &f32)| a == b || b.is_nan();
                let what = format!("{kind:?} blocks of {block}, {count} weights");
                assert!(base.iter().zip(&expected).all(same), "{what}");
                let whole = decoded(tensor, Residual::Add);
                for ((whole, base), weight) in whole.iter().zip(&base).zip(&weights) {
                    assert_eq!(whole.to_bits(), (base + (weight - base)).to_bits(), "{what}");
                }
            }
        }
    }
}

#[test]
fn dual_mode_of_the_smallest_and_largest_numbers() {
    let tiny = f32::from_bits(3);
    for kind in DUAL {
        let form = ScaledForm::new(kind, 4).unwrap();
        for weights in [[tiny, 0.0, -tiny, 0.0], [f32::MAX, -f32::MAX, 0.0, 1.0], [1e-38; 4]] {
            let made = dual(form, &weights).unwrap();
            let tensor = build::Tensor {
                block_size: 4,
                scales: made.scales,
                residual: made.residual,
                ..build::Tensor::new("w", kind.storage().0, &[4], made.codes)
            };
            let whole = decoded(tensor, Residual::Add);
            let error = whole.iter().zip(&weights).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let largest = weights.iter().fold(0.0, |largest: f32, w| largest.max(w.abs()));
            assert!(error <= largest * f32::EPSILON, "{kind:?} {weights:?} {whole:?}");
        }
        let error = dual(form, &[1.0, 2.0, f32::NAN]).map(|_| ()).unwrap_err();
        assert_eq!(error, ErrorKind::NotFinite { index: 2 });
    }
    let split = ScaledForm::new(ScaledType::Iq4Nl, 32).unwrap();
    let error = dual::quantize(split, &[0.0; 2], &mut [0], &mut [0; 4], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEncodable(StorageType::IQ4_NL));
    let form = ScaledForm::new(ScaledType::Dq4, 2).unwrap();
    let error = dual::quantize(form, &[0.0; 2], &mut [0; 2], &mut [0; 4], None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EncodedLength { expected: 1, given: 2 });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A payload made in pieces is the payload of the whole.
    #[test]
    fn dual_mode_in_pieces(seed: u64, kind in 0..3usize, block in 2..40u16, count in 1..500usize) {
        let form = ScaledForm::new(DUAL[kind], block).unwrap();
        let weights = weights(seed, count, 0.2);
        let whole = dual(form, &weights).unwrap();
        let mut pieces = Dual { codes: vec![], scales: vec![], residual: vec![] };
        for piece in weights.chunks(usize::from(block) * 3) {
            let piece = dual(form, piece).unwrap();
            pieces.codes.extend(piece.codes);
            pieces.scales.extend(piece.scales);
            pieces.residual.extend(piece.residual);
        }
        prop_assert_eq!(pieces.codes, whole.codes);
        prop_assert_eq!(pieces.scales, whole.scales);
        prop_assert_eq!(pieces.residual, whole.residual);
    }

    #[test]
    fn bitmasks_come_back(seed: u64, count in 0..300usize, zeros in 0.0..1.0) {
        let mut weights = weights(seed, count, zeros);
        weights.iter_mut().step_by(7).for_each(|w| *w = -0.0);
        let mut out = vec![0xAA; bitmask::packed_len(&weights).unwrap() as usize];
        bitmask::pack(&weights, &mut out).unwrap();
        let tensor = build::Tensor::new("w", StorageType::SPARSE_F16.0, &[count as u64], out.clone());
        prop_assert_eq!(bits(&decoded(tensor, Residual::Skip)), bits(&weights));
        if !out.is_empty() {
            prop_assert!(bitmask::pack(&weights, &mut out[1..]).is_err());
        }
    }

    #[test]
    fn pruned_weights_come_back(seed: u64, groups in 0..80usize, correct: bool) {
        let before = weights(seed, groups * 4, 0.2);
        let mut weights = before.clone();
        let scale = if correct { two_of_four::Scale::PreserveNorm } else { two_of_four::Scale::Keep };
        two_of_four::prune(&mut weights, scale).unwrap();
        let mut out = vec![0xAA; two_of_four::packed_len(weights.len() as u64).unwrap() as usize];
        two_of_four::pack(&weights, &mut out).unwrap();
        let shape = [weights.len() as u64];
        let tensor = build::Tensor::new("w", StorageType::SPARSE_2_4.0, &shape, out);
        prop_assert_eq!(bits(&decoded(tensor, Residual::Skip)), bits(&weights));
        // A pruned tensor is left alone.
        let mut again = weights.clone();
        two_of_four::prune(&mut again, two_of_four::Scale::Keep).unwrap();
        prop_assert_eq!(again, weights);
    }

    #[test]
    fn sparse_blocks_come_back(
        seed: u64,
        size in (1..30u64, 1..30u64),
        block in (1..9u16, 1..9u16),
        zeros in 0.5..1.0,
    ) {
        let mut weights = weights(seed, (size.0 * size.1) as usize, zeros);
        weights.iter_mut().step_by(11).for_each(|w| *w = -0.0);
        let shape = BlockShape::new(block.0, block.1).unwrap();
        let columns = size.1 as usize;
        let mut out = vec![0xAA; bsr::packed_len(shape, &weights, columns).unwrap() as usize];
        bsr::pack(shape, &weights, columns, &mut out).unwrap();
        let tensor = build::Tensor {
            codes: [StorageType::F32.0, 0, hk_core::SparsityType::BSR.0],
            ..build::Tensor::new("w", StorageType::F32.0, &[size.0, size.1], out.clone())
        };
        prop_assert_eq!(bits(&decoded(tensor, Residual::Skip)), bits(&weights));
        // By bands, as a writer makes it that cannot hold the whole.
        let mut pieces = [vec![0; 4], vec![], vec![]];
        let mut total = 0;
        for band in weights.chunks(columns * shape.rows()) {
            let count = bsr::count(shape, band, columns);
            total += count as u32;
            pieces[0].extend(total.to_le_bytes());
            let mut part = vec![0; count as usize * 4];
            bsr::block_columns(shape, band, columns, &mut part).unwrap();
            pieces[1].extend(&part);
            let mut part = vec![0xAA; count as usize * 4 * shape.rows() * shape.columns()];
            bsr::values(shape, band, columns, &mut part).unwrap();
            pieces[2].extend(&part);
        }
        let head = shape.head(size.0, u64::from(total)).unwrap();
        prop_assert_eq!([&head[..], &pieces.concat()].concat(), out);
    }
}

#[test]
fn sparse_shapes_that_cannot_be() {
    let fault = |result: Result<u64, hk_core::Error>| result.unwrap_err().kind();
    assert!(BlockShape::new(0, 3).is_err() && BlockShape::new(3, 0).is_err());
    let one = BlockShape::ONE;
    let error = fault(bsr::packed_len(one, &[0.0; 7], 3));
    assert_eq!(error, ErrorKind::RowLength { weights: 7, multiple: 3 });
    assert_eq!(fault(one.len(1 << 32, 0)), ErrorKind::ElementCount);
    assert_eq!(fault(one.len(1, 1 << 32)), ErrorKind::ElementCount);
    let wide = BlockShape::new(u16::MAX, u16::MAX).unwrap();
    assert_eq!(fault(wide.len(1, u64::from(u32::MAX))), ErrorKind::ElementCount);
    let error = fault(two_of_four::packed_len(6));
    assert_eq!(error, ErrorKind::Sparse(SparseFault::Groups { count: 6 }));
    let mut row = vec![0.0; 4];
    Portable.dequantize(StorageType::F32, &[0; 16], &mut row).unwrap();
    assert_eq!(bsr::packed_len(one, &row, 4).unwrap(), 12 + 2 * 4);
}
