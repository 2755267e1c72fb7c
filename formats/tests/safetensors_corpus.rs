//! The safetensors plugin on a corpus of malformed files, each with the verdict it must get. The corpus is
//! named by SCANTLING_CORPUS.

#![allow(clippy::disallowed_methods)] // Tests read their own files.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use scantling_core::bundle::{Bundle, Target};
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Severity};
use scantling_core::foreign;
use scantling_core::source::{Confidence, WeightSource};
use scantling_formats::SAFETENSORS;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Opens a path as the registry does, with this one format.
fn open(path: &Path) -> Result<Box<dyn WeightSource>> {
    let bundle = match Target::at(path)? {
        Target::File(bundle) => bundle,
        Target::Folder(folder) => {
            let names = folder.names()?;
            let found = (SAFETENSORS.find)(&folder, &names)?;
            match found.as_slice() {
                [] => return Err(foreign::folder("folder", &folder, &names)?),
                [one] => Bundle::in_folder(folder, &one.file)?,
                several => return Err(Error::Usage(format!("{several:?}"))),
            }
        }
    };
    let file = bundle.file();
    let head = file.head(4096)?;
    let confidence = (SAFETENSORS.probe)(file.name(), &head, file.len());
    let foreign = foreign::sniff(&head).map(|(what, _)| what);
    match (confidence, foreign) {
        (Confidence::Name, Some(what)) => Err(Error::Usage(what.to_owned())),
        (Confidence::No, _) => Err(Error::Usage("no safetensors file".to_owned())),
        _ => (SAFETENSORS.open)(&bundle),
    }
}

/// Findings as a report shows them: with their codes, and what follows from them.
fn list(findings: &[Finding]) -> String {
    let line = |f: &Finding| format!("[{}] {f}\n{}", f.code.id, list(&f.symptoms));
    findings.iter().map(line).collect()
}

/// The verdict on a path, what was said, and how many tensors there are.
fn judge(path: &Path) -> (&'static str, String, Option<u64>) {
    let source = match open(path) {
        Ok(source) => source,
        Err(Error::Malformed { findings }) => return ("reject", list(&findings), None),
        Err(error) => return ("reject", error.to_string(), None),
    };
    let said = list(source.findings());
    let count = source.tensors().len() as u64;
    if source.findings().iter().any(|f| f.severity == Severity::Error) {
        return ("reject", said, Some(count));
    }
    for tensor in source.tensors().tensors() {
        source.bytes(tensor).unwrap();
    }
    ("accept", said, Some(count))
}

/// What is wrong with the answer to a case, if anything.
fn fault(corpus: &Path, case: &Value) -> Option<String> {
    let name = case["name"].as_str().unwrap();
    let began = Instant::now();
    let (verdict, said, tensors) = judge(&corpus.join(case["entry"].as_str().unwrap()));
    let took = began.elapsed().as_secs_f64();
    let short: String = said.chars().take(600).collect();
    println!("{name:30} {verdict} {took:.3} s\n    {}", short.replace('\n', "\n    "));
    let expected = case["expect"].as_str().unwrap();
    if expected != "either" && expected != verdict {
        return Some(format!("{name}: {verdict}, not {expected}: {short}"));
    }
    let lower = said.to_lowercase();
    let hints: Vec<&str> = case["hint"].as_array().unwrap().iter().map(|h| h.as_str().unwrap()).collect();
    if verdict == "reject" && !hints.is_empty() && !hints.iter().any(|h| lower.contains(&h.to_lowercase())) {
        return Some(format!("{name}: none of {hints:?} is in: {short}"));
    }
    let wanted = case["tensors"].as_u64();
    if verdict == "accept" && wanted.is_some() && wanted != tensors {
        return Some(format!("{name}: {tensors:?} tensors, not {wanted:?}"));
    }
    (took > 2.0).then(|| format!("{name}: {took} s"))
}

#[test]
fn every_case_gets_its_verdict() {
    let Some(corpus) = std::env::var_os("SCANTLING_CORPUS").map(PathBuf::from) else {
        println!("skipped: SCANTLING_CORPUS is not set");
        return;
    };
    let text = std::fs::read(corpus.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&text).unwrap();
    let field = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    let mine = |case: &&Value| {
        matches!(&*field(case, "stage"), "container" | "layout") && field(case, "fmt") != "gguf"
    };
    let cases: Vec<&Value> = manifest["cases"].as_array().unwrap().iter().filter(mine).collect();
    let wrong: Vec<String> = cases.iter().filter_map(|case| fault(&corpus, case)).collect();
    println!("{} cases, {} wrong", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!cases.is_empty(), "the corpus holds no case for this format");
}
