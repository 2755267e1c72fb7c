//! `diff`: faults that are planted in models are told by their names, conversions are told to be what they are, and the
//! exit code is that of the verdict.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;
mod planted;

use common::{Run, run_in, valid};
use models::{folder_from, registry, testdata};
use planted::{Planted, noise};
use scantling_core::convert::interleaved;
use scantling_core::dtype::DType;
use scantling_core::metadata::Metadata;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

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
fn fault(model: &str, code: &str, message: &str, plant: impl FnOnce(&mut Planted)) -> Value {
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
        fault("llama-tiny", "diff-scaled", "times 2.0000", |m| m.tensor(name).each(|_, v| v * 2.0));
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
    fault("qwen3-tiny", "diff-near", message, |m| {
        for (i, tensor) in m.tensors.values_mut().enumerate() {
            let mut noise = noise(i as u64);
            tensor.each(|_, v| v + 0.05 * noise() * v.abs().max(0.1));
        }
    });
}

#[test]
fn another_model_of_the_same_shape() {
    fault("qwen3-tiny", "diff-values", "not those of the first model", |m| {
        for (i, tensor) in m.tensors.values_mut().enumerate() {
            let mut noise = noise(i as u64);
            tensor.each(|_, _| noise());
        }
    });
}

#[test]
fn a_transposed_square_matrix() {
    let name = "transformer.h.0.attn.c_proj.weight";
    fault("goldens/gpt2", "diff-transposed", "rows and columns are exchanged", |m| {
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
    assert_eq!((exit, codes), (1, vec!["diff-experts".to_owned()]), "{:#}", document["findings"]);
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
    let document = fault("qwen2-tiny", "diff-not-finite", "the first that is so in one alone at [1, ", |m| {
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
    fault("qwen3-tiny", "diff-rows-permuted", message, |m| m.tensor(name).rows(|row| interleaved(row, 20)));
}

#[test]
fn tokens_in_another_order() {
    fault("llama-tiny", "diff-rows-reordered", "row 0 is row 330 of the first model", |m| {
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
    let (mut quantised, mut pairs, mut vocabularies) = (0, 0, 0);
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
        let vocabulary = &document["vocabulary"];
        assert_eq!(vocabulary["differing"], 0, "{stem}");
        vocabularies += usize::from(vocabulary["ids"].as_u64().is_some_and(|ids| ids > 100));
        let rounded = classes["quantised"].as_u64().unwrap();
        quantised += rounded;
        let exact = found(&folder, &file, &[]).0;
        assert_eq!(exact, i32::from(rounded > 0), "{stem}: without --allow");
        let q256 = stem.starts_with("qwen3_q256");
        assert_eq!(rounded > 0, q256, "{stem}: {classes}");
    }
    assert!(pairs >= 25 && quantised >= 40, "{pairs} pairs, {quantised} quantised tensors");
    assert!(vocabularies >= 20, "{vocabularies} vocabularies of {pairs}");
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
    assert_eq!((exit, codes), (1, vec!["diff-few-beyond-type".to_owned()]), "{:#}", document["findings"]);
    assert!(document["findings"].to_string().contains("1 block is farther"), "{:#}", document["findings"]);

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
        let kept = tempfile::tempdir().unwrap();
        let config = kept.path().join("config.json");
        let mut plain: Value =
            serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        plain.as_object_mut().unwrap().remove("quantization_config");
        fs::write(&config, plain.to_string()).unwrap();
        let mut more = vec!["--config-b", config.to_str().unwrap()];
        more.extend(names.iter().flat_map(|name| ["--include", name.as_str()]));
        let (exit, codes, document) = found(&packed, &decoded, &more);
        assert_eq!((exit, codes), (0, Vec::new()), "{}: {:#}", folder.display(), document["findings"]);
        let classes = &document["verdict"]["classes"];
        assert_eq!(classes["transformed"], names.len(), "{}: {classes}", folder.display());
        // And with a number of it changed, that is told.
        let mut changed = Planted::of_file(&decoded);
        changed.tensor(&names[0]).each(|i, v| if i == 5 { v + 9.0 } else { v });
        let path = changed.write(&kept.path().join("changed")).join("model.safetensors");
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

/// A config that is silent, says that there is none, or says what is refused, is another config.
#[test]
fn hyperparameters_that_one_side_does_not_give_are_told() {
    let changed = |model: &str, change: &dyn Fn(&mut Value)| {
        let original = testdata(model);
        let folder = tempfile::tempdir().unwrap();
        let mut config: Value =
            serde_json::from_slice(&fs::read(original.join("config.json")).unwrap()).unwrap();
        change(&mut config);
        let file = folder.path().join("config.json");
        fs::write(&file, config.to_string()).unwrap();
        let (exit, codes, _) = found(&original, &original, &["--config-b", file.to_str().unwrap()]);
        (exit, codes)
    };
    let one = |code: &str| (1, vec![code.to_owned()]);
    assert_eq!(changed("qwen3-tiny", &|_| {}), (0, Vec::new()));
    let told = changed("goldens/mistral_swa", &|c| c["sliding_window"] = Value::Null);
    assert_eq!(told, one("diff-fact-changed"));
    assert_eq!(changed("qwen3-tiny", &|c| c["hidden_act"] = "gelu".into()), one("diff-config-fault"));
    assert_eq!(changed("qwen3-tiny", &|c| c["partial_rotary_factor"] = 0.5.into()), one("diff-config-fault"));
    let told = changed("qwen3-tiny", &|c| {
        c["model_type"] = "llama".into();
        c["architectures"] = serde_json::json!(["LlamaForCausalLM"]);
    });
    assert!(told.0 == 1 && told.1.contains(&"diff-family".to_owned()), "{told:?}");
    let told = changed("qwen3-tiny", &|c| c["model_type"] = "unheard_of".into());
    assert!(told.0 == 1 && told.1.contains(&"diff-facts-unknown".to_owned()), "{told:?}");
}

/// What a GGUF file holds of rotary scaling as numbers is held against the config.
#[test]
fn rotary_frequencies_follow_from_the_config() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let model = shared.join("golden/models/llama3_rope");
    let mut changed = Planted::of(&shared.join("golden/gguf/llama3_rope.bf16.gguf"));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(found(&model, &changed.write(folder.path()), &[]).0, 0);
    changed.tensor("rope_freqs.weight").each(|i, v| if i == 7 { v * 1.5 } else { v });
    let (exit, codes, document) = found(&model, &changed.write(folder.path()), &[]);
    assert_eq!(exit, 1);
    assert!(codes.contains(&"diff-fact-changed".to_owned()), "{codes:?}");
    assert!(
        document["findings"].to_string().contains("do not follow from the config, from 7 on"),
        "{document:#}"
    );
}

/// Holes of zeros, scales and numbers beyond f32 are no rounding.
#[test]
fn what_rounding_does_not_explain_is_not_let_pass() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let model = shared.join("golden/models/qwen3_q256");
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for stem in ["q2_k", "q4_0", "q8_0", "q4_k_m", "mix_iq", "mix_legacy"] {
        let file = shared.join(format!("golden/gguf/qwen3_q256.{stem}.gguf"));
        let original = Planted::of(&file);
        for (name, tensor) in
            original.tensors.iter().filter(|(_, t)| t.dtype.is_quantised() && t.shape.len() == 2)
        {
            // One block of zero bytes, and an eighth of all blocks.
            let block = tensor.dtype.block_bytes();
            for blocks in [1, tensor.bytes.len() / block / 8] {
                let mut changed = original.clone();
                changed.tensor(name).bytes[2 * block..(2 + blocks) * block].fill(0);
                let path = changed.write(folder.path());
                for against in [&model, &file] {
                    let (exit, codes, _) = found(against, &path, &["--allow", "quantised"]);
                    assert_eq!(exit, 1, "{stem}, {name} ({}), {blocks} blocks", tensor.dtype);
                    assert!(!codes.is_empty(), "{stem}, {name}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    // Every number of a tensor by the same factor: the scales of its blocks are multiplied.
    let mut changed = Planted::of(&shared.join("golden/gguf/qwen3_q256.q4_0.gguf"));
    let tensor = changed.tensor("blk.0.ffn_gate.weight");
    for block in tensor.bytes.chunks_mut(18) {
        let d = half::f16::from_le_bytes([block[0], block[1]]).to_f32() * 1.05;
        block[..2].copy_from_slice(&half::f16::from_f32(d).to_le_bytes());
    }
    let (exit, codes, document) = found(&model, &changed.write(folder.path()), &["--allow", "quantised"]);
    assert_eq!((exit, codes), (1, vec!["diff-scaled".to_owned()]), "{:#}", document["findings"]);
}

#[test]
fn numbers_that_f32_does_not_hold_are_compared_as_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, long: f64, whole: i64| {
        let tensor = |dtype, bytes: &[u8]| planted::Stored { dtype, shape: vec![1], bytes: bytes.to_vec() };
        let tensors =
            [("f", tensor(DType::F64, &long.to_le_bytes())), ("i", tensor(DType::I64, &whole.to_le_bytes()))];
        let tensors = tensors.into_iter().map(|(name, t)| (name.to_owned(), t)).collect();
        let config = Some(b"{}".to_vec());
        let made = Planted { format: "safetensors", metadata: Metadata::default(), config, tensors };
        made.write(&folder.path().join(name)).join("model.safetensors")
    };
    let (a, b, c) = (file("a", 0.1, 1 << 40), file("b", 0.1 + 1e-12, 1 << 40), file("c", 0.1, (1 << 40) + 1));
    let class = |other: &Path, name: &str| pair(&found(&a, other, &[]).2, name)["class"].clone();
    assert_eq!((class(&a, "f"), class(&a, "i")), ("identical".into(), "identical".into()));
    assert_eq!((class(&b, "f"), class(&c, "i")), ("different".into(), "different".into()));
    assert_eq!((found(&a, &b, &[]).0, found(&a, &c, &[]).0), (1, 1));
}
