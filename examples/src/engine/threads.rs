//! How work is handed to threads.

use alloc::vec::Vec;

use crate::error::Result;

/// A piece of work that is done once, by whichever thread takes it.
pub type Task<'a> = dyn FnMut() + Send + 'a;

/// Threads that share work, where the host has any.
///
/// What the engine hands out never depends on which thread does it or in what order, so
/// that the number of threads changes no bit.
pub trait Threads: Sync {
    /// How many work at once, the caller among them; at least 1.
    fn count(&self) -> usize;

    /// Calls each of `tasks` once, and returns when all are done.
    fn run(&self, tasks: &mut [&mut Task<'_>]);
}

impl Threads for crate::Serial {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, tasks: &mut [&mut Task<'_>]) {
        for task in tasks {
            task();
        }
    }
}

/// Multiplications below which a piece of work is not worth a thread.
const WORTH_A_THREAD: usize = 1 << 16;
/// Pieces a thread, so that none waits long for the slowest.
const PIECES: usize = 3;

/// Into how many pieces work of `units` units is split, each of about `cost`
/// multiplications: 1 where threads bring nothing.
pub(super) fn pieces(threads: &dyn Threads, units: usize, cost: usize) -> usize {
    let count = threads.count();
    let worth = units.saturating_mul(cost) / WORTH_A_THREAD;
    if count < 2 || worth < 2 { 1 } else { (count * PIECES).min(worth).min(units).max(1) }
}

/// Does `work` on each of `items`, on all threads if there are several items.
pub(super) fn for_each<T: Send>(
    threads: &dyn Threads,
    items: Vec<T>,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    if items.len() < 2 {
        return items.into_iter().try_for_each(work);
    }
    let mut results: Vec<Result<()>> = Vec::new();
    results.resize_with(items.len(), || Ok(()));
    let work = &work;
    let tasks = items.into_iter().zip(&mut results);
    let mut tasks: Vec<_> = tasks
        .map(|(item, result)| {
            let mut item = Some(item);
            move || {
                if let Some(item) = item.take() {
                    *result = work(item);
                }
            }
        })
        .collect();
    let mut tasks: Vec<&mut Task<'_>> = tasks.iter_mut().map(|task| task as _).collect();
    threads.run(&mut tasks);
    results.into_iter().collect()
}

/// Splits `out`, rows of `row` numbers each, into `pieces` of whole rows, and gives each with
/// the number of its first row. All but the last have a multiple of 16 rows, which kernels
/// take at once.
pub(super) fn split_rows(out: &mut [f32], row: usize, pieces: usize) -> Vec<(usize, &mut [f32])> {
    let row = row.max(1);
    let rows = (out.len() / row).div_ceil(pieces).next_multiple_of(16);
    let parts = out.chunks_mut(rows.saturating_mul(row)).enumerate();
    parts.map(|(i, part)| (i * rows, part)).collect()
}
