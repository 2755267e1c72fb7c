//! What reports of files of very many tensors take: memory follows the number of tensors slowly, and not what is written.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

mod common;

use common::{Tensor, safetensors};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

/// Tensors of each file: enough that what each takes is nearly all that there is.
const TENSORS: usize = 20_000;

/// Half of them are experts, which are alike; of the others each is a kind of its own.
fn many(at: &Path, name: &str, times: f32) {
    let tensor = |i: usize| {
        let name = match i % 2 {
            0 => format!("model.layers.{}.mlp.experts.{}.up_proj.weight", i / 800, i / 2 % 400),
            _ => {
                let letters = (0..5u32).map(|n| char::from(b'a' + (i / 10usize.pow(n) % 10) as u8));
                format!("a_name_that_no_model_has.{}.weight", letters.collect::<String>())
            }
        };
        let values = (0..64).map(|n| ((i * 7 + n * 13) % 101) as f32 * times);
        Tensor { name, shape: vec![8, 8], bytes: values.flat_map(f32::to_le_bytes).collect() }
    };
    let tensors: Vec<Tensor> = (0..TENSORS).map(tensor).collect();
    std::fs::write(at.join(name), safetensors(&tensors, "{}")).unwrap();
}

/// Bytes of its own that a run had at most, without what it has mapped of files.
fn most_of(folder: &Path, args: &[&str]) -> u64 {
    let out = File::create(folder.join("out")).unwrap();
    let mut command = common::program();
    // Each thread more has room of its own to work in.
    command.current_dir(folder).args(args).env("RAYON_NUM_THREADS", "2");
    let mut child = command.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let anonymous = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let anonymous = anonymous.and_then(|n| n.trim().strip_suffix(" kB")?.parse().ok());
        most = most.max(1024 * anonymous.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let written = std::fs::metadata(folder.join("out")).unwrap().len();
    assert!(written > 100 && most > 0, "{args:?} wrote {written} bytes");
    most
}

#[test]
fn memory_does_not_follow_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    many(at, "a.safetensors", 1.0);
    many(at, "b.safetensors", 2.0);
    // Bytes for each tensor: what is known of it, and of a comparison what is known of both and of the pair.
    let runs: [(&[&str], u64); 12] = [
        (&["inspect", "a.safetensors"], 1300),
        (&["inspect", "a.safetensors", "--json"], 1300),
        (&["inspect", "a.safetensors", "--html", "page"], 1300),
        (&["stats", "a.safetensors"], 2300),
        (&["stats", "a.safetensors", "--json", "--histogram"], 3000),
        (&["stats", "a.safetensors", "--format", "csv"], 2300),
        (&["stats", "a.safetensors", "--html", "page"], 3400),
        (&["hash", "a.safetensors", "--json"], 1600),
        (&["hash", "a.safetensors", "--semantic"], 1600),
        (&["diff", "a.safetensors", "a.safetensors", "--tensors"], 4400),
        (&["diff", "a.safetensors", "b.safetensors", "--json"], 4400),
        (&["diff", "a.safetensors", "b.safetensors", "--html", "page"], 4400),
    ];
    for (args, each) in runs {
        let most = most_of(at, args);
        let allowed = each * TENSORS as u64;
        assert!(most <= allowed, "{args:?} took {most} bytes of its own, {allowed} at most");
    }
}
