//! The block of hyperparameters.

use super::{hanging, heading};
use crate::render::words::{columns, cut_end, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::config::{Fact, Origin};
use scantling_core::report::{Likeness, Report};
use std::fmt::{self, Write};

/// Values wider than this do not widen the column.
const VALUE: usize = 12;

pub(super) fn write(screen: &mut Screen<'_>, report: &Report) -> fmt::Result {
    if facts(screen, report.model.config.as_deref(), &report.facts)? == 0 {
        let why = match (&report.model.config, &report.model.family) {
            (None, _) => "unknown: there is no config".to_owned(),
            (Some(_), Some(family)) => format!("unknown: no architecture here is called {}", escape(family)),
            (Some(_), None) => "unknown: the config names no family".to_owned(),
        };
        writeln!(screen, "  {why}")?;
        if let Some(likeness) = &report.likeness {
            self::likeness(screen, likeness)?;
        }
    }
    if report.model.architecture.is_some() {
        let text = "weights are stored [out, in]; read a row as   in ──▶ out   (y = x·Wᵀ)";
        write!(screen, "  ")?;
        hanging(screen, text, 2, 4)?;
    }
    Ok(())
}

/// The heading and the hyperparameters below it; gives how many those are.
pub(super) fn facts(
    screen: &mut Screen<'_>,
    config: Option<&str>,
    all: &[Fact],
) -> Result<usize, fmt::Error> {
    let from = config.map(|c| format!(" (from {})", escape(c)));
    heading(screen, &format!("dimensions{}", from.unwrap_or_default()))?;
    let sizes = all.iter().filter(|f| f.dimension);
    // A setting that the file states is in the file to be read; one that it does not state would go unseen.
    let silent = all.iter().filter(|f| !f.dimension && f.origin != Origin::File);
    let facts: Vec<&Fact> = sizes.chain(silent).collect();
    let layout = Layout::of(&facts);
    facts.iter().try_for_each(|fact| layout.row(screen, fact))?;
    Ok(facts.len())
}

/// What shapes and names tell where nothing else does.
fn likeness(screen: &mut Screen<'_>, likeness: &Likeness) -> fmt::Result {
    writeln!(screen, "  by shapes and names alone:")?;
    let value = likeness.sizes.iter().map(|s| columns(&s.value.to_string())).max().unwrap_or(0);
    let meaning = likeness.sizes.iter().map(|s| columns(s.meaning)).max().unwrap_or(0);
    for size in &likeness.sizes {
        let start = format!("    {}  {:meaning$}    {:>value$}   ", size.symbol, size.meaning, size.value);
        write!(screen, "{start}")?;
        hanging(screen, &format!("(from {})", cut_end(&escape(&size.from), 60, "…")), columns(&start), 7)?;
    }
    let mut told = |text: String| {
        write!(screen, "    ")?;
        hanging(screen, &text, 4, 6)
    };
    told(format!("no shape shows {}", likeness.hidden.join(", ")))?;
    let Some(near) = &likeness.nearest else {
        return told("no architecture here has layers that are named alike".to_owned());
    };
    let list = |what: &str, kinds: &[String]| match kinds {
        [] => String::new(),
        kinds => format!("; {what}: {}", kinds.iter().map(|k| escape(k)).collect::<Vec<_>>().join(", ")),
    };
    let (more, less) = (list("the model has beyond it", &near.more), list("and lacks", &near.less));
    let of = thousands(near.shared as u64);
    told(format!(
        "nearest architecture: {}, by {of} kinds of tensors in a layer{more}{less}",
        near.families.join(", ")
    ))
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
            Origin::Assumed => text.push_str("   (assumed: a GGUF file cannot say it; --config FILE does)"),
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
