//! What stands between the matrices has the bits of `Portable` on every level.

mod common;

use common::{Random, same};
use hk_core::attention::{Query, Weighted};
use hk_core::{Backend, Portable};
use hk_simd_x86::variants;

/// Numbers of which some are extreme.
fn numbers(len: usize, random: &mut Random) -> Vec<f32> {
    let mut numbers = random.floats(len);
    for number in &mut numbers {
        match random.next() % 64 {
            0 => *number = f32::NAN,
            1 => *number = f32::INFINITY,
            2 => *number = f32::NEG_INFINITY,
            3 => *number = f32::from_bits(random.next() & 0x807F_FFFF),
            4 => *number *= 1e4,
            5 => *number = -0.0,
            _ => {}
        }
    }
    numbers
}

#[track_caller]
fn assert_same(name: &str, ours: &[f32], theirs: &[f32]) {
    for (i, (&ours, &theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(same(ours, theirs), "{name}, {i}: {ours:e} for {theirs:e}");
    }
}

#[test]
fn the_bits_of_portable() {
    for (name, backend) in variants() {
        for len in if cfg!(miri) { vec![0, 7, 19] } else { (0..300).collect() } {
            let mut random = Random::new(len);
            for wild in [false, true] {
                let make = |random: &mut Random| {
                    if wild { numbers(len, random) } else { random.floats(len) }
                };
                let (a, b, c) = (make(&mut random), make(&mut random), make(&mut random));
                assert!(same(backend.dot_f32(&a, &b), Portable.dot_f32(&a, &b)), "{name}, {len}");
                let (mut ours, mut theirs) = (c.clone(), c.clone());
                backend.scale(&a, 1.7, &b, &mut ours);
                Portable.scale(&a, 1.7, &b, &mut theirs);
                assert_same(name, &ours, &theirs);
                let (mut ours, mut theirs) = (a.clone(), a.clone());
                backend.swiglu(&mut ours, &b);
                Portable.swiglu(&mut theirs, &b);
                assert_same(name, &ours, &theirs);
                let (mut ours, mut theirs) = (a.clone(), a.clone());
                let sums = (backend.exponentials(&mut ours), Portable.exponentials(&mut theirs));
                assert!(same(sums.0, sums.1), "{name}, {len}");
                assert_same(name, &ours, &theirs);
                let (mut ours, mut theirs) = (vec![[0; 2]; len], vec![[0; 2]; len]);
                backend.to_f16(&a, &mut ours);
                Portable.to_f16(&a, &mut theirs);
                assert_eq!(ours, theirs, "{name}, {len}");
            }
        }
    }
}

/// Keys or values: pages of so many rows of `len` numbers, some of them extreme, and the
/// first page with part of a row too many.
fn pages(rows: &[usize], len: usize, random: &mut Random) -> Vec<Vec<[u8; 2]>> {
    let mut pages = Vec::new();
    for (page, rows) in rows.iter().enumerate() {
        let spare = if page == 0 { len / 2 } else { 0 };
        let numbers = numbers(rows * len + spare, random);
        let mut halves = vec![[0; 2]; numbers.len()];
        Portable.to_f16(&numbers, &mut halves);
        pages.push(halves);
    }
    pages
}

/// Lengths of a row, and how many rows the pages have.
fn shapes() -> Vec<(usize, [usize; 3])> {
    if cfg!(miri) {
        return vec![(32, [17, 0, 3]), (41, [2, 0, 1])];
    }
    let shapes = (1..150).chain([256, 257, 288]).enumerate();
    shapes.map(|(i, len)| (len, [16 + i % 50, i * 7 % 64, 1 + i * 5 % 33])).collect()
}

#[test]
fn scores() {
    for (name, backend) in variants() {
        for (len, rows) in shapes() {
            let mut random = Random::new(len);
            let keys = pages(&rows, len, &mut random);
            let keys: Vec<&[[u8; 2]]> = keys.iter().map(|page| &page[..]).collect();
            let all: usize = rows.iter().sum();
            let counts = [all, all, all - 1, 0, 3, all + 5, all / 2, all, 16];
            let queries: Vec<_> = counts
                .iter()
                .enumerate()
                .map(|(i, _)| if i < 5 { random.floats(len) } else { numbers(len, &mut random) })
                .collect();
            let scores = |backend: &dyn Backend| {
                let mut scores = counts.map(|count| vec![7.0; count]);
                let queries = queries.iter().zip(&mut scores);
                let mut queries: Vec<_> =
                    queries.map(|(numbers, scores)| Query { numbers, scores }).collect();
                backend.scores(&keys, len, 0.125, &mut queries);
                scores.concat()
            };
            assert_same(name, &scores(backend), &scores(&Portable));
        }
    }
}

#[test]
fn scores_of_lengths_that_differ() {
    let random = &mut Random::new(1);
    let keys = pages(&[20], 64, random);
    for (name, backend) in variants() {
        for len in [0, 16, 63, 64, 65, 80] {
            let numbers = random.floats(len);
            let scores = |backend: &dyn Backend| {
                let mut scores = [1.0; 20];
                let query = Query { numbers: &numbers, scores: &mut scores };
                backend.scores(&[&keys[0]], 64, 2.0, &mut [query]);
                scores
            };
            assert_same(name, &scores(backend), &scores(&Portable));
        }
    }
}

#[test]
fn weighted_sums() {
    for (name, backend) in variants() {
        for (len, rows) in shapes() {
            let mut random = Random::new(len);
            let values = pages(&rows, len, &mut random);
            let values: Vec<&[[u8; 2]]> = values.iter().map(|page| &page[..]).collect();
            let all: usize = rows.iter().sum();
            let counts = [all, all, all - 2, 0, 3, all + 1, all, all - 1, 16, all, all];
            for several in if cfg!(miri) { vec![7] } else { vec![counts.len(), 7, 3, 2, 1] } {
                let counts = &counts[..several];
                let weights: Vec<_> = counts.iter().map(|&count| random.floats(count)).collect();
                let start = random.floats(len + 3);
                let sums = |backend: &dyn Backend| {
                    let mut sums = vec![start.clone(); counts.len()];
                    // One that is too short, and two longer than a row.
                    sums[0].truncate(if len % 3 == 0 { len / 2 } else { len });
                    let mut parts: Vec<_> = weights
                        .iter()
                        .zip(&mut sums)
                        .map(|(weights, sums)| Weighted { weights, sums })
                        .collect();
                    backend.add_weighted(&values, len, &mut parts);
                    sums.concat()
                };
                assert_same(name, &sums(backend), &sums(&Portable));
            }
        }
    }
}
