//! Findings, each with what is needed to act on it.

use super::{hanging, severity_style};
use crate::render::judged::{self, headline, short};
use crate::render::words::{columns, thousands};
use crate::terminal::Screen;
use scantling_core::finding::{Finding, Severity};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Findings of one code that are shown.
const ALIKE: usize = 20;
/// Symptoms of one finding that are shown.
const SYMPTOMS: usize = 5;

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
        hanging(screen, &format!("- {}", judged::symptom(symptom, full)), 6, 8)?;
    }
    if all > shown {
        let more = thousands(all.saturating_sub(shown) as u64);
        writeln!(screen, "      … and {more} more (--full shows all)")?;
    }
    Ok(())
}
