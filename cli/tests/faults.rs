//! Faults that once passed for clean, or were told as something else: each on a small right model with one thing
//! changed.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

use scantling_architectures as _;
use scantling_core::bundle::Bundle;
use scantling_core::check::{self, Request, Silent};
use scantling_core::finding::{Part, Severity};
use scantling_core::registry::Registry;
use scantling_core::report::Report;
use scantling_formats as _;
use scantling_kernels as _;
use std::fs;
use std::path::Path;

fn testdata(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)).unwrap()
}

/// Looks at files in memory; `name` is the one opened.
fn examine(name: &str, files: Vec<(&str, Vec<u8>)>, request: &Request) -> Report {
    let registry = Registry::linked().unwrap();
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    let source = registry.open_bundle(&Bundle::in_memory(name, files).unwrap()).unwrap();
    check::examine(&registry, source.as_ref(), Path::new(name), request, &Silent).unwrap().report
}

/// The tiny Qwen3 with another config.
fn with_config(config: &str, request: &Request) -> Report {
    let files =
        vec![("model.safetensors", testdata("qwen3-tiny/model.safetensors")), ("config.json", config.into())];
    examine("model.safetensors", files, request)
}

/// Its own config with one piece of text replaced.
fn edited(from: &str, to: &str) -> String {
    let text = String::from_utf8(testdata("qwen3-tiny/config.json")).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn errors(report: &Report) -> Vec<&'static str> {
    report.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.code.id).collect()
}

#[test]
fn the_right_model_is_clean() {
    assert!(errors(&with_config(&edited("{", "{"), &Request::default())).is_empty());
}

#[test]
fn a_part_that_could_not_be_looked_at_is_no_clean_one() {
    let names = Request { parts: vec![Part::Names], ..Request::default() };
    assert_eq!(
        errors(&with_config(&edited("\"hidden_size\": 64", "\"hidden_size\": \"x\""), &names)),
        ["config-bad-value"]
    );
    assert_eq!(
        errors(&with_config(&edited("\"model_type\": \"qwen3\"", "\"model_type\": \"foo\""), &names)),
        ["architecture-unknown"]
    );
    let alone = vec![("model.safetensors", testdata("qwen3-tiny/model.safetensors"))];
    assert_eq!(errors(&examine("model.safetensors", alone, &names)), ["config-absent"]);
}

#[test]
fn a_note_of_the_container_does_not_hide_that_there_is_no_config() {
    let index = r#"{"weight_map":{"x":"other.safetensors"}}"#;
    let files = vec![
        ("model.safetensors", testdata("qwen3-tiny/model.safetensors")),
        ("model.safetensors.index.json", index.into()),
    ];
    assert_eq!(errors(&examine("model.safetensors", files, &Request::default())), ["config-absent"]);
}

#[test]
fn keys_that_stand_twice_are_told_whatever_their_kinds() {
    for second in ["7", "{}", "null"] {
        let config = edited("{", &format!("{{\"rope_parameters\": {second},"));
        assert!(
            errors(&with_config(&config, &Request::default())).contains(&"config-duplicate-key"),
            "{second}"
        );
    }
}

#[test]
fn a_dot_in_a_name_leads_nowhere() {
    let config = edited("{", "{\"text_config.hidden_size\": 8, \"rope_parameters.rope_theta\": 3,");
    assert!(errors(&with_config(&config, &Request::default())).is_empty());
}

#[test]
fn an_object_of_another_kind_is_not_an_absent_one() {
    for other in ["[1]", "\"x\"", "3"] {
        let config =
            edited("\"rope_parameters\": {", &format!("\"rope_scaling\": {other}, \"rope_parameters\": {{"));
        assert_eq!(errors(&with_config(&config, &Request::default())), ["config-bad-value"], "{other}");
    }
}

#[test]
fn long_names_around_many_do_not_multiply() {
    let members: Vec<String> = (0..1000).map(|i| format!("\"{i}\":0")).collect();
    let inner = format!("\"{}\":{{{}}},", "x".repeat(100_000), members.join(","));
    assert!(errors(&with_config(&edited("{", &format!("{{{inner}")), &Request::default())).is_empty());
}

#[test]
fn two_families_in_one_config_are_a_contradiction() {
    let config = edited("Qwen3ForCausalLM", "LlamaForCausalLM");
    assert_eq!(errors(&with_config(&config, &Request::default())), ["family-contradiction"]);
}

#[test]
fn special_ids_are_looked_for_where_they_count() {
    let config = edited("\"eos_token_id\": 1", "\"eos_token_id\": [1, 331]");
    assert_eq!(errors(&with_config(&config, &Request::default())), ["tokenizer-id"]);
    let config = edited("\"eos_token_id\": 1", "\"eos_token_id\": \"1\"");
    assert_eq!(errors(&with_config(&config, &Request::default())), ["tokenizer-id"]);
}

#[test]
fn lost_tensors_do_not_make_another_family() {
    let mut bytes = testdata("qwen3-tiny/model.safetensors");
    let text = b"q_norm.weight";
    let at: Vec<usize> = (0..4096).filter(|&i| bytes[i..].starts_with(text)).collect();
    assert_eq!(at.len(), 2);
    for at in at {
        bytes[at..at + 6].copy_from_slice(b"q_nurm");
    }
    let files = vec![("model.safetensors", bytes), ("config.json", testdata("qwen3-tiny/config.json"))];
    let report = examine("model.safetensors", files, &Request::default());
    assert_eq!(errors(&report), ["tensor-missing", "tensor-unexpected"]);
    assert!(report.findings[0].advice.as_ref().unwrap().contains("q_nurm.weight has the same shape"));
}

#[test]
fn one_file_spelled_in_two_ways_is_one_shard() {
    let index = String::from_utf8(testdata("llama-tiny/model.safetensors.index.json")).unwrap();
    let index = index.replacen("\"model-0000", "\"./model-0000", 1);
    let shard = |n: u8| format!("model-0000{n}-of-00003.safetensors");
    let names = [shard(1), shard(2), shard(3)];
    let mut files: Vec<(&str, Vec<u8>)> =
        names.iter().map(|n| (n.as_str(), testdata(&format!("llama-tiny/{n}")))).collect();
    files.push(("config.json", testdata("llama-tiny/config.json")));
    files.push(("model.safetensors.index.json", index.into()));
    let report = examine("model.safetensors.index.json", files, &Request::default());
    assert!(errors(&report).is_empty(), "{:?}", report.findings);
    assert_eq!(report.container.files.len(), 3);
}

#[test]
fn values_beyond_f32_are_numbers_in_f64() {
    let header = r#"{"a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}}"#;
    let data = [1e300, -1e308, f64::NAN].map(f64::to_le_bytes).concat();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    let request = Request { parts: vec![Part::Data], ..Request::default() };
    let report = examine("a.safetensors", vec![("a.safetensors", file)], &request);
    assert_eq!(errors(&report), ["data-not-finite"]);
    assert!(
        report.findings[0].message.starts_with("1 NaN and 0 infinite of 3 values, the first at element 2")
    );
    assert_eq!(report.findings[0].place.offset, Some(8 + header.len() as u64 + 16));
}

#[test]
fn a_gguf_file_says_its_epsilon_and_one_width_for_keys_and_values() {
    let original = testdata("qwen3-tiny.gguf");
    let clean = |bytes: Vec<u8>| errors(&examine("m.gguf", vec![("m.gguf", bytes)], &Request::default()));
    assert!(clean(original.clone()).is_empty());
    let renamed = |from: &[u8], to: &[u8]| {
        let mut bytes = original.clone();
        let at = (0..bytes.len()).find(|&i| bytes[i..].starts_with(from)).expect("the key is there");
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let eps = renamed(b"qwen3.attention.layer_norm_rms_epsilon", b"qwen3.attention.layer_norm_rms_epsilox");
    assert_eq!(clean(eps), ["config-missing-key"]);
}

#[test]
fn the_config_of_another_model_is_one_cause() {
    let report =
        with_config(&String::from_utf8(testdata("llama-tiny/config.json")).unwrap(), &Request::default());
    assert_eq!(errors(&report), ["config-foreign"]);
    assert!(
        report.findings[0].message.ends_with("the names are those of qwen3"),
        "{}",
        report.findings[0].message
    );
    assert_eq!(report.findings[0].symptoms.len(), 5);
}

#[test]
fn a_family_given_by_hand_is_told_from_the_config_s_own() {
    let request = Request { architecture: Some("qwen2".into()), ..Request::default() };
    let report = with_config(&edited("{", "{"), &request);
    assert_eq!(errors(&report), ["family-other"]);
    let advice = report.findings[0].advice.as_deref().unwrap();
    assert_eq!(advice, "leave --arch out: the config says \"qwen3\", which fits");
}

#[test]
fn a_gguf_family_that_its_keys_deny_is_the_cause_and_nothing_is_made_up() {
    let mut bytes = testdata("qwen3-tiny.gguf");
    let at = (0..bytes.len()).find(|&i| bytes[i..].starts_with(b"\x05\0\0\0\0\0\0\0qwen3")).unwrap();
    bytes[at + 8..at + 13].copy_from_slice(b"llama");
    let report = examine("m.gguf", vec![("m.gguf", bytes)], &Request::default());
    assert_eq!(errors(&report), ["family-contradiction"]);
    assert!(
        report.facts.iter().all(|f| !f.dimension || f.name.ends_with("vocab_size")),
        "{:?}",
        report.facts
    );
}

#[test]
fn what_was_left_out_is_said() {
    let request = Request { parts: vec![Part::Container], ..Request::default() };
    let report = with_config(&edited("{", "{"), &request);
    assert_eq!(report.unchecked[0].what, "shards, config, names, shapes, types, ties");
}

#[test]
fn a_default_that_was_taken_is_noted() {
    let report = with_config(&edited("\"rms_norm_eps\": 1e-06,", ""), &Request::default());
    assert!(errors(&report).is_empty());
    let note = report.findings.iter().find(|f| f.code.id == "config-default").unwrap();
    assert!(note.message.contains("rms_norm_eps = 1e-6"), "{}", note.message);
}

#[test]
fn nothing_is_said_of_an_embedding_that_is_not_there_by_its_name() {
    let config = testdata("qwen3-tiny/config.json");
    let with = |weights: Vec<u8>| {
        let files = vec![("model.safetensors", weights), ("config.json", config.clone())];
        examine("model.safetensors", files, &Request::default())
    };
    let right = testdata("qwen3-tiny/model.safetensors");
    assert!(with(right.clone()).counts.embedding > Some(0));
    // As many bytes, so that everything else stays in its place.
    let (name, other) = (b"\"model.embed_tokens.weight\"", b"\"model.embde_tokens.weight\"");
    let at = right.windows(name.len()).position(|bytes| bytes == name).unwrap();
    let mut misspelt = right;
    misspelt[at..at + name.len()].copy_from_slice(other);
    let report = with(misspelt);
    assert_eq!((report.counts.embedding, errors(&report).is_empty()), (None, false));
}
