//! The forms for programs: JSON held to its schema, SARIF and Markdown to theirs.
#![allow(clippy::disallowed_methods)] // tests read the schema and write models

mod common;

use common::{CONFIG, Run, Tensor, folder, model, qwen3, run_in, schema, valid};
use serde_json::Value;
use std::path::Path;

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}\n{}", run.out))
}

#[test]
fn json_keeps_to_the_schema() {
    let folder = folder();
    std::fs::write(folder.path().join("noise.gguf"), b"GGUF\x03\0\0\0\xff\xff").unwrap();
    let tensors = [Tensor::new("only", &[3, 2])];
    model(folder.path(), "plain", &tensors, None);
    let all: [&[&str]; 11] = [
        &["inspect", "good", "--json"],
        &["inspect", "good", "--format", "json", "--metadata", "--exclude", "lm_head*"],
        &["inspect", "bad", "--json", "--metadata", "--full"],
        &["inspect", "plain", "--json"],
        &["inspect", "noise.gguf", "--json"],
        &["check", "good", "bad", "plain", "noise.gguf", "absent", "--json"],
        &["check", "bad", "--data", "--json"],
        &["plugins", "--json"],
        &["plugins", "arch", "--json"],
        &["plugins", "arch", "--config", "good/config.json", "--json"],
        &["explain", "--json"],
    ];
    for args in all {
        valid(&run_in(folder.path(), args));
    }
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    let tokens: [&[&str]; 6] = [
        &["tokenize", "qwen3-tiny.gguf", "Hé <|im_start|>", "--json"],
        &["tokenize", "tokenizers/bert", "the water", "--format", "json"],
        &["tokenize", "qwen3-tiny", "Hello", "--chat", "--system", "Be brief.", "--json"],
        &["tokenize", "qwen3-tiny", "", "--json"],
        &["detokenize", "qwen3-tiny", "1", "40", "41", "--skip-special", "--json"],
        &["detokenize", "qwen3-tiny.gguf", "--json"],
    ];
    for args in tokens {
        let run = run_in(&testdata, args);
        assert_eq!(run.code, 0, "{args:?} {}", run.err);
        valid(&run);
    }
}

#[test]
fn the_schema_refuses_what_it_does_not_know() {
    let folder = folder();
    let mut document = parsed(&run_in(folder.path(), &["inspect", "good", "--json"]));
    assert!(schema().is_valid(&document));
    document["model"]["counts"]["more"] = 1.into();
    assert!(!schema().is_valid(&document));
}

#[test]
fn json_tells_the_same_facts() {
    let folder = folder();
    let document = parsed(&run_in(folder.path(), &["inspect", "good", "--json", "--exclude", "lm_head*"]));
    assert_eq!(document["schema_version"], 1);
    let model = &document["model"];
    assert_eq!(model["model"]["architecture"], "qwen3");
    assert_eq!(model["counts"]["expected"], 25);
    assert_eq!(model["tensors_hidden"], 1);
    assert_eq!(model["tensors"].as_array().map(Vec::len), Some(24));
    assert_eq!(model["verdict"]["ok"], true);
    let heads = model["dimensions"].as_array().unwrap().iter().find(|d| d["name"] == "num_attention_heads");
    assert_eq!(heads.unwrap()["note"], "q width = 4·6 = 24");

    let document = parsed(&run_in(folder.path(), &["check", "good", "bad", "absent", "--json"]));
    let models = document["models"].as_array().unwrap();
    assert_eq!(models.len(), 3);
    assert_eq!(models[1]["verdict"]["ok"], false);
    assert_eq!(models[1]["findings"][0]["code"], "tensor-missing");
    assert_eq!(models[2]["error"]["kind"], "io");
}

#[test]
fn sarif_has_a_rule_for_each_result() {
    let folder = folder();
    let mut tensors = qwen3();
    tensors[2].shape = vec![8, 24];
    model(folder.path(), "turned over", &tensors, Some(CONFIG));
    let run = run_in(folder.path(), &["check", "good", "bad", "turned over", "absent", "--format", "sarif"]);
    assert_eq!(run.code, 3);
    let log = parsed(&run);
    assert_eq!(log["version"], "2.1.0");
    let one = &log["runs"][0];
    let rules = one["tool"]["driver"]["rules"].as_array().unwrap();
    let results = one["results"].as_array().unwrap();
    assert!(results.len() >= 2);
    for result in results {
        let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert!(!place.as_str().unwrap().contains(' '), "{place}");
    }
    let shaped = results.iter().find(|r| r["ruleId"] == "tensor-misshapen").unwrap();
    let place = &shaped["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "turned%20over/model.safetensors");
    assert!(place["region"]["byteOffset"].is_u64(), "{place}");
    assert_eq!(one["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn markdown_has_a_table_for_what_is_wrong() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "good", "bad", "absent", "--format", "markdown"]);
    assert_eq!(run.code, 3);
    assert!(run.out.contains("### ✓ `good`\n"), "{}", run.out);
    assert!(run.out.contains("### ✗ `bad`\n"), "{}", run.out);
    assert!(run.out.contains("| error | `tensor-missing` | "), "{}", run.out);
    assert!(run.out.contains("### ✗ `absent`\n\n**error**: "), "{}", run.out);
    let width = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(run.out.lines().filter(|l| l.starts_with('|')).all(|l| width(l) == 8), "{}", run.out);
}
