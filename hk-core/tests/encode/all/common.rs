//! Weights for the tests of encoders, and what becomes of them.

use hk_core::{Backend, Portable, StorageType, encode};

/// Pseudorandom numbers (xorshift64), the same in every run.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn bits(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// From 0 to 1, neither included.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, as the point in the unit circle of the polar method that comes first.
    #[expect(clippy::disallowed_methods, reason = "weights of a test, which need no exact bits")]
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    pub fn normals(&mut self, len: usize) -> Vec<f32> {
        std::iter::repeat_with(|| self.normal() as f32).take(len).collect()
    }

    /// Student's t with 4 degrees of freedom.
    pub fn heavy(&mut self, len: usize) -> Vec<f32> {
        let weight = || {
            let square: f64 = std::iter::repeat_with(|| self.normal()).take(4).map(|x| x * x).sum();
            self.normal() / (square / 4.0).sqrt()
        };
        std::iter::repeat_with(weight).take(len).map(|x| x as f32).collect()
    }

    /// From a thousandth to 1, evenly by magnitude.
    #[expect(clippy::disallowed_methods, reason = "the last bit of a sample does not matter")]
    pub fn importance(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| (-6.9 * self.uniform()).exp() as f32).collect()
    }
}

pub fn encoded(
    storage: StorageType,
    weights: &[f32],
    columns: usize,
    importance: Option<&[f32]>,
) -> Vec<u8> {
    let len = encode::encoded_len(storage, weights.len() / columns, columns).unwrap();
    let mut out = vec![0xAA; len];
    Portable.quantize(storage, weights, columns, importance, &mut out).unwrap();
    out
}

pub fn decoded(storage: StorageType, payload: &[u8], len: usize) -> Vec<f32> {
    let mut weights = vec![0.0; len];
    Portable.dequantize(storage, payload, &mut weights).unwrap();
    weights
}

pub fn there_and_back(storage: StorageType, weights: &[f32], columns: usize) -> Vec<f32> {
    decoded(storage, &encoded(storage, weights, columns, None), weights.len())
}

/// The root of the squared errors over that of the squares, both weighted.
pub fn weighted_error(weights: &[f32], back: &[f32], importance: &[f32]) -> f64 {
    let (mut errors, mut squares) = (0.0, 0.0);
    for ((&weight, &back), &counts) in weights.iter().zip(back).zip(importance.iter().cycle()) {
        let (weight, back, counts) = (f64::from(weight), f64::from(back), f64::from(counts));
        errors += counts * (weight - back) * (weight - back);
        squares += counts * weight * weight;
    }
    (errors / squares).sqrt()
}

/// As [`weighted_error`], all columns counted once.
pub fn error(weights: &[f32], back: &[f32]) -> f64 {
    weighted_error(weights, back, &[1.0])
}
