//! The table of metadata.

use super::heading;
use crate::render::words::{columns, cut_end, plural, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::error::Result;
use scantling_core::metadata::{Entry, Item, List, Metadata, Value};
use std::fmt::{self, Write};
use std::ops::ControlFlow;

/// Elements of a list that are shown.
const ITEMS: usize = 6;
/// Characters of a text that are shown, and of one in a list.
const TEXT: usize = 60;
const ITEM_TEXT: usize = 20;

pub(super) fn write(screen: &mut Screen<'_>, metadata: &Metadata, full: bool) -> fmt::Result {
    heading(screen, &format!("metadata ({})", plural(metadata.len(), "key")))?;
    if metadata.is_empty() {
        return writeln!(screen, "  none");
    }
    let widest = |of: &dyn Fn(&Entry) -> usize| metadata.entries().iter().map(of).max().unwrap_or(0);
    let key = widest(&|e| columns(&escape(&e.key))).min(48);
    let kind = widest(&|e| columns(&escape(&e.kind))).min(16);
    for entry in metadata.entries() {
        write!(screen, "  {:key$}  {:kind$}  ", escape(&entry.key), escape(&entry.kind))?;
        value(screen, &entry.value, full, TEXT)?;
        writeln!(screen)?;
    }
    Ok(())
}

/// How many characters of a text are shown.
fn limit(full: bool, limit: usize) -> usize {
    if full { usize::MAX } else { limit }
}

fn value(screen: &mut Screen<'_>, value: &Value, full: bool, text_limit: usize) -> fmt::Result {
    match value {
        Value::List(items) => list(screen, items.as_ref(), full),
        Value::Text(text) => {
            // Cut before it is escaped, so that no escape is cut in two.
            let cut = cut_end(text, limit(full, text_limit), screen.ellipsis());
            write!(screen, "\"{}\"", escape(&cut).replace('"', "\\\""))?;
            if cut.len() == text.len() {
                return Ok(());
            }
            write!(screen, " ({} bytes)", thousands(text.len() as u64))
        }
        Value::Bytes(bytes) if full => write!(screen, "b\"{}\"", bytes.escape_ascii()),
        other => write!(screen, "{}", escape(&other.to_string())),
    }
}

/// `[1, 2, 3, …] (151,936 i32)`. A list is read as it is shown, so a long one takes no memory.
fn list(screen: &mut Screen<'_>, list: &dyn List, full: bool) -> fmt::Result {
    write!(screen, "[")?;
    let mut outcome = Ok(());
    let read: Result<()> = list.visit(&mut |i, item| {
        if !full && i >= ITEMS as u64 {
            outcome = write!(screen, ", {}", screen.ellipsis());
            return ControlFlow::Break(());
        }
        let comma = if i == 0 { "" } else { ", " };
        let shown = match item {
            Item::Text(bytes) => Value::text(bytes),
            Item::Other(value) => value,
        };
        outcome = write!(screen, "{comma}").and_then(|()| value(screen, &shown, full, ITEM_TEXT));
        if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    outcome?;
    write!(screen, "]")?;
    if let Err(error) = read {
        write!(screen, " (could not be read: {})", escape(&error.to_string()))?;
    }
    write!(screen, " ({} {})", thousands(list.len()), escape(list.kind()))
}
