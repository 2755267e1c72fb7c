//! What a family must hold for a config, told without any weights.

use crate::architecture::{Architecture, ArchitecturePlugin};
use crate::check::{self, ARCHITECTURE_OVERRIDDEN};
use crate::config::{Config, Fact};
use crate::error::{Error, Result};
use crate::finding::{Finding, Findings};
use crate::index::TensorIndex;
use crate::registry::Registry;
use crate::source::Dialect;
use crate::table::{Absence, Expected, TensorTable, Use};
use std::collections::HashMap;
use std::path::Path;

/// What follows from a config.
pub struct Derived {
    /// The family.
    pub plugin: &'static ArchitecturePlugin,
    /// The file that the hyperparameters are in.
    pub config: String,
    /// Every hyperparameter that was asked for.
    pub facts: Vec<Fact>,
    /// What is wrong with the config, and what is worth knowing of it.
    pub findings: Vec<Finding>,
    architecture: Option<Box<dyn Architecture>>,
}

/// Builds the family of this name, or else the one that the config names, for a `config.json`.
///
/// # Errors
/// [`Error::Usage`] where the config cannot be read, or its family is neither given nor known. What is wrong with
/// hyperparameters are findings.
pub fn of(registry: &Registry, name: Option<&str>, file: &Path) -> Result<Derived> {
    let config = check::config_file(file)?;
    let own = registry.architecture_of(&config);
    let plugin = match name {
        Some(name) => registry.architecture(name)?,
        None => own.ok_or_else(|| unknown(registry, &config))?,
    };
    let built = (plugin.build)(&config, &TensorIndex::default());
    let mut findings = Findings::new();
    if own.is_none_or(|own| own.name != plugin.name) {
        let family = config.family().unwrap_or("nothing");
        let message = format!("told as {}; the config says {family}", plugin.name);
        findings.push(Finding::new(&ARCHITECTURE_OVERRIDDEN, message));
    }
    findings.extend(config.findings());
    let architecture = match built {
        Ok(architecture) => Some(architecture),
        Err(Error::Malformed { .. }) => None, // What the config found stands in its findings.
        Err(other) => return Err(other),
    };
    if architecture.is_some() {
        findings.extend(config.defaults());
    }
    let (config, facts) = (config.file().to_owned(), config.facts());
    Ok(Derived { plugin, config, facts, findings: findings.into_vec(), architecture })
}

pub(crate) fn unknown(registry: &Registry, config: &Config) -> Error {
    let family = config.family().map_or_else(|| "no family".to_owned(), |f| format!("\"{f}\""));
    let known: Vec<&str> = registry.architectures().iter().map(|a| a.name).collect();
    let (file, known) = (config.file(), known.join(", "));
    Error::Usage(format!(
        "{file} names {family}, which is not known: name one before --config; known: {known}"
    ))
}

impl Derived {
    /// Its tensors, where the config is sound.
    pub fn table(&self) -> Option<&TensorTable> {
        self.architecture.as_ref().map(|a| a.tensors())
    }
}

/// Rows of a table that are alike but for their layer.
#[derive(Clone, Debug)]
pub struct Kind<'t> {
    /// The first of them.
    pub row: &'t Expected,
    /// Its place in the table.
    pub at: usize,
    /// The layers they are of, ascending; empty for one of no layer.
    pub layers: Vec<usize>,
}

/// The rows of a table, those of layers that are alike as one, in the order of the first of each.
pub fn kinds(table: &TensorTable) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut of: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (at, row) in table.rows().iter().enumerate() {
        let alike = of.entry((row.hf, row.gguf)).or_default();
        let same =
            alike.iter().copied().find(|&at| kinds.get(at).is_some_and(|kind| are_alike(kind.row, row)));
        match same.and_then(|at| kinds.get_mut(at)) {
            Some(kind) => kind.layers.extend(row.layer),
            None => {
                alike.push(kinds.len());
                kinds.push(Kind { row, at, layers: row.layer.into_iter().collect() });
            }
        }
    }
    kinds
}

fn are_alike(a: &Expected, b: &Expected) -> bool {
    let how = |row: &Expected| (row.conversion, row.used, row.usage, row.absence);
    a.layer.is_some() == b.layer.is_some() && how(a) == how(b) && a.shape == b.shape
}

/// What a table comes to in one of the two worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tensors that must be there.
    pub tensors: usize,
    /// Tensors that may be missing, or that another stands in for.
    pub optional: usize,
    /// Elements of those that must be there.
    pub parameters: u64,
}

/// Adds up a table as one of the two worlds has it.
pub fn totals(table: &TensorTable, dialect: Dialect) -> Totals {
    let mut totals = Totals::default();
    for row in table.rows().iter().filter(|row| !row.local_name(dialect).is_empty()) {
        let tensors = row.parts(dialect).unwrap_or(1);
        if row.absence == Absence::Fault && row.usage != Use::Helper {
            totals.tensors = totals.tensors.saturating_add(tensors);
            totals.parameters = totals.parameters.saturating_add(row.elements());
        } else {
            totals.optional = totals.optional.saturating_add(tensors);
        }
    }
    totals
}
