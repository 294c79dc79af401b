//! Ranges against whole tensors: any span of any plain type decodes to that part of the
//! whole, from the whole file, from the payload, and from just the bytes that cover it.

use std::ops::Range;

use hk_core::{
    Backend, Error, ErrorKind, Hk, Portable, Residual, Shape, StorageType, Tensor, decode,
};
use hk_tests::rng::Rng;
use hk_tests::{bits, build, data};
use proptest::prelude::*;
use proptest::sample::select;

/// Every type whose payload is elements or blocks one after another.
fn plain_types() -> Vec<StorageType> {
    let plain: Vec<_> = StorageType::all().filter(|storage| storage.geometry().is_some()).collect();
    assert_eq!(plain.len(), 15 + 25);
    plain
}

/// A file with one tensor of `count` elements of random bytes.
fn file_of(storage: StorageType, count: u64, seed: u64) -> Vec<u8> {
    let size = storage.payload_len(&[count]).expect("a small tensor");
    let payload = Rng::new(seed).bytes(size as usize);
    let builder = build::Builder { alignment: 1, ..build::Builder::default() };
    builder.tensor(build::Tensor::new("t", storage.0, &[count], payload)).build().bytes
}

fn decode(tensor: &Tensor<'_>, range: Range<u64>) -> Result<Vec<u32>, Error> {
    // Not zeros: a weight that is left out shows.
    let mut out = vec![f32::from_bits(0x7F80_5A5A); (range.end - range.start) as usize];
    tensor.dequantize_range(&Portable, range, &mut out, Residual::Add)?;
    Ok(bits(&out))
}

/// A type, an element count that need not fill its blocks, two ends and a seed.
fn spans() -> impl Strategy<Value = (StorageType, u64, Range<u64>, u64)> {
    (select(plain_types()), 0u64..1500).prop_flat_map(|(storage, count)| {
        (0..=count, 0..=count, any::<u64>())
            .prop_map(move |(a, b, seed)| (storage, count, a.min(b)..a.max(b), seed))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_range_is_a_part_of_the_whole((storage, count, range, seed) in spans()) {
        let file = file_of(storage, count, seed);
        let hk = Hk::parse(&file).expect("a sound file");
        let tensor = hk.tensor("t").expect("is listed");
        let whole = decode(&tensor, 0..count).expect("decodes");
        let part = &whole[range.start as usize..range.end as usize];
        prop_assert_eq!(&decode(&tensor, range.clone()).expect("decodes"), part);

        // From just the bytes that cover it, wherever they lie in memory.
        let cover = decode::cover(storage, range.clone()).expect("a small range");
        let payload = &tensor.data()[cover.bytes.start as usize..cover.bytes.end as usize];
        let mut moved = vec![0xA5; payload.len() + 9];
        let at = (seed % 8) as usize;
        moved[at..at + payload.len()].copy_from_slice(payload);
        let mut out = vec![0.5; part.len()];
        let moved = &moved[at..at + payload.len()];
        decode::dequantize_slice(&Portable, storage, moved, cover.skip, &mut out)
            .expect("the bytes are enough");
        prop_assert_eq!(&bits(&out), part);

        // Where the file holds them.
        let located = tensor.locate(range.clone()).expect("is plain");
        prop_assert_eq!(located.skip, cover.skip);
        let from_file = &file[located.bytes.start as usize..located.bytes.end as usize];
        prop_assert_eq!(from_file, payload);
    }

    #[test]
    fn the_bytes_that_cover_a_range_are_no_more_than_its_blocks(
        (storage, count, range, _) in spans()
    ) {
        let geometry = storage.geometry().expect("plain");
        let (weights, bytes) = (u64::from(geometry.weights), u64::from(geometry.bytes));
        let cover = decode::cover(storage, range.clone()).expect("a small range");
        if range.is_empty() {
            prop_assert!(cover.bytes.is_empty());
        } else {
            let (first, last) = (range.start / weights, (range.end - 1) / weights);
            prop_assert_eq!(cover.bytes.clone(), first * bytes..(last + 1) * bytes);
            prop_assert_eq!(cover.skip as u64, range.start % weights);
        }
        prop_assert!(cover.bytes.end <= storage.payload_len(&[count]).expect("small"));
        let one_short = cover.bytes.end.saturating_sub(cover.bytes.start + 1) as usize;
        if !range.is_empty() {
            let mut out = vec![0.5; (range.end - range.start) as usize];
            let short = vec![0; one_short];
            let result = decode::dequantize_slice(&Portable, storage, &short, cover.skip, &mut out);
            let kind = result.expect_err("one byte short").kind();
            prop_assert!(matches!(kind, ErrorKind::TooShort { .. }), "{:?}", kind);
        }
    }

    #[test]
    fn payload_len_counts_blocks(
        storage in select(plain_types()),
        shape in prop::collection::vec(0u64..40, 0..5),
    ) {
        let geometry = storage.geometry().expect("plain");
        let count: u64 = shape.iter().product();
        prop_assert_eq!(Shape::new(&shape).expect("small").count(), count);
        let blocks = count.div_ceil(u64::from(geometry.weights));
        let expected = blocks * u64::from(geometry.bytes);
        prop_assert_eq!(storage.payload_len(&shape), Ok(expected));
        // What a payload of that length decodes to, and what one byte less does not.
        let mut out = vec![0.5; count as usize];
        let payload = vec![0; expected as usize];
        prop_assert_eq!(Portable.dequantize(storage, &payload, &mut out), Ok(()));
        if let Some((_, short)) = payload.split_first() {
            let kind = Portable.dequantize(storage, short, &mut out).map_err(|e| e.kind());
            let needs = matches!(kind, Err(ErrorKind::TooShort { needed, .. }) if needed == expected);
            prop_assert!(needs, "{:?}", kind);
        }
    }

    #[test]
    fn huge_shapes_overflow_to_errors(
        storage in select(plain_types()),
        shape in prop::collection::vec(prop_oneof![any::<u64>(), 1u64..9, Just(1 << 32)], 1..5),
    ) {
        let product = shape.iter().try_fold(1u128, |n, &dim| n.checked_mul(u128::from(dim)));
        let count = if shape.contains(&0) { Some(0) } else { product };
        let count = count.filter(|&count| count <= u128::from(u64::MAX));
        prop_assert_eq!(Shape::new(&shape).is_ok(), count.is_some());
        let geometry = storage.geometry().expect("plain");
        let size = count.map(|n| n.div_ceil(geometry.weights.into()) * u128::from(geometry.bytes));
        let size = size.and_then(|size| u64::try_from(size).ok());
        prop_assert_eq!(storage.payload_len(&shape).ok(), size);
    }
}

/// One tensor of 700 elements of each plain type.
fn each_type(mut check: impl FnMut(&Tensor<'_>)) {
    for storage in plain_types() {
        let file = file_of(storage, 700, 9);
        let hk = Hk::parse(&file).expect("a sound file");
        check(&hk.tensor("t").expect("is listed"));
    }
}

#[test]
fn every_start_in_a_block() {
    each_type(|tensor| {
        let whole = decode(tensor, 0..700).expect("decodes");
        for start in 0..=300 {
            for len in [0, 1, 31, 33, 256, 300] {
                let part = decode(tensor, start..start + len).expect("decodes");
                let expected = &whole[start as usize..(start + len) as usize];
                assert_eq!(part, expected, "{} {start}+{len}", tensor.storage);
            }
        }
    });
}

#[test]
fn empty_ranges_everywhere() {
    each_type(|tensor| {
        for at in [0, 1, 31, 32, 255, 256, 699, 700] {
            assert_eq!(decode(tensor, at..at), Ok(Vec::new()), "{} at {at}", tensor.storage);
        }
    });
}

#[test]
#[expect(clippy::reversed_empty_ranges)]
fn ranges_that_are_none() {
    each_type(|tensor| {
        let count = 700;
        for (start, end) in [(0, 701), (700, 701), (701, 701), (5, 4), (0, u64::MAX), (700, 0)] {
            let mut out = [0.5; 4];
            let error = tensor.dequantize_range(&Portable, start..end, &mut out, Residual::Add);
            let error = error.expect_err("no such range");
            assert_eq!(error.kind(), ErrorKind::Range { start, end, count });
            assert_eq!(error.index(), Some(0));
            assert_eq!(out, [0.5; 4]);
            let located = tensor.locate(start..end).map_err(|e| e.kind());
            assert_eq!(located, Err(ErrorKind::Range { start, end, count }));
        }
    });
    let reversed = decode::cover(StorageType::Q4_0, 3..2).map_err(|e| e.kind());
    assert!(matches!(reversed, Err(ErrorKind::Range { start: 3, end: 2, .. })));
}

#[test]
fn outputs_of_the_wrong_length() {
    each_type(|tensor| {
        for given in [0, 1, 63, 65] {
            let mut out = vec![0.5; given];
            let kind = ErrorKind::OutputLength { expected: 64, given: given as u64 };
            let error = tensor.dequantize_range(&Portable, 10..74, &mut out, Residual::Add);
            assert_eq!(error.expect_err("a wrong length").kind(), kind);
            let kind = ErrorKind::OutputLength { expected: 700, given: given as u64 };
            let error = tensor.dequantize_into(&Portable, &mut out, Residual::Add);
            assert_eq!(error.expect_err("a wrong length").kind(), kind);
            assert!(out.iter().all(|&weight| weight == 0.5));
        }
    });
}

#[test]
fn a_payload_one_byte_short() {
    for storage in plain_types() {
        let needed = storage.payload_len(&[700]).expect("small");
        let payload = vec![0; needed as usize - 1];
        let tensor = build::Tensor::new("t", storage.0, &[700], payload);
        let file = build::Builder::default().tensor(tensor).build().bytes;
        let hk = Hk::parse(&file).expect("parses all the same");
        // Not even the elements that are there: a short payload is wrong as a whole.
        let tensor = hk.tensor("t").expect("is listed");
        let error = decode(&tensor, 0..1).expect_err("too short");
        let part = hk_core::Part::Data;
        let kind = ErrorKind::TooShort { part, needed, available: needed - 1 };
        assert_eq!((error.kind(), error.index()), (kind, Some(0)), "{storage}");
        assert_eq!(error.offset(), tensor.data.offset);
        assert_eq!(tensor.locate(0..1).map_err(|e| e.kind()), Err(kind));
    }
}

#[test]
fn references_by_ranges() {
    let file = data("reference/all_types.hk");
    let hk = Hk::parse(&file).expect("a sound file");
    let nothing = hk.tensor("nothing").expect("is listed");
    assert_eq!(decode(&nothing, 3..17), Ok(vec![0; 14]));
    assert!(decode(&nothing, 3..21).is_err());
    let (tied, f32) = (hk.tensor("tied").expect("listed"), hk.tensor("f32").expect("listed"));
    assert_eq!(decode(&tied, 100..109), decode(&f32, 100..109));
}
