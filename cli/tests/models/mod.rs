//! What the tests of whole models share: models made by the generator, and checks run through the library.

#![allow(
    dead_code,
    clippy::print_stdout,
    reason = "each test program uses a part of it; tests say what they skip"
)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

#[path = "../../examples/make-model/make/mod.rs"]
pub mod make;

use make::{Model, Tensor};
use scantling_architectures as _;
use scantling_core::check::{self, Checked, Request, Silent};
use scantling_core::config::Config;
use scantling_core::finding::{Finding, Part, Severity};
use scantling_core::registry::Registry;
use scantling_core::report::Report;
use scantling_core::source::FormatPlugin;
use scantling_formats as _;
use scantling_kernels as _;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// Every plugin of the workspace.
pub fn registry() -> Registry {
    Registry::linked().unwrap()
}

/// A format by its name.
pub fn format(name: &str) -> &'static FormatPlugin {
    registry().formats().iter().copied().find(|f| f.name == name).unwrap()
}

/// A file or folder of the repository's test data.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

/// A folder named by the environment; says what is skipped if it is not.
pub fn folder_from(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: {variable} is not set");
    }
    folder
}

/// A config of the test data, with some keys changed.
pub fn config_with(name: &str, changes: &[(&str, Json)]) -> Vec<u8> {
    let text = std::fs::read(testdata("configs").join(name)).unwrap();
    let mut json: Json = serde_json::from_slice(&text).unwrap();
    for (key, value) in changes {
        json[*key] = value.clone();
    }
    json.to_string().into_bytes()
}

/// A config from its text.
pub fn config(text: &[u8]) -> Config {
    Config::from_json("config.json", text).unwrap()
}

/// What `scantling check` looks at.
pub fn request() -> Request {
    let parts = Part::ALL.into_iter().filter(|p| *p != Part::Data).collect();
    Request { parts, architecture: None, config: None, identity: true, must_check: true }
}

/// Checks a model.
pub fn run(path: &Path, request: &Request) -> Checked {
    check::run(&registry(), path, request, &Silent).unwrap()
}

/// The errors of a report, in words.
pub fn errors(report: &Report) -> Vec<String> {
    let errors = report.findings.iter().filter(|f| f.severity == Severity::Error);
    errors.map(|f| format!("{}: {f}", f.code.id)).collect()
}

/// Whether a finding, or one that follows from it, is about a tensor.
pub fn names(finding: &Finding, tensor: &str) -> bool {
    finding.place.tensor.as_deref() == Some(tensor) || finding.symptoms.iter().any(|s| names(s, tensor))
}

/// The tensor of a model.
pub fn tensor<'m>(model: &'m mut Model, name: &str) -> &'m mut Tensor {
    model.tensors.iter_mut().find(|t| t.spec.name == name).unwrap()
}

/// Leaves a tensor of a model out.
pub fn remove(model: &mut Model, name: &str) {
    let before = model.tensors.len();
    model.tensors.retain(|t| t.spec.name != name);
    assert_eq!(model.tensors.len() + 1, before, "{name}");
}
