//! The order in which the terms of a dot product are added (dot-products.md, "Sum").

/// Adds block terms: block `b` to lane `b mod 4`, ascending; the lanes start at +0.
#[inline(always)]
pub(super) fn sum_blocks(terms: impl Iterator<Item = f32>) -> f32 {
    let mut lanes = [0.0; 4];
    for (b, term) in terms.enumerate() {
        lanes[b % 4] += term;
    }
    fold4(lanes)
}

/// The sum of four lanes of block terms: `(L0 + L1) + (L2 + L3)`.
#[inline(always)]
pub const fn fold4(lanes: [f32; 4]) -> f32 {
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// The sum of the sixteen lanes of an f32, f16 or bf16 row: lane `l + 8` onto `l`, then
/// `l + 4`, `l + 2` and `l + 1`.
#[inline(always)]
pub fn fold16(lanes: [f32; 16]) -> f32 {
    let four = halve::<8, 4>(halve::<16, 8>(lanes));
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The upper half of the lanes added onto the lower.
#[inline(always)]
fn halve<const N: usize, const HALF: usize>(lanes: [f32; N]) -> [f32; HALF] {
    let mut sums = [0.0; HALF];
    let pairs = lanes.iter().zip(lanes.iter().skip(HALF));
    for (sum, (low, high)) in sums.iter_mut().zip(pairs) {
        *sum = low + high;
    }
    sums
}

/// Dot product of two f32 vectors by the f32-row rule, which also RMS norms and attention
/// scores follow: sixteen lanes, element `i` to lane `i mod 16`, each product rounded, then
/// added. Elements beyond the shorter vector are left out.
///
/// ```
/// assert_eq!(hk_core::dot::dot_f32(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline(always)]
pub fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    sum_products::<_, 16>(a, b, |&a| a)
}

/// Dot product of a dense row and an f32 row by sixteen lanes, of which each takes
/// `CHUNK / 16` consecutive elements in turn.
#[inline(always)]
pub(super) fn sum_products<W, const CHUNK: usize>(
    weights: &[W],
    x: &[f32],
    decode: impl Fn(&W) -> f32,
) -> f32 {
    let shorter = weights.len().min(x.len());
    let (Some(weights), Some(x)) = (weights.get(..shorter), x.get(..shorter)) else {
        return 0.0;
    };
    let (weight_chunks, weight_rest) = weights.as_chunks::<CHUNK>();
    let (x_chunks, x_rest) = x.as_chunks::<CHUNK>();
    let mut lanes = [0.0; 16];
    let mut add = |weights: &[W], x: &[f32]| {
        for (i, (weight, x)) in weights.iter().zip(x).enumerate() {
            lanes[i / (CHUNK / 16) % 16] += decode(weight) * x;
        }
    };
    for (weights, x) in weight_chunks.iter().zip(x_chunks) {
        add(weights, x);
    }
    add(weight_rest, x_rest);
    fold16(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_terms_go_to_four_lanes() {
        // 2^24 + 1 rounds to 2^24, so that only the defined order gives 2^24 + 4.
        let big = 16_777_216.0;
        let terms = [big, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(sum_blocks(terms.into_iter()), (big + 2.0) + 2.0);
        assert_eq!(terms.iter().sum::<f32>(), big);
        assert_eq!(sum_blocks([-0.0].into_iter()).to_bits(), 0);
    }

    #[test]
    fn rows_go_to_sixteen_lanes() {
        // Lanes 0, 8 and 4 first, so a huge pair cancels before a small one is lost.
        let mut a = [0.0; 37];
        (a[0], a[16], a[8], a[4]) = (1e9, 1.0, -1e9, 3.0);
        assert_eq!(dot_f32(&a, &[1.0; 37]), 3.0);
        (a[16], a[36]) = (0.0, 7.0);
        assert_eq!(dot_f32(&a, &[1.0; 40]), 10.0);
        // By pairs, element 16 goes to lane 8 and element 1 to lane 0.
        let mut a = [0.0; 34];
        (a[0], a[1], a[16], a[33]) = (1e9, -1e9, 5.0, 2.0);
        assert_eq!(sum_products::<_, 32>(&a, &[1.0; 34], |&a: &f32| a), 7.0);
    }

    #[test]
    fn sixteen_lanes_fold_by_halves() {
        let lanes: [f32; 16] = core::array::from_fn(|l| 1.0 / (l as f32 + 3.0));
        let mut fold = lanes;
        for step in [8, 4, 2, 1] {
            for l in 0..step {
                fold[l] += fold[l + step];
            }
        }
        assert_eq!(fold16(lanes).to_bits(), fold[0].to_bits());
    }
}
