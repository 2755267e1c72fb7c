//! `generate`: what is written, why it stops, and what a real model says.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests read files and the environment
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;

use common::{Run, run_in, valid};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

fn generate(model: &str, args: &[&str]) -> Run {
    run_in(&testdata(), &[&["generate", model], args].concat())
}

/// The document of a run that succeeded.
#[track_caller]
fn done(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.err);
    valid(run)
}

fn ids(document: &Value) -> Vec<u64> {
    document["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn both_formats_and_all_kernels_write_the_same() {
    let ask = |model: &str, kernel: &str| {
        let args = ["--prompt", "The sea is", "-n", "12", "--ignore-eos", "--kernel", kernel, "--json"];
        done(&generate(model, &args))
    };
    let first = ask("qwen3-tiny", "scalar");
    assert_eq!((ids(&first).len(), &first["ending"]["kind"]), (12, &"length".into()));
    for (model, kernel) in
        [("qwen3-tiny", "exact"), ("qwen3-tiny.gguf", "scalar"), ("qwen3-tiny.gguf", "exact")]
    {
        let other = ask(model, kernel);
        assert_eq!(ids(&other), ids(&first), "{model} {kernel}");
        assert_eq!(other["text"], first["text"]);
    }
    // The first token is the likeliest that `logits` tells of the same text.
    let args = ["logits", "qwen3-tiny", "--prompt", "The sea is", "--json"];
    let logits: Value = serde_json::from_str(&run_in(&testdata(), &args).out).unwrap();
    assert_eq!(logits["positions"][0]["top"][0]["id"].as_u64(), Some(ids(&first)[0]));
}

#[test]
fn text_comes_on_standard_output_and_the_rest_on_standard_error() {
    let args = ["--prompt", "The sea is", "-n", "12", "--ignore-eos", "--kernel", "exact"];
    let whole = done(&generate("qwen3-tiny", &[&args[..], &["--json"]].concat()));
    let text = whole["text"].as_str().unwrap();
    let run = generate("qwen3-tiny", &args);
    assert_eq!(run.out, format!("{text}\n"), "a pipe gets the text as it is");
    assert!(run.err.contains("rayon+") && run.err.contains("written 12 tokens"), "{}", run.err);
    // A text that stops it is not told, nor what would have come behind it.
    let stop: String = text.chars().skip(4).take(2).collect();
    let stopped = done(&generate("qwen3-tiny", &[&args[..], &["--json", "--stop", &stop]].concat()));
    assert_eq!(stopped["ending"]["kind"], "text");
    assert_eq!(stopped["text"].as_str(), text.split(&stop).next());
}

#[test]
fn chance_is_repeatable_and_limits_are_told() {
    let ask = |seed: &str| {
        let args =
            ["--prompt", "a", "-n", "16", "--ignore-eos", "--temperature", "1.5", "--seed", seed, "--json"];
        ids(&done(&generate("llama-tiny.gguf", &args)))
    };
    assert_eq!(ask("1"), ask("1"));
    assert_ne!(ask("1"), ask("2"));
    let full =
        done(&generate("llama-tiny.gguf", &["--prompt", "a", "--context", "5", "--ignore-eos", "--json"]));
    assert_eq!(full["ending"]["kind"], "context");
    for (args, word) in [
        (&["--prompt", "abc", "--context", "1"][..], "do not fit"),
        (&["--prompt", "a", "--chat"], "no chat template"),
        (&["--prompt", "a", "--temperature=-1"], "at least 0"),
        (&["--prompt", "a", "--kernel", "scalar,exact"], "one kernel"),
    ] {
        let run = generate("llama-tiny.gguf", args);
        assert!(run.code == 2 && run.err.contains(word), "{args:?}: {} {}", run.code, run.err);
    }
}

/// SmolLM2-135M-Instruct: figures of another program over the same weights.
#[test]
fn a_real_model_says_what_it_should() {
    let Some(model) = &real("smollm2-135m-instruct-q4_1") else { return };
    let args = ["--prompt", "The capital of France is", "-n", "24", "--kernel", "exact", "--json"];
    let document = done(&generate(model, &args));
    let expected = [
        7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32, 33, 29, 34, 34, 216, 33, 34, 42,
        33,
    ];
    assert_eq!(ids(&document), expected);
    assert_eq!(document["text"], " Paris.\n\nThe answer is: 2018-01-22 12:1");
    let chat = ["--prompt", "What is the capital of France?", "--chat", "--kernel", "exact", "--json"];
    let document = done(&generate(model, &chat));
    assert_eq!(document["prompt_ids"].as_array().unwrap().len(), 37);
    assert_eq!(ids(&document), [504, 3575, 282, 4649, 314, 7042, 30, 2]);
    assert_eq!(
        (&document["text"], &document["ending"]["detail"]),
        (&"The capital of France is Paris.".into(), &2.into())
    );
    let fast = done(&generate(model, &["--prompt", "The capital of France is", "-n", "1", "--json"]));
    assert_eq!(ids(&fast), [7042]);
    let expected =
        [(7042, 17.371262), (260, 14.888589), (4528, 13.244976), (2250, 13.009469), (1315, 12.951515)];
    follows_the_capital(model, expected, |_| 1e-4);
}

/// Qwen3-0.6B: figures of the reference implementation.
#[test]
fn a_real_qwen3_says_what_follows() {
    let Some(model) = &real("Qwen3-0.6B") else { return };
    let asked = run_in(&testdata(), &["tokenize", model, "The capital of France is", "--ids-only"]);
    let found: Vec<&str> = asked.out.split([' ', ',', '\n']).filter(|id| !id.is_empty()).collect();
    assert_eq!(found, ["785", "6722", "315", "9625", "374"]);
    let expected =
        [(12095, 17.498852), (7407, 14.337195), (279, 14.169295), (1112, 13.766041), (30743, 13.634666)];
    follows_the_capital(model, expected, |logit| 1e-4 + 1e-4 * logit.abs());
}

/// A model of `SCANTLING_MODELS`; says what is skipped without it.
fn real(name: &str) -> Option<String> {
    let Some(models) = std::env::var_os("SCANTLING_MODELS") else {
        println!("skipped: SCANTLING_MODELS is not set");
        return None;
    };
    let model = PathBuf::from(models).join(name);
    if !model.exists() {
        println!("skipped: {} is not there", model.display());
        return None;
    }
    Some(model.to_str().unwrap().to_owned())
}

/// Holds the five likeliest tokens behind "The capital of France is" against what they should be.
fn follows_the_capital(model: &str, expected: [(u64, f64); 5], limit: impl Fn(f64) -> f64) {
    let args = ["logits", model, "--prompt", "The capital of France is", "--top", "5", "--json"];
    let logits: Value = serde_json::from_str(&run_in(&testdata(), &args).out).unwrap();
    let top = logits["positions"][0]["top"].as_array().unwrap();
    assert_eq!(top.len(), 5, "{top:?}");
    for (found, (id, logit)) in top.iter().zip(expected) {
        assert_eq!(found["id"], id, "{top:?}");
        assert!((found["logit"].as_f64().unwrap() - logit).abs() <= limit(logit), "{top:?}");
    }
}

/// A small model of which files are changed.
fn changed(at: &Path, change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> String {
    let folder = at.join("changed");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(testdata().join("qwen3-tiny")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap();
        std::fs::write(folder.join(name), change(name, std::fs::read(&file).unwrap())).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_model_that_cannot_be_run_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let model = changed(folder.path(), |name, bytes| match name {
        "config.json" => br#"{"model_type": "t5", "architectures": ["T5Model"]}"#.to_vec(),
        _ => bytes,
    });
    let told = run_in(folder.path(), &["generate", &model, "--prompt", "x"]);
    let head = format!("error: {model}: cannot run this model; this build knows bert, ");
    assert!(told.code == 3 && told.err.starts_with(&head), "{}", told.err);
}

/// One infinite weight makes every logit infinite or NaN: there is nothing to choose from, in whatever way.
#[test]
fn logits_that_are_none_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = changed(folder.path(), |name, mut bytes| {
        if name == "model.safetensors" {
            let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let header: Value = serde_json::from_slice(&bytes[8..data]).unwrap();
            let at = data + header["model.norm.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
            bytes[at..at + 2].copy_from_slice(&0x7f80u16.to_le_bytes());
        }
        bytes
    });
    for args in [&[][..], &["--temperature", "1"], &["--json"], &["--kernel", "scalar"]] {
        let told =
            run_in(folder.path(), &[&["generate", &model, "--prompt", "the sea", "-n", "3"], args].concat());
        assert!(
            told.code == 1 && told.err.contains("NaN or infinite"),
            "{args:?} {} {}",
            told.code,
            told.err
        );
    }
}

/// Nothing is computed that nobody can read.
#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_is_gone_ends_it() {
    let model = testdata().join("qwen3-tiny");
    let args = ["generate", model.to_str().unwrap(), "--prompt", "the sea", "-n", "20", "--ignore-eos"];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gone = common::program().args(args).stdout(writer).output().unwrap();
    let err = String::from_utf8(gone.stderr).unwrap();
    assert!(gone.status.code() == Some(0) && !err.contains("written 20"), "{err}");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let full = common::program().args(args).stdout(full).output().unwrap();
    let err = String::from_utf8(full.stderr).unwrap();
    assert!(full.status.code() == Some(3) && !err.contains("written 20"), "{err}");
}

#[test]
fn a_vocabulary_that_cannot_be_read_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let model = changed(folder.path(), |name, bytes| match name {
        "tokenizer.json" => b"{\"model\": 1}".to_vec(),
        _ => bytes,
    });
    for args in
        [&["tokenize", &model, "x"][..], &["generate", &model, "--prompt", "x"], &["detokenize", &model, "1"]]
    {
        let told = run_in(folder.path(), args);
        assert!(told.code == 3 && told.err.contains("cannot read its vocabulary"), "{args:?} {}", told.err);
    }
}

#[test]
fn a_choice_that_cannot_be_made_is_told_why() {
    for (args, words) in [
        (["--temperature", "-1"], "expected a number of at least 0"),
        (["--top-p", "2"], "expected a number from 0 to 1"),
        (["--min-p", "1.5"], "expected a number from 0 to 1"),
        (["--repeat-penalty", "-1"], "expected a number above 0"),
        (["-n", "-1"], "invalid value '-1'"),
    ] {
        let told = generate("qwen3-tiny", &[&["--prompt", "x"], &args[..]].concat());
        assert!(told.code == 2 && told.err.contains(words), "{args:?} {}", told.err);
    }
    let idle = generate("qwen3-tiny", &["--prompt", "The sea", "-n", "1", "--top-k", "5", "--seed", "3"]);
    assert!(
        idle.code == 0 && idle.err.contains("--top-k, --seed have no effect without --temperature"),
        "{}",
        idle.err
    );
    let heard =
        generate("qwen3-tiny", &["--prompt", "The sea", "-n", "1", "--top-k", "5", "--temperature", "1"]);
    assert!(heard.code == 0 && !heard.err.contains("no effect"), "{}", heard.err);
}

#[cfg(unix)]
#[test]
fn a_prompt_comes_through_a_pipe_with_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let into = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(into, "the sea").unwrap());
    let args = ["tokenize", "qwen3-tiny", "--ids-only", "--prompt-file", pipe.to_str().unwrap()];
    let read = run_in(&testdata(), &args);
    writer.join().unwrap();
    assert_eq!(read.code, 0, "{}", read.err);
    assert_eq!(read.out, run_in(&testdata(), &["tokenize", "qwen3-tiny", "the sea", "--ids-only"]).out);
    let endless = run_in(&testdata(), &["tokenize", "qwen3-tiny", "--prompt-file", "/dev/zero"]);
    assert!(endless.code == 3 && endless.err.contains("limit"), "{}", endless.err);
}
