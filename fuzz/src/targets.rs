//! One function of bytes for each way in. None may panic, whatever the bytes, and each looks at all that it gets.

use crate::folder;
use crate::mutate;
use crate::outcome::Outcome;
use crate::seeds;
use scantling_architectures as _;
use scantling_core::bundle::{Bundle, Folder};
use scantling_core::check::{self, Request, Silent};
use scantling_core::error::Result;
use scantling_core::finding::{Part, Severity};
use scantling_core::index::TensorInfo;
use scantling_core::metadata::{Item, Metadata, Value};
use scantling_core::packed::Packed;
use scantling_core::registry::Registry;
use scantling_core::source::{FormatPlugin, Plan, TensorSpec, WeightSource};
use scantling_formats as _;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A way in.
pub struct Target {
    /// Its name, as options and file names have it.
    pub name: &'static str,
    /// What to do with an input.
    pub run: fn(&[u8]) -> Outcome,
    /// Good inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes the parts of an input fit each other again, where a change would otherwise end the reading early.
    pub repair: fn(&mut [u8]),
}

/// All of them.
pub static TARGETS: [Target; 7] = [
    Target {
        name: "safetensors",
        run: safetensors,
        seeds: seeds::safetensors,
        repair: |input| mutate::repair_header(input, 0),
    },
    Target { name: "gguf", run: gguf, seeds: seeds::gguf, repair: |_| {} },
    Target { name: "gguf_model", run: gguf_model, seeds: seeds::gguf_model, repair: |_| {} },
    Target { name: "index_config", run: index_config, seeds: seeds::index_config, repair: folder::repair },
    Target { name: "index_text", run: index_text, seeds: seeds::index_text, repair: |_| {} },
    Target {
        name: "rewrite",
        run: rewrite,
        seeds: seeds::rewrite,
        repair: |input| mutate::repair_header(input, 0),
    },
    Target { name: "tokenizer", run: tokenizer, seeds: seeds::tokenizer, repair: |_| {} },
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The plugins, gathered once.
///
/// # Panics
/// If there are none: then nothing at all could be tested.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::linked().expect("the plugin crates are named in this module"))
}

/// The input is a `.safetensors` file: opened, and everything listed.
pub fn safetensors(input: &[u8]) -> Outcome {
    one_file("model.safetensors", input)
}

/// The input is a `.gguf` file: opened, and everything listed, lists included.
pub fn gguf(input: &[u8]) -> Outcome {
    one_file("model.gguf", input)
}

/// The input is a `.gguf` file: opened, and all of it checked, values included.
pub fn gguf_model(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    match open_file("model.gguf", input) {
        Ok(source) => examine(source.as_ref(), &Part::ALL, &mut outcome),
        Err(e) => outcome.error(&e),
    }
    outcome
}

/// The input is a folder (see [`folder`]): opened as one, listed, and all of it checked. A folder that cannot be
/// opened is opened by each of its files instead.
pub fn index_config(input: &[u8]) -> Outcome {
    let files: BTreeMap<String, Arc<[u8]>> =
        folder::files(input).map(|(name, content)| (name, Arc::from(content))).collect();
    let files = Arc::new(files);
    let memory = Folder::Memory(files.clone());
    let mut outcome = Outcome::default();
    let mut look_at = |opened: Result<Box<dyn WeightSource>>| match opened {
        Ok(source) => {
            list(source.as_ref(), &mut outcome);
            examine(source.as_ref(), &Part::ALL, &mut outcome);
            true
        }
        Err(e) => {
            outcome.error(&e);
            false
        }
    };
    if !look_at(registry().open_folder("model", memory.clone())) {
        for name in files.keys().take(8) {
            let bundle = Bundle::in_folder(memory.clone(), name);
            look_at(bundle.and_then(|bundle| registry().open_bundle(&bundle)));
        }
    }
    outcome
}

/// The input is an index and a config, parted by a NUL: the two texts alone, beside one shard that is always the
/// same, so that far more of them can be tried than of whole folders.
pub fn index_text(input: &[u8]) -> Outcome {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let mut outcome = Outcome::default();
    let mut files: Vec<(String, Vec<u8>)> = vec![(seeds::SHARD_1.to_owned(), seeds::SHARD.to_vec())];
    for name in ["model.safetensors.index.json", "config.json"] {
        files.extend(parts.next().map(|text| (name.to_owned(), text.to_vec())));
    }
    let bundle = Bundle::in_memory("model.safetensors.index.json", files);
    match bundle.and_then(|bundle| registry().open_bundle(&bundle)) {
        Ok(source) => {
            let parts = [Part::Container, Part::Shards, Part::Config, Part::Names, Part::Shapes, Part::Types];
            examine(source.as_ref(), &parts, &mut outcome);
        }
        Err(e) => outcome.error(&e),
    }
    outcome
}

/// The input is a file of any format: opened, and what it holds laid out anew in every format that can be
/// written. What is laid out has to read back without a fault, as it was.
pub fn rewrite(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let source = match open_file("model", input) {
        Ok(source) => source,
        Err(e) => {
            outcome.error(&e);
            return outcome;
        }
    };
    let spec = |tensor: &TensorInfo| {
        Some(TensorSpec {
            name: tensor.name.clone(),
            dtype: tensor.dtype.known()?,
            shape: tensor.shape.clone(),
        })
    };
    let specs: Vec<TensorSpec> = source.tensors().tensors().iter().filter_map(spec).collect();
    for format in registry().formats() {
        for metadata in [source.metadata(), &Metadata::default()] {
            match format.plan.map(|plan| plan(metadata, &specs)) {
                Some(Ok(plan)) => reads_back(format, &plan, &specs, metadata, &mut outcome),
                Some(Err(e)) => outcome.error(&e),
                None => {}
            }
        }
    }
    outcome
}

/// Longest file that is made of a plan.
const PLANNED: u64 = 1 << 20;

/// Makes a file of a plan, with nothing but zeros for data, and holds it against what was planned.
fn reads_back(
    format: &FormatPlugin,
    plan: &Plan,
    specs: &[TensorSpec],
    metadata: &Metadata,
    outcome: &mut Outcome,
) {
    outcome.add("planned", format.name);
    let mut bytes = plan.header.clone();
    assert!(plan.len >= bytes.len() as u64, "a file is no shorter than its header");
    if plan.len > PLANNED {
        return;
    }
    bytes.resize(plan.len as usize, 0);
    let name = format!("model.{}", format.extensions.first().unwrap_or(&format.name));
    let opened = Bundle::in_memory(&name, [(name.clone(), bytes)]).and_then(|bundle| (format.open)(&bundle));
    let source = match opened {
        Ok(source) => source,
        Err(e) => panic!("what was planned cannot be opened: {e}"),
    };
    for finding in source.findings() {
        assert!(finding.severity < Severity::Error, "what was planned has a fault: {finding}");
        outcome.finding(finding);
    }
    assert_eq!(source.tensors().len(), specs.len(), "as many tensors as were planned");
    assert_eq!(source.metadata().len(), metadata.len(), "as many keys as were planned");
    for (spec, offset) in specs.iter().zip(&plan.offsets) {
        let tensor = source.tensors().get(&spec.name).expect("every tensor that was planned");
        assert_eq!(tensor.dtype.known(), Some(spec.dtype), "the type that was planned");
        assert_eq!(tensor.shape, spec.shape, "the shape that was planned");
        assert_eq!(
            tensor.bytes.as_ref().map(|range| range.start),
            Some(*offset),
            "the place that was planned"
        );
    }
}

/// The input is a vocabulary: in a `.gguf` file if it begins like one, or else a `tokenizer.json` beside a
/// small model.
pub fn tokenizer(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let opened = if input.starts_with(b"GGUF") {
        open_file("model.gguf", input)
    } else {
        static MODEL: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
        let (config, weights) = MODEL.get_or_init(seeds::model);
        let files = [
            ("model.safetensors".to_owned(), weights.clone()),
            ("config.json".to_owned(), config.clone()),
            ("tokenizer.json".to_owned(), input.to_owned()),
        ];
        Bundle::in_memory("model.safetensors", files).and_then(|bundle| registry().open_bundle(&bundle))
    };
    match opened {
        Ok(source) => examine(source.as_ref(), &[Part::Tokenizer], &mut outcome),
        Err(e) => outcome.error(&e),
    }
    outcome
}

fn open_file(name: &str, input: &[u8]) -> Result<Box<dyn WeightSource>> {
    let bundle = Bundle::in_memory(name, [(name.to_owned(), input.to_owned())])?;
    registry().open_bundle(&bundle)
}

fn one_file(name: &str, input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    match open_file(name, input) {
        Ok(source) => list(source.as_ref(), &mut outcome),
        Err(e) => outcome.error(&e),
    }
    outcome
}

/// Asks a source for everything it can tell.
fn list(source: &dyn WeightSource, outcome: &mut Outcome) {
    outcome.add_text("format", &source.format());
    outcome.add("dialect", &format!("{:?}", source.dialect()));
    outcome.count("files", source.files().len() as u64);
    source.facts().iter().for_each(|(fact, _)| outcome.add("fact", fact));
    source.findings().iter().for_each(|finding| outcome.finding(finding));
    outcome.count("tensors", source.tensors().len() as u64);
    for tensor in source.tensors().tensors() {
        outcome.count("axes", tensor.shape.len() as u64);
        outcome.count("elements", tensor.elements());
        if let Some(dtype) = tensor.dtype.known() {
            outcome.add_text("type", dtype.name());
        }
        assert!(source.tensors().get(&tensor.name).is_some(), "a listed tensor is found by its name");
        match source.bytes(tensor) {
            Ok(bytes) => {
                assert_eq!(bytes.len() as u64, tensor.byte_len(), "a tensor has the bytes it says");
                std::hint::black_box(bytes.iter().fold(0u8, |sum, &b| sum.wrapping_add(b)));
            }
            Err(e) => outcome.error(&e),
        }
        match source.packed(tensor) {
            Ok(packed) => packed.iter().for_each(|packed| widen(packed.as_ref(), outcome)),
            Err(e) => outcome.error(&e),
        }
    }
    metadata(source.metadata(), outcome);
    match source.config() {
        Ok(Some(config)) => {
            outcome.add_text("config", config.family().unwrap_or_default().get(..8).unwrap_or_default());
            outcome.count("classes", config.classes().len() as u64);
            metadata(config.entries(), outcome);
            config.findings().iter().for_each(|finding| outcome.finding(finding));
        }
        Ok(None) => outcome.add("config", "none"),
        Err(e) => outcome.error(&e),
    }
    match source.beside("tokenizer.json") {
        Ok(file) => outcome.count("beside", file.map_or(0, |f| f.len())),
        Err(e) => outcome.error(&e),
    }
}

/// Widens the first and the last row of a packed weight, as far as they are of a size that there is.
fn widen(packed: &dyn Packed, outcome: &mut Outcome) {
    const WIDEST: usize = 1 << 16;
    outcome.count("packed", packed.bytes());
    let (rows, cols) = (packed.rows(), packed.cols());
    if (1..=WIDEST).contains(&cols) && rows > 0 {
        for first in [0, rows - 1] {
            packed.widen(first, &mut vec![0.0; cols]);
        }
    }
}

/// Elements of each list that are visited.
const VISITED: usize = 1000;

fn metadata(metadata: &Metadata, outcome: &mut Outcome) {
    outcome.count("keys", metadata.len() as u64);
    for entry in metadata.entries() {
        std::hint::black_box(entry.value.to_string());
        outcome.add_text("kind", entry.value.kind());
        visit(&entry.value, &mut VISITED.clone(), 0, outcome);
    }
}

/// Visits a list and the lists in it, until the budget is spent.
fn visit(value: &Value, budget: &mut usize, depth: u64, outcome: &mut Outcome) {
    let Value::List(list) = value else { return };
    outcome.count("depth", depth);
    let kind = list.kind();
    outcome.add_text("list of", kind.get(..8).unwrap_or(kind));
    let mut inner = Vec::new();
    let visited = list.visit(&mut |_, item| {
        if *budget == 0 {
            return ControlFlow::Break(());
        }
        *budget = budget.saturating_sub(1);
        match item {
            Item::Other(value @ Value::List(_)) => inner.push(value),
            other => {
                std::hint::black_box(other.into_value());
            }
        }
        ControlFlow::Continue(())
    });
    if let Err(e) = visited {
        outcome.error(&e);
    }
    inner.iter().for_each(|value| visit(value, budget, depth.saturating_add(1), outcome));
}

/// Checks a source. The request asks for nothing that could be refused.
fn examine(source: &dyn WeightSource, parts: &[Part], outcome: &mut Outcome) {
    let request =
        Request { parts: parts.to_vec(), architecture: None, config: None, identity: true, must_check: true };
    match check::examine(registry(), source, Path::new("model"), &request, &Silent) {
        Ok(check::Examined { report, .. }) => {
            outcome.add("architecture", report.model.architecture.unwrap_or("none"));
            outcome.count("expected", report.counts.expected.unwrap_or(0) as u64);
            outcome.count("logical", report.counts.logical.unwrap_or(0));
            outcome.count("sections", report.sections.len() as u64);
            outcome.count("facts", report.facts.len() as u64);
            outcome.count("unchecked", report.unchecked.len() as u64);
            outcome.add("vocabulary", if report.vocabulary.is_some() { "some" } else { "none" });
            report.findings.iter().for_each(|finding| outcome.finding(finding));
        }
        Err(e) => outcome.error(&e),
    }
}
