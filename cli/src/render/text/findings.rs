//! Findings, each with what is needed to act on it.

use super::{hanging, severity_style};
use crate::render::words::{columns, cut_middle, plural, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::finding::{Finding, Severity};
use scantling_core::report::Report;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Findings of one code that are shown.
const ALIKE: usize = 20;
/// Symptoms of one finding that are shown.
const SYMPTOMS: usize = 5;
/// Longest text that is shown whole.
const LONG: usize = 400;

/// 3 errors, 1 warning; empty where there are but notes.
pub(super) fn counts(report: &Report) -> String {
    let of = |severity: Severity| {
        let n = report.count(severity);
        (n > 0).then(|| plural(n, severity.word()))
    };
    let parts: Vec<String> = [Severity::Error, Severity::Warning].into_iter().filter_map(of).collect();
    parts.join(", ")
}

/// Findings: faults in the order of the report, causes first; then the notes.
pub(super) fn list<'f>(
    screen: &mut Screen<'_>,
    findings: impl Iterator<Item = &'f Finding> + Clone,
    full: bool,
) -> fmt::Result {
    let is_note = |f: &&Finding| f.severity == Severity::Note;
    let faults = findings.clone().filter(|f| !is_note(f));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in faults.chain(findings.filter(is_note)) {
        let count = seen.entry(finding.code.id).or_insert(0);
        *count = count.saturating_add(1);
        if full || *count <= ALIKE {
            one(screen, finding, full)?;
        }
    }
    for (code, count) in seen {
        if !full && count > ALIKE {
            let more = thousands(count.saturating_sub(ALIKE) as u64);
            writeln!(screen, "  … and {more} more of {code} (--full shows all)")?;
        }
    }
    Ok(())
}

fn one(screen: &mut Screen<'_>, finding: &Finding, full: bool) -> fmt::Result {
    let label = match finding.severity {
        Severity::Note => "note".to_owned(),
        severity => format!("{}[{}]", severity.word(), finding.code.id),
    };
    write!(screen, "  ")?;
    screen.paint(severity_style(finding.severity), &label)?;
    let used = columns(&label).saturating_add(2);
    hanging(screen, &format!(": {}", headline(finding, full)), used, 4)?;
    let mut detail = |key: &str, text: &Option<String>| match text {
        Some(text) => {
            write!(screen, "    ")?;
            hanging(screen, &format!("{key} {}", short(text, full)), 4, 6)
        }
        None => Ok(()),
    };
    detail("expected", &finding.expected)?;
    detail("found   ", &finding.found)?;
    detail("to do:", &finding.advice)?;
    symptoms(screen, finding, full)
}

fn symptoms(screen: &mut Screen<'_>, finding: &Finding, full: bool) -> fmt::Result {
    let all = finding.symptoms.len();
    let shown = if full { all } else { all.min(SYMPTOMS) };
    for symptom in finding.symptoms.iter().take(shown) {
        write!(screen, "      ")?;
        let versus = match (&symptom.expected, &symptom.found) {
            (Some(e), Some(f)) => format!(" (expected {}, found {})", short(e, full), short(f, full)),
            _ => String::new(),
        };
        hanging(screen, &format!("- {}{versus}", headline(symptom, full)), 6, 8)?;
    }
    if all > shown {
        let more = thousands(all.saturating_sub(shown) as u64);
        writeln!(screen, "      … and {more} more (--full shows all)")?;
    }
    Ok(())
}

/// The place and the message. What the message begins with is not said twice, and where a note stands
/// matters little.
fn headline(finding: &Finding, full: bool) -> String {
    let place = &finding.place;
    let mut text = String::new();
    if finding.severity != Severity::Note
        && let Some(file) = &place.file
    {
        text.push_str(&short(file, full));
        if let Some(at) = place.offset {
            text.push_str(&format!(" at byte {at}"));
        }
        text.push_str(": ");
    }
    if let Some(subject) = place.tensor.as_ref().or(place.field.as_ref())
        && !finding.message.starts_with(subject.as_str())
    {
        text.push_str(&short(subject, full));
        text.push_str(if is_predicate(&finding.message) { " " } else { ": " });
    }
    text.push_str(&short(&finding.message, full));
    text
}

/// Whether a message goes on from its subject: "model.norm.weight is missing".
fn is_predicate(message: &str) -> bool {
    let verb = message.split(' ').next().unwrap_or_default();
    ["is", "has", "does", "ends", "shares", "present"].contains(&verb)
}

fn short(text: &str, full: bool) -> String {
    let shown = escape(text);
    if full { shown.into_owned() } else { cut_middle(&shown, LONG, "…") }
}
