//! Stored bits to small integers, and small integers to f32: the loops that families share.
//!
//! They are plain loops over arrays, written for what compilers make of them with the
//! vectors of four f32 that every x86-64 has: all lanes filled, nothing transposed, and as
//! few instructions as can be. Where a compiler sees too much it does worse, by a half and
//! more, so that some things are hidden from it ([`apart`], [`fence`]). No unsafe code and no
//! instruction set is needed for that, and on other hosts it costs next to nothing.

/// The same value, as far as the compiler knows some other one.
///
/// - An array of small integers, made sixteen a vector, is to become f32 four a vector. A
///   compiler that sees through from one to the other makes the integers four at a time
///   too. So they go through memory, which stays in the first cache.
/// - Masks and bits that it knows, a compiler applies to each byte on its own, or by a shift
///   of its own; those that it does not know, to a vector at once.
#[inline(always)]
pub(crate) fn apart<T>(value: T) -> T {
    core::hint::black_box(value)
}

/// Keeps the loop around it from being vectorized, which would take a weight each of several
/// blocks into one vector and transpose; the loop in it is.
#[inline(always)]
pub(crate) fn fence() {
    core::hint::black_box(());
}

/// The 4-bit codes of `qs`: all low nibbles, then all high ones.
#[inline(always)]
pub(crate) fn nibbles(qs: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    let (low, high) = codes.split_at_mut(16);
    for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
        *low = q & 15;
        *high = q >> 4;
    }
    codes
}

/// The 2-bit codes of `qs`: of each 32 bytes the lowest two bits, then the next, and so on.
#[cfg(any(feature = "k-quants", feature = "ternary"))]
#[inline(always)]
pub(crate) fn two_bits(qs: &[[u8; 32]; 2]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (codes, qs) in codes.as_chunks_mut::<128>().0.iter_mut().zip(qs) {
        for (quarter, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (code, q) in codes.iter_mut().zip(qs) {
                *code = q >> (2 * quarter) & 3;
            }
        }
    }
    codes
}

/// The bits of 2^23 in f32. A whole number under 2^23 in the low bits makes it the float that
/// is larger by as much; 2^23 comes off again together with the number's offset, exactly:
/// one operation less than to convert the number and to subtract the offset.
pub(super) const RAISED: u32 = 0x4B00_0000;
/// What [`RAISED`] adds.
pub(super) const RAISE: f32 = 8_388_608.0;

/// `d * (code - offset)`.
#[inline(always)]
pub(super) fn scale<const N: usize>(d: f32, codes: &[u8; N], offset: f32, out: &mut [f32; N]) {
    fence();
    for (w, &code) in out.iter_mut().zip(codes) {
        *w = d * (f32::from_bits(RAISED | u32::from(code)) - (RAISE + offset));
    }
}

/// `(d * code) - m`.
#[inline(always)]
pub(super) fn scale_less<const N: usize>(d: f32, m: f32, codes: &[u8; N], out: &mut [f32; N]) {
    fence();
    for (w, &code) in out.iter_mut().zip(codes) {
        *w = (d * f32::from(code)) - m;
    }
}

/// `d * q`.
#[inline(always)]
pub(super) fn scale_signed<const N: usize>(d: f32, qs: &[i8; N], out: &mut [f32; N]) {
    fence();
    for (w, &q) in out.iter_mut().zip(qs) {
        *w = d * signed(q);
    }
}

/// The same number.
#[inline(always)]
pub(super) fn signed(q: i8) -> f32 {
    // As an offset code: the flipped sign bit adds 128.
    f32::from_bits(u32::from(q as u8) ^ (RAISED | 0x80)) - (RAISE + 128.0)
}

/// The 4-bit codes of `qs` through `weight` to `out`: those of the low nibbles with the first
/// terms, then those of the high nibbles with the second.
///
/// `weight` gets a code in the low bits of `base`, one of a high nibble times 16: each byte is
/// widened once for both, and then only masked. A scale that is 16 times smaller makes up
/// for it exactly, since no f16, nor a whole number of one, is near the smallest f32.
#[inline(always)]
pub(super) fn split_nibbles<T: Copy>(
    qs: &[u8],
    base: u32,
    [low_terms, high_terms]: [T; 2],
    weight: impl Fn(u32, T) -> f32,
    out: &mut [f32],
) {
    let [low_mask, high_mask] = apart([base | 0x0F, base | 0xF0]);
    let (low, high) = out.split_at_mut_checked(qs.len()).unwrap_or_default();
    for ((low, high), &q) in low.iter_mut().zip(high).zip(qs) {
        let q = base | u32::from(q);
        *low = weight(q & low_mask, low_terms);
        *high = weight(q & high_mask, high_terms);
    }
}

/// As [`split_nibbles`], for the four 2-bit codes of each byte, the lowest bits first: `weight`
/// gets them times 1, 4, 16 and 64, and each has an output of its own.
#[cfg(any(feature = "k-quants", feature = "ternary"))]
#[inline(always)]
pub(super) fn split_quarters<T: Copy>(
    qs: &[u8],
    base: u32,
    [terms0, terms1, terms2, terms3]: [T; 4],
    weight: impl Fn(u32, T) -> f32,
    [out0, out1, out2, out3]: [&mut [f32]; 4],
) {
    let [mask0, mask1, mask2, mask3] = apart([base | 0x03, base | 0x0C, base | 0x30, base | 0xC0]);
    let rows = out0.iter_mut().zip(out1).zip(out2.iter_mut().zip(out3));
    for (((out0, out1), (out2, out3)), &q) in rows.zip(qs) {
        let q = base | u32::from(q);
        *out0 = weight(q & mask0, terms0);
        *out1 = weight(q & mask1, terms1);
        *out2 = weight(q & mask2, terms2);
        *out3 = weight(q & mask3, terms3);
    }
}

/// The four rows of 32 weights that 32 bytes of 2-bit codes fill.
#[cfg(any(feature = "k-quants", feature = "ternary"))]
#[inline(always)]
pub(super) fn quarters(out: &mut [f32; 128]) -> [&mut [f32]; 4] {
    let (low, high) = out.split_at_mut(64);
    let ((out0, out1), (out2, out3)) = (low.split_at_mut(32), high.split_at_mut(32));
    [out0, out1, out2, out3]
}

/// For each of 32 weights a byte of ones where its bit is set: bit `k` of byte `g` is that
/// of weight `8g + k`.
#[inline(always)]
pub(super) fn masks(bits: [u8; 4]) -> [u8; 32] {
    static BITS: [u8; 32] = {
        let mut bits = [0; 32];
        let mut i = 0;
        while i < 32 {
            bits[i] = 1 << (i % 8);
            i += 1;
        }
        bits
    };
    let mut masks = [0; 32];
    for (masks, bits) in masks.as_chunks_mut::<8>().0.iter_mut().zip(bits) {
        *masks = [bits; 8];
    }
    for (mask, bit) in masks.iter_mut().zip(*apart(&BITS)) {
        *mask = if *mask & bit == bit { 0xFF } else { 0 };
    }
    masks
}

/// What each byte of two 4-bit codes stands for, the low one in the low byte, where each
/// code stands for one of `values`.
#[cfg(any(feature = "i-quants", feature = "fp4"))]
pub(super) const fn pairs(values: &[i8; 16]) -> [u16; 256] {
    let mut pairs = [0; 256];
    let mut q = 0;
    while q < 256 {
        pairs[q] = u16::from_le_bytes([values[q & 15] as u8, values[q >> 4] as u8]);
        q += 1;
    }
    pairs
}

/// What the 4-bit codes of `qs` (at most 16 bytes) stand for, through `weight` to `out`: those
/// of the low nibbles, then those of the high ones. `weight` gets them times [`UP`], since to
/// place a byte at the top of four takes less than to extend its sign.
///
/// Two codes are looked up at once and four bytes joined to a word: there is one store for
/// eight weights, where a store for each would take most of the time.
#[cfg(any(feature = "i-quants", feature = "fp4"))]
#[inline(always)]
pub(super) fn look_up(
    values: &[u16; 256],
    qs: &[u8],
    weight: impl Fn(f32) -> f32,
    out: &mut [f32],
) {
    let mut words = [[0; 8]; 4];
    for (word, qs) in words.iter_mut().zip(qs.as_chunks::<4>().0) {
        let join = |word: u64, q: &u8| word << 16 | u64::from(values[usize::from(*q)]);
        *word = qs.iter().rev().fold(0, join).to_le_bytes();
    }
    let words = apart(words);
    let pairs = words.as_flattened().as_chunks::<2>().0;
    let (low, high) = out.split_at_mut_checked(qs.len()).unwrap_or_default();
    for (w, pair) in low.iter_mut().zip(pairs) {
        let top = u32::from(u16::from_le_bytes(*pair) << 8) << 16;
        *w = weight(top as i32 as f32);
    }
    for (w, pair) in high.iter_mut().zip(pairs) {
        let top = u32::from(u16::from_le_bytes(*pair) & 0xFF00) << 16;
        *w = weight(top as i32 as f32);
    }
}

/// 2^24.
#[cfg(any(feature = "i-quants", feature = "fp4"))]
pub(super) const UP: f32 = 16_777_216.0;
