//! How a report is put into words, whatever it is rendered as.

use super::words::{cut_middle, plural};
use crate::terminal::escape;
use scantling_core::check::{ARCHITECTURE_UNKNOWN, CONFIG_ABSENT};
use scantling_core::finding::{Finding, Severity};
use scantling_core::report::{ARCHITECTURE, Report};

/// Longest text that is shown whole.
const LONG: usize = 400;

/// 3 errors, 1 warning; empty where there are but notes.
pub fn counts(report: &Report) -> String {
    let of = |severity: Severity| {
        let n = report.count(severity);
        (n > 0).then(|| plural(n, severity.word()))
    };
    let parts: Vec<String> = [Severity::Error, Severity::Warning].into_iter().filter_map(of).collect();
    parts.join(", ")
}

/// Whether the tensors were not held against an architecture, and that is not for errors that say so themselves.
pub fn is_unknown(report: &Report) -> bool {
    let errors = report.count(Severity::Error);
    report.counts.expected.is_none() && (errors == 0 || report.model.architecture.is_none())
}

/// The note that says why there was no architecture to check against, if there is one.
pub fn why_not(report: &Report) -> Option<&Finding> {
    let reasons = [CONFIG_ABSENT.id, ARCHITECTURE_UNKNOWN.id];
    report.findings.iter().find(|f| f.severity == Severity::Note && reasons.contains(&f.code.id))
}

/// The same in words, if only those of what was left out.
pub fn unknown_reason(report: &Report) -> String {
    let entry = || report.unchecked.iter().find(|u| u.what == ARCHITECTURE);
    let left_out = || entry().map_or_else(|| "see below".to_owned(), |u| u.why.clone());
    why_not(report).map_or_else(left_out, |f| f.message.clone())
}

/// What was not looked at, each with why; without the architecture if that was `said` before.
pub fn unchecked(report: &Report, said: bool) -> Vec<String> {
    let left = report.unchecked.iter().filter(|u| !(said && u.what == ARCHITECTURE));
    let one = |u: &scantling_core::report::Unchecked| match u.why.as_str() {
        "" => escape(&u.what).into_owned(),
        why => format!("{} ({})", escape(&u.what), escape(why)),
    };
    left.map(one).collect()
}

/// The place and the message of a finding. What the message begins with is not said twice, and where a note stands
/// matters little.
pub fn headline(finding: &Finding, full: bool) -> String {
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

/// What follows from a finding, in one line.
pub fn symptom(symptom: &Finding, full: bool) -> String {
    let versus = match (&symptom.expected, &symptom.found) {
        (Some(e), Some(f)) => format!(" (expected {}, found {})", short(e, full), short(f, full)),
        _ => String::new(),
    };
    format!("{}{versus}", headline(symptom, full))
}

/// Whether a message goes on from its subject: "model.norm.weight is missing".
fn is_predicate(message: &str) -> bool {
    let verb = message.split(' ').next().unwrap_or_default();
    ["is", "has", "does", "ends", "shares", "present"].contains(&verb)
}

/// Text for one line, cut in its middle unless all of it is wanted.
pub fn short(text: &str, full: bool) -> String {
    let shown = escape(text);
    if full { shown.into_owned() } else { cut_middle(&shown, LONG, "…") }
}
