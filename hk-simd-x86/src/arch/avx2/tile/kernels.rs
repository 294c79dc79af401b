//! The multiplications, which go by `multiply`: it adds the products of sixteen codes of each
//! row with as many of the activation, by what the CPU has for that.

use crate::arch::intrinsics::*;

use hk_core::dot::{RowQ32, RowQ256};

use crate::arch::tile::{Block32, Block64, Block256, Sums, TILE};

/// Four vectors of codes.
pub(super) type Codes = [__m256i; 4];

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_32<const OFFSET: u32, const MINIMUM: bool>(
    multiply: impl Fn(__m256i, Codes, &[i8; 16]) -> __m256i,
    block: &Block32<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut [__m256],
) {
    let &[first, last] = block.codes.as_chunks::<4>().0 else { return };
    let (d, m) = (block.d, block.m);
    for (activation, lanes) in activations.iter().zip(sums) {
        let (Some(q), Some(&da)) = (activation.q().get(b), activation.d().get(b)) else { return };
        let [q_first, q_last] = q.as_chunks::<16>().0 else { return };
        let mut sum = multiply(_mm256_setzero_si256(), first, q_first);
        sum = multiply(sum, last, q_last);
        if OFFSET != 0 {
            let Some(&of_codes) = activation.sums().get(b) else { return };
            // By a shift, since multiplications are what there are many of.
            let shift = _mm256_set1_epi32(OFFSET.trailing_zeros() as i32);
            let offset = _mm256_sllv_epi32(_mm256_set1_epi32(of_codes), shift);
            sum = _mm256_sub_epi32(sum, offset);
        }
        let d = _mm256_mul_ps(d, _mm256_set1_ps(da));
        let mut term = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum));
        if MINIMUM {
            let Some(&s) = activation.s().get(b) else { return };
            term = _mm256_add_ps(term, _mm256_mul_ps(m, _mm256_set1_ps(s)));
        }
        *lanes = _mm256_add_ps(*lanes, term);
    }
}

/// The exact sums of a block of each row with a block of each activation.
type Integers = [__m256i; TILE];

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_256<const SCALES: usize, const MINIMUM: bool>(
    multiply: impl Fn(__m256i, Codes, &[i8; 16]) -> __m256i + Copy,
    multiply_pairs: impl Fn(__m256i, Codes, &[i16; 8]) -> __m256i,
    block: &Block256<__m256i, __m256>,
    b: usize,
    activations: &[RowQ256<'_>],
    sums: &mut [__m256],
) {
    let mut integers = [_mm256_setzero_si256(); TILE];
    if SCALES == 0 {
        let planes = block.codes.as_chunks::<4>().0.iter().zip(block.high.as_chunks::<4>().0);
        for (part, (&low, &high)) in planes.enumerate() {
            add_planes(multiply, low, high, (b, part), activations, &mut integers);
        }
    } else {
        let parts = block.codes.as_chunks::<8>().0.iter();
        let by_16 = block.scales.as_chunks::<2>().0.iter().copied();
        let by_32 = block.scales.iter().map(|&scale| [scale; 2]);
        if SCALES == 16 {
            for (part, (codes, scales)) in parts.zip(by_16).enumerate() {
                add_part::<SCALES>(multiply, codes, scales, (b, part), activations, &mut integers);
            }
        } else {
            for (part, (codes, scales)) in parts.zip(by_32).enumerate() {
                add_part::<SCALES>(multiply, codes, scales, (b, part), activations, &mut integers);
            }
        }
    }
    add_terms::<MINIMUM>(multiply_pairs, block, b, activations, &integers, sums);
}

/// Adds the sums of 32 weights: part `part` of block `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_part<const SCALES: usize>(
    multiply: impl Fn(__m256i, Codes, &[i8; 16]) -> __m256i,
    codes: &[__m256i; 8],
    [s0, s1]: [__m256i; 2],
    (b, part): (usize, usize),
    activations: &[RowQ256<'_>],
    integers: &mut Integers,
) {
    let &[c0, c1] = codes.as_chunks::<4>().0 else { return };
    let zero = _mm256_setzero_si256();
    for (activation, integers) in activations.iter().zip(integers) {
        let Some(q) = activation.q().get(b) else { return };
        let Some(q) = q.as_chunks::<32>().0.get(part) else { return };
        let [q0, q1] = q.as_chunks::<16>().0 else { return };
        *integers = match SCALES {
            16 => {
                let first = _mm256_mullo_epi32(multiply(zero, c0, q0), s0);
                let second = _mm256_mullo_epi32(multiply(zero, c1, q1), s1);
                _mm256_add_epi32(*integers, _mm256_add_epi32(first, second))
            }
            8 => {
                let sum = multiply(multiply(zero, c0, q0), c1, q1);
                _mm256_add_epi32(*integers, _mm256_mullo_epi32(sum, s0))
            }
            _ => multiply(multiply(*integers, c0, q0), c1, q1),
        };
    }
}

/// Adds the sums of 16 weights in two planes: part `part` of block `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_planes(
    multiply: impl Fn(__m256i, Codes, &[i8; 16]) -> __m256i,
    low: Codes,
    high: Codes,
    (b, part): (usize, usize),
    activations: &[RowQ256<'_>],
    integers: &mut Integers,
) {
    for (activation, integers) in activations.iter().zip(integers) {
        let Some(q) = activation.q().get(b) else { return };
        let Some(q) = q.as_chunks::<16>().0.get(part) else { return };
        let high = multiply(_mm256_setzero_si256(), high, q);
        let sum = _mm256_add_epi32(*integers, _mm256_slli_epi32::<7>(high));
        *integers = multiply(sum, low, q);
    }
}

/// Adds the terms of a block, whose exact sums but for corrections are `integers`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_terms<const MINIMUM: bool>(
    multiply_pairs: impl Fn(__m256i, Codes, &[i16; 8]) -> __m256i,
    block: &Block256<__m256i, __m256>,
    b: usize,
    activations: &[RowQ256<'_>],
    integers: &Integers,
    sums: &mut [__m256],
) {
    let &[c0, c1] = block.corrections.as_chunks::<4>().0 else { return };
    let (d, m) = (block.d, block.m);
    for ((activation, &integers), lanes) in activations.iter().zip(integers).zip(sums) {
        let (Some(of_codes), Some(&da)) = (activation.sums().get(b), activation.d().get(b)) else {
            return;
        };
        let [first, last] = of_codes.as_chunks::<8>().0 else { return };
        let (da, mut integer) = (_mm256_set1_ps(da), integers);
        let mut minimum = _mm256_setzero_si256();
        if MINIMUM {
            minimum = multiply_pairs(multiply_pairs(minimum, c0, first), c1, last);
        } else {
            integer = multiply_pairs(multiply_pairs(integer, c0, first), c1, last);
        }
        let mut term = _mm256_mul_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(integer));
        if MINIMUM {
            let m = _mm256_mul_ps(m, da);
            term = _mm256_sub_ps(term, _mm256_mul_ps(m, _mm256_cvtepi32_ps(minimum)));
        }
        *lanes = _mm256_add_ps(*lanes, term);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add_nvfp4(
    multiply: impl Fn(__m256i, Codes, &[i8; 16]) -> __m256i,
    block: &Block64<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut Sums<__m256>,
) {
    let (zero, offset) = (_mm256_setzero_si256(), [_mm256_set1_epi8(16); 4]);
    let parts = block.codes.iter().zip(&block.d).zip(sums);
    for (part, ((&codes, &d), sums)) in parts.enumerate() {
        let b = 2 * b + part / 2;
        for (activation, lanes) in activations.iter().zip(sums) {
            let (Some(q), Some(&da)) = (activation.q().get(b), activation.d().get(b)) else {
                return;
            };
            let Some(q) = q.as_chunks::<16>().0.get(part % 2) else { return };
            // There are no sums of 16 codes to take the offset off with.
            let sum = _mm256_sub_epi32(multiply(zero, codes, q), multiply(zero, offset, q));
            let d = _mm256_mul_ps(d, _mm256_set1_ps(da));
            let term = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum));
            *lanes = _mm256_add_ps(*lanes, term);
        }
    }
}
