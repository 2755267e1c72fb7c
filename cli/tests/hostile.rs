//! Files and calls that were made to be misread: nothing is passed over in silence, and nothing is destroyed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

mod common;

use common::{CONFIG, Run, Tensor, finished, model, program, qwen3, run_in, valid};
use scantling_core::hash::Digest;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A safetensors file of this header and so many bytes of zeros.
fn made(path: &Path, header: &str, data: &[u8]) {
    fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()).unwrap();
}

fn stats(folder: &Path, args: &[&str]) -> Run {
    run_in(folder, &[&["stats", "m.safetensors"], args].concat())
}

fn codes(document: &Value) -> Vec<&str> {
    // `check` takes several models.
    let document = document.get("models").map_or(document, |models| &models[0]);
    document["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect()
}

#[test]
fn squares_of_f64_may_be_too_large_or_too_small() {
    let folder = tempfile::tempdir().unwrap();
    let small: Vec<f64> = (0..5000).map(|i| f64::from((i * 7919) % 5001 - 2500) * 1e-163).collect();
    let all: [(&str, &[f64]); 3] =
        [("large", &[1e200, -1e200, 2e200]), ("small", &[1e-200, 3e-200]), ("many", &small)];
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, values) in all {
        let start = data.len();
        values.iter().for_each(|x| data.extend(x.to_le_bytes()));
        let place = format!("\"shape\":[{}],\"data_offsets\":[{start},{}]", values.len(), data.len());
        header.push(format!("\"{name}\":{{\"dtype\":\"F64\",{place}}}"));
    }
    made(&folder.path().join("m.safetensors"), &format!("{{{}}}", header.join(",")), &data);
    let document = valid(&stats(folder.path(), &["--json"]));
    let figure = |name: &str, key: &str| {
        let tensors = document["tensors"].as_array().unwrap();
        tensors.iter().find(|t| t["name"] == name).unwrap()[key].as_f64().unwrap()
    };
    let many = {
        let plain: Vec<f64> = small.iter().map(|x| x * 1e163).collect();
        (plain.iter().map(|x| x * x).sum::<f64>() / 5000.0).sqrt() * 1e-163
    };
    let wanted = [
        ("large", "std", 1.247_219_128_924_647e200),
        ("large", "rms", 2f64.sqrt() * 1e200),
        ("small", "std", 1e-200),
        ("small", "rms", 5f64.sqrt() * 1e-200),
        ("many", "rms", many),
    ];
    for (name, key, wanted) in wanted {
        let found = figure(name, key);
        assert!((found - wanted).abs() <= 1e-13 * wanted, "{name} {key}: {found:e}, not {wanted:e}");
    }
    // Nor is any of them written out with two hundred zeros.
    let shown = stats(folder.path(), &[]);
    assert!(!shown.out.contains("00000000") && !shown.out.contains("inf"), "{}", shown.out);
}

#[test]
fn limits_of_f64_are_told_in_few_digits() {
    let folder = tempfile::tempdir().unwrap();
    let mut values = vec![1.0f64; 20_000];
    values[7] = 1.5e300;
    let data: Vec<u8> = values.iter().chain(&[2e250; 3]).flat_map(|x| x.to_le_bytes()).collect();
    let header = r#"{"far":{"dtype":"F64","shape":[20000],"data_offsets":[0,160000]},
        "same":{"dtype":"F64","shape":[3],"data_offsets":[160000,160024]}}"#;
    made(&folder.path().join("m.safetensors"), header, &data);
    let run = stats(folder.path(), &[]);
    assert!(
        run.out.contains("a number is 1.5e300, 141 standard") && run.out.contains("are 2e250"),
        "{}",
        run.out
    );
}

#[test]
fn what_is_wrong_with_a_container_is_wrong_with_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let ok = r#""ok":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    let cases = [
        (r#""x":{"dtype":"F99","shape":[2],"data_offsets":[8,16]}"#, "tensor-type-unknown", "values of x"),
        (r#""x":{"dtype":"F32","data_offsets":[8,16]}"#, "", "values of x"),
        (r#""x":{"dtype":"F32","shape":[-2],"data_offsets":[8,16]}"#, "", "values of x"),
        (r#""x":{"dtype":"F32","shape":[2.5],"data_offsets":[8,16]}"#, "", "values of x"),
        (r#""x":{"dtype":"F32","shape":[2]}"#, "", "values of x"),
        (r#""x":{"dtype":"F32","shape":[3],"data_offsets":[8,16]}"#, "tensor-length", "values of x (F32)"),
        (r#""x":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}"#, "tensors-overlap", ""),
    ];
    for (entry, code, unseen) in cases {
        made(&folder.path().join("m.safetensors"), &format!("{{{ok},{entry}}}"), &[0; 16]);
        let run = stats(folder.path(), &["--json"]);
        assert_eq!(run.code, 1, "{entry}\n{}", run.out);
        let document = valid(&run);
        let check = valid(&run_in(folder.path(), &["check", "m.safetensors", "--json"]));
        let errors = check["models"][0]["findings"].as_array().unwrap().iter();
        let errors: Vec<&str> = errors
            .filter(|f| f["severity"] == "error" && f["part"] == "container")
            .map(|f| f["code"].as_str().unwrap())
            .collect();
        assert!(
            !errors.is_empty() && errors.iter().all(|e| codes(&document).contains(e)),
            "{entry}: {errors:?}"
        );
        assert!(code.is_empty() || codes(&document).contains(&code), "{entry}: {document:#}");
        let shown = stats(folder.path(), &[]);
        let last = shown.out.rsplit("looked at all").next().unwrap().replace("\n  ", " ");
        assert!(shown.code == 1 && last.contains(unseen), "{entry}\n{}", shown.out);
        for more in [&[][..], &["--semantic"]] {
            let run = run_in(folder.path(), &[&["hash", "m.safetensors"], more].concat());
            assert_eq!(run.code, 1, "{entry}\n{}", run.out);
        }
    }
}

#[test]
fn tensors_that_hold_more_than_the_file_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = 4 << 20;
    let one =
        |i: usize| format!("\"t{i}\":{{\"dtype\":\"F32\",\"shape\":[1048576],\"data_offsets\":[0,{bytes}]}}");
    let all: Vec<String> = (0..5000).map(one).collect();
    made(&folder.path().join("m.safetensors"), &format!("{{{}}}", all.join(",")), &vec![1; bytes]);
    let begun = Instant::now();
    for args in [&["stats"][..], &["hash"], &["hash", "--semantic"], &["check", "--data"]] {
        let run = run_in(folder.path(), &[args, &["m.safetensors", "--json"]].concat());
        assert_eq!(run.code, 1, "{args:?}: {}", run.err);
        let document = valid(&run);
        assert!(codes(&document).contains(&"tensors-overlap"), "{args:?}");
        if args[0] == "stats" {
            assert_eq!(document["looked_at"]["values"], 0);
        }
        if args[0] == "hash" {
            assert_eq!((&document["whole"], &document["bytes"]), (&Value::Null, &Value::from(0)));
            assert_eq!(document["left_out"][0]["names"].as_array().unwrap().len(), 5000);
        }
    }
    // To read 20 GB four times would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let run = stats(folder.path(), &[]);
    assert!(run.out.contains("values of 5000 tensors (tensors lie over one another)"), "{}", run.out);
}

#[test]
fn a_manifest_is_read_behind_a_mark_and_not_with_a_damaged_digest() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "m", &qwen3(), Some(CONFIG));
    assert_eq!(run_in(at, &["hash", "m", "--write", "kept"]).code, 0);
    let kept = fs::read_to_string(at.join("kept")).unwrap();
    fs::write(at.join("marked"), format!("\u{feff}{kept}")).unwrap();
    let run = run_in(at, &["hash", "m", "--check", "marked"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let whole = kept.lines().find(|line| line.starts_with("# whole: ")).unwrap();
    for bad in ["# whole: zzzz", &whole[..72]] {
        fs::write(at.join("damaged"), kept.replace(whole, bad)).unwrap();
        let run = run_in(at, &["hash", "m", "--check", "damaged"]);
        assert!(run.code > 1 && run.err.contains("line 3: "), "{bad}: {} {}{}", run.code, run.out, run.err);
    }
}

#[test]
fn lists_may_spell_a_file_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let file = model(at, "m", &qwen3(), Some(CONFIG)).join("model.safetensors");
    let (right, wrong) = (Digest::of(&fs::read(&file).unwrap()).to_string(), "0".repeat(64));
    let absolute = fs::canonicalize(&file).unwrap().display().to_string();
    for name in [&absolute, "../m/model.safetensors", "\"model.safetensors\"", "'./model.safetensors'"] {
        for (digest, code, word) in [(&right, 0, "agrees with"), (&wrong, 1, "differs from")] {
            fs::write(at.join("m/SHA256SUMS"), format!("{digest}  {name}\n")).unwrap();
            let run = run_in(at, &["hash", "m", "--files"]);
            assert!(run.code == code && run.out.contains(word), "{name}: {} {}", run.code, run.out);
        }
    }
    // One of the same name that is another file.
    model(at, "other", &qwen3(), Some(CONFIG));
    fs::write(at.join("m/SHA256SUMS"), format!("{wrong}  ../other/model.safetensors\n")).unwrap();
    let run = run_in(at, &["hash", "m", "--files"]);
    assert!(run.code == 0 && run.out.contains("it names another file"), "{}", run.out);
    fs::write(at.join("m/SHA256SUMS"), [0; 100]).unwrap();
    let run = run_in(at, &["hash", "m", "--files"]);
    assert!(run.code == 1 && run.out.contains("it is no text"), "{}", run.out);
}

#[test]
fn no_file_of_a_model_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "m", &qwen3(), Some(CONFIG));
    let names = [
        "config.json",
        "vocab.json",
        "merges.txt",
        "special_tokens_map.json",
        "preprocessor_config.json",
        "tokenizer.model",
    ];
    let tensor = "model.norm.weight";
    let calls: [&[&str]; 6] = [
        &["inspect", "m", "--html"],
        &["stats", "m", "--html"],
        &["diff", "m", "m", "--html"],
        &["hash", "m", "--write"],
        &["show", "m", tensor, "--npy"],
        &["show", "m", tensor, "--raw"],
    ];
    for name in names {
        let path = at.join("m").join(name);
        if name != "config.json" {
            fs::write(&path, "{\"a\":1}").unwrap();
        }
        let before = fs::read(&path).unwrap();
        for args in calls {
            let run = run_in(at, &[args, &[&format!("m/{name}")]].concat());
            assert_eq!(run.code, 2, "{args:?} {name}: {}{}", run.out, run.err);
            assert_eq!(fs::read(&path).unwrap(), before, "{args:?} {name}");
        }
        let within = run_in(&at.join("m"), &["stats", ".", "--html", name]);
        assert!(within.code == 2 && within.err.contains("name another file"), "{}", within.err);
    }
    // What this program wrote it may write again, and what lies elsewhere is nobody's model.
    for (args, name) in
        [(calls[1], "page.html"), (calls[0], "page.html"), (calls[3], "sums"), (calls[4], "n.npy")]
    {
        for _ in 0..2 {
            let run = run_in(at, &[args, &[&format!("m/{name}")]].concat());
            assert_eq!(run.code, 0, "{args:?} {name}: {}", run.err);
        }
    }
    fs::write(at.join("elsewhere"), "a").unwrap();
    assert_eq!(run_in(at, &["show", "m", tensor, "--raw", "elsewhere"]).code, 0);
}

#[cfg(unix)]
#[test]
fn standard_output_may_not_lead_to_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(at, "m", &qwen3(), Some(CONFIG));
    for option in ["--html", "--write"] {
        let command = if option == "--html" { "stats" } else { "hash" };
        let file = fs::File::create(at.join("x")).unwrap();
        let mut run = program();
        run.current_dir(at).args([command, "m", option, "x", "--json"]).stdout(file);
        let run = finished(run.output().unwrap());
        assert!(run.code == 2 && run.err.contains("standard output"), "{option}: {} {}", run.code, run.err);
    }
}

#[test]
fn one_long_name_does_not_widen_every_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut tensors: Vec<Tensor> = (0..50).map(|i| Tensor::new(&format!("t{i}"), &[2])).collect();
    tensors.push(Tensor::new(&"n".repeat(1 << 20), &[2]));
    model(at, "m", &tensors, None);
    for args in [&["inspect", "m", "--tensors"][..], &["stats", "m"], &["memory", "m"]] {
        let run = run_in(at, args);
        assert!(run.out.len() < 5 << 20, "{args:?}: {} bytes", run.out.len());
    }
}
