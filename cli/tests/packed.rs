//! Quantised checkpoints as commands show them: the weights that they are, and what makes them up.

mod common;

use common::{run_in, valid};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/packed")
}

#[test]
fn inspect_shows_the_weight_and_its_parts() {
    let run = run_in(&folder(), &["inspect", "gptq_act_order"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    for shown in [
        "packing",
        "7, made of 28 stored tensors",
        "mlp.down_proj.weight",
        "GPTQ 4-bit g32",
        "[64, 32]",
        "5.12 bits per weight: qweight I32 [4, 64], qzeros I32 [1, 8], scales F16 [1, 64], g_idx I32 [32]",
    ] {
        assert!(run.out.contains(shown), "{shown} is not in\n{}", run.out);
    }
    assert!(!run.out.contains("tensor-unexpected"));
    let run = run_in(&folder(), &["inspect", "--tensors", "bnb_nf4"]);
    for shown in ["NF4 b64", "model.layers.0.mlp.up_proj.weight.absmax", "bits per weight"] {
        assert!(run.out.contains(shown), "{shown} is not in\n{}", run.out);
    }
}

#[test]
fn json_has_the_parts() {
    let document = valid(&run_in(&folder(), &["inspect", "--json", "fp8_tensor_inv"]));
    let model = document.pointer("/model").or(document.pointer("/models/0")).unwrap_or(&document);
    let tensors = model["tensors"].as_array().unwrap();
    let named = |name: &str| tensors.iter().find(|t| t["name"] == name).unwrap();
    let weight = named("model.layers.0.self_attn.q_proj.weight");
    assert_eq!((&weight["dtype"], &weight["offset"]), (&Value::from("F8_E4M3 tensor"), &Value::Null));
    let parts: Vec<&str> =
        weight["parts"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    let own = "model.layers.0.self_attn.q_proj";
    assert_eq!(
        parts,
        [format!("{own}.weight"), format!("{own}.weight_scale_inv"), format!("{own}.activation_scale")]
    );
    assert!(weight["parts"][0]["offset"].is_u64() && weight["bits_per_weight"].as_f64().unwrap() > 8.0);
    assert!(named("model.norm.weight").get("parts").is_none());
}

#[test]
fn check_is_clean_with_every_value() {
    for name in ["gptq_act_order", "bnb_nf4", "fp8_tensor_inv"] {
        let run = run_in(&folder(), &["check", "--data", name]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    }
}
