//! The fastest of many runs.

use std::time::{Duration, Instant};

use hk_core::{Backend, StorageType};

use super::case::Case;
use super::{Op, SMALL};
use crate::error::Result;

/// Turns that are taken at least, unless they last for [`PATIENCE`] budgets.
const TURNS: u32 = 3;
/// Turns that are taken however long they last: the first of them also warms up.
const FEWEST: u32 = 2;
/// How many times the budget [`TURNS`] may take.
const PATIENCE: u32 = 10;
/// How long a turn beyond the caches lasts at least: the first run of it also writes back what
/// the other one left in them, which can take three times as long as its own work.
const SETTLING: Duration = Duration::from_millis(20);

/// How fast a backend did one operation on weights of one type.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// What was done.
    pub op: Op,
    /// Type of the weights.
    pub storage: StorageType,
    /// Name of the backend.
    pub backend: &'static str,
    /// Threads that shared the work.
    pub threads: usize,
    /// How many weights.
    pub weights: usize,
    /// Bytes they are stored in.
    pub bytes: usize,
    /// Seconds of the operation, the fastest of many runs.
    pub seconds: f64,
    /// Seconds of filling as many `f32` as there are weights, by as many threads, the fastest
    /// of as many runs.
    pub memset_seconds: f64,
}

impl Measurement {
    /// Weights a second, in 1e9. With many activation rows each weight counts once for each
    /// of them: these are multiply-adds a second.
    pub fn gweights_per_s(&self) -> f64 {
        (self.weights * self.op.uses()) as f64 / self.seconds / 1e9
    }

    /// [`gweights_per_s`](Self::gweights_per_s) as a ratio to `memset` in `f32` a second.
    pub fn memset_ratio(&self) -> f64 {
        self.op.uses() as f64 * self.memset_seconds / self.seconds
    }

    /// Stored bytes read a second, in 1e9.
    pub fn gbytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e9
    }

    /// `f32` filled a second, in 1e9.
    pub fn memset_gf32_per_s(&self) -> f64 {
        self.weights as f64 / self.memset_seconds / 1e9
    }
}

impl Case<'_> {
    /// Measures the case for about `budget`: `memset` and the operation by `backend` take
    /// turns, twice at least, and three times where that takes no more than ten budgets. Small
    /// cases run once a turn, large ones for some time.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn measure(&mut self, backend: &dyn Backend, budget: Duration) -> Result<Measurement> {
        let (mut operation, mut memset) = (Duration::MAX, Duration::MAX);
        let begin = Instant::now();
        let (mut turns, mut last) = (0, Duration::ZERO);
        let settling = if self.weights > SMALL { SETTLING } else { Duration::ZERO };
        let is_enough = |turns| match begin.elapsed() {
            elapsed if elapsed < budget || turns < FEWEST => false,
            elapsed => turns >= TURNS || elapsed >= budget * PATIENCE,
        };
        while !is_enough(turns) {
            // Long enough that a slow operation does not leave `memset` with few tries.
            let fill = || {
                self.fill();
                Ok(())
            };
            memset = memset.min(fastest(settling.max(last / 4), fill)?);
            last = fastest(settling, || self.run(backend))?;
            operation = operation.min(last);
            turns += 1;
        }
        let each = |time: Duration, count: usize| time.as_secs_f64().max(1e-9) / count as f64;
        Ok(Measurement {
            op: self.op,
            storage: self.storage,
            backend: backend.name(),
            threads: self.threads(),
            weights: self.weights,
            bytes: self.bytes(),
            seconds: each(operation, self.passes()),
            memset_seconds: each(memset, self.fills()),
        })
    }
}

/// Runs for `budget`, once at least; the shortest time of a run.
fn fastest(budget: Duration, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    let mut fastest = Duration::MAX;
    loop {
        let start = Instant::now();
        run()?;
        let end = Instant::now();
        fastest = fastest.min(end - start);
        if end - begin >= budget {
            return Ok(fastest);
        }
    }
}
