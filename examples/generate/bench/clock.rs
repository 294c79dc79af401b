//! A clock that keeps the time of each part of the engine's work apart.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use hk_examples::{Part, Probe};

/// Time by part, as the thread that made the clock spends it: what it waits for others is a
/// part too, so that all parts together are the time that has passed.
pub struct Clock {
    owner: ThreadId,
    reading: Mutex<Reading>,
}

struct Reading {
    /// What the thread is at, and since when.
    part: Part,
    since: Instant,
    times: Times,
}

/// How long each part took.
pub type Times = Vec<(Part, Duration)>;

impl Clock {
    /// A clock of the calling thread, which begins with [`Part::Rest`].
    pub fn new() -> Self {
        let reading = Reading { part: Part::Rest, since: Instant::now(), times: Times::new() };
        Clock { owner: thread::current().id(), reading: Mutex::new(reading) }
    }

    /// Begins anew, with [`Part::Rest`].
    pub fn restart(&self) {
        self.enter(Part::Rest);
        self.lock().times.clear();
    }

    /// The times since the last restart.
    pub fn times(&self) -> Times {
        self.enter(Part::Rest);
        self.lock().times.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        // Nothing panics under the lock.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for Clock {
    fn enter(&self, part: Part) {
        if thread::current().id() == self.owner {
            self.lock().enter(part);
        }
    }
}

impl Reading {
    fn enter(&mut self, part: Part) {
        let now = Instant::now();
        let passed = now - self.since;
        match self.times.iter_mut().find(|(known, _)| *known == self.part) {
            Some((_, time)) => *time += passed,
            None => self.times.push((self.part, passed)),
        }
        (self.part, self.since) = (part, now);
    }
}
