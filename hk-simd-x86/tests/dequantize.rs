//! Every level decodes to the bits of `Portable`.

mod common;

use common::{AtTheEdge, Random, payload, same, types};
use hk_core::{Backend, Portable, StorageType};
use hk_simd_x86::variants;

fn check(name: &str, backend: &dyn Backend, storage: StorageType, payload: &[u8], out: &mut [f32]) {
    let mut expected = vec![0.0; out.len()];
    Portable.dequantize(storage, payload, &mut expected).unwrap();
    out.fill(-1.5);
    backend.dequantize(storage, payload, out).unwrap();
    for (i, (&weight, &expected)) in out.iter().zip(&expected).enumerate() {
        let of = out.len();
        // Dense floats move a NaN as it is; arithmetic makes a new one.
        let moved = storage.is_dense() && storage != StorageType::F64;
        let right =
            if moved { weight.to_bits() == expected.to_bits() } else { same(weight, expected) };
        assert!(right, "{name}, {storage}: {weight} for {expected}, {i} of {of}");
    }
}

/// Lengths of whole blocks and of parts, few and many.
fn lengths(block: usize) -> Vec<usize> {
    if cfg!(miri) {
        return vec![2 * block + block.div_ceil(2)];
    }
    let mut lengths: Vec<usize> = (0..=9).map(|blocks| blocks * block).collect();
    lengths.extend([1, 2, 7, 15, 17, 31, 33, 63, 65, 100, 255, 257, 1000, 4099]);
    lengths.extend([block - 1, block + 1, 5 * block - 1, 33 * block + block / 2, 64 * block]);
    lengths
}

#[test]
fn random_blocks() {
    for (name, backend) in variants() {
        for storage in types() {
            let geometry = storage.geometry().unwrap();
            for len in lengths(geometry.weights as usize) {
                let mut random = Random::new(len);
                let blocks = len.div_ceil(geometry.weights as usize);
                let payload = payload(storage, blocks, &mut random);
                let mut edge = AtTheEdge::new(payload.len());
                let source = edge.bytes(payload.len());
                source.copy_from_slice(&payload);
                check(name, backend, storage, source, &mut vec![0.0; len]);
            }
        }
    }
}

/// A source at every address of a cache line, and an output at every one it can have; the
/// weights around the output stay as they were.
#[test]
#[cfg_attr(miri, ignore = "long, and the same instructions as above")]
fn any_alignment() {
    for (name, backend) in variants() {
        for storage in types() {
            let geometry = storage.geometry().unwrap();
            let blocks = 600_usize.div_ceil(geometry.weights as usize);
            let len = blocks * geometry.weights as usize - geometry.weights as usize / 2;
            let payload = payload(storage, blocks, &mut Random::new(1));
            for shift in 0..64 {
                let mut source = vec![0xAA; 64 + payload.len()];
                source[shift..][..payload.len()].copy_from_slice(&payload);
                let mut out = vec![7.0; 32 + len];
                let at = shift % 16;
                check(name, backend, storage, &source[shift..], &mut out[at..][..len]);
                assert!(out[..at].iter().chain(&out[at + len..]).all(|&x| x == 7.0));
            }
        }
    }
}

/// Every f16, bf16 and 8-bit number.
#[test]
#[cfg_attr(miri, ignore = "long, and the same instructions as above")]
fn every_small_number() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let mut out = vec![0.0; 65_536];
    for (name, backend) in variants() {
        for storage in types().filter(|s| s.geometry().unwrap().bytes <= 2) {
            check(name, backend, storage, &halves, &mut out);
        }
    }
}

#[test]
fn the_errors_of_portable() {
    for (name, backend) in variants() {
        for storage in StorageType::all() {
            let mut out = [0.0; 300];
            let expected = Portable.dequantize(storage, &[0; 7], &mut out);
            assert!(expected.is_err());
            assert_eq!(backend.dequantize(storage, &[0; 7], &mut out), expected, "{name}");
        }
    }
}

/// Outputs that are too large for the caches, which are written in another way: with a part
/// of a block and of more at the end, and at several alignments.
#[test]
fn beyond_the_caches() {
    const LEN: usize = if cfg!(miri) { 2048 + 17 } else { (8 << 20) + 3000 + 17 };
    let mut out = vec![7.0; LEN + 16];
    let types = [StorageType::Q4_0, StorageType::BF16, StorageType::Q6_K];
    for storage in types.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        let blocks = LEN.div_ceil(storage.geometry().unwrap().weights as usize);
        let payload = payload(storage, blocks, &mut Random::new(2));
        for (name, backend) in variants() {
            for at in if cfg!(miri) { vec![5] } else { vec![0, 1, 5, 16] } {
                out.fill(7.0);
                check(name, backend, storage, &payload, &mut out[at..][..LEN]);
                assert!(out[..at].iter().chain(&out[at + LEN..]).all(|&x| x == 7.0));
            }
        }
    }
}
