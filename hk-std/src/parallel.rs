//! Tensors to `f32` on all cores.
//!
//! Threads come from rayon's global pool (`RAYON_NUM_THREADS` sets how many); without the
//! feature `rayon`, or where the system has no threads to give, the same functions run on the
//! calling thread. The weights are the same bits either way.

use std::ops::Range;

use hk_core::{Backend, Error, ErrorKind, Residual, Tensor};

/// Weights that a thread decodes at once at least: below that, handing out work costs more
/// than it saves. A multiple of [`GRAIN`].
const CHUNK_MIN: usize = 1 << 15;
/// Every boundary between threads is a multiple of this many weights from the first cache
/// line of the output: whole blocks of every type (256 weights at most) and whole cache
/// lines (16 weights).
const GRAIN: usize = 256;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Decodes the whole of `tensor` to `out`, row-major, on all cores. Each thread writes its
/// own run of cache lines, and no line is written by two.
///
/// ```
/// use hk_std::hk_core::Residual;
/// # fn main() -> hk_std::Result<()> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/reference/all_types.hk");
/// let model = hk_std::ModelFile::open(path)?;
/// let tensor = model.tensor("q4_k").unwrap();
/// let mut weights = vec![0.0; tensor.shape.count() as usize];
/// hk_std::par_dequantize(&tensor, hk_std::backend()?, &mut weights, Residual::Add).unwrap();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Tensor::dequantize_into`]; `out` is then unspecified.
pub fn par_dequantize(
    tensor: &Tensor<'_>,
    backend: &dyn Backend,
    out: &mut [f32],
    residual: Residual,
) -> Result<(), Error> {
    let count = tensor.shape.count();
    if out.len() as u64 != count {
        let kind = ErrorKind::OutputLength { expected: count, given: out.len() as u64 };
        return Err(Error::call(kind).at_index(tensor.index));
    }
    par_dequantize_range(tensor, backend, 0..count, out, residual)
}

/// Decodes elements `range` of `tensor` in row-major order to `out`, which has as many, on
/// all cores.
///
/// # Errors
/// As [`Tensor::dequantize_range`]; `out` is then unspecified.
pub fn par_dequantize_range(
    tensor: &Tensor<'_>,
    backend: &dyn Backend,
    range: Range<u64>,
    out: &mut [f32],
    residual: Residual,
) -> Result<(), Error> {
    // Once, not once a chunk.
    let tensor = tensor.resolve()?;
    let fits = range.end.checked_sub(range.start) == Some(out.len() as u64);
    let worth_sharing = fits && out.len() >= 2 * CHUNK_MIN;
    let threads = if worth_sharing { threads() } else { 1 };
    if threads == 1 {
        return tensor.dequantize_range(backend, range, out, residual);
    }
    let chunks = chunks(range.start, out, threads);
    for_each(chunks, |(start, chunk)| {
        let end = start + chunk.len() as u64;
        tensor.dequantize_range(backend, start..end, chunk, residual)
    })
}

/// Splits `out`, whose first element is element `start` of a tensor, into runs for
/// `threads` threads: each begins with a cache line and, where the whole tensor goes to
/// memory aligned to one, with a block.
fn chunks(start: u64, out: &mut [f32], threads: usize) -> Vec<(u64, &mut [f32])> {
    // Several chunks a thread, so that none waits long for the slowest.
    let len = (out.len() / (4 * threads)).next_multiple_of(GRAIN).max(CHUNK_MIN);
    // Elements before the first cache line begins: they go to the first chunk.
    let head = out.as_ptr().align_offset(CACHE_LINE).min(out.len());
    let (first, rest) = out.split_at_mut((head + len).min(out.len()));
    let mut at = start + first.len() as u64;
    let mut chunks = vec![(start, first)];
    for chunk in rest.chunks_mut(len) {
        let len = chunk.len() as u64;
        chunks.push((at, chunk));
        at += len;
    }
    chunks
}

/// Threads that work can be shared out to: those of the rayon pool that this is called in,
/// else of the global one, which the first call starts. 1 without the feature `rayon`, and
/// where the system has no threads to give, as under a limit on processes or memory: there
/// rayon would panic at its first use, so do the work on the calling thread.
///
/// ```
/// let threads = hk_std::threads();
/// assert!(threads >= 1);
/// ```
#[cfg(feature = "rayon")]
pub fn threads() -> usize {
    use std::error::Error as _;
    use std::sync::OnceLock;
    static STARTED: OnceLock<bool> = OnceLock::new();
    let start = || match rayon::ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // Without a source it says that the program has started the pool before.
        Err(error) => error.source().is_none(),
    };
    let is_inside = rayon::current_thread_index().is_some();
    if is_inside || *STARTED.get_or_init(start) { rayon::current_num_threads() } else { 1 }
}

/// 1: this build has no threads.
#[cfg(not(feature = "rayon"))]
pub fn threads() -> usize {
    1
}

#[cfg(feature = "rayon")]
pub(crate) fn for_each<T: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), Error> + Send + Sync,
) -> Result<(), Error> {
    use rayon::prelude::*;
    items.into_par_iter().try_for_each(work)
}

#[cfg(not(feature = "rayon"))]
pub(crate) fn for_each<T>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<(), Error>,
) -> Result<(), Error> {
    items.into_iter().try_for_each(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each chunk starts in the tensor, where in `out`, and how long it is.
    fn layout(start: u64, out: &mut [f32], threads: usize) -> Vec<(u64, usize, usize)> {
        let base = out.as_ptr() as usize;
        chunks(start, out, threads)
            .iter()
            .map(|(at, chunk)| (*at, (chunk.as_ptr() as usize - base) / 4, chunk.len()))
            .collect()
    }

    #[test]
    fn chunks_cover_the_output_and_share_no_cache_line() {
        let mut memory = vec![0.0; 1_000_000];
        for threads in [1, 2, 3, 16] {
            for shift in 0..16 {
                let out = &mut memory[shift..];
                let (base, len) = (out.as_ptr() as usize, out.len());
                let mut next = 0;
                for (i, (start, at, count)) in layout(77, out, threads).into_iter().enumerate() {
                    assert_eq!((start, at), (77 + next as u64, next));
                    assert!(i == 0 || (base + at * 4).is_multiple_of(CACHE_LINE));
                    next += count;
                }
                assert_eq!(next, len);
            }
        }
    }

    #[test]
    fn chunks_of_an_aligned_output_begin_with_a_block() {
        let mut memory = vec![0.0; 500_016];
        let head = memory.as_ptr().align_offset(CACHE_LINE);
        let chunks = layout(0, &mut memory[head..], 4);
        assert!(chunks.len() > 4);
        assert!(chunks.iter().all(|(start, ..)| start % GRAIN as u64 == 0));
    }
}
