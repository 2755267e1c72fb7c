//! Rules of the house that can be told from the text of the tree. What each is for stands in ARCHITECTURE.md.
#![allow(clippy::disallowed_methods)] // it is the tree that these tests read

use scantling_cli as _;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["core", "formats", "kernels", "architectures", "cli"];
/// Files that may hold unsafe code.
const UNSAFE: [&str; 2] = ["core/src/bundle.rs", "core/src/matrix.rs"];
/// Files that may be long: tables of numbers.
const LONG: [&str; 1] = ["core/src/quant/codebooks.rs"];
const LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file of a folder with its path from the root.
fn rust_files(folders: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut open: Vec<PathBuf> = folders.iter().map(|f| root.join(f)).collect();
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Names in the tables of dependencies of a manifest.
fn dependencies(manifest: &str, development: bool) -> Vec<String> {
    let text = fs::read_to_string(root().join(manifest)).unwrap();
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            let table = line.trim_matches(['[', ']']);
            inside = table.ends_with("dependencies") && (development || table != "dev-dependencies");
        } else if inside
            && let Some((name, _)) = line.split_once(['.', ' ', '='])
            && !name.is_empty()
            && !name.starts_with('#')
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// A line without its comment, good enough for what is looked for here.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

#[track_caller]
fn none(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

#[test]
fn crates_point_one_way() {
    let plugins = ["scantling-formats", "scantling-kernels", "scantling-architectures"];
    let mut breaches = Vec::new();
    for name in ["core", "formats", "kernels", "architectures"] {
        let own = format!("scantling-{name}");
        // The tests of the architectures run models, which come from files and are computed by kernels.
        let all = dependencies(&format!("{name}/Cargo.toml"), name != "architectures");
        let wrong =
            all.into_iter().filter(|d| *d != own && (plugins.contains(&d.as_str()) || d == "scantling-cli"));
        breaches.extend(wrong.map(|d| format!("{name} depends on {d}")));
    }
    for (file, text) in rust_files(&["core"]) {
        let named = |p: &str| text.lines().any(|l| code(l).contains(&p.replace('-', "_")));
        breaches.extend(plugins.iter().filter(|p| named(p)).map(|p| format!("{file} names {p}")));
    }
    none("core names no plugin crate, a plugin crate no other and not cli", &breaches);
}

#[test]
fn one_reader_of_inventory() {
    let readers = rust_files(&CRATES).into_iter().filter(|(name, text)| {
        name != "core/src/registry.rs"
            && !name.starts_with("cli/tests/tidy")
            && text.lines().any(|l| code(l).contains("inventory::iter"))
    });
    let breaches: Vec<String> = readers.map(|(name, _)| name).collect();
    none("only core/src/registry.rs iterates over what was submitted", &breaches);
}

#[test]
fn one_list_of_plugin_crates() {
    let mut breaches = Vec::new();
    for (file, text) in rust_files(&["cli/src"]) {
        let names = |l: &str| {
            ["scantling_formats", "scantling_kernels", "scantling_architectures"]
                .iter()
                .any(|p| code(l).contains(p))
        };
        if file != "cli/src/plugins.rs" && text.lines().any(names) {
            breaches.push(file);
        }
    }
    none("only cli/src/plugins.rs names plugin crates", &breaches);
}

#[test]
fn unsafe_stays_where_it_is() {
    let mut breaches = Vec::new();
    for (file, text) in rust_files(&CRATES) {
        let allowed = UNSAFE.contains(&file.as_str())
            // Among the tests of kernels one counts what is allocated.
            || file.starts_with("kernels/")
            || file.starts_with("cli/tests/tidy");
        let holds =
            |l: &str| code(l).split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe");
        if !allowed && text.lines().any(holds) {
            breaches.push(file);
        }
    }
    for name in ["formats", "architectures", "cli"] {
        let text = fs::read_to_string(root().join(name).join("src/lib.rs")).unwrap();
        if !text.contains("#![forbid(unsafe_code)]") {
            breaches.push(format!("{name}/src/lib.rs does not forbid it"));
        }
    }
    let core = fs::read_to_string(root().join("core/src/lib.rs")).unwrap();
    if !core.contains("#![deny(unsafe_code)]") {
        breaches.push("core/src/lib.rs does not deny it".into());
    }
    none("unsafe code only where it may be", &breaches);
}

#[test]
fn core_serialises_nothing() {
    let derives =
        |text: &str| text.lines().any(|l| code(l).contains("derive(") && code(l).contains("Serialize"));
    let files = rust_files(&["core/src"]).into_iter().filter(|(_, text)| derives(text));
    let breaches: Vec<String> = files.map(|(name, _)| name).collect();
    none("reports are plain data: only cli turns them into text", &breaches);
}

#[test]
fn core_neither_prints_nor_exits_nor_reads_the_environment() {
    let words = ["println!", "print!", "eprint", "process::exit", "env::var", "dbg!"];
    let mut breaches = Vec::new();
    let files = rust_files(&["core/src", "formats/src", "kernels/src", "architectures/src"]);
    for (file, text) in files.into_iter().filter(|(file, _)| !file.ends_with("/tests.rs")) {
        let lines = text.lines().filter(|l| words.iter().any(|w| code(l).contains(w)));
        breaches.extend(lines.map(|l| format!("{file}: {}", l.trim())));
    }
    none("a library does not talk to the user", &breaches);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = rust_files(&CRATES).into_iter().filter(|(_, text)| !text.starts_with("//!"));
    let breaches: Vec<String> = silent.map(|(name, _)| name).collect();
    none("a file begins with //!", &breaches);
}

#[test]
fn no_file_is_too_long() {
    let mut breaches = Vec::new();
    for (file, text) in rust_files(&CRATES) {
        let lines = text.lines().count();
        if lines > LINES && !LONG.contains(&file.as_str()) {
            breaches.push(format!("{file}: {lines} lines"));
        }
    }
    none("a file has at most 600 lines", &breaches);
}

#[test]
fn every_dependency_has_its_reason() {
    let Ok(text) = fs::read_to_string(root().join("ARCHITECTURE.md")) else {
        println!("skipped: there is no ARCHITECTURE.md");
        return;
    };
    let mut breaches = Vec::new();
    for name in CRATES {
        // The tests of the architectures run models, which come from files and are computed by kernels.
        let all = dependencies(&format!("{name}/Cargo.toml"), name != "architectures");
        let named = |d: &String| d.starts_with("scantling-") || names(&text, d);
        breaches.extend(all.into_iter().filter(|d| !named(d)).map(|d| format!("{name}: {d}")));
    }
    none("ARCHITECTURE.md gives a reason for every dependency", &breaches);
}

/// Whether a text holds a crate's name as a word.
fn names(text: &str, dependency: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(|w| w == dependency)
}

/// Files that name tokenizers, of which some are called like families.
const TOKENIZERS: [&str; 4] = [
    "core/src/tokenizer/",
    "core/src/vocabulary_names.rs",
    "core/src/check/tokenizer.rs",
    "core/src/memory/vocabulary.rs",
];

/// The code of a file without its unit tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

#[test]
fn families_are_named_in_their_files_alone() {
    let registry = scantling_core::registry::Registry::linked().unwrap();
    let plugins = registry.architectures().iter();
    let words: Vec<String> = plugins
        .flat_map(|p| [&[p.name], p.model_types, p.classes, p.gguf].concat())
        .map(|word| format!("\"{word}\""))
        .collect();
    let mut breaches = Vec::new();
    for (file, text) in rust_files(&["core/src", "formats/src", "kernels/src", "cli/src"]) {
        if TOKENIZERS.iter().any(|t| file.starts_with(t)) || file.ends_with("/tests.rs") {
            continue;
        }
        for line in without_tests(&text).lines() {
            let named = words.iter().filter(|word| code(line).contains(word.as_str()));
            breaches.extend(named.map(|word| format!("{file} names {word}: {}", line.trim())));
        }
    }
    none("a family is known to its own file only", &breaches);
}

/// Families with the lines of their files, tests apart, as the documentation shows them.
fn lines_of_families() -> Vec<(String, usize)> {
    let files = rust_files(&["architectures/src"]).into_iter().filter(|(name, _)| !name.ends_with("/lib.rs"));
    files.map(|(name, text)| (name, without_tests(&text).trim_end().lines().count())).collect()
}

#[test]
fn a_family_is_one_short_file() {
    let all = lines_of_families();
    let long = all.iter().filter(|(_, lines)| *lines > 200);
    none("a family has at most 200 lines", &long.map(|(name, n)| format!("{name}: {n}")).collect::<Vec<_>>());

    let row = |(name, lines): &(String, usize)| {
        let file = name.rsplit('/').next().unwrap();
        format!("| [`{file}`](../{name}) | {lines} |\n")
    };
    let table: String = all.iter().map(row).collect();
    let path = root().join("docs/adding-an-architecture.md");
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find("| file | lines |\n|---|---|\n").unwrap() + "| file | lines |\n|---|---|\n".len();
    let end = start + text[start..].find("\n\n").unwrap() + 1;
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(&text[start..end], table, "UPDATE=1 writes the table anew");
    }
}
