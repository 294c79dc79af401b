//! The definition (dot-products.md) once more, with nothing taken from the product but its
//! decoder. Integer weights come from that: a block whose scale is replaced by 1 and whose
//! minimum by 0 decodes to its integers, and one with scale 0 and minimum 1 to its minimums.
//! They add in i64, and each f32 step is taken by name.

use hk_core::dot::ActivationForm;
use hk_core::{Backend, Portable, StorageType};

/// Where the scales of a block stand.
pub enum Scales {
    /// An f16 at this byte.
    F16(usize),
    /// An f16, of which the top nibbles of four u16 at byte 48 are the nibbles.
    Nibbles,
    /// An f16 at the first byte, and one at the second for the minimums.
    Minimum(usize, usize),
    /// This many one-byte scales at the start, where this byte means 1.
    Bytes(usize, u8),
}

pub fn scales(storage: StorageType) -> Scales {
    match storage {
        StorageType::Q4_1 | StorageType::Q5_1 | StorageType::Q4_K | StorageType::Q5_K => {
            Scales::Minimum(0, 2)
        }
        StorageType::Q2_K => Scales::Minimum(80, 82),
        StorageType::Q3_K => Scales::F16(108),
        StorageType::Q6_K => Scales::F16(208),
        StorageType::TQ1_0 => Scales::F16(52),
        StorageType::TQ2_0 => Scales::F16(64),
        StorageType::IQ1_M => Scales::Nibbles,
        StorageType::MXFP4 => Scales::Bytes(1, 128),
        StorageType::NVFP4 => Scales::Bytes(4, 0x40),
        _ => Scales::F16(0),
    }
}

/// What the scale is divided by, so that all weights are whole.
fn split(storage: StorageType) -> f32 {
    match storage {
        StorageType::IQ1_S | StorageType::IQ1_M => 8.0,
        StorageType::IQ2_XXS | StorageType::IQ2_XS | StorageType::IQ2_S => 8.0,
        StorageType::IQ3_XXS => 4.0,
        _ => 1.0,
    }
}

pub const F16_ZERO: [u8; 2] = [0, 0];
pub const F16_ONE: [u8; 2] = [0, 0x3C];

/// `block` with another scale and minimum.
pub fn with_scales(storage: StorageType, block: &[u8], d: [u8; 2], m: [u8; 2]) -> Vec<u8> {
    let mut block = block.to_vec();
    match scales(storage) {
        Scales::F16(at) => block[at..at + 2].copy_from_slice(&d),
        Scales::Minimum(d_at, m_at) => {
            block[d_at..d_at + 2].copy_from_slice(&d);
            block[m_at..m_at + 2].copy_from_slice(&m);
        }
        Scales::Nibbles => {
            let nibbles = [d[0] << 4, d[0] & 0xF0, d[1] << 4, d[1] & 0xF0];
            for (byte, nibble) in block[48..].iter_mut().skip(1).step_by(2).zip(nibbles) {
                *byte = *byte & 15 | nibble;
            }
        }
        Scales::Bytes(count, one) => {
            assert_eq!((d, m), (F16_ONE, F16_ZERO));
            block[..count].fill(one);
        }
    }
    block
}

pub fn decode(storage: StorageType, payload: &[u8]) -> Vec<f32> {
    let geometry = storage.geometry().expect("a geometry");
    let blocks = payload.len() / geometry.bytes as usize;
    let mut out = vec![0.0; blocks * geometry.weights as usize];
    Portable.dequantize(storage, payload, &mut out).expect("weights");
    out
}

fn f16(bytes: &[u8]) -> f32 {
    decode(StorageType::F16, &bytes[..2])[0]
}

/// The scales of a block, one a sub-block that is a block of its own, and its minimum.
fn read_scales(storage: StorageType, block: &[u8]) -> (Vec<f32>, Option<f32>) {
    match scales(storage) {
        Scales::F16(at) => (vec![f16(&block[at..])], None),
        Scales::Minimum(d, m) => (vec![f16(&block[d..])], Some(f16(&block[m..]))),
        Scales::Nibbles => {
            let top = |i: usize| block[49 + 2 * i] >> 4;
            (vec![f16(&[top(0) | top(1) << 4, top(2) | top(3) << 4])], None)
        }
        Scales::Bytes(count, _) => {
            // Codes of 1 decode to the scale itself.
            let mut ones = block.to_vec();
            ones[count..].fill(0x11);
            let weights = decode(storage, &ones);
            (weights.chunks(weights.len() / count).map(|sub| sub[0]).collect(), None)
        }
    }
}

/// The codes and the scale of an activation block, by float functions of the host.
fn quantize(x: &[f32]) -> (Vec<i64>, f32) {
    if x.iter().any(|x| !x.is_finite()) {
        return (vec![0; x.len()], f32::NAN);
    }
    let amax = x.iter().fold(0.0, |amax: f32, x| amax.max(x.abs()));
    if f64::from(amax) < 1.0 / (1u128 << 100) as f64 {
        return (vec![0; x.len()], 0.0);
    }
    let id = 127.0 / amax;
    (x.iter().map(|x| (x * id).round_ties_even() as i64).collect(), amax / 127.0)
}

fn sum_products(w: &[f32], q: &[i64]) -> i64 {
    w.iter().zip(q).map(|(&w, q)| w as i64 * q).sum()
}

/// The terms of one block with its part `x` of the activation row.
fn terms(storage: StorageType, block: &[u8], x: &[f32]) -> Vec<f32> {
    let (scales, minimum) = read_scales(storage, block);
    let split = split(storage);
    let weights: Vec<f32> = decode(storage, &with_scales(storage, block, F16_ONE, F16_ZERO))
        .iter()
        .map(|w| w * split)
        .collect();
    assert!(weights.iter().all(|w| w.fract() == 0.0), "{storage}: weights are whole");
    let activation_block = ActivationForm::of(storage).expect("a form").block();
    let sub = x.len() / scales.len();
    let part = |i: usize| {
        let start = i * sub / activation_block * activation_block;
        let (q, da) = quantize(&x[start..start + activation_block]);
        let place = i * sub - start;
        (q[place..place + sub].to_vec(), da)
    };
    if let Some(m) = minimum {
        let (q, da) = part(0);
        let product = (scales[0] * da) * sum_products(&weights, &q) as f32;
        if x.len() == 32 {
            return vec![product + m * (da * q.iter().sum::<i64>() as f32)];
        }
        let minimums = decode(storage, &with_scales(storage, block, F16_ZERO, F16_ONE));
        return vec![product - (m * da) * -sum_products(&minimums, &q) as f32];
    }
    let products = scales.iter().zip(weights.chunks(sub)).enumerate().map(|(i, (d, w))| {
        let (q, da) = part(i);
        ((d / split) * da) * sum_products(w, &q) as f32
    });
    products.collect()
}

/// The dot product of a row with `x`, by the definition.
pub fn product(storage: StorageType, row: &[u8], x: &[f32]) -> f32 {
    let geometry = storage.geometry().expect("a geometry");
    if storage.is_dense() {
        let weights = decode(storage, row);
        let run = if storage == StorageType::BF16 { 2 } else { 1 };
        let mut lanes = [0.0_f32; 16];
        for (i, (w, x)) in weights.iter().zip(x).enumerate() {
            lanes[i / run % 16] += w * x;
        }
        for step in [8, 4, 2, 1] {
            for l in 0..step {
                lanes[l] += lanes[l + step];
            }
        }
        return lanes[0];
    }
    let blocks = row.chunks(geometry.bytes as usize).zip(x.chunks(geometry.weights as usize));
    let terms = blocks.flat_map(|(block, x)| terms(storage, block, x));
    let mut lanes = [0.0_f32; 4];
    for (b, term) in terms.enumerate() {
        lanes[b % 4] += term;
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}
