//! A few threads that wait for work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{Builder, JoinHandle};

/// How often a thread looks for news before it sleeps: some tens of microseconds, about as
/// long as a caller takes between two pieces of work that follow each other.
const LOOKS: u32 = if cfg!(miri) { 2 } else { 2000 };

type Work = dyn Fn() + Sync;

/// Threads that share short pieces of work with the thread that calls: they look out for
/// the next one for a while before they sleep, so that handing it over costs about a
/// microsecond. A caller never waits for a thread that has not begun.
///
/// ```
/// use std::sync::Mutex;
///
/// let pool = hk_std::Pool::new(2);
/// let mut numbers = vec![0; 1000];
/// let parts = Mutex::new(numbers.chunks_mut(100));
/// pool.run(&|| {
///     let next = || parts.lock().unwrap().next();
///     while let Some(part) = next() {
///         part.fill(7);
///     }
/// });
/// assert_eq!(numbers, vec![7; 1000]);
/// ```
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held by the one caller whose work is shared.
    caller: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    /// How many pieces of work there have been; changes only under the lock of `slot`.
    pieces: AtomicUsize,
    /// Threads that are at work; grows only under the lock of `slot`.
    busy: AtomicUsize,
    closing: AtomicBool,
    /// Told of new work, and of the end.
    wake: Condvar,
    /// Told when no thread is at work any more.
    idle: Condvar,
}

#[derive(Default)]
struct Slot {
    work: Option<&'static Work>,
    sleepers: usize,
    /// What a thread panicked with.
    panic: Option<Box<dyn Any + Send>>,
}

impl Pool {
    /// A pool in which `threads` work at once, the caller among them: one less is started.
    /// Where the system has fewer to give, there are fewer.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |_| {
            let shared = Arc::clone(&shared);
            Builder::new().name("hk-pool".into()).spawn(move || shared.look_out()).ok()
        };
        let threads = (1..threads).map_while(start).collect();
        Pool { shared, threads, caller: Mutex::default() }
    }

    /// How many threads work at once, the caller among them.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work` here, and once in each other thread that is there in time; returns when
    /// all of these calls have. So `work` should take pieces from a common list until none
    /// is left. While the pool is at work for another caller, or for this one, `work` is
    /// called here alone.
    ///
    /// # Panics
    /// When `work` does, here or in another thread.
    pub fn run(&self, work: &(dyn Fn() + Sync)) {
        let caller = match self.caller.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            // Left by work that panicked; the lock guards nothing that could be broken.
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        };
        let Some(_caller) = caller.filter(|_| !self.threads.is_empty()) else { return work() };
        let shared = &*self.shared;
        // Takes the work back, also when `work` panics here.
        let offer = Offer { shared };
        // SAFETY: only the lifetime changes. Threads get the reference from the slot alone,
        // and are counted before they give up its lock; dropping `offer`, which happens
        // before this function is left in any way, empties the slot and waits until none
        // is counted. So nobody has the reference when its lifetime ends.
        #[expect(unsafe_code, reason = "threads outlive what they are lent")]
        let work: &'static Work =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static Work>(work) };
        shared.offer(work);
        work();
        drop(offer);
        let panic = shared.lock().panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let slot = self.shared.lock();
        self.shared.closing.store(true, Ordering::Release);
        drop(slot);
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // It has caught what it could panic with.
            let _ = thread.join();
        }
    }
}

/// Work that other threads can take.
struct Offer<'a> {
    shared: &'a Shared,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        shared.lock().work = None;
        let is_idle = || shared.busy.load(Ordering::Acquire) == 0;
        if look(is_idle) {
            return;
        }
        let mut slot = shared.lock();
        while !is_idle() {
            slot = shared.idle.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // Nothing panics under the lock, and each field is whole at any time.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, work: &'static Work) {
        let mut slot = self.lock();
        // Left where the caller of the work before panicked too, with its own.
        slot.panic = None;
        slot.work = Some(work);
        self.pieces.fetch_add(1, Ordering::Release);
        let asleep = slot.sleepers > 0;
        drop(slot);
        if asleep {
            self.wake.notify_all();
        }
    }

    /// What a thread does: works whenever there is work, until the pool is dropped.
    fn look_out(&self) {
        let mut seen = 0;
        loop {
            let is_news = || {
                self.pieces.load(Ordering::Acquire) != seen || self.closing.load(Ordering::Acquire)
            };
            let awake = look(is_news);
            let mut slot = self.lock();
            if !awake {
                slot.sleepers += 1;
                while !is_news() {
                    slot = self.wake.wait(slot).unwrap_or_else(PoisonError::into_inner);
                }
                slot.sleepers -= 1;
            }
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            seen = self.pieces.load(Ordering::Acquire);
            // Gone if this thread comes too late.
            let Some(work) = slot.work else { continue };
            self.busy.fetch_add(1, Ordering::AcqRel);
            drop(slot);
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let mut slot = self.lock();
            if let Err(panic) = outcome {
                slot.panic.get_or_insert(panic);
            }
            if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.idle.notify_one();
            }
        }
    }
}

/// Looks whether `is_so`, over and over for a while.
fn look(is_so: impl Fn() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        is_so()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    /// Adds up the numbers below `count` on all threads.
    fn sum(pool: &Pool, count: usize) -> usize {
        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool.run(&|| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                sum.fetch_add(number, Ordering::Relaxed);
            }
        });
        sum.into_inner()
    }

    #[test]
    fn all_work_is_done_once() {
        for threads in [0, 1, 2, 5] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads.max(1));
            for count in (0..if cfg!(miri) { 20 } else { 2000 }).rev() {
                assert_eq!(sum(&pool, count), count * count.saturating_sub(1) / 2);
            }
            // Also by threads that have gone to sleep.
            thread::sleep(Duration::from_millis(20));
            assert_eq!(sum(&pool, 100), 4950);
        }
    }

    #[test]
    fn others_help() {
        let pool = Pool::new(2);
        let at_work = AtomicUsize::new(0);
        pool.run(&|| {
            at_work.fetch_add(1, Ordering::SeqCst);
            while at_work.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
        assert_eq!(at_work.into_inner(), 2);
    }

    #[test]
    fn work_inside_work_is_done_where_it_stands() {
        let pool = Pool::new(3);
        let sums = Mutex::new(Vec::new());
        pool.run(&|| {
            let sum = sum(&pool, 50);
            sums.lock().unwrap().push(sum);
        });
        let sums = sums.into_inner().unwrap();
        assert!(!sums.is_empty() && sums.iter().all(|&sum| sum == 1225), "{sums:?}");
    }

    #[test]
    fn a_panic_reaches_the_caller_and_leaves_the_pool_whole() {
        let pool = Pool::new(2);
        let caller = thread::current().id();
        for in_caller in [true, false] {
            let at_work = AtomicUsize::new(0);
            let run = || {
                pool.run(&|| {
                    at_work.fetch_add(1, Ordering::SeqCst);
                    while at_work.load(Ordering::SeqCst) < 2 {
                        thread::yield_now();
                    }
                    if (thread::current().id() == caller) == in_caller {
                        resume_unwind(Box::new("stop"));
                    }
                });
            };
            let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"stop"));
            assert_eq!(sum(&pool, 10), 45);
        }
    }
}
