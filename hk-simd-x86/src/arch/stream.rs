//! Large outputs: past the caches, by stores that do not read what they overwrite.
//!
//! An ordinary store has the memory that it overwrites read first. A non-temporal one has not,
//! but it must fill aligned lines, which outputs seldom begin with, and lines one after
//! another: weights go through a piece of the first cache, of a page. The page after it is
//! looked up meanwhile (by a prefetch of one line), or every store into it would wait for that.
//!
//! Measured on a Zen 5 EPYC, in a virtual machine with pages of 4 KiB and a busy neighbour, 64 Mi
//! weights, as ratios to `memset` (7.7 G f32/s), ordinary stores and these:
//!
//! | type | avx512 | avx2 |
//! | --- | --- | --- |
//! | bf16, f16 | 0.71 to 0.75, 1.01 | 0.75, 1.01 |
//! | q4_0, q4_k, nvfp4 | 0.75 to 0.77, 1.17 to 1.20 | 0.73 to 0.79, 1.14 to 1.16 |
//! | int8, q8_0, q5_1, q6_k | 0.74 to 0.77, 1.09 to 1.16 | 0.72 to 0.78, 1.10 to 1.14 |
//! | f32, which is a copy, and f64 | 0.60 and 0.41, 0.37 and 0.32 | 0.61 and 0.38, 0.36 and 0.42 |
//!
//! So types whose payload is no smaller than the output do without. Without the prefetch f16
//! fell to 0.6 where outputs begin a page. Prefetching the source or every line of the output
//! gained nothing, `rep movsb` took twice as long. Ordinary stores are as fast at 4 Mi weights
//! (16 MiB, half of the last cache), and twice as fast under 1 Mi.

use super::intrinsics::{_MM_HINT_T0, _mm_prefetch, _mm_sfence};

use hk_core::Geometry;

use super::call::Decode;

/// Weights from which on an output is large: 32 MiB. Miri does not wait for so many.
pub(super) const LARGE: usize = if cfg!(miri) { 2048 } else { 8 << 20 };

/// Weights of a piece: 4 KiB, and whole blocks of every type.
const PIECE: usize = 1024;

/// A cache line.
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; 16]);

/// Writes lines by non-temporal stores, as many as both slices have.
///
/// # Safety
/// The CPU must have the features that the function is compiled for. A store fence must
/// follow before anything else looks at the lines.
pub(super) type Stream = unsafe fn(&[[f32; 16]], &mut [Line]);

/// Decodes by `kernel`, a piece at a time, where a piece of the payload has `bytes` bytes.
///
/// # Safety
/// The CPU must have the features of both functions.
unsafe fn by_pieces(kernel: Decode, stream: Stream, bytes: usize, payload: &[u8], out: &mut [f32]) {
    let (pieces, rest) = out.as_chunks_mut::<PIECE>();
    let mut payloads = payload.chunks(bytes);
    let mut weights = [0.0; PIECE];
    for (out, payload) in pieces.iter_mut().zip(&mut payloads) {
        // The end of the next piece: its page may be one that nothing has looked up yet.
        let next = out.as_ptr().wrapping_add(2 * PIECE - 1);
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(next.cast()) };
        // SAFETY: the caller's promise.
        unsafe { kernel(payload, &mut weights) };
        // SAFETY: a line is floats, without padding.
        let (head, lines, tail) = unsafe { out.align_to_mut::<Line>() };
        let (first, others) = weights.split_at(head.len());
        let (middle, last) = others.split_at(16 * lines.len());
        head.copy_from_slice(first);
        // SAFETY: the caller's promise; the fence comes below.
        unsafe { stream(middle.as_chunks().0, lines) };
        tail.copy_from_slice(last);
    }
    // SAFETY: every x86-64 has SSE.
    unsafe { _mm_sfence() };
    if let (false, Some(payload)) = (rest.is_empty(), payloads.next()) {
        // SAFETY: the caller's promise.
        unsafe { kernel(payload, rest) };
    }
}

/// Decodes by `kernel`; a large output by way of `stream`.
///
/// # Safety
/// The CPU must have the features of both functions.
pub(super) unsafe fn decode(
    kernel: Decode,
    stream: Stream,
    geometry: Geometry,
    payload: &[u8],
    out: &mut [f32],
) {
    let small_payload = geometry.bytes < 4 * geometry.weights;
    if out.len() < LARGE || !small_payload {
        // SAFETY: the caller's promise.
        return unsafe { kernel(payload, out) };
    }
    let bytes = PIECE / geometry.weights as usize * geometry.bytes as usize;
    // SAFETY: the caller's promise.
    unsafe { by_pieces(kernel, stream, bytes, payload, out) };
}
