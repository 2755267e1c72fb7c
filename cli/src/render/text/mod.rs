//! Text for people.

pub mod arch;
pub mod bench;
pub mod compute;
pub mod diff;
mod dimensions;
mod errors;
mod file;
mod findings;
pub mod generate;
pub mod hash;
pub mod kernel_check;
pub mod kernels;
mod listing;
pub mod memory;
mod metadata;
mod numbers;
pub mod runs;
pub mod show;
pub mod stats;
pub mod table;
pub(super) mod tensors;
pub mod tokens;
mod verdict;

pub use errors::{error, warning};
pub use runs::report;

use super::listing::Listing;
use super::{Outcome, fails, judged, words};
use crate::terminal::{Screen, escape};
use anstyle::{AnsiColor, Style};
use scantling_core::check::Checked;
use scantling_core::finding::Severity;
use scantling_core::report::Report;
use std::fmt::{self, Write};
use std::path::Path;

/// Columns of a block's heading.
const RULE: usize = 76;

/// What of an inspection is shown.
pub struct Options<'a> {
    /// The list of each tensor, in place of one row for each kind.
    pub listing: Option<&'a Listing>,
    /// Whether the metadata is shown.
    pub metadata: bool,
    /// Whether nothing is cut.
    pub full: bool,
    /// Whether the verdict stands alone.
    pub quiet: bool,
}

/// An inspection: blocks under ruled headings.
pub fn inspect(screen: &mut Screen<'_>, checked: &Checked, options: &Options<'_>) -> fmt::Result {
    let report = &checked.report;
    if options.quiet {
        return verdict::write(screen, report, options.full);
    }
    if file::wanted(report) {
        file::write(screen, report)?;
        writeln!(screen)?;
    }
    dimensions::write(screen, report)?;
    writeln!(screen)?;
    match options.listing {
        Some(listing) => listing::write(screen, checked, listing)?,
        None => tensors::write(screen, report, options.full)?,
    }
    writeln!(screen)?;
    if options.metadata {
        metadata::write(screen, checked.source.metadata(), options.full)?;
        writeln!(screen)?;
    }
    heading(screen, "verdict")?;
    verdict::write(screen, report, options.full)
}

/// How a check is shown.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// The severity that makes a model fail.
    pub fail_on: Option<Severity>,
    /// Whether only the models that fail are named.
    pub quiet: bool,
    /// Whether nothing is cut.
    pub full: bool,
    /// Whether it is one of several models.
    pub several: bool,
}

/// One model of a check: a line, then what was found.
pub fn check(screen: &mut Screen<'_>, outcome: &Outcome, options: CheckOptions) -> fmt::Result {
    let path = outcome.shown_path();
    let report = match &outcome.result {
        Ok(checked) => &checked.report,
        // Why not is told on standard error; among several models the line keeps its place.
        Err(_) if options.several => {
            return mark_line(screen, Mark::Bad, &path, "no tensor list can be made");
        }
        Err(_) => return Ok(()),
    };
    let failed = fails(report.worst(), options.fail_on);
    if options.quiet {
        let counts = judged::counts(report);
        return if failed { mark_line(screen, Mark::Bad, &path, &counts) } else { Ok(()) };
    }
    let bad = failed || report.count(Severity::Error) > 0;
    mark_line(screen, if bad { Mark::Bad } else { Mark::Good }, &path, &summary(report))?;
    findings::list(screen, report.findings.iter(), options.full)?;
    verdict::unchecked(screen, report, false)
}

/// qwen3 · 311 tensors · safetensors · 2 errors
pub fn summary(report: &Report) -> String {
    let model = &report.model;
    let known = model.architecture.map(str::to_owned);
    let family = known.or_else(|| model.family.as_ref().map(|f| format!("{} (not known)", escape(f))));
    let mut parts: Vec<String> = family.into_iter().collect();
    parts.extend(model.special.as_ref().map(|s| escape(s).into_owned()));
    parts.push(words::plural(report.counts.tensors, "tensor"));
    parts.push(escape(&report.container.format).into_owned());
    parts.extend(Some(judged::counts(report)).filter(|c| !c.is_empty()));
    parts.join(" · ")
}

#[derive(Clone, Copy)]
enum Mark {
    Good,
    Bad,
}

fn mark_line(screen: &mut Screen<'_>, mark: Mark, path: &str, rest: &str) -> fmt::Result {
    match mark {
        Mark::Good => screen.paint(GOOD, "✓")?,
        Mark::Bad => screen.paint(severity_style(Severity::Error), "✗")?,
    }
    writeln!(screen, " {}  {rest}", escape(path))
}

const GOOD: Style = AnsiColor::Green.on_default().bold();
const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Error => AnsiColor::Red.on_default().bold(),
        Severity::Warning => AnsiColor::Yellow.on_default().bold(),
        Severity::Note => AnsiColor::Cyan.on_default(),
    }
}

/// `── title ─────`, as wide as the screen allows.
fn heading(screen: &mut Screen<'_>, title: &str) -> fmt::Result {
    let width = RULE.min(screen.width());
    let title = words::cut_middle(title, width.saturating_sub(6), screen.ellipsis());
    let rest = width.saturating_sub(words::columns(&title)).saturating_sub(4);
    screen.paint(STRONG, &format!("── {title} {}", "─".repeat(rest)))?;
    writeln!(screen)
}

/// Text with a hanging indent. The first line begins where the cursor is, `used` columns in.
pub fn hanging(screen: &mut Screen<'_>, text: &str, used: usize, indent: usize) -> fmt::Result {
    let width = screen.width().saturating_sub(indent).max(20);
    let lines = words::wrap(text, width, used.saturating_sub(indent));
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            write!(screen, "{:indent$}", "")?;
        }
        writeln!(screen, "{line}")?;
    }
    Ok(())
}

/// That a file was written, and how long it is.
pub fn wrote(screen: &mut Screen<'_>, file: &Path, bytes: u64) -> fmt::Result {
    writeln!(screen, "wrote {} ({})\n", escape(&file.display().to_string()), words::bytes(bytes))
}

/// Text to the terminal's width, at most a comfortable one.
pub fn paragraph(screen: &mut Screen<'_>, text: &str, indent: usize) -> fmt::Result {
    let width = screen.width().min(RULE).saturating_sub(indent).max(20);
    for line in words::wrap(text, width, 0) {
        writeln!(screen, "{:indent$}{line}", "")?;
    }
    Ok(())
}

/// A word in bold.
pub fn strong(screen: &mut Screen<'_>, text: &str) -> fmt::Result {
    screen.paint(STRONG, text)
}

/// A severity's word in its colour.
pub fn severity(screen: &mut Screen<'_>, severity: Severity) -> fmt::Result {
    screen.paint(severity_style(severity), severity.word())
}

#[cfg(test)]
mod tests;
