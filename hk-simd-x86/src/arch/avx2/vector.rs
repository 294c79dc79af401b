//! Vectors of 256 bits: loads and stores of arrays, and steps that kernels share.
//!
//! Kernels take no pointers: what they load is an array of the size of the vector, cut from
//! a slice by safe code.

use crate::arch::intrinsics::*;

use crate::arch::stream::Line;

/// 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Twice 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_halves(low: &[u8; 16], high: &[u8; 16]) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load_half(low)), load_half(high))
}

/// Four times 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_quarters([a, b, c, d]: [&[u8; 8]; 4]) -> __m256i {
    // As floats, for which alone there is an instruction that loads the upper half.
    let pair = |low: &[u8; 8], high: &[u8; 8]| {
        // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
        let low = unsafe { _mm_load_sd(low.as_ptr().cast()) };
        // SAFETY: as above.
        unsafe { _mm_loadh_pd(low, high.as_ptr().cast()) }
    };
    _mm256_castpd_si256(_mm256_set_m128d(pair(c, d), pair(a, b)))
}

/// The 4 integers of 64 bits of a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn quads(vector: __m256i) -> [u64; 4] {
    let mut quads = [0; 4];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm256_storeu_si256(quads.as_mut_ptr().cast(), vector) };
    quads
}

/// 32 integers of 8 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_codes(codes: &[i8; 32]) -> __m256i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

/// The 32 bytes of `bytes` from `AT` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> __m256i {
    const { assert!(AT + 32 <= N) };
    // SAFETY: the array has as many bytes from there on, as was just checked.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().wrapping_add(AT).cast()) }
}

/// The 16 bytes of `bytes` from `AT` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_half_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> __m128i {
    const { assert!(AT + 16 <= N) };
    // SAFETY: the array has as many bytes from there on, as was just checked.
    unsafe { _mm_loadu_si128(bytes.as_ptr().wrapping_add(AT).cast()) }
}

/// The 16 bytes from `AT` on of each of two arrays, a half each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_halves_at<const AT: usize, const N: usize>([a, b]: [&[u8; N]; 2]) -> __m256i {
    let low = _mm256_castsi128_si256(load_half_at::<AT, N>(a));
    _mm256_inserti128_si256::<1>(low, load_half_at::<AT, N>(b))
}

/// 8 floats.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_floats(floats: &[f32; 8]) -> __m256 {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm256_loadu_ps(floats.as_ptr()) }
}

/// Writes 8 floats.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store(vector: __m256, to: &mut [f32; 8]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), vector) }
}

/// As [`Stream`](crate::arch::stream::Stream) has it.
#[target_feature(enable = "avx2")]
pub(super) fn stream(from: &[[f32; 16]], to: &mut [Line]) {
    for (from, to) in from.iter().zip(to) {
        let ([low, high], [to_low, to_high]): (&[[f32; 8]; 2], &mut [[f32; 8]; 2]) =
            (zerocopy::transmute_ref!(from), zerocopy::transmute_mut!(&mut to.0));
        let (low, high) = (load_floats(low), load_floats(high));
        // SAFETY: half of a line is as long as the store, and aligned.
        unsafe { _mm256_stream_ps(to_low.as_mut_ptr(), low) };
        // SAFETY: as above.
        unsafe { _mm256_stream_ps(to_high.as_mut_ptr(), high) };
    }
}

/// Writes 32 integers of 8 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_codes(vector: __m256i, to: &mut [i8; 32]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) }
}

/// Writes 8 integers of 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_words(vector: __m128i, to: &mut [i16; 8]) {
    // SAFETY: the reference is to as many bytes as the store takes, at any alignment.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), vector) }
}

/// The four vectors that 32 floats are.
#[inline(always)]
pub(super) fn quarters(floats: &[f32; 32]) -> &[[f32; 8]; 4] {
    zerocopy::transmute_ref!(floats)
}

/// The four vectors that 32 weights are.
#[inline(always)]
pub(super) fn quarters_of(weights: &mut [f32; 32]) -> [&mut [f32; 8]; 4] {
    let [a, b, c, d]: &mut [[f32; 8]; 4] = zerocopy::transmute_mut!(weights);
    [a, b, c, d]
}

/// An f16 as f32 in all lanes.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn broadcast_half(half: [u8; 2]) -> __m256 {
    _mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(half)))
}

/// The sums of the four integers in each half of each of four vectors: lane `4h + v` is that
/// of half `h` of vector `v`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum_halves([a, b, c, d]: [__m256i; 4]) -> __m256i {
    let ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd))
}

/// The sums of the sixteen lanes of four rows of elements (dot-products.md, "f32, f16, bf16
/// rows"), of each the lower lanes and the upper ones.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn fold_elements(rows: [[__m256; 2]; 4]) -> [f32; 4] {
    let [a, b, c, d] = rows.map(|[low, high]| {
        let eight = _mm256_add_ps(low, high);
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

/// The last step of four dot products (dot-products.md, "Sum"): lane `4l + r` of the first
/// vector holds lane `l` of row `r`, that of the second lane `l + 2`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn fold_rows([first, second]: [__m256; 2]) -> [f32; 4] {
    let first = _mm_add_ps(_mm256_castps256_ps128(first), _mm256_extractf128_ps::<1>(first));
    let second = _mm_add_ps(_mm256_castps256_ps128(second), _mm256_extractf128_ps::<1>(second));
    let (all, mut sums) = (_mm_add_ps(first, second), [0.0; 4]);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), all) };
    sums
}

/// A number of 32 bits for each lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn load_lanes(lanes: &[u32; 8]) -> __m256i {
    // SAFETY: the reference is to as many bytes as the load takes, at any alignment.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// The same four integers of 8 bits in each lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn broadcast(codes: &[i8; 4]) -> __m256i {
    // SAFETY: the reference is to the 4 bytes that are read, at any alignment.
    _mm256_set1_epi32(unsafe { codes.as_ptr().cast::<i32>().read_unaligned() })
}

/// The same two integers of 16 bits in each lane.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn broadcast_pair(pair: &[i16; 2]) -> __m256i {
    // SAFETY: the reference is to the 4 bytes that are read, at any alignment.
    _mm256_set1_epi32(unsafe { pair.as_ptr().cast::<i32>().read_unaligned() })
}
