//! The block that says whether the model is what it should be.

use super::{GOOD, findings, hanging, severity_style};
use crate::render::{judged, words};
use crate::terminal::{Screen, escape};
use anstyle::Style;
use scantling_core::finding::{Finding, Severity};
use scantling_core::report::Report;
use std::fmt::{self, Write};

pub(super) fn write(screen: &mut Screen<'_>, report: &Report, full: bool) -> fmt::Result {
    let errors = report.count(Severity::Error);
    let unknown = judged::is_unknown(report);
    let why = if unknown { judged::why_not(report) } else { None };
    if errors > 0 {
        mark(screen, severity_style(Severity::Error), "✗")?;
        writeln!(screen, "{}", judged::counts(report))?;
    } else if let Some(n) = report.counts.expected {
        mark(screen, GOOD, "✓")?;
        let n = words::thousands(n as u64);
        hanging(screen, &format!("all {n} expected tensors present, shapes match the config"), 4, 4)?;
    }
    if unknown {
        mark(screen, severity_style(Severity::Warning), "?")?;
        let reason = judged::unknown_reason(report);
        hanging(screen, &format!("not checked against an architecture: {}", escape(&reason)), 4, 4)?;
        if let Some(advice) = why.and_then(|f| f.advice.as_ref()) {
            write!(screen, "    ")?;
            hanging(screen, &format!("to do: {}", escape(advice)), 4, 6)?;
        }
    }
    let said = |f: &&Finding| !why.is_some_and(|why| std::ptr::eq(why, *f));
    findings::list(screen, report.findings.iter().filter(said), full)?;
    counts(screen, report)?;
    unchecked(screen, report, unknown)
}

fn mark(screen: &mut Screen<'_>, style: Style, mark: &str) -> fmt::Result {
    write!(screen, "  ")?;
    screen.paint(style, mark)?;
    write!(screen, " ")
}

fn counts(screen: &mut Screen<'_>, report: &Report) -> fmt::Result {
    let counts = &report.counts;
    write!(screen, "  params: {} stored", words::thousands(counts.stored))?;
    if let Some(logical) = counts.logical {
        write!(screen, " · {} logical", words::thousands(logical))?;
    }
    writeln!(screen)?;
    if let (Some(embedding), Some(logical)) = (counts.embedding, counts.logical) {
        let share = words::percent(embedding, logical);
        let share = if share.is_empty() { share } else { format!(" = {share} of logical") };
        writeln!(screen, "  embeddings: {}{share}", words::thousands(embedding))?;
    }
    Ok(())
}

/// What was not looked at, on one line; without the architecture if that was `said` before.
pub(super) fn unchecked(screen: &mut Screen<'_>, report: &Report, said: bool) -> fmt::Result {
    let items = judged::unchecked(report, said);
    if items.is_empty() {
        return Ok(());
    }
    write!(screen, "  ")?;
    hanging(screen, &format!("not checked: {}", items.join(", ")), 2, 4)
}
