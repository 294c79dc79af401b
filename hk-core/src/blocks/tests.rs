use std::vec;
use std::vec::Vec;

use super::*;

/// Every type that this build decodes.
fn decodable() -> impl Iterator<Item = StorageType> {
    StorageType::all().filter(|&storage| dequantize(storage, &[], &mut []).is_ok())
}

/// Pseudorandom bytes, the same in every run.
fn random(len: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A payload of `count` weights.
fn payload(storage: StorageType, count: usize) -> Vec<u8> {
    random(storage.payload_len(&[count as u64]).unwrap() as usize)
}

fn decoded(storage: StorageType, payload: &[u8], count: usize) -> Vec<f32> {
    // Not zeros: a weight that is left out shows.
    let mut out = vec![f32::from_bits(0x7F80_5A5A); count];
    dequantize(storage, payload, &mut out).unwrap();
    out
}

#[track_caller]
fn assert_same(found: &[f32], expected: &[f32], what: &dyn core::fmt::Display) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same, "{what}: weight {i} is {a:e}, expected {b:e}");
    }
}

#[test]
fn every_code_decodes_or_says_why_not() {
    let families = [
        (0x40..=0x45, cfg!(feature = "k-quants")),
        (0x50..=0x58, cfg!(feature = "i-quants")),
        (0x60..=0x61, cfg!(feature = "ternary")),
        (0x62..=0x63, cfg!(feature = "fp4")),
    ];
    let built_in = |StorageType(code)| families.iter().all(|(f, on)| *on || !f.contains(&code));
    for storage in (0..=255).map(StorageType) {
        let result = dequantize(storage, &[], &mut []).map_err(|error| error.kind());
        let expected = if !storage.is_dense() && !storage.is_block() {
            Err(ErrorKind::Undecodable(storage))
        } else if built_in(storage) {
            Ok(())
        } else {
            Err(ErrorKind::NotBuiltIn(storage))
        };
        assert_eq!(result, expected, "{storage}");
    }
}

#[test]
fn a_part_is_the_beginning_of_the_whole() {
    for storage in decodable() {
        let block = storage.geometry().unwrap().weights as usize;
        // Elements are decoded up to 64 a step.
        let unit = block.max(64);
        let count = 2 * unit + unit / 2 + 1;
        let payload = payload(storage, count);
        let whole = decoded(storage, &payload, count);
        for part in [0, 1, block - 1, block, block + 1, unit / 2, unit, unit + 3, 2 * unit] {
            if cfg!(miri) && part % unit == 0 {
                continue;
            }
            assert_same(&decoded(storage, &payload, part), &whole[..part], &storage);
        }
    }
}

#[test]
fn a_payload_can_start_anywhere() {
    for storage in decodable() {
        let count = 2 * storage.geometry().unwrap().weights as usize;
        let payload = payload(storage, count);
        let expected = decoded(storage, &payload, count);
        for start in 1..if cfg!(miri) { 2 } else { 8 } {
            let mut moved = vec![0xA5; start];
            moved.extend_from_slice(&payload);
            // More bytes than needed are left alone.
            moved.push(0xA5);
            assert_same(&decoded(storage, &moved[start..], count), &expected, &storage);
        }
    }
}

#[test]
fn a_payload_that_ends_early_is_an_error() {
    for storage in decodable() {
        let geometry = storage.geometry().unwrap();
        let (weights, bytes) = (geometry.weights as usize, u64::from(geometry.bytes));
        for (count, needed) in [(1, bytes), (weights, bytes), (weights + 1, 2 * bytes)] {
            for available in [0, needed - 1] {
                let payload = random(available as usize);
                let error = dequantize(storage, &payload, &mut vec![0.0; count]).unwrap_err();
                let part = Part::Data;
                assert_eq!(error.kind(), ErrorKind::TooShort { part, needed, available });
            }
        }
    }
}

#[test]
fn an_f16_becomes_the_same_number() {
    for code in (0..=u16::MAX).step_by(if cfg!(miri) { 61 } else { 1 }) {
        let (exponent, fraction) = (i32::from(code >> 10 & 31), code & 0x3FF);
        let sign = u32::from(code >> 15) << 31;
        let expected = match (exponent, fraction) {
            (31, 0) => 0x7F80_0000,
            (31, _) => 0x7FC0_0000 | u32::from(fraction) << 13,
            (0, _) => (f32::from(fraction) / 16_777_216.0).to_bits(),
            _ => {
                let power = f32::from_bits(((exponent - 15 + 127) as u32) << 23);
                (power * (1.0 + f32::from(fraction) / 1024.0)).to_bits()
            }
        };
        let half = F16(code.to_le_bytes());
        assert_eq!(half.to_f32().to_bits(), sign | expected, "{code:#06x}");
        let scale = half.widened();
        if scale.is_nan() {
            assert!(half.to_f32().is_nan(), "{code:#06x}");
        } else {
            assert_eq!(scale.to_bits(), sign | expected, "{code:#06x}");
        }
    }
}

#[test]
fn eight_bit_floats_become_the_same_numbers() {
    let codes: Vec<u8> = (0..=255).collect();
    let e5m2 = decoded(StorageType::FP8_E5M2, &codes, 256);
    let e4m3 = decoded(StorageType::FP8_E4M3, &codes, 256);
    for (code, (e5m2, e4m3)) in (0..=255_u8).zip(e5m2.into_iter().zip(e4m3)) {
        let half = F16([0, code]).to_f32();
        let expected = if half.is_nan() { 0x7FC0_0000 } else { half.to_bits() };
        assert_eq!(e5m2.to_bits(), expected, "{code:#04x}");

        let (exponent, fraction) = (i32::from(code >> 3 & 15), f32::from(code & 7) / 8.0);
        let magnitude = match exponent {
            0 => fraction / 64.0,
            _ => (1.0 + fraction) * f32::from_bits(((exponent - 7 + 127) as u32) << 23),
        };
        let expected = match code & 0x7F {
            0x7F => 0x7FC0_0000,
            _ => magnitude.to_bits() | u32::from(code >> 7) << 31,
        };
        assert_eq!(e4m3.to_bits(), expected, "{code:#04x}");
    }
}

#[test]
fn integers_round_to_nearest_even() {
    let numbers: Vec<u64> = (0..64)
        .flat_map(|bit| [(1_u64 << bit).wrapping_sub(1), 1 << bit, (1 << bit) + 1])
        .flat_map(|n| [n, n << 39, !n, n.wrapping_mul(0x00FF_FFFF_8000_0001)])
        .collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let expect = |storage, expected: Vec<f32>| {
        assert_same(&decoded(storage, &bytes, expected.len()), &expected, &storage);
    };
    expect(StorageType::UINT64, numbers.iter().map(|&n| n as f32).collect());
    expect(StorageType::INT64, numbers.iter().map(|&n| n as i64 as f32).collect());
    let halves = || numbers.iter().flat_map(|&n| [n as u32, (n >> 32) as u32]);
    expect(StorageType::UINT32, halves().map(|n| n as f32).collect());
    expect(StorageType::INT32, halves().map(|n| n as i32 as f32).collect());
    expect(StorageType::INT8, bytes.iter().map(|&n| f32::from(n as i8)).collect());
    expect(StorageType::BOOL, bytes.iter().map(|&n| f32::from(u8::from(n != 0))).collect());
}

/// Blocks with one bit or nibble set at a time, weights worked out by hand from blocks.md.
#[test]
fn legacy_blocks_by_hand() {
    // d = 0.5, m = -1, the fifth bit of weights 1 and 31, nibbles 3 and 12 in byte 15.
    let (d, m, qh) = ([0x00, 0x38], [0x00, 0xBC], [0x02, 0, 0, 0x80]);
    let mut qs = [0; 16];
    qs[15] = 0xC3;
    let expect = |storage, parts: &[&[u8]], rest: f32, set: &[(usize, f32)]| {
        let mut expected = [rest; 32];
        for &(i, w) in set {
            expected[i] = w;
        }
        assert_same(&decoded(storage, &parts.concat(), 32), &expected, &storage);
    };
    expect(StorageType::Q4_0, &[&d, &qs], -4.0, &[(15, -2.5), (31, 2.0)]);
    expect(StorageType::Q4_1, &[&d, &m, &qs], -1.0, &[(15, 0.5), (31, 5.0)]);
    let set = [(1, 0.0), (15, -6.5), (31, 6.0)];
    expect(StorageType::Q5_0, &[&d, &qh, &qs], -8.0, &set);
    let set = [(1, 7.0), (15, 0.5), (31, 13.0)];
    expect(StorageType::Q5_1, &[&d, &m, &qh, &qs], -1.0, &set);
    let set = [(15, -30.5)];
    expect(StorageType::Q8_0, &[&d, &qs, &[0; 16]], 0.0, &set);
    expect(StorageType::Q8_1, &[&d, &m, &qs, &[0; 16]], 0.0, &set);
}

/// A scale of -0 gives zeros of the sign that a product has.
#[test]
fn the_sign_of_zero_is_that_of_a_product() {
    let mut block = [0x98; 18];
    block[..2].copy_from_slice(&[0x00, 0x80]);
    let found = decoded(StorageType::Q4_0, &block, 32);
    assert!(found.iter().all(|w| w.to_bits() == 1 << 31), "{found:?}");
    block[2..].fill(0x77);
    let found = decoded(StorageType::Q4_0, &block, 32);
    assert!(found.iter().all(|w| w.to_bits() == 0), "{found:?}");
}
