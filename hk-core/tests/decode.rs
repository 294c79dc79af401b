//! Every plain type decodes block by block as it decodes whole, from any place in memory,
//! and touches no more bytes than its blocks. Small enough for Miri, which sees to the rest:
//! the values themselves are compared with golden vectors in the tests package.

use hk_core::{Activation, Backend, ErrorKind, Portable, StorageType, decode, dot};

fn plain() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|storage| storage.geometry().is_some())
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A payload of whole blocks, at least 300 weights of them, and how many that are.
fn payload(storage: StorageType) -> (Vec<u8>, usize) {
    let geometry = storage.geometry().unwrap();
    let (weights, bytes) = (geometry.weights as usize, geometry.bytes as usize);
    let blocks = if weights == 1 { 300 } else { 512 / weights };
    (noise(blocks * bytes), blocks * weights)
}

/// Bit patterns; one for all NaNs, since the bits of those that arithmetic makes are left to
/// the host, and Miri makes a different one each time.
fn bits(weights: &[f32]) -> Vec<u32> {
    let bits = |weight: &f32| if weight.is_nan() { 0x7FC0_0000 } else { weight.to_bits() };
    weights.iter().map(bits).collect()
}

/// Decodes `count` weights after the first `start` from `bytes`, which hold all of them.
fn decode(storage: StorageType, bytes: &[u8], start: usize, count: usize) -> Vec<u32> {
    let range = start as u64..(start + count) as u64;
    let cover = decode::cover(storage, range).unwrap();
    let bytes = &bytes[cover.bytes.start as usize..cover.bytes.end as usize];
    let mut out = vec![f32::from_bits(0x7F80_5A5A); count];
    decode::dequantize_slice(&Portable, storage, bytes, cover.skip, &mut out).unwrap();
    bits(&out)
}

#[test]
fn parts_are_parts_of_the_whole() {
    for storage in plain() {
        let (bytes, count) = payload(storage);
        let whole = decode(storage, &bytes, 0, count);
        for (start, len) in [(0, 1), (1, 31), (31, 2), (64, 64), (200, 90), (count - 1, 1)] {
            let part = decode(storage, &bytes, start, len);
            assert_eq!(part, whole[start..start + len], "{storage} {start}+{len}");
        }
        assert_eq!(decode(storage, &bytes, 17, 0), [0u32; 0], "{storage}");
    }
}

#[test]
fn no_alignment_is_needed() {
    for storage in plain() {
        let (bytes, count) = payload(storage);
        let mut out = vec![0.5; count];
        Portable.dequantize(storage, &bytes, &mut out).unwrap();
        let expected = bits(&out);
        let moved = [&[0x5A; 3][..], &bytes].concat();
        Portable.dequantize(storage, &moved[3..], &mut out).unwrap();
        assert_eq!(bits(&out), expected, "{storage}");
    }
}

#[test]
fn one_byte_short_is_an_error() {
    for storage in plain() {
        let (bytes, count) = payload(storage);
        let short = &bytes[..bytes.len() - 1];
        let error = Portable.dequantize(storage, short, &mut vec![0.5; count]).unwrap_err();
        let (needed, available) = (bytes.len() as u64, short.len() as u64);
        let part = hk_core::Part::Data;
        assert_eq!(error.kind(), ErrorKind::TooShort { part, needed, available }, "{storage}");
        let cover = decode::cover(storage, 3..count as u64).unwrap();
        let mut out = vec![0.5; count - 3];
        let short = &short[cover.bytes.start as usize..];
        let result = decode::dequantize_slice(&Portable, storage, short, cover.skip, &mut out);
        assert!(result.is_err(), "{storage}");
    }
}

#[test]
fn other_types_are_named() {
    for storage in (0..=255).map(StorageType).filter(|storage| storage.geometry().is_none()) {
        let error = Portable.dequantize(storage, &[0; 64], &mut [0.5; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecodable(storage));
        if storage != StorageType::NULL_REF {
            let error = decode::cover(storage, 0..4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Undecodable(storage));
            let error = decode::dequantize_slice(&Portable, storage, &[0; 64], 1, &mut [0.5; 4]);
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Undecodable(storage));
        }
    }
}

#[test]
fn covers_far_out_do_not_wrap() {
    let most = u64::MAX;
    assert_eq!(decode::cover(StorageType::INT8, 0..most).unwrap().bytes, 0..most);
    for storage in [StorageType::F64, StorageType::F16, StorageType::Q8_1] {
        let error = decode::cover(storage, 0..most).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ElementCount, "{storage}");
        let error = decode::cover(storage, most - 1..most).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ElementCount, "{storage}");
    }
    let cover = decode::cover(StorageType::Q4_0, most - 1..most).unwrap();
    assert_eq!((cover.span().size, cover.skip), (18, 30));
    assert!(decode::dequantize_slice(&Portable, StorageType::Q4_0, &[], 32, &mut [0.5]).is_err());
}

#[test]
fn products_of_any_bytes_are_those_of_the_definition() {
    let row: Vec<f32> =
        (0..if cfg!(miri) { 256 } else { 512 }).map(|i| (i as f32 - 200.0) * 1e30).collect();
    for storage in plain() {
        let mut scratch = vec![0; Activation::scratch_len(storage, row.len())];
        let Ok(activation) = Portable.activation(storage, &row, &mut scratch) else { continue };
        let size = storage.payload_len(&[row.len() as u64]).unwrap() as usize;
        let rows = noise(2 * size);
        let mut out = [0.5; 2];
        Portable.dot_rows(storage, &rows, activation, &mut out).unwrap();
        let mut expected = [0.5; 2];
        dot::oracle::dot_rows(storage, &rows, activation, &mut expected).unwrap();
        for (found, expected) in out.iter().zip(expected) {
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{storage}: {found:e}, expected {expected:e}");
        }
        assert!(Portable.dot_rows(storage, &rows[1..], activation, &mut out).is_err(), "{storage}");
    }
}
