//! What a run takes in memory, for people.

use super::table::Table;
use super::{GOOD, hanging, heading, severity_style};
use crate::commands::memory::Told;
use crate::render::words::{bytes, columns, plural, ranges, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::finding::Severity;
use scantling_core::memory::{Estimate, LayerKind};
use std::fmt::{self, Write};

/// The parts, what each layer keeps, other contexts, and whether it fits; that alone if `quiet`.
pub fn memory(screen: &mut Screen<'_>, told: &Told<'_>, quiet: bool) -> fmt::Result {
    if quiet {
        return verdict(screen, told);
    }
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
    verdict(screen, told)?;
    counted(screen, told)
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
    let made_for = |context: usize| {
        let made =
            told.beyond(context).map(|n| format!(", but the model was made for {}", thousands(n as u64)));
        (if made.is_some() { Mark::But } else { Mark::Good }, made.unwrap_or_default())
    };
    if let Some((size, longest)) = told.fit {
        let (most, size) = (size, bytes(size));
        return match longest {
            Some(longest) if told.asked && longest > 0 => {
                let need = bytes(e.total);
                if e.total > most {
                    let longest = plural(longest, "token");
                    let text = format!("a context of {tokens} takes {need}: {longest} fit into {size}");
                    return mark(screen, Mark::Bad, &text);
                }
                let (how, but) = made_for(e.context);
                mark(screen, how, &format!("a context of {tokens} fits into {size}: it takes {need}{but}"))
            }
            Some(0) => {
                let least = bytes(told.memory.at(1).total);
                mark(screen, Mark::Bad, &format!("no context fits into {size}: one token takes {least}"))
            }
            Some(longest) => {
                let (how, but) = made_for(longest);
                let tokens = plural(longest, "token");
                mark(screen, how, &format!("a context of {tokens} fits into {size}{but}"))
            }
            None => mark(screen, Mark::Good, &format!("any context fits into {size}")),
        };
    }
    let need = bytes(e.total);
    match told.machine {
        (Some(free), all) => {
            let all = all.map(|all| format!(" of {}", bytes(all))).unwrap_or_default();
            let (how, word, but) = match made_for(e.context) {
                (how, but) if e.total <= free => (how, "fits", but),
                _ => (Mark::Bad, "does not fit", String::new()),
            };
            let free = bytes(free);
            mark(screen, how, &format!("a context of {tokens} {word}{but}: {need}, and {free}{all} are free"))
        }
        (None, _) => {
            writeln!(screen, "  a context of {tokens} takes {need}; the system does not say what is free")
        }
    }
}

/// What was taken into account.
fn counted(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let left = if told.vocabulary { "" } else { "the vocabulary, " };
    writeln!(
        screen,
        "  counted: weights, keys and values, one pass, program; not counted: {left}tables of pages, and text under way"
    )
}

/// How a verdict is meant.
#[derive(Clone, Copy)]
enum Mark {
    Good,
    /// It fits, and is of little use.
    But,
    Bad,
}

fn mark(screen: &mut Screen<'_>, how: Mark, text: &str) -> fmt::Result {
    write!(screen, "  ")?;
    match how {
        Mark::Good => screen.paint(GOOD, "✓")?,
        Mark::But => screen.paint(severity_style(Severity::Warning), "!")?,
        Mark::Bad => screen.paint(severity_style(Severity::Error), "✗")?,
    }
    writeln!(screen, " {text}")
}
