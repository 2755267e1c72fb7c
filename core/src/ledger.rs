//! How much memory buffers of numbers take: each is counted while it lives, on the thread that it was made on.
//!
//! A forward pass makes its buffers where a formula needs them, family by family. What they come to at most is told by
//! counting them, so that no second description of a pass could be wrong.

use std::cell::{Cell, RefCell};

thread_local! {
    /// Bytes that are counted now. Buffers that die on another thread than they were made on make it wrap around, which
    /// differences do not see.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    /// What was counted whenever it grew, while somebody watches.
    static MOMENTS: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// Bytes of a buffer, counted until it is dropped.
#[derive(Debug, PartialEq)]
pub(crate) struct Share(usize);

impl Share {
    /// Counts so many.
    pub(crate) fn of(bytes: usize) -> Share {
        let live = LIVE.get().wrapping_add(bytes);
        LIVE.set(live);
        // A thread that ends has nobody who watches it.
        let _ = MOMENTS.try_with(|moments| {
            if let Ok(mut moments) = moments.try_borrow_mut()
                && let Some(moments) = moments.as_mut()
            {
                moments.push(live);
            }
        });
        Share(bytes)
    }
}

impl Clone for Share {
    fn clone(&self) -> Share {
        Share::of(self.0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        LIVE.set(LIVE.get().wrapping_sub(self.0));
    }
}

/// Does something, and tells how many bytes of buffers there were more than before whenever one was made on this thread.
pub fn watch<R>(work: impl FnOnce() -> R) -> (R, Vec<usize>) {
    let before = LIVE.get();
    MOMENTS.set(Some(Vec::new()));
    let done = work();
    let moments = MOMENTS.take().unwrap_or_default();
    (done, moments.into_iter().map(|live| live.wrapping_sub(before)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::RowsBuf;

    #[test]
    fn buffers_are_counted_while_they_live() {
        let before = RowsBuf::zeros(9, 9);
        let (kept, moments) = watch(|| {
            let a = RowsBuf::zeros(2, 3);
            let b = a.clone();
            drop(a);
            drop(RowsBuf::copy_of(b.view()));
            RowsBuf::from_vec(vec![0.0; 5], 5, 1)
        });
        assert_eq!(moments, [24, 48, 48, 44]);
        drop((before, kept));
        assert_eq!(watch(|| drop(RowsBuf::zeros(1, 1))).1, [4]);
    }
}
