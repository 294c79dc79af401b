//! Blocks with scales beside them, 2:4 groups and bitmasks: the bits of `Portable`, in every
//! length, and not a byte read past the end.

mod common;

use common::{AtTheEdge, Random, same};
use hk_core::blocks::{ScaledBlocks, ScaledForm, ScaledType};
use hk_core::{Backend, Portable};
use hk_simd_x86::variants;

const KINDS: [ScaledType; 6] = [
    ScaledType::Dq4,
    ScaledType::Dq8,
    ScaledType::Dqt,
    ScaledType::Iq4Nl,
    ScaledType::Mxfp4,
    ScaledType::Nvfp4,
];

fn assert_same(what: &str, found: &[f32], expected: &[f32]) {
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        assert!(same(found, expected), "{what}: {found} for {expected}, weight {i}");
    }
}

/// Bytes at the edge of what may be read, each part of its own.
struct Parts([AtTheEdge; 3]);

impl Parts {
    fn new(len: usize) -> Self {
        Parts([(); 3].map(|()| AtTheEdge::new(len)))
    }

    fn of(&mut self, parts: [&[u8]; 3]) -> [&[u8]; 3] {
        let mut edges = self.0.iter_mut();
        parts.map(|part| {
            let place = edges.next().unwrap().bytes(part.len());
            place.copy_from_slice(part);
            &*place
        })
    }
}

/// Scales of which most are ordinary numbers; the others are any: infinite, NaN, subnormal.
fn scales(bytes: usize, blocks: usize, random: &mut Random) -> Vec<u8> {
    let ordinary = random.floats(blocks);
    let mut scales = random.bytes(bytes * blocks);
    if bytes == 4 {
        for (scale, ordinary) in scales.chunks_exact_mut(4).zip(ordinary) {
            if !random.next().is_multiple_of(4) {
                scale.copy_from_slice(&ordinary.to_le_bytes());
            }
        }
    }
    scales
}

#[test]
fn scaled_blocks() {
    let sizes: &[u16] = if cfg!(miri) {
        &[3, 31, 64]
    } else {
        &[1, 2, 3, 7, 8, 9, 16, 24, 31, 32, 33, 64, 100, 128, 129, 2048, 4096, 65_535]
    };
    let mut parts = Parts::new(1 << 20);
    for kind in KINDS {
        for &size in sizes {
            let form = ScaledForm::new(kind, size).unwrap();
            let block = usize::from(form.block().get());
            let most = if cfg!(miri) { 200 } else { 3 * block + 130 };
            for len in [0, 1, 5, 15, 16, 17, 100, block - 1, block, block + 1, 2 * block + 21, most]
            {
                let len = len.min(most);
                let mut random = Random::new(len + block);
                let codes = random.bytes(form.data_len(len as u64) as usize);
                let scales =
                    scales(kind.scale_bytes(), form.blocks(len as u64) as usize, &mut random);
                let added: Vec<u8> =
                    random.floats(len).into_iter().flat_map(f32::to_le_bytes).collect();
                for residual in [&[][..], &added] {
                    let [codes, scales, residual] = parts.of([&codes, &scales, residual]);
                    let blocks = ScaledBlocks { form, codes, scales, residual };
                    let mut expected = vec![0.5; len];
                    Portable.dequantize_scaled(&blocks, &mut expected).unwrap();
                    for (name, backend) in variants() {
                        let mut out = vec![7.0; len + 32];
                        backend.dequantize_scaled(&blocks, &mut out[16..16 + len]).unwrap();
                        let what = format!("{name}, {kind:?} by {block}");
                        assert_same(&what, &out[16..16 + len], &expected);
                        let around = out[..16].iter().chain(&out[16 + len..]);
                        assert!(around.copied().all(|x| x == 7.0), "{what}");
                    }
                }
            }
        }
    }
}

/// Every code with every scale of one byte.
#[test]
fn scales_of_a_byte() {
    for kind in [ScaledType::Mxfp4, ScaledType::Nvfp4] {
        let form = ScaledForm::new(kind, 0).unwrap();
        let count = if cfg!(miri) { 16 } else { 256 };
        let len = count * usize::from(form.block().get());
        let scales: Vec<u8> = (0..=255).collect();
        let codes: Vec<u8> = (0..len / 2).map(|i| (i * 0x21) as u8).collect();
        let blocks = ScaledBlocks { form, codes: &codes, scales: &scales, residual: &[] };
        let mut expected = vec![0.5; len];
        Portable.dequantize_scaled(&blocks, &mut expected).unwrap();
        for (name, backend) in variants() {
            let mut out = vec![7.0; len];
            backend.dequantize_scaled(&blocks, &mut out).unwrap();
            assert_same(name, &out, &expected);
        }
    }
}

#[test]
fn what_is_missing_is_an_error() {
    let form = ScaledForm::new(ScaledType::Dq4, 32).unwrap();
    let whole = ScaledBlocks { form, codes: &[0; 50], scales: &[0; 16], residual: &[0; 400] };
    let short = [
        ScaledBlocks { codes: &[0; 49], ..whole },
        ScaledBlocks { scales: &[0; 15], ..whole },
        ScaledBlocks { residual: &[0; 399], ..whole },
    ];
    let mut out = [0.5; 100];
    for (name, backend) in variants() {
        backend.dequantize_scaled(&whole, &mut out).unwrap();
        for blocks in short {
            let expected = Portable.dequantize_scaled(&blocks, &mut out);
            assert!(expected.is_err());
            assert_eq!(backend.dequantize_scaled(&blocks, &mut out), expected, "{name}");
        }
    }
}

/// Whole payloads, and ones with too few values or marks, whose weights become 0.
#[test]
fn sparse_payloads() {
    let lens = [0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 300, 1000, 4099];
    let lens = if cfg!(miri) { &[9, 140][..] } else { &lens[..] };
    let mut parts = Parts::new(1 << 16);
    for &len in lens {
        let mut random = Random::new(len);
        for density in if cfg!(miri) { 1..2 } else { 0..4 } {
            // Few ones, half, all.
            let mask: Vec<u8> = (0..len.div_ceil(8))
                .map(|_| {
                    let [a, b] = [random.next() as u8, random.next() as u8];
                    [a & b, a, a | b, 0xFF][density]
                })
                .collect();
            let ones = mask.iter().map(|byte| byte.count_ones() as usize).sum::<usize>();
            for values in [ones, ones / 2, ones.saturating_sub(1), len.div_ceil(8) * 4, 3] {
                let values = random.bytes(4 * values);
                let [mask, values, fewer] = parts.of([&mask, &values, &mask[mask.len() / 2..]]);
                let values = values.as_chunks().0;
                for marks in [mask, fewer] {
                    check_sparse(marks, values, len);
                }
            }
        }
    }
}

fn check_sparse(marks: &[u8], values: &[[u8; 4]], len: usize) {
    type Expand = fn(&dyn Backend, &[u8], &[[u8; 4]], &mut [f32]);
    let expand: [Expand; 2] = [
        |backend, marks, values, out| backend.expand_bitmask(marks, values, out),
        |backend, marks, values, out| backend.expand_2_4(marks, values, out),
    ];
    for (name, backend) in variants() {
        assert_eq!(backend.count_ones(marks), Portable.count_ones(marks), "{name}");
        for expand in expand {
            let (mut expected, mut out) = (vec![0.5; len], vec![7.0; len + 2]);
            expand(&Portable, marks, values, &mut expected);
            expand(backend, marks, values, &mut out[1..=len]);
            assert_eq!((out[0], out[len + 1]), (7.0, 7.0));
            let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&out[1..=len]), bits(&expected), "{name}, {len}");
        }
    }
}
