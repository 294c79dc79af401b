//! A few threads that wait for work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
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

/// What threads tell each other. Nobody takes a lock as long as all look out.
#[derive(Default)]
struct Shared {
    /// [`OPEN`] while there is work to take; how many threads are at it, in steps of
    /// [`THREAD`]; and how many pieces of work there have been, in steps of [`PIECE`].
    state: AtomicUsize,
    /// Where the work is, for those who are counted in `state`.
    work: AtomicPtr<&'static Work>,
    closing: AtomicBool,
    panicked: AtomicBool,
    /// Threads that sleep, or are about to.
    sleepers: AtomicUsize,
    /// Whether the caller sleeps until no thread is at work, or is about to.
    caller_sleeps: AtomicBool,
    /// What a thread panicked with. Whoever goes to sleep holds the lock from its last look
    /// on, and whoever wakes others takes it in between, so that none is missed.
    slow: Mutex<Option<Box<dyn Any + Send>>>,
    /// Told of new work, and of the end.
    wake: Condvar,
    /// Told when no thread is at work any more.
    idle: Condvar,
}

const OPEN: usize = 1;
const THREAD: usize = 2;
const PIECE: usize = 1 << 15;
/// Threads that `state` can count.
const MOST: usize = PIECE / THREAD - 1;

/// Whether no thread is at work.
const fn is_idle(state: usize) -> bool {
    state % PIECE < THREAD
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
        let threads = (1..threads).take(MOST).map_while(start).collect();
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
        // SAFETY: only the lifetime changes. Threads get the reference from `lent` alone, and
        // only while they are counted in `state`, which none is before `offer` opens it and
        // after `close`, which waits until none is counted any more. `Offer` closes it before
        // this function is left in any way. So nobody has the reference when its lifetime
        // ends, nor a pointer to `lent` that it could follow.
        #[expect(unsafe_code, reason = "threads outlive what they are lent")]
        let lent: &'static Work =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static Work>(work) };
        let offer = Offer::new(shared, &lent);
        work();
        drop(offer);
        if shared.panicked.load(Relaxed) {
            let panic = shared.forget_panic();
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        drop(self.shared.lock());
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // It has caught what it could panic with.
            let _ = thread.join();
        }
    }
}

/// Work that other threads can take, until this is dropped: also when the caller panics.
struct Offer<'a> {
    shared: &'a Shared,
}

impl<'a> Offer<'a> {
    /// `work` must outlive the offer.
    fn new(shared: &'a Shared, work: &'a &'static Work) -> Self {
        // Left where the caller of the work before panicked too, with its own.
        if shared.panicked.load(Relaxed) {
            shared.forget_panic();
        }
        shared.work.store(ptr::from_ref(work).cast_mut(), Relaxed);
        // Publishes the pointer. No thread is counted between two pieces of work.
        shared.state.fetch_add(PIECE + OPEN, SeqCst);
        if shared.sleepers.load(SeqCst) > 0 {
            drop(shared.lock());
            shared.wake.notify_all();
        }
        Offer { shared }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        shared.state.fetch_and(!OPEN, SeqCst);
        let is_idle = || is_idle(shared.state.load(SeqCst));
        if is_idle() || look(is_idle) {
            return;
        }
        let mut lock = shared.lock();
        shared.caller_sleeps.store(true, SeqCst);
        while !is_idle() {
            lock = shared.idle.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        shared.caller_sleeps.store(false, SeqCst);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        // Nothing panics under the lock.
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread panicked with, once.
    fn forget_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panicked.store(false, Relaxed);
        self.lock().take()
    }

    /// What a thread does: works whenever there is work, until the pool is dropped.
    fn look_out(&self) {
        let mut seen = 0;
        loop {
            // A piece that is no longer open is none that a thread could have a part in.
            let is_news = || {
                let state = self.state.load(SeqCst);
                (state % 2 == OPEN && state / PIECE != seen) || self.closing.load(SeqCst)
            };
            if !look(is_news) {
                let mut lock = self.lock();
                self.sleepers.fetch_add(1, SeqCst);
                while !is_news() {
                    lock = self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner);
                }
                self.sleepers.fetch_sub(1, SeqCst);
            }
            if self.closing.load(SeqCst) {
                return;
            }
            let take = |state| (state % 2 == OPEN).then_some(state + THREAD);
            // Closed again if this thread comes too late.
            let Ok(state) = self.state.fetch_update(SeqCst, SeqCst, take) else { continue };
            seen = state / PIECE;
            self.work();
        }
    }

    /// Does the work that is offered, by a thread that has been counted for it.
    fn work(&self) {
        let work = self.work.load(Relaxed);
        // SAFETY: the pointer came from a reference, which the caller keeps alive, and does
        // not write to, as long as a thread is counted: see `Pool::run`. It was stored before
        // the change of `state` that this thread has seen.
        #[expect(unsafe_code, reason = "one word can be swapped at once, a fat reference not")]
        let work: &'static Work = unsafe { *work };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.lock().get_or_insert(panic);
            self.panicked.store(true, Relaxed);
        }
        let before = self.state.fetch_sub(THREAD, SeqCst);
        if is_idle(before - THREAD) && self.caller_sleeps.load(SeqCst) {
            drop(self.lock());
            self.idle.notify_one();
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
    use std::sync::atomic::Ordering;
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
