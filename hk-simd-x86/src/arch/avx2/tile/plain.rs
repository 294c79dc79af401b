//! Without AVX-VNNI.

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::{RowQ32, RowQ256};

use super::super::vector::{broadcast, broadcast_pair};
use super::kernels::{self, Codes};
use super::level::{Lanes, Multiply};
use crate::arch::call::{DotMatrix, Matrix};
use crate::arch::tile::{
    self, Block32, Block64, Block256, Sums, Type32, Type256, by_blocks_of_32, by_blocks_of_256,
    by_blocks_of_nvfp4,
};

/// The kernel of a type of blocks.
pub(super) fn kernel(storage: StorageType) -> Option<DotMatrix> {
    tile::kernel::<Kernels>(storage)
}

/// See [`tile::Kernels`].
enum Kernels {}

impl tile::Kernels for Kernels {
    fn of_32<T: Type32<BYTES>, const BYTES: usize>() -> DotMatrix {
        of_32::<T, BYTES>
    }

    fn of_256<T: Type256<BYTES>, const BYTES: usize>() -> DotMatrix {
        of_256::<T, BYTES>
    }

    fn nvfp4() -> DotMatrix {
        nvfp4
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn of_32<T: Type32<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_32::<T, _, 8, BYTES>(Lanes(Plain::here()), matrix);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn of_256<T: Type256<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_256::<T, _, 8, BYTES>(Lanes(Plain::here()), matrix);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn nvfp4(matrix: Matrix<'_>) {
    by_blocks_of_nvfp4(Lanes(Plain::here()), matrix);
}

/// The right to use these instructions.
#[derive(Clone, Copy)]
struct Plain(());

impl Plain {
    /// Where a value is made, the features are there.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn here() -> Self {
        Plain(())
    }
}

// SAFETY: `here` alone makes a value, where the features are.
unsafe impl Multiply for Plain {
    #[inline(always)]
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        block: &Block32<__m256i, __m256>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut [__m256],
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { add_32::<OFFSET, MINIMUM>(block, b, activations, sums) }
    }

    #[inline(always)]
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<__m256i, __m256>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [__m256],
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { add_256::<SCALES, WIDE, MINIMUM>(block, b, activations, sums) }
    }

    #[inline(always)]
    fn add_nvfp4(
        self,
        block: &Block64<__m256i, __m256>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m256>,
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { add_nvfp4(block, b, activations, sums) }
    }
}

/// Adds the products of sixteen codes of each row, all at most `LARGEST`, with as many of the
/// activation. Products of pairs of codes are 16-bit numbers, and with small codes sums of
/// several pairs still are; 32-bit sums are made of no more of them than need be.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply<const LARGEST: u32>(sum: __m256i, codes: Codes, q: &[i8; 16]) -> __m256i {
    let [q0, q1, q2, q3] = q.as_chunks::<4>().0 else { return sum };
    let q = [broadcast(q0), broadcast(q1), broadcast(q2), broadcast(q3)];
    if LARGEST > 128 {
        // A pair could go beyond 16 bits: the highest bit by itself.
        let high = _mm256_set1_epi8(-128);
        let sum = products::<128>(sum, codes.map(|codes| _mm256_andnot_si256(high, codes)), q);
        products::<128>(sum, codes.map(|codes| _mm256_and_si256(codes, high)), q)
    } else {
        products::<LARGEST>(sum, codes, q)
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn products<const LARGEST: u32>(sum: __m256i, codes: Codes, q: Codes) -> __m256i {
    let ([a, b, c, d], [q0, q1, q2, q3]) = (codes, q);
    let (a, b) = (_mm256_maddubs_epi16(a, q0), _mm256_maddubs_epi16(b, q1));
    let (c, d) = (_mm256_maddubs_epi16(c, q2), _mm256_maddubs_epi16(d, q3));
    let one = _mm256_set1_epi16(1);
    // How often 2 * LARGEST * 127 fits in 16 bits.
    match i16::MAX as u32 / (2 * LARGEST * 127) {
        4.. => {
            let all = _mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d));
            _mm256_add_epi32(sum, _mm256_madd_epi16(all, one))
        }
        2.. => {
            let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(a, b), one));
            _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(c, d), one))
        }
        _ => {
            let ab = _mm256_add_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
            let cd = _mm256_add_epi32(_mm256_madd_epi16(c, one), _mm256_madd_epi16(d, one));
            _mm256_add_epi32(sum, _mm256_add_epi32(ab, cd))
        }
    }
}

/// Adds the products of eight 16-bit numbers of each row with as many of the activation.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn multiply_pairs(sum: __m256i, [a, b, c, d]: Codes, of_codes: &[i16; 8]) -> __m256i {
    let [s0, s1, s2, s3] = of_codes.as_chunks::<2>().0 else { return sum };
    let a = _mm256_madd_epi16(a, broadcast_pair(s0));
    let b = _mm256_madd_epi16(b, broadcast_pair(s1));
    let c = _mm256_madd_epi16(c, broadcast_pair(s2));
    let d = _mm256_madd_epi16(d, broadcast_pair(s3));
    let (ab, cd) = (_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
    _mm256_add_epi32(sum, _mm256_add_epi32(ab, cd))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_32<const OFFSET: u32, const MINIMUM: bool>(
    block: &Block32<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut [__m256],
) {
    if OFFSET == 128 {
        let multiply = |sum, codes, q: &_| multiply::<255>(sum, codes, q);
        kernels::add_32::<OFFSET, MINIMUM>(multiply, block, b, activations, sums);
    } else {
        let multiply = |sum, codes, q: &_| multiply::<31>(sum, codes, q);
        kernels::add_32::<OFFSET, MINIMUM>(multiply, block, b, activations, sums);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
    block: &Block256<__m256i, __m256>,
    b: usize,
    activations: &[RowQ256<'_>],
    sums: &mut [__m256],
) {
    let pairs = |sum, codes, of_codes: &_| multiply_pairs(sum, codes, of_codes);
    if WIDE {
        let multiply = |sum, codes, q: &_| multiply::<255>(sum, codes, q);
        kernels::add_256::<SCALES, MINIMUM>(multiply, pairs, block, b, activations, sums);
    } else if SCALES == 0 {
        let multiply = |sum, codes, q: &_| multiply::<127>(sum, codes, q);
        kernels::add_256::<SCALES, MINIMUM>(multiply, pairs, block, b, activations, sums);
    } else if SCALES == 16 && !MINIMUM {
        let multiply = |sum, codes, q: &_| multiply::<63>(sum, codes, q);
        kernels::add_256::<SCALES, MINIMUM>(multiply, pairs, block, b, activations, sums);
    } else {
        let multiply = |sum, codes, q: &_| multiply::<31>(sum, codes, q);
        kernels::add_256::<SCALES, MINIMUM>(multiply, pairs, block, b, activations, sums);
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_nvfp4(
    block: &Block64<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut Sums<__m256>,
) {
    let multiply = |sum, codes, q: &_| multiply::<31>(sum, codes, q);
    kernels::add_nvfp4(multiply, block, b, activations, sums);
}
