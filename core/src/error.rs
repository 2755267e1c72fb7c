//! Why a command could not go on, told apart by who has to act.

use crate::finding::Finding;
use std::fmt;
use std::io;

/// The result of anything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure that leaves nothing to look at. Faults in a file whose tensors can still be listed are
/// [`Finding`]s of the opened source instead.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused: no such file, no permission, a short read.
    #[error("{file}: {doing}: {source}")]
    Io {
        /// The file or folder.
        file: String,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file is damaged beyond listing its tensors.
    #[error("{}", list(.findings))]
    Malformed {
        /// Everything that was found before reading had to stop; never empty.
        findings: Vec<Finding>,
    },
    /// It can be listed, but not be used for what was asked.
    #[error("{file}: {what}\n{}", list(.findings))]
    Unfit {
        /// The file or folder.
        file: String,
        /// What cannot be done with it, and with what it could.
        what: String,
        /// Why; never empty.
        findings: Vec<Finding>,
    },
    /// The file is fine, but not something this program reads.
    #[error("{file}: {what}; {advice}")]
    Foreign {
        /// The file or folder.
        file: String,
        /// What it is.
        what: String,
        /// What to do.
        advice: String,
    },
    /// Reading on would take more than a bound that protects the reader.
    #[error("{file}: {what} (limit {limit})")]
    Limit {
        /// The file.
        file: String,
        /// What is too large.
        what: String,
        /// The bound.
        limit: u64,
    },
    /// What was computed is NaN or infinite where a number is expected.
    #[error(
        "{what}; see whether the weights hold such numbers with `scantling check --data MODEL`, and where in the \
         pass they first come with `scantling trace`"
    )]
    NotFinite {
        /// What it is, and where.
        what: String,
    },
    /// The request does not say which model, names an unknown plugin, or the like.
    #[error("{0}")]
    Usage(String),
}

/// The same words: `main` prints an error in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Shorthand for [`Error::Io`].
    pub fn io(file: impl Into<String>, doing: &'static str, source: io::Error) -> Error {
        Error::Io { file: file.into(), doing, source }
    }

    /// Shorthand for one [`Error::Malformed`] finding.
    pub fn malformed(finding: Finding) -> Error {
        Error::Malformed { findings: vec![finding] }
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
}
