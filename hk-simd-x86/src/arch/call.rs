//! The way from a call of a backend to a kernel: arguments checked, then cut into whole
//! blocks or groups of rows, so that kernels see arrays of known lengths alone.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::array;

use hk_core::dot::{self, RowQ32, RowQ256};
use hk_core::{Activation, Backend, Error, Geometry, Portable, StorageType};

use super::stream::{self, Stream};

/// Decodes the first `out.len()` weights of a payload that holds as many.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
pub(super) type Decode = unsafe fn(payload: &[u8], out: &mut [f32]);

/// [`Backend::dequantize`] by `kernel`, and by [`Portable`] where there is none; `stream`
/// writes what is too large for the caches.
///
/// # Safety
/// The CPU must have the features of both functions.
pub(super) unsafe fn dequantize(
    kernel: Option<Decode>,
    stream: Stream,
    storage: StorageType,
    payload: &[u8],
    out: &mut [f32],
) -> Result<(), Error> {
    match (kernel, storage.geometry()) {
        (Some(kernel), Some(geometry)) if holds(geometry, payload, out.len()) => {
            // SAFETY: the caller's promise.
            unsafe { stream::decode(kernel, stream, geometry, payload, out) };
            Ok(())
        }
        // It also has the words for what is wrong.
        _ => Portable.dequantize(storage, payload, out),
    }
}

/// Whether `payload` has blocks for `weights` weights.
fn holds(geometry: Geometry, payload: &[u8], weights: usize) -> bool {
    let blocks = (weights as u64).div_ceil(u64::from(geometry.weights));
    let needed = blocks.saturating_mul(u64::from(geometry.bytes));
    needed <= payload.len() as u64
}

/// Decodes by `decode`, which gets as many blocks as rows of weights, all of them whole: the
/// last block, where it is used partly, goes by an array on the stack.
#[inline(always)]
pub(super) fn whole_blocks<const BYTES: usize, const N: usize>(
    payload: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[[u8; BYTES]], &mut [[f32; N]]),
) {
    let (blocks, _) = payload.as_chunks::<BYTES>();
    let (whole, part) = out.as_chunks_mut::<N>();
    let (blocks, rest) = blocks.split_at_checked(whole.len()).unwrap_or((blocks, &[]));
    decode(blocks, whole);
    if let (false, Some(last)) = (part.is_empty(), rest.first()) {
        let mut weights = [[0.0; N]];
        decode(core::slice::from_ref(last), &mut weights);
        part.copy_from_slice(&weights[0][..part.len()]);
    }
}

/// Decodes elements of a dense type by `step`, which takes `N` of them in `BYTES` bytes: the
/// last elements, where they are fewer, go by arrays on the stack.
#[inline(always)]
pub(super) fn dense_steps<const BYTES: usize, const N: usize>(
    payload: &[u8],
    out: &mut [f32],
    step: impl Fn(&[u8; BYTES], &mut [f32; N]),
) {
    let (whole, part) = out.as_chunks_mut::<N>();
    let rest = payload.get(whole.len() * BYTES..).unwrap_or_default();
    for (elements, weights) in payload.as_chunks::<BYTES>().0.iter().zip(whole) {
        step(elements, weights);
    }
    if !part.is_empty() {
        let mut weights = [0.0; N];
        step(&filled_up(rest), &mut weights);
        part.copy_from_slice(&weights[..part.len()]);
    }
}

/// Consecutive weight rows that one activation row is multiplied with, and where their
/// products go.
pub(super) struct Rows<'a> {
    bytes: &'a [u8],
    /// Bytes of a row, not 0.
    row: usize,
    /// The product of row `r` goes to `out[r * stride + at]`.
    out: &'a mut [f32],
    stride: usize,
    at: usize,
}

impl<'a> Rows<'a> {
    /// The products of all rows, `R` at once by `products`. A last group of fewer rows is
    /// filled up with its own last row. What `products` gets of a row goes on behind it, with
    /// the rows that follow.
    #[inline(always)]
    pub(super) fn by<const R: usize>(self, products: impl Fn([&'a [u8]; R]) -> [f32; R]) {
        let Rows { mut bytes, row, out, stride, at } = self;
        let mut left = out.len() / stride;
        for out in out.chunks_mut(stride * R) {
            let now = left.min(R);
            left -= now;
            let group = bytes;
            bytes = bytes.get(now * row..).unwrap_or_default();
            prefetch(bytes, now * row);
            let products =
                products(array::from_fn(|r| group.get(r.min(now - 1) * row..).unwrap_or_default()));
            for (out, product) in out.chunks_exact_mut(stride).zip(products) {
                out[at] = product;
            }
        }
    }
}

/// How far ahead of the rows at work memory is asked for what comes.
const AHEAD: usize = 8192;

/// Bytes of a group of rows over which hardware sees by itself what comes next.
const LONG: usize = 6144;

/// Has a group of `len` bytes fetched, [`AHEAD`] of the start of `bytes`: of short rows,
/// hardware guesses too late that others follow.
#[inline(always)]
fn prefetch(bytes: &[u8], len: usize) {
    if len > LONG {
        return;
    }
    fetch(bytes.as_ptr().wrapping_add(AHEAD), len);
}

/// Has `len` bytes from `from` on brought into the first cache.
#[inline(always)]
pub(super) fn fetch(from: *const u8, len: usize) {
    for at in (0..len).step_by(64) {
        // SAFETY: a prefetch of any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at).cast()) };
    }
}

/// An activation row of blocks of 32, of which the last that are no whole step of four stand
/// filled up with zeros.
pub(super) struct Steps32<'a> {
    whole: RowQ32<'a>,
    /// How many blocks are in the last step, if not four.
    rest: usize,
    q: [[i8; 32]; 4],
    d: [f32; 4],
    s: [f32; 4],
    sums: [i32; 4],
}

impl<'a> Steps32<'a> {
    pub(super) fn new(row: RowQ32<'a>) -> Self {
        let (_, q) = row.q().as_chunks::<4>();
        let (_, d) = row.d().as_chunks::<4>();
        let (_, s) = row.s().as_chunks::<4>();
        let (_, sums) = row.sums().as_chunks::<4>();
        Steps32 {
            whole: row,
            rest: q.len(),
            q: filled_up_with(q, [0; 32]),
            d: filled_up(d),
            s: filled_up(s),
            sums: filled_up(sums),
        }
    }
}

/// Goes along four rows of blocks of 32 weights by `step`s of four blocks, `BYTES` bytes: the
/// blocks of each row, and the activation's. Of a last step, only as many blocks count as the
/// third argument says: in the others the activation is 0, and weights are what stands behind
/// the row.
#[inline(always)]
pub(super) fn steps_of_32<const BYTES: usize>(
    rows: [&[u8]; 4],
    activation: &Steps32<'_>,
    mut step: impl FnMut([&[u8; BYTES]; 4], Four32<'_>, usize),
) {
    let (q, _) = activation.whole.q().as_chunks::<4>();
    let (d, _) = activation.whole.d().as_chunks::<4>();
    let (s, _) = activation.whole.s().as_chunks::<4>();
    let (sums, _) = activation.whole.sums().as_chunks::<4>();
    let [row0, row1, row2, row3] = rows.map(|row| row.as_chunks::<BYTES>().0.iter());
    let activations = q.iter().zip(d).zip(s).zip(sums);
    for (rows, (((q, d), s), sums)) in row0.zip(row1).zip(row2).zip(row3).zip(activations) {
        let (((row0, row1), row2), row3) = rows;
        step([row0, row1, row2, row3], Four32 { q, d, s, sums }, 4);
    }
    if activation.rest > 0 {
        let rows = rows.map(|row| row.get(q.len() * BYTES..).unwrap_or_default());
        let filled;
        let blocks = match rows.map(|row| row.first_chunk()) {
            [Some(row0), Some(row1), Some(row2), Some(row3)] => [row0, row1, row2, row3],
            // The last rows of a matrix, where less stands behind them.
            _ => {
                filled = rows.map(|row| filled_up(row.get(..BYTES).unwrap_or(row)));
                filled.each_ref()
            }
        };
        let Steps32 { q, d, s, sums, .. } = activation;
        step(blocks, Four32 { q, d, s, sums }, activation.rest);
    }
}

/// `of` each of four rows, written out: the compiler leaves loops over rows as they are,
/// arrays in memory and all.
#[inline(always)]
pub(super) fn four<A: Copy, B>(rows: [A; 4], of: impl Fn(A) -> B) -> [B; 4] {
    [of(rows[0]), of(rows[1]), of(rows[2]), of(rows[3])]
}

/// Four blocks of an activation row.
pub(super) struct Four32<'a> {
    pub(super) q: &'a [[i8; 32]; 4],
    pub(super) d: &'a [f32; 4],
    pub(super) s: &'a [f32; 4],
    pub(super) sums: &'a [i32; 4],
}

/// Goes along `R` rows of blocks of 256 weights by `step`s of four blocks: the blocks of each
/// row, and the activation's. A last step of fewer blocks is filled up with zeros, weights and
/// activation, whose terms are 0 and leave the lanes of the sum as they were (which begin at +0
/// and so are never -0).
#[inline(always)]
pub(super) fn steps_of_256<const BYTES: usize, const R: usize>(
    rows: [&[u8]; R],
    activation: &RowQ256<'_>,
    mut step: impl FnMut([&[[u8; BYTES]; 4]; R], Four256<'_>),
) {
    let (q, q_rest) = activation.q().as_chunks::<4>();
    let (d, d_rest) = activation.d().as_chunks::<4>();
    let (sums, sums_rest) = activation.sums().as_chunks::<4>();
    let rows = rows.map(|row| {
        let (blocks, _) = row.as_chunks::<BYTES>();
        blocks.get(..activation.q().len()).unwrap_or(blocks).as_chunks::<4>()
    });
    for (i, ((q, d), sums)) in q.iter().zip(d).zip(sums).enumerate() {
        // A step is long: the check does not count.
        let blocks = rows.map(|(steps, _)| steps.get(i).unwrap_or(const { &[[0; BYTES]; 4] }));
        step(blocks, Four256 { q, d, sums });
    }
    if !q_rest.is_empty() {
        let rest = rows.map(|(_, rest)| filled_up_with(rest, [0; BYTES]));
        let (q, d) = (&filled_up_with(q_rest, [0; 256]), &filled_up(d_rest));
        step(rest.each_ref(), Four256 { q, d, sums: &filled_up_with(sums_rest, [0; 16]) });
    }
}

/// Four blocks of an activation row.
pub(super) struct Four256<'a> {
    pub(super) q: &'a [[i8; 256]; 4],
    pub(super) d: &'a [f32; 4],
    pub(super) sums: &'a [[i16; 16]; 4],
}

/// Goes along four rows of a dense type by `step`s of `N` elements, `BYTES` bytes, and as many
/// of the activation. A last step of fewer elements is filled up with zeros, as in
/// [`steps_of_256`].
#[inline(always)]
pub(super) fn steps_of_elements<const BYTES: usize, const N: usize>(
    rows: [&[u8]; 4],
    x: &[f32],
    mut step: impl FnMut([&[u8; BYTES]; 4], &[f32; N]),
) {
    let (x, x_rest) = x.as_chunks::<N>();
    let [row0, row1, row2, row3] = rows.map(|row| row.as_chunks::<BYTES>().0.iter());
    for ((((row0, row1), row2), row3), x) in row0.zip(row1).zip(row2).zip(row3).zip(x) {
        step([row0, row1, row2, row3], x);
    }
    if !x_rest.is_empty() {
        let bytes = x.len() * BYTES..x.len() * BYTES + x_rest.len() * (BYTES / N);
        let rest = rows.map(|row| filled_up(row.get(bytes.clone()).unwrap_or_default()));
        step(rest.each_ref(), &filled_up(x_rest));
    }
}

/// At most `N` values, and as many zeros as are missing.
#[inline(always)]
pub(super) fn filled_up<T: Copy + Default, const N: usize>(values: &[T]) -> [T; N] {
    filled_up_with(values, T::default())
}

#[inline(always)]
fn filled_up_with<T: Copy, const N: usize>(values: &[T], zero: T) -> [T; N] {
    let mut filled = [zero; N];
    for (to, from) in filled.iter_mut().zip(values) {
        *to = *from;
    }
    filled
}

/// The products of weight rows with one activation row, of the form that the type needs.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
#[derive(Clone, Copy)]
pub(super) enum DotRows {
    F32(unsafe fn(Rows<'_>, &[f32])),
    Q32(unsafe fn(Rows<'_>, RowQ32<'_>)),
    Q256(unsafe fn(Rows<'_>, RowQ256<'_>)),
}

/// The arguments of [`Backend::dot_matrix`], checked: rows of at least one byte, and at least
/// one activation, of the form and length for them.
pub(super) struct Matrix<'a> {
    pub(super) rows: &'a [u8],
    /// Bytes of a row, not 0.
    pub(super) row: usize,
    pub(super) activations: &'a [Activation<'a>],
    /// The product of row `r` with activation `a` goes to `out[r * activations.len() + a]`.
    pub(super) out: &'a mut [f32],
}

/// The products of weight rows with several activation rows.
///
/// # Safety
/// The CPU must have the features that the kernel is compiled for.
pub(super) type DotMatrix = unsafe fn(Matrix<'_>);

/// The kernels of a type.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub(super) rows: Option<DotRows>,
    pub(super) matrix: DotMatrix,
    /// Activations from which on `matrix` is the faster of the two.
    pub(super) many: usize,
}

/// [`Backend::dot_matrix`] by `kernels`, and by [`Portable`] where there are none.
///
/// # Safety
/// The CPU must have the features of the kernels.
pub(super) unsafe fn dot_matrix(
    kernels: Option<Dot>,
    storage: StorageType,
    rows: &[u8],
    activations: &[Activation<'_>],
    out: &mut [f32],
) -> Result<(), Error> {
    let row = dot::check_matrix(storage, rows, activations, out.len())?;
    let kernels = match kernels {
        Some(kernels) if row != 0 => kernels,
        // Nothing to multiply, or no kernel.
        _ => return Portable.dot_matrix(storage, rows, activations, out),
    };
    let several = match kernels.rows {
        Some(rows) if activations.len() < kernels.many => rows,
        _ => {
            let matrix = Matrix { rows, row, activations, out };
            // SAFETY: the caller's promise.
            unsafe { (kernels.matrix)(matrix) };
            return Ok(());
        }
    };
    let stride = activations.len();
    for (at, activation) in activations.iter().enumerate() {
        let rows = Rows { bytes: rows, row, out: &mut *out, stride, at };
        // SAFETY: the caller's promise.
        unsafe { dot_rows(several, rows, activation) };
    }
    Ok(())
}

/// # Safety
/// The CPU must have the features of the kernel.
unsafe fn dot_rows(kernel: DotRows, rows: Rows<'_>, activation: &Activation<'_>) {
    match (kernel, activation) {
        // SAFETY: the caller's promise.
        (DotRows::F32(kernel), Activation::F32(x)) => unsafe { kernel(rows, x) },
        // SAFETY: the caller's promise.
        (DotRows::Q32(kernel), Activation::Q32(x)) => unsafe { kernel(rows, *x) },
        // SAFETY: the caller's promise.
        (DotRows::Q256(kernel), Activation::Q256(x)) => unsafe { kernel(rows, *x) },
        // The form was checked against the type.
        _ => {}
    }
}
