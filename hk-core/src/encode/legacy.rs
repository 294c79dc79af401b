//! The legacy blocks of 32 weights.

use super::Encode;
use super::lanes::{LARGEST_F16, Lanes};
use super::scale::inverse;
use crate::blocks::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, F16};

/// 32 numbers.
type Pair<V> = [V; 2];

#[inline(always)]
fn load<V: Lanes>(x: &[f32; 32]) -> Pair<V> {
    let (low, high) = x.split_at(16);
    let load = |x: &[f32]| V::load(x.as_array().unwrap_or(&[0.0; 16]));
    [load(low), load(high)]
}

/// The scale of codes from -`half` to `half - 1`, and the codes with `half` added.
#[inline(always)]
fn symmetric<V: Lanes>(x: &[f32; 32], half: f32) -> (F16, Pair<V>) {
    let x: Pair<V> = load(x);
    let (low, high) = x[0].min(x[1]).ends(x[0].max(x[1]));
    let end = if high > -low { high } else { low };
    let code =
        |x: V, inverse: V| (x * inverse).max(V::splat(-half)).min(V::splat(half - 1.0)).round();
    let inv = V::splat(inverse(end / -half));
    let q = [code(x[0], inv), code(x[1], inv)];
    let xq = (x[0] * q[0] + x[1] * q[1]).sum();
    let qq = (q[0] * q[0] + q[1] * q[1]).sum();
    let (d, scale) = V::half(xq * inverse(qq));
    let inv = V::splat(inverse(scale));
    let half = V::splat(half);
    (d, [code(x[0], inv) + half, code(x[1], inv) + half])
}

/// The scale and minimum of codes from 0 to `most`, and the codes.
#[inline(always)]
fn affine<V: Lanes>(x: &[f32; 32], most: f32) -> (F16, F16, Pair<V>) {
    let x: Pair<V> = load(x);
    let (low, high) = x[0].min(x[1]).ends(x[0].max(x[1]));
    let (d, scale) = V::half((high - low) / most);
    let (m, minimum) = V::half(low);
    let (inv, minimum) = (V::splat(inverse(scale)), V::splat(minimum));
    let code = |x: V| ((x - minimum) * inv).max(V::splat(0.0)).min(V::splat(most)).round();
    (d, m, [code(x[0]), code(x[1])])
}

/// The low four bits of codes, as `nibbles` of [`blocks`](crate::blocks) has them.
#[inline(always)]
fn nibbles<V: Lanes>([low, high]: Pair<V>) -> [u8; 16] {
    // 16 times the upper code fits a byte once its fifth bit is off.
    (low + high * V::splat(16.0)).to_bytes()
}

/// The fifth bits of codes, bit `i` that of weight `i`.
#[inline(always)]
fn fifth_bits<V: Lanes>(codes: Pair<V>) -> ([u8; 4], Pair<V>) {
    let limit = V::splat(15.5);
    let off = |code: V| limit.where_less(code, code - V::splat(16.0), code);
    let [low, high] = codes.map(|code| limit.less(code));
    let [l0, l1] = low.to_le_bytes();
    let [h0, h1] = high.to_le_bytes();
    ([l0, l1, h0, h1], [off(codes[0]), off(codes[1])])
}

impl Encode<32> for BlockQ4_0 {
    const LARGEST: f32 = 8.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, codes) = symmetric::<V>(weights, 8.0);
        BlockQ4_0 { d, qs: nibbles(codes) }
    }
}

impl Encode<32> for BlockQ5_0 {
    const LARGEST: f32 = 16.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, codes) = symmetric::<V>(weights, 16.0);
        let (qh, codes) = fifth_bits(codes);
        BlockQ5_0 { d, qh, qs: nibbles(codes) }
    }
}

impl Encode<32> for BlockQ4_1 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, m, codes) = affine::<V>(weights, 15.0);
        BlockQ4_1 { d, m, qs: nibbles(codes) }
    }
}

impl Encode<32> for BlockQ5_1 {
    const LARGEST: f32 = LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, m, codes) = affine::<V>(weights, 31.0);
        let (qh, codes) = fifth_bits(codes);
        BlockQ5_1 { d, m, qh, qs: nibbles(codes) }
    }
}

impl Encode<32> for BlockQ8_0 {
    const LARGEST: f32 = 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let x: Pair<V> = load(weights);
        let (low, high) = x[0].min(x[1]).ends(x[0].max(x[1]));
        let (d, scale) = V::half(if high > -low { high } else { -low } / 127.0);
        let inv = V::splat(inverse(scale));
        let code = |x: V| (x * inv).max(V::splat(-127.0)).min(V::splat(127.0)).round();
        let mut qs = [0; 32];
        for (qs, x) in qs.as_chunks_mut::<16>().0.iter_mut().zip(x) {
            *qs = (code(x) + V::splat(128.0)).to_bytes().map(|code| (code ^ 0x80) as i8);
        }
        BlockQ8_0 { d, qs }
    }
}
