//! Vectors of eight lanes.

use crate::arch::intrinsics::*;

use super::super::vector::{load_half, load_halves, store};

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn transpose(rows: [&[u8; 16]; 8]) -> [__m256i; 4] {
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
    // Rows four apart in the halves of a vector; then each half is transposed.
    let (a, b) = (load_halves(r0, r4), load_halves(r1, r5));
    let (c, d) = (load_halves(r2, r6), load_halves(r3, r7));
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn shift_left(a: __m256i, bits: u32) -> __m256i {
    _mm256_sllv_epi32(a, _mm256_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn shift_right(a: __m256i, bits: u32) -> __m256i {
    _mm256_srlv_epi32(a, _mm256_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn halves(bits: __m256i) -> __m256 {
    let low = _mm256_and_si256(bits, _mm256_set1_epi32(0xFFFF));
    // Narrowed within the halves, which then come together.
    let narrow = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(low, low));
    _mm256_cvtph_ps(_mm256_castsi256_si128(narrow))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn look_up(table: &[u8; 16], codes: __m256i) -> __m256i {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_half(table)), codes)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn floats(lanes: __m256) -> [f32; 8] {
    let mut floats = [0.0; 8];
    store(lanes, &mut floats);
    floats
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn bits_of_floats(lanes: __m256i) -> [f32; 8] {
    floats(_mm256_castsi256_ps(lanes))
}
