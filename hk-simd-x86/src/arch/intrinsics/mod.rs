//! The vector instructions that kernels are written in: those of `core::arch`, and under Miri
//! stand-ins for those that it lacks, so that it runs every kernel of every level. Loads and
//! stores, which it is there to watch, are `core`'s own; non-temporal ones become ordinary.
//! On a CPU the tests compare the stand-ins with the instructions.

pub(super) use core::arch::x86_64::*;

#[cfg(any(miri, test))]
mod stand_ins;
#[cfg(all(test, not(miri)))]
mod tests;

// Where Miri stops at an instruction and names it, that one goes here too.
#[cfg(miri)]
pub(super) use stand_ins::{
    _mm_sfence, _mm256_cvtps_ph, _mm256_dpwssd_avx_epi32, _mm256_srlv_epi16, _mm256_stream_ps,
    _mm512_bitshuffle_epi64_mask, _mm512_cvtepi64_ps, _mm512_cvtepu64_ps, _mm512_cvtph_ps,
    _mm512_cvtps_epi32, _mm512_dpwssd_epi32, _mm512_dpwssds_epi32, _mm512_mask_permutexvar_ps,
    _mm512_mask_sllv_epi32, _mm512_maskz_compress_ps, _mm512_maskz_expand_ps,
    _mm512_maskz_permutexvar_ps, _mm512_mulhi_epu16, _mm512_multishift_epi64_epi8,
    _mm512_permutevar_ps, _mm512_permutex2var_epi16, _mm512_permutex2var_ps,
    _mm512_permutexvar_epi16, _mm512_permutexvar_ps, _mm512_sllv_epi16, _mm512_sllv_epi32,
    _mm512_srlv_epi16, _mm512_srlv_epi32, _mm512_srlv_epi64, _mm512_stream_ps,
};
