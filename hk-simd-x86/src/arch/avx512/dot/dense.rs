//! Rows of f32, f16 and bf16, whose activations stay f32 (dot-products.md, "f32, f16, bf16
//! rows"): a vector is the sixteen lanes of a row.
//!
//! Several activations share weights that are widened once: eight rows by two activations at
//! a time, whose lanes stay in registers along a chunk of the rows.

use crate::arch::intrinsics::*;
use core::array;

use hk_core::{Activation, StorageType};

use super::super::vector::{fold_elements, load, load_floats, load_half, store};
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

/// 32 elements in two steps, each of one element for each lane.
type Pair = [__m512; 2];

/// 32 numbers, of which number `i` goes to lane `i mod 16`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn in_order(numbers: &[f32; 32]) -> Pair {
    let [low, high]: &[[f32; 16]; 2] = zerocopy::transmute_ref!(numbers);
    [load_floats(low), load_floats(high)]
}

/// 32 numbers, of which number `i` goes to lane `i / 2`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn by_pairs(numbers: &[f32; 32]) -> Pair {
    let [low, high] = in_order(numbers);
    let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    [_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn widen_f32(elements: &[u8; 128]) -> Pair {
    let [low, high]: &[[u8; 64]; 2] = zerocopy::transmute_ref!(elements);
    [_mm512_castsi512_ps(load(low)), _mm512_castsi512_ps(load(high))]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn widen_f16(elements: &[u8; 64]) -> Pair {
    let [low, high]: &[[u8; 32]; 2] = zerocopy::transmute_ref!(elements);
    [_mm512_cvtph_ps(load_half(low)), _mm512_cvtph_ps(load_half(high))]
}

/// Pairs of elements share a lane, so that nothing has to be moved between lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn widen_bf16(elements: &[u8; 64]) -> Pair {
    let pairs = load(elements);
    let upper = _mm512_set1_epi32(0xFFFF_0000_u32 as i32);
    [
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)),
        _mm512_castsi512_ps(_mm512_and_si512(pairs, upper)),
    ]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn f32(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_f32(elements), |x| in_order(x));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn f16(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_f16(elements), |x| in_order(x));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn bf16(rows: Rows<'_>, x: &[f32]) {
    multiply(rows, x, |elements| widen_bf16(elements), |x| by_pairs(x));
}

/// The products with one activation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn multiply<const BYTES: usize>(
    rows: Rows<'_>,
    x: &[f32],
    widen: impl Fn(&[u8; BYTES]) -> Pair,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    let add = |lanes, [w0, w1]: Pair, [x0, x1]: Pair| {
        let lanes = _mm512_add_ps(lanes, _mm512_mul_ps(w0, x0));
        _mm512_add_ps(lanes, _mm512_mul_ps(w1, x1))
    };
    rows.by(|rows: [&[u8]; 4]| {
        let [mut lanes0, mut lanes1, mut lanes2, mut lanes3] = [_mm512_setzero_ps(); 4];
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

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn matrix_f32(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_f32(elements), |x| in_order(x));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn matrix_f16(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_f16(elements), |x| in_order(x));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn matrix_bf16(matrix: Matrix<'_>) {
    multiply_all(matrix, |elements| widen_bf16(elements), |x| by_pairs(x));
}

/// Rows at a time.
const ROWS: usize = 8;
/// Activations that weights are widened once for.
const TILE: usize = 16;
/// Steps of 32 elements whose weights are widened at once: 16 KiB, a third of the first cache.
const STEPS: usize = 16;

/// A vector of each row.
type Vectors = [[f32; 16]; ROWS];

/// Weights of a chunk, two vectors of each row a step.
#[repr(align(64))]
struct Chunk([[Vectors; 2]; STEPS]);

/// The lanes of each row with each activation of a tile.
#[repr(align(64))]
struct Lanes([Vectors; TILE]);

/// The products with several activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn multiply_all<const BYTES: usize>(
    matrix: Matrix<'_>,
    widen: impl Fn(&[u8; BYTES]) -> Pair,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    let Matrix { rows, row, activations, out, .. } = matrix;
    let count = activations.len();
    let mut chunk = Chunk([[[[0.0; 16]; ROWS]; 2]; STEPS]);
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
            let mut lanes = Lanes([[[0.0; 16]; ROWS]; TILE]);
            let steps = group.map(|row| row.as_chunks::<BYTES>().0);
            for start in (0..steps[0].len()).step_by(STEPS) {
                let steps = steps.map(|steps| steps.get(start..).unwrap_or_default());
                for (r, steps) in steps.iter().enumerate() {
                    for (step, to) in steps.iter().zip(&mut chunk.0) {
                        let [first, second] = widen(step);
                        store(first, &mut to[0][r]);
                        store(second, &mut to[1][r]);
                    }
                }
                let weights = &chunk.0[..steps[0].len().min(STEPS)];
                let x = x.map(|x| x.as_chunks().0.get(start..).unwrap_or_default());
                add_tile(weights, &x[..activations.len()], &mut lanes, &arrange);
            }
            // Elements that are left over, filled up with zeros.
            let x = x.map(|x| x.as_chunks::<32>().1);
            if !x[0].is_empty() {
                for (r, row) in group.iter().enumerate() {
                    let [first, second] = widen(&filled_up(row.as_chunks::<BYTES>().1));
                    store(first, &mut chunk.0[0][0][r]);
                    store(second, &mut chunk.0[0][1][r]);
                }
                let x = x.map(|x| [filled_up(x)]);
                let x = x.each_ref().map(|x| &x[..]);
                add_tile(&chunk.0[..1], &x[..activations.len()], &mut lanes, &arrange);
            }
            for (a, lanes) in lanes.0.iter().take(activations.len()).enumerate() {
                let [low, high]: &[[[f32; 16]; 4]; 2] = zerocopy::transmute_ref!(lanes);
                let sums = [low, high].map(|[a, b, c, d]| {
                    fold_elements([load_floats(a), load_floats(b), load_floats(c), load_floats(d)])
                });
                let sums = sums.as_flattened();
                for (out, sum) in out.chunks_exact_mut(count).zip(sums) {
                    out[tile * TILE + a] = *sum;
                }
            }
        }
    }
}

/// Adds the products of a chunk's weights with those of the activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_tile(
    weights: &[[Vectors; 2]],
    x: &[&[[f32; 32]]],
    lanes: &mut Lanes,
    arrange: impl Fn(&[f32; 32]) -> Pair,
) {
    for (x, lanes) in x.chunks(2).zip(lanes.0.as_chunks_mut::<2>().0) {
        let (Some(x0), Some(x1)) = (x.first(), x.last()) else { return };
        let [mut lanes0, mut lanes1] = lanes.each_ref().map(|lanes| load_vectors(lanes));
        for ((weights, x0), x1) in weights.iter().zip(*x0).zip(*x1) {
            let (x0, x1) = (arrange(x0), arrange(x1));
            let first = load_vectors(&weights[0]);
            lanes0 = add_products(lanes0, first, x0[0]);
            lanes1 = add_products(lanes1, first, x1[0]);
            let second = load_vectors(&weights[1]);
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn load_vectors(from: &Vectors) -> [__m512; ROWS] {
    let [a, b, c, d, e, f, g, h] = from;
    [
        load_floats(a),
        load_floats(b),
        load_floats(c),
        load_floats(d),
        load_floats(e),
        load_floats(f),
        load_floats(g),
        load_floats(h),
    ]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_products(lanes: [__m512; ROWS], weights: [__m512; ROWS], x: __m512) -> [__m512; ROWS] {
    let [a, b, c, d, e, f, g, h] = lanes;
    let [wa, wb, wc, wd, we, wf, wg, wh] = weights;
    [
        _mm512_add_ps(a, _mm512_mul_ps(wa, x)),
        _mm512_add_ps(b, _mm512_mul_ps(wb, x)),
        _mm512_add_ps(c, _mm512_mul_ps(wc, x)),
        _mm512_add_ps(d, _mm512_mul_ps(wd, x)),
        _mm512_add_ps(e, _mm512_mul_ps(we, x)),
        _mm512_add_ps(f, _mm512_mul_ps(wf, x)),
        _mm512_add_ps(g, _mm512_mul_ps(wg, x)),
        _mm512_add_ps(h, _mm512_mul_ps(wh, x)),
    ]
}
