//! Forward passes against the reference implementation's: logits, hidden states and greedy continuations, in both
//! formats and both styles of config, for every exact kernel that runs here.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;

use common::{
    EXACT, argmax, farthest, goldens, ids, json, kernels, load, logsumexp, numbers, registry, session,
    testdata,
};
use scantling_core::cache::KvType;
use scantling_core::kernel::{Kernel, Options as KernelOptions};
use scantling_core::matrix::{Rows, RowsBuf};
use scantling_core::model::{BATCH, Options, Session};
use scantling_core::pass::Tap;
use scantling_core::registry::Work;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Families with a small model in testdata, in both formats.
const TINY: [&str; 3] = ["llama", "qwen2", "qwen3"];

/// The same from logits of quantised files, which were computed in f32.
const QUANTISED: f64 = 3e-5;
/// The same for the logarithm of the sum of the exponentials.
const LOGSUMEXP: f64 = 1e-5;
/// The same for hidden states, of the largest entry of a row.
const HIDDEN: f64 = 1e-4;

/// The last row of what enters the first layer, of each layer's output, and of the final norm.
#[derive(Default)]
struct Hidden(Vec<Vec<f32>>);

impl Tap for Hidden {
    fn see(&mut self, _: Option<usize>, name: &'static str, rows: Rows<'_>) {
        match name {
            "final_norm" => *self.0.last_mut().unwrap() = rows.row(rows.rows() - 1).to_vec(),
            "embedding" | "output" => self.0.push(rows.row(rows.rows() - 1).to_vec()),
            _ => {}
        }
    }
}

/// Holds a model against what is expected of its prompts.
#[track_caller]
fn holds(path: &Path, expected: &Json, kernel: &dyn Kernel) {
    let model = load(path);
    let at = |what: &str| format!("{} with {}: {what}", path.display(), kernel.name());
    for prompt in expected["prompts"].as_array().unwrap() {
        let prompt_ids = ids(&prompt["ids"]);
        let mut session = session(&model, kernel, prompt_ids.len() + 16, BATCH);
        let mut hidden = Hidden::default();
        let logits = session.feed(&prompt_ids, prompt_ids.len(), Some(&mut hidden)).unwrap();
        let last = logits.view().row(prompt_ids.len() - 1);
        let (exact, limit) = match prompt.get("last_logits_f64") {
            Some(exact) => (exact, EXACT),
            None => (&prompt["last_logits"], QUANTISED),
        };
        let (off, i) = farthest(last, &numbers(exact));
        assert!(off <= limit, "{}", at(&format!("logit {i} is off by {off:e}")));
        let found: Vec<u32> = logits.view().iter().map(argmax).collect();
        assert_eq!(found, ids(&prompt["argmax"]), "{}", at("argmax"));
        for (t, (row, sum)) in logits.view().iter().zip(numbers(&prompt["logsumexp"])).enumerate() {
            let off = (logsumexp(row) - sum).abs();
            assert!(
                off <= LOGSUMEXP.max(limit / 2.0),
                "{}",
                at(&format!("logsumexp of {t} is off by {off:e}"))
            );
        }
        for (layer, row) in prompt["hidden_last"].as_array().into_iter().flatten().enumerate() {
            let row = numbers(row);
            let largest = row.iter().fold(0.0f64, |m, x| m.max(x.abs()));
            let (off, i) = farthest(&hidden.0[layer], &row);
            assert!(
                off <= HIDDEN * largest,
                "{}",
                at(&format!("row {layer}, element {i} is off by {off:e}"))
            );
        }
        let mut last = RowsBuf::copy_of(logits.view().rows_at(prompt_ids.len() - 1..prompt_ids.len()));
        let mut greedy = Vec::new();
        while greedy.len() < 16 {
            greedy.push(argmax(last.view().row(0)));
            last = session.feed(&greedy[greedy.len() - 1..], 1, None).unwrap();
        }
        assert_eq!(greedy, ids(&prompt["greedy_ids"]), "{}", at("greedy continuation"));
    }
}

#[test]
fn the_small_models_compute_what_the_reference_does() {
    for kernel in kernels() {
        for family in TINY {
            let folder = testdata(&format!("{family}-tiny"));
            let expected = json(&folder.join("expected.json"));
            holds(&folder, &expected, &*kernel);
            holds(&testdata(&format!("{family}-tiny.gguf")), &expected, &*kernel);
        }
        let expected = json(&testdata("qwen3-q4_k_m.expected.json"));
        holds(&testdata("qwen3-q4_k_m.gguf"), &expected, &*kernel);
    }
}

#[test]
fn models_of_other_kinds_compute_what_the_reference_does() {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(testdata("goldens")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 8, "{folders:?}");
    for folder in folders {
        let expected = json(&folder.join("expected.json"));
        kernels().iter().for_each(|kernel| holds(&folder, &expected, &**kernel));
        holds(older(&folder).path(), &expected, &*kernels()[0]);
    }
}

/// A copy with the config in the style of transformers 4.
fn older(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, copy.path().join(from.file_name().unwrap())).unwrap();
    }
    fs::remove_file(copy.path().join("config.json")).unwrap();
    fs::copy(folder.join("config.v4.json"), copy.path().join("config.json")).unwrap();
    copy
}

#[test]
fn golden_models_compute_what_the_reference_does() {
    let Some(golden) = goldens() else { return };
    let kernels = kernels();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(golden.join("models")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let mut run = 0;
    for folder in folders {
        if json(&folder.join("config.json"))["model_type"] == "bert" {
            continue; // It writes nothing.
        }
        let expected = json(&folder.join("expected.json"));
        kernels.iter().for_each(|kernel| holds(&folder, &expected, &**kernel));
        holds(older(&folder).path(), &expected, &*kernels[0]);
        run += 1;
    }
    assert!(run >= 24, "{run}");
}

#[test]
fn golden_gguf_files_compute_what_the_reference_does() {
    let Some(golden) = goldens() else { return };
    let kernels = kernels();
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden.join("gguf")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "gguf"));
    files.sort();
    let mut run = 0;
    for file in files {
        let facts = json(&file.with_extension("json"));
        let source = golden.join("models").join(facts["source_model"].as_str().unwrap());
        let expected = if facts["prompts"].is_array() { facts } else { json(&source.join("expected.json")) };
        kernels.iter().for_each(|kernel| holds(&file, &expected, &**kernel));
        run += 1;
    }
    assert!(run >= 28, "{run}");
}

#[test]
fn a_cache_gives_the_bits_of_one_by_one_and_batches_what_is_near() {
    for kernel in kernels() {
        let model = load(&testdata("qwen3-tiny"));
        let all: Vec<u32> = (0..40).map(|i| i * 7 % 300).collect();
        let whole = session(&model, &*kernel, 40, BATCH).feed(&all, 40, None).unwrap();
        let (mut one, mut cut) = (session(&model, &*kernel, 40, 1), session(&model, &*kernel, 64, 7));
        let single: Vec<f32> =
            all.iter().flat_map(|id| one.feed(&[*id], 1, None).unwrap().data().to_vec()).collect();
        // One at a time is the same whether the session cuts or the caller does, and however much room there is.
        let by_session = session(&model, &*kernel, 99, 1).feed(&all, 40, None).unwrap();
        assert_eq!(by_session.data(), single, "{}", kernel.name());
        let batched = cut.feed(&all, 40, None).unwrap();
        for other in [&whole, &batched] {
            let expected: Vec<f64> = single.iter().map(|x| f64::from(*x)).collect();
            let (off, i) = farthest(other.data(), &expected);
            assert!(off <= EXACT, "{}: logit {i} is off by {off:e}", kernel.name());
        }
        // What was forgotten is computed again to the bit.
        one.truncate(38);
        let again = one.feed(&all[38..39], 1, None).unwrap();
        assert_eq!(again.data(), &single[38 * one.vocabulary()..39 * one.vocabulary()], "{}", kernel.name());
    }
}

#[test]
fn learned_positions_have_an_end() {
    let model = load(&testdata("goldens/gpt2"));
    assert_eq!(model.context(), Some(64));
    let kernel = registry().kernel("scalar", Work::Exact, &KernelOptions::default()).unwrap();
    let options = |context| Options { context, kv: KvType::F32, batch: BATCH };
    let mut session = Session::new(&model, &*kernel, options(64)).unwrap();
    session.feed(&[1; 64], 1, None).unwrap();
    let told = Session::new(&model, &*kernel, options(65)).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("a place for 64 positions"), "{told}");
}

#[test]
fn only_wanted_logits_are_given_and_limits_are_told() {
    let model = load(&testdata("llama-tiny.gguf"));
    let kernel = registry().kernel("scalar", Work::Exact, &KernelOptions::default()).unwrap();
    let mut session = session(&model, &*kernel, 9, 2);
    assert_eq!(session.feed(&[1, 2, 3], 0, None).unwrap().view().rows(), 0);
    assert_eq!(session.feed(&[4, 5, 6, 7, 8], 3, None).unwrap().view().rows(), 3);
    let full = session.feed(&[1, 2], 1, None).unwrap_err().to_string();
    assert!(full.contains("2 tokens do not fit") && full.contains("room for 9, of which 8"), "{full}");
    let strange = session.feed(&[331], 1, None).unwrap_err().to_string();
    assert!(strange.contains("id 331") && strange.contains("ends at 330"), "{strange}");
    assert_eq!(session.len(), 8);
}
