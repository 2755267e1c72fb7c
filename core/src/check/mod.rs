//! Holds a source against what its architecture implies. Never stops at the first fault.

use crate::error::Result;
use crate::finding::Part;
use crate::registry::Registry;
use crate::report::{Container, Counts, Model, Report};
use crate::source::WeightSource;
use std::path::{Path, PathBuf};

/// What is wanted of a check.
#[derive(Clone, Debug)]
pub struct Request {
    /// The parts to look at.
    pub parts: Vec<Part>,
    /// The architecture to check against, whatever the files say.
    pub architecture: Option<String>,
    /// A config to use in place of what the files say.
    pub config: Option<PathBuf>,
    /// Whether tied copies are compared byte by byte.
    pub identity: bool,
    /// Whether a model that cannot be checked (no config, unknown family) is an error or only said.
    pub must_check: bool,
}

impl Request {
    /// Whether a part is wanted.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}

/// Told how far a long read has come.
pub trait Progress: Sync {
    /// A long read of so many bytes begins.
    fn begin(&self, what: &str, bytes: u64);
    /// So many more bytes are done.
    fn advance(&self, bytes: u64);
    /// It is over.
    fn end(&self);
}

/// Progress that nobody watches.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _what: &str, _bytes: u64) {}
    fn advance(&self, _bytes: u64) {}
    fn end(&self) {}
}

/// An opened source with what was found out about it.
pub struct Checked {
    /// The source, for whoever wants to list tensors or metadata.
    pub source: Box<dyn WeightSource>,
    /// What was found.
    pub report: Report,
}

/// Opens what a path stands for and looks at the parts asked for.
pub fn run(registry: &Registry, path: &Path, request: &Request, _progress: &dyn Progress) -> Result<Checked> {
    let source = registry.open(path)?;
    let container = Container {
        format: source.format(),
        dialect: source.dialect(),
        files: source.files().iter().map(|f| (f.name().to_owned(), f.len())).collect(),
        facts: source.facts(),
    };
    let report = Report {
        path: path.display().to_string(),
        container,
        model: Model::default(),
        facts: Vec::new(),
        sections: Vec::new(),
        types: Vec::new(),
        counts: Counts::default(),
        vocabulary: None,
        parts: request.parts.clone(),
        findings: source.findings().to_vec(),
        unchecked: Vec::new(),
    };
    Ok(Checked { source, report })
}
