//! Stand-ins do what the instructions do.

extern crate std;

use core::arch::x86_64::{self as cpu, *};

use super::stand_ins::{self as ours, lanes, vector};

/// Pseudorandom vectors, of which some have small numbers in lanes of 8, 16, 32 or 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn vector(&mut self) -> __m512i {
        let kept = match self.next() >> 32 & 7 {
            0 => 0x3F,
            1 => 0x3F_0000_003F,
            2 => 0x1F_001F_001F_001F,
            3 => 0x8000_8000_8000_8000,
            _ => u64::MAX,
        };
        vector([0; 8].map(|_| self.next() & kept))
    }
}

#[track_caller]
fn same(ours: __m512i, cpu: __m512i) {
    assert_eq!(lanes::<u64, 8>(ours), lanes::<u64, 8>(cpu));
}

#[target_feature(enable = "avx512f")]
fn same_floats(ours: __m512, cpu: __m512) {
    same(_mm512_castps_si512(ours), _mm512_castps_si512(cpu));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn compare_integers(random: &mut Random) {
    let [a, b, c] = [(); 3].map(|()| random.vector());
    let k = random.next() as u32;
    same(ours::_mm512_sllv_epi32(a, b), cpu::_mm512_sllv_epi32(a, b));
    let ours = ours::_mm512_mask_sllv_epi32(c, k as u16, a, b);
    same(ours, cpu::_mm512_mask_sllv_epi32(c, k as u16, a, b));
    same(ours::_mm512_sllv_epi16(a, b), cpu::_mm512_sllv_epi16(a, b));
    same(ours::_mm512_srlv_epi16(a, b), cpu::_mm512_srlv_epi16(a, b));
    let [half, counts] = [a, b].map(|all| _mm512_castsi512_si256(all));
    let ours = _mm512_zextsi256_si512(ours::_mm256_srlv_epi16(half, counts));
    same(ours, _mm512_zextsi256_si512(cpu::_mm256_srlv_epi16(half, counts)));
    same(ours::_mm512_srlv_epi32(a, b), cpu::_mm512_srlv_epi32(a, b));
    same(ours::_mm512_srlv_epi64(a, b), cpu::_mm512_srlv_epi64(a, b));
    same(ours::_mm512_mulhi_epu16(a, b), cpu::_mm512_mulhi_epu16(a, b));
    same(ours::_mm512_dpwssd_epi32(c, a, b), cpu::_mm512_dpwssd_epi32(c, a, b));
    same(ours::_mm512_dpwssds_epi32(c, a, b), cpu::_mm512_dpwssds_epi32(c, a, b));
    same(ours::_mm512_permutexvar_epi16(a, b), cpu::_mm512_permutexvar_epi16(a, b));
    same(ours::_mm512_permutex2var_epi16(a, b, c), cpu::_mm512_permutex2var_epi16(a, b, c));
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn compare_floats(random: &mut Random) {
    let [a, b, c] = [(); 3].map(|()| random.vector());
    let [x, y] = [a, c].map(|bits| _mm512_castsi512_ps(bits));
    let k = random.next() as u16;
    same_floats(ours::_mm512_permutexvar_ps(b, x), cpu::_mm512_permutexvar_ps(b, x));
    let ours = ours::_mm512_mask_permutexvar_ps(x, k, b, y);
    same_floats(ours, cpu::_mm512_mask_permutexvar_ps(x, k, b, y));
    let ours = ours::_mm512_maskz_permutexvar_ps(k, b, x);
    same_floats(ours, cpu::_mm512_maskz_permutexvar_ps(k, b, x));
    same_floats(ours::_mm512_permutevar_ps(x, b), cpu::_mm512_permutevar_ps(x, b));
    same_floats(ours::_mm512_permutex2var_ps(x, b, y), cpu::_mm512_permutex2var_ps(x, b, y));
    same_floats(ours::_mm512_maskz_compress_ps(k, x), cpu::_mm512_maskz_compress_ps(k, x));
    same_floats(ours::_mm512_maskz_expand_ps(k, x), cpu::_mm512_maskz_expand_ps(k, x));
    let halves = _mm512_castsi512_si256(a);
    same_floats(ours::_mm512_cvtph_ps(halves), cpu::_mm512_cvtph_ps(halves));
    // Numbers of which many have a half near them, or an integer.
    let near = _mm512_mul_ps(_mm512_cvtepi32_ps(b), _mm512_set1_ps(1e-6));
    for x in [x, near] {
        same(ours::_mm512_cvtps_epi32(x), cpu::_mm512_cvtps_epi32(x));
        let eight = _mm512_castps512_ps256(x);
        let ours = ours::_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(eight);
        let cpu = cpu::_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(eight);
        same(_mm512_zextsi128_si512(ours), _mm512_zextsi128_si512(cpu));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512bitalg")]
fn compare_extended(random: &mut Random) {
    let [a, b] = [(); 2].map(|()| random.vector());
    let floats = |ours, cpu| same_floats(_mm512_zextps256_ps512(ours), _mm512_zextps256_ps512(cpu));
    floats(ours::_mm512_cvtepi64_ps(a), cpu::_mm512_cvtepi64_ps(a));
    floats(ours::_mm512_cvtepu64_ps(a), cpu::_mm512_cvtepu64_ps(a));
    same(ours::_mm512_multishift_epi64_epi8(a, b), cpu::_mm512_multishift_epi64_epi8(a, b));
    let ours = ours::_mm512_bitshuffle_epi64_mask(a, b);
    assert_eq!(ours, cpu::_mm512_bitshuffle_epi64_mask(a, b));
}

#[target_feature(enable = "avx512f,avxvnni")]
fn compare_avx_vnni(random: &mut Random) {
    let [a, b, c] = [(); 3].map(|()| _mm512_castsi512_si256(random.vector()));
    let ours = _mm512_zextsi256_si512(ours::_mm256_dpwssd_avx_epi32(a, b, c));
    same(ours, _mm512_zextsi256_si512(cpu::_mm256_dpwssd_avx_epi32(a, b, c)));
}

#[test]
fn as_this_cpu_does() {
    let features = super::super::Features::of_this_cpu();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..10_000 {
        if features.avx512() {
            // SAFETY: the CPU has the features.
            unsafe { compare_integers(&mut random) };
            // SAFETY: the CPU has the features.
            unsafe { compare_floats(&mut random) };
        }
        if features.avx512_extended() {
            // SAFETY: the CPU has the features.
            unsafe { compare_extended(&mut random) };
        }
        if features.avx512() && features.avx_vnni() {
            // SAFETY: the CPU has the features.
            unsafe { compare_avx_vnni(&mut random) };
        }
    }
}
