//! `diff`: faults that are planted in models are told by their names, conversions are told to be what they are, and the
//! exit code is that of the verdict.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;

use common::{Run, run_in, valid};
use models::{folder_from, format, registry, testdata};
use scantling_core::convert::{Converted, interleaved};
use scantling_core::dtype::DType;
use scantling_core::metadata::Metadata;
use scantling_core::source::{Dialect, TensorSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor as it is stored.
#[derive(Clone)]
struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A model to plant faults in.
#[derive(Clone)]
struct Planted {
    format: &'static str,
    metadata: Metadata,
    config: Option<Vec<u8>>,
    tensors: BTreeMap<String, Stored>,
}

impl Planted {
    /// A file of tensors without a config.
    fn of_file(path: &Path) -> Planted {
        let source = registry().open(path).unwrap();
        let tensors = source.tensors().tensors().iter().map(|t| {
            let bytes = source.bytes(t).unwrap().into_owned();
            (t.name.clone(), Stored { dtype: t.dtype.known().unwrap(), shape: t.shape.clone(), bytes })
        });
        let config = Some(b"{}".to_vec());
        Planted { format: "safetensors", metadata: Metadata::default(), config, tensors: tensors.collect() }
    }

    /// All of a model.
    fn of(path: &Path) -> Planted {
        let source = registry().open(path).unwrap();
        let tensors = source.tensors().tensors().iter().map(|t| {
            let bytes = source.bytes(t).unwrap().into_owned();
            (t.name.clone(), Stored { dtype: t.dtype.known().unwrap(), shape: t.shape.clone(), bytes })
        });
        let hf = source.dialect() == Dialect::Hf;
        Planted {
            format: if hf { "safetensors" } else { "gguf" },
            metadata: if hf { Metadata::default() } else { source.metadata().clone() },
            config: hf.then(|| fs::read(path.join("config.json")).unwrap()),
            tensors: tensors.collect(),
        }
    }

    /// A model of the Hugging Face world in the form of GGUF, all numbers as F32.
    fn converted(folder: &Path, kind: &str) -> Planted {
        let checked = models::run(folder, &models::request());
        let kernel = registry().leaf("scalar", &Default::default()).unwrap();
        let table = checked.architecture.as_ref().unwrap().tensors();
        let mut tensors = BTreeMap::new();
        for (i, row) in table.rows().iter().enumerate() {
            let Some(numbers) = Converted::of(table, i, checked.source.as_ref(), &*kernel).unwrap() else {
                continue;
            };
            let mut values = vec![0.0; numbers.len()];
            numbers.read(&*kernel, 0, &mut values);
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let shape = numbers.shape().to_vec();
            tensors.insert(table.name(row, Dialect::Gguf), Stored { dtype: DType::F32, shape, bytes });
        }
        let mut metadata = Metadata::default();
        models::make::push(
            &mut metadata,
            "general.architecture",
            "string",
            scantling_core::metadata::Value::Text(kind.to_owned()),
        );
        Planted { format: "gguf", metadata, config: None, tensors }
    }

    /// Writes it, and tells where it is.
    fn write(&self, folder: &Path) -> PathBuf {
        let specs: Vec<TensorSpec> = self
            .tensors
            .iter()
            .map(|(name, t)| TensorSpec { name: name.clone(), dtype: t.dtype, shape: t.shape.clone() })
            .collect();
        let plan = (format(self.format).plan.unwrap())(&self.metadata, &specs).unwrap();
        let mut file = vec![0; usize::try_from(plan.len).unwrap()];
        file[..plan.header.len()].copy_from_slice(&plan.header);
        for (at, tensor) in plan.offsets.iter().zip(self.tensors.values()) {
            file[usize::try_from(*at).unwrap()..][..tensor.bytes.len()].copy_from_slice(&tensor.bytes);
        }
        fs::create_dir_all(folder).unwrap();
        match &self.config {
            Some(config) => {
                fs::write(folder.join("config.json"), config).unwrap();
                fs::write(folder.join("model.safetensors"), file).unwrap();
                folder.to_owned()
            }
            None => {
                let path = folder.join("model.gguf");
                fs::write(&path, file).unwrap();
                path
            }
        }
    }

    fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors.get_mut(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    fn swap(&mut self, a: &str, b: &str) {
        let (one, other) = (self.tensor(a).bytes.clone(), self.tensor(b).bytes.clone());
        self.tensor(a).bytes = other;
        self.tensor(b).bytes = one;
    }
}

impl Stored {
    fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.bytes.len() / self.dtype.block_bytes() * self.dtype.block_values()];
        scantling_core::quant::decode(self.dtype, &self.bytes, &mut values).unwrap();
        values
    }

    /// The numbers changed one by one, rounded to the type again.
    fn each(&mut self, mut change: impl FnMut(usize, f32) -> f32) {
        let values: Vec<f32> = self.values().into_iter().enumerate().map(|(i, v)| change(i, v)).collect();
        self.put(&values);
    }

    fn put(&mut self, values: &[f32]) {
        self.bytes = match self.dtype {
            DType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            DType::BF16 => values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect(),
            DType::F16 => values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
            other => panic!("no {other} is written here"),
        };
    }

    /// Rows in another order: the one in place `i` is the one that was in place `from(i)`.
    fn rows(&mut self, from: impl Fn(usize) -> usize) {
        let rows = self.shape[0];
        let width = self.bytes.len() / rows;
        let old = self.bytes.clone();
        for i in 0..rows {
            self.bytes[i * width..][..width].copy_from_slice(&old[from(i) * width..][..width]);
        }
    }
}

/// Numbers around zero that are the same in every run.
fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn diff(a: &Path, b: &Path, more: &[&str]) -> Run {
    let mut args = vec!["diff", a.to_str().unwrap(), b.to_str().unwrap()];
    args.extend(more);
    run_in(Path::new("."), &args)
}

/// What a comparison found: the exit code, the codes of all errors, and the document.
fn found(a: &Path, b: &Path, more: &[&str]) -> (i32, Vec<String>, Value) {
    let mut args = more.to_vec();
    args.push("--json");
    let run = diff(a, b, &args);
    let document = valid(&run);
    let errors = document["findings"].as_array().unwrap().iter().filter(|f| f["severity"] == "error");
    let codes = errors.map(|f| f["code"].as_str().unwrap().to_owned()).collect();
    (run.code, codes, document)
}

/// The pair of a tensor.
fn pair<'d>(document: &'d Value, name: &str) -> &'d Value {
    let pairs = document["tensors"].as_array().unwrap();
    pairs.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no pair {name}"))
}

/// A small Hugging Face model with a fault planted, held against what it was: the only errors are of this code, and the
/// message is this.
#[track_caller]
fn planted(model: &str, code: &str, message: &str, plant: impl FnOnce(&mut Planted)) -> Value {
    let original = testdata(model);
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    plant(&mut changed);
    let path = changed.write(folder.path());
    told(&original, &path, code, message)
}

#[track_caller]
fn told(a: &Path, b: &Path, code: &str, message: &str) -> Value {
    let (exit, codes, document) = found(a, b, &[]);
    assert_eq!((exit, codes.as_slice()), (1, &[code.to_owned()][..]), "{:#}", document["findings"]);
    let all = document["findings"].to_string();
    assert!(all.contains(message), "{message} is not in {all}");
    document
}

#[test]
fn a_model_is_itself_in_both_formats() {
    for (folder, file) in [
        ("llama-tiny", "llama-tiny.gguf"),
        ("qwen3-tiny", "qwen3-tiny.gguf"),
        ("qwen2-tiny", "qwen2-tiny.gguf"),
    ] {
        let (folder, file) = (testdata(folder), testdata(file));
        for (a, b) in [(&folder, &folder), (&file, &file), (&folder, &file), (&file, &folder)] {
            let (exit, codes, document) = found(a, b, &[]);
            assert_eq!((exit, codes), (0, Vec::new()), "{}: {document:#}", a.display());
            assert_eq!(document["verdict"]["ok"], true);
            let classes = document["verdict"]["classes"].as_object().unwrap();
            let same: u64 =
                ["identical", "equal", "transformed"].iter().map(|c| classes[*c].as_u64().unwrap()).sum();
            assert_eq!(same as usize, document["tensors"].as_array().unwrap().len());
        }
    }
    // What llama's converter does to queries and keys is named.
    let (_, _, document) = found(&testdata("llama-tiny"), &testdata("llama-tiny.gguf"), &[]);
    let q = pair(&document, "model.layers.1.self_attn.q_proj.weight");
    assert_eq!(
        (&q["class"], &q["steps"]["a"][0]),
        (&"transformed".into(), &"rows of heads of 20 interleaved".into())
    );
    assert_eq!(pair(&document, "model.layers.1.self_attn.v_proj.weight")["class"], "identical");
    let run = diff(&testdata("llama-tiny"), &testdata("llama-tiny.gguf"), &[]);
    assert!(run.out.contains("B holds the numbers of A"), "{}", run.out);
}

#[test]
fn a_scaled_norm() {
    let name = "model.layers.1.input_layernorm.weight";
    let document =
        planted("llama-tiny", "diff-scaled", "times 2.0000", |m| m.tensor(name).each(|_, v| v * 2.0));
    assert_eq!(pair(&document, name)["class"], "different");
    assert_eq!(document["verdict"]["classes"]["different"], 1);
}

#[test]
fn layers_in_each_others_places() {
    let message = "layer 0 of the second model holds what layer 2 of the first does";
    let original = testdata("llama-tiny");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    let names: Vec<String> =
        changed.tensors.keys().filter(|n| n.starts_with("model.layers.0.")).cloned().collect();
    for name in &names {
        changed.swap(name, &name.replace(".0.", ".2."));
    }
    let path = changed.write(folder.path());
    let (exit, codes, document) = found(&original, &path, &[]);
    assert_eq!((exit, codes), (1, vec!["diff-layers".to_owned(); 2]), "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains(message), "{:#}", document["findings"]);
}

#[test]
fn another_training_of_the_model() {
    let message = "near those of the first model";
    planted("qwen3-tiny", "diff-near", message, |m| {
        for (i, tensor) in m.tensors.values_mut().enumerate() {
            let mut noise = noise(i as u64);
            tensor.each(|_, v| v + 0.05 * noise() * v.abs().max(0.1));
        }
    });
}

#[test]
fn another_model_of_the_same_shape() {
    planted("qwen3-tiny", "diff-values", "not those of the first model", |m| {
        for (i, tensor) in m.tensors.values_mut().enumerate() {
            let mut noise = noise(i as u64);
            tensor.each(|_, _| noise());
        }
    });
}

#[test]
fn a_transposed_square_matrix() {
    let name = "transformer.h.0.attn.c_proj.weight";
    planted("goldens/gpt2", "diff-transposed", "rows and columns are exchanged", |m| {
        let tensor = m.tensor(name);
        let (values, n) = (tensor.values(), tensor.shape[0]);
        let turned: Vec<f32> = (0..n * n).map(|i| values[i % n * n + i / n]).collect();
        tensor.put(&turned);
    });
}

#[test]
fn gate_and_up_in_each_others_places() {
    let message = "model.layers.*.mlp.gate_proj.weight holds what model.layers.*.mlp.up_proj.weight of the first model holds, in 2 layers";
    let original = testdata("qwen3-tiny");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    for layer in 0..2 {
        let name = |which: &str| format!("model.layers.{layer}.mlp.{which}_proj.weight");
        changed.swap(&name("gate"), &name("up"));
    }
    let (exit, codes, document) = found(&original, &changed.write(folder.path()), &[]);
    assert_eq!((exit, codes), (1, vec!["diff-misplaced".to_owned(); 2]), "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains(message), "{:#}", document["findings"]);
}

#[test]
fn experts_in_another_order() {
    let original = testdata("goldens/qwen3_moe_mixed");
    // Each a tensor of its own, as Hugging Face has them.
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    for which in ["gate", "up", "down"] {
        let name = |expert: usize| format!("model.layers.0.mlp.experts.{expert}.{which}_proj.weight");
        changed.swap(&name(0), &name(2));
        changed.swap(&name(1), &name(2));
    }
    let (exit, codes, document) = found(&original, &changed.write(folder.path()), &[]);
    assert_eq!(exit, 1);
    assert!(
        !codes.is_empty() && codes.iter().all(|code| code == "diff-experts"),
        "{:#}",
        document["findings"]
    );
    // Stacked, as GGUF has them.
    let file = tempfile::tempdir().unwrap();
    let stacked = Planted::converted(folder.path(), "qwen3moe");
    let path = stacked.write(file.path());
    let config = original.join("config.json");
    let (exit, codes, document) = found(&original, &path, &["--config-b", config.to_str().unwrap()]);
    assert_eq!((exit, codes), (1, vec!["diff-experts".to_owned(); 3]), "{:#}", document["findings"]);
    assert!(
        document["findings"]
            .to_string()
            .contains("3 experts are others of the first model: 0 is 2, 1 is 0, 2 is 1")
    );
}

#[test]
fn the_one_of_a_norm_left_out() {
    let original = testdata("goldens/gemma3");
    let config = original.join("config.json");
    let more = ["--config-b", config.to_str().unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let mut converted = Planted::converted(&original, "gemma3");
    let (exit, codes, document) = found(&original, &converted.write(folder.path()), &more);
    assert_eq!((exit, codes), (0, Vec::new()), "{:#}", document["findings"]);
    assert_eq!(pair(&document, "model.layers.0.input_layernorm.weight")["steps"]["a"][0], "1 added");
    converted.tensor("blk.0.attn_norm.weight").each(|_, v| v - 1.0);
    let (exit, codes, document) = found(&original, &converted.write(folder.path()), &more);
    assert_eq!((exit, codes), (1, vec!["diff-offset".to_owned()]), "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains("the 1 that the norm multiplies by was left out"));
}

#[test]
fn rows_of_a_vocabulary_cut_off() {
    let original = testdata("llama-tiny");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    for name in ["model.embed_tokens.weight", "lm_head.weight"] {
        let tensor = changed.tensor(name);
        let width = tensor.bytes.len() / tensor.shape[0];
        tensor.shape[0] = 320;
        tensor.bytes.truncate(320 * width);
    }
    let mut config: Value = serde_json::from_slice(changed.config.as_ref().unwrap()).unwrap();
    config["vocab_size"] = 320.into();
    changed.config = Some(config.to_string().into_bytes());
    let (exit, codes, document) = found(&original, &changed.write(folder.path()), &[]);
    assert_eq!(exit, 1);
    let mut sorted = codes.clone();
    sorted.sort();
    assert_eq!(sorted, ["diff-fact-changed", "diff-rows-cut", "diff-rows-cut"], "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains("the second model lacks the last 11 rows"));
}

#[test]
fn one_value_that_is_no_number() {
    let name = "model.layers.1.mlp.down_proj.weight";
    let document =
        planted("qwen2-tiny", "diff-not-finite", "the first that is so in one alone at [1, ", |m| {
            let tensor = m.tensor(name);
            let at = tensor.shape[1] + 3;
            tensor.each(|i, v| if i == at { f32::NAN } else { v });
        });
    assert_eq!(pair(&document, name)["measured"]["not_finite"], serde_json::json!({"a": 0, "b": 1}));
}

#[test]
fn rows_of_heads_in_an_order_they_must_not_have() {
    // Queries that a converter did not touch, where it had to.
    let original = testdata("llama-tiny");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&testdata("llama-tiny.gguf"));
    let hf = Planted::of(&original);
    let name = "blk.2.attn_q.weight";
    changed.tensor(name).bytes = hf.tensors["model.layers.2.self_attn.q_proj.weight"].bytes.clone();
    let path = changed.write(folder.path());
    told(
        &original,
        &path,
        "diff-rows-permuted",
        "within heads of 20, the second model has the rows half a head apart",
    );
    // And some that it did touch, where it must not.
    let message = "within heads of 20, the second model has the rows side by side";
    let name = "model.layers.0.self_attn.k_proj.weight";
    planted("qwen3-tiny", "diff-rows-permuted", message, |m| m.tensor(name).rows(|row| interleaved(row, 20)));
}

#[test]
fn tokens_in_another_order() {
    planted("llama-tiny", "diff-rows-reordered", "row 0 is row 330 of the first model", |m| {
        m.tensor("model.embed_tokens.weight").rows(|row| 330 - row);
    });
}

#[test]
fn a_damaged_block() {
    let original = testdata("qwen3-q4_k_m.gguf");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    let name = "blk.0.ffn_gate.weight";
    let tensor = changed.tensor(name);
    assert_eq!(tensor.dtype, DType::Q4_K);
    tensor.bytes[3 * 144 + 20..][..100].iter_mut().for_each(|b| *b ^= 0x5a);
    let path = changed.write(folder.path());
    let document = told(&original, &path, "diff-damaged", "all between [3, ");
    assert_eq!(document["verdict"]["classes"]["different"], 1);
    // The file and the byte at which the block begins.
    let finding =
        &document["findings"].as_array().unwrap().iter().find(|f| f["code"] == "diff-damaged").unwrap();
    let opened = registry().open(&path).unwrap();
    let start = opened.tensors().get(name).unwrap().bytes.as_ref().unwrap().start;
    assert_eq!(finding["place"]["offset"], start + 3 * 144, "{finding:#}");
}

#[test]
fn facts_that_changed_and_requests_that_are_wrong() {
    let original = testdata("qwen3-tiny");
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&original);
    let mut config: Value = serde_json::from_slice(changed.config.as_ref().unwrap()).unwrap();
    config["rope_parameters"]["rope_theta"] = 5e5.into();
    changed.config = Some(config.to_string().into_bytes());
    told(&original, &changed.write(folder.path()), "diff-fact-changed", "rotary base is not the same");
    assert_eq!(diff(&original, Path::new("/nowhere"), &[]).code, 3);
    assert_eq!(diff(&original, &original, &["--include", "["]).code, 2);
    assert_eq!(diff(&original, &original, &["--arch", "none"]).code, 2);
    // What is left out is not compared, and a comparison of nothing is no comparison.
    let nothing = diff(&original, &original, &["--include", "none*"]);
    assert_eq!(nothing.code, 1, "{}", nothing.out);
    assert!(nothing.out.contains("no tensor was compared"), "{}", nothing.out);
}

#[test]
fn a_model_of_no_known_family_is_compared_by_name_and_only_in_one_world() {
    let folder = tempfile::tempdir().unwrap();
    let mut changed = Planted::of(&testdata("qwen3-tiny"));
    changed.config = Some(br#"{"model_type": "unheard_of"}"#.to_vec());
    let path = changed.write(folder.path());
    let (exit, _, document) = found(&path, &path, &[]);
    assert_eq!((exit, &document["verdict"]["classes"]["uncompared"]), (0, &0.into()));
    let mut other = Planted::of(&testdata("qwen3-tiny.gguf"));
    other.metadata = Metadata::default();
    models::make::push(
        &mut other.metadata,
        "general.architecture",
        "string",
        scantling_core::metadata::Value::Text("unheard_of".to_owned()),
    );
    let gguf = other.write(&folder.path().join("gguf"));
    let (exit, codes, document) = found(&path, &gguf, &[]);
    assert_eq!(exit, 1);
    assert_eq!(codes, [""; 0], "{:#}", document["findings"]);
    assert_eq!(
        document["verdict"]["classes"]["uncompared"].as_u64().unwrap() as usize,
        document["tensors"].as_array().unwrap().len()
    );
    assert_eq!(document["verdict"]["classes"]["different"], 0);
    assert_eq!(found(&path, &gguf, &["--allow", "uncompared"]).0, 0);
}

/// Every conversion that there is, against what it was made from.
#[test]
fn the_goldens_conversions_are_what_they_were_made_from() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let models = shared.join("golden/models");
    let mut files: Vec<PathBuf> =
        fs::read_dir(shared.join("golden/gguf")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "gguf"));
    files.sort();
    let mut quantised = 0;
    let mut pairs = 0;
    for file in files {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = models.join(stem.split('.').next().unwrap());
        if !folder.exists() {
            continue;
        }
        pairs += 1;
        let (exit, codes, document) = found(&folder, &file, &["--allow", "quantised"]);
        assert_eq!(
            (exit, codes),
            (0, Vec::new()),
            "{stem}: {:#}\n{:#}",
            document["findings"],
            document["verdict"]
        );
        let classes = &document["verdict"]["classes"];
        assert_eq!(classes["uncompared"], 0, "{stem}");
        let rounded = classes["quantised"].as_u64().unwrap();
        quantised += rounded;
        let exact = found(&folder, &file, &[]).0;
        assert_eq!(exact, i32::from(rounded > 0), "{stem}: without --allow");
        let q256 = stem.starts_with("qwen3_q256");
        assert_eq!(rounded > 0, q256, "{stem}: {classes}");
    }
    assert!(pairs >= 25 && quantised >= 40, "{pairs} pairs, {quantised} quantised tensors");
}

/// A block of a quantised file that was written over, against the file's original and against the model that it was made
/// from; the same file quantised well, and a matrix of it that belongs elsewhere.
#[test]
fn faults_show_through_quantisation() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (model, file) =
        (shared.join("golden/models/qwen3_q256"), shared.join("golden/gguf/qwen3_q256.q4_k_m.gguf"));
    let folder = tempfile::tempdir().unwrap();
    let (_, _, document) = found(&model, &file, &[]);
    let fine = pair(&document, "model.layers.0.mlp.gate_proj.weight");
    assert_eq!(
        (&fine["class"], &fine["measured"]["bound"]["kind"]),
        (&"quantised".into(), &"relative-rms".into())
    );
    let relative = fine["measured"]["relative_rms"].as_f64().unwrap();
    assert!((0.05..0.1).contains(&relative), "{relative}: what ggml's quantiser makes of Q4_K");

    let name = "blk.0.ffn_gate.weight";
    let mut changed = Planted::of(&file);
    let tensor = changed.tensor(name);
    let block = tensor.dtype.block_bytes();
    tensor.bytes[7 * block + 16..8 * block].iter_mut().for_each(|b| *b ^= 0xa5);
    let path = changed.write(&folder.path().join("damaged"));
    let (exit, codes, document) = found(&model, &path, &["--allow", "quantised"]);
    assert_eq!((exit, codes), (1, vec!["diff-damaged".to_owned()]), "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains("1 blocks are farther"), "{:#}", document["findings"]);

    let mut changed = Planted::of(&file);
    changed.swap(name, "blk.0.ffn_up.weight");
    let path = changed.write(&folder.path().join("swapped"));
    let (exit, codes, document) = found(&model, &path, &["--allow", "quantised"]);
    assert_eq!((exit, codes), (1, vec!["diff-misplaced".to_owned(); 2]), "{:#}", document["findings"]);
}

/// The table of docs/diff.md is that of the types; `UPDATE=1` writes it.
#[test]
fn the_documents_table_is_the_types_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/diff.md");
    let text = fs::read_to_string(&path).unwrap();
    let by_step = [DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0];
    let rows = DType::all().filter_map(|dtype| {
        let error = dtype.quantisation_error()?;
        let whole = || format!("{:.4}", (1.5 * error).min(0.95));
        let allowed = if by_step.contains(&dtype) { "one step".to_owned() } else { whole() };
        Some(format!("| {dtype} | {error:.4} | {allowed} |"))
    });
    let table = rows.collect::<Vec<_>>().join("\n");
    let (head, rest) = text.split_once("|---|---|---|\n").unwrap();
    let (_, tail) = rest.split_once("\n\n").unwrap();
    let wanted = format!("{head}|---|---|---|\n{table}\n\n{tail}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert!(text == wanted || std::env::var_os("UPDATE").is_some(), "run this test with UPDATE=1:\n{table}");
}

/// Packed weights against what the reference libraries make of them.
#[test]
fn packed_weights_are_what_they_decode_to() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let folders = fs::read_dir(shared.join("golden/hf-quantized")).unwrap().map(|e| e.unwrap().path());
    let mut seen = 0;
    for folder in folders {
        let (packed, decoded) = (folder.join("model.safetensors"), folder.join("decoded.safetensors"));
        let names: Vec<String> = Planted::of_file(&decoded).tensors.into_keys().collect();
        let config = folder.join("config.json");
        let mut more = vec!["--config-b", config.to_str().unwrap()];
        more.extend(names.iter().flat_map(|name| ["--include", name.as_str()]));
        let (exit, codes, document) = found(&packed, &decoded, &more);
        assert_eq!((exit, codes), (0, Vec::new()), "{}: {:#}", folder.display(), document["findings"]);
        let classes = &document["verdict"]["classes"];
        assert_eq!(classes["transformed"], names.len(), "{}: {classes}", folder.display());
        // And with a number of it changed, that is told.
        let kept = tempfile::tempdir().unwrap();
        let mut changed = Planted::of_file(&decoded);
        changed.tensor(&names[0]).each(|i, v| if i == 5 { v + 9.0 } else { v });
        let path = changed.write(kept.path()).join("model.safetensors");
        let (exit, codes, document) = found(&packed, &path, &more);
        assert_eq!(
            (exit, codes),
            (1, vec!["diff-damaged".to_owned()]),
            "{}: {:#}",
            folder.display(),
            document["findings"]
        );
        seen += 1;
    }
    assert_eq!(seen, 12);
}
