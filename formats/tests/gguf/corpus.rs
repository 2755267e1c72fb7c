//! The malformed corpus, through this plugin. Made outside the repository; found by `SCANTLING_CORPUS`.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

use crate::use_all;
use scantling_core::bundle::Bundle;
use scantling_core::finding::{Finding, Severity};
use scantling_formats::GGUF;
use std::path::Path;

fn words(findings: &[Finding], into: &mut String) {
    for f in findings {
        *into += &format!("{} {f}\n", f.code.id);
        words(&f.symptoms, into);
    }
}

/// Whether a file passes, and what is said of it.
fn verdict(path: &Path) -> (bool, String, usize) {
    let opened = Bundle::on_disk(path).and_then(|bundle| (GGUF.open)(&bundle));
    match opened {
        Err(scantling_core::error::Error::Malformed { findings }) => {
            let mut said = String::new();
            words(&findings, &mut said);
            (false, said, 0)
        }
        Err(error) => (false, error.to_string(), 0),
        Ok(source) => {
            use_all(&*source);
            let mut said = String::new();
            words(source.findings(), &mut said);
            let passes = source.findings().iter().all(|f| f.severity < Severity::Error);
            (passes, said, source.tensors().len())
        }
    }
}

#[test]
fn the_corpus_is_judged_right() {
    let Ok(corpus) = std::env::var("SCANTLING_CORPUS") else {
        println!("skipped: SCANTLING_CORPUS is not set");
        return;
    };
    let corpus = Path::new(&corpus);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(corpus.join("manifest.json")).unwrap()).unwrap();
    let (mut judged, mut either, mut wrong) = (0, 0, Vec::new());
    for case in manifest["cases"].as_array().unwrap() {
        let text = |key: &str| case[key].as_str().unwrap();
        if text("fmt") != "gguf" || !["container", "layout"].contains(&text("stage")) {
            continue;
        }
        let (passes, said, tensors) = verdict(&corpus.join(text("entry")));
        let name = text("name");
        let verdict = if passes { "accept" } else { "reject" };
        judged += 1;
        either += usize::from(text("expect") == "either");
        if text("expect") != "either" && text("expect") != verdict {
            wrong.push(format!("{name}: {verdict}, should {}: {}\n{said}", text("expect"), text("why")));
        }
        if let Some(expected) = case["tensors"].as_u64().filter(|_| passes)
            && expected != tensors as u64
        {
            wrong.push(format!("{name}: {tensors} tensors, should be {expected}"));
        }
        let hints: Vec<&str> = case["hint"].as_array().unwrap().iter().filter_map(|h| h.as_str()).collect();
        let lower = said.to_lowercase();
        if !passes && !hints.is_empty() && !hints.iter().any(|h| lower.contains(&h.to_lowercase())) {
            wrong.push(format!("{name}: none of {hints:?} in:\n{said}"));
        }
    }
    println!("{judged} cases, {either} of them free, {} wrong", wrong.len());
    assert!(judged > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}
