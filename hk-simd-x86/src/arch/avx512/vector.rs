//! Vectors of 512 bits: loads and stores of arrays, and steps that kernels share.
//!
//! Kernels take no pointers: what they load is an array of the size of the vector, cut from
//! a slice by safe code.

use crate::arch::intrinsics::*;

use crate::arch::stream::Line;

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_half(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_quarter(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Eight times 8 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_eighths([a, b, c, d, e, f, g, h]: [&[u8; 8]; 8]) -> __m512i {
    // As floats, for which alone there is an instruction that loads the upper half.
    let pair = |low: &[u8; 8], high: &[u8; 8]| {
        // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
        let low = unsafe { _mm_load_sd(low.as_ptr().cast()) };
        // SAFETY: as above.
        _mm256_castpd128_pd256(unsafe { _mm_loadh_pd(low, high.as_ptr().cast()) })
    };
    let four = |a, b, c, d| {
        let (low, high) = (pair(a, b), pair(c, d));
        _mm512_castpd256_pd512(_mm256_permute2f128_pd::<0x20>(low, high))
    };
    let (low, high) = (four(a, b, c, d), four(e, f, g, h));
    _mm512_castpd_si512(_mm512_shuffle_f64x2::<0b01_00_01_00>(low, high))
}

/// The 64 bytes of `bytes` from `AT` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> __m512i {
    const { assert!(AT + 64 <= N) };
    // SAFETY: the array has as many bytes from there on, as was just checked.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().wrapping_add(AT).cast()) }
}

/// The 32 bytes of `bytes` from `AT` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_half_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> __m256i {
    const { assert!(AT + 32 <= N) };
    // SAFETY: the array has as many bytes from there on, as was just checked.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().wrapping_add(AT).cast()) }
}

/// The 16 bytes of `bytes` from `AT` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_quarter_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> __m128i {
    const { assert!(AT + 16 <= N) };
    // SAFETY: the array has as many bytes from there on, as was just checked.
    unsafe { _mm_loadu_si128(bytes.as_ptr().wrapping_add(AT).cast()) }
}

/// Up to 64 bytes, and zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load_part<const N: usize>(bytes: &[u8; N]) -> __m512i {
    const { assert!(0 < N && N <= 64) };
    // SAFETY: only the bytes of the array are read.
    unsafe { _mm512_maskz_loadu_epi8(u64::MAX >> (64 - N), bytes.as_ptr().cast()) }
}

/// The 64 integers of 8 bits of `codes` from `AT` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_codes_at<const AT: usize, const N: usize>(codes: &[i8; N]) -> __m512i {
    const { assert!(AT + 64 <= N) };
    // SAFETY: the array has as many integers from there on, as was just checked.
    unsafe { _mm512_loadu_si512(codes.as_ptr().wrapping_add(AT).cast()) }
}

/// The 16 bytes from `AT` on of each of four arrays, a quarter each.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_quarters_at<const AT: usize, const N: usize>(
    [a, b, c, d]: [&[u8; N]; 4],
) -> __m512i {
    let quarters = _mm512_castsi128_si512(load_quarter_at::<AT, N>(a));
    let quarters = _mm512_inserti32x4::<1>(quarters, load_quarter_at::<AT, N>(b));
    let quarters = _mm512_inserti32x4::<2>(quarters, load_quarter_at::<AT, N>(c));
    _mm512_inserti32x4::<3>(quarters, load_quarter_at::<AT, N>(d))
}

/// 16 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_floats(floats: &[f32; 16]) -> __m512 {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm512_loadu_ps(floats.as_ptr()) }
}

/// Writes 16 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(vector: __m512, to: &mut [f32; 16]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) }
}

/// As [`Stream`](crate::arch::stream::Stream) has it.
#[target_feature(enable = "avx512f")]
pub(super) fn stream(from: &[[f32; 16]], to: &mut [Line]) {
    for (from, to) in from.iter().zip(to) {
        let floats = load_floats(from);
        // SAFETY: a line is as long as the store, and aligned.
        unsafe { _mm512_stream_ps(to.0.as_mut_ptr(), floats) };
    }
}

/// Writes 64 integers of 8 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_codes(vector: __m512i, to: &mut [i8; 64]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
}

/// Writes 16 integers of 16 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_words(vector: __m256i, to: &mut [i16; 16]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) }
}

/// Writes 8 floats.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_half(vector: __m256, to: &mut [f32; 8]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), vector) }
}

/// The two vectors that 32 weights are.
#[inline(always)]
pub(super) fn halves_of(weights: &mut [f32; 32]) -> (&mut [f32; 16], &mut [f32; 16]) {
    let [low, high]: &mut [[f32; 16]; 2] = zerocopy::transmute_mut!(weights);
    (low, high)
}

/// An f16 as f32 in all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn broadcast_half(half: [u8; 2]) -> __m512 {
    _mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes(half)))
}

/// 32 integers of 16 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_words(words: &[u16; 32]) -> __m512i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The 8 integers of 64 bits of a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn quads(vector: __m512i) -> [u64; 8] {
    let mut quads = [0; 8];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm512_storeu_si512(quads.as_mut_ptr().cast(), vector) };
    quads
}

/// An f16, widened, in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn scale(bytes: [u8; 2]) -> __m512 {
    _mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes(bytes)))
}

/// 64 integers of 8 bits.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_codes(codes: &[i8; 64]) -> __m512i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) }
}

/// The sums of the four integers in each quarter of each of four vectors: lane `4q + v` is
/// that of quarter `q` of vector `v`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn sum_quarters([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
}

/// The last step of four dot products (dot-products.md, "Sum"): lane `4l + r` holds lane `l`
/// of row `r`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn fold_rows(lanes: __m512) -> [f32; 4] {
    let first = _mm_add_ps(_mm512_castps512_ps128(lanes), _mm512_extractf32x4_ps::<1>(lanes));
    let second = _mm_add_ps(_mm512_extractf32x4_ps::<2>(lanes), _mm512_extractf32x4_ps::<3>(lanes));
    let (all, mut sums) = (_mm_add_ps(first, second), [0.0; 4]);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), all) };
    sums
}

/// A number of 32 bits for each lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_lanes(lanes: &[u32; 16]) -> __m512i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

/// The same four integers of 8 bits in each lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast(codes: &[i8; 4]) -> __m512i {
    // SAFETY: the reference is to the 4 bytes that are read, at any alignment.
    _mm512_set1_epi32(unsafe { codes.as_ptr().cast::<i32>().read_unaligned() })
}

/// The same two integers of 16 bits in each lane.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn broadcast_pair(pair: &[i16; 2]) -> __m512i {
    // SAFETY: the reference is to the 4 bytes that are read, at any alignment.
    _mm512_set1_epi32(unsafe { pair.as_ptr().cast::<i32>().read_unaligned() })
}

/// The sums of the sixteen lanes of four rows of elements (dot-products.md, "f32, f16, bf16
/// rows").
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) fn fold_elements(rows: [__m512; 4]) -> [f32; 4] {
    let [a, b, c, d] = rows.map(|lanes| {
        let high = _mm512_castps_pd(lanes);
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(high));
        let eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), high);
        _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight))
    });
    // Lanes 0 and 2, then 1 and 3, of two rows each.
    let ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    let cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    let (all, mut sums) = (_mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)), [0.0; 4]);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), all) };
    sums
}
