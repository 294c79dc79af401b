//! Blocks of 32 weights: some activations at once.

use crate::arch::intrinsics::*;

use hk_core::dot::RowQ32;

use crate::arch::avx512::vector::broadcast;
use crate::arch::call::fetch;
use crate::arch::tile::{Block32, Sums};

/// Activations whose sums stay in registers, and for which general registers say where they
/// are.
const MANY: usize = 4;
/// The same for what is left of a tile.
const FEW: usize = 2;

/// Adds the terms of `blocks`, of which the first is block `first` of each row, to the sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn add<const OFFSET: u32, const MINIMUM: bool>(
    blocks: &[Block32<__m512i, __m512>],
    first: usize,
    activations: &[RowQ32<'_>],
    sums: &mut Sums<__m512>,
) {
    let (many, rest) = activations.as_chunks::<MANY>();
    let (few, ones) = rest.as_chunks::<FEW>();
    let mut at = 0;
    for (g, activations) in many.iter().enumerate() {
        for later in many.get(g + 1).into_iter().flatten() {
            fetch_blocks(later, first, blocks.len());
        }
        add_group::<MANY, OFFSET, MINIMUM>(blocks, first, activations, sums, at);
        at += MANY;
    }
    for activations in few {
        add_group::<FEW, OFFSET, MINIMUM>(blocks, first, activations, sums, at);
        at += FEW;
    }
    for activation in ones {
        let one = core::array::from_ref(activation);
        add_group::<1, OFFSET, MINIMUM>(blocks, first, one, sums, at);
        at += 1;
    }
}

/// Has some blocks of an activation brought into the first cache.
#[inline(always)]
fn fetch_blocks(activation: &RowQ32<'_>, first: usize, count: usize) {
    let q = activation.q().get(first..).unwrap_or_default();
    fetch(q.as_ptr().cast(), 32 * count);
}

/// [`add`] for `A` activations, whose sums stand from `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_group<const A: usize, const OFFSET: u32, const MINIMUM: bool>(
    blocks: &[Block32<__m512i, __m512>],
    first: usize,
    activations: &[RowQ32<'_>; A],
    sums: &mut Sums<__m512>,
    at: usize,
) {
    for (lane, sums) in sums.iter_mut().enumerate() {
        let Some((_, sums)) = sums.split_at_mut_checked(at) else { return };
        let Some(sums) = sums.first_chunk_mut::<A>() else { return };
        let mut now = *sums;
        for (eight, blocks) in blocks.chunks(8).enumerate() {
            let b = first + 8 * eight + lane;
            let Some(block) = blocks.get(lane) else { break };
            match blocks.get(lane + 4) {
                Some(next) => {
                    add_blocks::<A, 2, OFFSET, MINIMUM>([block, next], b, activations, &mut now);
                }
                None => add_blocks::<A, 1, OFFSET, MINIMUM>([block], b, activations, &mut now),
            }
        }
        *sums = now;
    }
}

/// Adds the terms of `N` blocks of one lane, of which the first is block `b`. What is done, is
/// done for all of them and all activations before the next step: each step has to wait for the
/// one before, but not for that of another block or activation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn add_blocks<const A: usize, const N: usize, const OFFSET: u32, const MINIMUM: bool>(
    blocks: [&Block32<__m512i, __m512>; N],
    b: usize,
    activations: &[RowQ32<'_>; A],
    sums: &mut [__m512; A],
) {
    let mut q: [[&[[i8; 4]; 8]; A]; N] = [[&[[0; 4]; 8]; A]; N];
    // References, so that they are read when they are needed, all lanes at once.
    let (mut d, mut s, mut of_codes) = ([[&0.0; A]; N], [[&0.0; A]; N], [[&0; A]; N]);
    for a in 0..A {
        let row = &activations[a];
        for n in 0..N {
            let b = b + 4 * n;
            let (Some(codes), Some(row_d)) = (row.q().get(b), row.d().get(b)) else { return };
            let (Some(row_s), Some(sum)) = (row.s().get(b), row.sums().get(b)) else { return };
            q[n][a] = zerocopy::transmute_ref!(codes);
            (d[n][a], s[n][a], of_codes[n][a]) = (row_d, row_s, sum);
        }
    }
    let mut integers = [[_mm512_setzero_si512(); A]; N];
    for k in 0..8 {
        for n in 0..N {
            let codes = blocks[n].codes[k];
            for a in 0..A {
                let q = broadcast(&q[n][a][k]);
                integers[n][a] = _mm512_dpbusd_epi32(integers[n][a], codes, q);
            }
        }
    }
    for n in 0..N {
        for a in 0..A {
            let mut integer = integers[n][a];
            if OFFSET != 0 {
                // By a shift, since multiplications are what there are many of.
                let shift = _mm512_set1_epi32(OFFSET.trailing_zeros() as i32);
                let offset = _mm512_sllv_epi32(_mm512_set1_epi32(*of_codes[n][a]), shift);
                integer = _mm512_sub_epi32(integer, offset);
            }
            let d = _mm512_mul_ps(blocks[n].d, _mm512_set1_ps(*d[n][a]));
            let mut term = _mm512_mul_ps(d, _mm512_cvtepi32_ps(integer));
            if MINIMUM {
                let s = _mm512_set1_ps(*s[n][a]);
                term = _mm512_add_ps(term, _mm512_mul_ps(blocks[n].m, s));
            }
            sums[a] = _mm512_add_ps(sums[a], term);
        }
    }
}
