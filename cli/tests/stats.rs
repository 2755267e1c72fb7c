//! The numbers of tensors, held against figures that numpy computed, and oddities that were planted.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests write the files they look at

mod common;
mod models;

use common::{Tensor, model, run_in, valid};
use models::folder_from;
use serde_json::Value;
use std::path::Path;

fn testdata() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The tensors of a document, by name.
fn tensor<'d>(document: &'d Value, name: &str) -> &'d Value {
    let tensors = document["tensors"].as_array().unwrap();
    tensors.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Codes of the findings, and what they are about.
fn found(document: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let findings = document["findings"].as_array().unwrap().iter();
    findings.map(|f| (text(&f["code"]), text(&f["place"]["tensor"]))).collect()
}

/// Every figure of one stored tensor.
#[track_caller]
fn agrees(found: &Value, expected: &Value) {
    let name = &expected["name"];
    for key in ["min", "max", "mean", "std", "abs_max"] {
        let (a, b) = (found[key].as_f64().unwrap(), expected[key].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{name} {key}: {a:e}, not {b:e}");
    }
    assert_eq!(found["zeros"], expected["zeros"], "{name}");
    assert_eq!(found["nan"]["count"], 0, "{name}");
}

#[test]
fn golden_models_have_the_figures_of_numpy() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let (mut models, mut tensors) = (0, 0);
    for entry in std::fs::read_dir(shared.join("golden/models")).unwrap() {
        let folder = entry.unwrap().path();
        let run = run_in(&folder, &["stats", ".", "--json", "--threads", "2"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", folder.display());
        let document = valid(&run);
        for expected in read(&folder.join("tensors.json")).as_array().unwrap() {
            let name = expected["name"].as_str().unwrap();
            // Parts of a packed weight are looked at as what they make.
            let all = document["tensors"].as_array().unwrap();
            if let Some(found) = all.iter().find(|t| t["name"] == name) {
                assert_eq!(
                    (&found["shape"], &found["dtype"]),
                    (&expected["shape"], &expected["dtype"]),
                    "{name}"
                );
                agrees(found, expected);
                tensors += 1;
            } else {
                assert!(folder.ends_with("gpt_oss_mxfp4"), "{name} of {}", folder.display());
            }
        }
        models += 1;
    }
    assert!(models >= 26 && tensors > 500, "{models} {tensors}");
}

/// An IEEE half, by its fields.
fn half(b: &[u8]) -> f64 {
    let bits = u16::from_le_bytes([b[0], b[1]]);
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    match exponent {
        0 => sign * mantissa * 2f64.powi(-24),
        _ => sign * (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    }
}

/// A block taken apart by hand: scales, minima, codes, and the values that they make.
#[derive(Default)]
struct ByHand {
    scales: Vec<f64>,
    minima: Vec<f64>,
    codes: Vec<i32>,
    values: Vec<f64>,
}

impl ByHand {
    fn q8_0(&mut self, b: &[u8]) {
        let d = half(b);
        self.scales.push(d);
        for code in &b[2..34] {
            let code = i32::from(*code as i8);
            self.codes.push(code);
            self.values.push(d * f64::from(code));
        }
    }

    fn q4_k(&mut self, b: &[u8]) {
        let (d, dm, s) = (half(b), half(&b[2..]), &b[4..16]);
        for j in 0..8 {
            let (scale, minimum) = match j {
                0..4 => (s[j] & 63, s[j + 4] & 63),
                _ => (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4),
            };
            let (scale, minimum) = (d * f64::from(scale), dm * f64::from(minimum));
            self.scales.push(scale);
            self.minima.push(minimum);
            for l in 0..32 {
                let byte = b[16 + 32 * (j / 2) + l];
                let code = i32::from(if j % 2 == 0 { byte & 15 } else { byte >> 4 });
                self.codes.push(code);
                // Rounded once, to f32.
                self.values.push(f64::from((scale * f64::from(code) - minimum) as f32));
            }
        }
    }

    fn q6_k(&mut self, b: &[u8]) {
        let d = half(&b[208..]);
        for j in 0..16 {
            self.scales.push(d * f64::from(b[192 + j] as i8));
        }
        for e in 0..256 {
            let (half, within) = (e / 128, e % 128);
            let (quarter, l) = (within / 32, within % 32);
            let low = b[64 * half + 32 * (quarter % 2) + l];
            let low = if quarter < 2 { low & 15 } else { low >> 4 };
            let high = b[128 + 32 * half + l] >> (2 * quarter) & 3;
            let code = i32::from(low | high << 4);
            self.codes.push(code);
            self.values.push(self.scales[self.scales.len() - 16 + e / 16] * f64::from(code - 32));
        }
    }
}

#[track_caller]
fn limits(found: &Value, expected: &[f64]) {
    let (min, max) = expected.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    assert_eq!((found["min"].as_f64(), found["max"].as_f64()), (Some(min), Some(max)));
    assert_eq!(found["count"], expected.len());
    assert_eq!(found["zeros"], expected.iter().filter(|x| **x == 0.0).count());
}

#[test]
fn block_types_are_taken_apart_as_by_hand() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let folder = shared.join("golden/gguf");
    let mut seen = std::collections::BTreeMap::new();
    for file in ["qwen3_q256.q8_0", "qwen3_q256.q4_k_m"] {
        let (facts, bytes) = (
            read(&folder.join(format!("{file}.json"))),
            std::fs::read(folder.join(format!("{file}.gguf"))).unwrap(),
        );
        let run = run_in(&folder, &["stats", &format!("{file}.gguf"), "--json", "--histogram"]);
        assert_eq!(run.code, 0, "{}", run.err);
        let document = valid(&run);
        for t in facts["tensors"].as_array().unwrap() {
            let take: (usize, fn(&mut ByHand, &[u8])) = match t["type"].as_str().unwrap() {
                "Q8_0" => (34, ByHand::q8_0),
                "Q4_K" => (144, ByHand::q4_k),
                "Q6_K" => (210, ByHand::q6_k),
                _ => continue,
            };
            let at = |key: &str| t[key].as_u64().unwrap() as usize;
            let start = facts["data_offset"].as_u64().unwrap() as usize + at("offset");
            let mut hand = ByHand::default();
            bytes[start..start + at("nbytes")]
                .chunks_exact(take.0)
                .for_each(|block| take.1(&mut hand, block));
            let found = tensor(&document, t["name"].as_str().unwrap());
            limits(&found["blocks"]["scales"], &hand.scales);
            match hand.minima.is_empty() {
                true => assert!(found["blocks"]["minima"].is_null()),
                false => limits(&found["blocks"]["minima"], &hand.minima),
            }
            assert_eq!(found["blocks"]["count"], at("nbytes") / take.0);
            let codes = &found["blocks"]["codes"];
            for (i, count) in codes["counts"].as_array().unwrap().iter().enumerate() {
                let code = codes["lowest"].as_i64().unwrap() as i32 + i as i32;
                assert_eq!(*count, hand.codes.iter().filter(|c| **c == code).count(), "code {code}");
            }
            limits(found, &hand.values);
            let n = hand.values.len() as f64;
            let mean = hand.values.iter().sum::<f64>() / n;
            let std = (hand.values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
            let rms = (hand.values.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
            for (key, expected) in [("mean", mean), ("std", std), ("rms", rms)] {
                let found = found[key].as_f64().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-12 * std,
                    "{} {key}: {found:e} {expected:e}",
                    t["name"]
                );
            }
            // The histogram: every number in the bin whose edges hold it.
            let h = &found["histogram"];
            let (low, high) = (h["low"].as_f64().unwrap(), h["high"].as_f64().unwrap());
            let counts = h["counts"].as_array().unwrap();
            let edge = |i: usize| if i == 64 { high } else { low + i as f64 * ((high - low) / 64.0) };
            for (i, count) in counts.iter().enumerate() {
                let held = |x: &&f64| **x >= edge(i) && (**x < edge(i + 1) || i == 63 && **x == high);
                assert_eq!(*count, hand.values.iter().filter(held).count(), "{} bin {i}", t["name"]);
            }
            *seen.entry(take.0).or_insert(0) += 1;
        }
    }
    assert!(seen.len() == 3 && seen.values().sum::<i32>() >= 16, "{seen:?}");
}

/// Numbers with no pattern, in the size of weights.
fn noise(name: &str, shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    Tensor { bytes: (0..count).flat_map(|_| next().to_le_bytes()).collect(), ..Tensor::new(name, shape) }
}

fn layers(count: usize) -> Vec<Tensor> {
    let mut tensors = vec![noise("model.embed_tokens.weight", &[40, 32], 99)];
    for layer in 0..count {
        let name = |local: &str| format!("model.layers.{layer}.{local}.weight");
        let seed = 10 * layer as u64;
        tensors.push(noise(&name("input_layernorm"), &[32], seed + 1));
        tensors.push(noise(&name("self_attn.q_proj"), &[48, 32], seed + 2));
        tensors.push(noise(&name("mlp.down_proj"), &[32, 64], seed + 3));
    }
    tensors
}

fn at<'t>(tensors: &'t mut [Tensor], name: &str) -> &'t mut Tensor {
    tensors.iter_mut().find(|t| t.name == name).unwrap()
}

fn set(tensor: &mut Tensor, index: usize, value: f32) {
    tensor.bytes[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn what_is_planted_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = layers(8);
    model(folder.path(), "sound", &tensors, None);
    let sound = valid(&run_in(folder.path(), &["stats", "sound", "--json"]));
    assert_eq!(found(&sound), [], "nothing is odd about noise");

    set(at(&mut tensors, "model.layers.3.self_attn.q_proj.weight"), 32 * 7 + 5, f32::NAN);
    set(at(&mut tensors, "model.layers.3.self_attn.q_proj.weight"), 32 * 9, f32::NEG_INFINITY);
    for i in 0..64 {
        set(at(&mut tensors, "model.embed_tokens.weight"), 38 * 32 + i, if i % 2 == 0 { 0.0 } else { -0.0 });
    }
    let copied: Vec<Vec<u8>> =
        tensors.iter().filter(|t| t.name.starts_with("model.layers.1.")).map(|t| t.bytes.clone()).collect();
    let place = tensors.iter_mut().filter(|t| t.name.starts_with("model.layers.6."));
    place.zip(copied).for_each(|(t, bytes)| t.bytes = bytes);
    for i in 0..32 {
        set(at(&mut tensors, "model.layers.4.input_layernorm.weight"), i, 1.0);
    }
    set(at(&mut tensors, "model.layers.5.mlp.down_proj.weight"), 100, 40_000.0);
    let q = at(&mut tensors, "model.layers.7.self_attn.q_proj.weight");
    let smaller: Vec<u8> = q
        .bytes
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|b| (f32::from_le_bytes(*b) / 100.0).to_le_bytes())
        .collect();
    q.bytes = smaller;
    let down = at(&mut tensors, "model.layers.0.mlp.down_proj.weight").bytes.clone();
    at(&mut tensors, "model.layers.2.mlp.down_proj.weight").bytes = down;
    model(folder.path(), "odd", &tensors, None);

    let run = run_in(folder.path(), &["stats", "odd", "--json"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let document = valid(&run);
    let about = |code: &str| -> Vec<String> {
        found(&document).into_iter().filter(|(c, _)| c == code).map(|(_, tensor)| tensor).collect()
    };
    assert_eq!(about("data-not-finite"), ["model.layers.3.self_attn.q_proj.weight"]);
    assert_eq!(about("stats-dead-rows"), ["model.embed_tokens.weight"]);
    assert_eq!(about("stats-copied-layer"), ["model.layers.6"]);
    assert_eq!(about("stats-frozen-layer"), ["model.layers.4"]);
    assert_eq!(about("stats-constant"), ["model.layers.4.input_layernorm.weight"]);
    assert_eq!(about("stats-outlier"), Vec::<String>::new(), "no tensor is large enough for one to be far");
    assert_eq!(
        about("stats-magnitude"),
        ["model.layers.5.mlp.down_proj.weight", "model.layers.7.self_attn.q_proj.weight"]
    );
    assert_eq!(about("stats-copy"), ["model.layers.2.mlp.down_proj.weight"]);

    let bad = tensor(&document, "model.layers.3.self_attn.q_proj.weight");
    assert_eq!(bad["nan"], serde_json::json!({"count": 1, "first": 229}));
    assert_eq!(bad["infinite"], serde_json::json!({"count": 1, "first": 32 * 9}));
    let embedding = tensor(&document, "model.embed_tokens.weight");
    assert_eq!(embedding["dead_rows"], serde_json::json!({"rows": 40, "count": 2, "first": 38}));
    assert_eq!(embedding["zeros"], 64);
    let text = run_in(folder.path(), &["stats", "odd"]);
    assert_eq!(text.code, 1);
    let wanted = [
        "1 NaN and 1 infinite of 1536 values, the first at element 229 [7, 5]",
        "2 of 40 rows are nothing but zeros, the first is row 38",
        "all 3 tensors hold the same bytes as those of layer 1",
        "all 32 numbers are 1",
        "holds the same bytes as model.layers.0.mlp.down_proj.weight",
    ];
    for words in wanted {
        let flat = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{words}\n{}", text.out);
    }
}

#[test]
fn what_is_found_stands_at_the_end_with_the_command_that_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = layers(2);
    let name = "model.layers.1.self_attn.q_proj.weight";
    set(at(&mut tensors, name), 32 * 7 + 5, f32::NAN);
    model(folder.path(), "a model", &tensors, None);
    let command = format!("scantling show 'a model' '{name}[7,5]'");
    let flat = |out: &str| out.split_whitespace().collect::<Vec<_>>().join(" ");

    let run = run_in(folder.path(), &["stats", "a model", "--include", "*q_proj*"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let last = |words: &str| run.out.rfind(words).unwrap_or_else(|| panic!("{words}\n{}", run.out));
    assert!(last("█") < last("TENSOR") && last("TENSOR") < last("data-not-finite"), "{}", run.out);
    assert!(
        last("data-not-finite") < last("1 error; looked at all 3,072 values of 2 tensors"),
        "{}",
        run.out
    );
    assert!(flat(&run.out).contains(&command), "{}", run.out);

    let run = run_in(folder.path(), &["check", "a model", "--only", "data", "--json"]);
    assert_eq!(run.code, 1, "{}", run.err);
    let finding = &valid(&run)["models"][0]["findings"][0];
    let message = finding["message"].as_str().unwrap();
    assert!(message.ends_with("the first at element 229 [7, 5]"), "{message}");
    assert!(finding["advice"].as_str().unwrap().starts_with(&command), "{finding}");

    let run = run_in(folder.path(), &["show", "a model", &format!("{name}[7,5]")]);
    assert!(run.code == 0 && run.out.contains("\nnan\n"), "{}{}", run.out, run.err);
}

#[test]
fn patterns_that_match_nothing_are_told() {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), "m", &layers(2), None);
    for (args, message) in [
        (&["--include", "blk.*"][..], "no tensor of 7 matches --include 'blk.*'"),
        (&["--include", "a", "--include", "b"], "no tensor of 7 matches --include 'a' or --include 'b'"),
        (
            &["--include", "*norm*", "--exclude", "*"],
            "no tensor of 7 is left by --include '*norm*' --exclude '*'",
        ),
    ] {
        let run = run_in(folder.path(), &[&["stats", "m"], args].concat());
        assert_eq!(run.code, 1, "{}", run.out);
        assert!(run.out.contains(message) && run.out.contains("1 error; looked at no values"), "{}", run.out);
        let run = run_in(folder.path(), &[&["stats", "m", "--json"], args].concat());
        let document = valid(&run);
        assert_eq!((run.code, &document["findings"][0]["code"]), (1, &"stats-no-tensor".into()));
        assert_eq!(document["findings"][0]["message"], message);
        let run = run_in(folder.path(), &[&["stats", "m", "--format", "csv"], args].concat());
        assert!(run.code == 1 && run.err.contains(message) && run.out.lines().count() == 1, "{}", run.err);
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    // Pieces are of a megabyte: one has many rows to a piece, one many pieces to a row.
    let tensors = [
        noise("rows.weight", &[3000, 511], 1),
        noise("long.weight", &[2, 700_000], 2),
        noise("v", &[900_000], 3),
    ];
    model(folder.path(), "large", &tensors, None);
    let of = |threads: &str, args: &[&str]| {
        let all = [&["stats", "large", "--threads", threads], args].concat();
        let run = run_in(folder.path(), &all);
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    for args in [&["--json", "--histogram"][..], &["--format", "csv"], &[]] {
        let one = of("1", args);
        for threads in ["2", "3", "0", "1"] {
            assert!(of(threads, args) == one, "{threads} {args:?}");
        }
    }
    let document = valid(&run_in(folder.path(), &["stats", "large", "--json"]));
    for t in &tensors {
        let values: Vec<f64> =
            t.bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let std = (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
        let found = tensor(&document, &t.name);
        assert!((found["mean"].as_f64().unwrap() - mean).abs() < 1e-12 * std, "{}", t.name);
        assert!((found["std"].as_f64().unwrap() - std).abs() < 1e-12 * std, "{}", t.name);
    }
}

#[test]
fn csv_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = layers(2);
    tensors.push(noise("a \"quoted\", name\nof two lines", &[3, 4], 5));
    model(folder.path(), "m", &tensors, None);
    let run = run_in(folder.path(), &["stats", "m", "--format", "csv", "--sort", "file"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let rows = parsed(&run.out);
    let document = valid(&run_in(folder.path(), &["stats", "m", "--json", "--sort", "file"]));
    let heads = &rows[0];
    assert_eq!(rows.len(), tensors.len() + 1);
    for (row, (json, t)) in rows[1..].iter().zip(document["tensors"].as_array().unwrap().iter().zip(&tensors))
    {
        assert_eq!(row.len(), heads.len());
        let cell = |head: &str| row[heads.iter().position(|h| h == head).unwrap()].as_str();
        assert_eq!((cell("name"), Some(cell("name"))), (t.name.as_str(), json["name"].as_str()));
        for key in ["min", "max", "mean", "std", "rms", "abs_max"] {
            assert_eq!(cell(key).parse::<f64>().unwrap(), json[key].as_f64().unwrap(), "{key}");
        }
        let axes: Vec<usize> = cell("shape").split('x').map(|n| n.parse().unwrap()).collect();
        assert_eq!(axes, t.shape);
        assert_eq!(cell("first_nan"), "");
    }
}

/// A text in the form of RFC 4180.
fn parsed(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.push(chars.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(cell.is_empty() && row.is_empty() && !quoted);
    rows
}

#[test]
fn the_list_is_chosen_sorted_and_fits() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = layers(12);
    set(at(&mut tensors, "model.layers.10.input_layernorm.weight"), 3, 9.0);
    set(at(&mut tensors, "model.layers.2.input_layernorm.weight"), 3, -7.0);
    model(folder.path(), "m", &tensors, None);
    let names = |args: &[&str]| -> Vec<String> {
        let run = run_in(folder.path(), &[&["stats", "m", "--json", "--include", "*norm*"], args].concat());
        let document = valid(&run);
        assert_eq!(document["tensors_hidden"], 25);
        document["tensors"].as_array().unwrap().iter().map(|t| t["layer"].to_string()).collect()
    };
    let order: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    assert_eq!(names(&[]), order);
    assert_eq!(names(&["--sort", "absmax"])[..2], ["10", "2"]);
    assert_eq!(names(&["--sort", "std"])[0], "10");
    assert_eq!(names(&["--sort", "max"])[0], "10");
    assert_eq!(names(&["--sort", "min"])[11], "2");
    let one = run_in(folder.path(), &["stats", "m", "--include", "*.10.input_layernorm.weight"]);
    assert!(one.out.contains('█') && one.out.contains("looked at all 32 values of 1 tensor"), "{}", one.out);
    assert!(one.out.trim_end().ends_with("36 tensors left out by --include and --exclude"), "{}", one.out);
    for width in [60, 80, 100] {
        for args in [&["stats", "m"][..], &["stats", "m", "--include", "*.10.input_layernorm*"]] {
            let run = run_in(folder.path(), &[args, &["--width", &width.to_string()]].concat());
            assert!(run.out.lines().all(|l| l.chars().count() <= width), "{width}\n{}", run.out);
        }
    }
    let ascii = run_in(folder.path(), &["stats", "m", "--include", "*.10.input_layernorm*", "--ascii"]);
    assert!(ascii.out.is_ascii() && ascii.out.contains("###"), "{}", ascii.out);
    assert_eq!(run_in(folder.path(), &["stats", "m", "--sort", "nonesuch"]).code, 2);
    assert_eq!(run_in(folder.path(), &["stats", "m", "--include", "[z"]).code, 2);
    assert_eq!(run_in(folder.path(), &["stats", "absent"]).code, 3);
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = model(folder.path(), "m", &layers(1), None).join("model.safetensors");
    let bytes = std::fs::read(&at).unwrap();
    std::fs::write(&at, &bytes[..bytes.len() - 100]).unwrap();
    let run = run_in(folder.path(), &["stats", "m"]);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("data-unreadable") && run.out.contains("mlp.down_proj"), "{}", run.out);
    assert!(
        run.out.contains("file-truncated") && run.out.contains("(they could not be read)"),
        "{}",
        run.out
    );
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let six = run_in(&shared.join("golden/quants"), &["stats", "dtypes_f6.safetensors"]);
    assert!(
        six.code == 0 && six.out.contains("nothing says how its bits are packed"),
        "{}{}",
        six.out,
        six.err
    );
}

#[test]
fn hostile_names_are_shown_and_obeyed_by_none() {
    let folder = tempfile::tempdir().unwrap();
    let name = "evil\u{1b}[2J\u{202e}\r\nfake.weight";
    model(folder.path(), "m", &[noise(name, &[2, 40], 1)], None);
    for args in [&["stats", "m"][..], &["stats", "m", "--histogram"], &["stats", "m", "--json"]] {
        let run = run_in(folder.path(), args);
        assert_eq!(run.code, 0);
        let bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!run.out.chars().any(bad) && run.out.contains("evil"), "{args:?}\n{:?}", run.out);
    }
    assert_eq!(valid(&run_in(folder.path(), &["stats", "m", "--json"]))["tensors"][0]["name"], name);
    let csv = run_in(folder.path(), &["stats", "m", "--format", "csv"]);
    assert_eq!(parsed(&csv.out)[1][0], name, "a file gets the exact name");
}

#[test]
fn packed_weights_are_looked_at_as_what_they_make() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let mut weights = 0;
    for entry in std::fs::read_dir(shared.join("golden/hf-quantized")).unwrap() {
        let folder = entry.unwrap().path();
        let run = run_in(&folder, &["stats", "model.safetensors", "--json"]);
        assert_eq!(run.code, 0, "{}: {}", folder.display(), run.err);
        let document = valid(&run);
        let decoded = std::fs::read(folder.join("decoded.safetensors")).unwrap();
        let start = 8 + u64::from_le_bytes(decoded[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&decoded[8..start]).unwrap();
        for (name, entry) in header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
            let range = |i: usize| start + entry["data_offsets"][i].as_u64().unwrap() as usize;
            let raw = decoded[range(0)..range(1)].as_chunks::<4>().0;
            let values: Vec<f64> = raw.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect();
            let found = tensor(&document, name);
            limits(found, &values);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let std = (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
            assert!((found["std"].as_f64().unwrap() - std).abs() <= 1e-12 * std, "{name}");
            weights += 1;
        }
    }
    assert!(weights > 60, "{weights}");
}

#[test]
fn a_small_model_of_the_repository_has_stats_in_both_formats() {
    let [folder, file] = ["qwen3-tiny", "qwen3-tiny.gguf"].map(|name| {
        let run = run_in(&testdata(), &["stats", name, "--json"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        valid(&run)
    });
    let hf = tensor(&folder, "model.layers.0.mlp.down_proj.weight");
    let gguf = tensor(&file, "blk.0.ffn_down.weight");
    for key in ["min", "max", "mean", "std", "rms", "zeros"] {
        assert_eq!(hf[key], gguf[key], "{key}");
    }
}
