//! All cores, where threads can be had.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

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

/// Does two things, at the same time where there are cores for it.
pub fn both<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    on_all_cores(|| rayon::join(a, b))
}
