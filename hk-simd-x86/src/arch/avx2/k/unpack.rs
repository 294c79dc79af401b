//! Scales and codes of K-quants, out of their bits.

use crate::arch::intrinsics::*;

use crate::arch::avx2::vector::load_at;

/// `a` with the bits of `mask` alone.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn only(mask: u8, a: __m256i) -> __m256i {
    _mm256_and_si256(a, _mm256_set1_epi8(mask as i8))
}

/// The scales and minimums of two blocks, one in each half, that begin with `d`, `dmin` and
/// the packed scales: 8 bytes of scales and 8 of minimums.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn scales_and_minimums(heads: __m256i) -> __m256i {
    // Of the first four scales, the last four, and the minimums likewise: what has their low
    // bits, and what has the two above them.
    let low = _mm256_shuffle_epi32::<0b11_10_11_01>(heads);
    let high = _mm256_shuffle_epi32::<0b10_00_01_00>(heads);
    let of_each = |a, b, c, d| _mm256_set_epi32(d, c, b, a, d, c, b, a);
    let low = _mm256_srlv_epi32(low, of_each(0, 0, 0, 4));
    let low = _mm256_and_si256(low, of_each(0x3F3F_3F3F, 0x0F0F_0F0F, 0x3F3F_3F3F, 0x0F0F_0F0F));
    let high =
        _mm256_and_si256(_mm256_srli_epi32::<2>(high), of_each(0, 0x3030_3030, 0, 0x3030_3030));
    _mm256_or_si256(low, high)
}

/// The 16 scales, -32 to 31, of each half, whose bytes 2 to 13 are the packed scales.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn scales_q3_k(tails: __m256i) -> __m256i {
    let lows = _mm_set_epi8(9, 8, 7, 6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2);
    let low = _mm256_shuffle_epi8(tails, _mm256_broadcastsi128_si256(lows));
    let low = _mm256_srlv_epi64(low, _mm256_set_epi64x(4, 0, 4, 0));
    // The bits wanted of each byte stand lowest: a shift to the left by no more than 4.
    let high = _mm256_shuffle_epi8(tails, _mm256_set1_epi32(0x0D0C_0B0A));
    let high = _mm256_srlv_epi32(high, _mm256_set_epi32(6, 4, 2, 0, 6, 4, 2, 0));
    let high = _mm256_slli_epi16::<4>(only(0x03, high));
    let scales = _mm256_or_si256(only(0x0F, low), high);
    _mm256_sub_epi8(scales, _mm256_set1_epi8(32))
}

/// The codes of `q3_k`, 0 to 7, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn codes_q3_k(block: &[u8; 110]) -> [__m256i; 8] {
    let thirds = load_at::<0, 110>(block);
    let (a, b) = (load_at::<32, 110>(block), load_at::<64, 110>(block));
    let with_third = |codes, thirds| _mm256_or_si256(only(0x03, codes), only(0x04, thirds));
    // Bits 0 to 3 of the first 128 weights, 4 to 7 of the others, to the place of 4.
    [
        with_third(a, _mm256_slli_epi16::<2>(thirds)),
        with_third(_mm256_srli_epi16::<2>(a), _mm256_slli_epi16::<1>(thirds)),
        with_third(_mm256_srli_epi16::<4>(a), thirds),
        with_third(_mm256_srli_epi16::<6>(a), _mm256_srli_epi16::<1>(thirds)),
        with_third(b, _mm256_srli_epi16::<2>(thirds)),
        with_third(_mm256_srli_epi16::<2>(b), _mm256_srli_epi16::<3>(thirds)),
        with_third(_mm256_srli_epi16::<4>(b), _mm256_srli_epi16::<4>(thirds)),
        with_third(_mm256_srli_epi16::<6>(b), _mm256_srli_epi16::<5>(thirds)),
    ]
}

/// The low and the high nibbles of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn nibbles<const AT: usize, const N: usize>(
    block: &[u8; N],
) -> [__m256i; 2] {
    let both = load_at::<AT, N>(block);
    [only(0x0F, both), only(0x0F, _mm256_srli_epi16::<4>(both))]
}

/// The codes of `q5_k`, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn codes_q5_k(block: &[u8; 176]) -> [__m256i; 8] {
    let fifths = load_at::<16, 176>(block);
    let [a, b] = nibbles::<48, 176>(block);
    let [c, d] = nibbles::<80, 176>(block);
    let [e, f] = nibbles::<112, 176>(block);
    let [g, h] = nibbles::<144, 176>(block);
    // Bit `j` of sub-block `j`, to the place of 16.
    [
        with_fifth(a, _mm256_slli_epi16::<4>(fifths)),
        with_fifth(b, _mm256_slli_epi16::<3>(fifths)),
        with_fifth(c, _mm256_slli_epi16::<2>(fifths)),
        with_fifth(d, _mm256_slli_epi16::<1>(fifths)),
        with_fifth(e, fifths),
        with_fifth(f, _mm256_srli_epi16::<1>(fifths)),
        with_fifth(g, _mm256_srli_epi16::<2>(fifths)),
        with_fifth(h, _mm256_srli_epi16::<3>(fifths)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn with_fifth(codes: __m256i, fifths: __m256i) -> __m256i {
    _mm256_or_si256(codes, only(0x10, fifths))
}

/// The codes of `q6_k`, 0 to 63, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch::avx2) fn codes_q6_k(block: &[u8; 210]) -> [__m256i; 8] {
    let [a, b, c, d] = quarters_q6_k(
        [load_at::<0, 210>(block), load_at::<32, 210>(block)],
        load_at::<128, 210>(block),
    );
    let [e, f, g, h] = quarters_q6_k(
        [load_at::<64, 210>(block), load_at::<96, 210>(block)],
        load_at::<160, 210>(block),
    );
    [a, b, c, d, e, f, g, h]
}

/// Half of the codes, of their nibbles and upper bits.
#[inline]
#[target_feature(enable = "avx2")]
fn quarters_q6_k([a, b]: [__m256i; 2], bits: __m256i) -> [__m256i; 4] {
    let with_bits = |nibbles, bits| _mm256_or_si256(only(0x0F, nibbles), only(0x30, bits));
    [
        with_bits(a, _mm256_slli_epi16::<4>(bits)),
        with_bits(b, _mm256_slli_epi16::<2>(bits)),
        with_bits(_mm256_srli_epi16::<4>(a), bits),
        with_bits(_mm256_srli_epi16::<4>(b), _mm256_srli_epi16::<2>(bits)),
    ]
}
