//! Whole commands: what they print, where they print it, and how they exit.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::{CONFIG, Tensor, finished, folder, model, program, qwen3, run_in};
use snapbox::{assert_data_eq, str};
use std::io::Read;
use std::process::Stdio;

#[test]
fn inspect_shows_three_blocks() {
    let folder = folder();
    let run = run_in(folder.path(), &["inspect", "good"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_data_eq!(
        run.out,
        str![[r#"
── dimensions (from config.json) ───────────────────────────────────────────
  V  vocab_size             16   distinct tokens
  H  hidden_size             8   residual-stream width
  L  num_hidden_layers       2   transformer blocks
  d  head_dim                6   width of one attention head
     num_attention_heads     4   query heads → q width = 4·6 = 24
     num_key_value_heads     2   kv heads → kv width = 2·6 = 12   (GQA group 2)
  I  intermediate_size      20   FFN inner width
  weights are stored [out, in]; read a row as   in ──▶ out   (y = x·Wᵀ)

── tensors ─────────────────────────────────────────────────────────────────
  TENSOR                            DTYPE  SHAPE    PARAMS   in ──▶ out
  global
    model.embed_tokens.weight       F32    [16, 8]     128   id ──▶ H   (row gather)
  each block  × 2   (shown: layer 0)
    input_layernorm.weight          F32    [8]           8   scale 8
    self_attn.q_proj.weight         F32    [24, 8]     192   8 ──▶ 24
    self_attn.k_proj.weight         F32    [12, 8]      96   8 ──▶ 12
    self_attn.v_proj.weight         F32    [12, 8]      96   8 ──▶ 12
    self_attn.q_norm.weight         F32    [6]           6   scale 6
    self_attn.k_norm.weight         F32    [6]           6   scale 6
    self_attn.o_proj.weight         F32    [8, 24]     192   24 ──▶ 8
    post_attention_layernorm.weight F32    [8]           8   scale 8
    mlp.gate_proj.weight            F32    [20, 8]     160   8 ──▶ 20
    mlp.up_proj.weight              F32    [20, 8]     160   8 ──▶ 20
    mlp.down_proj.weight            F32    [8, 20]     160   20 ──▶ 8
  final
    model.norm.weight               F32    [8]           8   scale 8
    lm_head.weight   (tied)         F32    [16, 8]     128   8 ──▶ 16

── verdict ─────────────────────────────────────────────────────────────────
  ✓ all 25 expected tensors present, shapes match the config
  note: lm_head.weight present but tied — a redundant byte-identical copy of embed_tokens (128 params counted once)
  params: 2,432 stored · 2,304 logical
  embeddings: 128 = 5.6% of logical
  not checked: tensor values (use check --data)

"#]]
    );
}

#[test]
fn check_says_what_is_wrong() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "good", "bad"]);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert_data_eq!(
        run.out,
        str![[r#"
✓ good  qwen3 · 25 tensors · safetensors
  note: lm_head.weight present but tied — a redundant byte-identical copy of embed_tokens (128 params counted once)
  not checked: tensor values (use check --data)
✗ bad  qwen3 · 24 tensors · safetensors · 1 error
  error[tensor-missing]: model.layers.1.mlp.up_proj.weight is missing
    expected [20, 8]: intermediate_size = 20, hidden_size = 8
    found    none
    to do: fetch the model again or correct the config
  note: lm_head.weight present but tied — a redundant byte-identical copy of embed_tokens (128 params counted once)
  not checked: tensor values (use check --data)

"#]]
    );
}

#[test]
fn exit_codes() {
    let folder = folder();
    let at = folder.path();
    std::fs::write(at.join("noise.safetensors"), b"not a model at all").unwrap();
    std::fs::create_dir(at.join("two")).unwrap();
    for name in ["a.safetensors", "b.safetensors"] {
        std::fs::copy(at.join("good/model.safetensors"), at.join("two").join(name)).unwrap();
    }
    let cases: [(&[&str], i32); 19] = [
        (&["check", "good"], 0),
        (&["check", "bad"], 1),
        (&["check", "bad", "--fail-on", "never"], 0),
        (&["check", "good", "--fail-on", "warning"], 0),
        (&["inspect", "bad"], 1),
        (&["inspect", "bad", "--json"], 1),
        (&["inspect"], 2),
        (&["inspect", "good", "bad"], 2),
        (&["check"], 2),
        (&["check", "good", "--only", "everything"], 2),
        (&["check", "good", "--arch", "nonesuch"], 2),
        (&["inspect", "good", "--tensors", "--include", "[z"], 2),
        (&["explain", "no-such-code"], 2),
        (&["check", "two"], 2),
        (&["check", "absent"], 3),
        (&["check", "noise.safetensors"], 3),
        (&["check", "noise.safetensors", "--fail-on", "never"], 3),
        (&["check", "good", "bad", "noise.safetensors", "two"], 3),
        (&["check", "bad", "two"], 2),
    ];
    for (args, code) in cases {
        let run = run_in(at, args);
        assert_eq!(run.code, code, "{args:?}\n{}\n{}", run.out, run.err);
        assert_eq!(code >= 2, run.err.starts_with("error: "), "{args:?}\n{}", run.err);
        assert!(!run.err.contains("panicked"), "{args:?}\n{}", run.err);
    }
}

#[test]
fn every_model_is_looked_at() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "absent", "good", "bad"]);
    assert_eq!(run.code, 3);
    let marks: Vec<&str> = run.out.lines().filter(|l| l.starts_with(['✓', '✗'])).collect();
    assert!(marks.len() == 3 && marks[1].starts_with("✓ good  qwen3 · 25 tensors · "), "{}", run.out);
    assert!(run.err.starts_with("error: absent"), "{}", run.err);
}

#[test]
fn usage_errors_name_what_is_known() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "good", "--only", "shapse"]);
    assert!(
        run.err.contains("tokenizer") && run.err.contains("did you mean") || run.err.contains("similar"),
        "{}",
        run.err
    );
    let run = run_in(folder.path(), &["check", "good", "--arch", "qwen"]);
    assert!(
        run.err.contains("known: bert, ") && run.err.contains(", qwen2, qwen3, qwen3_moe, "),
        "{}",
        run.err
    );
    let run = run_in(folder.path(), &["explain", "tensor-mising"]);
    assert_eq!(run.err, "error: unknown code \"tensor-mising\"; did you mean tensor-missing?\n");
}

#[test]
fn only_limits_a_check() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "bad", "--only", "container,shards"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let run = run_in(folder.path(), &["check", "bad", "--only", "names"]);
    assert_eq!(run.code, 1, "{}", run.out);
}

#[test]
fn data_finds_what_is_no_number() {
    let folder = folder();
    let mut tensors = qwen3();
    tensors[5].bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    model(folder.path(), "nan", &tensors, Some(CONFIG));
    assert_eq!(run_in(folder.path(), &["check", "nan"]).code, 0);
    let run = run_in(folder.path(), &["check", "nan", "--data"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains(&tensors[5].name), "{}", run.out);
}

#[test]
fn tensors_in_natural_order_and_by_pattern() {
    let folder = folder();
    let tensors: Vec<Tensor> =
        ["m.10.w", "m.2.w", "m.2.b", "other"].iter().map(|n| Tensor::new(n, &[2])).collect();
    model(folder.path(), "plain", &tensors, None);
    let names = |args: &[&str]| -> Vec<String> {
        let run = run_in(folder.path(), &[&["inspect", "plain"], args].concat());
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
        let listed = run.out.lines().filter(|l| l.contains("F32"));
        listed.filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect()
    };
    assert_eq!(names(&["--tensors"]), ["m.2.b", "m.2.w", "m.10.w", "other"]);
    assert_eq!(names(&["--tensors", "--sort", "file"]), ["m.10.w", "m.2.w", "m.2.b", "other"]);
    assert_eq!(names(&["--include", "m.*", "--exclude", "*.b"]), ["m.2.w", "m.10.w"]);
    let run = run_in(folder.path(), &["inspect", "plain", "--tensors", "--include", "*.b"]);
    assert!(run.out.contains("  1 shown, 3 hidden by --include and --exclude\n"), "{}", run.out);
}

#[test]
fn metadata_is_shown_on_request() {
    let folder = folder();
    assert!(!run_in(folder.path(), &["inspect", "good"]).out.contains("── metadata"));
    let run = run_in(folder.path(), &["inspect", "good", "--metadata"]);
    assert!(run.out.contains("── metadata (1 key) ──"), "{}", run.out);
    assert!(run.out.lines().any(|l| l.starts_with("  format  ") && l.ends_with("\"pt\"")), "{}", run.out);
}

#[test]
fn quiet_says_little() {
    let folder = folder();
    let run = run_in(folder.path(), &["check", "--quiet", "good", "bad"]);
    assert_eq!((run.code, run.out.as_str()), (1, "✗ bad  1 error\n"));
    let run = run_in(folder.path(), &["check", "-q", "good"]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""));
    let run = run_in(folder.path(), &["inspect", "-q", "good"]);
    assert!(run.out.starts_with("  ✓ all 25 expected tensors present"), "{}", run.out);
}

#[test]
fn colours_where_asked_for() {
    let folder = folder();
    let coloured = |set: Option<(&str, &str)>, args: &[&str]| {
        let mut command = program();
        command.current_dir(folder.path()).args(["inspect", "bad"]).args(args).envs(set);
        finished(command.output().unwrap()).out.contains('\x1b')
    };
    assert!(!coloured(None, &[]));
    assert!(coloured(None, &["--color", "always"]));
    assert!(coloured(Some(("SCANTLING_COLOR", "always")), &[]));
    assert!(coloured(Some(("CLICOLOR_FORCE", "1")), &[]));
    assert!(!coloured(Some(("NO_COLOR", "1")), &[]));
    assert!(!coloured(Some(("SCANTLING_COLOR", "always")), &["--color", "never"]));
}

#[test]
fn ascii_means_ascii() {
    let folder = folder();
    let mut tensors = qwen3();
    tensors.push(Tensor::new("größe.\u{1f600}", &[1]));
    model(folder.path(), "foreign", &tensors, Some(CONFIG));
    let all: [&[&str]; 6] = [
        &["inspect", "foreign", "--ascii"],
        &["inspect", "foreign", "--ascii", "--tensors", "--metadata"],
        &["inspect", "foreign", "--ascii", "--json"],
        &["check", "foreign", "good", "--ascii"],
        &["check", "foreign", "--ascii", "--format", "markdown"],
        &["check", "foreign", "--ascii", "--format", "sarif"],
    ];
    for args in all {
        let run = run_in(folder.path(), args);
        assert!(run.out.is_ascii() && run.err.is_ascii() && !run.out.is_empty(), "{args:?}\n{}", run.out);
    }
    let plain = program()
        .current_dir(folder.path())
        .args(["inspect", "foreign"])
        .env("SCANTLING_ASCII", "1")
        .output();
    assert!(finished(plain.unwrap()).out.is_ascii());
}

#[test]
fn names_from_files_are_escaped_in_every_form() {
    let folder = folder();
    let hostile = "evil\x1b[2J\u{202e}\u{9b}31m\u{7f}\r\nfake: line\u{2066}";
    let mut tensors = qwen3();
    tensors.push(Tensor::new(hostile, &[1]));
    model(folder.path(), "hostile", &tensors, Some(CONFIG));
    let all: [&[&str]; 7] = [
        &["inspect", "hostile"],
        &["inspect", "hostile", "--tensors", "--full"],
        &["inspect", "hostile", "--json"],
        &["check", "hostile", "no\x1bsuch\u{202e}file"],
        &["check", "hostile", "--json"],
        &["check", "hostile", "--format", "markdown"],
        &["check", "hostile", "--format", "sarif"],
    ];
    for args in all {
        let run = run_in(folder.path(), args);
        for text in [&run.out, &run.err] {
            let bad = |c: char| {
                c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c) || c == '\u{2066}'
            };
            assert!(!text.chars().any(bad), "{args:?}\n{text:?}");
            assert!(!text.lines().any(|l| l.starts_with("fake")), "{args:?}\n{text}");
        }
        assert!(run.out.contains("evil"), "{args:?}\n{}", run.out);
    }
    let run = run_in(folder.path(), &["inspect", "hostile", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let names = document["model"]["tensors"].as_array().unwrap();
    assert!(names.iter().any(|t| t["name"] == hostile), "the name reads back as it is");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = folder();
    let tensors: Vec<Tensor> = (0..20_000).map(|n| Tensor::new(&format!("layer.{n}.weight"), &[1])).collect();
    model(folder.path(), "long", &tensors, None);
    let all: [(&[&str], i32); 4] = [
        (&["inspect", "long", "--tensors"], 0),
        (&["inspect", "long", "--json"], 0),
        (&["check", "long", "--format", "sarif", "--full"], 1),
        (&["explain"], 0),
    ];
    for (args, code) in all {
        let mut command = program();
        command.current_dir(folder.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut one = [0];
        let mut pipe = child.stdout.take().unwrap();
        pipe.read_exact(&mut one).unwrap();
        drop(pipe);
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{args:?}");
        assert_eq!(String::from_utf8(done.stderr).unwrap(), "", "{args:?}");
    }
}

#[test]
fn narrow_screens() {
    let folder = folder();
    for width in [60, 76, 80] {
        let run = run_in(folder.path(), &["inspect", "bad", "--width", &width.to_string()]);
        for line in run.out.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn explain_tells_a_paragraph() {
    let folder = folder();
    let run = run_in(folder.path(), &["explain", "tensor-missing", "--width", "60"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.starts_with("tensor-missing: "), "{}", run.out);
    assert!(run.out.contains("\nerror · part: names\n\n"), "{}", run.out);
    assert!(run.out.lines().all(|l| l.chars().count() <= 60), "{}", run.out);
    let run = run_in(folder.path(), &["explain"]);
    assert!(run.out.lines().count() > 40 && run.out.lines().all(|l| !l.trim().is_empty()), "{}", run.out);
}

#[test]
fn scripts_and_pages() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let run = run_in(folder.path(), &["completions", shell]);
        assert!(run.code == 0 && run.out.contains("inspect") && run.out.contains("fail-on"), "{shell}");
    }
    let run = run_in(folder.path(), &["man"]);
    assert!(run.code == 0 && run.out.contains(".TH scantling 1"), "{}", run.out);
    let run = run_in(folder.path(), &["man", "check"]);
    assert!(run.code == 0 && run.out.contains("\\-\\-fail\\-on"), "{}", run.out);
    assert_eq!(run_in(folder.path(), &["man", "woman"]).code, 2);
    assert_eq!(
        run_in(folder.path(), &["--version"]).out,
        format!("scantling {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(run_in(folder.path(), &["--help"]).code, 0);
}

#[test]
fn a_bare_shard_is_checked_with_what_the_user_knows() {
    let folder = folder();
    std::fs::write(folder.path().join("mine.json"), CONFIG).unwrap();
    std::fs::copy(folder.path().join("good/model.safetensors"), folder.path().join("bare.safetensors"))
        .unwrap();
    assert_eq!(run_in(folder.path(), &["inspect", "bare.safetensors"]).code, 0);
    assert_eq!(run_in(folder.path(), &["check", "bare.safetensors"]).code, 1);
    let run = run_in(folder.path(), &["check", "bare.safetensors", "--config", "mine.json"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let run =
        run_in(folder.path(), &["check", "bare.safetensors", "--config", "mine.json", "--arch", "qwen2"]);
    assert_eq!(run.code, 1, "{}", run.out);
}
