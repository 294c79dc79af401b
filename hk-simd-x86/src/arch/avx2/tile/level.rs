//! Vectors of eight lanes.

use crate::arch::intrinsics::*;

use hk_core::dot::{RowQ32, RowQ256};

use super::super::vector::{load_floats, load_half, load_halves, load_lanes, store};
use crate::arch::tile::{Block32, Block64, Block256, Level, Sums};

/// What kernels with and without AVX-VNNI do in ways of their own.
///
/// # Safety
/// A value may be there only where AVX2, FMA and F16C are.
pub(super) unsafe trait Multiply: Copy {
    /// [`Level::add_32`] for one block and its lane.
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        block: &Block32<__m256i, __m256>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut [__m256],
    );

    /// [`Level::add_256`].
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<__m256i, __m256>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [__m256],
    );

    /// [`Level::add_nvfp4`].
    fn add_nvfp4(
        self,
        block: &Block64<__m256i, __m256>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m256>,
    );
}

/// Vectors of eight lanes, and the right to use them.
#[derive(Clone, Copy)]
pub(super) struct Lanes<M>(pub(super) M);

impl<M: Multiply> Level<8> for Lanes<M> {
    type V = __m256i;
    type F = __m256;

    #[inline(always)]
    fn load(self, lanes: &[u32; 8]) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { load_lanes(lanes) }
    }

    #[inline(always)]
    fn splat(self, lane: u32) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_set1_epi32(lane as i32) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { shift_left(a, bits) }
    }

    #[inline(always)]
    fn shift_right(self, a: __m256i, bits: u32) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { shift_right(a, bits) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], codes: __m256i) -> __m256i {
        // SAFETY: an `M` is there only where the features are.
        unsafe { look_up(table, codes) }
    }

    #[inline(always)]
    fn halves(self, bits: __m256i) -> __m256 {
        // SAFETY: an `M` is there only where the features are.
        unsafe { halves(bits) }
    }

    #[inline(always)]
    fn transpose(self, rows: [&[u8; 16]; 8]) -> [__m256i; 4] {
        // SAFETY: an `M` is there only where the features are.
        unsafe { transpose(rows) }
    }

    #[inline(always)]
    fn load_floats(self, lanes: &[f32; 8]) -> __m256 {
        // SAFETY: an `M` is there only where the features are.
        unsafe { load_floats(lanes) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: an `M` is there only where the features are.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn floats(self, lanes: __m256) -> [f32; 8] {
        // SAFETY: an `M` is there only where the features are.
        unsafe { floats(lanes) }
    }

    #[inline(always)]
    fn bits_of_floats(self, lanes: __m256i) -> [f32; 8] {
        // SAFETY: an `M` is there only where the features are.
        unsafe { bits_of_floats(lanes) }
    }

    #[inline(always)]
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        blocks: &[Block32<__m256i, __m256>],
        first: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m256>,
    ) {
        for (b, block) in (first..).zip(blocks) {
            self.0.add_32::<OFFSET, MINIMUM>(block, b, activations, &mut sums[b % 4]);
        }
    }

    #[inline(always)]
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<__m256i, __m256>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [__m256],
    ) {
        self.0.add_256::<SCALES, WIDE, MINIMUM>(block, b, activations, sums);
    }

    #[inline(always)]
    fn add_nvfp4(
        self,
        block: &Block64<__m256i, __m256>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m256>,
    ) {
        self.0.add_nvfp4(block, b, activations, sums);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn transpose(rows: [&[u8; 16]; 8]) -> [__m256i; 4] {
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
fn shift_left(a: __m256i, bits: u32) -> __m256i {
    _mm256_sllv_epi32(a, _mm256_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn shift_right(a: __m256i, bits: u32) -> __m256i {
    _mm256_srlv_epi32(a, _mm256_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(bits: __m256i) -> __m256 {
    let low = _mm256_and_si256(bits, _mm256_set1_epi32(0xFFFF));
    // Narrowed within the halves, which then come together.
    let narrow = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi32(low, low));
    _mm256_cvtph_ps(_mm256_castsi256_si128(narrow))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn look_up(table: &[u8; 16], codes: __m256i) -> __m256i {
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_half(table)), codes)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats(lanes: __m256) -> [f32; 8] {
    let mut floats = [0.0; 8];
    store(lanes, &mut floats);
    floats
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bits_of_floats(lanes: __m256i) -> [f32; 8] {
    floats(_mm256_castsi256_ps(lanes))
}
