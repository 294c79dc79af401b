//! Payloads and activations to measure with.

use hk_core::blocks::{ScaledForm, ScaledType};
use hk_core::decode::{Source, marks_len};
use hk_core::{Shape, SparsityType, StorageType, TileLayout};

/// Weights a block of the dual-mode types.
pub const BLOCK: u16 = 32;

/// Whether a type without a [geometry](StorageType::geometry) has a payload to measure with.
pub(super) const fn has_form(storage: StorageType) -> bool {
    let is_sparse = matches!(storage, StorageType::SPARSE_F16 | StorageType::SPARSE_2_4);
    is_sparse || storage.is_dual_mode() && ScaledType::of(storage).is_some()
}

/// Stored weights of a type without a geometry, row-major.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// The payload.
    pub data: Vec<u8>,
    /// The scales of dual-mode types, one for [`BLOCK`] weights.
    pub scales: Vec<u8>,
}

impl Payload {
    /// `weights` weights, a multiple of 4, the same in every run: of a dual-mode type random
    /// codes without a residual, of `sparse_f16` and `sparse_2_4` every other weight, at
    /// random places. Empty for other types.
    pub fn new(storage: StorageType, weights: usize) -> Self {
        let count = weights as u64;
        let values = |len| activations(len).into_iter().flat_map(f32::to_le_bytes);
        if let Some(kind) = ScaledType::of(storage).filter(|_| storage.is_dual_mode()) {
            let Ok(form) = ScaledForm::new(kind, BLOCK) else { return Payload::default() };
            let data = random().take(form.data_len(count) as usize).collect();
            let scales = values(form.blocks(count) as usize).collect();
            return Payload { data, scales };
        }
        let mut data: Vec<u8> = random().take(marks_len(count) as usize).collect();
        let kept = match storage {
            StorageType::SPARSE_F16 => {
                data.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
            }
            StorageType::SPARSE_2_4 => {
                data.iter_mut().for_each(|byte| *byte = apart(*byte));
                weights / 2
            }
            _ => return Payload::default(),
        };
        data.extend(values(kept));
        Payload { data, scales: Vec::new() }
    }

    /// What decodes it, where it holds `weights` weights of type `storage`.
    pub fn source(&self, storage: StorageType, weights: usize) -> Source<'_> {
        Source {
            storage,
            tile: TileLayout::ROW_MAJOR,
            sparsity: SparsityType::NONE,
            // One dimension always is one.
            shape: Shape::new(&[weights as u64]).unwrap_or_default(),
            block_size: BLOCK,
            data: &self.data,
            scales: &self.scales,
            residual: &[],
        }
    }
}

/// The indexes of two groups of 2:4 sparsity, made ascending.
fn apart(indexes: u8) -> u8 {
    let group = |indexes: u8| match (indexes & 3, indexes >> 2 & 3) {
        (first, second) if first < second => first | second << 2,
        (first, second) if first > second => second | first << 2,
        (0, _) => 1 << 2,
        (same, _) => (same - 1) | same << 2,
    };
    group(indexes) | group(indexes >> 4) << 4
}

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

/// Numbers as a model's weights are spread, most of them small, between -1 and 1, the same in
/// every run.
pub fn weights(len: usize) -> Vec<f32> {
    let mut bytes = random();
    let mut uniform = || bytes.next().map_or(0.0, |byte| (f32::from(byte) - 127.5) / 510.0);
    std::iter::repeat_with(|| (uniform() + uniform()) + (uniform() + uniform())).take(len).collect()
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
    fn every_type_without_a_geometry_decodes() {
        const WEIGHTS: usize = 4096;
        for storage in StorageType::all().filter(|&storage| has_form(storage)) {
            let payload = Payload::new(storage, WEIGHTS);
            let source = payload.source(storage, WEIGHTS);
            let mut weights = vec![9.0; WEIGHTS];
            let residual = hk_core::Residual::Skip;
            let range = 0..WEIGHTS as u64;
            hk_core::decode::dequantize_range(&Portable, &source, range, &mut weights, residual)
                .unwrap();
            let zeros = weights.iter().filter(|&&weight| weight == 0.0).count();
            match storage {
                StorageType::SPARSE_2_4 => assert_eq!(zeros, WEIGHTS / 2),
                StorageType::SPARSE_F16 => assert!((1900..2200).contains(&zeros), "{zeros}"),
                _ => assert!(zeros < WEIGHTS / 3, "{storage}: {zeros}"),
            }
            assert!(weights.iter().all(|&weight| weight == 0.0 || weight.is_normal()));
        }
    }

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
