//! How the rows of a matrix product are shared out.

use crate::error::Result;

/// What computes some rows: the index of the first, and where the results go.
pub type Job<'a> = dyn Fn(usize, &mut [f32]) -> Result<()> + Sync + 'a;

/// Shares out the rows of a matrix product to threads, where the host has any.
///
/// A row's result must depend on nothing but the row, so that the number of threads
/// changes no bit; implementations split by rows and never within one.
pub trait Rows: Sync {
    /// Calls `job` until every element of `out` is computed, each once. A row costs about
    /// `row_len` multiplications.
    ///
    /// # Errors
    /// The first that `job` returned.
    fn split(&self, out: &mut [f32], row_len: usize, job: &Job<'_>) -> Result<()>;
}

/// Computes all rows where it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Rows for Serial {
    fn split(&self, out: &mut [f32], _row_len: usize, job: &Job<'_>) -> Result<()> {
        job(0, out)
    }
}
