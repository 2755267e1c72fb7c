//! Every released checkpoint of the families known: what their tables ask for comes to the published figures.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read files")]

mod models;

use models::make::{self, Head};
use models::{config, folder_from, registry, testdata};
use scantling_core::dtype::DType;
use scantling_core::source::Dialect;
use serde_json::Value as Json;
use std::path::Path;

/// Number of tensors, and their elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    tensors: u64,
    parameters: u64,
}

fn sum(config_json: &Json, dialect: Dialect, head: Head) -> Option<Sum> {
    let config = config(config_json.to_string().as_bytes());
    registry().architecture_of(&config)?;
    let family = make::family(&registry(), &config).unwrap();
    let tensors = make::tensors(&family, dialect, DType::BF16, head);
    let bytes = |t: &make::Tensor| DType::F32.byte_len(&t.spec.shape).unwrap();
    Some(Sum { tensors: tensors.len() as u64, parameters: tensors.iter().map(bytes).sum::<u64>() / 4 })
}

/// Whether there is a figure, and if so that it is the one expected.
#[track_caller]
fn figure(model: &str, figures: &Json, key: &str, derived: &[u64]) -> usize {
    let told = figures.get(key).map(|f| f.get("value").unwrap_or(f));
    let Some(told) = told else { return 0 };
    let told = told.as_u64().unwrap();
    assert!(derived.contains(&told), "{model}: {key} is {told}, derived {derived:?}");
    1
}

/// Holds all models of a file against their figures; how many models and figures there were.
fn hold(file: &Path) -> (usize, usize) {
    let all: Json = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let (mut models, mut figures) = (0, 0);
    for (name, model) in all["models"].as_object().unwrap() {
        let Some(logical) = sum(&model["config"], Dialect::Hf, Head::AsConfigured) else { continue };
        let stored = sum(&model["config"], Dialect::Hf, Head::Stored).unwrap();
        let gguf = sum(&model["config"], Dialect::Gguf, Head::AsConfigured).unwrap();
        let gguf_stored = sum(&model["config"], Dialect::Gguf, Head::Stored).unwrap();
        let mut hold = |figures_of: &Json, key: &str, derived: &[u64]| {
            figures += figure(name, figures_of, key, derived);
        };
        let counted = &model["counted_from_config"];
        hold(counted, "logical_parameters", &[logical.parameters]);
        hold(counted, "tensors", &[logical.tensors]);
        hold(counted, "tensors_head_not_stored_when_tied", &[logical.tensors]);
        hold(counted, "stored_parameters_if_tied_head_is_stored", &[stored.parameters]);
        hold(counted, "tensors_if_tied_head_is_stored", &[stored.tensors]);
        let published = &model["published"];
        let either = [logical, stored];
        hold(published, "safetensors_tensors", &either.map(|s| s.tensors));
        hold(published, "stored_parameters", &either.map(|s| s.parameters));
        hold(published, "parameters", &[logical.parameters]);
        hold(published, "logical_parameters", &[logical.parameters]);
        hold(published, "gguf_tensors", &[gguf.tensors, gguf_stored.tensors]);
        // All of them were released in types of two bytes.
        hold(published, "index_total_size_bytes", &either.map(|s| 2 * s.parameters));
        hold(published, "weight_bytes", &either.map(|s| 2 * s.parameters));
        models += 1;
    }
    (models, figures)
}

#[test]
fn the_tables_come_to_the_published_figures() {
    let (models, figures) = hold(&testdata("released.json"));
    assert!(models >= 13 && figures >= 60, "{models} models, {figures} figures");
}

#[test]
fn the_tables_come_to_the_figures_of_the_whole_list() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (models, figures) = hold(&shared.join("golden/released.json"));
    assert!(models >= 13 && figures >= 60, "{models} models, {figures} figures");
}

#[test]
fn heads_are_stored_as_they_were_released() {
    let all: Json = serde_json::from_slice(&std::fs::read(testdata("released.json")).unwrap()).unwrap();
    let of = |name: &str, head: Head| sum(&all["models"][name]["config"], Dialect::Hf, head).unwrap();
    let is = |tensors: u64, parameters: u64| Sum { tensors, parameters };
    assert_eq!(of("Qwen3-0.6B", Head::Stored), is(311, 751_632_384));
    assert_eq!(of("Qwen3-0.6B", Head::AsConfigured), is(310, 596_049_920));
    // The 4B ties its head and does not store it; 8B and 32B are untied.
    assert_eq!(of("Qwen3-4B", Head::AsConfigured), is(398, 4_022_468_096));
    for name in ["Qwen3-8B", "Qwen3-32B"] {
        assert_eq!(of(name, Head::AsConfigured), of(name, Head::Stored), "{name}");
    }
}
