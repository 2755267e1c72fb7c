//! A bar on standard error while much is read.

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
        bar.set_message(crate::terminal::escape(what).into_owned());
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
