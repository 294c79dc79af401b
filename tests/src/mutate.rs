//! Corrupt files, all of them following from their seed.

use crate::build::Built;
use crate::rng::Rng;

/// A corrupt file and how it came about.
#[derive(Clone, Debug)]
pub struct Corrupt {
    /// What was done, for messages.
    pub what: String,
    /// The file.
    pub bytes: Vec<u8>,
}

fn corrupt(what: String, bytes: Vec<u8>) -> Corrupt {
    Corrupt { what, bytes }
}

/// The file cut at every byte.
pub fn truncations(file: &[u8]) -> impl Iterator<Item = Corrupt> {
    (0..file.len()).map(|len| corrupt(format!("cut to {len} bytes"), file[..len].to_vec()))
}

/// Every number of the file set to 0, 1, its neighbours, the largest values of its width
/// and of half of it, and what makes a sum or a product with it wrap.
pub fn numbers(built: &Built) -> impl Iterator<Item = Corrupt> {
    built.fields.iter().flat_map(move |field| {
        let there = built.get(field);
        let len = built.bytes.len() as u64;
        let max = u64::MAX >> (64 - 8 * field.width);
        let wanted = [
            0,
            1,
            2,
            there.wrapping_sub(1),
            there.wrapping_add(1),
            len - 1,
            len,
            len + 1,
            max - 1,
            max,
            max / 2,
            max / 2 + 1,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + there,
            (1 << 61) + there,
            there.wrapping_neg(),
        ];
        let mut values: Vec<u64> = wanted.into_iter().filter(|&v| v <= max && v != there).collect();
        values.sort_unstable();
        values.dedup();
        values.into_iter().map(move |value| {
            corrupt(format!("{} = {value:#x}", field.name), built.with_field(field, value))
        })
    })
}

/// `count` files, each with a few random changes: bits flipped, bytes set, stretches copied,
/// cut out, put in or zeroed.
pub fn random(file: &[u8], seed: u64, count: usize) -> impl Iterator<Item = Corrupt> {
    let mut rng = Rng::new(seed);
    (0..count).map(move |n| {
        let mut bytes = file.to_vec();
        for _ in 0..1 + rng.below(6) {
            change(&mut bytes, &mut rng);
        }
        corrupt(format!("random change {n} of seed {seed}"), bytes)
    })
}

fn change(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    // Half of the changes go to the front, where the structure is.
    let reach = if rng.below(2) == 0 { bytes.len().min(700) } else { bytes.len() };
    let at = rng.below(reach);
    let len = 1 + rng.below(16.min(bytes.len() - at));
    match rng.below(8) {
        0..=2 => bytes[at] ^= 1 << rng.below(8),
        3 => bytes[at] = rng.pick(&[0, 1, 0x7F, 0x80, 0xFE, 0xFF]),
        4 => {
            let from = rng.below(bytes.len() - len + 1);
            bytes.copy_within(from..from + len, at);
        }
        5 => drop(bytes.drain(at..at + len)),
        6 => {
            let new = rng.bytes(len);
            bytes.splice(at..at, new);
        }
        _ => bytes[at..at + len].fill(0),
    }
}
