//! The arithmetic outside the weights, in `f32`, each operation rounded once and in one
//! order; float functions come from `libm`, never from the host.

use hk_core::dot::{dot_f32, fold16};

/// Lanes of a running dot product.
const LANES: usize = 16;

/// A dot product of f32 rows in the order of dot-products.md, "f32, f16, bf16 rows":
/// element i goes to lane i mod 16, and lanes fold in halves. It takes the rows in pieces.
#[derive(Clone, Copy, Default)]
pub(crate) struct Dot([f32; LANES]);

impl Dot {
    /// Adds a piece of both rows. Every piece but the last must be a multiple of 16 long.
    #[inline]
    pub(crate) fn add(&mut self, a: &[f32], b: &[f32]) {
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        let mut lanes = self.0;
        for (a, b) in a.iter().zip(b) {
            for i in 0..LANES {
                lanes[i] += a[i] * b[i];
            }
        }
        for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
            *lane += a * b;
        }
        self.0 = lanes;
    }

    /// The sum.
    pub(crate) fn sum(&self) -> f32 {
        fold16(self.0)
    }
}

/// What an RMS norm multiplies `x` with: 1 / sqrt(mean square + epsilon).
pub(crate) fn rms_scale(x: &[f32], epsilon: f32) -> f32 {
    let mean = dot_f32(x, x) / x.len() as f32;
    1.0 / libm::sqrtf(mean + epsilon)
}

/// Turns scores into weights that sum to 1.
pub(crate) fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut lanes = [0.0; LANES];
    for (i, score) in scores.iter_mut().enumerate() {
        *score = libm::expf(*score - largest);
        lanes[i % LANES] += *score;
    }
    let sum = fold16(lanes);
    for score in scores {
        *score /= sum;
    }
}

/// SwiGLU: `gate = gate * sigmoid(gate) * up`.
pub(crate) fn swiglu(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + libm::expf(-*gate)) * up;
    }
}

/// `to += from`.
pub(crate) fn accumulate(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Rotates the pairs (0, 1), (2, 3), ... at the front of `head` by the angles whose
/// cosines and sines `rotation` holds: Llama's pairing in GGUF files.
pub(crate) fn rotate(head: &mut [f32], rotation: &[[f32; 2]]) {
    let (pairs, _) = head.as_chunks_mut::<2>();
    for ([a, b], [cos, sin]) in pairs.iter_mut().zip(rotation) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// Rotates the pairs (0, n), (1, n + 1), ... of the first 2n numbers of `head`, n the
/// length of `rotation`: Qwen's pairing.
pub(crate) fn rotate_halves(head: &mut [f32], rotation: &[[f32; 2]]) {
    let n = rotation.len();
    for (i, [cos, sin]) in rotation.iter().enumerate() {
        let (a, b) = (head[i], head[i + n]);
        head[i] = a * cos - b * sin;
        head[i + n] = a * sin + b * cos;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_change_a_dot_product() {
        let a: [f32; 45] = core::array::from_fn(|i| (i as f32 * 0.37) - 3.0);
        let b: [f32; 45] = core::array::from_fn(|i| 1.0 / (i as f32 + 1.0));
        let mut pieces = Dot::default();
        pieces.add(&a[..32], &b[..32]);
        pieces.add(&a[32..], &b[32..]);
        assert_eq!(pieces.sum().to_bits(), dot_f32(&a, &b).to_bits());
        let exact: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
        assert!((f64::from(pieces.sum()) - exact).abs() < 1e-5, "{} {exact}", pieces.sum());
    }

    #[test]
    fn softmax_sums_to_one_and_keeps_order() {
        let mut scores: [f32; 40] = core::array::from_fn(|i| i as f32 * 10.0);
        softmax(&mut scores);
        assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((scores[38] / scores[39] - 4.539_993e-5).abs() < 1e-9);
    }

    #[test]
    fn rotation_by_a_right_angle_swaps_a_pair() {
        let mut head = [1.0, 2.0, 3.0, 4.0];
        rotate(&mut head, &[[0.0, 1.0]]);
        assert_eq!(head, [-2.0, 1.0, 3.0, 4.0]);
    }
}
