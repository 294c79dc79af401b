//! Sixteen lanes for encoders.

use core::ops::{Add, Div, Mul, Sub};

use crate::arch::intrinsics::*;

use hk_core::blocks::F16;
use hk_core::encode::lanes::Lanes;

/// A vector of 16 floats. Only functions with the features of this level make any, which is
/// why operations on it may use these.
#[derive(Clone, Copy)]
pub(super) struct Floats(__m512);

/// Calls a function of the features of this level.
macro_rules! with_features {
    ($call:expr) => {
        // SAFETY: values of `Floats` are made and used only where the CPU has the features.
        unsafe { $call }
    };
}

impl Add for Floats {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Floats(with_features!(_mm512_add_ps(self.0, other.0)))
    }
}

impl Sub for Floats {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Floats(with_features!(_mm512_sub_ps(self.0, other.0)))
    }
}

impl Mul for Floats {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Floats(with_features!(_mm512_mul_ps(self.0, other.0)))
    }
}

impl Div for Floats {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Floats(with_features!(_mm512_div_ps(self.0, other.0)))
    }
}

impl Lanes for Floats {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Floats(with_features!(_mm512_set1_ps(x)))
    }

    #[inline(always)]
    fn load(x: &[f32; 16]) -> Self {
        // The reference is to as many floats as the load takes.
        Floats(with_features!(_mm512_loadu_ps(x.as_ptr())))
    }

    #[inline(always)]
    fn to_array(self) -> [f32; 16] {
        let mut array = [0.0; 16];
        // The array has room for as many floats as the store writes.
        with_features!(_mm512_storeu_ps(array.as_mut_ptr(), self.0));
        array
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Floats(with_features!(_mm512_min_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Floats(with_features!(_mm512_max_ps(self.0, other.0)))
    }

    #[inline(always)]
    fn less(self, other: Self) -> u16 {
        with_features!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0))
    }

    #[inline(always)]
    fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
        let less = self.less(other);
        Floats(with_features!(_mm512_mask_blend_ps(less, no.0, yes.0)))
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        Floats(with_features!(_mm512_permute_ps::<0b10_11_00_01>(self.0)))
    }

    #[inline(always)]
    fn to_nibbles(self, high: Self, offset: f32) -> ([u8; 16], u32) {
        with_features!(to_nibbles(self.0, high.0, offset))
    }

    #[inline(always)]
    fn smallest(rows: [Self; 16]) -> Self {
        with_features!(smallest(rows))
    }

    #[inline(always)]
    fn to_bytes(self) -> [u8; 16] {
        with_features!(to_bytes(self.0))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        with_features!(sum(self.0))
    }

    #[inline(always)]
    fn ends(self, other: Self) -> (f32, f32) {
        with_features!(ends(self.0, other.0))
    }

    #[inline(always)]
    fn half(x: f32) -> (F16, f32) {
        with_features!(half(x))
    }

    #[inline(always)]
    fn halves(self) -> ([F16; 16], Self) {
        let (halves, numbers) = with_features!(halves(self.0));
        (halves, Floats(numbers))
    }

    #[inline(always)]
    fn transpose(rows: [Self; 16]) -> [Self; 16] {
        with_features!(transpose(rows))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn to_nibbles(low: __m512, high: __m512, offset: f32) -> ([u8; 16], u32) {
    // The low bits of these sums are those of the nearest whole numbers.
    let round = _mm512_set1_ps(12_582_912.0 + offset);
    let low = _mm512_castps_si512(_mm512_add_ps(low, round));
    let high = _mm512_castps_si512(_mm512_add_ps(high, round));
    let fifth = _mm512_set1_epi32(16);
    let low_fifths = u32::from(_mm512_test_epi32_mask(low, fifth));
    let high_fifths = u32::from(_mm512_test_epi32_mask(high, fifth));
    // (low & 15) | (high << 4)
    let both =
        _mm512_ternarylogic_epi32::<0xF8>(_mm512_slli_epi32::<4>(high), low, _mm512_set1_epi32(15));
    let mut bytes = [0; 16];
    let narrow = _mm512_cvtepi32_epi8(both);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), narrow) };
    (bytes, low_fifths | high_fifths << 16)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn smallest(rows: [Floats; 16]) -> Floats {
    /// Half as many vectors, each with the smaller numbers of two.
    macro_rules! merged {
        ($rows:expr, $half:expr, $low:ident, $high:ident) => {{
            let mut to = [_mm512_setzero_ps(); $half];
            let mut i = 0;
            while i < $half {
                let (a, b) = ($rows[2 * i], $rows[2 * i + 1]);
                to[i] = _mm512_min_ps($low(a, b), $high(a, b));
                i += 1;
            }
            to
        }};
    }
    let mut all = [_mm512_setzero_ps(); 16];
    let mut i = 0;
    while i < 16 {
        all[i] = rows[i].0;
        i += 1;
    }
    let eight = merged!(all, 8, low_words, high_words);
    let four = merged!(eight, 4, low_pairs, high_pairs);
    let two = merged!(four, 2, even_fours, odd_fours);
    let one = merged!(two, 1, even_fours, odd_fours);
    Floats(one[0])
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn to_bytes(whole: __m512) -> [u8; 16] {
    let mut bytes = [0; 16];
    let narrow = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(whole));
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), narrow) };
    bytes
}

/// The upper half of the lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn upper(lanes: __m512) -> __m256 {
    _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sum(lanes: __m512) -> f32 {
    let eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), upper(lanes));
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// The smallest of `low` and the largest of `high`, as the largest of the negated ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn ends(low: __m512, high: __m512) -> (f32, f32) {
    let low = _mm256_min_ps(_mm512_castps512_ps256(low), upper(low));
    let high = _mm256_max_ps(_mm512_castps512_ps256(high), upper(high));
    let low = _mm256_xor_ps(low, _mm256_set1_ps(-0.0));
    // Lanes of both, four each; then two, then one.
    let lows = _mm256_permute2f128_ps::<0x20>(low, high);
    let highs = _mm256_permute2f128_ps::<0x31>(low, high);
    let four = _mm256_max_ps(lows, highs);
    let two = _mm256_max_ps(four, _mm256_permute_ps::<0b01_00_11_10>(four));
    let one = _mm256_max_ps(two, _mm256_permute_ps::<0b10_11_00_01>(two));
    let high = _mm_cvtss_f32(_mm256_extractf128_ps::<1>(one));
    (-_mm_cvtss_f32(_mm256_castps256_ps128(one)), high)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn half(x: f32) -> (F16, f32) {
    let limit = _mm_set_ss(65_504.0);
    let x = _mm_max_ss(_mm_min_ss(_mm_set_ss(x), limit), _mm_xor_ps(limit, _mm_set1_ps(-0.0)));
    let half = _mm256_castps128_ps256(x);
    let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(half);
    let bits = _mm_extract_epi16::<0>(half) as u16;
    let number = _mm256_cvtph_ps(half);
    (F16(bits.to_le_bytes()), _mm_cvtss_f32(_mm256_castps256_ps128(number)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn halves(x: __m512) -> ([F16; 16], __m512) {
    let limit = _mm512_set1_ps(65_504.0);
    let x = _mm512_max_ps(_mm512_min_ps(x, limit), _mm512_set1_ps(-65_504.0));
    let low = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_castps512_ps256(x));
    let high = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(upper(x));
    let both = _mm256_set_m128i(high, low);
    let mut halves = [[0_u8; 2]; 16];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm256_storeu_si256(halves.as_mut_ptr().cast(), both) };
    (zerocopy::transmute!(halves), _mm512_cvtph_ps(both))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn transpose(rows: [Floats; 16]) -> [Floats; 16] {
    /// Two vectors, `APART` rows apart, by each of two shuffles. Spelled out as a macro, since
    /// a function that is given functions need not be compiled for this level.
    macro_rules! pairs {
        ($rows:expr, $apart:expr, $low:ident, $high:ident) => {{
            let mut to = $rows;
            let mut i = 0;
            while i < 16 {
                let (a, b) = ($rows[i & !$apart].0, $rows[i | $apart].0);
                to[i] = Floats(if i & $apart == 0 { $low(a, b) } else { $high(a, b) });
                i += 1;
            }
            to
        }};
    }
    // Within fours of lanes: rows 1 apart, then 2 apart.
    let rows = pairs!(rows, 1, low_words, high_words);
    let rows = pairs!(rows, 2, low_pairs, high_pairs);
    // Fours of lanes: rows 4 apart, then 8 apart.
    let rows = pairs!(rows, 4, even_fours, odd_fours);
    let mut rows = pairs!(rows, 8, even_fours, odd_fours);
    // The two steps within fours leave the middle ones crossed.
    for four in rows.as_chunks_mut::<4>().0 {
        four.swap(1, 2);
    }
    rows
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn low_words(a: __m512, b: __m512) -> __m512 {
    _mm512_unpacklo_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn high_words(a: __m512, b: __m512) -> __m512 {
    _mm512_unpackhi_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn low_pairs(a: __m512, b: __m512) -> __m512 {
    _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn high_pairs(a: __m512, b: __m512) -> __m512 {
    _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn even_fours(a: __m512, b: __m512) -> __m512 {
    _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn odd_fours(a: __m512, b: __m512) -> __m512 {
    _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b)
}
