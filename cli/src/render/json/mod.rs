//! JSON for programs. The form is told by `docs/report.schema.json`; a change that breaks a reader gets a new
//! `schema_version`.

pub mod arch;
pub mod bench;
pub mod compute;
pub mod diff;
mod emitter;
pub mod generate;
pub mod hash;
pub mod kernel_check;
pub mod kernels;
pub mod memory;
mod parts;
pub mod runs;
pub mod show;
pub mod stats;
pub mod tokens;

pub use emitter::Emitter;

use super::listing::Listing;
use super::{Outcome, code_of, fails};
use crate::terminal::Screen;
use scantling_core::check::Checked;
use scantling_core::error::Error;
use scantling_core::finding::{Code, Severity};
use scantling_core::registry::Registry;
use scantling_core::report::Report;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Version of the form.
pub const SCHEMA_VERSION: u32 = 1;

/// What of a model goes into the document.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The list of each tensor.
    pub listing: Option<&'a Listing>,
    /// Whether the metadata goes in.
    pub metadata: bool,
    /// Whether long lists of it go in whole.
    pub full: bool,
    /// The severity that makes a model fail.
    pub fail_on: Option<Severity>,
}

/// A list whose elements are made one after the other, so that they are never held together.
pub struct Each<F>(pub F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A document, begun.
pub fn begin<'s, 'a>(screen: &'s mut Screen<'a>) -> Emitter<'s, 'a> {
    let mut out = Emitter::new(screen);
    out.put("schema_version", &json!(SCHEMA_VERSION));
    out.put("tool", &json!({"name": "scantling", "version": env!("CARGO_PKG_VERSION")}));
    out
}

/// The document of an inspection.
pub fn inspect(screen: &mut Screen<'_>, outcome: &Outcome, options: Options<'_>) {
    let mut out = begin(screen);
    out.object("model");
    model(&mut out, outcome, options);
    out.finish();
}

/// The members of a model's object.
pub fn model(out: &mut Emitter<'_, '_>, outcome: &Outcome, options: Options<'_>) {
    out.put("path", &json!(outcome.shown_path()));
    match &outcome.result {
        Ok(checked) => found(out, checked, options),
        Err(error) => out.put("error", &error_value(error)),
    }
}

fn found(out: &mut Emitter<'_, '_>, checked: &Checked, options: Options<'_>) {
    let report = &checked.report;
    out.put("container", &parts::container(&report.container));
    out.put("model", &parts::model(&report.model));
    out.put_all("dimensions", report.facts.iter().map(parts::fact));
    out.put_all("sections", report.sections.iter().map(parts::Rows));
    out.put_all("types", report.types.iter().map(parts::share));
    out.put("counts", &parts::counts(&report.counts));
    out.put("vocabulary", &report.vocabulary.as_ref().map_or(Value::Null, parts::vocabulary));
    out.put_all("outside", report.outside.iter().map(parts::outside));
    out.put("likeness", &report.likeness.as_ref().map_or(Value::Null, parts::likeness));
    if let Some(listing) = options.listing {
        let source = checked.source.as_ref();
        let all = source.tensors().tensors();
        let shown = listing.of(all);
        out.put("tensors_hidden", &json!(all.len().saturating_sub(shown.len())));
        out.put_all("tensors", shown.into_iter().map(|t| parts::tensor(source.files(), t)));
    }
    if options.metadata {
        let entries = checked.source.metadata().entries();
        out.put_all("metadata", entries.iter().map(|e| parts::entry(e, options.full)));
    }
    out.put("parts", &Each(|| report.parts.iter().map(|p| p.word())));
    out.put_all("findings", report.findings.iter().map(parts::finding));
    out.put_all("unchecked", report.unchecked.iter().map(|u| json!({"what": u.what, "why": u.why})));
    out.put("verdict", &verdict(report, options.fail_on));
}

fn verdict(report: &Report, fail_on: Option<Severity>) -> Value {
    json!({
        "ok": !fails(report.worst(), fail_on),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
    })
}

fn error_value(error: &Error) -> Value {
    let kind = match error {
        Error::Io { .. } => "io",
        Error::Malformed { .. } => "malformed",
        Error::Foreign { .. } => "foreign",
        Error::Limit { .. } => "limit",
        Error::Usage(_) => "usage",
        _ => "other",
    };
    let findings: Vec<Value> = match error {
        Error::Malformed { findings } => findings.iter().map(parts::finding).collect(),
        _ => Vec::new(),
    };
    json!({
        "kind": kind,
        "exit_code": code_of(error),
        "message": error.to_string(),
        "findings": findings,
    })
}

/// The plugins of the program.
pub fn plugins(screen: &mut Screen<'_>, registry: &Registry) {
    let mut out = begin(screen);
    let formats = registry.formats().iter();
    out.put_all(
        "formats",
        formats.map(|p| json!({"name": p.name, "summary": p.summary, "extensions": p.extensions})),
    );
    out.put_all("architectures", registry.architectures().iter().map(|p| arch::plugin(p)));
    out.put_all("kernels", registry.standings().iter().map(kernels::standing));
    out.finish();
}

/// Codes with their explanations.
pub fn codes(screen: &mut Screen<'_>, codes: &[&'static Code]) {
    let mut out = begin(screen);
    let values = codes.iter().map(|c| {
        json!({
            "code": c.id,
            "severity": c.severity.word(),
            "part": c.part.word(),
            "title": c.title,
            "explanation": c.explain,
        })
    });
    out.put_all("codes", values);
    out.finish();
}
