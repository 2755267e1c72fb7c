//! Configs that ask for something else than what is computed are refused, and what a class has for a silent config is
//! what its reference implementation has.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

mod common;

use common::{argmax, json, load, registry, session, testdata};
use scantling_core::config::{Config, Origin};
use scantling_core::index::TensorIndex;
use scantling_core::kernel::Options as KernelOptions;
use scantling_core::metadata::{Entry, Metadata, Value};
use scantling_core::model::BATCH;
use scantling_core::registry::Work;
use serde_json::{Value as Json, json};
use std::fs;

/// A config with members changed: a name leads into objects by dots, null removes.
fn changed(mut all: Json, changes: &[(&str, Json)]) -> String {
    for (name, value) in changes {
        let pointer = format!("/{}", name.replace('.', "/"));
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        let object = all.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Json::Null => drop(object.remove(last)),
            value => drop(object.insert(last.to_owned(), value.clone())),
        }
    }
    all.to_string()
}

/// The small config of a family, with members changed.
fn config(family: &str, changes: &[(&str, Json)]) -> Config {
    let text = changed(json(&testdata(&format!("families/{family}.json"))), changes);
    Config::from_json("config.json", text.as_bytes()).unwrap()
}

/// What is said of such a config.
fn told(config: &Config) -> Result<(), String> {
    let registry = registry();
    let plugin = registry.architecture_of(config).unwrap();
    let built = (plugin.build)(config, &TensorIndex::default()).map_err(|e| e.to_string())?;
    built.decoder().map(|_| ())
}

/// A family, what is changed in its config, and words of what is said of that.
type Case<'a> = (&'a str, &'a Changes<'a>, &'a str);
/// Members of a config by their names, and what they are changed to.
type Changes<'a> = [(&'a str, Json)];

#[test]
fn what_no_pass_computes_is_refused() {
    let cases: [Case<'_>; 14] = [
        ("gemma3", &[("use_bidirectional_attention", json!(true))], "looks back only"),
        ("gemma3", &[("rope_parameters.sliding_attention.rope_type", json!("linear"))], "does not know"),
        ("gemma3", &[("rope_parameters.sliding_attention.rope_type", json!(5))], "must be text"),
        ("gpt_oss", &[("rope_parameters", Json::Null)], "how the rotation is scaled"),
        ("gpt_oss", &[("sliding_window", json!(0))], "at least 1"),
        ("deepseek_v3", &[("attention_bias", json!(true))], "biases are not known"),
        ("deepseek_v3", &[("topk_group", json!(1))], "from as many as a token uses"),
        ("deepseek_v3", &[("n_group", json!(8))], "at least two experts"),
        ("deepseek_v3", &[("num_key_value_heads", json!(2))], "as many kv heads as heads"),
        ("deepseek_v3", &[("head_dim", json!(6))], "the part that turns"),
        ("gpt2", &[("add_cross_attention", json!(true))], "another model's output"),
        ("mixtral", &[("rms_norm_eps", json!({"a": 1}))], "rms_norm_eps must be a value, and is an object"),
        ("mixtral", &[("num_local_experts", json!(1_000_000_000))], "num_local_experts is 1000000000"),
        ("mistral", &[("layer_types", json!(["full_attention"]))], "layer_types has 1 elements"),
    ];
    for (family, changes, words) in cases {
        assert_eq!(told(&config(family, &[])), Ok(()), "{family}");
        let said = told(&config(family, changes)).expect_err(&format!("{family} with {changes:?}"));
        assert!(said.contains(words), "{family} with {changes:?}: {said}");
    }
}

/// The value of a fact, and where it came from.
fn fact(config: &Config, meaning: &str) -> (String, Origin) {
    told(config).unwrap();
    let fact = config.facts().into_iter().find(|f| f.meaning == meaning);
    fact.map(|f| (f.value.to_string(), f.origin)).unwrap_or_else(|| panic!("nothing is known of {meaning}"))
}

#[test]
fn a_silent_config_is_taken_as_the_class_takes_it() {
    let silent = |name: &str| config("deepseek_v3", &[(name, Json::Null)]);
    let factor = fact(&silent("routed_scaling_factor"), "factor on the weights of experts");
    assert_eq!(factor, ("2.5".to_owned(), Origin::Default));
    let used = fact(&silent("topk_group"), "groups that a token chooses from");
    assert_eq!(used, ("4".to_owned(), Origin::Default));
    // The older name of the kind of scaling, in the newer place.
    let changes = [("rope_parameters.rope_type", Json::Null), ("rope_parameters.type", json!("llama3"))];
    let kind = fact(&config("llama", &changes), "rotary scaling");
    assert_eq!(kind.1, Origin::File, "{kind:?}");
}

/// The likeliest token behind the ids 3 to 42 and its logit, of models with a changed config, by transformers 5.24.
#[test]
fn changed_configs_compute_what_the_reference_does() {
    let kind = [("rope_parameters.rope_type", Json::Null), ("rope_parameters.type", json!("longrope"))];
    let cases: [(&str, &Changes<'_>, u32, f32); 4] = [
        ("phi3_longrope", &kind, 222, 5.078),
        ("gemma3", &[("final_logit_softcapping", json!(2.0))], 42, 1.999),
        ("deepseek_v3", &[("routed_scaling_factor", Json::Null)], 268, 5.983),
        ("mistral_swa", &[("layer_types", json!(["full_attention", "full_attention"]))], 253, 8.41),
    ];
    let kernel = registry().kernel("scalar", Work::Exact, &KernelOptions::default()).unwrap();
    for (name, changes, id, logit) in cases {
        let folder = tempfile::tempdir().unwrap();
        for file in fs::read_dir(testdata(&format!("goldens/{name}"))).unwrap() {
            let from = file.unwrap().path();
            fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
        }
        let text = changed(json(&folder.path().join("config.json")), changes);
        fs::write(folder.path().join("config.json"), text).unwrap();
        let model = load(folder.path());
        let ids: Vec<u32> = (3..43).collect();
        let logits = session(&model, &*kernel, 40, BATCH).feed(&ids, 1, None).unwrap();
        let row = logits.view().row(0);
        assert_eq!(argmax(row), id, "{name}");
        let off = (row[id as usize] - logit).abs();
        assert!(off <= 6e-4, "{name}: {} instead of {logit}", row[id as usize]);
    }
}

#[test]
fn names_in_gguf_that_families_share_go_to_one_of_them() {
    let registry = registry();
    let family = |experts: Option<u64>| {
        let mut all = Metadata::default();
        let mut put = |key: &str, value: Value| {
            let (key, kind) = (key.to_owned(), "any".to_owned());
            all.push(Entry { key, value, kind, at: None }).unwrap();
        };
        put("general.architecture", Value::Text("llama".into()));
        experts.into_iter().for_each(|n| put("llama.expert_count", Value::Unsigned(n)));
        registry.architecture_of(&Config::from_gguf("x.gguf", all)).map(|plugin| plugin.name)
    };
    assert_eq!([None, Some(0), Some(8)].map(family), [Some("llama"), Some("llama"), Some("mixtral")]);
}
