//! Attention: the way from a call to the kernels of a level. Rows of f16 are decoded some at
//! a time, once for all queries, and kernels see arrays of f32 alone.

use hk_core::attention::{Query, Weighted};

use super::call::fetch;

/// Numbers in a vector, or in the lanes of a sum.
pub(super) const LANES: usize = 16;

/// Keys that are multiplied at once.
const KEYS: usize = 16;

/// The longest key that there is room for, in [`LANES`].
const LONGEST: usize = 16;

/// Sixteen keys, decoded: of each block of [`LANES`] numbers, the blocks of all keys.
pub(super) type Keys = [[[f32; LANES]; KEYS]];

/// [`hk_core::attention::scores`] by `products`, which multiplies keys with a query (as many
/// blocks) and with the scale; `false` where the lengths are none for it.
#[inline(always)]
pub(super) fn scores(
    keys: &[&[[u8; 2]]],
    len: usize,
    queries: &mut [Query<'_>],
    decode: impl Fn(&[[u8; 2]; LANES], &mut [f32; LANES]),
    products: impl Fn(&Keys, &[[f32; LANES]], &mut [f32; KEYS]),
) -> bool {
    let mut room = [[[0.0; LANES]; KEYS]; LONGEST];
    let Some(decoded) = room.get_mut(..len / LANES) else { return false };
    let fits = |query: &Query<'_>| query.numbers.len() == len;
    if len == 0 || !len.is_multiple_of(LANES) || !queries.iter().all(fits) {
        return false;
    }
    let mut first = 0;
    for (rows, mut coming) in chunks(keys, len * KEYS, queries.len() + 1) {
        coming.step();
        for (k, row) in rows.chunks_exact(len).take(KEYS).enumerate() {
            for (halves, keys) in row.as_chunks().0.iter().zip(&mut *decoded) {
                decode(halves, &mut keys[k % KEYS]);
            }
        }
        let count = rows.len() / len;
        for query in &mut *queries {
            coming.step();
            let scores = query.scores.get_mut(first..).unwrap_or_default();
            let numbers = query.numbers.as_chunks().0;
            if let (KEYS, Some(scores)) = (count, scores.first_chunk_mut()) {
                products(decoded, numbers, scores);
            } else if !scores.is_empty() {
                let mut all = [0.0; KEYS];
                products(decoded, numbers, &mut all);
                scores.iter_mut().zip(&all[..count]).for_each(|(to, from)| *to = *from);
            }
        }
        first += count;
    }
    true
}

/// Chunks that are on their way from memory while one is worked on.
const AHEAD: usize = 2;

/// The chunks of `len` numbers of all pages, each with one that comes later. A text's keys and
/// values are beyond the second cache sooner than not, and each page ends what the CPU itself
/// fetches ahead of need.
#[inline(always)]
fn chunks<'a>(
    pages: &[&'a [[u8; 2]]],
    len: usize,
    steps: usize,
) -> impl Iterator<Item = (&'a [[u8; 2]], Coming)> {
    let chunks = || pages.iter().flat_map(move |page| page.chunks(len));
    let later = chunks().skip(AHEAD).map(Some).chain(core::iter::repeat(None));
    chunks().zip(later.map(move |later| Coming::new(later.unwrap_or_default(), steps)))
}

/// A chunk that is fetched step by step: asked for all of it at once, the CPU would wait.
struct Coming {
    at: *const u8,
    left: usize,
    /// Bytes.
    step: usize,
}

impl Coming {
    #[inline(always)]
    fn new(chunk: &[[u8; 2]], steps: usize) -> Self {
        let left = size_of_val(chunk);
        Coming { at: chunk.as_ptr().cast(), left, step: left.div_ceil(steps).next_multiple_of(64) }
    }

    #[inline(always)]
    fn step(&mut self) {
        let now = self.left.min(self.step);
        fetch(self.at, now);
        self.at = self.at.wrapping_add(now);
        self.left -= now;
    }
}

/// Numbers of a value that are added at once.
pub(super) const WIDTH: usize = 32;

/// Values that are decoded together.
const VALUES: usize = 32;

/// Some sums, and for each the weights of the rows to add.
pub(super) type Sums<'s, const S: usize> = [(&'s [f32], &'s mut [f32; WIDTH]); S];

/// [`hk_core::attention::add_weighted`] by kernels for four sums at once, for three, and for
/// one, each of which adds rows as far as there are weights; `false` where the lengths are
/// none for them.
#[inline(always)]
pub(super) fn add_weighted(
    values: &[&[[u8; 2]]],
    len: usize,
    sums: &mut [Weighted<'_>],
    decode: impl Fn(&[[u8; 2]; WIDTH], &mut [f32; WIDTH]),
    four: impl Fn(&[[f32; WIDTH]], Sums<'_, 4>),
    three: impl Fn(&[[f32; WIDTH]], Sums<'_, 3>),
    one: impl Fn(&[[f32; WIDTH]], Sums<'_, 1>),
) -> bool {
    if len == 0 || !len.is_multiple_of(WIDTH) || sums.iter().any(|sum| sum.sums.len() < len) {
        return false;
    }
    let mut decoded = [[0.0; WIDTH]; VALUES];
    let mut first = 0;
    let steps = len / WIDTH * (sums.len().div_ceil(4) + 1);
    for (rows, mut coming) in chunks(values, len * VALUES, steps) {
        let count = rows.len() / len;
        for part in 0..len / WIDTH {
            coming.step();
            for (row, decoded) in rows.chunks_exact(len).zip(&mut decoded) {
                if let Some(halves) = row.as_chunks().0.get(part) {
                    decode(halves, decoded);
                }
            }
            let decoded = &decoded[..count];
            let (fours, rest) = sums.as_chunks_mut::<4>();
            for sums in fours {
                coming.step();
                add(decoded, sums, first, part, &four, &one);
            }
            let (threes, rest) = rest.as_chunks_mut::<3>();
            for sums in threes {
                coming.step();
                add(decoded, sums, first, part, &three, &one);
            }
            for sum in rest {
                coming.step();
                add(decoded, core::array::from_mut(sum), first, part, &one, &one);
            }
        }
        first += count;
    }
    true
}

/// Adds `rows` to `S` sums as far as all have weights by `several`, then to each by `one`.
#[inline(always)]
fn add<const S: usize>(
    rows: &[[f32; WIDTH]],
    sums: &mut [Weighted<'_>; S],
    first: usize,
    part: usize,
    several: impl Fn(&[[f32; WIDTH]], Sums<'_, S>),
    one: impl Fn(&[[f32; WIDTH]], Sums<'_, 1>),
) {
    let weights = sums.each_ref().map(|sum| {
        let weights = sum.weights.get(first..).unwrap_or_default();
        &weights[..weights.len().min(rows.len())]
    });
    let common = weights.iter().fold(rows.len(), |least, weights| least.min(weights.len()));
    let mut at = 0;
    let now = sums.each_mut().map(|sum| {
        let weights = &weights[at][..common];
        at += 1;
        (weights, &mut sum.sums.as_chunks_mut().0[part])
    });
    several(&rows[..common], now);
    for (sum, weights) in sums.iter_mut().zip(weights) {
        if weights.len() > common {
            let sum = &mut sum.sums.as_chunks_mut().0[part];
            one(&rows[common..], [(&weights[common..], sum)]);
        }
    }
}
