//! `show`: bytes as files have them, whatever order they are in and whatever they are part of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;

use common::{folder, run_in, valid};
use models::testdata;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A big-endian GGUF file with two tensors: 32 floats, 0.5 each further than the last, and a block of Q8_0 with the scale
/// 0.25 and the codes -16 to 15. Where the data begins comes with it.
fn big_endian() -> (Vec<u8>, usize) {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_be_bytes());
        out.extend(text.bytes());
    };
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_be_bytes());
    out.extend(2u64.to_be_bytes());
    out.extend(1u64.to_be_bytes());
    text(&mut out, "general.architecture");
    out.extend(8u32.to_be_bytes());
    text(&mut out, "nonesuch");
    for (name, kind, offset) in [("floats", 0u32, 0u64), ("block", 8, 128)] {
        text(&mut out, name);
        out.extend(1u32.to_be_bytes());
        out.extend(32u64.to_be_bytes());
        out.extend(kind.to_be_bytes());
        out.extend(offset.to_be_bytes());
    }
    out.resize(out.len().next_multiple_of(32), 0);
    let start = out.len();
    for i in 0..32u8 {
        out.extend((f32::from(i) * 0.5).to_be_bytes());
    }
    // 0.25 as f16.
    out.extend(0x3400u16.to_be_bytes());
    out.extend((-16i8..16).map(|code| code.to_be_bytes()[0]));
    out.resize(out.len().next_multiple_of(32), 0);
    (out, start)
}

/// The bytes of a document, which have to follow each other from an offset on.
fn bytes(document: &Value, from: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for line in document["bytes"].as_array().unwrap() {
        assert_eq!(line["offset"], from + all.len());
        let hex = line["hex"].as_str().unwrap();
        all.extend((0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()));
    }
    all
}

#[test]
fn bytes_of_a_big_endian_file_are_its_own() {
    let folder = folder();
    let at = folder.path();
    let (file, start) = big_endian();
    fs::write(at.join("be.gguf"), &file).unwrap();
    for (name, from, len) in [("floats", start, 128), ("block", start + 128, 34)] {
        let document = valid(&run_in(at, &["show", "be.gguf", name, "--hex", "--json", "--raw", "raw"]));
        assert_eq!(document["byte_order"], "big");
        assert_eq!(bytes(&document, from), &file[from..from + len], "{name}");
        assert_eq!(fs::read(at.join("raw")).unwrap(), &file[from..from + len], "{name}");
    }
    let run = run_in(at, &["show", "be.gguf", "floats[1]", "--hex"]);
    assert!(run.out.contains("3f 00 00 00") && run.out.contains("F32 [32]  big-endian\n"), "{}", run.out);
    let document = valid(&run_in(at, &["show", "be.gguf", "floats[1:4]", "--json"]));
    assert_eq!(document["values"], serde_json::json!([[0.5, 1.0, 1.5]]));

    let run = run_in(at, &["show", "be.gguf", "block", "--block", "0"]);
    assert!(
        run.out.contains("big-endian, turned into little-endian here") && run.out.contains("00 34"),
        "{}",
        run.out
    );
    let document = valid(&run_in(at, &["show", "be.gguf", "block", "--block", "0", "--json"]));
    assert_eq!(
        (&document["byte_order"], &document["block"]["elements"][31]),
        (&Value::from("big"), &Value::from(3.75))
    );
    let document = valid(&run_in(at, &["show", "good", "model.norm.weight", "--json"]));
    assert_eq!(document["byte_order"], "little");
}

/// The bytes of a tensor in a safetensors file, and where they begin.
fn stored(path: &Path, name: &str) -> (Vec<u8>, usize) {
    let file = fs::read(path).unwrap();
    let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&file[8..8 + len]).unwrap();
    let at = |i: usize| 8 + len + header[name]["data_offsets"][i].as_u64().unwrap() as usize;
    (file[at(0)..at(1)].to_vec(), at(0))
}

#[test]
fn a_part_that_has_the_name_of_the_whole_has_its_bytes() {
    let folder = folder();
    for packed in ["packed/fp8_tensor_inv", "packed/bnb_nf4"] {
        let model = testdata(packed);
        let name = "model.layers.0.self_attn.q_proj.weight";
        let (wanted, from) = stored(&model.join("model.safetensors"), name);
        let model = model.to_str().unwrap();
        let run = run_in(folder.path(), &["show", model, name, "--hex", "--raw", "raw", "--json"]);
        assert_eq!(run.code, 0, "{packed}: {}", run.err);
        let document = valid(&run);
        assert_eq!(bytes(&document, from), wanted, "{packed}");
        assert_eq!(fs::read(folder.path().join("raw")).unwrap(), wanted, "{packed}");
        assert!(document["notes"][0].as_str().unwrap().contains("stored tensors of a matrix"), "{document}");
        // The numbers are those of the matrix, as before.
        let run = run_in(folder.path(), &["show", model, name]);
        assert!(run.code == 0 && run.out.contains("make up together"), "{}", run.out);
    }
    // Without one nothing is shown or written.
    let model = testdata("packed/gptq_act_order");
    let name = "model.layers.0.mlp.down_proj.weight";
    for args in [&["--hex"][..], &["--raw", "none"], &["--raw", "none", "--npy", "nothing"]] {
        let run = run_in(folder.path(), &[&["show", model.to_str().unwrap(), name], args].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.out);
        assert!(run.err.contains("has no bytes of its own"), "{}", run.err);
    }
    assert!(!folder.path().join("none").exists() && !folder.path().join("nothing").exists());
}

#[test]
fn what_would_be_written_wrongly_is_refused() {
    let folder = folder();
    let at = folder.path();
    let file = testdata("qwen3-q4_k_m.gguf");
    let file = file.to_str().unwrap();
    for args in [["--raw", "f"], ["--npy", "f"]] {
        let run = run_in(at, &[&["show", file, "blk.0.attn_q.weight", "--block", "0"], &args[..]].concat());
        assert!(run.code == 2 && run.err.contains("--block"), "{}", run.err);
    }
    for (raw, npy) in [("f", "f"), ("f", "./f"), ("f", "good/../f")] {
        let run = run_in(at, &["show", file, "blk.0.attn_q.weight", "--raw", raw, "--npy", npy]);
        assert!(run.code == 2 && run.err.contains("would write to one file"), "{npy}: {}", run.err);
    }
    assert!(!at.join("f").exists());
    let run = run_in(at, &["show", file, "blk.0.attn_q.weight", "--raw", "f", "--npy", "g"]);
    assert_eq!(run.code, 0, "{}", run.err);
    // A range has no block 0 of its own.
    let run = run_in(at, &["show", file, "blk.0.attn_q.weight[2]", "--block", "0"]);
    assert!(
        run.code == 2 && run.out.is_empty() && run.err.contains("leave the ranges away"),
        "{}{}",
        run.out,
        run.err
    );
}
