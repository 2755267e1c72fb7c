//! Text to ids and back, as commands.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::run_in;
use std::path::Path;

fn testdata() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

#[test]
fn text_comes_back_from_its_ids() {
    for model in ["qwen3-tiny.gguf", "qwen3-tiny", "tokenizers/llama2", "tokenizers/bert/tokenizer.json"] {
        let run = run_in(&testdata(), &["tokenize", model, "the water", "--no-special", "--ids-only"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{model}");
        let mut args = vec!["detokenize", model];
        args.extend(run.out.split_whitespace());
        let run = run_in(&testdata(), &args);
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "the water", ""), "{model}");
    }
}

#[test]
fn both_worlds_give_one_document() {
    let of = |model: &str| {
        let run = run_in(&testdata(), &["tokenize", model, "<|im_start|>Hé", "--json"]);
        assert_eq!(run.code, 0, "{}", run.err);
        serde_json::from_str::<serde_json::Value>(&run.out).unwrap()
    };
    let (beside, inside) = (of("qwen3-tiny"), of("qwen3-tiny.gguf"));
    assert_eq!(beside["tokens"], inside["tokens"]);
    assert_eq!(inside["tokens"][0], serde_json::json!({"id": 1, "piece": "<|im_start|>", "bytes": [0, 12]}));
    assert_eq!(inside["origin"], "tokenizer.ggml.*");
}

#[test]
fn what_cannot_be_done_is_told() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["tokenize", "tokenizers/llama2", "--chat", "x"], 2, "has no chat template"),
        (&["tokenize", "configs", "x"], 3, ""),
        (&["detokenize", "qwen3-tiny", "99999"], 2, "there is no token 99999"),
        (&["tokenize", "qwen3-tiny", "--prompt-file", "absent"], 3, "cannot open it"),
        (&["tokenize", "qwen3-tiny", "x", "--system", "y"], 2, "--chat"),
    ];
    for (args, code, words) in cases {
        let run = run_in(&testdata(), args);
        assert_eq!(run.code, code, "{args:?}\n{}", run.err);
        assert!(run.err.contains(words) && !run.err.contains("panicked"), "{args:?}\n{}", run.err);
    }
}

#[test]
fn a_pipe_gets_the_exact_text_and_a_terminal_a_safe_one() {
    let text = "a\tb\r\nc\x0bd\x1b[31m";
    let ids = run_in(&testdata(), &["tokenize", "qwen3-tiny", text, "--ids-only"]);
    assert_eq!(ids.code, 0, "{}", ids.err);
    let mut args = vec!["detokenize", "qwen3-tiny"];
    args.extend(ids.out.split_whitespace());
    assert_eq!(run_in(&testdata(), &args).out, text);
    let Some(mut command) = common::on_terminal(&args) else { return };
    let shown = common::finished(command.current_dir(testdata()).output().unwrap());
    assert!(shown.out.starts_with("a\\x09b\\x0d\r\nc\\x0bd\\x1b[31m"), "{:?}", shown.out);
}

#[test]
fn ids_are_read_alike_everywhere() {
    let lists = ["40,41,42", "40 41 42", "[40, 41, 42]"];
    let of = |args: &[&str]| {
        let run = run_in(&testdata(), args);
        assert_eq!(run.code, 0, "{args:?} {}", run.err);
        run.out
    };
    let text = of(&["detokenize", "qwen3-tiny", "40", "41", "42"]);
    let logits = of(&["logits", "qwen3-tiny", "--ids", "40", "--ids", "41,42"]);
    for list in lists {
        assert_eq!(of(&["detokenize", "qwen3-tiny", list]), text);
        assert_eq!(of(&["logits", "qwen3-tiny", "--ids", list]), logits);
        of(&["trace", "qwen3-tiny", "--ids", list, "--against", "kernel:scalar"]);
    }
    assert_eq!(of(&["detokenize", "qwen3-tiny", "[40,", "41,", "42]"]), text);
    for args in [&["logits", "qwen3-tiny", "--ids", "1,-2"][..], &["detokenize", "qwen3-tiny", "1", "-2"]] {
        let run = run_in(&testdata(), args);
        assert!(run.code == 2 && run.err.contains("number 1 of it is \"-2\""), "{args:?} {}", run.err);
    }
}
