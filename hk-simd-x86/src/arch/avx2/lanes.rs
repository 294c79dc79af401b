//! Sixteen lanes for encoders.

use core::ops::{Add, Div, Mul, Sub};

use crate::arch::intrinsics::*;

use hk_core::blocks::F16;
use hk_core::encode::lanes::Lanes;

/// Two vectors of 8 floats. Only functions with the features of this level make any, which is
/// why operations on it may use these.
#[derive(Clone, Copy)]
pub(super) struct Floats(__m256, __m256);

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
        Floats(
            with_features!(_mm256_add_ps(self.0, other.0)),
            with_features!(_mm256_add_ps(self.1, other.1)),
        )
    }
}

impl Sub for Floats {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Floats(
            with_features!(_mm256_sub_ps(self.0, other.0)),
            with_features!(_mm256_sub_ps(self.1, other.1)),
        )
    }
}

impl Mul for Floats {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Floats(
            with_features!(_mm256_mul_ps(self.0, other.0)),
            with_features!(_mm256_mul_ps(self.1, other.1)),
        )
    }
}

impl Div for Floats {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Floats(
            with_features!(_mm256_div_ps(self.0, other.0)),
            with_features!(_mm256_div_ps(self.1, other.1)),
        )
    }
}

impl Lanes for Floats {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        let x = with_features!(_mm256_set1_ps(x));
        Floats(x, x)
    }

    #[inline(always)]
    fn load(x: &[f32; 16]) -> Self {
        let [low, high]: &[[f32; 8]; 2] = zerocopy::transmute_ref!(x);
        // The references are to as many floats as the loads take.
        Floats(
            with_features!(_mm256_loadu_ps(low.as_ptr())),
            with_features!(_mm256_loadu_ps(high.as_ptr())),
        )
    }

    #[inline(always)]
    fn to_array(self) -> [f32; 16] {
        let mut array = [[0.0; 8]; 2];
        let [low, high] = &mut array;
        // The arrays have room for as many floats as the stores write.
        with_features!(_mm256_storeu_ps(low.as_mut_ptr(), self.0));
        with_features!(_mm256_storeu_ps(high.as_mut_ptr(), self.1));
        zerocopy::transmute!(array)
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Floats(
            with_features!(_mm256_min_ps(self.0, other.0)),
            with_features!(_mm256_min_ps(self.1, other.1)),
        )
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Floats(
            with_features!(_mm256_max_ps(self.0, other.0)),
            with_features!(_mm256_max_ps(self.1, other.1)),
        )
    }

    #[inline(always)]
    fn less(self, other: Self) -> u16 {
        let low = with_features!(less(self.0, other.0));
        let high = with_features!(less(self.1, other.1));
        (low | high << 8) as u16
    }

    #[inline(always)]
    fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
        Floats(
            with_features!(where_less(self.0, other.0, yes.0, no.0)),
            with_features!(where_less(self.1, other.1, yes.1, no.1)),
        )
    }

    #[inline(always)]
    fn swap_pairs(self) -> Self {
        Floats(
            with_features!(_mm256_permute_ps::<0b10_11_00_01>(self.0)),
            with_features!(_mm256_permute_ps::<0b10_11_00_01>(self.1)),
        )
    }

    #[inline(always)]
    fn to_bytes(self) -> [u8; 16] {
        with_features!(to_bytes(self.0, self.1))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        with_features!(sum(self.0, self.1))
    }

    #[inline(always)]
    fn ends(self, other: Self) -> (f32, f32) {
        let low = with_features!(_mm256_min_ps(self.0, self.1));
        let high = with_features!(_mm256_max_ps(other.0, other.1));
        with_features!(ends(low, high))
    }

    #[inline(always)]
    fn half(x: f32) -> (F16, f32) {
        with_features!(half(x))
    }

    #[inline(always)]
    fn halves(self) -> ([F16; 16], Self) {
        let (low, first) = with_features!(halves(self.0));
        let (high, last) = with_features!(halves(self.1));
        (zerocopy::transmute!([low, high]), Floats(first, last))
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(x: __m256) -> ([F16; 8], __m256) {
    let x = _mm256_max_ps(_mm256_min_ps(x, _mm256_set1_ps(65_504.0)), _mm256_set1_ps(-65_504.0));
    let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
    let mut array = [[0_u8; 2]; 8];
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_si128(array.as_mut_ptr().cast(), halves) };
    (zerocopy::transmute!(array), _mm256_cvtph_ps(halves))
}

/// A bit for each lane of `a` that is less than that of `b`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn less(a: __m256, b: __m256) -> i32 {
    _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn where_less(a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
    _mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn to_bytes(low: __m256, high: __m256) -> [u8; 16] {
    let mut bytes = [0; 16];
    let words = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    // Fours of words stand crosswise now.
    let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
    let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
    let narrow = _mm_packus_epi16(low, high);
    // SAFETY: the array has the size of the vector.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), narrow) };
    bytes
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum(low: __m256, high: __m256) -> f32 {
    let eight = _mm256_add_ps(low, high);
    let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// The smallest of `low` and the largest of `high`, as the largest of the negated ones.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn ends(low: __m256, high: __m256) -> (f32, f32) {
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
#[target_feature(enable = "avx2,fma,f16c")]
fn half(x: f32) -> (F16, f32) {
    let limit = _mm_set_ss(65_504.0);
    let x = _mm_max_ss(_mm_min_ss(_mm_set_ss(x), limit), _mm_xor_ps(limit, _mm_set1_ps(-0.0)));
    let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castps128_ps256(x));
    let bits = _mm_extract_epi16::<0>(half) as u16;
    let number = _mm256_cvtph_ps(half);
    (F16(bits.to_le_bytes()), _mm_cvtss_f32(_mm256_castps256_ps128(number)))
}
