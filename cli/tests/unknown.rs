//! Models whose architecture is not known: what their shapes and names tell.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::{CONFIG, Tensor, model, qwen3, run_in, valid};
use serde_json::{Value, json};
use snapbox::{assert_data_eq, str};
use std::path::Path;

/// A Qwen3 that calls itself something else.
fn strange() -> String {
    CONFIG.replace("\"qwen3\"", "\"newfangled\"").replace("Qwen3ForCausalLM", "NewfangledForCausalLM")
}

fn likeness(tensors: &[Tensor], config: Option<&str>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), "strange", tensors, config);
    let run = run_in(folder.path(), &["inspect", "strange", "--json"]);
    assert_eq!(run.code, 0, "{}", run.out);
    valid(&run)["model"]["likeness"].clone()
}

#[test]
fn sizes_follow_from_shapes_and_the_nearest_family_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = qwen3();
    tensors.retain(|t| !t.name.ends_with("k_norm.weight"));
    tensors.push(Tensor::new("model.layers.0.mlp.more.weight", &[8]));
    model(folder.path(), "strange", &tensors, Some(&strange()));
    let run = run_in(folder.path(), &["inspect", "strange"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let shown = run.out.split("── tensors").next().unwrap();
    assert_data_eq!(
        shown,
        str![[r#"
── dimensions (from config.json) ───────────────────────────────────────────
  unknown: no architecture here is called newfangled
  by shapes and names alone:
    H  residual-stream width     8   (from an axis of 10 of the 11 tensors of a layer)
    L  layers                    2   (from model.layers)
    V  distinct tokens          16   (from model.embed_tokens.weight)
    I  FFN inner width          20   (from mlp.gate_proj.weight)
    no shape shows the number of heads and their width, the activation, the epsilon of the norms, the rotary base and its scaling, the context it was made for
    nearest architecture: [..]llama[..], by 9 kinds of tensors in a layer; the model has beyond it: mlp.more.weight, self_attn.q_norm.weight


"#]]
    );
    let run = run_in(folder.path(), &["check", "strange"]);
    assert_eq!(run.code, 1);
    assert_data_eq!(
        run.out,
        str![[r#"
✗ strange  newfangled (not known) · 24 tensors · safetensors · 1 error
  error[architecture-unknown]: config.json: model_type is "newfangled": no architecture of this program is it
    to do: known: [..]; --arch checks against one of them; nearest by the names in its layers: [..]llama[..]; it has beyond that mlp.more.weight, self_attn.q_norm.weight
  not checked: the architecture (model_type is "newfangled", not known), tensor values (use check --data)

"#]]
    );
}

#[test]
fn a_known_family_under_another_name_is_recognised() {
    let found = likeness(&qwen3(), Some(&strange()));
    assert_eq!(found["nearest"]["architectures"], json!(["qwen3"]));
    assert_eq!((&found["nearest"]["more"], &found["nearest"]["less"]), (&json!([]), &json!([])));
    let size = |symbol: &str| {
        let sizes = found["sizes"].as_array().unwrap();
        sizes.iter().find(|s| s["symbol"] == symbol).unwrap()["value"].as_u64()
    };
    assert_eq!(["H", "L", "V", "I"].map(size), [Some(8), Some(2), Some(16), Some(20)]);
    // Without any config, and with one that says nothing that can be used, names and shapes are the same.
    let broken =
        strange().replace("\"hidden_size\": 8", "\"hidden_size\": -8").replace("\"silu\"", "\"nonesuch\"");
    for config in [None, Some("{\"model_type\": \"newfangled\"}"), Some(&broken)] {
        assert_eq!(likeness(&qwen3(), config), found, "{config:?}");
    }
    // In a larger model too, whatever else is in it.
    let mut tensors = qwen3();
    tensors.iter_mut().for_each(|t| t.name = format!("language_model.{}", t.name));
    tensors.extend((0..40).map(|n| Tensor::new(&format!("vision.blocks.{n}.mlp.weight"), &[4, 4])));
    let inside = likeness(&tensors, Some(&strange()));
    assert_eq!(inside["prefix"], "language_model.model.layers");
    assert_eq!((&inside["nearest"], &inside["sizes"][0]), (&found["nearest"], &found["sizes"][0]));
}

#[test]
fn nothing_is_guessed_where_nothing_shows() {
    let named = |names: &[&str], shape: &[usize]| {
        likeness(&names.iter().map(|n| Tensor::new(n, shape)).collect::<Vec<_>>(), Some(&strange()))
    };
    assert_eq!(named(&["a", "b.weight"], &[4, 4]), Value::Null, "no layers");
    assert_eq!(named(&["layer.0.weight", "layer.1.weight"], &[4]), Value::Null, "no matrices");
    assert_eq!(named(&["layer.0.a", "layer.0.b"], &[4, 6]), Value::Null, "two lengths as often");
    let found = named(&["stage.0.left", "stage.0.right", "stage.1.left"], &[4, 4]);
    assert_eq!((&found["nearest"], found["sizes"][0]["value"].as_u64()), (&Value::Null, Some(4)));
    // A model that is known is what its config says.
    assert_eq!(likeness(&qwen3(), Some(CONFIG)), Value::Null);
}

#[test]
fn a_gguf_file_of_an_unknown_family_is_held_against_those_that_are_known() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
    let mut bytes = std::fs::read(testdata.join("qwen2-tiny.gguf")).unwrap();
    for at in 0..bytes.len() - 5 {
        if &bytes[at..at + 5] == b"qwen2" {
            bytes[at..at + 5].copy_from_slice(b"qwenX");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("strange.gguf"), bytes).unwrap();
    let run = run_in(folder.path(), &["inspect", "strange.gguf", "--json"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let nearest = &valid(&run)["model"]["likeness"]["nearest"];
    let families = nearest["architectures"].as_array().unwrap();
    assert!(families.contains(&json!("qwen2")), "{nearest}");
    assert_eq!((&nearest["more"], &nearest["less"]), (&json!([]), &json!([])));
}
