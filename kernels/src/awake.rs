//! Threads of a pool that stay awake between ops.
//!
//! A token's forward pass is some hundred ops of 50 to 500 microseconds. A thread that has gone to sleep takes some
//! tens of them to wake, each time; so after an op the threads of the pool look for the next for a moment longer, and
//! the caller looks for their end before it waits for it. Nothing of this changes what is computed.

use ::rayon::{ThreadPool, Yield, yield_now};
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread looks for the next op: longer than what stands between two of one forward pass, far shorter than
/// what anyone would notice of a program that has stopped computing.
const LINGER: Duration = Duration::from_micros(200);
/// How long the caller looks for the end of an op before it sleeps until then.
const WATCH: Duration = Duration::from_millis(5);

/// What the threads of a pool look at.
struct Shared {
    began: Instant,
    /// Until when to look for work, in nanoseconds from the beginning.
    until: AtomicU64,
    /// Threads that are looking.
    looking: AtomicUsize,
}

/// Keeps the threads of one pool awake for a moment after each op.
pub(crate) struct Awake {
    shared: Arc<Shared>,
    /// Whether each thread has a core to itself: looking for work takes nobody else's time then.
    fits: bool,
}

thread_local! {
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

impl Awake {
    /// For a pool whose threads and the caller's are so many.
    pub(crate) fn new(threads: usize) -> Awake {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Shared { began: Instant::now(), until: AtomicU64::new(0), looking: AtomicUsize::new(0) };
        Awake { shared: Arc::new(shared), fits: threads <= cores }
    }

    /// An op is over, and another may follow.
    pub(crate) fn linger(&self, pool: &ThreadPool) {
        if !self.fits {
            return;
        }
        self.shared.until.store(self.shared.now() + LINGER.as_nanos() as u64, Ordering::Relaxed);
        if self.shared.looking.load(Ordering::Relaxed) < pool.current_num_threads() {
            let shared = self.shared.clone();
            pool.spawn_broadcast(move |_| shared.look());
        }
    }

    /// Looks until nothing is left, or for long enough.
    pub(crate) fn watch(&self, left: &AtomicUsize) {
        if !self.fits {
            return;
        }
        let began = Instant::now();
        while left.load(Ordering::Acquire) > 0 {
            for _ in 0..64 {
                spin_loop();
            }
            // Where others want the core, one of them may be the very thread that is waited for.
            thread::yield_now();
            if began.elapsed() > WATCH {
                return;
            }
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Does what work there is until it is time to sleep. Of a thread that does so already there is no need.
    fn look(&self) {
        if LOOKS.replace(true) {
            return;
        }
        self.looking.fetch_add(1, Ordering::Relaxed);
        let _awake = Looking(self);
        while self.now() < self.until.load(Ordering::Relaxed) {
            if yield_now() != Some(Yield::Executed) {
                for _ in 0..16 {
                    spin_loop();
                }
                thread::yield_now();
            }
        }
    }
}

/// A thread that looks for work; none any more when it is dropped, by a panic too.
struct Looking<'s>(&'s Shared);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.looking.fetch_sub(1, Ordering::Relaxed);
        LOOKS.set(false);
    }
}

/// One piece of an op; done when it is dropped, by a panic too.
pub(crate) struct Piece<'c>(pub(crate) &'c AtomicUsize);

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
