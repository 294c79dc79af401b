//! 2:4 structured sparsity (payloads.md, "Sparse payloads"): pruning and packing.
//!
//! Groups are four consecutive weights of the whole tensor in row-major order.
//!
//! ```
//! use hk_core::encode::two_of_four::{self, Scale};
//! let mut weights = [3.0, -1.0, 0.5, 4.0, 0.0, 0.0, -2.0, 0.0];
//! two_of_four::prune(&mut weights, Scale::Keep)?;
//! assert_eq!(weights, [3.0, 0.0, 0.0, 4.0, 0.0, 0.0, -2.0, 0.0]);
//! let mut payload = [0; 20];
//! assert_eq!(two_of_four::packed_len(8)?, 20);
//! two_of_four::pack(&weights, &mut payload)?;
//! assert_eq!(payload[0], 0b0010_1100); // places 0 and 3, then 2 and 0
//! # Ok::<(), hk_core::Error>(())
//! ```

use super::{check_encoded_len, check_finite};
use crate::error::{Error, ErrorKind, SparseFault};

/// What pruning does to the weights it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scale {
    /// Leaves them as they are.
    #[default]
    Keep,
    /// Multiplies them so that each group keeps its norm: by the norm of the group over the
    /// norm of what is kept, which is at most the square root of 2 (cut to 1.4142).
    PreserveNorm,
}

/// The largest factor of a scale correction, as payloads.md has it: not the square root of 2.
#[allow(clippy::approx_constant, reason = "the page's number, to its last digit")]
const MOST: f64 = 1.4142;

/// Sets all but the two largest magnitudes of every four `weights` to +0.0; of equal
/// magnitudes the ones before stay. A tail of three stays less its smallest.
///
/// The factor of [`Scale::PreserveNorm`] is computed with f64 and rounded to f32 once; a
/// weight that it would make infinite stays as it is.
///
/// # Errors
/// [`ErrorKind::NotFinite`] naming the weight; nothing is changed then.
pub fn prune(weights: &mut [f32], scale: Scale) -> Result<(), Error> {
    check_finite(weights)?;
    let (groups, tail) = weights.as_chunks_mut::<4>();
    match scale {
        Scale::Keep => groups.iter_mut().for_each(|group| *group = kept(*group)),
        Scale::PreserveNorm => groups.iter_mut().for_each(|group| *group = corrected(*group)),
    }
    let mut padded = [0.0; 4];
    padded.iter_mut().zip(&*tail).for_each(|(to, from)| *to = *from);
    let pruned = match scale {
        Scale::Keep => kept(padded),
        Scale::PreserveNorm => corrected(padded),
    };
    tail.iter_mut().zip(pruned).for_each(|(to, from)| *to = from);
    Ok(())
}

/// The group with its two smallest magnitudes at +0.0. Straight code, so that a loop over it
/// becomes vector code.
#[inline(always)]
fn kept(group: [f32; 4]) -> [f32; 4] {
    // Magnitudes of finite floats compare as their bits do.
    let [a, b, c, d] = group.map(|weight| weight.to_bits() & 0x7FFF_FFFF);
    // Whether the first of two beats the second; the earlier wins a tie.
    let (ab, ac, ad) = (u8::from(a >= b), u8::from(a >= c), u8::from(a >= d));
    let (bc, bd, cd) = (u8::from(b >= c), u8::from(b >= d), u8::from(c >= d));
    let wins = [ab + ac + ad, 1 - ab + bc + bd, 2 - ac - bc + cd, 3 - ad - bd - cd];
    let [a, b, c, d] = group;
    let keep = |weight: f32, wins: u8| if wins >= 2 { weight } else { 0.0 };
    [keep(a, wins[0]), keep(b, wins[1]), keep(c, wins[2]), keep(d, wins[3])]
}

/// [`kept`], its norm brought back to that of the group.
#[inline(always)]
fn corrected(group: [f32; 4]) -> [f32; 4] {
    let kept = kept(group);
    // Squares of f32 neither overflow nor vanish in f64.
    let squares = |[a, b, c, d]: [f32; 4]| {
        let [a, b, c, d] = [a, b, c, d].map(f64::from);
        ((a * a + b * b) + c * c) + d * d
    };
    let (all, left) = (squares(group), squares(kept));
    // What is kept has at least half of the sum: the ratio is in 1..=2, but for all zeros.
    let ratio = if left > 0.0 { all / left } else { 1.0 };
    let factor = square_root(ratio).clamp(1.0, MOST) as f32;
    kept.map(|weight| {
        let scaled = weight * factor;
        if scaled.is_finite() { scaled } else { weight }
    })
}

/// The square root of a number in 1..=2, by Newton's steps from a start that is 6 % off at
/// most: four of them leave no error that f64 could show.
#[inline(always)]
fn square_root(x: f64) -> f64 {
    let mut root = 0.5 * (x + 1.0);
    for _ in 0..4 {
        root = 0.5 * (root + x / root);
    }
    root
}

/// Bytes of the indexes of `count` weights, padding included.
///
/// # Errors
/// [`SparseFault::Groups`] when `count` is no multiple of 4.
pub const fn indexes_len(count: u64) -> Result<u64, Error> {
    if !count.is_multiple_of(4) {
        return Err(Error::call(ErrorKind::Sparse(SparseFault::Groups { count })));
    }
    Ok((count / 4).div_ceil(2).next_multiple_of(4))
}

/// Bytes of the payload of `count` weights.
///
/// # Errors
/// [`SparseFault::Groups`] when `count` is no multiple of 4, [`ErrorKind::ElementCount`] when
/// the size passes 2^64.
pub const fn packed_len(count: u64) -> Result<u64, Error> {
    let indexes = match indexes_len(count) {
        Ok(indexes) => indexes,
        Err(error) => return Err(error),
    };
    let values = (count / 4).checked_mul(8);
    match values {
        Some(values) => match indexes.checked_add(values) {
            Some(len) => Ok(len),
            None => Err(Error::call(ErrorKind::ElementCount)),
        },
        None => Err(Error::call(ErrorKind::ElementCount)),
    }
}

/// Packs `weights`, of which at most two of every four are not zero, to a whole payload:
/// indexes, then values. A -0.0 is a zero, and has its sign only where it stands in a place that
/// is stored all the same.
///
/// # Errors
/// [`SparseFault::Groups`], [`ErrorKind::EncodedLength`] when `out` is not
/// [`packed_len`] bytes, [`ErrorKind::NotTwoOfFour`] naming the first weight of a group with
/// more. `out` is then unspecified.
pub fn pack(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    let count = weights.len() as u64;
    let (expected, given) = (packed_len(count)?, out.len() as u64);
    // At most `packed_len`, which is the length of `out`.
    let split = out.split_at_mut_checked(indexes_len(count)? as usize);
    let (indexes, values) = match split {
        Some(parts) if expected == given => parts,
        _ => return Err(Error::call(ErrorKind::EncodedLength { expected, given })),
    };
    let (used, padding) =
        indexes.split_at_mut_checked(weights.len().div_ceil(8)).unwrap_or_default();
    padding.fill(0);
    pack_indexes(weights, used)?;
    pack_values(weights, values)
}

/// The indexes of `weights` alone, two groups a byte and no padding, for payloads that are
/// made in pieces: every piece but the last has a multiple of 8 weights.
///
/// # Errors
/// As [`pack`].
pub fn pack_indexes(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    let groups = groups(weights)?;
    check_encoded_len(groups.len().div_ceil(2) as u64, out)?;
    for (index, (pair, byte)) in groups.chunks(2).zip(&mut *out).enumerate() {
        let mut both = 0;
        for (place, group) in pair.iter().enumerate() {
            let nibble = indexes(group).ok_or_else(|| {
                let first = (index * 8 + place * 4) as u64;
                Error::call(ErrorKind::NotTwoOfFour { index: first })
            })?;
            both |= nibble << (4 * place);
        }
        *byte = both;
    }
    Ok(())
}

/// The values of `weights` alone, two a group, for payloads that are made in pieces.
///
/// # Errors
/// As [`pack`].
pub fn pack_values(weights: &[f32], out: &mut [u8]) -> Result<(), Error> {
    let groups = groups(weights)?;
    check_encoded_len(groups.len().saturating_mul(8) as u64, out)?;
    let (out, _) = out.as_chunks_mut::<8>();
    for (index, (group, out)) in groups.iter().zip(out).enumerate() {
        let nibble = indexes(group)
            .ok_or_else(|| Error::call(ErrorKind::NotTwoOfFour { index: index as u64 * 4 }))?;
        let value = |place: u8| group[usize::from(place & 3)].to_bits();
        *out = (u64::from(value(nibble)) | u64::from(value(nibble >> 2)) << 32).to_le_bytes();
    }
    Ok(())
}

fn groups(weights: &[f32]) -> Result<&[[f32; 4]], Error> {
    match weights.as_chunks::<4>() {
        (groups, []) => Ok(groups),
        _ => {
            let count = weights.len() as u64;
            Err(Error::call(ErrorKind::Sparse(SparseFault::Groups { count })))
        }
    }
}

/// The two places of a group as they are stored, `None` where more than two are not zero.
#[inline(always)]
fn indexes(group: &[f32; 4]) -> Option<u8> {
    let [a, b, c, d] = group.map(|weight| usize::from(weight != 0.0));
    let nibble = INDEXES[(a | b << 1 | c << 2 | d << 3) & 15];
    (nibble != NONE).then_some(nibble)
}

const NONE: u8 = 0xFF;

/// The indexes of a group by the mask of its nonzero places: the first in the low bits.
const INDEXES: [u8; 16] = {
    let mut table = [NONE; 16];
    let mut places = 0_u32;
    while places < 16 {
        let [first, second] = [places & places.wrapping_neg(), places & places.wrapping_sub(1)];
        let nibble = match places.count_ones() {
            0 => Some([0, 1]),
            // The other place of the two is the first that is free.
            1 => Some([places.trailing_zeros(), if places == 1 { 1 } else { 0 }]),
            2 => Some([first.trailing_zeros(), second.trailing_zeros()]),
            _ => None,
        };
        if let Some([first, second]) = nibble {
            table[places as usize] = (first | second << 2) as u8;
        }
        places += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn pruned(weights: &[f32], scale: Scale) -> Vec<f32> {
        let mut weights = weights.to_vec();
        prune(&mut weights, scale).unwrap();
        weights
    }

    #[test]
    fn the_two_largest_of_four_stay_and_ties_go_to_the_first() {
        // Every order of four magnitudes, equal ones among them.
        for code in 0..256u32 {
            let group = [0, 2, 4, 6].map(|shift| ((code >> shift & 3) as f32 - 1.5) * 2.0);
            let mut order = [0usize, 1, 2, 3];
            order.sort_by(|&a, &b| group[b].abs().total_cmp(&group[a].abs()).then(a.cmp(&b)));
            let mut expected = [0.0; 4];
            order[..2].iter().for_each(|&place| expected[place] = group[place]);
            assert_eq!(pruned(&group, Scale::Keep), expected, "{group:?}");
        }
        let zeros = pruned(&[-0.0, -5.0, 1.0, 6.0], Scale::Keep);
        assert_eq!(zeros[0].to_bits(), 0);
        assert_eq!(pruned(&[1.0, 3.0, 2.0], Scale::Keep), [0.0, 3.0, 2.0]);
    }

    #[test]
    fn a_correction_keeps_the_norm_of_a_group() {
        let norm = |w: &[f32]| w.iter().map(|&w| f64::from(w) * f64::from(w)).sum::<f64>().sqrt();
        let mut seed = 1u32;
        for scale in [1e-42_f32, 1e-18, 1.0, 1e18, 1e36] {
            for _ in 0..500 {
                let group = [(); 4].map(|()| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed as f32 / 2_147_483_648.0 - 1.0) * scale
                });
                let after = pruned(&group, Scale::PreserveNorm);
                let smallest = f64::from(f32::from_bits(1));
                assert!((norm(&after) - norm(&group)).abs() <= norm(&group) * 2e-5 + smallest);
            }
        }
        let most = MOST as f32;
        assert_eq!(pruned(&[1.0; 4], Scale::PreserveNorm), [most, most, 0.0, 0.0]);
        assert_eq!(pruned(&[0.0; 4], Scale::PreserveNorm), [0.0; 4]);
        let huge = f32::MAX;
        assert_eq!(pruned(&[huge; 4], Scale::PreserveNorm), [huge, huge, 0.0, 0.0]);
    }

    #[test]
    fn roots() {
        for step in 0..=1000 {
            let x = 1.0 + f64::from(step) / 1000.0;
            assert!((square_root(x) - x.sqrt()).abs() < 4e-16, "{x}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_where() {
        let mut weights = [1.0; 9];
        weights[6] = f32::NAN;
        let error = prune(&mut weights, Scale::Keep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFinite { index: 6 });
        assert_eq!(weights[0], 1.0);
        let mut out = vec![0; packed_len(8).unwrap() as usize];
        let three = [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, -3.0];
        for error in [pack(&three, &mut out), pack_values(&three, &mut [0; 16])] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::NotTwoOfFour { index: 4 });
        }
        assert_eq!(
            pack(&[0.0; 6], &mut out).unwrap_err().kind(),
            ErrorKind::Sparse(SparseFault::Groups { count: 6 })
        );
        let error = pack(&[0.0; 8], &mut out[1..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EncodedLength { expected: 20, given: 19 });
        assert_eq!(packed_len(u64::MAX - 3).unwrap_err().kind(), ErrorKind::ElementCount);
    }
}
