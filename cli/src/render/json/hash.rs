//! Digests for programs.

use super::{begin, parts};
use crate::commands::Told;
use crate::terminal::Screen;
use scantling_core::finding::Finding;
use scantling_core::hash::files::{FileHash, Said, Verdict};
use scantling_core::hash::manifest::Difference;
use scantling_core::hash::{Hashed, Kind};
use serde_json::{Value, json};
use std::path::Path;

/// The document of `hash`.
pub fn hashes(screen: &mut Screen<'_>, told: &Told<'_>) {
    let hashes = told.hashes;
    let mut out = begin(screen);
    out.put("path", &json!(told.model.display().to_string()));
    out.put("kind", &json!(hashes.kind.word()));
    out.put("canonical", &json!(hashes.canonical));
    let whole = hashes.whole().filter(|_| !told.some);
    out.put("whole", &json!(whole.map(|digest| digest.to_string())));
    out.put("bytes", &json!(hashes.bytes));
    out.put_all("tensors", hashes.tensors.iter().map(tensor));
    out.put_all(
        "left_out",
        hashes
            .left_out
            .iter()
            .map(|left| json!({"names": left.names, "why": left.why, "wanted": left.wanted})),
    );
    let strange = told.against.iter().filter_map(|against| against.strange.as_ref());
    out.put_all("findings", told.findings.iter().chain(strange).map(parts::finding));
    let written = told.write.filter(|(_, written)| *written);
    out.put("written", &json!(written.map(|(path, _)| path.display().to_string())));
    out.put("replaced", &json!(told.replaced.map(Kind::word)));
    match &told.against {
        None => out.put("against", &Value::Null),
        Some(against) => {
            out.object("against");
            out.put("path", &json!(against.path.display().to_string()));
            out.put("same", &json!(against.same()));
            out.put("partial", &json!(against.partial));
            out.put_all("differences", against.differences.iter().map(|(name, d)| difference(name, d)));
            out.end();
        }
    }
    out.finish();
}

fn tensor(tensor: &Hashed) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "sha256": tensor.digest.to_string(),
    })
}

fn difference(name: &str, difference: &Difference) -> Value {
    let (kind, expected, found) = match difference {
        Difference::Values(expected, found) => {
            ("values", json!(expected.to_string()), json!(found.to_string()))
        }
        Difference::Type(expected, found) => ("type", json!(expected), json!(found)),
        Difference::Shape(expected, found) => ("shape", json!(expected), json!(found)),
        Difference::Missing => ("missing", Value::Null, Value::Null),
        Difference::New => ("new", Value::Null, Value::Null),
        Difference::Unread => ("unread", Value::Null, Value::Null),
    };
    json!({"name": name, "kind": kind, "expected": expected, "found": found})
}

/// The document of `hash --files`.
pub fn files(screen: &mut Screen<'_>, model: &Path, files: &[FileHash], findings: &[Finding]) {
    let mut out = begin(screen);
    out.put("path", &json!(model.display().to_string()));
    out.put_all("files", files.iter().map(file));
    out.put_all("findings", findings.iter().map(parts::finding));
    out.finish();
}

fn file(file: &FileHash) -> Value {
    let records: Vec<Value> = file
        .records
        .iter()
        .map(|record| {
            let (kind, said) = match &record.said {
                Said::Sha256(digest) => ("sha256", digest.to_string()),
                Said::GitBlob(id) => ("git_blob", id.clone()),
                Said::Unused(why) => ("unused", why.clone()),
                Said::Malformed(why) => ("malformed", why.clone()),
            };
            json!({"at": record.at, "kind": kind, "said": said})
        })
        .collect();
    let verdict = match file.verdict() {
        Verdict::Agrees => "agrees",
        Verdict::Differs => "differs",
        Verdict::Unusable => "unusable",
        Verdict::Nothing => "nothing_recorded",
        Verdict::Unread => "unread",
    };
    json!({
        "name": file.name,
        "bytes": file.len,
        "sha256": file.digest.as_ref().ok().map(|digest| digest.to_string()),
        "error": file.digest.as_ref().err(),
        "records": records,
        "verdict": verdict,
    })
}
