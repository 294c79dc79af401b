//! Decoding of `iq1_s` and `iq1_m`: the numbers of all rows of a block and all scales first, then
//! two rows at a time, whose codes are looked up in what they stand for.

use crate::arch::intrinsics::*;

use hk_core::StorageType;

use super::vector::{load_floats, load_half_at, load_quarter_at, load_words, quads, scale, store};
use crate::arch::call::{Decode, whole_blocks};
use crate::arch::iq1::{SHIFTED, iq1_m_scale, nibbles};

pub(super) fn decode(storage: StorageType) -> Option<Decode> {
    Some(match storage {
        StorageType::IQ1_S => iq1_s,
        StorageType::IQ1_M => iq1_m,
        _ => return None,
    })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_s(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 50]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let rows = quads(rows_iq1_s(block));
            let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(rows);
            for ((out, rows), scale) in groups.zip(scales_iq1_s(block)) {
                let values = values(scale);
                let (out, _) = out.as_chunks_mut::<16>();
                store(two_rows(rows as u32, values), &mut out[0]);
                store(two_rows((rows >> 32) as u32, values), &mut out[1]);
            }
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq1_m(payload: &[u8], out: &mut [f32]) {
    whole_blocks(payload, out, |blocks: &[[u8; 56]], out: &mut [[f32; 256]]| {
        for (block, out) in blocks.iter().zip(out) {
            let (rows, scales) = (quads(rows_iq1_m(block)), scales_iq1_m(block));
            let groups = out.as_chunks_mut::<32>().0.iter_mut().zip(rows);
            for ((out, rows), &[first, second]) in groups.zip(scales.as_chunks().0) {
                let (out, _) = out.as_chunks_mut::<16>();
                store(two_rows(rows as u32, values(first)), &mut out[0]);
                store(two_rows((rows >> 32) as u32, values(second)), &mut out[1]);
            }
        }
    });
}

/// What the nibbles of a row stand for.
#[inline]
#[target_feature(enable = "avx512f")]
fn values(scale: f32) -> __m512 {
    _mm512_mul_ps(_mm512_set1_ps(scale), load_floats(&SHIFTED))
}

/// The weights of two rows, whose numbers are the words of `rows`: they leave their vector four
/// at a time, which takes less than one by one, or by way of memory.
#[inline]
#[target_feature(enable = "avx512f")]
fn two_rows(rows: u32, values: __m512) -> __m512 {
    let (first, second) = (nibbles(rows as u16) as i32, nibbles((rows >> 16) as u16) as i32);
    let nibbles = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xFF00, second);
    let shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
    _mm512_permutexvar_ps(_mm512_srlv_epi32(nibbles, shifts), values)
}

/// The number of each row (see [`nibbles`]).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn rows_iq1_s(block: &[u8; 50]) -> __m512i {
    // The word of a group for each of its four rows.
    let high = _mm512_castsi128_si512(load_quarter_at::<34, 50>(block));
    static GROUP: [u16; 32] = {
        let mut group = [0; 32];
        let mut i = 0;
        while i < 32 {
            group[i] = i as u16 / 4;
            i += 1;
        }
        group
    };
    let high = _mm512_permutexvar_epi16(load_words(&GROUP), high);
    let down = _mm512_and_si512(_mm512_srli_epi16::<4>(high), _mm512_set1_epi16(0x0800));
    let high = _mm512_srlv_epi16(high, _mm512_set1_epi64(0x0009_0006_0003_0000));
    let high = _mm512_slli_epi16::<8>(_mm512_and_si512(high, _mm512_set1_epi16(7)));
    let low = _mm512_cvtepu8_epi16(load_half_at::<2, 50>(block));
    _mm512_or_si512(_mm512_or_si512(low, high), down)
}

/// The scale of each group of 32, and eight numbers of no meaning.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_iq1_s(block: &[u8; 50]) -> [f32; 16] {
    let high = _mm256_castsi128_si256(load_quarter_at::<34, 50>(block));
    odd_scales(scale([block[0], block[1]]), _mm512_srli_epi32::<12>(_mm512_cvtepu16_epi32(high)))
}

/// `d * (2 * s + 1)`, of the lowest three bits of `s`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn odd_scales(d: __m512, s: __m512i) -> [f32; 16] {
    let s = _mm512_and_si512(s, _mm512_set1_epi32(7));
    let odd = _mm512_add_epi32(_mm512_add_epi32(s, s), _mm512_set1_epi32(1));
    let mut scales = [0.0; 16];
    store(_mm512_mul_ps(d, _mm512_cvtepi32_ps(odd)), &mut scales);
    scales
}

/// The number of each row (see [`nibbles`]).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn rows_iq1_m(block: &[u8; 56]) -> __m512i {
    // Two rows to a byte: its low nibble in one word, its high one in the next.
    let high = _mm512_cvtepu8_epi32(load_quarter_at::<32, 56>(block));
    let even = _mm512_and_si512(_mm512_slli_epi32::<8>(high), _mm512_set1_epi32(0x0F00));
    let odd = _mm512_and_si512(_mm512_slli_epi32::<20>(high), _mm512_set1_epi32(0x0F00_0000));
    let low = _mm512_cvtepu8_epi16(load_half_at::<0, 56>(block));
    _mm512_or_si512(_mm512_or_si512(low, even), odd)
}

/// The scale of each group of 16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scales_iq1_m(block: &[u8; 56]) -> [f32; 16] {
    let packed = u64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
    let s = _mm512_cvtepu16_epi32(_mm256_castsi128_si256(_mm_set1_epi64x(packed as i64)));
    let s = _mm512_permutexvar_epi32(
        _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
        s,
    );
    let s = _mm512_srlv_epi32(s, _mm512_set_epi32(9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0));
    odd_scales(scale(iq1_m_scale(packed)), s)
}
