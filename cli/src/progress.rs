//! A bar on standard error while much is read.

use crate::terminal::{Look, escape, to_ascii};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scantling_core::check::Progress;
use std::io::{IsTerminal, stderr};
use std::sync::{OnceLock, PoisonError, RwLock};

/// Reads shorter than this are over before anybody looks.
const WORTH_SHOWING: u64 = 64 << 20;

/// Draws only where somebody watches: on a terminal, and not when quiet was asked for.
pub struct Bar {
    wanted: bool,
    shape: OnceLock<ProgressStyle>,
    bar: RwLock<Option<ProgressBar>>,
}

impl Bar {
    /// A bar, if standard error is a terminal.
    #[allow(clippy::disallowed_methods)] // asked what it is, not written to
    pub fn new(quiet: bool) -> Bar {
        Bar { wanted: !quiet && stderr().is_terminal(), shape: OnceLock::new(), bar: RwLock::new(None) }
    }

    fn put(&self, bar: Option<ProgressBar>) -> Option<ProgressBar> {
        std::mem::replace(&mut *self.bar.write().unwrap_or_else(PoisonError::into_inner), bar)
    }
}

/// Counts steps that take a while each: on standard error, where somebody watches.
pub struct Steps {
    bar: Option<ProgressBar>,
    ascii: bool,
}

impl Steps {
    /// So many steps, drawn as all else.
    #[allow(clippy::disallowed_methods)] // asked what it is, not written to
    pub fn new(steps: usize, look: Look) -> Steps {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
            let shape = ProgressStyle::with_template("[{bar:20}] {pos}/{len} {msg}");
            bar.set_style(shape.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Steps { bar, ascii: look.ascii }
    }

    /// Says what is under way.
    pub fn message(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(crate::terminal::escape(what).into_owned());
            bar.tick();
        }
    }

    /// Begins the next step.
    pub fn next(&self, what: &str) {
        if let Some(bar) = &self.bar {
            let what = escape(what);
            bar.set_message(if self.ascii { to_ascii(&what) } else { what.into_owned() });
            bar.inc(1);
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, what: &str, bytes: u64) {
        if !self.wanted || bytes < WORTH_SHOWING {
            return;
        }
        let shape = self.shape.get_or_init(|| {
            let template = "{msg} [{bar:20}] {percent:>3}% {bytes_per_sec}";
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> ")
        });
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        bar.set_style(shape.clone());
        bar.set_message(escape(what).into_owned());
        self.put(Some(bar));
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.bar.read().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(bytes);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.put(None) {
            bar.finish_and_clear();
        }
    }
}
