//! `memory`: what it says a run takes, against arithmetic by hand and against runs.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests read files and the environment
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;

use common::{Run, run_in, valid};
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::kernel;
use scantling_core::ledger;
use scantling_core::memory::{self, Memory};
use scantling_core::model::{Model, Options, Session};
use scantling_core::registry::Work;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

fn asked(model: &str, args: &[&str]) -> Run {
    run_in(&testdata(), &[&["memory", model, "--json"], args].concat())
}

/// The document about a config.
#[track_caller]
fn of_config(config: &Value, args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let run = asked(path.to_str().unwrap(), args);
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
    let run = asked(path.to_str().unwrap(), &["--context", "1025"]);
    assert!(run.code == 2 && run.err.contains("a place for 1024 positions"), "{}", run.err);
    let told = of_config(&gpt2, &["--fit", "100GiB"]);
    assert_eq!(told["fit"]["context"], 1024);
}

/// A file of the golden set, or the reason why it is skipped.
fn golden(name: &str) -> Option<PathBuf> {
    let Some(shared) = std::env::var_os("SCANTLING_SHARED") else {
        println!("skipped: SCANTLING_SHARED is not set");
        return None;
    };
    Some(PathBuf::from(shared).join("golden").join(name))
}

/// The models of a folder: folders of checkpoints, and GGUF files.
fn models_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut models: Vec<PathBuf> = entries
        .filter(|path| path.join("config.json").exists() || path.extension() == Some("gguf".as_ref()))
        .collect();
    models.sort();
    models
}

/// What the buffers of passes come to while they are made, against what was foretold: the same number to the byte, but
/// for experts, whose tokens are spread where the foretelling sends them all to the same.
#[track_caller]
fn buffers_are_as_foretold(path: &Path) -> bool {
    let registry = models::registry();
    let model = match Model::load(&registry, path, &Request::default()) {
        Ok(model) if model.decoder().is_ok() => model,
        _ => return false,
    };
    let kernel = registry.kernel("exact", Work::Exact, &kernel::Options { threads: 2 }).unwrap();
    let options = memory::Options { kv: KvType::F32, batch: 16 };
    let foretold = Memory::of(&model, kernel.as_ref(), options).unwrap();
    let experts = model.architecture().tensors().rows().iter().any(|row| row.used.is_some());
    let ids: Vec<u32> = (0..40).map(|i| 3 + i * 5 % 90).collect();
    for tokens in [1, 2, 7, 16, 40] {
        let options = Options { context: 48, kv: KvType::F32, batch: 16 };
        let mut session = Session::new(&model, kernel.as_ref(), options).unwrap();
        let (logits, moments) = ledger::watch(|| session.feed(&ids[..tokens], 1, None));
        assert_eq!(logits.unwrap().view().rows(), 1);
        let (seen, told) = (*moments.iter().max().unwrap() as u64, foretold.at(tokens).buffers);
        assert!(seen <= told, "{}: {tokens} tokens made {seen} bytes, foretold {told}", path.display());
        // Behind whole batches comes a last one that is shorter, and alone is asked for logits.
        let same = !experts && tokens <= 16;
        assert!(
            !same || seen == told,
            "{}: {tokens} tokens made {seen} bytes, foretold {told}",
            path.display()
        );
        assert!(3 * seen >= told, "{}: {tokens} tokens made {seen} bytes, foretold {told}", path.display());
        assert_eq!(session.owned_bytes() as u64, foretold.weights.owned);
        assert_eq!(session.cache_bytes(tokens).unwrap() as u64, foretold.at(tokens).kv);
    }
    true
}

#[test]
fn buffers_of_a_run_are_those_that_were_foretold() {
    for name in ["qwen3-tiny", "qwen3-tiny.gguf", "llama-tiny", "qwen2-tiny.gguf", "qwen3-q4_k_m.gguf"] {
        assert!(buffers_are_as_foretold(&testdata().join(name)), "{name}");
    }
}

#[test]
fn buffers_of_every_family_are_those_that_were_foretold() {
    for (folder, least) in [("models", 20), ("gguf", 25)] {
        let Some(folder) = golden(folder) else { return };
        let run = models_in(&folder).iter().filter(|path| buffers_are_as_foretold(path)).count();
        assert!(run >= least, "{run} models of {}", folder.display());
    }
}

/// A run as a process of its own: bytes of its own that it had at most, and tokens that it read.
#[cfg(target_os = "linux")]
fn generated(model: &str, args: &[&str]) -> (u64, u64) {
    use std::process::Stdio;
    let mut child = common::program()
        .args([&["generate", model, "--ignore-eos", "--json"], args].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let anonymous =
            text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB"));
        let anonymous: Option<u64> = anonymous.and_then(|n| n.trim().parse().ok());
        most = most.max(1024 * anonymous.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let run = common::finished(child.wait_with_output().unwrap());
    assert_eq!(run.code, 0, "{}", run.err);
    let document: Value = serde_json::from_str(&run.out).unwrap();
    (most, document["prompt_ids"].as_array().unwrap().len() as u64)
}

/// Memory of its own is what a run takes beside the files that it has mapped.
#[cfg(target_os = "linux")]
#[test]
fn a_real_run_takes_what_was_foretold() {
    let Some(models) = std::env::var_os("SCANTLING_MODELS") else {
        println!("skipped: SCANTLING_MODELS is not set");
        return;
    };
    let model = PathBuf::from(models).join("smollm2-135m-instruct-q4_1");
    if !model.exists() {
        println!("skipped: {} is not there", model.display());
        return;
    }
    let model = model.to_str().unwrap();
    let prompt = "The sea is wide, and who sails it is never sure of the wind. ".repeat(5);
    for kv in ["f16", "f32"] {
        let (most, read) = generated(model, &["--prompt", &prompt, "-n", "8", "--kv-type", kv]);
        let (context, batch) = ((read + 8).to_string(), read.to_string());
        let told = valid(&asked(model, &["--context", &context, "--batch", &batch, "--kv-type", kv]));
        let told = told["estimate"]["own"].as_u64().unwrap();
        let ratio = told as f64 / most as f64;
        println!("{read} tokens, {kv}: {most} bytes at most, foretold {told}: {ratio:.3}");
        assert!((0.95..=1.05).contains(&ratio), "{read} tokens, {kv}: {most} bytes at most, foretold {told}");
    }
}

#[test]
fn the_longest_context_that_fits_is_the_last_that_does() {
    let all = released();
    let config = &all["models"]["Qwen3-0.6B"]["config"];
    for (size, bytes) in [("1400M", 1400u64 << 20), ("2GiB", 2 << 30), ("8GB", 8_000_000_000)] {
        let fit = of_config(config, &["--fit", size]);
        let longest = fit["fit"]["context"].as_u64().unwrap();
        let total = |context: u64| {
            let told = of_config(config, &["--context", &context.to_string()]);
            told["estimate"]["total"].as_u64().unwrap()
        };
        assert!(longest > 1 && total(longest) <= bytes && total(longest + 1) > bytes, "{size}: {longest}");
    }
    // The weights alone take 1.1 GiB.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let run = asked(path, &["--fit", "1GiB"]);
    assert_eq!((run.code, &valid(&run)["fit"]["context"]), (1, &json!(0)));
    let text = run_in(folder.path(), &["memory", path, "--fit", "1GiB"]);
    assert!(text.code == 1 && text.out.contains("no context fits into 1.00 GiB"), "{}", text.out);
    let text = run_in(folder.path(), &["memory", path, "--fit", "2GiB", "--kv-type", "f16"]);
    assert!(text.code == 0 && text.out.contains("tokens fits into 2.00 GiB"), "{}", text.out);
    for line in ["114,688 bytes each", "28 layers (0–27): 1,024 + 1,024 numbers", "as BF16, mapped", "Q4_K_M"]
    {
        assert!(text.out.contains(line), "{line}: {}", text.out);
    }
}

#[test]
fn the_context_that_was_found_is_the_one_that_is_shown() {
    let all = released();
    let config = &all["models"]["SmolLM2-135M"]["config"];
    let told = of_config(config, &["--fit", "2GiB", "--kv-type", "f16"]);
    let fit = &told["fit"];
    assert_eq!(told["estimate"]["context"], fit["context"]);
    assert!(told["estimate"]["total"].as_u64().unwrap() <= 2 << 30);
    // More fits than the model was made for, which is of little use.
    assert_eq!((&fit["made_for"], &fit["usable"]), (&json!(8192), &json!(8192)));
    assert!(fit["context"].as_u64().unwrap() > 8192, "{fit}");
    let told = of_config(config, &["--fit", "2GiB", "--kv-type", "f16", "--context", "1000"]);
    assert_eq!(told["estimate"]["context"], 1000, "who names one sees that one");
    let short = of_config(config, &["--fit", "350MB", "--kv-type", "f16"]);
    assert_eq!(short["fit"]["usable"], short["fit"]["context"], "{}", short["fit"]);

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let said = |args: &[&str]| {
        let run = run_in(folder.path(), &[&["memory", "config.json", "--quiet"], args].concat());
        assert_eq!((run.code, run.err.as_str(), run.out.lines().count()), (0, "", 1), "{}", run.out);
        run.out
    };
    let line = said(&["--fit", "2GiB"]);
    assert!(line.starts_with("  ! a context of "), "{line}");
    assert!(line.ends_with("tokens fits into 2.00 GiB, but the model was made for 8,192\n"), "{line}");
    let line = said(&["--fit", "350MB"]);
    assert!(line.starts_with("  ✓ ") && !line.contains("made for"), "{line}");
    let line = said(&["--context", "8193"]);
    assert!(
        line.starts_with("  ! a context of 8,193 tokens fits, but the model was made for 8,192: "),
        "{line}"
    );
    assert!(said(&["--context", "8192"]).starts_with("  ✓ a context of 8,192 tokens fits: "));
}

/// Bytes of weights of a config alone, against files that were released.
#[test]
fn weights_come_to_the_released_files() {
    let all = released();
    let sizes = |name: &str| -> Vec<(String, u64)> {
        let told = of_config(&all["models"][name]["config"], &[]);
        let each = |s: &Value| (s["weights"].as_str().unwrap().to_owned(), s["bytes"].as_u64().unwrap());
        told["stored_as"].as_array().unwrap().iter().map(each).collect()
    };
    let mut held = 0;
    for name in ["Qwen3-8B", "Qwen3-32B", "Qwen3-30B-A3B", "Llama-3.1-8B", "Mistral-7B-v0.3", "Gemma-2-2b"] {
        let bf16 = sizes(name)[0].clone();
        let published = all["models"][name]["published"]["index_total_size_bytes"].clone();
        let published = published.get("value").cloned().unwrap_or(published);
        if let Some(published) = published.as_u64() {
            assert_eq!(bf16, ("BF16".to_owned(), published), "{name}");
            held += 1;
        }
    }
    assert!(held >= 4, "{held}");
}

#[test]
fn requests_that_cannot_be_met_are_told() {
    let at = testdata();
    for (args, code, words) in [
        (&["memory", "qwen3-tiny", "--weights", "q8_0"][..], 2, "here the weights are there"),
        (
            &["memory", "configs/qwen3-0.6b.json", "--weights", "q9"],
            2,
            "such as bf16, q8_0 or q4_k, or q4_k_m",
        ),
        (&["memory", "configs/qwen3-0.6b.json", "--fit", "8 apples"], 2, "is no unit of bytes"),
        (&["memory", "configs/qwen3-0.6b.json", "--fit", "2"], 2, "say the unit, as 2GiB"),
        (&["memory", "configs/qwen3-0.6b.json", "--context", "0"], 2, "0 is not in 1..="),
        (&["memory", "families/bert.json"], 2, "cannot be run"),
        (&["memory", "nowhere"], 3, "nowhere"),
        (&["memory", "released.json"], 3, "released.json"),
    ] {
        let run = run_in(&at, args);
        assert!(run.code == code && run.err.contains(words), "{args:?}: {} {}", run.code, run.err);
    }
    // A config that is wrong, and one of sizes that no machine has.
    let folder = tempfile::tempdir().unwrap();
    let told = |changes: Value| {
        let path = folder.path().join("config.json");
        std::fs::write(&path, family("llama", changes).to_string()).unwrap();
        run_in(folder.path(), &["memory", "config.json"])
    };
    let run = told(json!({"num_hidden_layers": "many"}));
    assert!(run.code == 3 && run.err.contains("num_hidden_layers"), "{} {}", run.code, run.err);
    for changes in [
        json!({"vocab_size": 1_u64 << 60}),
        json!({"hidden_size": 1_u64 << 40, "head_dim": 64}),
        json!({"intermediate_size": u64::MAX}),
        json!({"num_attention_heads": 1_u64 << 40, "num_key_value_heads": 1_u64 << 40}),
    ] {
        let run = told(changes.clone());
        assert!((2..=3).contains(&run.code), "{changes}: {} {}", run.code, run.out);
    }
    // Nothing is said to fit that the machine does not have.
    let huge = json!({"num_key_value_heads": 32, "num_attention_heads": 32, "head_dim": 128, "max_position_embeddings": 1 << 30});
    let path = folder.path().join("config.json");
    std::fs::write(&path, family("llama", huge).to_string()).unwrap();
    let run = run_in(folder.path(), &["memory", "config.json", "--context", "1073741824"]);
    assert!(run.code == 1 && run.out.contains("does not fit"), "{} {}{}", run.code, run.out, run.err);
}

#[test]
fn sizes_that_no_machine_has_are_told_with_their_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let cases =
        [("vocab_size", 10u64.pow(15)), ("hidden_size", 1 << 40), ("intermediate_size", (1 << 63) - 1)];
    for (field, size) in cases {
        std::fs::write(&path, family("qwen3", json!({ field: size })).to_string()).unwrap();
        let run = asked(path.to_str().unwrap(), &[]);
        assert_eq!(run.code, 2, "{field}: {}", run.out);
        let message = run.err.split_whitespace().collect::<Vec<_>>().join(" ");
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
        let run = asked(path.to_str().unwrap(), &[]);
        assert!(run.code < 2 && !valid(&run)["model"]["weights"].is_null(), "{name}: {}{}", run.out, run.err);
        std::fs::remove_file(path).unwrap();
    }
    for (name, text) in [("list", "[1]"), ("cut", "{"), ("other", "{}")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert!(asked(path.to_str().unwrap(), &[]).code >= 2, "{name}");
    }
}

#[test]
fn only_what_weights_are_stored_in_is_an_answer() {
    let config = testdata().join("families/qwen3.json");
    for wrong in ["i64", "f64", "u8", "bool", "c64", "f8_e8m0"] {
        let run = asked(config.to_str().unwrap(), &["--weights", wrong]);
        assert!(
            run.code == 2 && run.err.contains("that weights are stored in"),
            "{wrong}: {}{}",
            run.out,
            run.err
        );
    }
    for fine in ["bf16", "f32", "Q8_0", "q4_k_m", "f8_e4m3"] {
        let run = asked(config.to_str().unwrap(), &["--weights", fine]);
        assert!(run.code < 2, "{fine}: {}{}", run.out, run.err);
    }
}
