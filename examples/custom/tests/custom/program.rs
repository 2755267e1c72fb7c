//! The plugins by way of the program, as a person meets them: what is printed, and the exit code.

use crate::model::{self, Named, tensors, toytensors};
use std::process::{Command, Output};

fn custom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_custom")).args(arguments).output().unwrap()
}

/// Runs a command on a model with these weights; what it printed, and its exit code.
fn on_model(command: &str, name: &str, weights: &[u8]) -> (String, i32) {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path(), name, weights);
    let output = custom(&[command, folder.path().to_str().unwrap()]);
    let printed = [output.stdout, output.stderr].concat();
    (String::from_utf8(printed).unwrap(), output.status.code().unwrap())
}

#[test]
fn plugins_lists_all_beside_the_programs_own() {
    let output = custom(&["plugins"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    for name in ["toytensors", "toymlp", "widedot", "safetensors", "gguf", "qwen3", "scalar"] {
        assert!(printed.contains(name), "{name} is not in\n{printed}");
    }
}

#[test]
fn the_code_of_the_format_is_explained() {
    let output = custom(&["explain", "toytensors-header"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("ends in the middle of an entry"));
}

#[test]
fn a_good_model_is_clean_in_every_format() {
    for (name, weights) in model::in_every_format(&tensors()) {
        for command in ["check", "inspect"] {
            let (printed, code) = on_model(command, name, &weights);
            assert_eq!(code, 0, "{command} {name}\n{printed}");
        }
        let (printed, _) = on_model("inspect", name, &weights);
        assert!(printed.contains("all 6 expected tensors present"), "{name}\n{printed}");
    }
}

#[test]
fn a_missing_tensor_is_named() {
    let rest: Vec<Named> = tensors().into_iter().filter(|(name, _)| name != "layers.1.down.weight").collect();
    for (name, weights) in model::in_every_format(&rest) {
        let (printed, code) = on_model("check", name, &weights);
        let missing = if name == "model.gguf" { "blk.1.ffn_down.weight" } else { "layers.1.down.weight" };
        assert_eq!(code, 1, "{name}\n{printed}");
        assert!(printed.contains(missing), "{name}\n{printed}");
    }
}

#[test]
fn a_cut_file_names_the_tensor_that_was_cut() {
    let whole = toytensors(&tensors());
    let (printed, code) = on_model("check", "model.toytensors", &whole[..whole.len() - 3]);
    assert_eq!(code, 1, "{printed}");
    assert!(printed.contains("head.weight"), "{printed}");
}

#[test]
fn a_cut_header_leaves_nothing_to_list() {
    let (printed, code) = on_model("check", "model.toytensors", &toytensors(&tensors())[..40]);
    assert_eq!(code, 3, "{printed}");
    assert!(printed.contains("model.toytensors at byte"), "{printed}");
}
