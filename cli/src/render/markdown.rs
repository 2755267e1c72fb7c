//! Markdown: a table for each model, for pull requests and job summaries.

use super::{Outcome, fails, text};
use crate::render::words::cut_middle;
use crate::terminal::{Screen, escape};
use scantling_core::error::Error;
use scantling_core::finding::{Finding, Severity};
use std::fmt::{self, Write};

/// Rows of a table; the reader of a summary wants no thousand of them.
const ROWS: usize = 100;
/// Longest text in a cell.
const LONG: usize = 300;

/// One model: a heading, what it is, and a table of what was found.
pub fn model(screen: &mut Screen<'_>, outcome: &Outcome, fail_on: Option<Severity>) -> fmt::Result {
    let path = code(&outcome.shown_path());
    match &outcome.result {
        Ok(checked) => {
            let report = &checked.report;
            let bad = fails(report.worst(), fail_on) || report.count(Severity::Error) > 0;
            writeln!(screen, "### {} {path}\n", if bad { "✗" } else { "✓" })?;
            writeln!(screen, "{}\n", prose(&text::summary(report)))?;
            table(screen, &report.findings)?;
            if !report.unchecked.is_empty() {
                let items: Vec<String> =
                    report.unchecked.iter().map(|u| prose(&format!("{} ({})", u.what, u.why))).collect();
                writeln!(screen, "Not checked: {}\n", items.join(", "))?;
            }
            Ok(())
        }
        Err(error) => {
            writeln!(screen, "### ✗ {path}\n")?;
            match error {
                Error::Malformed { findings } => {
                    writeln!(screen, "No tensor list can be made.\n")?;
                    table(screen, findings)
                }
                other => writeln!(screen, "**error**: {}\n", prose(&other.to_string())),
            }
        }
    }
}

fn table(screen: &mut Screen<'_>, findings: &[Finding]) -> fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(screen, "| severity | code | where | what | expected | found | to do |")?;
    writeln!(screen, "| --- | --- | --- | --- | --- | --- | --- |")?;
    for finding in findings.iter().take(ROWS) {
        let cell = |text: &Option<String>| text.as_deref().map(prose).unwrap_or_default();
        let mut what = prose(&finding.message);
        if !finding.symptoms.is_empty() {
            let _ = write!(what, " (and {} that follow from it)", finding.symptoms.len());
        }
        writeln!(
            screen,
            "| {} | {} | {} | {what} | {} | {} | {} |",
            finding.severity.word(),
            code(finding.code.id),
            place(finding),
            cell(&finding.expected),
            cell(&finding.found),
            cell(&finding.advice),
        )?;
    }
    if findings.len() > ROWS {
        writeln!(screen, "\n… and {} more", findings.len().saturating_sub(ROWS))?;
    }
    writeln!(screen)
}

fn place(finding: &Finding) -> String {
    let place = &finding.place;
    let mut parts = Vec::new();
    if let Some(file) = &place.file {
        let at = place.offset.map(|n| format!(" at byte {n}")).unwrap_or_default();
        parts.push(format!("{}{at}", code(file)));
    }
    parts.extend(place.tensor.as_deref().or(place.field.as_deref()).map(code));
    parts.join(" ")
}

/// Text that Markdown shows as it is.
fn prose(text: &str) -> String {
    let text = cut_middle(&escape(text), LONG, "…");
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '@' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// A name as code; one that would break out of it is shown as prose.
fn code(name: &str) -> String {
    let shown = cut_middle(&escape(name), LONG, "…");
    if shown.contains(['`', '|', '\\']) || shown.is_empty() { prose(name) } else { format!("`{shown}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_cell() {
        assert_eq!(prose("a|b <b>*x*</b>\n"), "a\\|b &lt;b&gt;\\*x\\*&lt;/b&gt;\\\\x0a");
        assert_eq!(code("model.layers.0.q_proj"), "`model.layers.0.q_proj`");
        assert_eq!(code("a`b|c"), "a\\`b\\|c");
    }
}
