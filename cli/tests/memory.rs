//! `memory`: what it says a run takes, against arithmetic by hand and against runs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests read files and the environment
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;

use common::{Run, run_in, valid};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

fn memory(model: &str, args: &[&str]) -> Run {
    run_in(&testdata(), &[&["memory", model, "--json"], args].concat())
}

/// The document about a config.
#[track_caller]
fn of_config(config: &Value, args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let run = memory(path.to_str().unwrap(), args);
    assert!(run.code < 2, "{}", run.err);
    valid(&run)
}

fn released() -> Value {
    serde_json::from_slice(&std::fs::read(testdata().join("released.json")).unwrap()).unwrap()
}

/// The small config of a family, some keys changed.
fn family(name: &str, changes: Value) -> Value {
    let text = std::fs::read(testdata().join("families").join(format!("{name}.json"))).unwrap();
    let mut config: Value = serde_json::from_slice(&text).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// In f16: layers × (keys and values) × kv heads × width of a head × 2 bytes.
const RELEASED: [(&str, u64); 13] = [
    ("Qwen3-0.6B", 28 * 2 * 8 * 128 * 2), // 114,688; 1024 / 16 = 64 is not the width of a head
    ("Qwen3-1.7B", 28 * 2 * 8 * 128 * 2), // 2048 / 16 = 128 is
    ("Qwen3-4B", 36 * 2 * 8 * 128 * 2),   // 147,456; 2560 / 32 = 80 is not
    ("Qwen3-8B", 36 * 2 * 8 * 128 * 2),   // 4096 / 32 = 128 is
    ("Qwen3-32B", 64 * 2 * 8 * 128 * 2),  // 262,144; 5120 / 64 = 80 is not
    ("Qwen3-30B-A3B", 48 * 2 * 4 * 128 * 2), // 98,304; experts have no part in it
    ("Llama-3.1-8B", 32 * 2 * 8 * 128 * 2), // 131,072
    ("Llama-3.2-1B", 16 * 2 * 8 * 64 * 2),
    ("SmolLM2-135M", 30 * 2 * 3 * 64 * 2), // 23,040
    ("Qwen2.5-0.5B", 24 * 2 * 2 * 64 * 2),
    ("Mistral-7B-v0.3", 32 * 2 * 8 * 128 * 2),
    ("Gemma-2-2b", 26 * 2 * 4 * 256 * 2), // 106,496; half of the layers have a window
    ("OLMo-2-7B", 32 * 2 * 32 * 128 * 2), // 524,288; no head is shared
];

#[test]
fn released_models_keep_what_arithmetic_says() {
    let all = released();
    for (name, by_hand) in RELEASED {
        let config = &all["models"][name]["config"];
        let told = of_config(config, &["--context", "1000", "--kv-type", "f16"]);
        assert_eq!(told["kv_bytes_per_token"], by_hand, "{name}");
        assert_eq!(told["estimate"]["kv"], 1000 * by_hand, "{name}");
        assert_eq!(of_config(config, &["--kv-type", "f32"])["kv_bytes_per_token"], 2 * by_hand, "{name}");
    }
}

/// Released sizes, put into the families' small configs.
#[test]
fn what_is_special_of_a_family_is_counted_by_its_own_rules() {
    // DeepSeek-V3: 61 layers keep 512 latent numbers and 64 that turn, whatever the 128 heads are.
    let deepseek = family(
        "deepseek_v3",
        json!({"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 64,
            "qk_nope_head_dim": 128, "qk_head_dim": 192, "v_head_dim": 128, "num_attention_heads": 128,
            "num_key_value_heads": 128, "q_lora_rank": 1536, "hidden_size": 7168, "intermediate_size": 18432,
            "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "n_routed_experts": 256, "n_group": 8,
            "topk_group": 4, "num_experts_per_tok": 8, "vocab_size": 129_280, "max_position_embeddings": 163_840}),
    );
    // gpt-oss-20b: 24 layers, every other with a window of 128.
    let types = |n: usize, full: usize| -> Vec<&str> {
        let kind =
            |i: usize| if (i + 1).is_multiple_of(full) { "full_attention" } else { "sliding_attention" };
        (0..n).map(kind).collect()
    };
    let gpt_oss = family(
        "gpt_oss",
        json!({"num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
            "hidden_size": 2880, "intermediate_size": 2880, "sliding_window": 128, "layer_types": types(24, 2),
            "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201_088,
            "max_position_embeddings": 131_072}),
    );
    // Gemma 3 1B: 26 layers of one kv head of 256, five of six with a window of 512.
    let gemma3 = family(
        "gemma3",
        json!({"num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
            "hidden_size": 1152, "intermediate_size": 6912, "sliding_window": 512, "layer_types": types(26, 6),
            "vocab_size": 262_144, "max_position_embeddings": 32_768}),
    );
    // Mixtral 8x7B: as a dense model with eight kv heads.
    let mixtral = family(
        "mixtral",
        json!({"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "hidden_size": 4096, "intermediate_size": 14_336, "vocab_size": 32_000, "sliding_window": null,
            "max_position_embeddings": 32_768}),
    );
    // GPT-2: 12 layers of 12 heads of 64, none shared.
    let gpt2 = family(
        "gpt2",
        json!({"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024, "n_inner": 3072,
            "vocab_size": 50_257}),
    );
    let by_hand: [(&str, &Value, u64, u64); 5] = [
        ("deepseek", &deepseek, 61 * (512 + 64) * 2, 8192 * 61 * (512 + 64) * 2), // 70,272
        ("gpt-oss", &gpt_oss, 24 * 2 * 8 * 64 * 2, 2 * 8 * 64 * 2 * (12 * 128 + 12 * 8192)), // 49,152
        ("gemma 3", &gemma3, 26 * 2 * 256 * 2, 2 * 256 * 2 * (22 * 512 + 4 * 8192)), // 26,624
        ("mixtral", &mixtral, 32 * 2 * 8 * 128 * 2, 8192 * 32 * 2 * 8 * 128 * 2), // 131,072
        ("gpt-2", &gpt2, 12 * 2 * 12 * 64 * 2, 1024 * 12 * 2 * 12 * 64 * 2),
    ];
    for (name, config, each, windowed) in by_hand {
        let context = if name == "gpt-2" { 1024 } else { 8192 };
        let args = ["--context", &context.to_string(), "--kv-type", "f16"];
        let told = of_config(config, &args);
        assert_eq!(told["kv_bytes_per_token"], each, "{name}");
        assert_eq!(told["estimate"]["kv"], each * context, "{name}");
        assert_eq!(told["estimate"]["kv_if_windows_were_kept"], windowed, "{name}");
    }
    let told = of_config(&gemma3, &[]);
    let full: Vec<u64> = vec![5, 11, 17, 23];
    assert_eq!(told["layers"][1], json!({"layers": full, "key": 256, "value": 256, "window": null}));
    assert_eq!(told["layers"][0]["window"], 512);
    // Positions that were learned end where they end.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, gpt2.to_string()).unwrap();
    let run = memory(path.to_str().unwrap(), &["--context", "1025"]);
    assert!(run.code == 2 && run.err.contains("a place for 1024 positions"), "{}", run.err);
    let told = of_config(&gpt2, &["--fit", "100GiB"]);
    assert_eq!(told["fit"]["context"], 1024);
}

#[test]
fn sizes_that_no_machine_has_are_told_with_their_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let cases = [
        ("vocab_size", 10u64.pow(15)),
        ("hidden_size", 1 << 40),
        ("intermediate_size", (1 << 63) - 1),
        ("head_dim", 1 << 50),
    ];
    for (field, size) in cases {
        std::fs::write(&path, family("qwen3", json!({ field: size })).to_string()).unwrap();
        let run = memory(path.to_str().unwrap(), &[]);
        assert_eq!(run.code, 2, "{field}: {}", run.out);
        let message = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for told in ["config.json: ", "would be", "in the config", field] {
            assert!(message.contains(told), "{field}: {told} is not in {message}");
        }
    }
}

#[test]
fn a_config_is_told_by_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = family("qwen3", json!({})).to_string();
    for name in ["config.json", "blob", "model.gguf"] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("\n {config}")).unwrap();
        let run = memory(path.to_str().unwrap(), &[]);
        assert!(run.code < 2 && !valid(&run)["model"]["weights"].is_null(), "{name}: {}{}", run.out, run.err);
        std::fs::remove_file(path).unwrap();
    }
    for (name, text) in [("list", "[1]"), ("cut", "{"), ("other", "{}")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert!(memory(path.to_str().unwrap(), &[]).code >= 2, "{name}");
    }
}

#[test]
fn only_what_weights_are_stored_in_is_an_answer() {
    let config = testdata().join("families/qwen3.json");
    for wrong in ["i64", "f64", "u8", "bool", "c64", "f8_e8m0"] {
        let run = memory(config.to_str().unwrap(), &["--weights", wrong]);
        assert!(
            run.code == 2 && run.err.contains("that weights are stored in"),
            "{wrong}: {}{}",
            run.out,
            run.err
        );
    }
    for fine in ["bf16", "f32", "Q8_0", "q4_k_m", "f8_e4m3"] {
        let run = memory(config.to_str().unwrap(), &["--weights", fine]);
        assert!(run.code < 2, "{fine}: {}{}", run.out, run.err);
    }
}
