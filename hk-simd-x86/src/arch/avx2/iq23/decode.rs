//! Decoding: signed magnitudes, times the scale of their sixteen weights.
//!
//! A product is exact: 11 bits of the block's scale, 5 of the group's and 6 of the magnitude.
//! So it does not matter in which order the factors come.

use crate::arch::intrinsics::*;

use super::super::vector::{broadcast_half, quarters_of, store};
use super::*;
use crate::arch::call::whole_blocks;

/// Decodes a block of `parts` and the magnitudes that `group` gives.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn write<const BYTES: usize>(
    block: &[u8; BYTES],
    power: f32,
    parts: Parts,
    group: impl Fn(usize) -> __m256i,
    out: &mut [f32; 256],
) {
    let d = _mm256_mul_ps(broadcast_half([block[0], block[1]]), _mm256_set1_ps(power));
    let scaled = |odd| _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srli_epi32::<16>(odd)));
    let [first, last] = parts.scales;
    let scales = [scaled(first), scaled(last)];
    let (out, _) = out.as_chunks_mut::<32>();
    if let [a, b, c, d, e, f, g, h] = out {
        write_group::<0>(group(0), &parts.signs, scales, a);
        write_group::<1>(group(1), &parts.signs, scales, b);
        write_group::<2>(group(2), &parts.signs, scales, c);
        write_group::<3>(group(3), &parts.signs, scales, d);
        write_group::<4>(group(4), &parts.signs, scales, e);
        write_group::<5>(group(5), &parts.signs, scales, f);
        write_group::<6>(group(6), &parts.signs, scales, g);
        write_group::<7>(group(7), &parts.signs, scales, h);
    }
}

/// Decodes group `G`; the scales are as in [`Parts`].
#[inline]
#[target_feature(enable = "avx2,fma")]
fn write_group<const G: usize>(
    magnitudes: __m256i,
    signs: &Signs,
    scales: [__m256; 2],
    out: &mut [f32; 32],
) {
    let lane = |lane: usize| _mm256_set1_epi32(lane as i32);
    let first = _mm256_permutevar8x32_ps(scales[G / 4], lane(G % 4));
    let last = _mm256_permutevar8x32_ps(scales[G / 4], lane(G % 4 + 4));
    let weights = _mm256_sign_epi8(magnitudes, signs.of::<G>());
    let (low, high) = (_mm256_castsi256_si128(weights), _mm256_extracti128_si256::<1>(weights));
    let eight =
        |weights, scale| _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(weights)), scale);
    let [a, b, c, d] = quarters_of(out);
    store(eight(low, first), a);
    store(eight(_mm_bsrli_si128::<8>(low), first), b);
    store(eight(high, last), c);
    store(eight(_mm_bsrli_si128::<8>(high), last), d);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq2_xxs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 66]], out| {
        for (block, out) in blocks.iter().zip(out) {
            write(block, 0.125, parts_iq2_xxs(block), |g| group_iq2_xxs(block, g), out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq2_xs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 74]], out| {
        for (block, out) in blocks.iter().zip(out) {
            write(block, 0.125, parts_iq2_xs(block), |g| group_iq2_xs(block, g), out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq2_s(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 82]], out| {
        for (block, out) in blocks.iter().zip(out) {
            write(block, 0.125, parts_iq2_s(block), |g| group_iq2_s(block, g), out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq3_xxs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 98]], out| {
        for (block, out) in blocks.iter().zip(out) {
            write(block, 0.25, parts_iq3_xxs(block), |g| group_iq3_xxs(block, g), out);
        }
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn iq3_s(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 110]], out| {
        for (block, out) in blocks.iter().zip(out) {
            let rows = rows_iq3_s(block);
            write(block, 1.0, parts_iq3_s(block), |g| group_iq3_s(rows, g), out);
        }
    });
}
