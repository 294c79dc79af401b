//! 4-bit codes of unevenly spaced values: scales are found by trying sixteen at once.

use super::Encode;
use super::lanes::{LARGEST_F16, Lanes};
use super::scale::{f16, inverse, largest, rounded};
use super::search::{highest, lanes, lowest, power_to_one, relative};
use crate::blocks::codebooks::IQ4;
use crate::blocks::unpack::fence;
use crate::blocks::{BlockIq4Nl, BlockIq4Xs};

/// Between each value of [`IQ4`] and the next: the point halfway, and the step.
const STEPS: [(f32, f32); 15] = {
    let mut steps = [(0.0, 0.0); 15];
    let mut i = 0;
    while i < 15 {
        let (low, high) = (IQ4[i] as f32, IQ4[i + 1] as f32);
        steps[i] = ((low + high) / 2.0, high - low);
        i += 1;
    }
    steps
};

/// The value of [`IQ4`] nearest to `y`.
#[inline(always)]
fn nearest(y: f32) -> f32 {
    let mut value = -127.0;
    for (middle, step) in STEPS {
        value = if y > middle { value + step } else { value };
    }
    value
}

/// The codes of the values nearest to weights divided by a scale: of the first 16 in the low
/// nibbles, of the others in the high ones.
#[inline(always)]
fn pack(weights: &[f32; 32], inverse: f32) -> [u8; 16] {
    let mut codes = [0; 32];
    fence();
    for (code, weight) in codes.iter_mut().zip(weights) {
        for (middle, _) in STEPS {
            *code += u8::from(weight * inverse > middle);
        }
    }
    let (low, high) = codes.split_at(16);
    let mut qs = [0; 16];
    for ((q, low), high) in qs.iter_mut().zip(low).zip(high) {
        *q = low | high << 4;
    }
    qs
}

/// 32 weights under 2, and how much their squared errors count.
#[derive(Clone, Copy)]
struct Group<'a> {
    weights: &'a [f32; 32],
    importance: &'a [f32; 32],
}

/// The sums over a group that say how well a scale fits, for sixteen scales: the squared error
/// is that of weights against 0, less `scale * (2 * products - scale * squares)`.
struct Sums {
    /// Of weights times values.
    products: [f32; 16],
    /// Of squared values.
    squares: [f32; 16],
}

impl Group<'_> {
    /// The sums with the values that are nearest under scales of which the inverses are given.
    #[inline(always)]
    fn sums(self, inverses: &[f32; 16]) -> Sums {
        // Loop by loop, through memory, which is what compilers make vector code of.
        let mut values = [[0.0; 16]; 32];
        for (values, weight) in values.iter_mut().zip(self.weights) {
            fence();
            for (value, inverse) in values.iter_mut().zip(inverses) {
                *value = weight * inverse;
            }
        }
        for value in values.as_flattened_mut() {
            *value = nearest(*value);
        }
        let mut sums = Sums { products: [0.0; 16], squares: [0.0; 16] };
        let weights = self.weights.iter().zip(self.importance);
        for (values, (weight, importance)) in values.iter().zip(weights) {
            let weight = weight * importance;
            fence();
            let lanes = sums.products.iter_mut().zip(&mut sums.squares).zip(values);
            for ((product, square), value) in lanes {
                *product += weight * value;
                *square += importance * (value * value);
            }
        }
        sums
    }

    /// The best scale, of either sign, and the sum of the squared values that go with it.
    ///
    /// The largest weight may come to lie anywhere around either end of the values. Of each
    /// scale tried only the choice of values counts: the scale that is best for these is
    /// calculated.
    #[inline(always)]
    fn scale(self) -> (f32, f32) {
        let largest =
            self.weights.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
        let unit = inverse(largest);
        let (low, low_gain) = self.best_of(&lanes(|l| unit * (-150.0 + 5.0 * l as f32)));
        let (high, high_gain) = self.best_of(&lanes(|l| unit * (66.0 + 5.0 * l as f32)));
        if low_gain > high_gain { low } else { high }
    }

    /// What [`scale`](Self::scale) says, of sixteen scales, and by how much it lessens the
    /// squared error.
    #[inline(always)]
    fn best_of(self, inverses: &[f32; 16]) -> ((f32, f32), f32) {
        let Sums { products, squares } = self.sums(inverses);
        // No value is 0, so no sum of squares is.
        let scales = lanes(|l| products[l] / squares[l]);
        let gains = lanes(|l| products[l] * scales[l]);
        let best = highest(&gains) & 15;
        ((scales[best], squares[best]), gains[best])
    }

    /// Which of sixteen scales leaves the smallest squared error.
    #[inline(always)]
    fn nearest_of(self, scales: &[f32; 16]) -> usize {
        let Sums { products, squares } = self.sums(&lanes(|l| inverse(scales[l])));
        let weights = self.weights.iter().zip(self.importance);
        let zero =
            weights.fold(0.0, |sum, (weight, importance)| sum + weight * weight * importance);
        let gains = lanes(|l| scales[l] * (2.0 * products[l] - scales[l] * squares[l]));
        lowest(&lanes(|l| (zero - gains[l]).max(0.0)))
    }
}

impl Encode<32> for BlockIq4Nl {
    const LARGEST: f32 = 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let power = power_to_one(largest(weights));
        let group = Group {
            weights: &weights.map(|weight| weight * power),
            importance: &relative(importance),
        };
        let (d, scale) = f16(group.scale().0 / power);
        BlockIq4Nl { d, qs: pack(weights, inverse(scale)) }
    }
}

impl BlockIq4Xs {
    /// The super-block scale that the scales of groups, each counting as much as its squared
    /// values, come nearest to whole multiples of.
    #[inline(always)]
    fn scale(groups: &[(f32, f32); 8]) -> f32 {
        let largest =
            groups.iter().fold(0.0, |a: f32, &(b, _)| if b.abs() > a.abs() { b } else { a });
        // Multiples are from -32 to 31; it is one from 24 on that the largest scale becomes.
        let (low, low_error) =
            Self::best_of(groups, &lanes(|l| largest / (-32.0 + 0.5 * l as f32)));
        let (high, high_error) =
            Self::best_of(groups, &lanes(|l| largest / (31.0 - 0.5 * l as f32)));
        if low_error < high_error { low } else { high }
    }

    /// The best of sixteen super-block scales, and its error.
    #[inline(always)]
    fn best_of(groups: &[(f32, f32); 8], scales: &[f32; 16]) -> (f32, f32) {
        let inverses = lanes(|l| inverse(scales[l]));
        let mut errors = [0.0; 16];
        for (wanted, counts) in groups {
            fence();
            for ((error, scale), inverse) in errors.iter_mut().zip(scales).zip(&inverses) {
                let off = wanted - rounded(wanted * inverse).clamp(-32, 31) as f32 * scale;
                *error += off * off * counts;
            }
        }
        let best = lowest(&errors) & 15;
        (scales[best], errors[best])
    }
}

impl Encode<256> for BlockIq4Xs {
    const LARGEST: f32 = 32.0 * 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], importance: Option<&[f32; 256]>) -> Self {
        let power = power_to_one(largest(weights));
        let importance = relative(importance);
        let scaled = weights.map(|weight| weight * power);
        let scaled = scaled.as_chunks::<32>().0.iter().zip(importance.as_chunks::<32>().0);
        let groups = scaled.map(|(weights, importance)| Group { weights, importance });

        let mut wanted = [(0.0, 0.0); 8];
        for (wanted, group) in wanted.iter_mut().zip(groups.clone()) {
            *wanted = group.scale();
        }
        let (d, d_number) = f16(Self::scale(&wanted) / power);

        let mut block = BlockIq4Xs { d, scales_h: [0; 2], scales_l: [0; 4], qs: [[0; 16]; 8] };
        let (mut scales_l, mut scales_h) = (0_u32, 0_u16);
        let scale = d_number * power;
        let to_do = block.qs.iter_mut().zip(weights.as_chunks::<32>().0).zip(groups).zip(wanted);
        for (j, (((qs, weights), group), (wanted, _))) in to_do.enumerate() {
            // With the scale that there can be other values are nearest, so that the nearest
            // multiple need not be the best one.
            let first = rounded(wanted * inverse(scale)).wrapping_sub(8).clamp(-32, 16);
            let best = group.nearest_of(&lanes(|l| (first + l as i32) as f32 * scale));
            let s = first + best as i32;
            *qs = pack(weights, inverse(s as f32 * d_number));
            let bits = (s + 32) as u32;
            scales_l |= (bits & 15) << (4 * j);
            scales_h |= ((bits >> 4) as u16) << (2 * j);
        }
        block.scales_l = scales_l.to_le_bytes();
        block.scales_h = scales_h.to_le_bytes();
        block
    }
}
