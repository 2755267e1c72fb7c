//! `show`: ranges, names of either world, bytes, files for other programs.
#![allow(clippy::disallowed_methods)] // tests write and read the files they look at

mod common;
mod models;

use common::{CONFIG, Run, Tensor, folder, model, qwen3, run_in, safetensors, valid};
use models::testdata;
use serde_json::Value;
use snapbox::{assert_data_eq, str};
use std::path::Path;

fn show(model: &Path, args: &[&str]) -> Run {
    let folder = model.parent().unwrap();
    run_in(folder, &[&["show", model.to_str().unwrap()], args].concat())
}

/// The numbers of a document, whatever pieces they come in.
fn flat(document: &Value) -> Vec<f64> {
    let pieces = document["values"].as_array().unwrap().iter();
    pieces.flat_map(|piece| piece.as_array().unwrap()).map(number).collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::String(word) => word.parse().unwrap(),
        number => number.as_f64().unwrap(),
    }
}

fn values(model: &Path, tensor: &str) -> Vec<f64> {
    let run = show(model, &[tensor, "--json"]);
    assert_eq!(run.code, 0, "{tensor}\n{}", run.err);
    flat(&valid(&run))
}

#[test]
fn numbers_with_their_place() {
    let folder = folder();
    let run = run_in(folder.path(), &["show", "good", "model.embed_tokens.weight[1:3, -2:]"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    // Element i of the test's tensors is 7 i and the sum of the bytes of its name, which is 2533.
    assert_data_eq!(
        run.out,
        str![[r#"
model.embed_tokens.weight  F32 [16, 8]
  in model.safetensors at byte [..] ([..]), 512 bytes
  taken: [2, 2], the first at byte [..] ([..])

[[2631.0 2638.0]
 [2687.0 2694.0]]

4 of 128 numbers shown; nothing else of the model was looked at

"#]]
    );
    let document =
        valid(&run_in(folder.path(), &["show", "good", "model.embed_tokens.weight[1:3, -2:]", "--json"]));
    assert_eq!(flat(&document), [2631., 2638., 2687., 2694.]);
    let (at, first) =
        (document["tensor"]["offset"].as_u64().unwrap(), document["first_offset"].as_u64().unwrap());
    assert_eq!(first - at, 4 * (8 + 6));
    let bytes = std::fs::read(folder.path().join("good/model.safetensors")).unwrap();
    let stored = f32::from_le_bytes(bytes[first as usize..][..4].try_into().unwrap());
    assert_eq!(stored, 2631.0);
}

#[test]
fn long_axes_are_cut_unless_full() {
    let folder = folder();
    model(folder.path(), "long", &[Tensor::new("t", &[3, 40, 50]), Tensor::new("scalar", &[])], None);
    let at = |args: &[&str]| run_in(folder.path(), &[&["show", "long"], args].concat());
    let run = at(&["t"]);
    assert!(run.out.contains("...") && run.out.contains("108 of 6,000 numbers shown; --full"), "{}", run.out);
    assert!(!run.out.contains("[[[\n") && run.out.contains("\n\n [["), "{}", run.out);
    let run = at(&["t", "--full"]);
    assert!(!run.out.contains("...") && run.out.contains("6,000 of 6,000 numbers shown;"), "{}", run.out);
    let shown = run.out.split("[[[").nth(1).unwrap().split("]]]").next().unwrap();
    let all: Vec<f32> = shown.split(['[', ']', ' ', '\n']).filter_map(|word| word.parse().ok()).collect();
    assert_eq!(all, (0..6000).map(|i| (i * 7 + 116) as f32).collect::<Vec<_>>());
    let run = at(&["t[1, 1, 1]"]);
    assert!(run.out.contains(&format!("\n{}.0\n", (2000 + 50 + 1) * 7 + 116)), "{}", run.out);
    let run = at(&["scalar"]);
    assert_eq!(run.code, 0);
    assert!(run.out.contains("1 of 1 numbers shown"), "{}", run.out);
    for width in ["40", "200"] {
        let run = at(&["t", "--width", width]);
        let numbers = run.out.lines().filter(|line| line.contains('['));
        assert!(numbers.skip(1).all(|line| line.len() <= width.parse().unwrap()), "{}", run.out);
    }
}

#[test]
fn names_may_hold_brackets() {
    let folder = folder();
    let tensors = ["w", "w[0]", "w[0][1]", "a[b"].map(|name| Tensor::new(name, &[2, 3]));
    model(folder.path(), "odd", &tensors, None);
    let at = folder.path().join("odd");
    let first = |name: &str| name.bytes().map(f64::from).sum::<f64>();
    assert_eq!(values(&at, "w[0]"), (0..6).map(|i| f64::from(i * 7) + first("w[0]")).collect::<Vec<_>>());
    assert_eq!(values(&at, "w[0][0, 1]"), [7.0 + first("w[0]")]);
    assert_eq!(values(&at, "w[0][1]")[0], first("w[0][1]"));
    assert_eq!(values(&at, "w[1, 0]"), [21.0 + first("w")]);
    assert_eq!(values(&at, "a[b[1, 2]"), [35.0 + first("a[b")]);
}

#[test]
fn what_does_not_fit_is_told() {
    let folder = folder();
    let told = |args: &[&str]| {
        let run = run_in(folder.path(), &[&["show", "good"], args].concat());
        assert_eq!(run.code, 2, "{args:?}\n{}", run.out);
        run.err
    };
    assert!(told(&["model.norm.weight[8]"]).contains("axis 0 has the length 8, the shape is [8]"));
    assert!(told(&["model.norm.weight[0, 0]"]).contains("it has 1 axis"));
    assert!(told(&["model.nrm.weight"]).contains("did you mean model.norm.weight"));
    assert!(told(&["model.nrm.weight[0]"]).contains("did you mean model.norm.weight"));
    assert!(told(&["up_proj"]).contains("model.layers.0.mlp.up_proj.weight"));
    assert!(told(&["zzzzzzzz"]).contains("inspect --tensors"));
    assert!(told(&["model.norm.weight", "--block", "0"]).contains("F32 has none"));
    assert!(told(&["model.norm.weight", "--block", "x"]).contains("ROW,I"));
    assert_eq!(run_in(folder.path(), &["show", "absent", "x"]).code, 3);
}

#[test]
fn one_element_is_told_by_its_place() {
    let folder = folder();
    let at = |args: &[&str]| run_in(folder.path(), &[&["show", "good"], args].concat());
    let run = at(&["model.embed_tokens.weight[77]"]);
    assert!(run.code == 2 && run.err.contains("the shape is [16, 8]; element 77 is [9, 5]"), "{}", run.err);
    for args in [&["model.embed_tokens.weight[9, 5]", "--hex"][..], &["model.embed_tokens.weight[-7, 5]"]] {
        let run = at(args);
        assert!(run.code == 0 && run.out.contains("\n  taken: element [9, 5], at byte "), "{}", run.out);
    }
    let run = show(&testdata("qwen3-q4_k_m.gguf"), &["blk.0.attn_q.weight[3, 5]", "--hex"]);
    assert!(run.out.contains("\n  taken: element [3, 5], in the block at byte "), "{}", run.out);
}

#[test]
fn hostile_names_are_inert() {
    let folder = folder();
    let name = "evil\x1b[2J\u{202e}\nfake";
    model(folder.path(), "hostile", &[Tensor::new(name, &[2])], None);
    for args in [&[name][..], &["evi"], &[name, "--json"], &[name, "--hex"], &["evil\x1b[2J\u{202e}\nfak"]] {
        let run = run_in(folder.path(), &[&["show", "hostile"], args].concat());
        for text in [&run.out, &run.err] {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
            assert!(!text.lines().any(|line| line.starts_with("fake")), "{text}");
        }
    }
}

#[test]
fn names_of_the_other_world_are_understood() {
    let (hf, gguf) = (testdata("qwen3-tiny"), testdata("qwen3-tiny.gguf"));
    for (own, other) in [
        ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("model.embed_tokens.weight", "token_embd.weight"),
    ] {
        let all = values(&hf, own);
        assert_eq!(values(&hf, other), all);
        assert_eq!(values(&gguf, own), values(&gguf, other));
        assert_eq!(values(&gguf, own), all, "{own}");
        let run = show(&gguf, &[&format!("{own}[0]")]);
        assert!(run.out.contains(&format!("{own} is {other} in this file")), "{}", run.out);
    }
    // The family's converter changes the order of rows, and that is said; the numbers are those of the file.
    let run = show(&testdata("llama-tiny.gguf"), &["model.layers.0.self_attn.q_proj.weight"]);
    assert!(run.out.contains("not as Hugging Face does: rows of heads of"), "{}", run.out);
    let run = show(&testdata("llama-tiny"), &["blk.0.attn_q.weight"]);
    assert!(run.out.contains("in a GGUF file: rows of heads of"), "{}", run.out);
}

#[test]
fn what_is_tied_is_shown_in_the_place_of_what_is_absent() {
    let folder = folder();
    let mut tensors = qwen3();
    tensors.retain(|t| t.name != "lm_head.weight");
    let at = model(folder.path(), "tied", &tensors, Some(CONFIG));
    let run = show(&at, &["lm_head.weight[0, :2]"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("lm_head.weight is not in the file: it is tied to model.embed_tokens.weight"),
        "{}",
        run.out
    );
    assert_eq!(values(&at, "output.weight[0]"), values(&at, "model.embed_tokens.weight[0]"));
}

#[test]
fn packed_weights_are_matrices_and_their_parts_are_tensors() {
    let at = testdata("packed/gptq_act_order");
    let run = show(&at, &["model.layers.0.mlp.down_proj.weight[0, :4]"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("GPTQ 4-bit g32") && run.out.contains("make up together"), "{}", run.out);
    assert!(
        run.out.contains("model.layers.0.mlp.down_proj.qzeros  I32 [1, 8] in model.safetensors"),
        "{}",
        run.out
    );
    let document = valid(&show(&at, &["model.layers.0.mlp.down_proj.qweight[0, :2]", "--json"]));
    assert_eq!((&document["tensor"]["dtype"], flat(&document).len()), (&Value::from("I32"), 2));
    let run = show(&at, &["model.layers.0.mlp.down_proj.weight", "--hex"]);
    assert!(run.code == 2 && run.err.contains("has no bytes of its own: name one of"), "{}", run.err);
}

#[test]
fn every_type_reads_as_other_programs_read_it() {
    // Made by the Python library of safetensors and numpy: see testdata/README.md.
    let (stored, expected) =
        (testdata("quants/dtypes.safetensors"), testdata("quants/dtypes.expected.safetensors"));
    let run = run_in(Path::new("."), &["inspect", stored.to_str().unwrap(), "--json"]);
    let tensors = valid(&run)["model"]["tensors"].as_array().unwrap().clone();
    assert!(tensors.len() > 15);
    for tensor in &tensors {
        let name = tensor["name"].as_str().unwrap();
        let (found, wanted) = (show(&stored, &[name, "--json"]), show(&expected, &[name, "--json"]));
        let flatten = |value: &Value| match value {
            Value::Array(pair) => pair.iter().map(number).collect(),
            one => vec![number(one)],
        };
        let all = |run: &Run| -> Vec<f64> {
            let document = valid(run);
            let pieces = document["values"].as_array().unwrap().clone();
            pieces
                .iter()
                .flat_map(|piece| piece.as_array().unwrap().clone())
                .flat_map(|v| flatten(&v))
                .collect()
        };
        let (found, wanted) = (all(&found), all(&wanted));
        assert_eq!(found.len(), wanted.len(), "{name}");
        // F64 is shown as it is; the expected numbers are f32.
        let narrow = |v: f64| if tensor["dtype"] == "F64" { f64::from(v as f32) } else { v };
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(
                narrow(*found) == *wanted || found.is_nan() && wanted.is_nan(),
                "{name}: {found} {wanted}"
            );
        }
    }
    let six = testdata("quants/dtypes_f6.safetensors");
    let run = run_in(Path::new("."), &["inspect", six.to_str().unwrap(), "--json"]);
    let document = valid(&run);
    let six_bits =
        document["model"]["tensors"].as_array().unwrap().iter().find(|t| t["dtype"] == "F6_E2M3").unwrap();
    let name = six_bits["name"].as_str().unwrap();
    let run = show(&six, &[name]);
    assert!(run.code == 2 && run.err.contains("--hex"), "{}", run.err);
    assert_eq!(show(&six, &[name, "--hex"]).code, 0);
}

#[test]
fn bytes_are_those_of_the_file() {
    let at = testdata("qwen3-q4_k_m.gguf");
    let file = std::fs::read(&at).unwrap();
    for tensor in ["blk.0.attn_q.weight[1]", "blk.0.attn_q.weight[3:5, :10]", "blk.0.attn_norm.weight[::100]"]
    {
        let document = valid(&show(&at, &[tensor, "--hex", "--json"]));
        let lines = document["bytes"].as_array().unwrap();
        assert_eq!(lines[0]["offset"], document["first_offset"]);
        for line in lines {
            let offset = line["offset"].as_u64().unwrap() as usize;
            let hex = line["hex"].as_str().unwrap();
            let stored: String = file[offset..][..hex.len() / 2].iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, stored, "{tensor}");
        }
    }
    let run = show(&at, &["blk.0.attn_norm.weight[2:4]", "--hex"]);
    let line = run.out.lines().find(|line| line.contains("0x") && !line.contains("byte")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let offset: usize = words[0].parse().unwrap();
    assert_eq!(words[1], format!("{offset:#010x}"));
    let stored: Vec<String> = file[offset..offset + 8].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(words[2..], stored);
    let run = show(&at, &["token_embd.weight", "--hex"]);
    assert!(run.out.contains("\n  ...\n") && run.out.contains("502 of 69,510 bytes shown"), "{}", run.out);
}

#[test]
fn files_for_other_programs() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let run = |args: &[&str]| run_in(folder.path(), &[&["show"], args].concat());
    let made = run(&["good", "model.embed_tokens.weight[2:4, 1]", "--npy", "a.npy"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert!(made.out.contains("wrote 2 numbers as f32 to a.npy"), "{}", made.out);
    let bytes = std::fs::read(at("a.npy")).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let head = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let said = std::str::from_utf8(&bytes[10..head]).unwrap();
    assert_eq!(said.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
    let numbers: Vec<f32> =
        bytes[head..].chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(numbers, [2533. + 7. * 17., 2533. + 7. * 25.]);

    // Each type that numpy has is written as it is: the file's data are the stored bytes.
    let types = testdata("quants/dtypes.safetensors");
    for (name, descr) in
        [("i16", "<i2"), ("u8", "|u1"), ("i64", "<i8"), ("f64", "<f8"), ("bool", "|b1"), ("u64", "<u8")]
    {
        let listed = valid(&run_in(folder.path(), &["inspect", types.to_str().unwrap(), "--json"]));
        let tensor = listed["model"]["tensors"].as_array().unwrap().iter();
        let tensor = tensor
            .into_iter()
            .find(|t| t["dtype"] == name.to_uppercase() && t["elements"] != 0)
            .unwrap()
            .clone();
        let made = run(&[
            types.to_str().unwrap(),
            tensor["name"].as_str().unwrap(),
            "--npy",
            "t.npy",
            "--raw",
            "t.raw",
        ]);
        assert_eq!(made.code, 0, "{name} {}", made.err);
        let (npy, raw) = (std::fs::read(at("t.npy")).unwrap(), std::fs::read(at("t.raw")).unwrap());
        assert!(String::from_utf8_lossy(&npy[..64]).contains(&format!("'descr': '{descr}'")), "{name}");
        assert!(npy.ends_with(&raw) && raw.len() == tensor["bytes"].as_u64().unwrap() as usize, "{name}");
        let offset = tensor["offset"].as_u64().unwrap() as usize;
        assert_eq!(raw, std::fs::read(&types).unwrap()[offset..][..raw.len()], "{name}");
    }
}

#[test]
fn raw_bytes_are_of_whole_blocks() {
    let folder = folder();
    let at = testdata("qwen3-q4_k_m.gguf");
    let (at, file) = (at.to_str().unwrap(), std::fs::read(&at).unwrap());
    let document =
        valid(&run_in(folder.path(), &["show", at, "blk.0.attn_q.weight", "--block", "0", "--json"]));
    let (offset, cols) = (
        document["tensor"]["offset"].as_u64().unwrap() as usize,
        document["tensor"]["shape"][1].as_u64().unwrap() as usize,
    );
    let row = cols / 256 * 144;
    assert_eq!(document["tensor"]["dtype"], "Q4_K");
    let raw = |tensor: &str| {
        let run = run_in(folder.path(), &["show", at, tensor, "--raw", "x"]);
        assert_eq!(run.code, 0, "{tensor}: {}", run.err);
        std::fs::read(folder.path().join("x")).unwrap()
    };
    assert_eq!(raw("blk.0.attn_q.weight[2:4]"), file[offset + 2 * row..offset + 4 * row]);
    assert_eq!(raw("blk.0.attn_q.weight[3, :256]"), file[offset + 3 * row..offset + 3 * row + 144]);
    let odd = [&file[offset + row..offset + 2 * row], &file[offset + 3 * row..offset + 4 * row]].concat();
    assert_eq!(raw("blk.0.attn_q.weight[1:4:2]"), odd);
    let run = run_in(folder.path(), &["show", at, "blk.0.attn_q.weight[0, :100]", "--raw", "y"]);
    assert!(
        run.code == 2 && run.err.contains("not whole blocks of 256") && !folder.path().join("y").exists(),
        "{}",
        run.err
    );
    // Never over what is read.
    let run =
        run_in(folder.path(), &["show", "good", "model.norm.weight", "--raw", "good/model.safetensors"]);
    assert!(run.code == 2 && run.err.contains("destroy"), "{}", run.err);
}

#[test]
fn a_file_that_ends_early_shows_what_it_has() {
    let folder = folder();
    let tensors = [Tensor::new("whole", &[4]), Tensor::new("cut", &[4])];
    let mut bytes = safetensors(&tensors, "{}");
    bytes.truncate(bytes.len() - 6);
    std::fs::write(folder.path().join("short.safetensors"), bytes).unwrap();
    assert_eq!(run_in(folder.path(), &["show", "short.safetensors", "whole"]).code, 0);
    let run = run_in(folder.path(), &["show", "short.safetensors", "cut"]);
    assert!(run.code == 3 && run.err.contains("cut") && !run.err.contains("panicked"), "{}", run.err);
}

#[test]
fn whatever_is_taken_comes_in_its_order() {
    use models::registry;
    use scantling_core::bundle::Bundle;
    use scantling_core::show::{Meant, Values, View, find, unravel};
    let words = [":", "0", "-1", "1:", ":2", "::2", "::-1", "1:3", "2", "...", "-2:", "3:0:-2"];
    let shapes: [&[usize]; 6] = [&[4], &[3, 5], &[1, 4], &[2, 3, 4], &[5, 1, 3], &[2, 1, 3, 4]];
    let (mut tried, mut seed) = (0, 1usize);
    for shape in shapes {
        let count: usize = shape.iter().product();
        let bytes = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let tensor = Tensor { name: "t".into(), shape: shape.to_vec(), bytes };
        let file = [("m.safetensors".to_owned(), safetensors(&[tensor], "{}"))];
        let source = registry().open_bundle(&Bundle::in_memory("m.safetensors", file).unwrap()).unwrap();
        for _ in 0..300 {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                seed >> 33
            };
            let axes = 1 + next() % shape.len();
            let ranges: Vec<&str> = (0..axes).map(|_| words[next() % words.len()]).collect();
            let Ok(found) = find(source.as_ref(), None, &format!("t[{}]", ranges.join(", ")), Meant::Numbers)
            else {
                continue;
            };
            let view = View::of(source.as_ref(), &found).unwrap();
            // One element after the other, by the places of each axis.
            let picks = &found.selection.picks;
            let counts: Vec<usize> = picks.iter().map(|pick| pick.count).collect();
            let wanted: Vec<f32> = (0..counts.iter().product())
                .map(|n| {
                    let places = unravel(n, &counts).into_iter().zip(picks).map(|(i, pick)| pick.place(i));
                    places.zip(shape).fold(0, |flat, (place, len)| flat * len + place) as f32
                })
                .collect();
            let kept = found.selection.shape();
            let (outer, inner) = kept.split_last().map_or((&[][..], 1), |(inner, outer)| (outer, *inner));
            let mut all = Values::F32(Vec::new());
            for line in 0..outer.iter().product() {
                all.append(view.line(&unravel(line, outer), 0..inner).unwrap());
            }
            assert_eq!(all, Values::F32(wanted.clone()), "{ranges:?} of {shape:?}");
            let mut raw = Vec::new();
            let data = view.stored().unwrap();
            view.each_run(true, &mut |run| {
                raw.extend_from_slice(&data[run]);
                Ok(())
            })
            .unwrap();
            let stored: Vec<u8> = wanted.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert_eq!(raw, stored, "{ranges:?} of {shape:?}");
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}
