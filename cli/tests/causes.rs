//! `diff`: vocabularies are held against each other, and what is all over a model is told as one thing.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;
#[allow(dead_code, reason = "faults of other tests")]
mod planted;

use common::{run_in, valid};
use models::{folder_from, testdata};
use planted::{Planted, noise};
use scantling_core::dtype::DType;
use scantling_core::metadata::{Entry, Items, Metadata, Value};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Exit code, findings of a severity or above by their codes, and the document.
fn found(a: &Path, b: &Path, more: &[&str]) -> (i32, Vec<(String, String)>, Json) {
    let mut args = vec!["diff", a.to_str().unwrap(), b.to_str().unwrap(), "--json"];
    args.extend(more);
    let run = run_in(Path::new("."), &args);
    let document = valid(&run);
    let faults = document["findings"].as_array().unwrap().iter().filter(|f| f["severity"] != "note");
    let faults =
        faults.map(|f| (f["code"].as_str().unwrap().to_owned(), f["message"].as_str().unwrap().to_owned()));
    (run.code, faults.collect(), document)
}

fn codes(faults: &[(String, String)]) -> Vec<&str> {
    faults.iter().map(|(code, _)| code.as_str()).collect()
}

/// A GGUF file with another value of a key, or without it.
fn with_key(file: &Path, folder: &Path, key: &str, change: impl FnOnce(&Value) -> Option<Value>) -> PathBuf {
    let mut model = Planted::of(file);
    let mut metadata = Metadata::default();
    let mut change = Some(change);
    for entry in model.metadata.entries() {
        let value = match entry.key == key {
            true => change.take().unwrap()(&entry.value),
            false => Some(entry.value.clone()),
        };
        if let Some(value) = value {
            metadata.push(Entry { value, ..entry.clone() }).unwrap();
        }
    }
    assert!(change.is_none(), "{key} is there");
    model.metadata = metadata;
    model.write(folder)
}

/// A list of texts with some of them changed.
fn texts(list: &Value, change: impl FnOnce(&mut Vec<Value>)) -> Option<Value> {
    let Value::List(list) = list else { panic!("no list") };
    let mut values = Vec::new();
    let mut take = |_: u64, item: scantling_core::metadata::Item<'_>| {
        values.push(item.into_value());
        std::ops::ControlFlow::Continue(())
    };
    list.visit(&mut take).unwrap();
    change(&mut values);
    Some(Value::List(Arc::new(Items { kind: "string", values })))
}

/// A golden conversion and the checkpoint it was made from, with its tokenizer.
fn conversion() -> Option<(PathBuf, PathBuf)> {
    let shared = folder_from("SCANTLING_SHARED")?;
    Some((shared.join("golden/models/qwen3_tied"), shared.join("golden/gguf/qwen3_tied.bf16.gguf")))
}

#[test]
fn tokens_that_changed_places() {
    let Some((folder, file)) = conversion() else { return };
    let at = tempfile::tempdir().unwrap();
    let swapped =
        with_key(&file, at.path(), "tokenizer.ggml.tokens", |list| texts(list, |all| all.swap(100, 101)));
    for original in [&folder, &file] {
        let (exit, faults, document) = found(original, &swapped, &[]);
        let errors: Vec<&str> = codes(&faults).into_iter().filter(|code| *code != "diff-keys").collect();
        assert_eq!((exit, errors), (1, vec!["diff-vocabulary"]), "{faults:?}");
        assert_eq!(document["vocabulary"]["differing"], 2);
        let told = document["findings"].to_string();
        assert!(
            told.contains("id 100 is another token") && told.contains("id 101 is another token"),
            "{told}"
        );
        assert_eq!(document["verdict"]["ok"], false);
        let run =
            run_in(Path::new("."), &["diff", original.to_str().unwrap(), swapped.to_str().unwrap(), "-q"]);
        let out = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.contains("an id is another token in the second model"), "{out}");
    }
}

#[test]
fn another_end_of_text_and_other_merges() {
    let Some((folder, file)) = conversion() else { return };
    let at = tempfile::tempdir().unwrap();
    let ends = with_key(&file, at.path(), "tokenizer.ggml.eos_token_id", |_| Some(Value::Unsigned(5)));
    let (exit, faults, document) = found(&folder, &ends, &[]);
    assert_eq!((exit, codes(&faults)), (1, vec!["diff-special-token"]), "{document:#}");
    let at = tempfile::tempdir().unwrap();
    let merges = with_key(&file, at.path(), "tokenizer.ggml.merges", |list| texts(list, |all| all.reverse()));
    let (exit, faults, document) = found(&folder, &merges, &[]);
    assert_eq!((exit, codes(&faults)), (1, vec!["diff-tokenization"]), "{document:#}");
}

#[test]
fn a_vocabulary_that_is_not_there_is_a_warning() {
    let Some((folder, _)) = conversion() else { return };
    let at = tempfile::tempdir().unwrap();
    let bare = Planted::of(&folder).write(at.path());
    let (exit, faults, document) = found(&folder, &bare, &[]);
    assert_eq!((exit, codes(&faults)), (0, vec!["diff-vocabulary-lost"]), "{document:#}");
    assert_eq!(
        document["vocabulary"],
        json!({"ids": null, "differing": 0, "why_not": "one of the two has none"})
    );
    let (exit, _, document) = found(&folder, &bare, &["--fail-on", "warning"]);
    assert_eq!((exit, &document["verdict"]["against"]), (1, &json!(1)));
    let (exit, ..) = found(&folder, &bare, &["--fail-on", "never"]);
    assert_eq!(exit, 0);
}

#[test]
fn a_coarse_type_hides_no_scale() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (folder, file) =
        (shared.join("golden/models/qwen3_q256"), shared.join("golden/gguf/qwen3_q256.q2_k.gguf"));
    for (factor, told) in [(1.0f32, false), (1.3, true), (0.75, true), (1.2, true)] {
        let at = tempfile::tempdir().unwrap();
        let mut model = Planted::of(&file);
        let mut scaled = 0;
        for tensor in model.tensors.values_mut().filter(|t| t.dtype == DType::Q2_K) {
            scaled += 1;
            for block in tensor.bytes.chunks_exact_mut(84) {
                for at in [80, 82] {
                    let d = half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32() * factor;
                    block[at..at + 2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
                }
            }
        }
        assert!(scaled > 0);
        let (exit, faults, document) = found(&folder, &model.write(at.path()), &["--allow", "quantised"]);
        assert_eq!(exit, i32::from(told), "{factor}: {document:#}");
        let scales = document["findings"].to_string().matches("diff-scaled").count();
        assert_eq!(scales >= scaled, told, "{factor}: {faults:?}");
    }
}

#[test]
fn bytes_under_another_types_name() {
    let at = tempfile::tempdir().unwrap();
    let mut model = Planted::of(&testdata("qwen3-tiny"));
    let halves: Vec<&mut planted::Stored> =
        model.tensors.values_mut().filter(|t| t.dtype == DType::BF16).collect();
    let count = halves.len();
    halves.into_iter().for_each(|t| t.dtype = DType::F16);
    let (exit, faults, document) = found(&testdata("qwen3-tiny"), &model.write(at.path()), &[]);
    assert_eq!(exit, 1);
    let told =
        faults.iter().find(|(code, _)| code == "diff-other-type").unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(
        told.1,
        format!("in {count} tensors: the same bytes are BF16 in the first model and F16 in the second")
    );
    assert!(!codes(&faults).contains(&"diff-near"), "{faults:?}");
}

#[test]
fn numbers_too_far_off_everywhere_are_no_damage() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (folder, file) =
        (shared.join("golden/models/qwen3_q256"), shared.join("golden/gguf/qwen3_q256.q4_0.gguf"));
    let at = tempfile::tempdir().unwrap();
    // Weights of another training, a little off; those quantised are of the first.
    let mut other = Planted::of(&folder);
    for (i, tensor) in other.tensors.values_mut().enumerate() {
        let mut noise = noise(i as u64);
        tensor.each(|_, v| v + 0.1 * noise() * v);
    }
    let (exit, faults, document) = found(&other.write(at.path()), &file, &["--allow", "quantised"]);
    assert_eq!(exit, 1);
    assert!(!codes(&faults).contains(&"diff-few-beyond-type"), "{:#}", document["findings"]);
    let told = document["findings"].as_array().unwrap().iter().find(|f| f["code"] == "diff-loose").unwrap();
    let off = told["symptoms"].as_array().unwrap();
    assert!(off.iter().all(|f| f["code"] == "diff-few-beyond-type"), "{told:#}");
    assert!(told["message"].as_str().unwrap().starts_with(&format!("{} of ", off.len())), "{told:#}");
}

#[test]
fn what_is_wrong_with_one_of_the_two_is_told_first() {
    let at = tempfile::tempdir().unwrap();
    let mut model = Planted::of(&testdata("qwen3-tiny"));
    let all = std::mem::take(&mut model.tensors);
    model.tensors =
        all.into_iter().map(|(name, t)| (name.trim_start_matches("model.").to_owned(), t)).collect();
    let (exit, faults, document) = found(&testdata("qwen3-tiny"), &model.write(at.path()), &[]);
    assert_eq!(exit, 1);
    assert_eq!(faults[0].0, "diff-side-fault", "{:#}", document["findings"]);
    assert!(document["findings"][0].to_string().contains("names-prefixed"), "{:#}", document["findings"][0]);
    // What is alike is one finding.
    let alone = codes(&faults).iter().filter(|code| **code == "diff-only-in-one").count();
    assert!(alone <= 2, "{faults:?}");
}

#[test]
fn a_head_that_was_lost() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (folder, file) =
        (shared.join("golden/models/qwen3_untied"), shared.join("golden/gguf/qwen3_untied.bf16.gguf"));
    let at = tempfile::tempdir().unwrap();
    let mut model = Planted::of(&file);
    model.tensors.remove("output.weight").unwrap();
    let (exit, faults, document) = found(&folder, &model.write(at.path()), &[]);
    assert_eq!((exit, codes(&faults)), (1, vec!["diff-only-in-one"]), "{:#}", document["findings"]);
    assert!(faults[0].1.contains("the second model has no lm_head.weight of its own"), "{faults:?}");
    let text = fs::metadata(at.path().join("model.gguf")).unwrap();
    assert!(text.len() > 0);
}

#[test]
fn a_scale_that_loses_all_numbers_allows_nothing() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (folder, file) =
        (shared.join("golden/models/qwen3_q256"), shared.join("golden/gguf/qwen3_q256.q4_0.gguf"));
    let at = tempfile::tempdir().unwrap();
    let mut model = Planted::of(&file);
    let tensor = model.tensors.values_mut().find(|t| t.dtype == DType::Q4_0).unwrap();
    let row = tensor.shape[1] / 32;
    for block in tensor.bytes.chunks_exact_mut(18).take(row) {
        block[..2].copy_from_slice(&half::f16::from_f32(4.0).to_le_bytes());
        // Codes that mean 0.
        block[2..].fill(0x88);
    }
    let (exit, faults, document) = found(&folder, &model.write(at.path()), &["--allow", "quantised"]);
    assert_eq!(
        (exit, codes(&faults).contains(&"diff-few-beyond-type")),
        (1, true),
        "{:#}",
        document["findings"]
    );
}

/// A file of one tensor, by a header and its data.
fn bare(at: &Path, name: &str, header: &str, data: &[u8]) -> PathBuf {
    let path = at.join(name);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(&path, bytes).unwrap();
    path
}

fn of_f64(at: &Path, name: &str, values: &[f64]) -> PathBuf {
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let header =
        format!(r#"{{"t":{{"dtype":"F64","shape":[{}],"data_offsets":[0,{}]}}}}"#, values.len(), data.len());
    bare(at, name, &header, &data)
}

#[test]
fn a_damaged_file_is_not_even_itself() {
    let at = tempfile::tempdir().unwrap();
    let header = r#"{"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#;
    let short = bare(at.path(), "short.safetensors", header, &[0; 8]);
    let (exit, faults, document) = found(&short, &short, &[]);
    assert_eq!((exit, codes(&faults)[0]), (1, "diff-broken-file"), "{:#}", document["findings"]);
}

#[test]
fn figures_of_f64_are_those_of_f64() {
    let at = tempfile::tempdir().unwrap();
    let values: Vec<f64> = (0..4096).map(|i| f64::from(i) / 4095.0).collect();
    let one = of_f64(at.path(), "a.safetensors", &values);
    let other = of_f64(at.path(), "b.safetensors", &values.iter().map(|x| x + 1e-12).collect::<Vec<_>>());
    let (exit, _, document) = found(&one, &other, &[]);
    let measured = &document["tensors"][0]["measured"];
    assert_eq!((exit, &measured["differing"]), (1, &json!(4096)), "{document:#}");
    let max = measured["max"].as_f64().unwrap();
    assert!((max - 1e-12).abs() < 1e-15, "{max}");
    // Rounded to F32 it is as near as that type allows.
    let data: Vec<u8> = values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    let header = r#"{"t":{"dtype":"F32","shape":[4096],"data_offsets":[0,16384]}}"#;
    let rounded = bare(at.path(), "c.safetensors", header, &data);
    let (exit, faults, document) = found(&one, &rounded, &["--allow", "quantised"]);
    assert_eq!((exit, &document["tensors"][0]["class"]), (0, &json!("quantised")), "{faults:?}");
    assert_eq!(found(&one, &rounded, &[]).0, 1);
}

/// An infinity has no distance, and stands before all that have one; squares that vanish make nothing the same.
#[test]
fn what_has_no_distance_is_not_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let header = r#"{"near":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"odd":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}"#;
    let bytes = |values: [f32; 8]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let a = bare(at, "a.safetensors", header, &bytes([1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]));
    let b = bare(at, "b.safetensors", header, &bytes([1.5, 2.0, 3.0, 4.0, 1.0, 2.0, f32::INFINITY, 4.0]));
    let run = run_in(at, &["diff", a.to_str().unwrap(), b.to_str().unwrap()]);
    let (_, apart) = run.out.split_once("farthest apart").unwrap();
    let rows: Vec<Vec<&str>> =
        apart.lines().skip(2).take(2).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!([rows[0][0], rows[1][0]], ["odd", "near"], "{apart}");
    assert!(rows[0].contains(&"[2]") && rows[1].ends_with(&["1", "1.5"]), "{apart}");

    let a = of_f64(at, "c.safetensors", &[1e-200, -2e-200, 3e-200, 5e-200]);
    let b = of_f64(at, "d.safetensors", &[-1e-200, 2e-200, -3e-200, -5e-200]);
    let (exit, _, document) = found(&a, &b, &["--allow", "quantised"]);
    assert_eq!((exit, &document["tensors"][0]["class"]), (1, &json!("different")), "{document:#}");
}
