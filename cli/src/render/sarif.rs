//! SARIF 2.1.0, for code scanning: codes are its rules, findings its results.

use super::Outcome;
use super::json::Emitter;
use crate::terminal::Screen;
use scantling_core::error::Error;
use scantling_core::finding::{Code, Finding, Severity};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

/// Symptoms that a result names.
const RELATED: usize = 20;

/// A log of one run, written as the models are looked at.
pub struct Log<'s, 'a> {
    out: Emitter<'s, 'a>,
    codes: Vec<&'static str>,
    /// Errors that kept a model from being looked at.
    failures: Vec<Value>,
}

impl<'s, 'a> Log<'s, 'a> {
    /// Begins the log: the tool and its rules.
    pub fn begin(screen: &'s mut Screen<'a>, codes: &[&'static Code]) -> Log<'s, 'a> {
        let mut out = Emitter::new(screen);
        out.put("$schema", &json!("https://json.schemastore.org/sarif-2.1.0.json"));
        out.put("version", &json!("2.1.0"));
        out.list("runs");
        out.item_object();
        out.object("tool");
        out.object("driver");
        out.put("name", &json!("scantling"));
        out.put("version", &json!(env!("CARGO_PKG_VERSION")));
        out.put_all("rules", codes.iter().map(|c| rule(c)));
        out.end();
        out.end();
        out.put("columnKind", &json!("unicodeCodePoints"));
        out.list("results");
        Log { out, codes: codes.iter().map(|c| c.id).collect(), failures: Vec::new() }
    }

    /// The findings of one model.
    pub fn model(&mut self, outcome: &Outcome) {
        let findings = match &outcome.result {
            Ok(checked) => &checked.report.findings,
            Err(Error::Malformed { findings }) => findings,
            Err(_) => &Vec::new(),
        };
        for finding in findings {
            let rule = self.codes.iter().position(|id| *id == finding.code.id);
            self.out.item(&result(&outcome.path, finding, rule));
        }
        if let Err(error) = &outcome.result {
            self.failures.push(json!({
                "level": "error",
                "message": {"text": error.to_string()},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(&outcome.path)}}}],
            }));
        }
        self.out.flush();
    }

    /// Ends the log.
    pub fn end(mut self) {
        self.out.end();
        let invocation = json!({
            "executionSuccessful": self.failures.is_empty(),
            "toolExecutionNotifications": self.failures,
        });
        self.out.put_all("invocations", [invocation]);
        self.out.finish();
    }
}

fn rule(code: &Code) -> Value {
    json!({
        "id": code.id,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.explain},
        "defaultConfiguration": {"level": level(code.severity)},
        "properties": {"tags": [code.part.word()]},
    })
}

fn level(severity: Severity) -> &'static str {
    severity.word() // the words are the same
}

fn result(model: &Path, finding: &Finding, rule: Option<usize>) -> Value {
    let mut text = with_subject(finding);
    if let (Some(expected), Some(found)) = (&finding.expected, &finding.found) {
        let _ = write!(text, " (expected {expected}, found {found})");
    }
    if let Some(advice) = &finding.advice {
        let _ = write!(text, "; {advice}");
    }
    let mut result = Map::new();
    result.insert("ruleId".into(), json!(finding.code.id));
    if let Some(rule) = rule {
        result.insert("ruleIndex".into(), json!(rule));
    }
    result.insert("level".into(), json!(level(finding.severity)));
    result.insert("message".into(), json!({"text": text}));
    result.insert("locations".into(), json!([location(model, finding)]));
    if !finding.symptoms.is_empty() {
        let related: Vec<Value> = finding.symptoms.iter().take(RELATED).map(|s| symptom(model, s)).collect();
        result.insert("relatedLocations".into(), Value::Array(related));
        result.insert("properties".into(), json!({"symptoms": finding.symptoms.len()}));
    }
    Value::Object(result)
}

/// The message after the name of what it is about: viewers show the text alone.
fn with_subject(finding: &Finding) -> String {
    match finding.place.tensor.as_ref().or(finding.place.field.as_ref()) {
        Some(subject) => format!("{subject}: {}", finding.message),
        None => finding.message.clone(),
    }
}

fn symptom(model: &Path, finding: &Finding) -> Value {
    let mut place = location(model, finding);
    if let Value::Object(members) = &mut place {
        members.insert("message".into(), json!({"text": with_subject(finding)}));
    }
    place
}

fn location(model: &Path, finding: &Finding) -> Value {
    let place = &finding.place;
    let mut physical = Map::new();
    let file = match &place.file {
        None => uri(model),
        Some(file) => uri(&beside(model, file)),
    };
    physical.insert("artifactLocation".into(), json!({"uri": file}));
    if let Some(at) = place.offset {
        physical.insert("region".into(), json!({"byteOffset": at}));
    }
    let mut location = Map::new();
    location.insert("physicalLocation".into(), Value::Object(physical));
    if let Some(name) = place.tensor.as_ref().or(place.field.as_ref()) {
        let kind = if place.tensor.is_some() { "resource" } else { "property" };
        location.insert("logicalLocations".into(), json!([{"name": name, "kind": kind}]));
    }
    Value::Object(location)
}

/// A file of the model, which is told by a folder or by one of its files.
fn beside(model: &Path, file: &str) -> std::path::PathBuf {
    match model.parent() {
        Some(folder) if !model.is_dir() => folder.join(file),
        _ => model.join(file),
    }
}

/// A path as a URI reference: relative as it is, absolute with its scheme.
fn uri(path: &Path) -> String {
    let mut out = String::from(if path.is_absolute() { "file://" } else { "" });
    for byte in path.display().to_string().replace('\\', "/").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        assert_eq!(uri(Path::new("a b/ü.gguf")), "a%20b/%C3%BC.gguf");
        assert_eq!(uri(Path::new("/m/x:1.gguf")), "file:///m/x%3A1.gguf");
    }
}
