//! What a run takes in memory, for people.

use super::table::Table;
use super::{GOOD, hanging, heading, severity_style};
use crate::commands::memory::Told;
use crate::render::words::{bytes, columns, plural, ranges, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::finding::Severity;
use scantling_core::memory::{Estimate, LayerKind};
use std::fmt::{self, Write};

/// The parts, what each layer keeps, other contexts, and whether it fits.
pub fn memory(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let (memory, e) = (told.memory, &told.estimate);
    let (kernel, threads) = told.kernel;
    heading(screen, &format!("memory of {} ({})", escape(&told.path), memory.family))?;
    let tokens = e.context.min(memory.options.batch);
    let kv_type = memory.options.kv.dtype();
    let stored = told.planned.as_ref().map(|(storing, _)| format!("as {}, mapped", storing.name()));
    let of_program = if told.vocabulary { "the program and its vocabulary" } else { "the program" };
    let parts = [
        ("weights", e.mapped, stored.unwrap_or_else(|| "mapped from the files".to_owned())),
        ("", e.owned, "vectors, widened and held apart".to_owned()),
        (
            "KV cache",
            e.kv,
            format!(
                "{} of context in {kv_type}, {} bytes each",
                plural(e.context, "token"),
                thousands(memory.kv_per_position())
            ),
        ),
        ("work", e.buffers, format!("buffers of {} at once, and logits", plural(tokens, "token"))),
        ("", e.scratch, format!("what {kernel} takes on {}", plural(threads, "thread"))),
        ("program", e.program, of_program.to_owned()),
        ("total", e.total, format!("{} of its own, {} mapped", bytes(e.own()), bytes(e.mapped))),
    ];
    let mut rows = Table::new(&["", ">", ""]);
    for (name, size, what) in parts {
        rows.row([name.to_owned(), bytes(size), what]);
    }
    rows.write(screen, 2)?;
    writeln!(screen)?;
    heading(screen, "what each layer keeps of a token")?;
    memory.kinds().iter().try_for_each(|kind| layer(screen, kind))?;
    if e.kv_windowed < e.kv {
        let (kept, all) = (bytes(e.kv_windowed), bytes(e.kv));
        writeln!(screen, "  all positions are kept, {all}; what the windows see would be {kept}")?;
    }
    writeln!(screen)?;
    if let Some((_, others)) = &told.planned {
        heading(screen, "weights")?;
        let mut rows = Table::new(&["STORED AS", ">WEIGHTS", ">TOTAL"]);
        for (storing, size) in others {
            rows.row([storing.name().to_owned(), bytes(*size), bytes(e.own().saturating_add(*size))]);
        }
        rows.write(screen, 2)?;
        writeln!(screen)?;
    }
    heading(screen, "contexts")?;
    contexts(screen, told)?;
    writeln!(screen)?;
    verdict(screen, told)
}

fn layer(screen: &mut Screen<'_>, kind: &LayerKind) -> fmt::Result {
    // Of layers that alternate the first few tell which.
    let shown = match ranges(&kind.layers) {
        all if columns(&all) <= 24 => all,
        long => format!("{}, {}", long.split(", ").take(4).collect::<Vec<_>>().join(", "), screen.ellipsis()),
    };
    let kept = match (kind.cache.key, kind.cache.value) {
        (key, 0) => format!("{} numbers, which are key and value of all heads", thousands(key as u64)),
        (key, value) => {
            format!("{} + {} numbers of keys and values", thousands(key as u64), thousands(value as u64))
        }
    };
    let window = kind.window.map(|n| format!("; attention sees {}", plural(n, "token"))).unwrap_or_default();
    let text = format!("{} ({shown}): {kept}{window}", plural(kind.layers.len(), "layer"));
    write!(screen, "  ")?;
    hanging(screen, &text, 2, 4)
}

fn contexts(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let mut rows = Table::new(&[">CONTEXT", ">KV CACHE", ">WORK", ">TOTAL", ""]);
    for e in &told.table {
        let (limit, words) = match told.fit {
            Some((size, _)) => (Some(size), "does not fit"),
            None => (told.machine.0, "more than is free"),
        };
        let mark = if limit.is_some_and(|limit| e.total > limit) { words } else { "" };
        let work = e.buffers.saturating_add(e.scratch);
        rows.row([thousands(e.context as u64), bytes(e.kv), bytes(work), bytes(e.total), mark.to_owned()]);
    }
    rows.write(screen, 2)
}

fn verdict(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let e: &Estimate = &told.estimate;
    let tokens = plural(e.context, "token");
    if let Some((size, longest)) = told.fit {
        let size = bytes(size);
        let text = match longest {
            Some(0) => {
                format!("no context fits into {size}: one token takes {}", bytes(told.memory.at(1).total))
            }
            Some(longest) => {
                let made = told.memory.longest.filter(|made| longest > *made);
                let made = made.map(|n| format!(" (the model was made for {})", thousands(n as u64)));
                format!(
                    "a context of {} fits into {size}{}",
                    plural(longest, "token"),
                    made.unwrap_or_default()
                )
            }
            None => format!("any context fits into {size}"),
        };
        mark(screen, longest != Some(0), &text)?;
    } else {
        let need = bytes(e.total);
        match told.machine {
            (Some(free), all) => {
                let all = all.map(|all| format!(" of {}", bytes(all))).unwrap_or_default();
                let fits = e.total <= free;
                let word = if fits { "fits" } else { "does not fit" };
                mark(
                    screen,
                    fits,
                    &format!("a context of {tokens} {word}: {need}, and {}{all} are free", bytes(free)),
                )?;
            }
            (None, _) => writeln!(
                screen,
                "  a context of {tokens} takes {need}; the system does not say what is free"
            )?,
        }
    }
    let left = if told.vocabulary { "" } else { "the vocabulary, " };
    writeln!(
        screen,
        "  counted: weights, keys and values, one pass, program; not counted: {left}tables of pages, and text under way"
    )
}

fn mark(screen: &mut Screen<'_>, good: bool, text: &str) -> fmt::Result {
    write!(screen, "  ")?;
    if good {
        screen.paint(GOOD, "✓")?;
    } else {
        screen.paint(severity_style(Severity::Error), "✗")?;
    }
    writeln!(screen, " {text}")
}
