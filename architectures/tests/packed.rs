//! Quantised Hugging Face checkpoints: weights decoded to the bit, checked clean, and forward passes with them against the
//! reference implementation's; and what a check says of faults.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;

use common::{EXACT, argmax, farthest, ids, json, kernels, load, numbers, registry, session, testdata};
use scantling_core::check::{self, Request, Silent};
use scantling_core::finding::{Part, Severity};
use scantling_core::kernel::Kernel;
use scantling_core::model::{BATCH, Model};
use scantling_core::quant;
use scantling_core::report::Report;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// Small checkpoints of the repository.
fn small(name: &str) -> PathBuf {
    testdata("packed").join(name)
}

/// The folders of the whole set of goldens; says so if there is none.
fn goldens() -> Option<Vec<PathBuf>> {
    let golden = common::goldens()?;
    let mut folders: Vec<PathBuf> =
        fs::read_dir(golden.join("hf-quantized")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.push(golden.join("models/gpt_oss_mxfp4"));
    folders.sort();
    assert!(folders.len() >= 13, "{folders:?}");
    Some(folders)
}

/// A copy of a folder with another config.
fn with_config(folder: &Path, config: &[u8]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join("model.safetensors"), copy.path().join("model.safetensors")).unwrap();
    fs::write(copy.path().join("config.json"), config).unwrap();
    copy
}

/// A copy with the config in the style of transformers 4.
fn older(folder: &Path) -> tempfile::TempDir {
    with_config(folder, &fs::read(folder.join("config.v4.json")).unwrap())
}

fn checked(folder: &Path, parts: &[Part]) -> Report {
    let request = Request { parts: parts.to_vec(), ..Request::default() };
    // The folder of a golden holds its decoded weights too.
    check::run(&registry(), &folder.join("model.safetensors"), &request, &Silent).unwrap().report
}

/// Holds a checkpoint's logits against those expected.
#[track_caller]
fn computes(folder: &Path, expected: &Json, kernel: &dyn Kernel) {
    let model = load(&folder.join("model.safetensors"));
    let at = |what: &str| format!("{} with {}: {what}", folder.display(), kernel.name());
    for prompt in expected["prompts"].as_array().unwrap() {
        let prompt_ids = ids(&prompt["ids"]);
        let mut session = session(&model, kernel, prompt_ids.len() + 16, BATCH);
        let logits = session.feed(&prompt_ids, prompt_ids.len(), None).unwrap();
        let last = logits.view().row(prompt_ids.len() - 1);
        let (off, i) = farthest(last, &numbers(&prompt["last_logits_f64"]));
        assert!(off <= EXACT, "{}", at(&format!("logit {i} is off by {off:e}")));
        let found: Vec<u32> = logits.view().iter().map(argmax).collect();
        assert_eq!(found, ids(&prompt["argmax"]), "{}", at("argmax"));
        let mut greedy = vec![argmax(last)];
        while greedy.len() < 16 {
            let next = session.feed(&greedy[greedy.len() - 1..], 1, None).unwrap();
            greedy.push(argmax(next.view().row(0)));
        }
        assert_eq!(greedy, ids(&prompt["greedy_ids"]), "{}", at("greedy continuation"));
    }
}

#[test]
fn the_small_checkpoints_are_clean_and_compute_what_the_reference_does() {
    for (name, scheme) in
        [("gptq_act_order", "GPTQ 4-bit g32"), ("bnb_nf4", "NF4 b64"), ("fp8_tensor_inv", "F8_E4M3 tensor")]
    {
        let folder = small(name);
        let report = checked(&folder, &Part::ALL);
        assert_eq!(report.worst().filter(|s| *s > Severity::Note), None, "{name}: {:?}", report.findings);
        let packed: Vec<_> =
            report.sections.iter().flat_map(|s| &s.rows).filter(|r| !r.parts.is_empty()).collect();
        assert_eq!(packed.len(), 7, "{name}");
        assert!(packed.iter().all(|row| row.dtype == scheme && row.bits_per_weight().unwrap() < 9.0));
        let expected = json(&folder.join("expected.json"));
        kernels().iter().for_each(|kernel| computes(&folder, &expected, &**kernel));
    }
}

#[test]
fn golden_checkpoints_decode_to_the_bit() {
    let Some(folders) = goldens() else { return };
    let mut weights = 0;
    for folder in folders {
        let Ok(decoded) = registry().open(&folder.join("decoded.safetensors")) else { continue };
        let source = registry().open(&folder.join("model.safetensors")).unwrap();
        let packed = source.tensors().tensors().iter().filter(|t| t.is_packed()).count();
        assert_eq!(packed, decoded.tensors().len(), "{}", folder.display());
        for wanted in decoded.tensors().tensors() {
            let at = format!("{} of {}", wanted.name, folder.display());
            let info = source.tensors().get(&wanted.name).unwrap_or_else(|| panic!("{at} is not listed"));
            assert_eq!(info.shape, wanted.shape, "{at}");
            let weight = source.packed(info).unwrap().unwrap_or_else(|| panic!("{at} is plain"));
            let mut found = vec![f32::NAN; weight.rows() * weight.cols()];
            // In tiles, as a forward pass asks for it.
            for (tile, out) in found.chunks_mut(5 * weight.cols()).enumerate() {
                weight.widen(5 * tile, out);
            }
            let mut exact = vec![0.0; found.len()];
            let dtype = wanted.dtype.known().unwrap();
            quant::decode(dtype, &decoded.bytes(wanted).unwrap(), &mut exact).unwrap();
            let differs = found.iter().zip(&exact).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{at}");
            weights += 1;
        }
    }
    assert!(weights > 60, "{weights}");
}

#[test]
fn golden_checkpoints_are_clean_in_both_styles_of_config() {
    let Some(folders) = goldens() else { return };
    for folder in folders {
        let copy = older(&folder);
        for path in [folder.as_path(), copy.path()] {
            let report = checked(
                path,
                &[
                    Part::Container,
                    Part::Config,
                    Part::Names,
                    Part::Shapes,
                    Part::Types,
                    Part::Ties,
                    Part::Data,
                ],
            );
            let worse: Vec<String> = report
                .findings
                .iter()
                .filter(|f| f.severity > Severity::Note)
                .map(|f| format!("{}: {f}", f.code.id))
                .collect();
            assert!(worse.is_empty(), "{}: {worse:#?}", folder.display());
            assert_eq!(report.counts.expected, Some(report.counts.tensors), "{}", folder.display());
        }
    }
}

#[test]
fn golden_checkpoints_compute_what_the_reference_does() {
    let Some(folders) = goldens() else { return };
    let kernels = kernels();
    for folder in folders {
        let expected = json(&folder.join("expected.json"));
        kernels.iter().for_each(|kernel| computes(&folder, &expected, &**kernel));
        computes(older(&folder).path(), &expected, &*kernels[0]);
    }
}

/// The small GPTQ checkpoint with something of its config replaced.
fn said(from: &str, to: &str) -> tempfile::TempDir {
    let folder = small("gptq_act_order");
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    assert!(config.contains(from), "{config}");
    with_config(&folder, config.replace(from, to).as_bytes())
}

#[test]
fn a_wrong_group_size_is_told_once_and_keeps_a_model_from_running() {
    let wrong = said("\"group_size\": 32", "\"group_size\": 16");
    let report = checked(wrong.path(), &[Part::Names, Part::Shapes, Part::Types]);
    let scales: Vec<_> = report.findings.iter().filter(|f| f.message.starts_with("scales ")).collect();
    let [one] = scales.as_slice() else { panic!("{:#?}", report.findings) };
    assert_eq!(one.code.id, "packed-part-misshapen");
    assert!(one.message.ends_with("in 7 tensors"), "{one}");
    assert_eq!(one.symptoms.len(), 7);
    let down = one.symptoms.iter().find(|f| f.place.tensor.as_deref().unwrap().contains("down_proj.scales"));
    let down = down.unwrap();
    assert_eq!(down.expected.as_deref(), Some("[2, 64] (in / group_size 16, out)"));
    assert_eq!(down.found.as_deref(), Some("[1, 64]"));
    // The logical tensors have the shapes that the config implies all the same.
    assert!(report.findings.iter().all(|f| f.code.id != "tensor-misshapen"), "{:#?}", report.findings);
    let refused = Model::load(&registry(), wrong.path(), &Request::default());
    assert!(refused.is_err_and(|e| e.to_string().contains("scales")));
}

#[test]
fn the_logical_tensors_are_held_against_the_architecture() {
    let wrong = said("\"intermediate_size\": 32", "\"intermediate_size\": 40");
    let report = checked(wrong.path(), &[Part::Names, Part::Shapes, Part::Types]);
    let denied = report.findings.iter().find(|f| f.code.id == "hyperparameter-denied").unwrap();
    assert_eq!(denied.found.as_deref(), Some("32"));
}

#[test]
fn what_is_not_read_is_named_and_not_checked() {
    for (from, to) in [("\"bits\": 4", "\"bits\": 3"), ("\"gptq\"", "\"aqlm\"")] {
        let other = said(from, to);
        let report = checked(other.path(), &[Part::Names, Part::Shapes, Part::Types]);
        assert!(report.findings.iter().any(|f| f.code.id == "weights-packed"), "{:#?}", report.findings);
        assert!(report.unchecked.iter().any(|u| u.why.contains("packed weights")), "{:?}", report.unchecked);
        assert!(Model::load(&registry(), other.path(), &Request::default()).is_err());
    }
}
