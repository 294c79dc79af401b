//! Decoding: each weight is one of sixteen f32, eight magnitudes and their negatives, which are
//! looked up in a register by code and sign, times its scale.
//!
//! A product is exact: 11 bits of the block's scale, 5 of the group's and 6 of the magnitude.
//! So it does not matter in which order the factors come.

use crate::arch::intrinsics::*;

use super::super::vector::{load_at, load_floats, store};
use super::codebook::{IQ2, IQ3_S, IQ3_XXS};
use super::{
    Eights, nibbles_s, nibbles_xxs, odd, pair_s, pair_xs, pair_xxs, spread, unpack_s, unpack_xxs,
};
use crate::arch::call::whole_blocks;

/// The magnitudes by code, then their negatives; shorter codes have any bits above them.
const fn signed<const N: usize>(magnitudes: [u8; N]) -> [f32; 16] {
    let mut signed = [0.0; 16];
    let mut i = 0;
    while i < 8 {
        signed[i] = magnitudes[i % N] as f32;
        signed[i + 8] = -signed[i];
        i += 1;
    }
    signed
}

/// In each byte, bit 3 tells the sign of a weight, and the bits below its code.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
fn signed_codes<const CODE: i8>(eights: &Eights) -> [__m512i; 4] {
    let ([a, b, c, d], signs) = (eights.codes, eights.signs);
    let mask = _mm512_set1_epi8(CODE);
    // Bits of the code where the mask has ones, else of the signs.
    let merge = |codes, signs| _mm512_ternarylogic_epi32::<0b1110_0100>(codes, signs, mask);
    [
        merge(a, spread::<-3, 1>(signs)),
        merge(b, spread::<5, 1>(signs)),
        merge(c, spread::<13, 1>(signs)),
        merge(d, spread::<21, 1>(signs)),
    ]
}

/// Bytes of two vectors of a block, weights `8k` and `8k + 8` of each group, such that 32-bit
/// lane `i` has weight `i` of sixteen of groups `from` to `from + 3`.
const fn sixteens(from: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (weight, group) = (i / 4, from + i % 4);
        bytes[i] = (64 * (weight / 8) + 8 * group + weight % 8) as u8;
        i += 1;
    }
    bytes
}

/// Decodes a block: `signed` magnitudes times the `scales` of each sixteen weights, or of the
/// first of each two sixteens where `BY` is 32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn write<const BY: usize>(
    codes: [__m512i; 4],
    scales: __m512,
    signed: &[f32; 16],
    out: &mut [f32; 256],
) {
    static FIRST: [u8; 64] = sixteens(0);
    static SECOND: [u8; 64] = sixteens(4);
    let (first, second) = (load_at::<0, 64>(&FIRST), load_at::<0, 64>(&SECOND));
    let [a, b, c, d] = codes;
    let (signed, (out, _)) = (load_floats(signed), out.as_chunks_mut::<128>());
    if let [low, high] = out {
        write_four::<BY, 0, 0>(_mm512_permutex2var_epi8(a, first, b), scales, signed, low);
        write_four::<BY, 0, 1>(_mm512_permutex2var_epi8(c, first, d), scales, signed, low);
        write_four::<BY, 4, 0>(_mm512_permutex2var_epi8(a, second, b), scales, signed, high);
        write_four::<BY, 4, 1>(_mm512_permutex2var_epi8(c, second, d), scales, signed, high);
    }
}

/// Sixteen weights of each of four groups from `GROUP` on, the first sixteen or, where `HALF`
/// is 1, the second.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn write_four<const BY: usize, const GROUP: i32, const HALF: i32>(
    codes: __m512i,
    scales: __m512,
    signed: __m512,
    out: &mut [f32; 128],
) {
    let value = |group: i32, codes| {
        let lane = 2 * (GROUP + group) + if BY == 16 { HALF } else { 0 };
        let scale = _mm512_permutexvar_ps(_mm512_set1_epi32(lane), scales);
        match BY {
            // Scaled once for both halves.
            32 => _mm512_permutexvar_ps(codes, _mm512_mul_ps(signed, scale)),
            _ => _mm512_mul_ps(_mm512_permutexvar_ps(codes, signed), scale),
        }
    };
    let (out, _) = out.as_chunks_mut::<16>();
    if let [a0, a1, b0, b1, c0, c1, d0, d1] = out {
        let [a, b, c, d] = if HALF == 0 { [a0, b0, c0, d0] } else { [a1, b1, c1, d1] };
        store(value(0, codes), a);
        store(value(1, _mm512_srli_epi32::<8>(codes)), b);
        store(value(2, _mm512_srli_epi32::<16>(codes)), c);
        store(value(3, _mm512_srli_epi32::<24>(codes)), d);
    }
}

/// The scale of a block, in every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn scale<const N: usize>(block: &[u8; N]) -> __m512 {
    _mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes([block[0], block[1]])))
}

/// Twice the nibbles and one, as floats, the lowest first.
#[inline]
#[target_feature(enable = "avx512f")]
fn odd_nibbles(nibbles: [u8; 8]) -> __m512 {
    let nibbles = u64::from_le_bytes(nibbles);
    let lanes =
        _mm512_mask_set1_epi32(_mm512_set1_epi32(nibbles as i32), 0xFF00, (nibbles >> 32) as i32);
    // A bit further down than the nibble is.
    let shifts = _mm512_set_epi32(27, 23, 19, 15, 11, 7, 3, 31, 27, 23, 19, 15, 11, 7, 3, 31);
    _mm512_cvtepi32_ps(odd(_mm512_rorv_epi32(lanes, shifts)))
}

/// Decodes blocks by two: `unpack` them, and `write` each. It has the features of all that are
/// handed to it, so that they become part of it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
fn by_pairs<const BYTES: usize>(
    payload: &[u8],
    out: &mut [f32],
    unpack: impl Fn([&[u8; BYTES]; 2]) -> [Eights; 2],
    write: impl Fn(&[u8; BYTES], Eights, &mut [f32; 256]),
) {
    whole_blocks(payload, out, |blocks, out| {
        let (pairs, last) = blocks.as_chunks::<2>();
        let (out_pairs, out_last) = out.as_chunks_mut::<2>();
        for ([a, b], [out_a, out_b]) in pairs.iter().zip(out_pairs) {
            let [eights_a, eights_b] = unpack([a, b]);
            write(a, eights_a, out_a);
            write(b, eights_b, out_b);
        }
        for (block, out) in last.iter().zip(out_last) {
            let [eights, _] = unpack([block, block]);
            write(block, eights, out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
pub(super) fn iq2_xxs(payload: &[u8], out: &mut [f32]) {
    by_pairs(
        payload,
        out,
        |blocks| pair_xxs(blocks),
        |block, eights, out| {
            let odd = _mm512_cvtepi32_ps(odd(nibbles_xxs(block)));
            let scales = _mm512_mul_ps(_mm512_mul_ps(scale(block), _mm512_set1_ps(0.125)), odd);
            write::<32>(signed_codes::<3>(&eights), scales, const { &signed(IQ2) }, out);
        },
    );
}

/// As iq2_xs and iq2_s are: a nibble for each sixteen weights.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn write_iq2<const N: usize>(block: &[u8; N], eights: Eights, out: &mut [f32; 256]) {
    let odd = odd_nibbles(*block.last_chunk().unwrap_or(&[0; 8]));
    let scales = _mm512_mul_ps(_mm512_mul_ps(scale(block), _mm512_set1_ps(0.125)), odd);
    write::<16>(signed_codes::<3>(&eights), scales, const { &signed(IQ2) }, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
pub(super) fn iq2_xs(payload: &[u8], out: &mut [f32]) {
    by_pairs(
        payload,
        out,
        |blocks| pair_xs(blocks),
        |block, eights, out| write_iq2(block, eights, out),
    );
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
pub(super) fn iq2_s(payload: &[u8], out: &mut [f32]) {
    by_pairs(
        payload,
        out,
        |blocks| pair_s(blocks),
        |block, eights, out| write_iq2(block, eights, out),
    );
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
pub(super) fn iq3_xxs(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 98]], out| {
        for (block, out) in blocks.iter().zip(out) {
            let (eights, nibbles) = unpack_xxs(block);
            let odd = _mm512_cvtepi32_ps(odd(nibbles));
            let scales = _mm512_mul_ps(_mm512_mul_ps(scale(block), _mm512_set1_ps(0.25)), odd);
            write::<32>(signed_codes::<7>(&eights), scales, const { &signed(IQ3_XXS) }, out);
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,gfni")]
pub(super) fn iq3_s(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 110]], out| {
        for (block, out) in blocks.iter().zip(out) {
            let scales = _mm512_mul_ps(scale(block), _mm512_cvtepi32_ps(odd(nibbles_s(block))));
            write::<32>(signed_codes::<7>(&unpack_s(block)), scales, const { &signed(IQ3_S) }, out);
        }
    });
}
