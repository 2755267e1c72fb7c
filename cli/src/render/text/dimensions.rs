//! The block of hyperparameters.

use super::{hanging, heading};
use crate::render::words::{columns, cut_end};
use crate::terminal::{Screen, escape};
use scantling_core::config::{Fact, Origin};
use scantling_core::report::Report;
use std::fmt::{self, Write};

/// Values wider than this do not widen the column.
const VALUE: usize = 12;

pub(super) fn write(screen: &mut Screen<'_>, report: &Report) -> fmt::Result {
    let from = report.model.config.as_ref().map(|c| format!(" (from {})", escape(c)));
    heading(screen, &format!("dimensions{}", from.unwrap_or_default()))?;
    let sizes = report.facts.iter().filter(|f| f.dimension);
    // A setting that the file states is in the file to be read; one that it does not state would go unseen.
    let silent = report.facts.iter().filter(|f| !f.dimension && f.origin != Origin::File);
    let facts: Vec<&Fact> = sizes.chain(silent).collect();
    if facts.is_empty() {
        let why = match (&report.model.config, &report.model.family) {
            (None, _) => "unknown: there is no config".to_owned(),
            (Some(_), Some(family)) => format!("unknown: no architecture here is called {}", escape(family)),
            (Some(_), None) => "unknown: the config names no family".to_owned(),
        };
        writeln!(screen, "  {why}")?;
    }
    let layout = Layout::of(&facts);
    for fact in facts {
        layout.row(screen, fact)?;
    }
    if report.model.architecture.is_some() {
        let text = "weights are stored [out, in]; read a row as   in ──▶ out   (y = x·Wᵀ)";
        write!(screen, "  ")?;
        hanging(screen, text, 2, 4)?;
    }
    Ok(())
}

struct Layout {
    symbol: usize,
    name: usize,
    value: usize,
}

impl Layout {
    fn of(facts: &[&Fact]) -> Layout {
        let widest = |of: &dyn Fn(&Fact) -> usize| facts.iter().map(|f| of(f)).max().unwrap_or(0);
        Layout {
            symbol: widest(&|f| columns(f.symbol)).max(1),
            name: widest(&|f| columns(&escape(&f.name))).min(48),
            value: widest(&|f| columns(&shown(f)).min(VALUE)),
        }
    }

    fn row(&self, screen: &mut Screen<'_>, fact: &Fact) -> fmt::Result {
        let Layout { symbol, name, value } = *self;
        let (key, number) = (escape(&fact.name).into_owned(), shown(fact));
        let start = format!("  {:symbol$}  {key:name$}    {number:>value$}   ", fact.symbol);
        write!(screen, "{start}")?;
        let mut text = fact.meaning.to_owned();
        if let Some(note) = &fact.note {
            text.push_str(&format!(" → {}", escape(note)));
        }
        match &fact.origin {
            Origin::File => {}
            Origin::Default => text.push_str("   (default)"),
            Origin::Assumed => text.push_str("   (assumed: the file cannot say it; --config tells)"),
            Origin::Derived(how) => text.push_str(&format!("   (derived: {})", escape(how))),
        }
        let indent = columns(&start);
        if indent.saturating_add(20) > screen.width() {
            hanging(screen, &text, indent, 7)
        } else {
            hanging(screen, &text, indent, indent)
        }
    }
}

fn shown(fact: &Fact) -> String {
    cut_end(&escape(&fact.value.to_string()), 60, "…")
}
