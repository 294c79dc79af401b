//! Signed scales without minimums: weight = scale * code (`q3_k`, `q6_k`).

use super::{Rows, codes, counted};
use crate::blocks::F16;
use crate::encode::lanes::{Lanes, inverses};
use crate::encode::scale::inverse;

/// What a super-block is made of.
pub(super) struct Found {
    pub(super) d: F16,
    /// One for each 16 weights, with the offset that makes the least of them 0.
    pub(super) scales: [u8; 16],
    /// In the order of the weights, with the offset that makes the least of them 0.
    pub(super) codes: [u8; 256],
}

/// How far the codes reach at the starts of the search, as a part of the largest weight: few
/// codes are better spent near the middle than on a weight far out.
const SPANS_OF_FEW: [f32; 6] = [1.0, 0.95, 0.9, 0.85, 0.78, 0.7];
const SPANS_OF_MANY: [f32; 12] =
    [1.03, 1.015, 1.0, 0.988, 0.976, 0.964, 0.952, 0.94, 0.925, 0.91, 0.89, 0.87];
/// Rounds of improvement.
const ROUNDS: usize = 2;

/// The weights of a super-block: codes are from -`HALF` to `HALF - 1`, scales from -`TOP` to
/// `TOP - 1`.
struct Weights<V, const HALF: u32, const TOP: u32> {
    x: Rows<V>,
    importance: Option<Rows<V>>,
}

impl<V: Lanes, const HALF: u32, const TOP: u32> Weights<V, HALF, TOP> {
    #[inline(always)]
    fn code(x: V, inverse: V) -> V {
        let half = HALF as f32;
        (x * inverse).max(V::splat(-half)).min(V::splat(half - 1.0)).round()
    }

    /// The squared error of each sub-block.
    #[inline(always)]
    fn error(&self, scale: V) -> V {
        let inverse = inverses(scale);
        let mut error = V::splat(0.0);
        for (i, &x) in self.x.iter().enumerate() {
            let off = scale * Self::code(x, inverse) - x;
            error = error + counted(&self.importance, i, off * off);
        }
        error
    }

    /// Sums over the codes of each sub-block: of weight times code, and of codes squared.
    #[inline(always)]
    fn sums(&self, scale: V) -> (V, V) {
        let inverse = inverses(scale);
        let (mut xq, mut qq) = (V::splat(0.0), V::splat(0.0));
        for (i, &x) in self.x.iter().enumerate() {
            let q = Self::code(x, inverse);
            let wq = counted(&self.importance, i, q);
            xq = xq + wq * x;
            qq = qq + wq * q;
        }
        (xq, qq)
    }

    /// The scale of each sub-block for itself.
    #[inline(always)]
    fn by_sub_blocks(&self) -> V {
        let zero = V::splat(0.0);
        let (mut low, mut high) = (zero, zero);
        for &x in &self.x {
            low = x.min(low);
            high = x.max(high);
        }
        // The end that is further off gets the code that is.
        let end = (zero - low).where_less(high, high, low);
        let widest = end * V::splat(-1.0 / HALF as f32);
        let (mut best, mut most) = (widest, zero);
        let spans = if HALF > 4 { &SPANS_OF_MANY[..] } else { &SPANS_OF_FEW[..] };
        for &span in spans {
            let (xq, qq) = self.sums(widest * V::splat(span));
            let fitted = xq * inverses(qq);
            // What the fitted scale takes off the sum of squares.
            let gain = xq * fitted;
            best = most.where_less(gain, fitted, best);
            most = gain.max(most);
        }
        let (xq, qq) = self.sums(best);
        let fitted = xq * inverses(qq);
        most.where_less(xq * fitted, fitted, best)
    }

    /// Whole scales.
    #[inline(always)]
    fn whole(scale: V) -> V {
        let top = TOP as f32;
        scale.max(V::splat(-top)).min(V::splat(top - 1.0)).round()
    }

    /// Better whole scales near `whole`, and the errors with them.
    #[inline(always)]
    fn neighbours(&self, whole: V, d: f32) -> (V, V) {
        let d = V::splat(d);
        let mut best = whole;
        let mut least = self.error(d * whole);
        for step in [-1.0, 1.0] {
            let near = Self::whole(whole + V::splat(step));
            let error = self.error(d * near);
            best = error.where_less(least, near, best);
            least = error.min(least);
        }
        (best, least)
    }
}

/// The scales of a super-block, and its codes.
#[inline(always)]
pub(super) fn search<V: Lanes, const HALF: u32, const TOP: u32>(
    x: Rows<V>,
    importance: Option<Rows<V>>,
) -> Found {
    let weights = Weights::<V, HALF, TOP> { x, importance };
    let scales = weights.by_sub_blocks();
    let (low, high) = scales.ends(scales);
    let end = if high > -low { high } else { low };
    let mut d = V::half(end / -(TOP as f32));
    let over = inverse(d.1);
    let mut whole = Weights::<V, HALF, TOP>::whole(scales * V::splat(over));
    let (mut best, mut best_d, mut least) = (whole, d, f32::MAX);
    for _ in 0..ROUNDS {
        let (near, errors) = weights.neighbours(whole, d.1);
        whole = near;
        let error = errors.sum();
        if error < least {
            (best, best_d, least) = (whole, d, error);
        }
        let (xq, qq) = weights.sums(V::splat(d.1) * whole);
        let (xq, qq) = ((whole * xq).sum(), (whole * whole * qq).sum());
        if qq > 0.0 {
            d = V::half(xq / qq);
        }
    }
    let error = weights.error(V::splat(d.1) * whole).sum();
    if error < least {
        (best, best_d) = (whole, d);
    }
    let (d, number) = best_d;
    let inverse = inverses(V::splat(number) * best);
    let half = V::splat(HALF as f32);
    let mut rows = weights.x;
    for row in &mut rows {
        *row = Weights::<V, HALF, TOP>::code(*row, inverse) + half;
    }
    let scales = (best + V::splat(TOP as f32)).to_bytes();
    Found { d, scales, codes: codes(rows) }
}
