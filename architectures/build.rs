//! Finds the families: every file in `src` but `lib.rs` is one, so that adding one is adding a file. A family's plugin
//! is a constant with the name of its file in capitals.

#![allow(clippy::disallowed_methods, reason = "it runs when the crate is built, as part of no program")]

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the package is"));
    let files = fs::read_dir(here.join("src")).expect("the sources are there").flatten().map(|f| f.path());
    let mut families: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("lib.rs"))
        .collect();
    families.sort();
    let mut text = String::new();
    for path in &families {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a family's name is plain text");
        let constant = name.to_uppercase();
        text.push_str(&format!("#[path = {path:?}]\nmod {name};\npub use {name}::{constant};\n"));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    fs::write(out.join("families.rs"), text).expect("the folder for what is made can be written to");
}
