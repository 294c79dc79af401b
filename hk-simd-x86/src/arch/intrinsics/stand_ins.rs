//! Instructions that Miri lacks, written out lane by lane, or as two of 256 bits that it has.
//! They work on values alone, but for the non-temporal stores, which are ordinary ones here
//! (of the same alignment, which Miri checks).

use core::arch::x86_64::*;

use hk_core::vector::to_f16;
use zerocopy::{FromBytes, IntoBytes};

/// The lanes of a vector.
pub(super) fn lanes<T: FromBytes, const N: usize>(vector: __m512i) -> [T; N] {
    const { assert!(size_of::<[T; N]>() == size_of::<__m512i>()) };
    // SAFETY: as many bytes as a vector has, and lanes may be any.
    unsafe { core::mem::transmute_copy(&vector) }
}

/// The vector of these lanes.
pub(super) fn vector<T: IntoBytes, const N: usize>(lanes: [T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == size_of::<__m512i>()) };
    // SAFETY: as many bytes as a vector has, and a vector may be any.
    unsafe { core::mem::transmute_copy(&lanes) }
}

/// `f` of each two lanes.
fn each<T: FromBytes + IntoBytes + Copy, const N: usize>(
    a: __m512i,
    b: __m512i,
    f: impl Fn(T, T) -> T,
) -> __m512i {
    let (mut a, b) = (lanes::<T, N>(a), lanes::<T, N>(b));
    for (a, b) in a.iter_mut().zip(b) {
        *a = f(*a, b);
    }
    vector(a)
}

#[target_feature(enable = "f16c")]
pub fn _mm256_cvtps_ph<const ROUNDING: i32>(a: __m256) -> __m128i {
    const { assert!(ROUNDING == _MM_FROUND_TO_NEAREST_INT) };
    let (mut floats, mut halves) = ([0.0; 8], [[0; 2]; 8]);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm256_storeu_ps(floats.as_mut_ptr(), a) };
    to_f16(&floats, &mut halves);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_loadu_si128(halves.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_cvtph_ps(a: __m256i) -> __m512 {
    let low = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
    let high = _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(a));
    let low = _mm512_castps_pd(_mm512_zextps256_ps512(low));
    _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(high)))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_cvtps_epi32(a: __m512) -> __m512i {
    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
    let (low, high) = (_mm256_cvtps_epi32(_mm512_castps512_ps256(a)), _mm256_cvtps_epi32(high));
    _mm512_inserti64x4::<1>(_mm512_zextsi256_si512(low), high)
}

/// Eight floats.
#[target_feature(enable = "avx512f")]
fn eight(floats: impl Iterator<Item = f32>) -> __m256 {
    let mut all = [0.0_f32; 16];
    all.iter_mut().zip(floats).for_each(|(to, float)| *to = float);
    _mm512_castps512_ps256(_mm512_castsi512_ps(vector(all)))
}

#[target_feature(enable = "avx512dq")]
pub fn _mm512_cvtepi64_ps(a: __m512i) -> __m256 {
    eight(lanes::<i64, 8>(a).into_iter().map(|lane| lane as f32))
}

#[target_feature(enable = "avx512dq")]
pub fn _mm512_cvtepu64_ps(a: __m512i) -> __m256 {
    eight(lanes::<u64, 8>(a).into_iter().map(|lane| lane as f32))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_sllv_epi32(a: __m512i, count: __m512i) -> __m512i {
    each::<u32, 16>(a, count, |lane, count| lane.checked_shl(count).unwrap_or(0))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_mask_sllv_epi32(src: __m512i, k: __mmask16, a: __m512i, count: __m512i) -> __m512i {
    _mm512_mask_blend_epi32(k, src, _mm512_sllv_epi32(a, count))
}

#[target_feature(enable = "avx512bw")]
pub fn _mm512_sllv_epi16(a: __m512i, count: __m512i) -> __m512i {
    each::<u16, 32>(a, count, |lane, count| lane.checked_shl(count.into()).unwrap_or(0))
}

#[target_feature(enable = "avx512bw")]
pub fn _mm512_srlv_epi16(a: __m512i, count: __m512i) -> __m512i {
    each::<u16, 32>(a, count, |lane, count| lane.checked_shr(count.into()).unwrap_or(0))
}

#[target_feature(enable = "avx512bw,avx512vl")]
pub fn _mm256_srlv_epi16(a: __m256i, count: __m256i) -> __m256i {
    let [a, count] = [a, count].map(|half| _mm512_zextsi256_si512(half));
    _mm512_castsi512_si256(_mm512_srlv_epi16(a, count))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_srlv_epi32(a: __m512i, count: __m512i) -> __m512i {
    each::<u32, 16>(a, count, |lane, count| lane.checked_shr(count).unwrap_or(0))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_srlv_epi64(a: __m512i, count: __m512i) -> __m512i {
    each::<u64, 8>(a, count, |lane, count| if count < 64 { lane >> count } else { 0 })
}

#[target_feature(enable = "avx512bw")]
pub fn _mm512_mulhi_epu16(a: __m512i, b: __m512i) -> __m512i {
    each::<u16, 32>(a, b, |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16)
}

#[target_feature(enable = "avxvnni")]
pub fn _mm256_dpwssd_avx_epi32(src: __m256i, a: __m256i, b: __m256i) -> __m256i {
    _mm256_add_epi32(src, _mm256_madd_epi16(a, b))
}

#[target_feature(enable = "avx512vnni,avx512bw")]
pub fn _mm512_dpwssd_epi32(src: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(src, _mm512_madd_epi16(a, b))
}

#[target_feature(enable = "avx512vnni")]
pub fn _mm512_dpwssds_epi32(src: __m512i, a: __m512i, b: __m512i) -> __m512i {
    let (a, b) = (lanes::<[i16; 2], 16>(a), lanes::<[i16; 2], 16>(b));
    let mut sums: [i32; 16] = lanes(src);
    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
        let [first, last] = [0, 1].map(|i| i64::from(a[i]) * i64::from(b[i]));
        let all = i64::from(*sum) + first + last;
        *sum = all.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    }
    vector(sums)
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_permutexvar_ps(idx: __m512i, a: __m512) -> __m512 {
    _mm512_castsi512_ps(_mm512_permutexvar_epi32(idx, _mm512_castps_si512(a)))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_mask_permutexvar_ps(src: __m512, k: __mmask16, idx: __m512i, a: __m512) -> __m512 {
    let permuted = _mm512_permutexvar_epi32(idx, _mm512_castps_si512(a));
    _mm512_castsi512_ps(_mm512_mask_blend_epi32(k, _mm512_castps_si512(src), permuted))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_maskz_permutexvar_ps(k: __mmask16, idx: __m512i, a: __m512) -> __m512 {
    _mm512_mask_permutexvar_ps(_mm512_setzero_ps(), k, idx, a)
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_permutevar_ps(a: __m512, b: __m512i) -> __m512 {
    let a: [[u32; 4]; 4] = lanes(_mm512_castps_si512(a));
    let mut permuted = lanes::<[u32; 4], 4>(b);
    for (quarter, a) in permuted.iter_mut().zip(a) {
        *quarter = quarter.map(|at| a[at as usize % 4]);
    }
    _mm512_castsi512_ps(vector(permuted))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_permutex2var_ps(a: __m512, idx: __m512i, b: __m512) -> __m512 {
    let both: [[u32; 16]; 2] = [a, b].map(|half| lanes(_mm512_castps_si512(half)));
    let both: [u32; 32] = zerocopy::transmute!(both);
    _mm512_castsi512_ps(vector(lanes::<u32, 16>(idx).map(|at| both[at as usize % 32])))
}

#[target_feature(enable = "avx512bw")]
pub fn _mm512_permutexvar_epi16(idx: __m512i, a: __m512i) -> __m512i {
    let a: [u16; 32] = lanes(a);
    vector(lanes::<u16, 32>(idx).map(|at| a[usize::from(at) % 32]))
}

#[target_feature(enable = "avx512bw")]
pub fn _mm512_permutex2var_epi16(a: __m512i, idx: __m512i, b: __m512i) -> __m512i {
    let both: [[u16; 32]; 2] = [lanes(a), lanes(b)];
    let both: [u16; 64] = zerocopy::transmute!(both);
    vector(lanes::<u16, 32>(idx).map(|at| both[usize::from(at) % 64]))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_maskz_compress_ps(k: __mmask16, a: __m512) -> __m512 {
    let (a, mut compressed) = (lanes::<u32, 16>(_mm512_castps_si512(a)), [0; 16]);
    let kept = a.into_iter().enumerate().filter(|(i, _)| k >> i & 1 == 1);
    compressed.iter_mut().zip(kept).for_each(|(to, (_, lane))| *to = lane);
    _mm512_castsi512_ps(vector::<u32, 16>(compressed))
}

#[target_feature(enable = "avx512f")]
pub fn _mm512_maskz_expand_ps(k: __mmask16, a: __m512) -> __m512 {
    let (a, mut expanded) = (lanes::<u32, 16>(_mm512_castps_si512(a)), [0; 16]);
    let places = expanded.iter_mut().enumerate().filter(|(i, _)| k >> i & 1 == 1);
    places.zip(a).for_each(|((_, to), lane)| *to = lane);
    _mm512_castsi512_ps(vector::<u32, 16>(expanded))
}

#[target_feature(enable = "avx512vbmi")]
pub fn _mm512_multishift_epi64_epi8(a: __m512i, b: __m512i) -> __m512i {
    let mut bytes = lanes::<[u8; 8], 8>(a);
    for (bytes, bits) in bytes.iter_mut().zip(lanes::<u64, 8>(b)) {
        *bytes = bytes.map(|from| bits.rotate_right((from % 64).into()) as u8);
    }
    vector(bytes)
}

#[target_feature(enable = "avx512bitalg")]
pub fn _mm512_bitshuffle_epi64_mask(b: __m512i, c: __m512i) -> __mmask64 {
    let (bits, mut mask) = (lanes::<u64, 8>(b), 0);
    for (i, at) in lanes::<u8, 64>(c).into_iter().enumerate() {
        mask |= (bits[i / 8] >> (at % 64) & 1) << i;
    }
    mask
}

/// # Safety
/// As of the instruction: room for the vector, at its alignment.
#[target_feature(enable = "avx512f")]
pub unsafe fn _mm512_stream_ps(to: *mut f32, a: __m512) {
    // SAFETY: the caller's promise.
    unsafe { _mm512_store_ps(to, a) }
}

/// # Safety
/// As of the instruction: room for the vector, at its alignment.
#[target_feature(enable = "avx")]
pub unsafe fn _mm256_stream_ps(to: *mut f32, a: __m256) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_store_ps(to, a) }
}

/// Ordinary stores need no fence.
#[target_feature(enable = "sse")]
pub fn _mm_sfence() {}
