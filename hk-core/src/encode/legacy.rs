//! The legacy blocks of 32 weights.
//!
//! Scales are found for sixteen blocks at once, a lane each, so that nothing is summed across
//! lanes; codes then for each block, sixteen weights at once. With importance, which is
//! rare, blocks go one by one, and several scales are tried.

use super::Encode;
use super::lanes::{LARGEST_F16, Lanes, inverses};
use super::scale::inverse;
use super::search::relative;
use crate::blocks::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, F16};
use crate::bytes::filled_up;

/// The 32 numbers of a block.
type Pair<V> = [V; 2];

/// How much of the range of the weights the codes span in a search.
const SPANS: [f32; 8] = [1.0, 0.96, 0.92, 0.88, 0.84, 0.78, 0.7, 0.6];

#[inline(always)]
fn load<V: Lanes>(x: &[f32; 32]) -> Pair<V> {
    match x.as_chunks::<16>().0 {
        [low, high] => [V::load(low), V::load(high)],
        _ => [V::splat(0.0); 2],
    }
}

/// The codes of a block for its scale and, where it has one, its minimum.
#[derive(Clone, Copy)]
struct Coder {
    inverse: f32,
    minimum: f32,
    low: f32,
    high: f32,
}

impl Coder {
    /// Codes before they are rounded.
    #[inline(always)]
    fn code<V: Lanes>(self, x: V) -> V {
        let code = (x - V::splat(self.minimum)) * V::splat(self.inverse);
        code.max(V::splat(self.low)).min(V::splat(self.high))
    }

    #[inline(always)]
    fn codes<V: Lanes>(self, x: Pair<V>) -> Pair<V> {
        [self.code(x[0]), self.code(x[1])]
    }
}

/// Blocks that have a scale alone: codes from -`LOW` to `HIGH`.
struct Symmetric<const LOW: u32, const HIGH: u32>;

impl<const LOW: u32, const HIGH: u32> Symmetric<LOW, HIGH> {
    #[inline(always)]
    fn coder(scale: f32) -> Coder {
        Self::inverse_coder(inverse(scale))
    }

    #[inline(always)]
    fn inverse_coder(inverse: f32) -> Coder {
        Coder { inverse, minimum: 0.0, low: -(LOW as f32), high: HIGH as f32 }
    }

    /// The code of a weight where the one furthest off gets -`LOW`.
    #[inline(always)]
    fn code<V: Lanes>(x: V, inverse: V) -> V {
        (x * inverse).min(V::splat(HIGH as f32)).round()
    }

    /// The scales of sixteen blocks, and their inverses.
    #[inline(always)]
    fn scales<V: Lanes>(blocks: &[[f32; 32]; 16]) -> ([F16; 16], [f32; 16]) {
        let [first, last] = transposed::<V>(blocks);
        let zero = V::splat(0.0);
        let (mut low, mut high) = (zero, zero);
        for (&first, &last) in first.iter().zip(&last) {
            low = low.min(first.min(last));
            high = high.max(first.max(last));
        }
        // The end that is further off gets the code that is.
        let end = (zero - low).where_less(high, high, low);
        let inverse = inverses(end * V::splat(-1.0 / LOW as f32));
        let (mut xq, mut qq) = (zero, zero);
        for (&first, &last) in first.iter().zip(&last) {
            let q = [Self::code(first, inverse), Self::code(last, inverse)];
            xq = xq + (first * q[0] + last * q[1]);
            qq = qq + (q[0] * q[0] + q[1] * q[1]);
        }
        // The scale that fits these codes best.
        let (scales, numbers) = (xq * inverses(qq)).halves();
        (scales, inverses(numbers).to_array())
    }

    /// The scale that leaves the smallest weighted error.
    #[inline(always)]
    fn weighted<V: Lanes>(x: &[f32; 32], importance: &[f32; 32]) -> (F16, Coder) {
        let (x, importance) = (load::<V>(x), load::<V>(importance));
        let (low, high) = x[0].min(x[1]).ends(x[0].max(x[1]));
        let end = if high > -low { high } else { low };
        let widest = end * (-1.0 / LOW as f32);
        let (mut best, mut most) = (widest, 0.0);
        for span in SPANS {
            // The other sign reaches further on the other side.
            for scale in [widest * span, -widest * span] {
                let codes = Self::coder(scale).codes(x);
                let q = [codes[0].round(), codes[1].round()];
                let wq = [importance[0] * q[0], importance[1] * q[1]];
                let xq = (x[0] * wq[0] + x[1] * wq[1]).sum();
                let fitted = xq * inverse((q[0] * wq[0] + q[1] * wq[1]).sum());
                // What the fitted scale takes off the sum of squares.
                let gain = xq * fitted;
                (best, most) = if gain > most { (fitted, gain) } else { (best, most) };
            }
        }
        let (d, scale) = V::half(best);
        (d, Self::coder(scale))
    }
}

/// Blocks that have a minimum too: codes from 0 to `MOST`.
struct Affine<const MOST: u32>;

impl<const MOST: u32> Affine<MOST> {
    #[inline(always)]
    fn coder(inverse: f32, minimum: f32) -> Coder {
        Coder { inverse, minimum, low: 0.0, high: MOST as f32 }
    }

    /// The scales of sixteen blocks, their minimums, and the inverses and numbers of these.
    #[inline(always)]
    fn scales<V: Lanes>(blocks: &[[f32; 32]; 16]) -> ([[F16; 16]; 2], [[f32; 16]; 2]) {
        let zero = V::splat(0.0);
        let (mut low, mut negated) = ([zero; 16], [zero; 16]);
        for ((low, negated), block) in low.iter_mut().zip(&mut negated).zip(blocks) {
            let [first, last]: Pair<V> = load(block);
            *low = first.min(last);
            *negated = zero - first.max(last);
        }
        // The sum makes a zero that is the smallest positive, whichever it was.
        let (low, high) = (V::smallest(low) + zero, zero - V::smallest(negated));
        let (minimums, numbers) = low.halves();
        let (scales, steps) = ((high - low) * V::splat(1.0 / MOST as f32)).halves();
        ([scales, minimums], [inverses(steps).to_array(), numbers.to_array()])
    }

    /// The scale and minimum that leave the smallest weighted error.
    #[inline(always)]
    fn weighted<V: Lanes>(x: &[f32; 32], importance: &[f32; 32]) -> ([F16; 2], Coder) {
        let (x, w) = (load::<V>(x), load::<V>(importance));
        let (low, high) = x[0].min(x[1]).ends(x[0].max(x[1]));
        let range = high - low;
        let sum = |of: Pair<V>| (w[0] * of[0] + w[1] * of[1]).sum();
        let (ones, x_sum) = (sum([V::splat(1.0); 2]), sum(x));
        let mut best = ([V::half(0.0).0; 2], Self::coder(0.0, 0.0));
        let mut least = f32::MAX;
        for span in SPANS {
            let shorter = low + range * (0.5 - 0.5 * span);
            let widest = range * span / MOST as f32;
            let codes = Self::coder(inverse(widest), shorter).codes(x);
            let q = [codes[0].round(), codes[1].round()];
            let (q_sum, qq, xq) =
                (sum(q), sum([q[0] * q[0], q[1] * q[1]]), sum([x[0] * q[0], x[1] * q[1]]));
            let determinant = ones * qq - q_sum * q_sum;
            let fitted = (ones * xq - x_sum * q_sum) / determinant;
            let fitted = if determinant > 1e-6 * (ones * qq) { fitted } else { widest };
            for (scale, minimum) in
                [(widest, shorter), (fitted, (x_sum - fitted * q_sum) * inverse(ones))]
            {
                let ((d, scale), (m, minimum)) = (V::half(scale), V::half(minimum));
                let coder = Self::coder(inverse(scale), minimum);
                let off = |x: V, q: V| {
                    let off = (V::splat(scale) * q + V::splat(minimum)) - x;
                    off * off
                };
                let codes = coder.codes(x);
                let q = [codes[0].round(), codes[1].round()];
                let error = sum([off(x[0], q[0]), off(x[1], q[1])]);
                if error < least {
                    (best, least) = (([d, m], coder), error);
                }
            }
        }
        best
    }
}

/// The numbers of sixteen blocks, a block a lane: those of the first halves, and of the last.
#[inline(always)]
fn transposed<V: Lanes>(blocks: &[[f32; 32]; 16]) -> [[V; 16]; 2] {
    let (mut first, mut last) = ([V::splat(0.0); 16], [V::splat(0.0); 16]);
    for ((first, last), block) in first.iter_mut().zip(&mut last).zip(blocks) {
        [*first, *last] = load(block);
    }
    [V::transpose(first), V::transpose(last)]
}

/// Sixteen blocks: those of `weights`, or where there are fewer what is made of them in `room`.
#[inline(always)]
fn sixteen<'a>(weights: &'a [[f32; 32]], room: &'a mut [[f32; 32]; 16]) -> &'a [[f32; 32]; 16] {
    match weights.first_chunk() {
        Some(group) => group,
        None => {
            *room = filled_up(weights, [0.0; 32]);
            room
        }
    }
}

/// What blocks of a scale have in common.
trait WithScale<const LOW: u32, const HIGH: u32>: Sized {
    /// Of codes that are not rounded yet.
    fn pack<V: Lanes>(d: F16, codes: Pair<V>) -> Self;

    #[inline(always)]
    fn one<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let (d, coder) = Symmetric::<LOW, HIGH>::weighted::<V>(weights, &relative(importance));
        Self::pack(d, coder.codes::<V>(load(weights)))
    }

    #[inline(always)]
    fn all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        let mut room = [[0.0; 32]; 16];
        for (weights, out) in weights.chunks(16).zip(out.chunks_mut(16)) {
            let (scales, inverses) =
                Symmetric::<LOW, HIGH>::scales::<V>(sixteen(weights, &mut room));
            for (((out, x), d), inverse) in out.iter_mut().zip(weights).zip(scales).zip(inverses) {
                let coder = Symmetric::<LOW, HIGH>::inverse_coder(inverse);
                *out = Self::pack(d, coder.codes::<V>(load(x)));
            }
        }
    }
}

/// What blocks of a scale and a minimum have in common.
trait WithMinimum<const MOST: u32>: Sized {
    /// Of codes that are not rounded yet.
    fn pack<V: Lanes>(d: F16, m: F16, codes: Pair<V>) -> Self;

    #[inline(always)]
    fn one<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        let ([d, m], coder) = Affine::<MOST>::weighted::<V>(weights, &relative(importance));
        Self::pack(d, m, coder.codes::<V>(load(weights)))
    }

    #[inline(always)]
    fn all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        let mut room = [[0.0; 32]; 16];
        for (weights, out) in weights.chunks(16).zip(out.chunks_mut(16)) {
            let ([scales, minimums], [inverses, numbers]) =
                Affine::<MOST>::scales::<V>(sixteen(weights, &mut room));
            let terms = scales.into_iter().zip(minimums).zip(inverses.into_iter().zip(numbers));
            for ((out, x), ((d, m), (inverse, minimum))) in out.iter_mut().zip(weights).zip(terms) {
                let coder = Affine::<MOST>::coder(inverse, minimum);
                *out = Self::pack(d, m, coder.codes::<V>(load(x)));
            }
        }
    }
}

impl WithScale<8, 7> for BlockQ4_0 {
    #[inline(always)]
    fn pack<V: Lanes>(d: F16, codes: Pair<V>) -> Self {
        BlockQ4_0 { d, qs: codes[0].to_nibbles(codes[1], 8.0).0 }
    }
}

impl Encode<32> for BlockQ4_0 {
    const LARGEST: f32 = 8.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        Self::one::<V>(weights, importance)
    }

    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        Self::all::<V>(weights, out);
    }
}

impl WithScale<16, 15> for BlockQ5_0 {
    #[inline(always)]
    fn pack<V: Lanes>(d: F16, codes: Pair<V>) -> Self {
        let (qs, qh) = codes[0].to_nibbles(codes[1], 16.0);
        let qh = qh.to_le_bytes();
        BlockQ5_0 { d, qh, qs }
    }
}

impl Encode<32> for BlockQ5_0 {
    const LARGEST: f32 = 16.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        Self::one::<V>(weights, importance)
    }

    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        Self::all::<V>(weights, out);
    }
}

impl WithMinimum<15> for BlockQ4_1 {
    #[inline(always)]
    fn pack<V: Lanes>(d: F16, m: F16, codes: Pair<V>) -> Self {
        BlockQ4_1 { d, m, qs: codes[0].to_nibbles(codes[1], 0.0).0 }
    }
}

impl Encode<32> for BlockQ4_1 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        Self::one::<V>(weights, importance)
    }

    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        Self::all::<V>(weights, out);
    }
}

impl WithMinimum<31> for BlockQ5_1 {
    #[inline(always)]
    fn pack<V: Lanes>(d: F16, m: F16, codes: Pair<V>) -> Self {
        let (qs, qh) = codes[0].to_nibbles(codes[1], 0.0);
        let qh = qh.to_le_bytes();
        BlockQ5_1 { d, m, qh, qs }
    }
}

impl Encode<32> for BlockQ5_1 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        Self::one::<V>(weights, importance)
    }

    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        Self::all::<V>(weights, out);
    }
}

impl WithScale<127, 127> for BlockQ8_0 {
    #[inline(always)]
    fn pack<V: Lanes>(d: F16, codes: Pair<V>) -> Self {
        let mut qs = [0; 32];
        for (qs, codes) in qs.as_chunks_mut::<16>().0.iter_mut().zip(codes) {
            *qs = (codes + V::splat(127.0)).to_bytes().map(|code| code.wrapping_sub(127) as i8);
        }
        BlockQ8_0 { d, qs }
    }
}

impl Encode<32> for BlockQ8_0 {
    const LARGEST: f32 = 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], importance: Option<&[f32; 32]>) -> Self {
        Self::one::<V>(weights, importance)
    }

    #[inline(always)]
    fn encode_all<V: Lanes>(weights: &[[f32; 32]], out: &mut [Self]) {
        Self::all::<V>(weights, out);
    }
}
