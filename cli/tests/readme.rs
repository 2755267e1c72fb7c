//! The README's outputs are what the program prints, and its library example is the one that is compiled.
//! `UPDATE=1 cargo test -p scantling-cli --test readme` writes them anew.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// What a command line of the README prints, run from the repository's root.
fn run(line: &str) -> String {
    let words = line.strip_prefix("$ scantling ").expect("every console block begins with a command");
    let run = Command::new(env!("CARGO_BIN_EXE_scantling"))
        .args(words.split_whitespace())
        .current_dir(root())
        .env_remove("SCANTLING_WIDTH")
        .output()
        .unwrap();
    String::from_utf8(run.stdout).unwrap()
}

/// The text with the output of every `console` block made anew.
fn replayed(text: &str) -> String {
    const OPEN: &str = "```console\n";
    let mut parts = text.split(OPEN);
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (block, rest) = part.split_once("```\n").expect("a console block ends");
        let command = block.lines().next().unwrap();
        out += &format!("{OPEN}{command}\n{}```\n{rest}", run(command));
    }
    out
}

#[test]
fn outputs_are_true() {
    let file = root().join("README.md");
    let text = fs::read_to_string(&file).unwrap();
    let now = replayed(&text);
    assert!(text.matches("```console").count() >= 3, "the README shows three outputs");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, now).unwrap();
    } else {
        snapbox::assert_data_eq!(text, now);
    }
}

#[test]
fn the_library_example_is_the_compiled_one() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let example = fs::read_to_string(root().join("cli/examples/check-model.rs")).unwrap();
    let code = &example[example.find("use scantling_core").unwrap()..];
    assert!(
        text.contains(&format!("```rust\n{code}```\n")),
        "README.md and cli/examples/check-model.rs differ"
    );
}
