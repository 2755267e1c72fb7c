//! Reports as characters: text for people, JSON, Markdown and SARIF for what reads those.

pub mod csv;
pub mod html;
pub mod json;
mod judged;
pub mod kernel_check;
pub mod listing;
pub mod markdown;
pub mod natural;
pub mod sarif;
pub mod text;
pub mod words;

use scantling_core::check::Checked;
use scantling_core::error::Error;
use scantling_core::finding::Severity;
use std::path::PathBuf;

/// What came of one model.
pub struct Outcome {
    /// The path as it was given.
    pub path: PathBuf,
    /// What was found, or why nothing could be.
    pub result: Result<Checked, Error>,
}

impl Outcome {
    /// The path for people.
    pub fn shown_path(&self) -> String {
        self.path.display().to_string()
    }

    /// The exit code of a command that fails on findings of this severity; `None` fails on none.
    pub fn exit_code(&self, fail_on: Option<Severity>) -> u8 {
        match &self.result {
            Ok(checked) => u8::from(fails(checked.report.worst(), fail_on)),
            Err(error) => code_of(error),
        }
    }
}

/// Whether the worst that was found is bad enough.
pub fn fails(worst: Option<Severity>, fail_on: Option<Severity>) -> bool {
    matches!((worst, fail_on), (Some(worst), Some(limit)) if worst >= limit)
}

/// The exit code of an error that stopped a command.
pub fn code_of(error: &Error) -> u8 {
    match error {
        Error::NotFinite { .. } => 1,
        Error::Usage(_) => 2,
        _ => 3,
    }
}
