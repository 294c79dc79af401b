//! With AVX-VNNI.

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

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn of_32<T: Type32<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_32::<T, _, 8, BYTES>(Lanes(Vnni::here()), matrix);
}

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn of_256<T: Type256<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_256::<T, _, 8, BYTES>(Lanes(Vnni::here()), matrix);
}

#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn nvfp4(matrix: Matrix<'_>) {
    by_blocks_of_nvfp4(Lanes(Vnni::here()), matrix);
}

/// The right to use these instructions.
#[derive(Clone, Copy)]
struct Vnni(());

impl Vnni {
    /// Where a value is made, the features are there.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    fn here() -> Self {
        Vnni(())
    }
}

// SAFETY: `here` alone makes a value, where the features are.
unsafe impl Multiply for Vnni {
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

/// Adds the products of sixteen codes of each row with as many of the activation.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn multiply(sum: __m256i, [a, b, c, d]: Codes, q: &[i8; 16]) -> __m256i {
    let [q0, q1, q2, q3] = q.as_chunks::<4>().0 else { return sum };
    let sum = _mm256_dpbusd_avx_epi32(sum, a, broadcast(q0));
    let sum = _mm256_dpbusd_avx_epi32(sum, b, broadcast(q1));
    let sum = _mm256_dpbusd_avx_epi32(sum, c, broadcast(q2));
    _mm256_dpbusd_avx_epi32(sum, d, broadcast(q3))
}

/// Adds the products of eight 16-bit numbers of each row with as many of the activation.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn multiply_pairs(sum: __m256i, [a, b, c, d]: Codes, of_codes: &[i16; 8]) -> __m256i {
    let [s0, s1, s2, s3] = of_codes.as_chunks::<2>().0 else { return sum };
    let sum = _mm256_dpwssd_avx_epi32(sum, a, broadcast_pair(s0));
    let sum = _mm256_dpwssd_avx_epi32(sum, b, broadcast_pair(s1));
    let sum = _mm256_dpwssd_avx_epi32(sum, c, broadcast_pair(s2));
    _mm256_dpwssd_avx_epi32(sum, d, broadcast_pair(s3))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn add_32<const OFFSET: u32, const MINIMUM: bool>(
    block: &Block32<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut [__m256],
) {
    let multiply = |sum, codes, q: &_| multiply(sum, codes, q);
    kernels::add_32::<OFFSET, MINIMUM>(multiply, block, b, activations, sums);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
    block: &Block256<__m256i, __m256>,
    b: usize,
    activations: &[RowQ256<'_>],
    sums: &mut [__m256],
) {
    let pairs = |sum, codes, of_codes: &_| multiply_pairs(sum, codes, of_codes);
    let multiply = |sum, codes, q: &_| multiply(sum, codes, q);
    kernels::add_256::<SCALES, MINIMUM>(multiply, pairs, block, b, activations, sums);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn add_nvfp4(
    block: &Block64<__m256i, __m256>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut Sums<__m256>,
) {
    let multiply = |sum, codes, q: &_| multiply(sum, codes, q);
    kernels::add_nvfp4(multiply, block, b, activations, sums);
}
