//! A config.json handed over for a GGUF file: it says what the file cannot, for checks and for everything that runs.
#![allow(clippy::disallowed_methods)] // tests write configs

mod common;

use common::{run_in, valid};
use serde_json::Value;
use std::path::{Path, PathBuf};

const IDS: &str = "3,40,41,42,43,44,45,46,47,48";

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

/// A folder with a Llama's config as it is (`same.json`) and as that of a Mistral with a narrow window (`window.json`).
fn configs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read(testdata().join("llama-tiny/config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    std::fs::write(folder.path().join("same.json"), &text).unwrap();
    config["model_type"] = "mistral".into();
    config["architectures"] = Value::Null;
    config["sliding_window"] = 3.into();
    std::fs::write(folder.path().join("window.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn what_is_assumed_is_shown_until_a_config_says_it() {
    let folder = configs();
    let file = testdata().join("llama-tiny.gguf");
    let inspect =
        |more: &[&str]| run_in(folder.path(), &[&["inspect", file.to_str().unwrap()], more].concat());
    let run = inspect(&["--width", "200"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let told = "(assumed: a GGUF file cannot say it; --config FILE does)";
    let line = run.out.lines().find(|l| l.contains(told)).unwrap_or_else(|| panic!("{}", run.out));
    assert!(line.contains("sliding_window") && line.contains("none"), "{line}");
    let origins = |more: &[&str]| -> Vec<String> {
        let document = valid(&inspect(&[&["--json"], more].concat()));
        let facts = document["model"]["dimensions"].as_array().unwrap().clone();
        facts.iter().map(|f| f["origin"].as_str().unwrap().to_owned()).collect()
    };
    assert!(origins(&[]).contains(&"assumed".to_owned()));
    for config in ["same.json", "window.json"] {
        let run = inspect(&["--config", config]);
        assert_eq!(run.code, 0, "{}", run.out);
        assert!(
            !run.out.contains("assumed") && !origins(&["--config", config]).contains(&"assumed".to_owned())
        );
        let check = run_in(folder.path(), &["check", file.to_str().unwrap(), "--config", config]);
        assert_eq!(check.code, 0, "{}", check.out);
    }
}

#[test]
fn every_command_that_runs_a_model_hears_the_config() {
    let folder = configs();
    let (gguf, hf) = (testdata().join("llama-tiny.gguf"), testdata().join("llama-tiny"));
    let run = |command: &str, model: &Path, args: &[&str]| {
        let model = model.to_str().unwrap();
        let run = run_in(folder.path(), &[&[command, model, "--kernel", "scalar", "--json"], args].concat());
        assert_eq!(run.code, 0, "{command} {args:?}\n{}{}", run.out, run.err);
        valid(&run)
    };
    let top = |model: &Path, more: &[&str]| -> Vec<(Value, f64)> {
        let found = run("logits", model, &[&["--ids", IDS], more].concat());
        let top = found["positions"][0]["top"].as_array().unwrap().clone();
        top.iter().map(|t| (t["id"].clone(), t["logit"].as_f64().unwrap())).collect()
    };
    let near = |a: &[(Value, f64)], b: &[(Value, f64)]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-4)
    };
    let window = ["--config", "window.json"];
    let (silent, told) = (top(&gguf, &[]), top(&gguf, &window));
    assert!(near(&silent, &top(&gguf, &["--config", "same.json"])), "a config that says the same");
    assert!(!near(&silent, &told), "a window is no small matter");
    assert!(near(&told, &top(&hf, &window)), "the same in both worlds");
    let text = |more: &[&str]| {
        let args = ["--prompt", "The sea is all that there is", "-n", "8", "--ignore-eos"];
        run("generate", &gguf, &[&args, more].concat())["ids"].clone()
    };
    assert_ne!(text(&[]), text(&window));
    std::fs::write(folder.path().join("ids.txt"), IDS).unwrap();
    let foretold = |more: &[&str]| {
        run("perplexity", &gguf, &[&["--ids-file", "ids.txt", "--context", "10"], more].concat())["perplexity"]["value"].clone()
    };
    assert!(foretold(&[]) != foretold(&window) && foretold(&window).is_number());
    let traced = |more: &[&str]| {
        let out = folder.path().join("trace.safetensors");
        let _ = std::fs::remove_file(&out);
        run("trace", &gguf, &[&["--ids", IDS, "-o", "trace.safetensors"], more].concat());
        std::fs::read(out).unwrap()
    };
    assert_ne!(traced(&[]), traced(&window));
    let bench = run("bench", &gguf, &[&["-p", "4", "-n", "2", "-r", "1"], &window[..]].concat());
    assert_eq!(bench["family"], "mistral");
}

#[test]
fn rows_that_a_converter_left_out_are_no_fault() {
    let folder = configs();
    let text = std::fs::read_to_string(folder.path().join("same.json")).unwrap();
    let check = |vocabulary: &str, model: &str| {
        let text = text.replace("\"vocab_size\": 331", &format!("\"vocab_size\": {vocabulary}"));
        std::fs::write(folder.path().join("rows.json"), text).unwrap();
        let model = testdata().join(model);
        run_in(
            folder.path(),
            &["inspect", model.to_str().unwrap(), "--config", "rows.json", "--width", "200"],
        )
    };
    let run = check("340", "llama-tiny.gguf");
    assert!(run.code == 0 && run.out.contains("331 in the GGUF file"), "{}", run.out);
    // More rows than the config knows are one, and so is either where nothing was converted.
    assert_eq!(check("330", "llama-tiny.gguf").code, 1);
    assert_eq!(check("340", "llama-tiny").code, 1);
    assert_eq!(check("331", "llama-tiny").code, 0);
}
