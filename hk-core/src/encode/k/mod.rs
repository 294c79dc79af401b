//! K-quants: super-blocks of 256 weights with quantized scales of sub-blocks.
//!
//! A super-block is worked on as sixteen rows of sixteen lanes, each lane a run of sixteen
//! weights, so that all sub-blocks are searched at once, without a sum across lanes. Where
//! a sub-block has 32 weights it is two lanes next to each other.
//!
//! First each sub-block gets the scale (and minimum) that suit it best, by least squares from
//! several starts. Then these are rounded to multiples of the super-block's, and the rounded
//! ones are improved: their neighbours are tried, and the super-block's scales fitted to what
//! they have become.

mod affine;
mod pack;
mod symmetric;

use super::Encode;
use super::lanes::{LARGEST_F16, Lanes};
use super::search::relative;
use crate::blocks::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};

/// Lane `l` of row `i` is number `16l + i`.
type Rows<V> = [V; 16];

/// 256 numbers by rows.
#[inline(always)]
fn rows<V: Lanes>(x: &[f32; 256]) -> Rows<V> {
    let mut rows = [V::splat(0.0); 16];
    for (row, x) in rows.iter_mut().zip(x.as_chunks::<16>().0) {
        *row = V::load(x);
    }
    V::transpose(rows)
}

/// Codes by rows, as bytes in the order of the weights.
#[inline(always)]
fn codes<V: Lanes>(rows: Rows<V>) -> [u8; 256] {
    let mut codes = [0; 256];
    for (codes, row) in codes.as_chunks_mut::<16>().0.iter_mut().zip(V::transpose(rows)) {
        *codes = row.to_bytes();
    }
    codes
}

/// Importance by rows.
#[inline(always)]
fn importance<V: Lanes>(importance: Option<&[f32; 256]>) -> Option<Rows<V>> {
    importance.map(|_| rows(&relative(importance)))
}

/// `x` counted by the importance of row `i`.
#[inline(always)]
fn counted<V: Lanes>(importance: &Option<Rows<V>>, i: usize, x: V) -> V {
    match importance {
        Some(rows) => rows[i & 15] * x,
        None => x,
    }
}

impl Encode<256> for BlockQ2K {
    const LARGEST: f32 = 15.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], weighting: Option<&[f32; 256]>) -> Self {
        let found = affine::search::<V, 3, 15, false>(rows(weights), importance(weighting));
        pack::q2_k(&found)
    }
}

impl Encode<256> for BlockQ4K {
    const LARGEST: f32 = 63.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], weighting: Option<&[f32; 256]>) -> Self {
        let found = affine::search::<V, 15, 63, true>(rows(weights), importance(weighting));
        pack::q4_k(&found)
    }
}

impl Encode<256> for BlockQ5K {
    const LARGEST: f32 = 63.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], weighting: Option<&[f32; 256]>) -> Self {
        let found = affine::search::<V, 31, 63, true>(rows(weights), importance(weighting));
        pack::q5_k(&found)
    }
}

impl Encode<256> for BlockQ3K {
    const LARGEST: f32 = 3.0 * 31.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], weighting: Option<&[f32; 256]>) -> Self {
        let found = symmetric::search::<V, 4, 32>(rows(weights), importance(weighting));
        pack::q3_k(&found)
    }
}

impl Encode<256> for BlockQ6K {
    const LARGEST: f32 = 31.0 * 127.0 * LARGEST_F16;

    #[inline(always)]
    fn encode<V: Lanes>(weights: &[f32; 256], weighting: Option<&[f32; 256]>) -> Self {
        let found = symmetric::search::<V, 32, 128>(rows(weights), importance(weighting));
        pack::q6_k(&found)
    }
}
