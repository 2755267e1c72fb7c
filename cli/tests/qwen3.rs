//! A Qwen3-0.6B of its true dimensions, whole and with one thing wrong at a time.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

mod models;

use models::make::fill::{self, Fill};
use models::make::{self, Head, Model, write};
use models::{config, config_with, errors, names, remove, request, run, tensor};
use scantling_core::check::Request;
use scantling_core::dtype::DType;
use scantling_core::finding::Severity;
use scantling_core::report::{Counts, Report};
use scantling_core::table::Use;
use serde_json::json;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const CONFIG: &str = "qwen3-0.6b.json";
const HEAD: &str = "lm_head.weight";

/// The fourteen kinds of tensors, each by one of them.
const KINDS: [&str; 14] = [
    "model.embed_tokens.weight",
    "model.layers.5.input_layernorm.weight",
    "model.layers.5.self_attn.q_proj.weight",
    "model.layers.5.self_attn.k_proj.weight",
    "model.layers.5.self_attn.v_proj.weight",
    "model.layers.5.self_attn.q_norm.weight",
    "model.layers.5.self_attn.k_norm.weight",
    "model.layers.5.self_attn.o_proj.weight",
    "model.layers.5.post_attention_layernorm.weight",
    "model.layers.5.mlp.gate_proj.weight",
    "model.layers.5.mlp.up_proj.weight",
    "model.layers.5.mlp.down_proj.weight",
    "model.norm.weight",
    HEAD,
];

/// The kinds whose two axes differ.
const OBLONG: [&str; 7] = [
    "model.embed_tokens.weight",
    "model.layers.5.self_attn.q_proj.weight",
    "model.layers.5.self_attn.o_proj.weight",
    "model.layers.5.mlp.gate_proj.weight",
    "model.layers.5.mlp.up_proj.weight",
    "model.layers.5.mlp.down_proj.weight",
    HEAD,
];

/// A model in a folder of its own; the data are holes.
struct Stored {
    folder: TempDir,
    model: Model,
}

impl Stored {
    fn new(config_json: &[u8], head: Head) -> Stored {
        let registry = models::registry();
        let model = make::safetensors_model(&registry, &config(config_json), DType::BF16, head).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config_json).unwrap();
        let stored = Stored { folder, model };
        stored.write(&stored.model);
        stored
    }

    fn released() -> Stored {
        Stored::new(&config_with(CONFIG, &[]), Head::Stored)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("model.safetensors")
    }

    fn write(&self, model: &Model) {
        write::one(models::format("safetensors"), &self.path(), model, Fill::Zero).unwrap();
    }

    /// Without the comparison of the head, which reads 622 MB.
    fn check(&self) -> Report {
        run(self.folder.path(), &Request { identity: false, ..request() }).report
    }

    /// The report on the model with one change.
    fn changed(&self, change: impl FnOnce(&mut Model)) -> Report {
        let mut model = self.model.clone();
        change(&mut model);
        self.write(&model);
        self.check()
    }

    /// Demands an error that names the tensor.
    fn must_name(&self, name: &str, what: &str, change: impl FnOnce(&mut Model)) {
        let report = self.changed(change);
        let mut severe = report.findings.iter().filter(|f| f.severity == Severity::Error);
        let told = severe.any(|f| names(f, name));
        assert!(told, "{name} {what}: {:?}", errors(&report));
    }
}

fn counts(report: &Report) -> &Counts {
    &report.counts
}

/// Runs the program on the model: exit code and what it printed.
fn program(command: &str, model: &Stored, options: &[&str]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_scantling"));
    let output = program.arg(command).arg(model.folder.path()).args(options).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_released_model_is_clean_and_a_changed_byte_of_its_head_is_found() {
    let stored = Stored::released();
    let checked = run(stored.folder.path(), &request());
    let report = checked.report;
    assert_eq!(errors(&report), [""; 0]);
    let expected = Counts {
        tensors: 311,
        bytes: 2 * 751_632_384,
        stored: 751_632_384,
        logical: Some(596_049_920),
        embedding: Some(155_582_464),
        expected: Some(311),
    };
    assert_eq!(*counts(&report), expected);
    let note = |code: &str| report.findings.iter().find(|f| f.code.id == code).unwrap().to_string();
    assert!(note("tied-copy").contains("155,582,464 params counted once"), "{}", note("tied-copy"));
    // 1024 × 1024: k and v could be transposed without a shape to tell.
    let square = note("square-matrices");
    assert!(square.contains("self_attn.k_proj.weight") && square.contains("self_attn.v_proj.weight"));
    assert!(!square.contains("q_proj"));
    let (code, out) = program("inspect", &stored, &["--no-identity"]);
    assert_eq!(code, Some(0), "{out}");
    for figure in ["311", "751,632,384", "596,049,920", "155,582,464", "26.1%"] {
        assert!(out.contains(figure), "{figure} is not in {out}");
    }

    // One bit in one of 311,164,928 bytes.
    let head = checked.source.tensors().get(HEAD).unwrap().bytes.clone().unwrap();
    drop(checked.source);
    let at = head.end - 1_000_003;
    let file = std::fs::OpenOptions::new().write(true).open(stored.path()).unwrap();
    file.write_all_at(&[0x40], at).unwrap();
    let report = run(stored.folder.path(), &request()).report;
    let wrong: Vec<_> = report.findings.iter().filter(|f| f.severity == Severity::Error).collect();
    let [wrong] = wrong.as_slice() else { panic!("{:?}", errors(&report)) };
    assert_eq!((wrong.code.id, wrong.place.offset), ("tied-differs", Some(at)));
    assert_eq!(wrong.place.tensor.as_deref(), Some(HEAD));
    assert_eq!((wrong.expected.as_deref(), wrong.found.as_deref()), (Some("0x00"), Some("0x40")));
    assert!(wrong.message.contains(&format!("byte {}", head.end - head.start - 1_000_003)), "{wrong}");
    let (code, out) = program("check", &stored, &["--only", "ties"]);
    assert!(code == Some(1) && out.contains(&at.to_string()), "{code:?} {out}");
}

#[test]
fn the_head_may_be_absent_only_where_it_is_tied() {
    let tied = Stored::new(&config_with(CONFIG, &[]), Head::Omitted);
    let report = run(tied.folder.path(), &request()).report;
    assert_eq!(errors(&report), [""; 0]);
    assert_eq!((counts(&report).tensors, counts(&report).expected), (310, Some(310)));
    assert_eq!(counts(&report).stored, 596_049_920);
    assert_eq!(counts(&report).logical, Some(596_049_920));
    assert_eq!(program("inspect", &tied, &[]).0, Some(0));

    let untied = config_with(CONFIG, &[("tie_word_embeddings", false.into())]);
    let headless = Stored::new(&untied, Head::Omitted);
    let report = headless.check();
    let [only] = errors(&report).try_into().unwrap_or_else(|all: Vec<String>| panic!("{all:?}"));
    assert!(only.contains(HEAD) && only.contains("tie_word_embeddings"), "{only}");

    assert_eq!(program("inspect", &headless, &[]).0, Some(1));

    let report = Stored::new(&untied, Head::AsConfigured).check();
    assert_eq!(errors(&report), [""; 0]);
    assert_eq!(counts(&report).logical, Some(751_632_384));
}

#[test]
fn a_renamed_tensor_of_any_kind_is_named() {
    let stored = Stored::released();
    assert_eq!(errors(&stored.check()), [""; 0]);
    for name in KINDS {
        let renamed = name.replace(".weight", ".w");
        let rename = |m: &mut Model| tensor(m, name).spec.name = renamed.clone();
        // The new name has no place in the table; the old one is missed unless it is tied.
        stored.must_name(&renamed, "is a new name", rename);
        if name != HEAD {
            stored.must_name(name, "is an old name", rename);
        }
    }
}

#[test]
fn a_tensor_of_any_kind_with_a_row_too_many_is_named() {
    let stored = Stored::released();
    for name in KINDS {
        stored.must_name(name, "has a row too many", |m| tensor(m, name).spec.shape[0] += 1);
    }
}

#[test]
fn a_missing_tensor_of_any_kind_but_the_tied_head_is_named() {
    let stored = Stored::released();
    for name in KINDS {
        if name == HEAD {
            assert_eq!(errors(&stored.changed(|m| remove(m, name))), [""; 0]);
        } else {
            stored.must_name(name, "is missing", |m| remove(m, name));
        }
    }
}

#[test]
fn a_transposed_matrix_is_named_where_a_shape_can_tell() {
    let stored = Stored::released();
    for name in OBLONG {
        stored.must_name(name, "is transposed", |m| tensor(m, name).spec.shape.reverse());
    }
    // Four kv heads make k and v oblong too.
    let fewer = Stored::new(&config_with(CONFIG, &[("num_key_value_heads", json!(4))]), Head::Stored);
    let report = fewer.check();
    assert_eq!(errors(&report), [""; 0]);
    assert!(!report.findings.iter().any(|f| f.code.id == "square-matrices"));
    for name in [KINDS[3], KINDS[4]] {
        fewer.must_name(name, "is transposed", |m| tensor(m, name).spec.shape.reverse());
    }
}

#[test]
fn made_up_numbers_are_sane_in_every_element_type() {
    for dtype in DType::all().filter(|d| fill::check(*d).is_ok()) {
        let blocks = 65_536 / dtype.block_elements();
        let bytes = blocks * dtype.block_bytes();
        let made = |name: &str, seed: u64| {
            let mut out = Vec::new();
            fill::tensor(&mut out, dtype, bytes as u64, Use::Matrix, name, seed).unwrap();
            out
        };
        let raw = made("a", 1);
        assert!(raw == made("a", 1) && raw != made("b", 1) && raw != made("a", 2), "{dtype}");
        let mut values = vec![0.0; blocks * dtype.block_values()];
        let codec = dtype.codec().unwrap();
        (codec.decode)(&raw, &mut values);
        assert!(raw.chunks(dtype.block_bytes()).all(|b| codec.suspect.is_none_or(|s| !s(b))), "{dtype}");
        let n = values.len() as f32;
        let mean = values.iter().sum::<f32>() / n;
        let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n).sqrt();
        assert!((0.01..0.04).contains(&spread) && mean.abs() < 0.02, "{dtype}: mean {mean}, spread {spread}");
    }
    assert!(fill::check(DType::I32).is_err());
}
