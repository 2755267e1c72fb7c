//! Text models that are a part of larger ones: found, checked and run where they lie.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::{CONFIG, Tensor, model, qwen3, run_in, valid};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where text models lie: what their names begin with instead of `model.`, and the name of the head.
const PLACES: [[&str; 2]; 7] = [
    ["language_model.model.", "language_model.lm_head.weight"],
    ["model.language_model.", "lm_head.weight"],
    ["model.text_model.", "lm_head.weight"],
    ["text_model.model.", "text_model.lm_head.weight"],
    ["language_model.", "lm_head.weight"],
    ["model.language_model.", "model.lm_head.weight"],
    ["model.", "lm_head.weight"],
];

/// A name of the text model in its place.
fn placed(name: &str, [prefix, head]: [&str; 2]) -> String {
    match name.strip_prefix("model.") {
        Some(rest) => format!("{prefix}{rest}"),
        None => head.to_owned(),
    }
}

/// A text model in its place, with an image encoder that has layers too, and a projector: 6 tensors, 488 bytes.
fn whole(place: [&str; 2]) -> Vec<Tensor> {
    let beside = if place[0].starts_with("model.language") { "model." } else { "" };
    let others: [(&str, &[usize]); 6] = [
        ("vision_tower.layers.0.self_attn.q_proj.weight", &[4, 4]),
        ("vision_tower.layers.0.mlp.up_proj.weight", &[6, 4]),
        ("vision_tower.layers.1.self_attn.q_proj.weight", &[4, 4]),
        ("vision_tower.layers.1.mlp.up_proj.weight", &[6, 4]),
        ("vision_tower.post_layernorm.weight", &[2]),
        ("multi_modal_projector.linear_1.weight", &[8, 5]),
    ];
    let own = qwen3().into_iter().map(|t| Tensor { name: placed(&t.name, place), ..t });
    let others = others.iter().map(|(name, shape)| Tensor::new(&format!("{beside}{name}"), shape));
    own.chain(others).collect()
}

/// The config of a larger model of a kind that nobody knows.
fn config() -> String {
    let text: Value = serde_json::from_str(CONFIG).unwrap();
    let whole = json!({
        "architectures": ["SomethingForConditionalGeneration"], "model_type": "something_vl",
        "vision_config": {"hidden_size": 4, "num_hidden_layers": 2, "model_type": "siglip_vision_model"},
        "text_config": text, "image_token_index": 3,
    });
    whole.to_string()
}

fn folder_with(name: &str, tensors: &[Tensor], config: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = model(folder.path(), name, tensors, Some(config));
    (folder, path)
}

#[test]
fn a_text_model_is_checked_where_it_lies() {
    for place in PLACES {
        let (folder, _) = folder_with("whole", &whole(place), &config());
        let run = run_in(folder.path(), &["check", "whole", "--json"]);
        assert_eq!(run.code, 0, "{place:?}\n{}{}", run.out, run.err);
        let found = &valid(&run)["models"][0];
        assert_eq!(found["model"]["architecture"], "qwen3", "{place:?}");
        let counts = &found["counts"];
        assert_eq!(
            (counts["tensors"].as_u64(), counts["expected"].as_u64()),
            (Some(31), Some(25)),
            "{place:?}"
        );
        // The parameters of the text model, its tied head counted once, and those of all parts.
        assert_eq!(
            (counts["logical"].as_u64(), counts["stored"].as_u64()),
            (Some(2304), Some(2554)),
            "{place:?}"
        );
        assert_eq!(counts["embedding"], 128);
        let before = if place[0].starts_with("model.language") { "model." } else { "" };
        let outside = json!([
            {"part": format!("{before}multi_modal_projector"), "tensors": 1, "bytes": 160},
            {"part": format!("{before}vision_tower"), "tensors": 5, "bytes": 328},
        ]);
        assert_eq!(found["outside"], outside, "{place:?}");
        let notes = found["findings"].as_array().unwrap();
        let note = notes.iter().find(|f| f["code"] == "outside-text-model").unwrap();
        assert!(note["message"].as_str().unwrap().contains("6 tensors, 488 bytes"), "{note}");
        let head = notes.iter().find(|f| f["code"] == "tied-copy").unwrap();
        assert_eq!(head["place"]["tensor"], place[1]);
        let shown = run_in(folder.path(), &["inspect", "whole"]);
        assert_eq!(shown.code, 0);
        assert!(shown.out.contains("✓ all 25 expected tensors present"), "{}", shown.out);
        assert!(!shown.out.contains("not in the architecture"), "{}", shown.out);
        assert!(shown.out.contains("outside the text model"), "{}", shown.out);
    }
}

#[test]
fn faults_of_a_text_model_are_told_under_its_own_names() {
    for place in PLACES {
        let name = |local: &str| placed(local, place);
        let fault = |code: &str, tensor: &str, plant: &dyn Fn(&mut Vec<Tensor>)| {
            let mut tensors = whole(place);
            plant(&mut tensors);
            let (folder, _) = folder_with("bad", &tensors, &config());
            let run = run_in(folder.path(), &["check", "bad", "--json"]);
            assert_eq!(run.code, 1, "{place:?} {code}\n{}", run.out);
            let document = valid(&run);
            let found = document["models"][0]["findings"].as_array().unwrap();
            let errors: Vec<&Value> = found.iter().filter(|f| f["severity"] == "error").collect();
            assert_eq!(errors.len(), 1, "{place:?} {code}: {errors:?}");
            assert_eq!(errors[0]["code"], code, "{place:?}");
            assert_eq!(errors[0]["place"]["tensor"], tensor, "{place:?}");
        };
        let lost = name("model.layers.1.mlp.up_proj.weight");
        fault("tensor-missing", &lost, &|all| all.retain(|t| t.name != lost));
        let norm = name("model.norm.weight");
        fault("tensor-missing", &norm, &|all| all.retain(|t| t.name != norm));
        let turned = name("model.layers.0.self_attn.k_proj.weight");
        fault("tensor-misshapen", &turned, &|all| {
            all.iter_mut().find(|t| t.name == turned).unwrap().shape = vec![8, 12];
        });
        let more = name("model.layers.0.mlp.gate_proj.bias");
        fault("tensor-unexpected", &more, &|all| all.push(Tensor::new(&more, &[20])));
        let layer = name("model.layers.2.mlp.gate_proj.weight");
        fault("layers-extra", &layer, &|all| all.push(Tensor::new(&layer, &[20, 8])));
        let head = place[1].replace("weight", "bias");
        fault("tensor-unexpected", &head, &|all| all.push(Tensor::new(&head, &[16])));
    }
}

#[test]
fn a_prefix_is_no_place_where_the_config_is_that_of_the_model_alone() {
    let tensors: Vec<Tensor> =
        qwen3().into_iter().map(|t| Tensor { name: format!("language_model.{}", t.name), ..t }).collect();
    let (folder, _) = folder_with("prefixed", &tensors, CONFIG);
    let run = run_in(folder.path(), &["check", "prefixed"]);
    assert!(run.code == 1 && run.out.contains("names-prefixed"), "{}", run.out);
    let run = run_in(folder.path(), &["logits", "prefixed", "--ids", "1"]);
    assert!(run.code == 3 && run.err.contains("names-prefixed"), "{} {}", run.code, run.err);
}

#[test]
fn a_family_that_is_not_known_is_that_of_the_text_model() {
    let config = config().replace("\"qwen3\"", "\"newfangled_text\"");
    let (folder, _) = folder_with("unknown", &whole(PLACES[0]), &config);
    let run = run_in(folder.path(), &["check", "unknown"]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("text_config.model_type is \"newfangled_text\""), "{}", run.out);
    assert!(run.out.contains("the tensors of qwen3"), "{}", run.out);
}

#[test]
fn parts_that_look_like_other_models_do_not_hide_the_text_model() {
    let mut tensors = whole(PLACES[0]);
    tensors.push(Tensor::new("vision_model.encoder.layers.0.mlp.fc1.weight", &[4, 4]));
    let (folder, _) = folder_with("both", &tensors, &config());
    let run = run_in(folder.path(), &["check", "both"]);
    assert!(run.code == 0 && run.out.contains("vision_model (1 tensor, 64 bytes)"), "{}", run.out);
    // A stack with the same names and other shapes is not taken for the text model, whatever its name.
    let mut tensors = whole(PLACES[0]);
    let twin = qwen3().into_iter().filter(|t| t.name.starts_with("model.layers.0"));
    let shape = |t: &Tensor| t.shape.iter().map(|n| n + 1).collect::<Vec<_>>();
    tensors.extend(twin.map(|t| Tensor::new(&t.name.replace("model.", "audio.model."), &shape(&t))));
    let (folder, _) = folder_with("twins", &tensors, &config());
    let run = run_in(folder.path(), &["check", "twins"]);
    assert!(run.code == 0 && run.out.contains("audio (11 tensors"), "{}", run.out);
    // Without a text model at all, everything of it is missing.
    let mut tensors = whole(PLACES[0]);
    tensors.retain(|t| !t.name.starts_with("language_model."));
    let (folder, _) = folder_with("blind", &tensors, &config());
    assert_eq!(run_in(folder.path(), &["check", "blind"]).code, 1);
}

/// A model of the test data within a larger one.
fn wrapped(at: &Path, name: &str, place: [&str; 2]) -> PathBuf {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name);
    let bytes = std::fs::read(testdata.join("model.safetensors")).unwrap();
    let (len, rest) = bytes.split_at(8);
    let len = u64::from_le_bytes(len.try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&rest[..len]).unwrap();
    let data = &rest[len..];
    let mut renamed: Map<String, Value> = Map::new();
    for (name, entry) in header {
        renamed.insert(if name == "__metadata__" { name } else { placed(&name, place) }, entry);
    }
    let end = data.len();
    let more = json!({"dtype": "F32", "shape": [2], "data_offsets": [end, end + 8]});
    renamed.insert("vision_tower.scale".into(), more);
    let mut header = Value::Object(renamed).to_string();
    header.push_str(&" ".repeat((8 - header.len() % 8) % 8));
    let folder = at.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data, &[0; 8]].concat();
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    let own: Value = serde_json::from_slice(&std::fs::read(testdata.join("config.json")).unwrap()).unwrap();
    let config = json!({"model_type": "something_vl", "text_config": own});
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    for beside in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(testdata.join(beside), folder.join(beside)).unwrap();
    }
    folder
}

#[test]
fn a_text_model_runs_where_it_lies() {
    let logits = |at: &Path, name: &str| {
        let run = run_in(at, &["logits", name, "--prompt", "The sea is", "--kernel", "scalar", "--json"]);
        assert_eq!(run.code, 0, "{}", run.err);
        valid(&run)["positions"].clone()
    };
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    for name in ["qwen3-tiny", "qwen2-tiny"] {
        for place in PLACES {
            let folder = tempfile::tempdir().unwrap();
            wrapped(folder.path(), name, place);
            let run = run_in(folder.path(), &["check", name]);
            assert_eq!(run.code, 0, "{place:?}\n{}", run.out);
            assert_eq!(logits(folder.path(), name), logits(&testdata, name), "{place:?}");
        }
    }
}
