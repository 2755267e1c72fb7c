//! What an interrupt, or a wish that the program end, does: a text under way is ended, and only then the program; files
//! under way are taken away.

use crate::output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a shell gives to a program that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Nothing is under way.
const IDLE: u8 = 0;
/// A text is under way.
const WRITING: u8 = 1;
/// A text is under way that is to end.
const STOPPED: u8 = 2;

/// Interrupts of this program, heard once it is made.
pub struct Interrupts {
    state: Arc<AtomicU8>,
}

impl Interrupts {
    /// Hears them from now on. One that comes while a text is under way ends it behind its token, a second one the
    /// program; `idle` is told of one that comes while none is.
    pub fn heed(idle: impl Fn() + Send + 'static) -> Interrupts {
        let state = Arc::new(AtomicU8::new(IDLE));
        let heard = Arc::clone(&state);
        let heed =
            move || match heard.compare_exchange(WRITING, STOPPED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {}
                Err(IDLE) => idle(),
                Err(_) => quit(),
            };
        // Where there is a handler already, or none can be had, an interrupt ends the program as ever.
        let _ = ctrlc::set_handler(heed);
        Interrupts { state }
    }

    /// A text is begun.
    pub fn begin(&self) {
        self.state.store(WRITING, Ordering::Relaxed);
    }

    /// Whether the text under way is to end.
    pub fn came(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STOPPED
    }

    /// The text is written.
    pub fn end(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }
}

/// From now on an interrupt ends the program at once, and leaves no file behind that is not whole.
pub fn end_at_once() {
    // Where there is a handler already it does the same, and where none can be had, files under way are left behind.
    let _ = ctrlc::set_handler(quit);
}

/// Ends the program at once: asked for twice, or while nothing is under way that could end.
#[allow(clippy::exit, clippy::disallowed_methods)] // the thread that would return is in the middle of something long
pub fn quit() {
    output::abandon();
    std::process::exit(i32::from(INTERRUPTED));
}
