//! Attention: four keys or four queries at once.

use crate::arch::intrinsics::*;

use hk_core::attention::{self, Query, Weighted};

use super::vector::{load_floats, load_half, store};
use crate::arch::attention::{self as drive, Keys, LANES, Sums, WIDTH};

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scores(keys: &[&[[u8; 2]]], len: usize, scale: f32, queries: &mut [Query<'_>]) {
    let products = |keys: &Keys, query: &[[f32; LANES]], scores: &mut [f32; 16]| {
        let [low, high]: &mut [[f32; 8]; 2] = zerocopy::transmute_mut!(scores);
        let scale = _mm256_set1_ps(scale);
        store(_mm256_mul_ps(fold(sums::<0>(keys, query), sums::<4>(keys, query)), scale), low);
        store(_mm256_mul_ps(fold(sums::<8>(keys, query), sums::<12>(keys, query)), scale), high);
    };
    let decode = |halves: &[[u8; 2]; LANES], to: &mut [f32; LANES]| {
        let [low, high]: &[[u8; 16]; 2] = zerocopy::transmute_ref!(halves);
        let [to_low, to_high]: &mut [[f32; 8]; 2] = zerocopy::transmute_mut!(to);
        store(_mm256_cvtph_ps(load_half(low)), to_low);
        store(_mm256_cvtph_ps(load_half(high)), to_high);
    };
    if !drive::scores(keys, len, queries, decode, products) {
        attention::scores(keys, len, scale, queries);
    }
}

/// Of each of four keys, from `FIRST` on, the lanes of its dot product with a query: lane
/// l + 8 is already added onto lane l.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sums<const FIRST: usize>(keys: &Keys, query: &[[f32; LANES]]) -> [__m256; 4] {
    let mut low = [_mm256_setzero_ps(); 4];
    let mut high = low;
    for (keys, query) in keys.iter().zip(query) {
        let ([query_low, query_high], keys): (&[[f32; 8]; 2], &[[[f32; 8]; 2]; 16]) =
            (zerocopy::transmute_ref!(query), zerocopy::transmute_ref!(keys));
        let query = [load_floats(query_low), load_floats(query_high)];
        let add = |sum, query, key| _mm256_add_ps(sum, _mm256_mul_ps(query, load_floats(key)));
        low = [
            add(low[0], query[0], &keys[FIRST][0]),
            add(low[1], query[0], &keys[FIRST + 1][0]),
            add(low[2], query[0], &keys[FIRST + 2][0]),
            add(low[3], query[0], &keys[FIRST + 3][0]),
        ];
        high = [
            add(high[0], query[1], &keys[FIRST][1]),
            add(high[1], query[1], &keys[FIRST + 1][1]),
            add(high[2], query[1], &keys[FIRST + 2][1]),
            add(high[3], query[1], &keys[FIRST + 3][1]),
        ];
    }
    [
        _mm256_add_ps(low[0], high[0]),
        _mm256_add_ps(low[1], high[1]),
        _mm256_add_ps(low[2], high[2]),
        _mm256_add_ps(low[3], high[3]),
    ]
}

/// The sum of the lanes of each vector, in the order of the definition: lane l + 4 onto l,
/// then l + 2, l + 1. Each step halves the vectors: what is left of two of them goes into
/// one.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn fold([a0, a1, a2, a3]: [__m256; 4], [b0, b1, b2, b3]: [__m256; 4]) -> __m256 {
    let four = |a, b| {
        let other = _mm256_permute2f128_ps::<0x21>(a, b);
        _mm256_add_ps(_mm256_blend_ps::<0xF0>(a, b), other)
    };
    let two = |a, b| {
        let other = _mm256_shuffle_ps::<0b01_00_11_10>(a, b);
        _mm256_add_ps(_mm256_blend_ps::<0xCC>(a, b), other)
    };
    let one = |a, b| {
        let other = _mm256_permute_ps::<0b10_11_00_01>(_mm256_blend_ps::<0xAA>(b, a));
        _mm256_add_ps(_mm256_blend_ps::<0xAA>(a, b), other)
    };
    let [v0, v1, v2, v3] = [four(a0, b0), four(a1, b1), four(a2, b2), four(a3, b3)];
    one(two(v0, v2), two(v1, v3))
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_weighted(values: &[&[[u8; 2]]], len: usize, sums: &mut [Weighted<'_>]) {
    let decode = |halves: &[[u8; 2]; WIDTH], to: &mut [f32; WIDTH]| {
        let [a, b, c, d]: &[[u8; 16]; 4] = zerocopy::transmute_ref!(halves);
        let [to_a, to_b, to_c, to_d]: &mut [[f32; 8]; 4] = zerocopy::transmute_mut!(to);
        store(_mm256_cvtph_ps(load_half(a)), to_a);
        store(_mm256_cvtph_ps(load_half(b)), to_b);
        store(_mm256_cvtph_ps(load_half(c)), to_c);
        store(_mm256_cvtph_ps(load_half(d)), to_d);
    };
    let done = drive::add_weighted(
        values,
        len,
        sums,
        decode,
        |rows, sums| add_four(rows, sums),
        |rows, sums| add_three(rows, sums),
        |rows, sums| add_one(rows, sums),
    );
    if !done {
        attention::add_weighted::<32>(values, len, sums);
    }
}

/// In two halves of the width, since there are sixteen registers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_four(rows: &[[f32; WIDTH]], [a, b, c, d]: Sums<'_, 4>) {
    add_four_at::<0>(
        rows,
        [(a.0, &mut *a.1), (b.0, &mut *b.1), (c.0, &mut *c.1), (d.0, &mut *d.1)],
    );
    add_four_at::<1>(rows, [a, b, c, d]);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_four_at<const HALF: usize>(rows: &[[f32; WIDTH]], [a, b, c, d]: Sums<'_, 4>) {
    let (mut a_now, mut b_now) = (get::<HALF>(a.1), get::<HALF>(b.1));
    let (mut c_now, mut d_now) = (get::<HALF>(c.1), get::<HALF>(d.1));
    for ((((row, a), b), c), d) in rows.iter().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
        let row = get::<HALF>(row);
        a_now = added(a_now, *a, row);
        b_now = added(b_now, *b, row);
        c_now = added(c_now, *c, row);
        d_now = added(d_now, *d, row);
    }
    put::<HALF>(a_now, a.1);
    put::<HALF>(b_now, b.1);
    put::<HALF>(c_now, c.1);
    put::<HALF>(d_now, d.1);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_three(rows: &[[f32; WIDTH]], [a, b, c]: Sums<'_, 3>) {
    add_three_at::<0>(rows, [(a.0, &mut *a.1), (b.0, &mut *b.1), (c.0, &mut *c.1)]);
    add_three_at::<1>(rows, [a, b, c]);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_three_at<const HALF: usize>(rows: &[[f32; WIDTH]], [a, b, c]: Sums<'_, 3>) {
    let (mut a_now, mut b_now) = (get::<HALF>(a.1), get::<HALF>(b.1));
    let mut c_now = get::<HALF>(c.1);
    for (((row, a), b), c) in rows.iter().zip(a.0).zip(b.0).zip(c.0) {
        let row = get::<HALF>(row);
        a_now = added(a_now, *a, row);
        b_now = added(b_now, *b, row);
        c_now = added(c_now, *c, row);
    }
    put::<HALF>(a_now, a.1);
    put::<HALF>(b_now, b.1);
    put::<HALF>(c_now, c.1);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_one(rows: &[[f32; WIDTH]], [sum]: Sums<'_, 1>) {
    let (mut low, mut high) = (get::<0>(sum.1), get::<1>(sum.1));
    for (row, weight) in rows.iter().zip(sum.0) {
        low = added(low, *weight, get::<0>(row));
        high = added(high, *weight, get::<1>(row));
    }
    put::<0>(low, sum.1);
    put::<1>(high, sum.1);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn added(sum: [__m256; 2], weight: f32, row: [__m256; 2]) -> [__m256; 2] {
    let weight = _mm256_set1_ps(weight);
    let add = |sum, row| _mm256_add_ps(sum, _mm256_mul_ps(weight, row));
    [add(sum[0], row[0]), add(sum[1], row[1])]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn get<const HALF: usize>(numbers: &[f32; WIDTH]) -> [__m256; 2] {
    let halves: &[[[f32; 8]; 2]; 2] = zerocopy::transmute_ref!(numbers);
    [load_floats(&halves[HALF][0]), load_floats(&halves[HALF][1])]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn put<const HALF: usize>([low, high]: [__m256; 2], to: &mut [f32; WIDTH]) {
    let halves: &mut [[[f32; 8]; 2]; 2] = zerocopy::transmute_mut!(to);
    let [to_low, to_high] = &mut halves[HALF];
    store(low, to_low);
    store(high, to_high);
}
