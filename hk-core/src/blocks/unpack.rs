//! Stored bits to small integers, and small integers to f32: the loops that families share.

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

/// `d * (code - offset)`. The difference of small integers is exact in f32 too.
#[inline(always)]
pub(super) fn scale(d: f32, codes: &[u8], offset: u8, out: &mut [f32]) {
    for (w, &code) in out.iter_mut().zip(codes) {
        *w = d * (f32::from(code) - f32::from(offset));
    }
}

/// `(d * code) + m`.
#[inline(always)]
pub(super) fn scale_add(d: f32, m: f32, codes: &[u8], out: &mut [f32]) {
    for (w, &code) in out.iter_mut().zip(codes) {
        *w = (d * f32::from(code)) + m;
    }
}

/// `d * q`.
#[inline(always)]
pub(super) fn scale_signed(d: f32, qs: &[i8], out: &mut [f32]) {
    for (w, &q) in out.iter_mut().zip(qs) {
        *w = d * f32::from(q);
    }
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
