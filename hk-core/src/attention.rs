//! What attention does with the keys and values of a text, which are kept as f16
//! (dot-products.md, "Outside the matrices"): the same bits on every host.
//!
//! [`Backend`](crate::Backend) has these as methods, which is how they are asked for. What
//! stands here is what `Portable` does, and what a backend compiles anew for an instruction
//! set where it has no kernel of its own. Keys and values come in pages: slices of whole rows
//! that follow one another. The methods take all pages at once, so that what a kernel sets up
//! is paid once a text, and a page stays in the first cache for all queries.
//!
//! ```
//! use hk_core::attention::{Query, Weighted};
//! use hk_core::{Backend, Portable};
//!
//! // Two positions, two numbers each: keys 1, 2 and 2, 0; values 1, 1 and 0, 2.
//! let (one, two, zero) = ([0x00, 0x3C], [0x00, 0x40], [0x00, 0x00]);
//! let mut weights = [0.0; 2];
//! let query = Query { numbers: &[10.0, 1.0], scores: &mut weights };
//! Portable.scores(&[&[one, two], &[two, zero]], 2, 0.5, &mut [query]);
//! assert_eq!(weights, [6.0, 10.0]);
//!
//! let mut sums = [0.0; 2];
//! let sum = Weighted { weights: &weights, sums: &mut sums };
//! Portable.add_weighted(&[&[one, one, zero, two]], 2, &mut [sum]);
//! assert_eq!(sums, [6.0, 26.0]);
//! ```

use crate::blocks::{Block, F16};
use crate::dot::fold16;

/// Lanes of a sum.
const LANES: usize = 16;

/// Rows of values that are decoded together.
const ROWS: usize = 16;

/// A query, and room for what it finds.
#[derive(Debug)]
pub struct Query<'a> {
    /// As many numbers as a key has.
    pub numbers: &'a [f32],
    /// One for each position that the query sees, from the first on.
    pub scores: &'a mut [f32],
}

/// The scores of keys, rows of `len` numbers: their dot products with each of `queries`, by
/// the rule for f32 rows, times `scale`. Rows beyond the scores of a query, scores beyond the
/// rows, and what is no whole row at the end of a page, are left alone; of a key and a query
/// of different lengths, as many numbers count as both have.
#[inline(always)]
pub fn scores(keys: &[&[[u8; 2]]], len: usize, scale: f32, queries: &mut [Query<'_>]) {
    if len == 0 {
        return;
    }
    for (position, key) in keys.iter().flat_map(|page| page.chunks_exact(len)).enumerate() {
        let (fours, rest) = queries.as_chunks_mut::<4>();
        for queries in fours {
            let products = products(key, queries.each_ref().map(|query| query.numbers));
            for (query, product) in queries.iter_mut().zip(products) {
                put(query, position, product * scale);
            }
        }
        for query in rest {
            let [product] = products(key, [query.numbers]);
            put(query, position, product * scale);
        }
    }
}

#[inline(always)]
fn put(query: &mut Query<'_>, position: usize, score: f32) {
    if let Some(to) = query.scores.get_mut(position) {
        *to = score;
    }
}

/// Dot products of a key with `Q` queries, for which it is decoded once.
#[inline(always)]
fn products<const Q: usize>(key: &[[u8; 2]], mut queries: [&[f32]; Q]) -> [f32; Q] {
    let mut lanes = [[0.0; LANES]; Q];
    for halves in key.chunks(LANES) {
        let numbers = decoded(halves);
        for (lanes, query) in lanes.iter_mut().zip(&mut queries) {
            if let (LANES, Some((now, later))) = (halves.len(), query.split_first_chunk()) {
                add_products(lanes, now, &numbers);
                *query = later;
                continue;
            }
            let common = query.len().min(halves.len());
            let (now, later) = query.split_at_checked(common).unwrap_or_default();
            for ((lane, x), number) in lanes.iter_mut().zip(now).zip(&numbers) {
                *lane += x * number;
            }
            *query = later;
        }
    }
    lanes.map(fold16)
}

#[inline(always)]
fn add_products(lanes: &mut [f32; LANES], x: &[f32; LANES], numbers: &[f32; LANES]) {
    for ((lane, x), number) in lanes.iter_mut().zip(x).zip(numbers) {
        *lane += x * number;
    }
}

/// As many numbers as there are halves, and zeros.
#[inline(always)]
fn decoded<const N: usize>(halves: &[[u8; 2]]) -> [f32; N] {
    let mut numbers = [0.0; N];
    if let Some(halves) = halves.first_chunk::<N>() {
        for (number, &half) in numbers.iter_mut().zip(halves) {
            *number = widened(half);
        }
    } else {
        for (number, &half) in numbers.iter_mut().zip(halves) {
            *number = widened(half);
        }
    }
    numbers
}

#[inline(always)]
fn widened(half: [u8; 2]) -> f32 {
    let mut number = [0.0];
    F16(half).decode(&mut number);
    number[0]
}

/// A weighted sum that is being made: the answer to one query.
#[derive(Debug)]
pub struct Weighted<'a> {
    /// The weights of the rows that take part, from the first on.
    pub weights: &'a [f32],
    /// What their products are added to.
    pub sums: &'a mut [f32],
}

/// Adds weighted values, rows of `len` numbers, to each of `sums`, row by row:
/// `sums += weight * row`. Sums beyond `len`, and what is no whole row at the end of a page,
/// are left alone.
///
/// `WIDTH` numbers of two sums are made at once: as many as the registers of an instruction
/// set hold four vectors of.
#[inline(always)]
pub fn add_weighted<const WIDTH: usize>(
    values: &[&[[u8; 2]]],
    len: usize,
    sums: &mut [Weighted<'_>],
) {
    let mut first = 0;
    for page in values {
        if len == 0 {
            return;
        }
        for rows in page.chunks(len.saturating_mul(ROWS).max(1)) {
            let mut at = 0;
            while at < len {
                add_columns::<WIDTH>(rows, len, at, first, sums);
                at = at.saturating_add(WIDTH);
            }
            first = first.saturating_add(rows.len() / len);
        }
    }
}

/// [`add_weighted`] for up to [`ROWS`] rows, of which the first has the weights at `first`,
/// and `WIDTH` numbers of each from `at` on.
#[inline(always)]
fn add_columns<const WIDTH: usize>(
    rows: &[[u8; 2]],
    len: usize,
    at: usize,
    first: usize,
    sums: &mut [Weighted<'_>],
) {
    let mut numbers = [[0.0; WIDTH]; ROWS];
    let mut count = 0;
    for (numbers, row) in numbers.iter_mut().zip(rows.chunks_exact(len)) {
        *numbers = decoded(row.get(at..).unwrap_or_default());
        count += 1;
    }
    let numbers = numbers.get(..count).unwrap_or_default();
    let here = |sum: &Weighted<'_>| {
        let weights = sum.weights.get(first..).unwrap_or_default();
        weights.len().min(count)
    };
    let (pairs, rest) = sums.as_chunks_mut::<2>();
    for [a, b] in pairs {
        let common = here(a).min(here(b));
        let (both, more) = numbers.split_at_checked(common).unwrap_or_default();
        add_rows(both, first, at, len, [&mut *a, &mut *b]);
        add_rows(more, first.saturating_add(common), at, len, [a]);
        add_rows(more, first.saturating_add(common), at, len, [b]);
    }
    for sum in rest {
        add_rows(numbers, first, at, len, [sum]);
    }
}

/// Adds decoded rows, of which the first has the weights at `first`, to the numbers from `at`
/// on of `S` sums. The sum with the fewest weights says how many rows.
#[inline(always)]
fn add_rows<const S: usize, const WIDTH: usize>(
    rows: &[[f32; WIDTH]],
    first: usize,
    at: usize,
    len: usize,
    mut sums: [&mut Weighted<'_>; S],
) {
    let weights = sums.each_ref().map(|sum| sum.weights.get(first..).unwrap_or_default());
    let mut now = [[0.0; WIDTH]; S];
    for (now, sum) in now.iter_mut().zip(&sums) {
        for (now, sum) in now.iter_mut().zip(sum.sums.get(at..).unwrap_or_default()) {
            *now = *sum;
        }
    }
    let count = weights.iter().fold(rows.len(), |count, weights| count.min(weights.len()));
    for (p, row) in rows.iter().take(count).enumerate() {
        for (now, weights) in now.iter_mut().zip(weights) {
            let Some(&weight) = weights.get(p) else { break };
            for (sum, number) in now.iter_mut().zip(row) {
                *sum += weight * number;
            }
        }
    }
    let end = len.min(at.saturating_add(WIDTH));
    for (now, sum) in now.iter().zip(&mut sums) {
        let end = end.min(sum.sums.len());
        for (sum, now) in sum.sums.get_mut(at..end).unwrap_or_default().iter_mut().zip(now) {
            *sum = *now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dot::dot_f32;
    use crate::vector::to_f16;
    use std::vec;
    use std::vec::Vec;

    fn number(i: usize) -> f32 {
        (i as u64 * 2_654_435_761 % 1000) as f32 / 7.0 - 70.0
    }

    /// Rows as they are kept, and what they decode to.
    fn rows(count: usize, len: usize) -> (Vec<[u8; 2]>, Vec<f32>) {
        let numbers: Vec<f32> = (0..count * len).map(number).collect();
        let mut halves = vec![[0; 2]; numbers.len()];
        to_f16(&numbers, &mut halves);
        let numbers = halves.iter().map(|&half| widened(half)).collect();
        (halves, numbers)
    }

    #[test]
    fn scores_key_by_key() {
        for len in [1, 15, 16, 17, 40, 64, 70, 128] {
            let (halves, numbers) = rows(7, len);
            let queries: Vec<Vec<f32>> =
                (0..6).map(|q| (0..len).map(|i| number(i + q)).collect()).collect();
            let mut found = vec![vec![f32::INFINITY; 7]; 6];
            for (count, found) in found.iter_mut().enumerate() {
                found.resize(count + 2, f32::INFINITY);
            }
            let mut asked: Vec<_> = queries
                .iter()
                .zip(&mut found)
                .map(|(numbers, scores)| Query { numbers, scores })
                .collect();
            // Two pages, the first with half a row too many.
            let pages = [&halves[..4 * len + len / 2], &halves[4 * len..]];
            scores(&pages, len, 0.3, &mut asked);
            for (query, found) in queries.iter().zip(&found) {
                for (key, score) in numbers.chunks_exact(len).zip(found) {
                    assert_eq!(*score, dot_f32(key, query) * 0.3, "{len}");
                }
            }
        }
        let mut score = [1.0];
        scores(&[&[[0; 2]]], 0, 1.0, &mut [Query { numbers: &[], scores: &mut score }]);
        assert_eq!(score, [1.0]);
    }

    #[test]
    fn weighted_sums_row_by_row() {
        for len in [1, 15, 16, 17, 40, 64, 70, 128] {
            for counts in [[25, 25, 25], [3, 24, 25], [25, 0, 2]] {
                let (halves, numbers) = rows(25, len);
                let weights = counts.map(|count| (0..count).map(number).collect::<Vec<_>>());
                let mut expected = [0, 1, 2].map(|s| vec![s as f32; len + 1]);
                for (weights, sums) in weights.iter().zip(&mut expected) {
                    for (row, weight) in numbers.chunks_exact(len).zip(weights) {
                        for (sum, number) in sums.iter_mut().zip(row) {
                            *sum += weight * number;
                        }
                    }
                }
                let mut found = [0, 1, 2].map(|s| vec![s as f32; len + 1]);
                let mut sums: Vec<_> = weights
                    .iter()
                    .zip(&mut found)
                    .map(|(weights, sums)| Weighted { weights, sums })
                    .collect();
                let (first, second) = halves.split_at(18 * len);
                add_weighted::<16>(&[first, second], len, &mut sums);
                assert_eq!(found, expected, "{len}, {counts:?}");
            }
        }
        let mut sum = [1.0];
        add_weighted::<16>(&[&[[0; 2]]], 0, &mut [Weighted { weights: &[1.0], sums: &mut sum }]);
        assert_eq!(sum, [1.0]);
    }
}
