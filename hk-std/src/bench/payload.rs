//! Payloads and activations to measure with.

use hk_core::StorageType;

/// Pseudorandom bytes (xorshift64), the same in every run.
fn random() -> impl Iterator<Item = u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

/// Numbers between -1 and 1, the same in every run: `len` elements of activation rows.
pub fn activations(len: usize) -> Vec<f32> {
    random().take(len).map(|byte| (f32::from(byte) + 0.5) / 128.0 - 1.0).collect()
}

/// A payload of `weights` weights of a type with a [geometry](StorageType::geometry), empty
/// for any other: floats between -1 and 1, and random blocks and integers, the same in
/// every run. Scales are ordinary numbers: an infinite, NaN or subnormal one is not what a
/// model is made of, and some hosts take longer for it.
pub fn payload(storage: StorageType, weights: usize) -> Vec<u8> {
    let floats = || activations(weights).into_iter();
    match storage {
        StorageType::F64 => floats().flat_map(|x| f64::from(x).to_le_bytes()).collect(),
        StorageType::F32 => floats().flat_map(f32::to_le_bytes).collect(),
        StorageType::BF16 => {
            floats().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
        }
        _ => blocks(storage, weights),
    }
}

fn blocks(storage: StorageType, weights: usize) -> Vec<u8> {
    let Some(geometry) = storage.geometry() else { return Vec::new() };
    let bytes = geometry.bytes as usize;
    let len = weights.div_ceil(geometry.weights as usize) * bytes;
    let mut payload: Vec<u8> = random().take(len).collect();
    for block in payload.chunks_exact_mut(bytes) {
        match storage {
            // A scale in f32, its exponent from 2^-7 to 2^-6.
            StorageType::Q8_K => block[3] = block[3] & 0x80 | 0x3C,
            // A power of two: from 2^-8 to 2^-1.
            StorageType::MXFP4 => block[0] = block[0] & 7 | 120,
            _ => halves(storage).iter().for_each(|&at| {
                // The exponent from 2^-7 to 2^0.
                block[at + 1] = block[at + 1] & 0x9F | 0x20;
            }),
        }
    }
    payload
}

/// Where in a block its f16 stand (blocks.md).
fn halves(storage: StorageType) -> &'static [usize] {
    match storage {
        StorageType::Q4_1 | StorageType::Q5_1 | StorageType::Q8_1 => &[0, 2],
        StorageType::Q4_K | StorageType::Q5_K => &[0, 2],
        StorageType::Q2_K => &[80, 82],
        StorageType::Q3_K => &[108],
        StorageType::Q6_K => &[208],
        StorageType::TQ1_0 => &[52],
        StorageType::TQ2_0 => &[64],
        // Scattered over the block, the highest bits here.
        StorageType::IQ1_M => &[54],
        StorageType::Q8_K | StorageType::MXFP4 | StorageType::NVFP4 => &[],
        _ if storage.is_block() || storage == StorageType::F16 => &[0],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hk_core::{Backend, Portable};

    #[test]
    fn weights_are_ordinary_numbers() {
        const WEIGHTS: usize = 8192;
        for storage in StorageType::all().filter(|storage| storage.geometry().is_some()) {
            let payload = payload(storage, WEIGHTS);
            assert_eq!(payload.len() as u64, storage.payload_len(&[WEIGHTS as u64]).unwrap());
            let mut weights = vec![0.0; WEIGHTS];
            Portable.dequantize(storage, &payload, &mut weights).unwrap();
            let is_fp8 = matches!(storage, StorageType::FP8_E4M3 | StorageType::FP8_E5M2);
            for weight in weights {
                let is_ordinary = weight == 0.0 || weight.is_normal();
                assert!(is_ordinary || is_fp8, "{storage}: {weight:e}");
            }
        }
    }
}
