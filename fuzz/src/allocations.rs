//! Counts the bytes that a thread has in use, so that an input that asks for too much is caught.
//!
//! The only unsafe code of this package: four calls handed on to the system's allocator unchanged.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with what it gives counted.
pub struct Counting;

/// Starts counting anew on this thread.
pub fn reset() {
    LIVE.set(0);
    PEAK.set(0);
}

/// The most bytes that were in use at one time on this thread since [`reset`].
pub fn peak() -> usize {
    usize::try_from(PEAK.get()).unwrap_or(0)
}

fn count(given: usize, taken: usize) {
    // Cells without a destructor: they can be reached as long as the thread runs, and never allocate.
    let live = LIVE.get().wrapping_add(given as isize).wrapping_sub(taken as isize);
    LIVE.set(live);
    if live > PEAK.get() {
        PEAK.set(live);
    }
}

// SAFETY: every call goes to the system's allocator with the arguments that came in, and its answer goes back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
