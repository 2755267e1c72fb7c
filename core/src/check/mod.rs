//! Holds a source against what its architecture implies. Never stops at the first fault.

mod causes;
mod data;
mod fold;
mod kind;
mod likeness;
mod outside;
mod packing;
mod parts;
mod tables;
mod ties;
mod tokenizer;

pub(crate) use data::{DATA_NOT_FINITE, DATA_UNREADABLE, look_at};
#[cfg(feature = "tokenizer")]
pub(crate) use tokenizer::{
    MAX_TOKENIZER_BYTES, TOKENIZER_FILE, TOKENIZER_ID, TOKENIZER_LIST, TOKENIZER_MERGE, TOKENIZER_MODEL,
};

use crate::architecture::{Architecture, ArchitecturePlugin, CHECKED_ONLY};
use crate::bundle::File;
use crate::codes;
use crate::config::{Config, MAX_CONFIG_BYTES};
use crate::dtype::Class;
use crate::error::{Error, Result};
use crate::finding::{Finding, Findings, Part, Severity};
use crate::registry::Registry;
use crate::report::{ARCHITECTURE, Container, Counts, Model, Report, TypeShare, Unchecked};
use crate::source::{Dialect, WeightSource};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

codes! {
    pub static CONFIG_ABSENT = Error, Config, "config-absent",
        "there is no config to check against",
        "The weights of a Hugging Face checkpoint say nothing of their architecture: that stands in config.json \
         beside them. Fetch it, or name one with --config.";
    pub static CONFIG_UNREADABLE = Error, Config, "config-unreadable",
        "the config could not be read",
        "The file is there but could not be opened, or is far too large to be a config.";
    pub static ARCHITECTURE_UNKNOWN = Error, Config, "architecture-unknown",
        "the family of the model is not known",
        "No architecture of this program claims the family that the config names, so there is nothing to check the \
         tensors against. Name a fitting one with --arch, or add the family: one file, as CONTRIBUTING.md tells.";
    pub static NOT_A_LANGUAGE_MODEL = Error, Config, "not-a-language-model",
        "the file is not the weights of a language model",
        "It is an adapter, a projector, a vocabulary, another layout of the same weights or the like, as the message \
         says. Its tensors are listed; there is no architecture to hold them against.";
    pub static FAMILY_CONTRADICTION = Error, Config, "family-contradiction",
        "the config names two families",
        "model_type says one family and architectures another. Readers differ in which of the two they follow, so one \
         file gives two models.";
    pub static NOT_RUN = Warning, Config, "not-run",
        "the model can be checked, but not run",
        "The config asks for something that no forward pass here computes: a kind of rotary scaling, say. Its tensors are \
         held against it all the same.";
    pub static ARCHITECTURE_OVERRIDDEN = Note, Config, "architecture-overridden",
        "the model was checked against another family than it names",
        "The family was given on the command line and differs from the one in the config.";
}

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

/// Everything but the values, held strictly.
impl Default for Request {
    fn default() -> Request {
        let parts = Part::ALL.into_iter().filter(|p| *p != Part::Data).collect();
        Request { parts, architecture: None, config: None, identity: true, must_check: true }
    }
}

impl Request {
    /// Whether a part is wanted.
    pub fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Whether anything is wanted that needs the architecture.
    fn wants_model(&self) -> bool {
        [Part::Config, Part::Names, Part::Shapes, Part::Types, Part::Ties].iter().any(|p| self.wants(*p))
    }

    /// The severity of "could not be checked".
    fn unchecked(&self) -> Severity {
        if self.must_check { Severity::Error } else { Severity::Note }
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
    /// The architecture with its numbers filled in, where the config is sound and the family known.
    pub architecture: Option<Box<dyn Architecture>>,
    /// The hyperparameters, as far as they were looked for and could be read.
    pub config: Option<Config>,
}

/// What an opened source was found to be.
pub struct Examined {
    /// What was found.
    pub report: Report,
    /// The architecture, as in [`Checked`].
    pub architecture: Option<Box<dyn Architecture>>,
    /// The hyperparameters, as there.
    pub config: Option<Config>,
}

/// Opens what a path stands for and looks at the parts asked for.
pub fn run(registry: &Registry, path: &Path, request: &Request, progress: &dyn Progress) -> Result<Checked> {
    let source = registry.open(path)?;
    let Examined { report, architecture, config } =
        examine(registry, source.as_ref(), path, request, progress)?;
    Ok(Checked { source, report, architecture, config })
}

/// Looks at an opened source. Fails only where the request itself is at fault.
pub fn examine(
    registry: &Registry,
    source: &dyn WeightSource,
    path: &Path,
    request: &Request,
    progress: &dyn Progress,
) -> Result<Examined> {
    let mut check = Check::new(source, path, request);
    if let Some(name) = &request.architecture {
        registry.architecture(name)?;
    }
    if let Some(file) = &request.config {
        check.config = Some(config_file(file)?.describing(source.dialect()));
    } else if request.wants_model() || request.wants(Part::Tokenizer) {
        check.find_config(registry);
    }
    let config = check.config.as_ref();
    let known = |c: &Config| request.architecture.is_some() || registry.architecture_of(c).is_some();
    let wrapped = config.is_some_and(|c| c.is_wrapped() && known(c));
    check.report.model.special = kind::special(source, config, wrapped);
    if [Part::Names, Part::Shapes, Part::Types].iter().any(|part| request.wants(*part)) {
        check.add(parts::check(source));
    }
    if request.wants_model() {
        check.against_architecture(registry);
    }
    if let (Some(architecture), true) = (&check.architecture, request.wants(Part::Ties)) {
        let ties = ties::check(source, architecture.as_ref(), registry, request.identity, progress);
        check.copies = ties.copies;
        check.add(ties.findings);
        check.report.unchecked.extend(ties.unchecked);
    }
    check.report.vocabulary = tokenizer::glance(source);
    if request.wants(Part::Tokenizer) {
        let table = check.architecture.as_ref().map(|a| a.tensors());
        let findings = tokenizer::check(source, check.config.as_ref(), table);
        check.add(findings);
        if check.report.vocabulary.is_none() && source.dialect() == Dialect::Gguf {
            check.skip("the vocabulary", "there is none in the file");
        }
    }
    if request.wants(Part::Data) {
        let data = data::check(source, path, registry, progress)?;
        check.add(data.findings);
        check.report.unchecked.extend(data.unchecked);
    }
    Ok(check.finish())
}

/// A config named on the command line; what is wrong with it stops the check, since it was asked for.
pub(crate) fn config_file(path: &Path) -> Result<Config> {
    let shown = path.display().to_string();
    let file = File::on_disk(shown.clone(), path).and_then(|file| file.read_all(MAX_CONFIG_BYTES));
    let config = file.and_then(|text| Config::from_json(shown, &text));
    config.map_err(|e| Error::Usage(format!("--config cannot be used: {e}")))
}

/// A check under way.
struct Check<'a> {
    source: &'a dyn WeightSource,
    request: &'a Request,
    report: Report,
    findings: Findings,
    config: Option<Config>,
    architecture: Option<Box<dyn Architecture>>,
    /// Names of stored tensors that are copies of what they are tied to.
    copies: Vec<String>,
}

impl<'a> Check<'a> {
    fn new(source: &'a dyn WeightSource, path: &Path, request: &'a Request) -> Check<'a> {
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
            types: type_shares(source),
            counts: Counts::default(),
            vocabulary: None,
            outside: Vec::new(),
            likeness: None,
            parts: request.parts.clone(),
            findings: Vec::new(),
            unchecked: Vec::new(),
        };
        let mut check = Check {
            source,
            request,
            report,
            findings: Findings::new(),
            config: None,
            architecture: None,
            copies: Vec::new(),
        };
        check.add(source.findings().to_vec());
        check
    }

    /// Adds findings that keep a wanted part from being looked at, whatever part they belong to themselves.
    fn block(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
    }

    /// Adds findings of the parts that are wanted.
    fn add(&mut self, findings: Vec<Finding>) {
        let request = self.request;
        self.findings.extend(findings.into_iter().filter(|f| request.wants(f.code.part)));
    }

    fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.report.unchecked.push(Unchecked { what: what.into(), why: why.into() });
    }

    /// The config that the source brings along.
    fn find_config(&mut self, registry: &Registry) {
        match self.source.config() {
            Ok(config) => self.config = config,
            Err(Error::Malformed { findings }) => return self.block(findings),
            Err(other) => return self.block(vec![Finding::new(&CONFIG_UNREADABLE, other.to_string())]),
        }
        if self.config.is_none() && self.request.wants_model() {
            let special = kind::special(self.source, None, false);
            let hint = if special.is_some() { String::new() } else { self.liken(registry, None) };
            let message = match special {
                Some(what) => format!("no config.json: this is {what}"),
                None => "no config.json beside the weights".to_owned(),
            };
            let advice = format!("fetch it, or name one with --config{hint}");
            let f = Finding::new(&CONFIG_ABSENT, message).advice(advice);
            self.block(vec![f.severity(self.request.unchecked())]);
        }
    }

    /// Finds the family, derives what it must hold and compares.
    fn against_architecture(&mut self, registry: &Registry) {
        let Some(config) = self.config.take() else {
            self.skip(
                ARCHITECTURE,
                if self.findings.is_empty() { "no config" } else { "no config that can be used" },
            );
            return;
        };
        self.report.model.family = config.family().map(|name| name.chars().take(80).collect());
        self.report.model.config = Some(config.file().to_owned());
        let packing = packing::of(&config, self.source);
        self.report.model.packing = packing.scheme.clone();
        self.add(packing.findings);
        let special = self.report.model.special.clone();
        match self.choose(registry, &config) {
            _ if special.is_some() => {
                let what = special.unwrap_or_default();
                let f = Finding::new(&NOT_A_LANGUAGE_MODEL, format!("this is {what}")).file(config.file());
                self.block(vec![f.severity(self.request.unchecked())]);
                self.skip(ARCHITECTURE, "not the weights of a language model");
            }
            None => self.unknown(registry, &config),
            Some(plugin) if packing.packed => {
                self.report.model.architecture = Some(plugin.name);
                let scheme = packing.scheme.unwrap_or_default();
                let f = Finding::new(&packing::PACKED, format!("the weights are packed ({scheme})"));
                let f = f.advice("they are listed as stored and not held against the architecture");
                self.block(vec![f.severity(self.request.unchecked())]);
                self.skip(ARCHITECTURE, format!("packed weights: {scheme}"));
            }
            Some(plugin) => self.build(registry, plugin, &config),
        }
        self.report.facts = config.facts();
        self.config = Some(config);
    }

    fn choose(&mut self, registry: &Registry, config: &Config) -> Option<&'static ArchitecturePlugin> {
        let own = registry.architecture_of(config);
        let Some(name) = &self.request.architecture else { return own };
        let chosen = registry.architecture(name).ok()?;
        if own.is_none_or(|own| own.name != chosen.name) {
            let family = config.family().unwrap_or("nothing").to_owned();
            let message =
                format!("checked as {} because --arch says so; the config says {family}", chosen.name);
            self.add(vec![Finding::new(&ARCHITECTURE_OVERRIDDEN, message)]);
        }
        Some(chosen)
    }

    fn unknown(&mut self, registry: &Registry, config: &Config) {
        let nested = "text_config.model_type";
        let key = match config.dialect() {
            Dialect::Hf if config.is_wrapped() && config.entries().get(nested).is_some() => nested,
            Dialect::Hf => "model_type",
            Dialect::Gguf => "general.architecture",
        };
        let classes = config.classes();
        let said = match (config.entries().get(key), classes.is_empty()) {
            (Some(value), _) => format!("{key} is {value}"),
            (None, false) => format!("architectures is {}", classes.join(", ")),
            (None, true) => format!("{key} is absent"),
        };
        let named = registry.architectures().iter().find(|a| a.named_by(config));
        let what = match named {
            Some(plugin) => format!("{} is known, but not in this form", plugin.name),
            None => "no architecture of this program is it".to_owned(),
        };
        let known: Vec<&str> = registry.architectures().iter().map(|a| a.name).collect();
        let hint = self.liken(registry, Some(config));
        let f = Finding::new(&ARCHITECTURE_UNKNOWN, format!("{said}: {what}")).file(config.file()).field(key);
        let f = f.advice(format!("known: {}; --arch checks against one of them{hint}", known.join(", ")));
        self.block(vec![f.severity(self.request.unchecked())]);
        self.skip(ARCHITECTURE, format!("{said}, not known"));
        self.add(config.findings());
    }

    /// Notes what can be told of a model without an architecture, and gives what to add to an advice.
    fn liken(&mut self, registry: &Registry, config: Option<&Config>) -> String {
        if self.report.model.packing.is_some() {
            return String::new(); // The stored tensors are no matrices of the model.
        }
        self.report.likeness = likeness::of(self.source, config, registry);
        let nearest = self.report.likeness.as_ref().and_then(|l| l.nearest.as_ref());
        nearest.map(|nearest| format!("; {}", likeness::hint(nearest))).unwrap_or_default()
    }

    fn build(&mut self, registry: &Registry, plugin: &'static ArchitecturePlugin, config: &Config) {
        self.report.model.architecture = Some(plugin.name);
        let built = plugin.fit(config, self.source);
        self.add(self.contradiction(registry, plugin, config));
        match built {
            Err(Error::Malformed { .. }) => {
                self.block(other_prefix(config).unwrap_or_else(|| config.findings()));
                self.skip("tensors", "the config has to be right first");
            }
            Err(other) => self.block(vec![Finding::new(&CONFIG_UNREADABLE, other.to_string())]),
            Ok(architecture) => {
                self.add(config.findings());
                self.add(config.defaults().into_iter().collect());
                if let Err(why) = architecture.decoder() {
                    let f = Finding::new(&NOT_RUN, format!("it can be checked, but not run: {why}"));
                    let known = why == CHECKED_ONLY;
                    let severity = if known { Severity::Note } else { Severity::Warning };
                    self.add(vec![f.file(config.file()).severity(severity)]);
                }
                let differences = tables::compare(architecture.tensors(), self.source);
                self.report.outside = outside::parts(architecture.tensors(), &differences.outside);
                self.add(outside::note(architecture.tensors(), &self.report.outside).into_iter().collect());
                let by_hand = self.request.architecture.is_some();
                let others = causes::Others { registry, plugin, config, by_hand };
                let shards: Vec<Finding> = std::mem::take(&mut self.findings).into_vec();
                let explained =
                    causes::explain(differences, architecture.tensors(), self.source, &others, shards);
                self.add(explained);
                self.architecture = Some(architecture);
            }
        }
    }

    /// `model_type` and `architectures` that name two families.
    fn contradiction(
        &self,
        registry: &Registry,
        plugin: &ArchitecturePlugin,
        config: &Config,
    ) -> Vec<Finding> {
        let classes = config.classes();
        let owner =
            |class: &String| registry.architectures().iter().find(|a| a.classes.contains(&class.as_str()));
        let others = classes.iter().filter_map(|class| Some((class, owner(class)?)));
        let strange = others.filter(|(_, owner)| owner.name != plugin.name && plugin.named_by(config));
        strange
            .map(|(class, owner)| {
                let family = config.family().unwrap_or_default();
                let message =
                    format!("model_type is \"{family}\", but architectures names {class} of {}", owner.name);
                let f =
                    Finding::new(&FAMILY_CONTRADICTION, message).file(config.file()).field("architectures");
                f.advice("keep the one that fits the tensors")
            })
            .collect()
    }

    fn finish(mut self) -> Examined {
        let table = self.architecture.as_ref().map(|a| a.tensors());
        self.report.sections = fold::sections(self.source, table, &self.copies);
        self.report.counts = counts(self.source, table, &self.copies);
        let gguf = self.source.dialect() == Dialect::Gguf;
        let left_out: Vec<&str> = Part::ALL
            .into_iter()
            .filter(|p| ![Part::Tokenizer, Part::Data].contains(p) && !self.request.wants(*p))
            .map(Part::word)
            .collect();
        if !left_out.is_empty() {
            self.skip(left_out.join(", "), "left out");
        }
        if !self.request.wants(Part::Tokenizer) && (gguf || self.report.vocabulary.is_some()) {
            self.skip("the vocabulary", if self.request.must_check { "left out" } else { "use check" });
        }
        if !self.request.wants(Part::Data) {
            self.skip("tensor values", "use check --data");
        }
        let mut findings = self.findings.into_vec();
        findings.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.code.part));
        self.report.findings = findings;
        Examined { report: self.report, architecture: self.architecture, config: self.config }
    }
}

/// A GGUF file whose keys all begin with the name of another family than the one it claims to be.
fn other_prefix(config: &Config) -> Option<Vec<Finding>> {
    let family = config.family().filter(|_| config.dialect() == Dialect::Gguf)?;
    let counted = |prefix: &str| config.entries().get(&format!("{prefix}.block_count")).is_some();
    let other = config.entries().entries().iter().find_map(|e| e.key.strip_suffix(".block_count"))?;
    if counted(family) {
        return None;
    }
    let message = format!("general.architecture is \"{family}\", but the keys begin with \"{other}.\"");
    let f = Finding::new(&FAMILY_CONTRADICTION, message).file(config.file()).field("general.architecture");
    let f = f.advice("convert the model again, or hand over its config.json with --config");
    Some(vec![f.because_of_this(config.findings())])
}

fn type_shares(source: &dyn WeightSource) -> Vec<TypeShare> {
    let mut shares: BTreeMap<String, TypeShare> = BTreeMap::new();
    for tensor in source.tensors().tensors() {
        let name = tensor.dtype.to_string();
        let share = shares.entry(name.clone()).or_insert(TypeShare {
            dtype: name,
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        share.tensors = share.tensors.saturating_add(1);
        share.elements = share.elements.saturating_add(tensor.elements());
        share.bytes = share.bytes.saturating_add(tensor.byte_len());
    }
    let mut shares: Vec<TypeShare> = shares.into_values().collect();
    shares.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.dtype.cmp(&b.dtype)));
    shares
}

/// Whole numbers and switches are tables (token maps, shapes), not parameters.
fn holds_parameters(tensor: &crate::index::TensorInfo) -> bool {
    let class = tensor.dtype.known().map(|d| d.class());
    !matches!(class, Some(Class::Integer | Class::Bool))
}

fn counts(source: &dyn WeightSource, table: Option<&crate::table::TensorTable>, copies: &[String]) -> Counts {
    let tensors = source.tensors();
    let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0u64, |sum, n| sum.saturating_add(n));
    let stored = sum(&mut tensors.tensors().iter().filter(|t| holds_parameters(t)).map(|t| t.elements()));
    let mut counts = Counts {
        tensors: tensors.len(),
        bytes: sum(&mut tensors.tensors().iter().map(|t| t.byte_len())),
        stored,
        ..Counts::default()
    };
    if let Some(table) = table {
        use crate::table::{Absence, Use};
        let present = || table.named(source.dialect()).filter_map(|s| Some((tensors.get(&s.name)?, s.row)));
        let twice = sum(&mut copies.iter().filter_map(|name| tensors.get(name)).map(|t| t.elements()));
        let helpers =
            sum(&mut present().filter(|(_, row)| row.usage == Use::Helper).map(|(t, _)| t.elements()));
        let outside = |t: &&crate::index::TensorInfo| table.is_outside(&t.name) && holds_parameters(t);
        let others = sum(&mut tensors.tensors().iter().filter(outside).map(|t| t.elements()));
        let own = stored.saturating_sub(others);
        counts.logical = Some(own.saturating_sub(twice).saturating_sub(helpers));
        let asked =
            |s: &crate::table::Stored<'_>| s.row.absence == Absence::Fault || tensors.get(&s.name).is_some();
        // Where one is missing, or goes by another name, nobody knows how many elements there are.
        let all = table.named(source.dialect()).filter(asked);
        let mut embeddings = all.filter(|s| s.row.usage == Use::Embedding).map(|s| tensors.get(&s.name));
        counts.embedding = embeddings.try_fold(0u64, |sum, t| Some(sum.saturating_add(t?.elements())));
        counts.expected = Some(table.named(source.dialect()).filter(asked).count());
    }
    counts
}
