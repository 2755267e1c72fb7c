//! Whole models made by other people's tools: the families known are clean in both formats and in both styles
//! of config, all others are listed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod models;

use models::{errors, folder_from, request, run, testdata};
use scantling_core::check::Request;
use scantling_core::registry::Registry;
use scantling_core::report::Report;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The family of this build that a config names.
fn family_of(config: &Path) -> &'static str {
    let config = models::config(&fs::read(config).unwrap());
    Registry::linked().unwrap().architecture_of(&config).unwrap().name
}

/// Families with a small model in testdata, in both formats.
const TINY: [&str; 3] = ["llama", "qwen2", "qwen3"];

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Folders, or files with a suffix, of a folder.
fn entries(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|p| p.to_string_lossy().ends_with(suffix)).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    paths
}

/// The model with its config in the style of transformers 4.
fn older_config(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in entries(folder, "") {
        let name = file.file_name().unwrap();
        if name != "config.json" && name != "config.v4.json" {
            fs::copy(&file, copy.path().join(name)).unwrap();
        }
    }
    fs::copy(folder.join("config.v4.json"), copy.path().join("config.json")).unwrap();
    copy
}

/// The report on a Hugging Face folder, which is the same for both styles of config.
fn both_styles(folder: &Path) -> Report {
    let older = older_config(folder);
    let [new, old] = [folder, older.path()].map(|f| run(f, &request()).report);
    assert_eq!(errors(&new), errors(&old), "{}", folder.display());
    assert_eq!(new.counts, old.counts, "{}", folder.display());
    assert_eq!(new.model.architecture, old.model.architecture);
    new
}

#[track_caller]
fn clean(path: &Path, report: &Report, architecture: &str) {
    assert_eq!(errors(report), [""; 0], "{}", path.display());
    assert_eq!(report.model.architecture, Some(architecture), "{}", path.display());
    assert_eq!(report.counts.expected, Some(report.counts.tensors), "{}", path.display());
}

/// What both formats of one model must agree on.
#[track_caller]
fn agree(path: &Path, hf: &Report, gguf: &Report) {
    let counts = |r: &Report| (r.counts.logical, r.counts.embedding);
    assert_eq!(counts(hf), counts(gguf), "{}", path.display());
}

fn exit_code(args: &[&str], path: &Path) -> Option<i32> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_scantling"));
    program.args(args).arg(path).output().unwrap().status.code()
}

#[test]
fn the_small_models_are_clean_in_both_formats() {
    for family in TINY {
        let folder = testdata(&format!("{family}-tiny"));
        let file = testdata(&format!("{family}-tiny.gguf"));
        let (hf, gguf) = (both_styles(&folder), run(&file, &request()).report);
        clean(&folder, &hf, family);
        clean(&file, &gguf, family);
        agree(&folder, &hf, &gguf);
        assert_eq!(exit_code(&["check", "--data"], &folder), Some(0), "{family}");
        assert_eq!(exit_code(&["check", "--data"], &file), Some(0), "{family}");
        assert_eq!(exit_code(&["inspect"], &file), Some(0), "{family}");
    }
    let quantised = testdata("qwen3-q4_k_m.gguf");
    clean(&quantised, &run(&quantised, &request()).report, "qwen3");
}

#[test]
fn golden_folders_are_clean_in_both_styles_of_config() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let mut models = 0;
    for folder in entries(&shared.join("golden/models"), "") {
        let tensors = json(&folder.join("tensors.json")).as_array().unwrap().len();
        let report = both_styles(&folder);
        clean(&folder, &report, family_of(&folder.join("config.json")));
        let rows = report.sections.iter().flat_map(|s| &s.rows);
        let stored: usize = rows.map(|row| row.tensors * row.parts.len().max(1)).sum();
        assert_eq!(stored, tensors, "{}", folder.display());
        models += 1;
    }
    assert!(models >= 25, "{models}");
}

#[test]
fn golden_gguf_files_are_clean_and_agree_with_their_sources() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let mut files = 0;
    for file in entries(&shared.join("golden/gguf"), ".gguf") {
        let facts = json(&file.with_extension("json"));
        let report = run(&file, &request()).report;
        assert_eq!(errors(&report), [""; 0], "{}", file.display());
        assert_eq!(report.counts.tensors, facts["tensors"].as_array().unwrap().len(), "{}", file.display());
        assert_eq!(report.counts.expected, Some(report.counts.tensors), "{}", file.display());
        files += 1;
        // One file has no folder beside it.
        let source = shared.join("golden/models").join(facts["source_model"].as_str().unwrap());
        if source.exists() {
            agree(&file, &run(&source, &request()).report, &report);
        }
    }
    assert!(files >= 28, "{files}");
}

#[test]
fn real_models_are_clean_or_listed() {
    let Some(models) = folder_from("SCANTLING_MODELS") else { return };
    let at = |name: &str| {
        let path = models.join(name);
        let there = path.exists();
        if !there {
            println!("skipped: {} is not there", path.display());
        }
        there.then_some(path)
    };
    if let Some(smollm2) = at("smollm2-135m-instruct-q4_1") {
        let report = run(&smollm2, &request()).report;
        clean(&smollm2, &report, "llama");
        assert_eq!((report.counts.tensors, report.counts.logical), (272, Some(134_515_008)));
        assert_eq!(exit_code(&["check", "--data"], &smollm2), Some(0));
    }
    if let Some(minilm) = at("minilm-l6-v2") {
        let report = run(&minilm, &request()).report;
        assert_eq!((errors(&report), report.model.architecture), (vec![], Some("bert")));
        // One of them is a table of positions that nothing reads.
        assert_eq!((report.counts.tensors, report.counts.expected), (104, Some(103)));
        assert_eq!(exit_code(&["check", "--data"], &minilm), Some(0));
    }
    if let Some(vocabularies) = at("ggml-vocab") {
        for file in entries(&vocabularies, ".gguf") {
            let report = run(&file, &Request { must_check: false, ..request() }).report;
            assert_eq!((report.counts.tensors, errors(&report).len()), (0, 0), "{:?}", errors(&report));
            assert!(report.model.special.as_deref().unwrap().contains("vocabulary"), "{}", file.display());
            let tokens = report.vocabulary.and_then(|v| v.tokens);
            assert!(tokens.is_some_and(|n| n > 20_000), "{}: {tokens:?}", file.display());
            assert_eq!(exit_code(&["inspect"], &file), Some(0), "{}", file.display());
        }
    }
}
