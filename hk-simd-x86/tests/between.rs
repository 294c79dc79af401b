//! What stands between the matrices has the bits of `Portable` on every level.

mod common;

use common::{Random, same};
use hk_core::vector::Weighted;
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
    let most = if cfg!(miri) { 40 } else { 300 };
    for (name, backend) in variants() {
        for len in 0..most {
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

#[test]
fn weighted_sums() {
    for (name, backend) in variants() {
        for len in if cfg!(miri) { vec![17, 70] } else { (1..150).collect() } {
            let mut random = Random::new(len);
            let rows = random.floats(len * 9);
            let counts = [9, 9, 7, 0, 3, 9, 8];
            let weights: Vec<_> = counts.iter().map(|&count| random.floats(count)).collect();
            let start = random.floats(len);
            let sums = |backend: &dyn Backend| {
                let mut sums = vec![start.clone(); counts.len()];
                let mut parts: Vec<_> = weights
                    .iter()
                    .zip(&mut sums)
                    .map(|(weights, sums)| Weighted { weights, sums })
                    .collect();
                backend.add_weighted(&rows, len, &mut parts);
                sums.concat()
            };
            assert_same(name, &sums(backend), &sums(&Portable));
        }
    }
}
