//! What a model wrote, for people.

use crate::backend::Backend;
use crate::render::words::{bytes, plural};
use crate::terminal::{Look, Screen, is_control};
use scantling_core::generate::{Ending, Written};
use scantling_core::model::Model;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Text of a model as it may go where it goes. To a terminal: line ends and tabs as they are, other control characters
/// not at all. Anywhere else as it is: whoever reads a file or a pipe wants the text.
pub fn shown(text: &str, look: Look) -> Cow<'_, str> {
    if !look.terminal {
        return Cow::Borrowed(text);
    }
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_control(*c)).collect()
}

/// What a model read before it wrote.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Tokens that it had seen before.
    pub kept: usize,
    /// Tokens that it read.
    pub prompt: usize,
}

/// How long a conversation may be, and what it takes then.
pub fn room(screen: &mut Screen<'_>, context: usize, full: usize) -> fmt::Result {
    writeln!(
        screen,
        "room for {}: {} of keys and values when full",
        plural(context, "token"),
        bytes(full as u64)
    )
}

/// Which kernel ran, how fast, in how much memory, and why it stopped.
pub fn summary(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    read: Read,
    held: usize,
    done: &Written,
) -> fmt::Result {
    let rate = |tokens: usize, time: std::time::Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
    // The first token comes of the prompt's last.
    let steps = done.ids.len().saturating_sub(1);
    writeln!(
        screen,
        "{}, {}: prompt {}{}, {:.1}/s; written {}, {:.1}/s; {} mapped, {} beside; {}",
        backend.name,
        plural(backend.threads, "thread"),
        plural(read.prompt, "token"),
        if read.kept > 0 { format!(" behind {}", read.kept) } else { String::new() },
        rate(read.prompt, done.read),
        plural(done.ids.len(), "token"),
        rate(steps, done.wrote),
        bytes(model.bytes()),
        bytes(held as u64),
        why(&done.ending),
    )
}

/// Why it stopped, in words.
pub fn why(ending: &Ending) -> &'static str {
    match ending {
        Ending::Length => "stopped at the length asked for",
        Ending::Token(_) => "ended by the model",
        Ending::Text(_) => "stopped by --stop",
        Ending::Context => "the context is full",
        Ending::Interrupted => "interrupted",
    }
}
