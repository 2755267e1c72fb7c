//! The exact plugins that a build carries: a linker that drops one makes this fail, in any profile.

#![allow(clippy::disallowed_methods)] // Tests are told where to look by the environment.

use scantling_cli as _;
use scantling_core::registry::Registry;

#[test]
fn every_plugin_is_here() {
    let registry = Registry::linked().unwrap();
    let formats: Vec<&str> = registry.formats().iter().map(|p| p.name).collect();
    let architectures: Vec<&str> = registry.architectures().iter().map(|p| p.name).collect();
    let kernels: Vec<&str> = registry.kernels().iter().map(|p| p.name).collect();
    assert_eq!(formats, ["gguf", "safetensors"]);
    // A file is a family.
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../architectures/src");
    let files = std::fs::read_dir(sources).unwrap().map(|f| f.unwrap().path());
    let mut families: Vec<String> =
        files.map(|f| f.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    families.retain(|name| name != "lib");
    families.sort();
    assert_eq!(architectures, families);
    assert!(families.len() >= 17, "{families:?}");
    assert_eq!(
        kernels,
        [
            "avx2",
            "avx2-int8",
            "avx512",
            "avx512-int8",
            "neon",
            "neon-int8",
            "profile",
            "rayon",
            "scalar",
            "verify"
        ]
    );
}

#[test]
fn every_code_is_explained() {
    let registry = Registry::linked().unwrap();
    assert!(registry.codes().len() > 40);
    for code in registry.codes() {
        let kebab = code.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(kebab && !code.id.is_empty(), "{}", code.id);
        assert!(!code.title.is_empty() && !code.title.ends_with('.'), "{}: {}", code.id, code.title);
        assert!(code.explain.len() > 40 && code.explain.ends_with('.'), "{}: {}", code.id, code.explain);
        assert!(
            !code.explain.contains("  ") && !code.explain.contains('\n'),
            "{}: {}",
            code.id,
            code.explain
        );
    }
}

/// Linkers differ in what they drop, and a release build drops most: `SCANTLING_RELEASE_BIN` names one to look at.
#[test]
fn a_release_build_carries_the_same() {
    let Some(binary) = std::env::var_os("SCANTLING_RELEASE_BIN") else {
        eprintln!("skipped: SCANTLING_RELEASE_BIN is not set (plugins of a release build)");
        return;
    };
    let plugins = |binary: &std::ffi::OsStr| {
        std::process::Command::new(binary).args(["plugins", "--json"]).output().unwrap().stdout
    };
    let here = plugins(env!("CARGO_BIN_EXE_scantling").as_ref());
    assert!(!here.is_empty());
    assert_eq!(String::from_utf8(plugins(&binary)).unwrap(), String::from_utf8(here).unwrap());
}
