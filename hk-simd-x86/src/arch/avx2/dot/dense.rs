//! Rows of f32, f16 and bf16, whose activations stay f32 (dot-products.md, "f32, f16, bf16
//! rows"): two vectors are the sixteen lanes of a row.
//!
//! Several activations share weights that are widened once: four rows by two activations at
//! a time, half of whose lanes stay in registers along a chunk of the rows.

use crate::arch::intrinsics::*;
use core::array;

use hk_core::{Activation, StorageType};

use super::super::vector::{fold_elements, load, load_floats, load_half, quarters, store};
use crate::arch::call::{DotMatrix, DotRows, Matrix, Rows, filled_up, steps_of_elements};

pub(super) fn rows(storage: StorageType) -> Option<DotRows> {
    Some(match storage {
        StorageType::F32 => DotRows::F32(f32),
        StorageType::F16 => DotRows::F32(f16),
        StorageType::BF16 => DotRows::F32(bf16),
        _ => return None,
    })
}

pub(super) fn matrix(storage: StorageType) -> Option<DotMatrix> {
    Some(match storage {
        StorageType::F32 => matrix_f32,
        StorageType::F16 => matrix_f16,
        StorageType::BF16 => matrix_bf16,
        _ => return None,
    })
}

/// 32 elements in two steps, each of one element for each lane: the lower lanes, then the
/// upper ones.
type Pair = [[__m256; 2]; 2];

/// 32 numbers, of which number `i` goes to lane `i mod 16`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn in_order(numbers: &[f32; 32]) -> Pair {
    let [a, b, c, d] = quarters(numbers);
    [[load_floats(a), load_floats(b)], [load_floats(c), load_floats(d)]]
}

/// 32 numbers, of which number `i` goes to lane `i / 2`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn by_pairs(numbers: &[f32; 32]) -> Pair {
    let [[a, b], [c, d]] = in_order(numbers);
    let even = |low, high| middle_swapped(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    let odd = |low, high| middle_swapped(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
    [[even(a, b), even(c, d)], [odd(a, b), odd(c, d)]]
}

/// The second quarter of the lanes in the place of the third, and the third in that of the
/// second.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn middle_swapped(lanes: __m256) -> __m256 {
    let lanes = _mm256_castps_pd(lanes);
    _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(lanes))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_f32(elements: &[u8; 128]) -> Pair {
    let [a, b, c, d]: &[[u8; 32]; 4] = zerocopy::transmute_ref!(elements);
    [
        [_mm256_castsi256_ps(load(a)), _mm256_castsi256_ps(load(b))],
        [_mm256_castsi256_ps(load(c)), _mm256_castsi256_ps(load(d))],
    ]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_f16(elements: &[u8; 64]) -> Pair {
    let [a, b, c, d]: &[[u8; 16]; 4] = zerocopy::transmute_ref!(elements);
    [
        [_mm256_cvtph_ps(load_half(a)), _mm256_cvtph_ps(load_half(b))],
        [_mm256_cvtph_ps(load_half(c)), _mm256_cvtph_ps(load_half(d))],
    ]
}

/// Pairs of elements share a lane, so that nothing has to be moved between lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_bf16(elements: &[u8; 64]) -> Pair {
    let [low, high]: &[[u8; 32]; 2] = zerocopy::transmute_ref!(elements);
    let (low, high) = (load(low), load(high));
    let first = |pairs| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs));
    let upper = _mm256_set1_epi32(0xFFFF_0000_u32 as i32);
    let second = |pairs| _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
    [[first(low), first(high)], [second(low), second(high)]]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn f32(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_f32(elements), |x| in_order(x));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn f16(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_f16(elements), |x| in_order(x));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn bf16(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_bf16(elements), |x| by_pairs(x));
}

/// The products with one activation.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply<const BYTES: usize>(
    rows: Rows<'_>,
    x: &[f32],
    widen: impl Fn(&[u8; BYTES]) -> Pair,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    let add = |[low, high]: [__m256; 2], [w0, w1]: Pair, [x0, x1]: Pair| {
        let low = _mm256_add_ps(low, _mm256_mul_ps(w0[0], x0[0]));
        let high = _mm256_add_ps(high, _mm256_mul_ps(w0[1], x0[1]));
        [
            _mm256_add_ps(low, _mm256_mul_ps(w1[0], x1[0])),
            _mm256_add_ps(high, _mm256_mul_ps(w1[1], x1[1])),
        ]
    };
    rows.by(|rows: [&[u8]; 4]| {
        let [mut lanes0, mut lanes1, mut lanes2, mut lanes3] = [[_mm256_setzero_ps(); 2]; 4];
        steps_of_elements(rows, x, |[row0, row1, row2, row3], x: &[f32; 32]| {
            let x = arrange(x);
            lanes0 = add(lanes0, widen(row0), x);
            lanes1 = add(lanes1, widen(row1), x);
            lanes2 = add(lanes2, widen(row2), x);
            lanes3 = add(lanes3, widen(row3), x);
        });
        fold_elements([lanes0, lanes1, lanes2, lanes3])
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
fn matrix_f32(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_f32(elements), |x| in_order(x));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn matrix_f16(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_f16(elements), |x| in_order(x));
}

#[target_feature(enable = "avx2,fma,f16c")]
fn matrix_bf16(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_bf16(elements), |x| by_pairs(x));
}

/// Rows at a time.
const ROWS: usize = 4;
/// Activations that weights are widened once for.
const TILE: usize = 16;
/// Steps of 32 elements whose weights are widened at once: 8 KiB, a quarter of the first cache.
const STEPS: usize = 16;

/// Half of a vector of each row.
type Halves = [[f32; 8]; ROWS];

/// Weights of a chunk: lower and upper lanes, and of each two vectors of each row a step.
#[repr(align(64))]
struct Chunk([[[Halves; 2]; STEPS]; 2]);

/// Lower and upper lanes of each row with each activation of a tile.
#[repr(align(64))]
struct Lanes([[Halves; TILE]; 2]);

/// The products with several activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply_all<const BYTES: usize>(
    matrix: Matrix<'_>,
    widen: impl Fn(&[u8; BYTES]) -> Pair,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    let Matrix { rows, row, activations, out, .. } = matrix;
    let count = activations.len();
    let mut chunk = Chunk([[[[[0.0; 8]; ROWS]; 2]; STEPS]; 2]);
    for (tile, activations) in activations.chunks(TILE).enumerate() {
        let x: [&[f32]; TILE] = array::from_fn(|a| match activations.get(a) {
            Some(Activation::F32(x)) => *x,
            _ => &[],
        });
        let mut left = rows;
        for out in out.chunks_mut(count * ROWS) {
            let now = out.len() / count;
            let (group, rest) = left.split_at_checked(now * row).unwrap_or_default();
            left = rest;
            // A last group of fewer rows is filled up with its last one.
            let group: [&[u8]; ROWS] = array::from_fn(|r| {
                let start = r.min(now - 1) * row;
                group.get(start..start + row).unwrap_or_default()
            });
            let mut lanes = Lanes([[[[0.0; 8]; ROWS]; TILE]; 2]);
            let steps = group.map(|row| row.as_chunks::<BYTES>().0);
            for start in (0..steps[0].len()).step_by(STEPS) {
                let steps = steps.map(|steps| steps.get(start..).unwrap_or_default());
                for (r, steps) in steps.iter().enumerate() {
                    let [low, high] = &mut chunk.0;
                    for ((step, low), high) in steps.iter().zip(low).zip(high) {
                        put(widen(step), r, low, high);
                    }
                }
                let x = x.map(|x| x.as_chunks().0.get(start..).unwrap_or_default());
                let len = steps[0].len().min(STEPS);
                add_tile(&chunk, len, &x[..activations.len()], &mut lanes, &arrange);
            }
            // Elements that are left over, filled up with zeros.
            let x = x.map(|x| x.as_chunks::<32>().1);
            if !x[0].is_empty() {
                let [[low, ..], [high, ..]] = &mut chunk.0;
                for (r, row) in group.iter().enumerate() {
                    put(widen(&filled_up(row.as_chunks::<BYTES>().1)), r, low, high);
                }
                let x = x.map(|x| [filled_up(x)]);
                let x = x.each_ref().map(|x| &x[..]);
                add_tile(&chunk, 1, &x[..activations.len()], &mut lanes, &arrange);
            }
            let [low, high] = &lanes.0;
            for (a, (low, high)) in low.iter().zip(high).take(activations.len()).enumerate() {
                let (low, high) = (load_halves(low), load_halves(high));
                let sums = fold_elements(array::from_fn(|r| [low[r], high[r]]));
                for (out, sum) in out.chunks_exact_mut(count).zip(sums) {
                    out[tile * TILE + a] = sum;
                }
            }
        }
    }
}

/// Writes the weights of a step of row `r`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn put(weights: Pair, r: usize, low: &mut [Halves; 2], high: &mut [Halves; 2]) {
    let [first, second] = weights;
    store(first[0], &mut low[0][r]);
    store(second[0], &mut low[1][r]);
    store(first[1], &mut high[0][r]);
    store(second[1], &mut high[1][r]);
}

/// Adds the products of `len` steps of a chunk's weights with those of the activations.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_tile(
    chunk: &Chunk,
    len: usize,
    x: &[&[[f32; 32]]],
    lanes: &mut Lanes,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    let ([low, high], [low_lanes, high_lanes]) = (&chunk.0, &mut lanes.0);
    add_half(&low[..len], x, low_lanes, |x| arrange(x).map(|step| step[0]));
    add_half(&high[..len], x, high_lanes, |x| arrange(x).map(|step| step[1]));
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_half(
    weights: &[[Halves; 2]],
    x: &[&[[f32; 32]]],
    lanes: &mut [Halves; TILE],
    arrange: impl Fn(&[f32; 32]) -> [__m256; 2],
) {
    for (x, lanes) in x.chunks(2).zip(lanes.as_chunks_mut::<2>().0) {
        let (Some(x0), Some(x1)) = (x.first(), x.last()) else { return };
        let [mut lanes0, mut lanes1] = lanes.each_ref().map(|lanes| load_halves(lanes));
        for ((weights, x0), x1) in weights.iter().zip(*x0).zip(*x1) {
            let (x0, x1) = (arrange(x0), arrange(x1));
            let first = load_halves(&weights[0]);
            lanes0 = add_products(lanes0, first, x0[0]);
            lanes1 = add_products(lanes1, first, x1[0]);
            let second = load_halves(&weights[1]);
            lanes0 = add_products(lanes0, second, x0[1]);
            lanes1 = add_products(lanes1, second, x1[1]);
        }
        for (to, lanes) in lanes.iter_mut().zip([lanes0, lanes1]) {
            for (to, lanes) in to.iter_mut().zip(lanes) {
                store(lanes, to);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_halves(from: &Halves) -> [__m256; ROWS] {
    let [a, b, c, d] = from;
    [load_floats(a), load_floats(b), load_floats(c), load_floats(d)]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_products(lanes: [__m256; ROWS], weights: [__m256; ROWS], x: __m256) -> [__m256; ROWS] {
    let ([a, b, c, d], [wa, wb, wc, wd]) = (lanes, weights);
    [
        _mm256_add_ps(a, _mm256_mul_ps(wa, x)),
        _mm256_add_ps(b, _mm256_mul_ps(wb, x)),
        _mm256_add_ps(c, _mm256_mul_ps(wc, x)),
        _mm256_add_ps(d, _mm256_mul_ps(wd, x)),
    ]
}
