//! Attention: sixteen keys or four queries at once.

use crate::arch::intrinsics::*;

use hk_core::attention::{self, Query, Weighted};

use super::vector::{load_floats, load_half, store};
use crate::arch::attention::{self as drive, Keys, LANES, Sums, WIDTH};

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn scores(keys: &[&[[u8; 2]]], len: usize, scale: f32, queries: &mut [Query<'_>]) {
    let products = |keys: &Keys, query: &[[f32; LANES]], scores: &mut [f32; 16]| {
        let products = _mm512_mul_ps(products(keys, query), _mm512_set1_ps(scale));
        store(products, scores);
    };
    if !drive::scores(keys, len, queries, |halves, to| store(widen(halves), to), products) {
        attention::scores(keys, len, scale, queries);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn widen(halves: &[[u8; 2]; 16]) -> __m512 {
    _mm512_cvtph_ps(load_half(zerocopy::transmute_ref!(halves)))
}

/// The dot products of sixteen keys with a query.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn products(keys: &Keys, query: &[[f32; LANES]]) -> __m512 {
    let mut sums = [_mm512_setzero_ps(); 16];
    for (keys, query) in keys.iter().zip(query) {
        let query = load_floats(query);
        let add = |sum, key| _mm512_add_ps(sum, _mm512_mul_ps(query, load_floats(key)));
        sums = [
            add(sums[0], &keys[0]),
            add(sums[1], &keys[1]),
            add(sums[2], &keys[2]),
            add(sums[3], &keys[3]),
            add(sums[4], &keys[4]),
            add(sums[5], &keys[5]),
            add(sums[6], &keys[6]),
            add(sums[7], &keys[7]),
            add(sums[8], &keys[8]),
            add(sums[9], &keys[9]),
            add(sums[10], &keys[10]),
            add(sums[11], &keys[11]),
            add(sums[12], &keys[12]),
            add(sums[13], &keys[13]),
            add(sums[14], &keys[14]),
            add(sums[15], &keys[15]),
        ];
    }
    fold(sums)
}

/// The sum of the lanes of each vector, in the order of the definition: lane l + 8 onto l,
/// then l + 4, l + 2, l + 1. Each step halves the vectors: what is left of two of them goes
/// into one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fold(v: [__m512; 16]) -> __m512 {
    let eight = |a, b| {
        let other = _mm512_shuffle_f32x4::<0b01_00_11_10>(a, b);
        _mm512_add_ps(_mm512_mask_blend_ps(0xFF00, a, b), other)
    };
    let four = |a, b| {
        let other = _mm512_mask_blend_ps(0xF0F0, b, a);
        let other = _mm512_shuffle_f32x4::<0b10_11_00_01>(other, other);
        _mm512_add_ps(_mm512_mask_blend_ps(0xF0F0, a, b), other)
    };
    let two = |a, b| {
        let other = _mm512_shuffle_ps::<0b01_00_11_10>(a, b);
        _mm512_add_ps(_mm512_mask_blend_ps(0xCCCC, a, b), other)
    };
    let one = |a, b| {
        let other = _mm512_permute_ps::<0b10_11_00_01>(_mm512_mask_blend_ps(0xAAAA, b, a));
        _mm512_add_ps(_mm512_mask_blend_ps(0xAAAA, a, b), other)
    };
    let [v0, v1, v2, v3] =
        [eight(v[0], v[8]), eight(v[1], v[9]), eight(v[2], v[10]), eight(v[3], v[11])];
    let [v4, v5, v6, v7] =
        [eight(v[4], v[12]), eight(v[5], v[13]), eight(v[6], v[14]), eight(v[7], v[15])];
    let [v0, v1, v2, v3] = [four(v0, v4), four(v1, v5), four(v2, v6), four(v3, v7)];
    one(two(v0, v2), two(v1, v3))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn add_weighted(values: &[&[[u8; 2]]], len: usize, sums: &mut [Weighted<'_>]) {
    let decode = |halves: &[[u8; 2]; WIDTH], to: &mut [f32; WIDTH]| {
        let [low, high]: &[[[u8; 2]; 16]; 2] = zerocopy::transmute_ref!(halves);
        put([widen(low), widen(high)], to);
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
        attention::add_weighted::<64>(values, len, sums);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_four(rows: &[[f32; WIDTH]], [a, b, c, d]: Sums<'_, 4>) {
    let (mut a_now, mut b_now, mut c_now, mut d_now) = (get(a.1), get(b.1), get(c.1), get(d.1));
    for ((((row, a), b), c), d) in rows.iter().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
        let row = get(row);
        a_now = added(a_now, *a, row);
        b_now = added(b_now, *b, row);
        c_now = added(c_now, *c, row);
        d_now = added(d_now, *d, row);
    }
    put(a_now, a.1);
    put(b_now, b.1);
    put(c_now, c.1);
    put(d_now, d.1);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_three(rows: &[[f32; WIDTH]], [a, b, c]: Sums<'_, 3>) {
    let (mut a_now, mut b_now, mut c_now) = (get(a.1), get(b.1), get(c.1));
    for (((row, a), b), c) in rows.iter().zip(a.0).zip(b.0).zip(c.0) {
        let row = get(row);
        a_now = added(a_now, *a, row);
        b_now = added(b_now, *b, row);
        c_now = added(c_now, *c, row);
    }
    put(a_now, a.1);
    put(b_now, b.1);
    put(c_now, c.1);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_one(rows: &[[f32; WIDTH]], [sum]: Sums<'_, 1>) {
    let mut now = get(sum.1);
    for (row, weight) in rows.iter().zip(sum.0) {
        now = added(now, *weight, get(row));
    }
    put(now, sum.1);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn added(sum: [__m512; 2], weight: f32, row: [__m512; 2]) -> [__m512; 2] {
    let weight = _mm512_set1_ps(weight);
    let add = |sum, row| _mm512_add_ps(sum, _mm512_mul_ps(weight, row));
    [add(sum[0], row[0]), add(sum[1], row[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn get(numbers: &[f32; WIDTH]) -> [__m512; 2] {
    let [low, high]: &[[f32; 16]; 2] = zerocopy::transmute_ref!(numbers);
    [load_floats(low), load_floats(high)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn put([low, high]: [__m512; 2], to: &mut [f32; WIDTH]) {
    let [to_low, to_high]: &mut [[f32; 16]; 2] = zerocopy::transmute_mut!(to);
    store(low, to_low);
    store(high, to_high);
}
