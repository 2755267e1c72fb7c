//! All cores, where threads can be had.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Runs `work` where rayon's iterators spread over all cores. A process that may not start threads (a container with
/// a limit on them) works on the one it has: rayon's own pool would end the program.
pub fn on_all_cores<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = POOL.get_or_init(|| {
        let spread = ThreadPoolBuilder::new().num_threads(cores).build();
        spread.or_else(|_| ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()).ok()
    });
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Threads to a core that are worth having; more only take memory and time to start.
const WORTH: usize = 4;

/// So many threads as were asked for and are worth having here; 0 asks for one to a core.
pub fn worth(threads: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 0 { cores } else { threads.min(cores.saturating_mul(WORTH)) }
}

/// The same on so many threads, but no more than are worth having; 0 for all cores.
pub fn on_cores<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    if threads == 0 {
        return on_all_cores(work);
    }
    match ThreadPoolBuilder::new().num_threads(worth(threads)).build() {
        Ok(pool) => pool.install(work),
        Err(_) => on_all_cores(work),
    }
}

/// Does two things, at the same time where a thread can be had. The first is done on the caller's thread: allocators
/// serve a program's first thread best, so that is where most memory should be asked for.
pub fn both<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    let waiting = Mutex::new(Some(b));
    let do_it = || {
        let b = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        b.map(|b| b())
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, do_it);
        let a = a();
        let b = match other {
            Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => do_it(),
        };
        (a, b.expect("taken once, by whichever thread there was"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_are_started_than_are_worth_having() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!((worth(0), worth(1), worth(usize::MAX)), (cores, 1, 4 * cores));
        assert_eq!(on_cores(100_000, rayon::current_num_threads), 4 * cores);
        assert_eq!(on_cores(1, rayon::current_num_threads), 1);
    }

    #[test]
    fn both_are_done_once_and_the_first_here() {
        let here = std::thread::current().id();
        let (a, b) = both(|| std::thread::current().id(), || 7);
        assert_eq!((a, b), (here, 7));
    }
}
