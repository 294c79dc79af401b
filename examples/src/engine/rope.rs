//! Rotary embedding.

use alloc::vec;
use alloc::vec::Vec;

use hk_core::Backend;

use crate::error::Result;
use crate::model::Model;

/// What turns heads by their position.
pub(super) struct Rope {
    /// What one position turns each pair by.
    frequencies: Vec<f64>,
    halves: bool,
}

impl Rope {
    /// Frequencies of a model: `base^(-2i/n)` over the linear scale, and over the pair's
    /// factor where the file has factors (Llama 3).
    pub(super) fn new(model: &Model<'_>, backend: &dyn Backend) -> Result<Self> {
        let numbers = &model.hyperparameters;
        let pairs = numbers.rope_len / 2;
        let mut factors = vec![1.0; pairs];
        if let Some(stored) = &model.rope_freqs {
            stored.read(backend, &mut factors)?;
        }
        let base = f64::from(numbers.rope_base);
        let frequency = |(pair, factor): (usize, &f32)| {
            let exponent = (2 * pair) as f64 / numbers.rope_len as f64;
            1.0 / (libm::pow(base, exponent) * f64::from(numbers.rope_scale) * f64::from(*factor))
        };
        let frequencies = factors.iter().enumerate().map(frequency).collect();
        Ok(Rope { frequencies, halves: numbers.architecture.rotates_halves() })
    }

    /// Pairs of numbers that are turned.
    pub(super) fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// Cosines and sines of all pairs at `position`.
    pub(super) fn turn_to(&self, position: usize, rotation: &mut [[f32; 2]]) {
        for (rotation, frequency) in rotation.iter_mut().zip(&self.frequencies) {
            let angle = position as f64 * frequency;
            *rotation = [libm::cos(angle) as f32, libm::sin(angle) as f32];
        }
    }

    /// Turns the pairs at the front of a head.
    pub(super) fn rotate(&self, head: &mut [f32], rotation: &[[f32; 2]]) {
        if self.halves {
            let (first, rest) = head.split_at_mut(rotation.len().min(head.len()));
            for ((a, b), rotation) in first.iter_mut().zip(rest).zip(rotation) {
                (*a, *b) = turn(*a, *b, rotation);
            }
        } else {
            let (pairs, _) = head.as_chunks_mut::<2>();
            for ([a, b], rotation) in pairs.iter_mut().zip(rotation) {
                (*a, *b) = turn(*a, *b, rotation);
            }
        }
    }
}

#[inline(always)]
fn turn(a: f32, b: f32, [cos, sin]: &[f32; 2]) -> (f32, f32) {
    (a * cos - b * sin, a * sin + b * cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pairings() {
        let quarter = [[0.0, 1.0], [1.0, 0.0]];
        let mut rope = Rope { frequencies: vec![1.0, 0.5], halves: false };
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        rope.rotate(&mut head, &quarter);
        assert_eq!(head, [-2.0, 1.0, 3.0, 4.0, 5.0]);
        rope.halves = true;
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        rope.rotate(&mut head, &quarter);
        assert_eq!(head, [-3.0, 2.0, 1.0, 4.0, 5.0]);
        let mut rotation = [[0.0; 2]; 2];
        rope.turn_to(3, &mut rotation);
        assert_eq!(rotation[1], [libm::cos(1.5) as f32, libm::sin(1.5) as f32]);
    }
}
