//! Scales and minimums: weight = scale * code - minimum (`q2_k`, `q4_k`, `q5_k`).

use super::{Rows, codes, counted};
use crate::blocks::F16;
use crate::encode::lanes::{Lanes, inverses};
use crate::encode::scale::inverse;

/// What a super-block is made of.
pub(super) struct Found {
    pub(super) d: F16,
    pub(super) dmin: F16,
    /// One for each 16 weights.
    pub(super) scales: [u8; 16],
    pub(super) minimums: [u8; 16],
    /// In the order of the weights.
    pub(super) codes: [u8; 256],
}

/// How much of the range of a sub-block's weights the codes span in a start of the search.
const SPANS: [f32; 4] = [1.0, 0.93, 0.85, 0.76];
/// Steps of least squares from each start.
const FITS: usize = 2;
/// What the largest scale becomes at the starts of the second search, as a part of the largest
/// that there is; the first alone where there are many codes, which gain little.
const TOPS: [f32; 3] = [1.0, 0.92, 1.08];
/// Rounds of improvement from each of these.
const ROUNDS: usize = 2;

/// Scales and minimums of sub-blocks, whole numbers or not.
#[derive(Clone, Copy)]
struct Terms<V> {
    scale: V,
    minimum: V,
}

impl<V: Lanes> Terms<V> {
    #[inline(always)]
    fn where_less(a: V, b: V, yes: Self, no: Self) -> Self {
        Terms {
            scale: a.where_less(b, yes.scale, no.scale),
            minimum: a.where_less(b, yes.minimum, no.minimum),
        }
    }
}

/// The weights of a super-block: `MOST` is the largest code, `TOP` the largest scale, and with
/// `PAIRS` two lanes are a sub-block.
struct Weights<V, const MOST: u32, const TOP: u32, const PAIRS: bool> {
    x: Rows<V>,
    importance: Option<Rows<V>>,
    /// Sums over each sub-block, of the importance and of the weights.
    ones: V,
    sum: V,
}

/// Sums over the codes of a sub-block.
#[derive(Clone, Copy)]
struct Sums<V> {
    q: V,
    qq: V,
    xq: V,
}

impl<V: Lanes, const MOST: u32, const TOP: u32, const PAIRS: bool> Weights<V, MOST, TOP, PAIRS> {
    #[inline(always)]
    fn new(x: Rows<V>, importance: Option<Rows<V>>) -> Self {
        let (mut ones, mut sum) = (V::splat(0.0), V::splat(0.0));
        for (i, x) in x.iter().enumerate() {
            ones = ones + counted(&importance, i, V::splat(1.0));
            sum = sum + counted(&importance, i, *x);
        }
        let ones = Self::joined(ones);
        let ones = V::splat(1e-30).max(ones);
        Weights { x, importance, ones, sum: Self::joined(sum) }
    }

    /// Sums over lanes to sums over sub-blocks.
    #[inline(always)]
    fn joined(sum: V) -> V {
        if PAIRS { sum + sum.swap_pairs() } else { sum }
    }

    #[inline(always)]
    fn code(x: V, minimum: V, inverse: V) -> V {
        ((x + minimum) * inverse).max(V::splat(0.0)).min(V::splat(MOST as f32)).round()
    }

    /// The squared error of each sub-block.
    #[inline(always)]
    fn error(&self, Terms { scale, minimum }: Terms<V>) -> V {
        let inverse = inverses(scale);
        let mut error = V::splat(0.0);
        for (i, &x) in self.x.iter().enumerate() {
            let q = Self::code(x, minimum, inverse);
            let off = (scale * q - minimum) - x;
            error = error + counted(&self.importance, i, off * off);
        }
        Self::joined(error)
    }

    #[inline(always)]
    fn sums(&self, Terms { scale, minimum }: Terms<V>) -> Sums<V> {
        let inverse = inverses(scale);
        let zero = V::splat(0.0);
        let (mut sq, mut sqq, mut sxq) = (zero, zero, zero);
        for (i, &x) in self.x.iter().enumerate() {
            let q = Self::code(x, minimum, inverse);
            let wq = counted(&self.importance, i, q);
            sq = sq + wq;
            sqq = sqq + wq * q;
            sxq = sxq + wq * x;
        }
        Sums { q: Self::joined(sq), qq: Self::joined(sqq), xq: Self::joined(sxq) }
    }

    /// The terms that fit the codes of `terms` best.
    #[inline(always)]
    fn fitted(&self, terms: Terms<V>) -> Terms<V> {
        let Sums { q, qq, xq } = self.sums(terms);
        let zero = V::splat(0.0);
        let determinant = self.ones * qq - q * q;
        // All codes are the same where it is nothing but rounding.
        let flat = determinant.where_less(V::splat(1e-6) * (self.ones * qq), V::splat(1.0), zero);
        let over = inverses(determinant);
        let both = Terms {
            scale: (self.ones * xq - self.sum * q) * over,
            minimum: (q * xq - self.sum * qq) * over,
        };
        // A minimum is not negative: then the scale alone is fitted.
        let alone = Terms { scale: xq * inverses(qq), minimum: zero };
        let fitted = Terms::where_less(both.minimum, zero, alone, both);
        let fitted = Terms::where_less(fitted.scale, zero, terms, fitted);
        Terms::where_less(zero, flat, terms, fitted)
    }

    /// The terms of each sub-block for itself.
    #[inline(always)]
    fn by_sub_blocks(&self) -> Terms<V> {
        let zero = V::splat(0.0);
        let (mut low, mut high) = (zero, V::splat(f32::MIN));
        for &x in &self.x {
            low = x.min(low);
            high = x.max(high);
        }
        if PAIRS {
            low = low.min(low.swap_pairs());
            high = high.max(high.swap_pairs());
        }
        let range = (high - low).max(zero);
        let mut best = Terms { scale: zero, minimum: zero };
        let mut least = V::splat(f32::MAX);
        for span in SPANS {
            let step = V::splat(span / MOST as f32);
            let shorter = range * V::splat((1.0 - span) / 2.0);
            let mut terms =
                Terms { scale: range * step, minimum: (zero - low - shorter).max(zero) };
            for _ in 0..FITS {
                terms = self.fitted(terms);
            }
            let error = self.error(terms);
            best = Terms::where_less(error, least, terms, best);
            least = error.min(least);
        }
        best
    }

    /// Terms of whole numbers between 0 and `TOP`.
    #[inline(always)]
    fn whole(number: V) -> V {
        number.max(V::splat(0.0)).min(V::splat(TOP as f32)).round()
    }

    /// The numbers of the super-block that make `whole` the terms that they are.
    #[inline(always)]
    fn scaled(whole: Terms<V>, [d, dmin]: [f32; 2]) -> Terms<V> {
        Terms { scale: V::splat(d) * whole.scale, minimum: V::splat(dmin) * whole.minimum }
    }

    /// Better whole numbers near `whole`, and the errors with them.
    #[inline(always)]
    fn neighbours(&self, whole: Terms<V>, ds: [f32; 2]) -> (Terms<V>, V) {
        let mut best = whole;
        let mut least = self.error(Self::scaled(whole, ds));
        let over = V::splat(inverse(ds[1]));
        for step in [-1.0, 0.0, 1.0] {
            let scale = Self::whole(whole.scale + V::splat(step));
            let scaled = Self::scaled(Terms { scale, minimum: whole.minimum }, ds);
            // The minimum that fits the codes with this scale best, and its neighbours.
            let q = self.sums(scaled).q;
            let minimum = Self::whole((scaled.scale * q - self.sum) / self.ones * over);
            for step in [-1.0, 0.0, 1.0] {
                let near = Terms { scale, minimum: Self::whole(minimum + V::splat(step)) };
                let error = self.error(Self::scaled(near, ds));
                best = Terms::where_less(error, least, near, best);
                least = error.min(least);
            }
        }
        (best, least)
    }

    /// The numbers of the super-block that fit the codes best, given whole terms.
    #[inline(always)]
    fn refitted(&self, whole: Terms<V>, ds: [f32; 2]) -> [f32; 2] {
        let Sums { q, qq, xq } = self.sums(Self::scaled(whole, ds));
        let Terms { scale, minimum } = whole;
        // x = d * (scale * code) - dmin * minimum.
        let aa = (scale * scale * qq).sum();
        let ab = (scale * minimum * q).sum();
        let bb = (minimum * minimum * self.ones).sum();
        let (xa, xb) = ((scale * xq).sum(), (minimum * self.sum).sum());
        let determinant = aa * bb - ab * ab;
        if determinant > 1e-6 * (aa * bb) {
            let over = 1.0 / determinant;
            [(xa * bb - xb * ab) * over, (xa * ab - xb * aa) * over]
        } else if aa > 0.0 {
            [(xa + ds[1] * ab) / aa, ds[1]]
        } else {
            ds
        }
    }
}

/// The terms of a super-block, and its codes.
#[inline(always)]
pub(super) fn search<V: Lanes, const MOST: u32, const TOP: u32, const PAIRS: bool>(
    x: Rows<V>,
    importance: Option<Rows<V>>,
) -> Found {
    let weights = Weights::<V, MOST, TOP, PAIRS>::new(x, importance);
    let terms = weights.by_sub_blocks();
    let (_, scale) = terms.scale.ends(terms.scale);
    let (_, minimum) = terms.minimum.ends(terms.minimum);
    let zero = Terms { scale: V::splat(0.0), minimum: V::splat(0.0) };
    let (mut best, mut best_ds, mut least) = (zero, [V::half(0.0); 2], f32::MAX);
    let tops = if MOST > 15 { &TOPS[..1] } else { &TOPS[..] };
    for &top in tops {
        let step = 1.0 / (TOP as f32 * top);
        let mut ds = [V::half(scale * step), V::half(minimum * step)];
        let over = ds.map(|(_, d)| inverse(d));
        let mut whole = Terms {
            scale: Weights::<V, MOST, TOP, PAIRS>::whole(terms.scale * V::splat(over[0])),
            minimum: Weights::<V, MOST, TOP, PAIRS>::whole(terms.minimum * V::splat(over[1])),
        };
        for _ in 0..ROUNDS {
            let numbers = ds.map(|(_, d)| d);
            let (near, errors) = weights.neighbours(whole, numbers);
            whole = near;
            let error = errors.sum();
            if error < least {
                (best, best_ds, least) = (whole, ds, error);
            }
            ds = weights.refitted(whole, numbers).map(|d| V::half(if d > 0.0 { d } else { 0.0 }));
        }
        let numbers = ds.map(|(_, d)| d);
        let error = weights.error(Weights::<V, MOST, TOP, PAIRS>::scaled(whole, numbers)).sum();
        if error < least {
            (best, best_ds, least) = (whole, ds, error);
        }
    }
    let [(d, scale), (dmin, minimum)] = best_ds;
    let terms = Weights::<V, MOST, TOP, PAIRS>::scaled(best, [scale, minimum]);
    let inverse = inverses(terms.scale);
    let mut rows = weights.x;
    for row in &mut rows {
        *row = Weights::<V, MOST, TOP, PAIRS>::code(*row, terms.minimum, inverse);
    }
    Found {
        d,
        dmin,
        scales: best.scale.to_bytes(),
        minimums: best.minimum.to_bytes(),
        codes: codes(rows),
    }
}
