//! `plugins arch`: what an architecture must hold by a config, without any weights.
#![allow(clippy::disallowed_methods)] // tests write configs and read the goldens
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;

use common::{CONFIG, folder, run_in, valid};
use serde_json::Value;
use snapbox::{assert_data_eq, str};
use std::path::{Path, PathBuf};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

#[test]
fn a_table_has_both_names_and_the_reasons() {
    let run = run_in(&testdata(), &["plugins", "arch", "llama", "--config", "llama-tiny/config.json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_data_eq!(
        run.out,
        str![[r#"
── dimensions (from llama-tiny/config.json) ────────────────────────────────
  V  vocab_size             331   distinct tokens
  H  hidden_size             64   residual-stream width
  L  num_hidden_layers        3   transformer blocks
  d  head_dim                20   width of one attention head
     num_attention_heads      4   query heads → q width = 4·20 = 80
     num_key_value_heads      2   kv heads → kv width = 2·20 = 40   (GQA group 2)
  I  intermediate_size       56   FFN inner width

── tensors of llama ────────────────────────────────────────────────────────
  HUGGING FACE                       GGUF                  SHAPE      PARAMS
  model.embed_tokens.weight          token_embd.weight     [331, 64]  21,184
      vocab_size = 331, hidden_size = 64
  —                                  rope_freqs.weight     [10]           10
      half of the head's width = 10; may be missing
  model.layers.N.                    blk.N.                × 3
    input_layernorm.weight             attn_norm.weight    [64]           64
      hidden_size = 64
    self_attn.q_proj.weight            attn_q.weight       [80, 64]    5,120
      num_attention_heads × head_dim = 80, hidden_size = 64; GGUF has the rows that turn together side by side, within each head of 20
    self_attn.k_proj.weight            attn_k.weight       [40, 64]    2,560
      num_key_value_heads × head_dim = 40, hidden_size = 64; GGUF has the rows that turn together side by side, within each head of 20
    self_attn.v_proj.weight            attn_v.weight       [40, 64]    2,560
      num_key_value_heads × head_dim = 40, hidden_size = 64
    self_attn.o_proj.weight            attn_output.weight  [64, 80]    5,120
      hidden_size = 64, num_attention_heads × head_dim = 80
    post_attention_layernorm.weight    ffn_norm.weight     [64]           64
      hidden_size = 64
    mlp.gate_proj.weight               ffn_gate.weight     [56, 64]    3,584
      intermediate_size = 56, hidden_size = 64
    mlp.up_proj.weight                 ffn_up.weight       [56, 64]    3,584
      intermediate_size = 56, hidden_size = 64
    mlp.down_proj.weight               ffn_down.weight     [64, 56]    3,584
      hidden_size = 64, intermediate_size = 56
  model.norm.weight                  output_norm.weight    [64]           64
      hidden_size = 64
  lm_head.weight                     output.weight         [331, 64]  21,184
      vocab_size = 331, hidden_size = 64

── totals ──────────────────────────────────────────────────────────────────
  Hugging Face   30 tensors · 121,152 params
  GGUF           30 tensors, and 1 that may be missing · 121,152 params

"#]]
    );
}

#[test]
fn architectures_are_listed() {
    let run = run_in(&testdata(), &["plugins", "arch"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    for name in ["llama", "qwen2", "qwen3"] {
        assert!(run.out.lines().any(|l| l.split_whitespace().next() == Some(name)), "{}", run.out);
    }
    assert!(!run.out.contains("kernels"), "{}", run.out);
    let one = run_in(&testdata(), &["plugins", "arch", "qwen3"]);
    assert!(one.code == 0 && run.out.contains(&one.out) && one.out.lines().count() == 3, "{}", one.out);
    let all = valid(&run_in(&testdata(), &["plugins", "arch", "--json"]));
    let plugins = valid(&run_in(&testdata(), &["plugins", "--json"]));
    assert_eq!(all["architectures"], plugins["architectures"], "the same facts");
}

#[test]
fn a_wrong_config_is_told_and_so_is_a_wrong_request() {
    let folder = folder();
    let at = folder.path();
    let write = |name: &str, text: String| std::fs::write(at.join(name), text).unwrap();
    write("good.json", CONFIG.to_owned());
    write("silent.json", CONFIG.replace("\"hidden_size\": 8, ", ""));
    write("uneven.json", CONFIG.replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 3"));
    write("huge.json", CONFIG.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4000000000"));
    write("other.json", CONFIG.replace("\"qwen3\"", "\"newfangled\""));
    write("noise.json", "{".to_owned());
    let cases: [(&[&str], i32, &str); 10] = [
        (&["qwen3", "--config", "good.json"], 0, ""),
        (&["--config", "good.json"], 0, ""),
        (&["qwen2", "--config", "good.json"], 0, "told as qwen2; the config says qwen3"),
        (&["qwen3", "--config", "other.json"], 0, "told as qwen3; the config says newfangled"),
        (&["qwen3", "--config", "silent.json"], 1, "hidden_size is missing"),
        (&["qwen3", "--config", "uneven.json"], 1, "must be a multiple"),
        (&["qwen3", "--config", "huge.json"], 1, "more than any model has"),
        (&["--config", "other.json"], 2, "newfangled"),
        (&["qwen3", "--config", "noise.json"], 2, "--config cannot be used"),
        (&["nonesuch", "--config", "good.json"], 2, "unknown architecture \"nonesuch\""),
    ];
    for (args, code, told) in cases {
        let run = run_in(at, &[&["plugins", "arch"], args].concat());
        assert_eq!(run.code, code, "{args:?}\n{}\n{}", run.out, run.err);
        assert!(
            if code == 2 { &run.err } else { &run.out }.contains(told),
            "{args:?}\n{}{}",
            run.out,
            run.err
        );
        assert_eq!(run.out.contains("── totals"), code == 0, "{args:?}\n{}", run.out);
        if code < 2 {
            let document = valid(&run_in(at, &[&["plugins", "arch", "--json"], args].concat()));
            assert_eq!(document["totals"].is_null(), code == 1, "{args:?}");
        }
    }
    assert_eq!(run_in(at, &["plugins", "arch", "nonesuch"]).code, 2);
    assert_eq!(run_in(at, &["plugins", "arch", "--config", "absent.json"]).code, 2);
    assert_eq!(run_in(at, &["plugins", "nonesuch"]).code, 2);
}

#[test]
fn layers_that_differ_stand_apart() {
    let run = run_in(&testdata(), &["plugins", "arch", "--config", "configs/qwen3-0.6b.json", "--json"]);
    let document = valid(&run);
    let tensors = document["tensors"].as_array().unwrap();
    let q = tensors.iter().find(|t| t["gguf"] == "blk.{layer}.attn_q.weight").unwrap();
    assert_eq!(q["hf"], "model.layers.{layer}.self_attn.q_proj.weight");
    assert_eq!(q["layers"].as_array().unwrap().len(), 28);
    assert_eq!(q["shape"][0]["why"], "num_attention_heads × head_dim");
    assert_eq!(document["totals"]["hf"]["parameters"], 596_049_920);
    assert_eq!(document["totals"]["hf"]["tensors"], 310);
}

/// Every model of the goldens has the tensors of its table, and both worlds the same number of parameters.
#[test]
fn tables_come_to_what_the_models_hold() {
    let Some(shared) = std::env::var_os("SCANTLING_SHARED") else {
        println!("skipped: SCANTLING_SHARED is not set");
        return;
    };
    let models = PathBuf::from(shared).join("golden/models");
    let mut seen = 0;
    for entry in std::fs::read_dir(&models).unwrap() {
        let folder = entry.unwrap().path();
        let config = folder.join("config.json");
        let run = run_in(&models, &["plugins", "arch", "--json", "--config", config.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{}: {}{}", folder.display(), run.out, run.err);
        let derived = valid(&run);
        let [hf, gguf] = ["hf", "gguf"].map(|world| &derived["totals"][world]);
        // What only one world has: a head of another task, a helper.
        let checked_only = derived["architecture"] == "bert";
        assert!(checked_only || hf["parameters"] == gguf["parameters"], "{}: {hf} {gguf}", folder.display());
        let run = run_in(&models, &["inspect", folder.to_str().unwrap(), "--json"]);
        let expected: Value = valid(&run)["model"]["counts"]["expected"].clone();
        if let Some(expected) = expected.as_u64() {
            let (least, optional) = (hf["tensors"].as_u64().unwrap(), hf["optional"].as_u64().unwrap());
            assert!((least..=least + optional).contains(&expected), "{}: {expected} {hf}", folder.display());
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen}");
}

/// The same parameters in both worlds, whatever is fused, stacked or cut in one of them.
#[test]
fn every_family_comes_to_the_same_in_both_worlds() {
    let mut seen = 0;
    for entry in std::fs::read_dir(testdata().join("families")).unwrap() {
        let config = entry.unwrap().path();
        let run = run_in(&testdata(), &["plugins", "arch", "--json", "--config", config.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{}: {}{}", config.display(), run.out, run.err);
        let derived = valid(&run);
        // Its heads for other tasks have no name in GGUF.
        if derived["architecture"] != "bert" {
            let totals = &derived["totals"];
            assert_eq!(totals["hf"]["parameters"], totals["gguf"]["parameters"], "{}", config.display());
        }
        seen += 1;
    }
    assert!(seen >= 17, "{seen}");
}

#[test]
fn experts_are_stacked_cut_and_transposed_where_it_is_so() {
    let tensor = |config: &str, gguf: &str| {
        let config = format!("families/{config}.json");
        let document = valid(&run_in(&testdata(), &["plugins", "arch", "--json", "--config", &config]));
        let tensors = document["tensors"].as_array().unwrap();
        tensors.iter().find(|t| t["gguf"] == format!("blk.{{layer}}.{gguf}")).unwrap().clone()
    };
    let up = tensor("gpt_oss", "ffn_up_exps.weight");
    assert!(up["hf"].is_null());
    assert_eq!(up["split"]["of"], "model.layers.{layer}.mlp.experts.gate_up_proj");
    assert_eq!((&up["split"]["how"], &up["split"]["part"]), (&"alternating".into(), &1.into()));
    assert_eq!(tensor("gpt_oss", "ffn_down_exps.weight")["conversion"], "transposed");
    let gate = tensor("qwen3_moe", "ffn_gate_exps.weight");
    assert_eq!(gate["hf"], "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight");
    assert_eq!(gate["hf_tensors"], gate["shape"][0]["len"]);
    assert_eq!(tensor("llama", "attn_q.weight")["conversion"], "interleaved");
    assert_eq!(tensor("gemma2", "attn_norm.weight")["conversion"], "plus-one");
}
