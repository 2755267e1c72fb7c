//! The README's outputs are what the program prints, and its library example is the one that is compiled.
//! `UPDATE=1 cargo test -p scantling-cli --test readme` writes them anew; those of models that are not in the repository
//! where `SCANTLING_MODELS` has them.

#![allow(clippy::disallowed_methods)] // Tests read their own files.
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Where a command line of the README is run: the repository's root, or the folder of models where it is about one of
/// those; `None` if nobody has it here.
fn place(words: &[&str]) -> Option<PathBuf> {
    if words.first() != Some(&"generate") || root().join(words[1]).exists() {
        return Some(root());
    }
    let models = std::env::var_os("SCANTLING_MODELS").map(PathBuf::from);
    let models = models.filter(|folder| folder.join(words[1]).exists());
    if models.is_none() {
        println!("skipped: SCANTLING_MODELS has no {}", words[1]);
    }
    models
}

/// What a command prints, given this on standard input.
fn run(place: &Path, words: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scantling"));
    command.args(words).current_dir(place).env_remove("SCANTLING_WIDTH");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // One that asks for nothing may be over by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A block with its output made anew: a command, behind it what it prints; where lines begin with `> ` these are typed,
/// and behind each is what it adds to the output.
fn block(text: &str) -> String {
    let command = text.lines().next().unwrap();
    let line = command.strip_prefix("$ scantling ").expect("every console block begins with a command");
    // Every second piece between quotes is one word, whatever is in it.
    let words = line.split('\'').enumerate();
    let words =
        words.flat_map(|(i, part)| if i % 2 == 1 { vec![part] } else { part.split_whitespace().collect() });
    let words: Vec<&str> = words.collect();
    let Some(place) = place(&words) else { return text.to_owned() };
    let typed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    if typed.is_empty() {
        return held(text, format!("{command}\n{}", run(&place, &words, "")));
    }
    let (mut out, mut before) = (format!("{command}\n"), String::new());
    for turn in 1..=typed.len() {
        let now = run(&place, &words, &typed[..turn].join("\n"));
        let more = now.strip_prefix(&before).expect("what was said before is said again");
        assert!(!more.lines().any(|line| line.starts_with("> ")), "{more}");
        out += &format!("> {}\n{more}", typed[turn - 1]);
        before = now;
    }
    out
}

/// What a block shows, if it is what there is but for lines left out where it says `…`; else all there is.
fn held(shown: &str, all: String) -> String {
    let mut rest = all.as_str();
    for (i, part) in shown.split("…\n").enumerate() {
        match rest.find(part) {
            Some(at) if i > 0 || at == 0 => rest = &rest[at + part.len()..],
            _ => return all,
        }
    }
    if rest.is_empty() || shown.ends_with("…\n") { shown.to_owned() } else { all }
}

/// The text with the output of every `console` block made anew.
fn replayed(text: &str) -> String {
    const OPEN: &str = "```console\n";
    let mut parts = text.split(OPEN);
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once("```\n").expect("a console block ends");
        out += &format!("{OPEN}{}```\n{rest}", block(inside));
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
