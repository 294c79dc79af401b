//! Rows of f32, f16 and bf16, whose activations stay f32: sixteen lanes of rounded products
//! (dot-products.md, "f32, f16, bf16 rows").

use crate::dot::portable::each;
use core::hint::black_box;

use zerocopy::FromBytes;

use super::matrix::{Matrix, TILE};
use crate::blocks::{Bf16, Block, F16, F32};
use crate::dot::{Activation, fold16};

/// Weights that are decoded at once.
const CHUNK: usize = 128;

/// An element of a dense row that has a dot product.
///
/// Implemented for [`F32`], [`F16`] and [`Bf16`].
pub trait Element: Block<1> {
    /// Brings 32 consecutive numbers of a row into the order in which they go to lanes,
    /// sixteen a step, one to each.
    #[inline(always)]
    fn arrange(numbers: &[f32; 32]) -> [f32; 32] {
        *numbers
    }

    /// The values of 32 elements.
    fn widen(elements: &[Self; 32]) -> [f32; 32]
    where
        Self: Sized;
}

impl Element for F32 {
    #[inline(always)]
    fn widen(elements: &[Self; 32]) -> [f32; 32] {
        each(*elements, |element| f32::from_le_bytes(element.0))
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn arrange(numbers: &[f32; 32]) -> [f32; 32] {
        by_pairs(numbers)
    }

    #[inline(always)]
    fn widen(elements: &[Self; 32]) -> [f32; 32] {
        each(*elements, |element| f32::from_bits(u32::from(u16::from_le_bytes(element.0)) << 16))
    }
}

impl Element for F16 {
    #[inline(always)]
    fn widen(elements: &[Self; 32]) -> [f32; 32] {
        let halves = each(*elements, |element| u16::from_le_bytes(element.0));
        // Exponents 1 to 30 only take another bias; zero, subnormals and what is not finite
        // are rare enough to go the long way together with their neighbours.
        let mut rare = 0;
        for half in halves {
            rare |= u16::from(half.wrapping_add(0x0400) & 0x7800 == 0);
        }
        if rare != 0 {
            return each(*elements, F16::to_f32);
        }
        each(halves, |half| {
            // The shift leaves the sign where it is.
            let shifted = (i32::from(half as i16) << 13) as u32 & 0x8FFF_E000;
            f32::from_bits(shifted.wrapping_add(112 << 23))
        })
    }
}

/// 128 numbers in the order in which they go to lanes: sixteen a step, one to each.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Chunk([f32; CHUNK]);

/// Brings 32 numbers, of which pairs go to a lane, into the order of lanes.
#[inline(always)]
fn by_pairs(x: &[f32; 32]) -> [f32; 32] {
    let mut arranged = [0.0; 32];
    for (l, pair) in x.as_chunks::<2>().0.iter().enumerate() {
        [arranged[l % 16], arranged[l % 16 + 16]] = *pair;
    }
    arranged
}

/// The next elements of `row`, widened and in the order of lanes.
#[inline(always)]
fn next_weights<E: Element>(row: &mut &[E], to: &mut Chunk) {
    if let Some((now, rest)) = row.split_first_chunk::<CHUNK>() {
        *row = rest;
        for (to, elements) in to.0.as_chunks_mut().0.iter_mut().zip(now.as_chunks().0) {
            *to = E::arrange(&E::widen(elements));
        }
        return;
    }
    next_activations::<E>(&padded::<CHUNK>(row.iter().map(decode)), to);
    *row = &[];
}

/// Up to 128 numbers in the order of lanes, followed by zeros.
#[inline(always)]
fn next_activations<E: Element>(x: &[f32], to: &mut Chunk) {
    let last: [f32; CHUNK];
    let x = match x.first_chunk() {
        Some(x) => x,
        None => {
            last = padded(x.iter().copied());
            &last
        }
    };
    for (to, x) in to.0.as_chunks_mut().0.iter_mut().zip(x.as_chunks().0) {
        *to = E::arrange(x);
    }
}

/// Adds the products of `weights` with `x` to the lanes of each row.
#[inline(always)]
fn add_products<const R: usize>(lanes: &mut [[f32; 16]; R], weights: &[Chunk; R], x: &Chunk) {
    let mut sums = *lanes;
    let weights = weights.each_ref().map(|chunk| chunk.0.as_chunks::<16>().0);
    for (step, x) in x.0.as_chunks::<16>().0.iter().enumerate() {
        for (sums, weights) in sums.iter_mut().zip(weights) {
            let Some(weights) = weights.get(step) else { continue };
            for ((sum, w), x) in sums.iter_mut().zip(weights).zip(x) {
                *sum += w * x;
            }
        }
    }
    *lanes = sums;
}

/// The products of `R` rows of dense elements with all activations.
#[inline(always)]
pub(super) fn rows<E: Element, const R: usize>(
    rows: [&[u8]; R],
    activations: &[Activation<'_>],
    mut out: [&mut [f32]; R],
) {
    let rows = rows.map(|row| <[E]>::ref_from_bytes(row).unwrap_or_default());
    for (tile, activations) in activations.chunks(TILE).enumerate() {
        let mut rest = rows;
        let mut lanes = [[[0.0; 16]; R]; TILE];
        let mut start = 0;
        let (mut weights, mut x) = ([Chunk([0.0; CHUNK]); R], Chunk([0.0; CHUNK]));
        while rest.iter().any(|row| !row.is_empty()) {
            for (row, weights) in rest.iter_mut().zip(&mut weights) {
                next_weights(row, weights);
            }
            let weights = black_box(&weights);
            for (activation, lanes) in activations.iter().zip(&mut lanes) {
                let Activation::F32(row) = activation else { continue };
                next_activations::<E>(row.get(start..).unwrap_or_default(), &mut x);
                add_products(lanes, weights, black_box(&x));
            }
            start += CHUNK;
        }
        for (a, (lanes, _)) in lanes.iter().zip(activations).enumerate() {
            for (out, lanes) in out.iter_mut().zip(lanes) {
                if let Some(out) = out.get_mut(tile * TILE + a) {
                    *out = fold16(*lanes);
                }
            }
        }
    }
}

/// As [`rows`] with one activation: decoded on the way.
#[inline(always)]
fn single<E: Element, const R: usize>(
    rows: [&[u8]; R],
    activations: &[Activation<'_>],
    out: [&mut [f32]; R],
) {
    let Some(Activation::F32(x)) = activations.first() else { return };
    let mut rows = rows.map(|row| <[E]>::ref_from_bytes(row).unwrap_or_default());
    let (steps, rest) = x.as_chunks::<32>();
    let mut lanes = [[0.0; 16]; R];
    for x in steps {
        let x = E::arrange(x);
        for (row, lanes) in rows.iter_mut().zip(&mut lanes) {
            let Some((elements, rest)) = row.split_first_chunk() else { return };
            *row = rest;
            add(lanes, &E::arrange(&E::widen(elements)), &x);
        }
    }
    let x = E::arrange(&padded(rest.iter().copied()));
    for ((row, lanes), out) in rows.iter().zip(&mut lanes).zip(out) {
        add(lanes, &E::arrange(&padded(row.iter().map(decode))), &x);
        if let Some(out) = out.first_mut() {
            *out = fold16(*lanes);
        }
    }
}

/// The value of one element.
#[inline(always)]
fn decode<E: Element>(element: &E) -> f32 {
    let mut value = [0.0];
    element.decode(&mut value);
    value[0]
}

/// The last numbers of a row, followed by zeros, whose products change no lane: none is
/// ever -0.
#[inline(always)]
fn padded<const N: usize>(rest: impl Iterator<Item = f32>) -> [f32; N] {
    let mut padded = [0.0; N];
    for (to, value) in padded.iter_mut().zip(rest) {
        *to = value;
    }
    padded
}

/// Adds 32 products to lanes.
#[inline(always)]
fn add(lanes: &mut [f32; 16], weights: &[f32; 32], x: &[f32; 32]) {
    for (weights, x) in weights.as_chunks::<16>().0.iter().zip(x.as_chunks::<16>().0) {
        for ((lane, weight), x) in lanes.iter_mut().zip(weights).zip(x) {
            *lane += weight * x;
        }
    }
}

/// Rows of `f32`, `f16` or `bf16`.
#[inline(always)]
pub fn by_elements<E: Element>(matrix: Matrix<'_>) {
    if matrix.activations().len() == 1 {
        return matrix.by_rows(single::<E, 2>, single::<E, 1>);
    }
    matrix.by_rows(rows::<E, 2>, rows::<E, 1>);
}
