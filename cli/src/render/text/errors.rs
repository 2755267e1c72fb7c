//! Errors that stop a command, for standard error.

use super::{findings, severity_style};
use crate::terminal::{Screen, escape};
use scantling_core::error::Error;
use scantling_core::finding::Severity;
use std::fmt::{self, Write};

/// `error: …`, every line of it safe to show.
pub fn error(screen: &mut Screen<'_>, path: &str, error: &Error, full: bool) -> fmt::Result {
    screen.paint(severity_style(Severity::Error), "error")?;
    match error {
        Error::Malformed { findings } => {
            writeln!(screen, ": {}: no tensor list can be made", escape(path))?;
            findings::list(screen, findings.iter(), full)
        }
        Error::Unfit { file, what, findings } => {
            writeln!(screen, ": {}: {}", escape(file), escape(what))?;
            findings::list(screen, findings.iter(), full)
        }
        other => {
            write!(screen, ": ")?;
            for line in other.to_string().split('\n') {
                writeln!(screen, "{}", escape(line))?;
            }
            Ok(())
        }
    }
}

/// `warning: …`, of what stops nothing.
pub fn warning(screen: &mut Screen<'_>, text: &str) -> fmt::Result {
    screen.paint(severity_style(Severity::Warning), Severity::Warning.word())?;
    writeln!(screen, ": {}", escape(text))
}
