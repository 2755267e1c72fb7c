//! Inputs that were caught once, and the seeds: none may be caught again.

use scantling_fuzz::targets::{TARGETS, Target};
use std::fs;
use std::path::Path;

/// The target that a file is named after: `gguf-0123.bin`.
fn target_of(name: &str) -> Option<&'static Target> {
    let (target, _) = name.split_once('-')?;
    scantling_fuzz::targets::target(target)
}

#[test]
fn every_regression_runs_through_its_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".bin") {
            let target = target_of(&name).unwrap_or_else(|| panic!("{name} is named after no target"));
            (target.run)(&fs::read(&path).unwrap());
        }
    }
}

#[test]
fn every_seed_runs_through_every_target() {
    for from in &TARGETS {
        let seeds = (from.seeds)();
        assert!(seeds.len() > 4, "{}", from.name);
        for target in &TARGETS {
            seeds.iter().for_each(|seed| drop((target.run)(seed)));
        }
    }
}

/// Some seeds have faults on purpose, but none may be so wrong that mutation would begin from a refusal.
#[test]
fn no_seed_is_refused() {
    let names = [("safetensors", "model.safetensors"), ("gguf", "model.gguf"), ("gguf_model", "model.gguf")];
    for (target, name) in names {
        let seeds = (scantling_fuzz::targets::target(target).unwrap().seeds)();
        for (i, seed) in seeds.into_iter().enumerate() {
            let files = [(name.to_owned(), seed)];
            let bundle = scantling_core::bundle::Bundle::in_memory(name, files).unwrap();
            if let Err(e) = scantling_fuzz::targets::registry().open_bundle(&bundle) {
                panic!("seed {i} of {target}: {e}");
            }
        }
    }
}
