//! Products with many activations: sixteen weight rows, a lane a row (see
//! [`tile`](crate::arch::tile)).

mod of_32;

use crate::arch::intrinsics::*;

use hk_core::StorageType;
use hk_core::dot::{RowQ32, RowQ256};

use crate::arch::avx512::vector::{
    broadcast, broadcast_pair, load_floats, load_lanes, load_quarter, store,
};
use crate::arch::call::{DotMatrix, Matrix};
use crate::arch::tile::{
    self, Block32, Block64, Block256, Level, Sums, Type32, Type256, by_blocks_of_32,
    by_blocks_of_256, by_blocks_of_nvfp4,
};

pub(super) use tile::many;

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

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn of_32<T: Type32<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_32::<T, _, 16, BYTES>(Avx512::here(), matrix);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn of_256<T: Type256<BYTES>, const BYTES: usize>(matrix: Matrix<'_>) {
    by_blocks_of_256::<T, _, 16, BYTES>(Avx512::here(), matrix);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn nvfp4(matrix: Matrix<'_>) {
    by_blocks_of_nvfp4(Avx512::here(), matrix);
}

/// The right to use this level's instructions.
#[derive(Clone, Copy)]
struct Avx512(());

impl Avx512 {
    /// Where a value is made, the features are there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn here() -> Self {
        Avx512(())
    }
}

impl Level<16> for Avx512 {
    type V = __m512i;
    type F = __m512;

    #[inline(always)]
    fn load(self, lanes: &[u32; 16]) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { load_lanes(lanes) }
    }

    #[inline(always)]
    fn splat(self, lane: u32) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_set1_epi32(lane as i32) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_mullo_epi32(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, a: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { shift_left(a, bits) }
    }

    #[inline(always)]
    fn shift_right(self, a: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { shift_right(a, bits) }
    }

    #[inline(always)]
    fn look_up(self, table: &[u8; 16], codes: __m512i) -> __m512i {
        // SAFETY: `self` was made where the features are.
        unsafe { look_up(table, codes) }
    }

    #[inline(always)]
    fn halves(self, bits: __m512i) -> __m512 {
        // SAFETY: `self` was made where the features are.
        unsafe { halves(bits) }
    }

    #[inline(always)]
    fn transpose(self, rows: [&[u8; 16]; 16]) -> [__m512i; 4] {
        // SAFETY: `self` was made where the features are.
        unsafe { transpose(rows) }
    }

    #[inline(always)]
    fn load_floats(self, lanes: &[f32; 16]) -> __m512 {
        // SAFETY: `self` was made where the features are.
        unsafe { load_floats(lanes) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` was made where the features are.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn floats(self, lanes: __m512) -> [f32; 16] {
        // SAFETY: `self` was made where the features are.
        unsafe { floats(lanes) }
    }

    #[inline(always)]
    fn bits_of_floats(self, lanes: __m512i) -> [f32; 16] {
        // SAFETY: `self` was made where the features are.
        unsafe { bits_of_floats(lanes) }
    }

    #[inline(always)]
    fn add_32<const OFFSET: u32, const MINIMUM: bool>(
        self,
        blocks: &[Block32<__m512i, __m512>],
        first: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m512>,
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { of_32::add::<OFFSET, MINIMUM>(blocks, first, activations, sums) }
    }

    #[inline(always)]
    fn add_256<const SCALES: usize, const WIDE: bool, const MINIMUM: bool>(
        self,
        block: &Block256<__m512i, __m512>,
        b: usize,
        activations: &[RowQ256<'_>],
        sums: &mut [__m512],
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { add_256::<SCALES, MINIMUM>(block, b, activations, sums) }
    }

    #[inline(always)]
    fn add_nvfp4(
        self,
        block: &Block64<__m512i, __m512>,
        b: usize,
        activations: &[RowQ32<'_>],
        sums: &mut Sums<__m512>,
    ) {
        // SAFETY: `self` was made where the features are.
        unsafe { add_nvfp4(block, b, activations, sums) }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn transpose(rows: [&[u8; 16]; 16]) -> [__m512i; 4] {
    let [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15] = rows;
    // Rows four apart in the quarters of a vector; then each quarter is transposed.
    let a = quarters([r0, r4, r8, r12]);
    let b = quarters([r1, r5, r9, r13]);
    let c = quarters([r2, r6, r10, r14]);
    let d = quarters([r3, r7, r11, r15]);
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn quarters([a, b, c, d]: [&[u8; 16]; 4]) -> __m512i {
    let quarters = _mm512_castsi128_si512(load_quarter(a));
    let quarters = _mm512_inserti32x4::<1>(quarters, load_quarter(b));
    let quarters = _mm512_inserti32x4::<2>(quarters, load_quarter(c));
    _mm512_inserti32x4::<3>(quarters, load_quarter(d))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn shift_left(a: __m512i, bits: u32) -> __m512i {
    _mm512_sllv_epi32(a, _mm512_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn shift_right(a: __m512i, bits: u32) -> __m512i {
    _mm512_srlv_epi32(a, _mm512_set1_epi32(bits as i32))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn halves(bits: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn look_up(table: &[u8; 16], codes: __m512i) -> __m512i {
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_quarter(table)), codes)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn bits_of_floats(lanes: __m512i) -> [f32; 16] {
    floats(_mm512_castsi512_ps(lanes))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn floats(lanes: __m512) -> [f32; 16] {
    let mut floats = [0.0; 16];
    store(lanes, &mut floats);
    floats
}

/// Four vectors of codes.
type Codes = [__m512i; 4];

/// Adds the products of sixteen codes of each row with as many of the activation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn multiply(sum: __m512i, [a, b, c, d]: Codes, q: &[i8; 16]) -> __m512i {
    let [q0, q1, q2, q3] = q.as_chunks::<4>().0 else { return sum };
    let sum = _mm512_dpbusd_epi32(sum, a, broadcast(q0));
    let sum = _mm512_dpbusd_epi32(sum, b, broadcast(q1));
    let sum = _mm512_dpbusd_epi32(sum, c, broadcast(q2));
    _mm512_dpbusd_epi32(sum, d, broadcast(q3))
}

/// The exact sums of a block of each row with a block of each activation.
type Integers = [__m512i; tile::TILE];

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_256<const SCALES: usize, const MINIMUM: bool>(
    block: &Block256<__m512i, __m512>,
    b: usize,
    activations: &[RowQ256<'_>],
    sums: &mut [__m512],
) {
    let mut integers = [_mm512_setzero_si512(); tile::TILE];
    if SCALES == 0 {
        let planes = block.codes.as_chunks::<8>().0.iter().zip(block.high.as_chunks::<8>().0);
        for (part, (low, high)) in planes.enumerate() {
            add_planes(low, high, (b, part), activations, &mut integers);
        }
    } else {
        for (part, codes) in block.codes.as_chunks::<16>().0.iter().enumerate() {
            let mut scales = [_mm512_setzero_si512(); 4];
            let here = block.scales.iter().skip(part * (SCALES / 4)).take(SCALES / 4);
            for (to, scale) in scales.iter_mut().zip(here) {
                *to = *scale;
            }
            add_part::<SCALES>(codes, scales, (b, part), activations, &mut integers);
        }
    }
    add_terms::<MINIMUM>(block, b, activations, &integers, sums);
}

/// Adds the sums of 64 weights: part `part` of block `b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_part<const SCALES: usize>(
    codes: &[__m512i; 16],
    scales: [__m512i; 4],
    (b, part): (usize, usize),
    activations: &[RowQ256<'_>],
    integers: &mut Integers,
) {
    let &[c0, c1, c2, c3] = codes.as_chunks::<4>().0 else { return };
    let ([s0, s1, s2, s3], zero) = (scales, _mm512_setzero_si512());
    for (activation, integers) in activations.iter().zip(integers) {
        let Some(q) = activation.q().get(b) else { return };
        let Some(q) = q.as_chunks::<64>().0.get(part) else { return };
        let [q0, q1, q2, q3] = q.as_chunks::<16>().0 else { return };
        let before = *integers;
        let sum = match SCALES {
            16 => {
                let first = _mm512_mullo_epi32(multiply(zero, c0, q0), s0);
                let second = _mm512_mullo_epi32(multiply(zero, c1, q1), s1);
                let third = _mm512_mullo_epi32(multiply(zero, c2, q2), s2);
                let fourth = _mm512_mullo_epi32(multiply(zero, c3, q3), s3);
                let sum = _mm512_add_epi32(
                    _mm512_add_epi32(first, second),
                    _mm512_add_epi32(third, fourth),
                );
                _mm512_add_epi32(before, sum)
            }
            8 => {
                let first = multiply(multiply(zero, c0, q0), c1, q1);
                let second = multiply(multiply(zero, c2, q2), c3, q3);
                let first = _mm512_mullo_epi32(first, s0);
                let second = _mm512_mullo_epi32(second, s1);
                _mm512_add_epi32(before, _mm512_add_epi32(first, second))
            }
            _ => {
                let sum = multiply(multiply(before, c0, q0), c1, q1);
                multiply(multiply(sum, c2, q2), c3, q3)
            }
        };
        *integers = sum;
    }
}

/// Adds the sums of 32 weights in two planes: part `part` of block `b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_planes(
    low: &[__m512i; 8],
    high: &[__m512i; 8],
    (b, part): (usize, usize),
    activations: &[RowQ256<'_>],
    integers: &mut Integers,
) {
    let (&[l0, l1], &[h0, h1]) = (low.as_chunks::<4>().0, high.as_chunks::<4>().0) else { return };
    let zero = _mm512_setzero_si512();
    for (activation, integers) in activations.iter().zip(integers) {
        let Some(q) = activation.q().get(b) else { return };
        let Some(q) = q.as_chunks::<32>().0.get(part) else { return };
        let [q0, q1] = q.as_chunks::<16>().0 else { return };
        let low = multiply(multiply(*integers, l0, q0), l1, q1);
        let high = multiply(multiply(zero, h0, q0), h1, q1);
        let sum = _mm512_add_epi32(low, _mm512_slli_epi32::<7>(high));
        *integers = sum;
    }
}

/// Adds the terms of a block, whose exact sums but for corrections are `integers`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_terms<const MINIMUM: bool>(
    block: &Block256<__m512i, __m512>,
    b: usize,
    activations: &[RowQ256<'_>],
    integers: &Integers,
    sums: &mut [__m512],
) {
    let &[c0, c1] = block.corrections.as_chunks::<4>().0 else { return };
    let (d, m) = (block.d, block.m);
    for ((activation, integers), lanes) in activations.iter().zip(integers).zip(sums) {
        let (Some(of_codes), Some(&da)) = (activation.sums().get(b), activation.d().get(b)) else {
            return;
        };
        let [first, last] = of_codes.as_chunks::<8>().0 else { return };
        let (da, mut integer) = (_mm512_set1_ps(da), *integers);
        let mut minimum = _mm512_setzero_si512();
        if MINIMUM {
            minimum = multiply_pairs(multiply_pairs(minimum, c0, first), c1, last);
        } else {
            integer = multiply_pairs(multiply_pairs(integer, c0, first), c1, last);
        }
        let mut term = _mm512_mul_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(integer));
        if MINIMUM {
            let m = _mm512_mul_ps(m, da);
            term = _mm512_sub_ps(term, _mm512_mul_ps(m, _mm512_cvtepi32_ps(minimum)));
        }
        *lanes = _mm512_add_ps(*lanes, term);
    }
}

/// Adds the products of eight 16-bit numbers of each row with as many of the activation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn multiply_pairs(sum: __m512i, [a, b, c, d]: Codes, of_codes: &[i16; 8]) -> __m512i {
    let [s0, s1, s2, s3] = of_codes.as_chunks::<2>().0 else { return sum };
    let sum = _mm512_dpwssd_epi32(sum, a, broadcast_pair(s0));
    let sum = _mm512_dpwssd_epi32(sum, b, broadcast_pair(s1));
    let sum = _mm512_dpwssd_epi32(sum, c, broadcast_pair(s2));
    _mm512_dpwssd_epi32(sum, d, broadcast_pair(s3))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_nvfp4(
    block: &Block64<__m512i, __m512>,
    b: usize,
    activations: &[RowQ32<'_>],
    sums: &mut Sums<__m512>,
) {
    let parts = block.codes.iter().zip(&block.d).zip(sums);
    for (part, ((&codes, &d), sums)) in parts.enumerate() {
        let zero = _mm512_setzero_si512();
        let offset = [_mm512_set1_epi8(16); 4];
        let b = 2 * b + part / 2;
        for (activation, lanes) in activations.iter().zip(sums) {
            let (Some(q), Some(&da)) = (activation.q().get(b), activation.d().get(b)) else {
                return;
            };
            let Some(q) = q.as_chunks::<16>().0.get(part % 2) else { return };
            // There are no sums of 16 codes to take the offset off with.
            let sum = multiply(zero, codes, q);
            let sum = _mm512_sub_epi32(sum, multiply(zero, offset, q));
            let d = _mm512_mul_ps(d, _mm512_set1_ps(da));
            let term = _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum));
            *lanes = _mm512_add_ps(*lanes, term);
        }
    }
}
