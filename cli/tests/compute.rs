//! `logits` and `perplexity` of whole models, held against the reference and against each other.
#![allow(clippy::disallowed_methods)] // tests read and write files

mod common;

use common::{Run, run_in, valid};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

fn run(args: &[&str]) -> Run {
    run_in(&testdata(""), args)
}

fn ids_of(model: &str) -> (Vec<u32>, Value) {
    let expected: Value =
        serde_json::from_slice(&std::fs::read(testdata(model).join("expected.json")).unwrap()).unwrap();
    let prompts = expected["prompts"].as_array().unwrap().clone();
    let longest = prompts.into_iter().max_by_key(|p| p["ids"].as_array().unwrap().len()).unwrap();
    let ids = longest["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    (ids, longest)
}

fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The numbers of a .npy file, and its shape, read as its own documentation says.
fn npy(path: &Path) -> (Vec<f32>, Vec<usize>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
    assert!(header.contains("'descr': '<f4', 'fortran_order': False"), "{header}");
    let shape = header.split(['(', ')']).nth(1).unwrap().split(", ").map(|n| n.parse().unwrap()).collect();
    let data = bytes[10 + length..].chunks_exact(4);
    (data.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(), shape)
}

fn minus_ln_p(row: &[f32], target: u32) -> f64 {
    let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
    sum.ln() - f64::from(row[target as usize])
}

#[test]
fn logits_are_those_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let (ids, expected) = ids_of("qwen3-tiny");
    let (list, file) = (joined(&ids), folder.path().join("logits.npy"));
    for model in ["qwen3-tiny", "qwen3-tiny.gguf"] {
        let args = ["logits", model, "--ids", &list, "--all-positions", "--top", "3", "--json", "--npy"];
        let document = valid(&run(&[&args[..], &[file.to_str().unwrap()]].concat()));
        let positions = document["positions"].as_array().unwrap();
        let argmax: Vec<&Value> = positions.iter().map(|p| &p["top"][0]["id"]).collect();
        assert_eq!(argmax, expected["argmax"].as_array().unwrap().iter().collect::<Vec<_>>());
        let (numbers, shape) = npy(&file);
        let vocabulary = document["vocabulary"].as_u64().unwrap() as usize;
        assert_eq!(shape, [ids.len(), vocabulary]);
        for (i, (position, row)) in positions.iter().zip(numbers.chunks(vocabulary)).enumerate() {
            let sum = position["logsumexp"].as_f64().unwrap();
            assert!((sum - expected["logsumexp"][i].as_f64().unwrap()).abs() < 1e-5);
            for candidate in position["top"].as_array().unwrap() {
                let id = candidate["id"].as_u64().unwrap() as u32;
                let p = candidate["probability"].as_f64().unwrap();
                assert!((p.ln() + minus_ln_p(row, id)).abs() < 1e-9);
                assert_eq!(candidate["logit"].as_f64().unwrap() as f32, row[id as usize]);
            }
        }
    }
    let one = valid(&run(&["logits", "qwen3-tiny", "--ids", &list, "--json"]));
    assert_eq!(one["positions"].as_array().unwrap().len(), 1);
    assert_eq!(one["positions"][0]["top"].as_array().unwrap().len(), 10);
    let pieces = run(&["tokenize", "qwen3-tiny", "the sea", "--json"]);
    let pieces: Value = serde_json::from_str(&pieces.out).unwrap();
    let last = pieces["tokens"].as_array().unwrap().last().unwrap();
    let named = valid(&run(&["logits", "qwen3-tiny", "--prompt", "the sea", "--json"]));
    assert_eq!(
        (&named["positions"][0]["id"], &named["positions"][0]["piece"]),
        (&last["id"], &last["piece"])
    );
    assert!(named["positions"][0]["top"].as_array().unwrap().iter().all(|c| c["piece"].is_string()));
    let text = run(&["logits", "qwen3-tiny", "--prompt", "the sea"]);
    let head = format!("   id {} \"{}\"; logsumexp", last["id"], last["piece"].as_str().unwrap());
    assert!(text.out.contains(&head) && text.out.contains("PROBABILITY  PIECE"), "{}", text.out);
    let bare = folder.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(testdata("qwen3-tiny").join(file), bare.join(file)).unwrap();
    }
    let text = run(&["logits", bare.to_str().unwrap(), "--ids", "1,2"]);
    assert!(text.code == 0 && !text.out.contains("PIECE"), "{}{}", text.out, text.err);
    let none = valid(&run(&["logits", bare.to_str().unwrap(), "--ids", "1,2", "--json"]));
    assert!(none["positions"][0]["piece"].is_null());
    let text = run(&["logits", "qwen3-tiny", "--ids", &list, "--kernel", "scalar"]);
    assert!(
        text.code == 0 && text.out.starts_with("qwen3 on scalar, 1 thread\n"),
        "{}{}",
        text.out,
        text.err
    );
}

#[cfg(unix)]
#[test]
fn progress_is_shown_where_somebody_watches() {
    let folder = tempfile::tempdir().unwrap();
    let ids = folder.path().join("ids");
    std::fs::write(&ids, joined(&(1..=40).collect::<Vec<u32>>())).unwrap();
    let model = testdata("qwen3-tiny");
    let args =
        ["perplexity", model.to_str().unwrap(), "--ids-file", ids.to_str().unwrap(), "--context", "16"];
    let quiet = run(&args);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    let Some(mut command) = common::on_terminal(&args) else { return };
    let shown = common::finished(command.output().unwrap());
    assert_eq!(shown.code, 0, "{}", shown.out);
    assert!(shown.out.contains("0/4 windows") && shown.out.contains("perplexity"), "{}", shown.out);
}

#[test]
fn what_cannot_be_asked_of_logits_is_told() {
    let beyond = run(&["logits", "qwen3-tiny", "--ids", "1,331"]);
    assert!(beyond.code == 2 && beyond.err.contains("the vocabulary ends at 330"), "{}", beyond.err);
    let long = vec![1; 130];
    let long = run(&["logits", "qwen3-tiny", "--ids", &joined(&long)]);
    assert!(long.code == 0 && long.err.contains("130 tokens are more than the 128"), "{}", long.err);
    let two = run(&["logits", "qwen3-tiny", "--ids", "1", "--kernel", "scalar,exact"]);
    assert!(two.code == 2 && two.err.contains("one kernel"), "{}", two.err);
    let nowhere = run(&["logits", "qwen3-tiny", "--ids", "1", "--npy", "no/such/folder.npy"]);
    assert!(nowhere.code == 3 && nowhere.err.contains("creating"), "{}", nowhere.err);
}

/// The same numbers by way of `logits --npy`, one run to a window.
#[test]
fn perplexity_is_what_the_logits_give() {
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<u32> = (0..53u32).map(|i| (i * i * 31 + i * 7 + 3) % 331).collect();
    let list = folder.path().join("ids.json");
    std::fs::write(&list, format!("[{}]", joined(&ids))).unwrap();
    let (context, stride) = (16, 6);
    let rows = |model: &str, window: &[u32]| -> Vec<Vec<f32>> {
        let file = folder.path().join("window.npy");
        let done = run(&[
            "logits",
            model,
            "--ids",
            &joined(window),
            "--all-positions",
            "--npy",
            file.to_str().unwrap(),
        ]);
        assert_eq!(done.code, 0, "{}", done.err);
        let (numbers, shape) = npy(&file);
        numbers.chunks(shape[1]).map(<[f32]>::to_vec).collect()
    };
    let other = other_model(folder.path());
    let other = other.to_str().unwrap();
    let (mut nll, mut kl, mut agree, mut end) = (Vec::new(), Vec::new(), 0, 1);
    while end < ids.len() {
        let next = if end == 1 { context } else { (end + stride).min(ids.len()) };
        let start = next - context;
        let (own, theirs) = (rows("qwen3-tiny", &ids[start..next]), rows(other, &ids[start..next]));
        for target in end..next {
            let (own, theirs) = (&own[target - 1 - start], &theirs[target - 1 - start]);
            nll.push(minus_ln_p(own, ids[target]));
            let each = (0..331).map(|id| {
                let p = -minus_ln_p(theirs, id);
                p.exp() * (p + minus_ln_p(own, id))
            });
            kl.push(each.sum::<f64>());
            let best = |row: &[f32]| (0..331).max_by(|a, b| row[*a].total_cmp(&row[*b]));
            agree += usize::from(best(own) == best(theirs));
        }
        end = next;
    }
    assert_eq!(nll.len(), 52);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let error = |values: &[f64]| {
        let squares: f64 = values.iter().map(|v| (v - mean(values)).powi(2)).sum();
        (squares / 51.0 / 52.0).sqrt()
    };
    let args = ["perplexity", "qwen3-tiny", "--context", "16", "--stride", "6", "--json", "--ids-file"];
    let args = [&args[..], &[list.to_str().unwrap(), "--against", other]].concat();
    let found = valid(&run(&args));
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{value} {expected}");
    };
    close(&found["nll"]["value"], mean(&nll));
    close(&found["nll"]["error"], error(&nll));
    close(&found["perplexity"]["value"], mean(&nll).exp());
    close(&found["against"]["kl"]["mean"], mean(&kl));
    close(&found["against"]["kl"]["error"], error(&kl));
    close(&found["against"]["kl"]["max"], kl.iter().copied().fold(0.0, f64::max));
    close(&found["against"]["agreement"]["value"], agree as f64 / 52.0);
    assert!(mean(&kl) > 1e-3, "{}", mean(&kl));
}

/// The same model with other norms, so that its logits differ.
fn other_model(at: &Path) -> PathBuf {
    let folder = at.join("other");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(testdata("qwen3-tiny/model.safetensors"), folder.join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(testdata("qwen3-tiny/config.json")).unwrap();
    let config = config.replace("\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 1e-01");
    std::fs::write(folder.join("config.json"), config).unwrap();
    folder
}

#[test]
fn a_model_is_no_distance_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("ids.txt");
    std::fs::write(&list, "3 1 4 1 5 9 2 6 5 3 5 8 9 7 9\n3 2 3 8 4").unwrap();
    let list = list.to_str().unwrap();
    let args = ["perplexity", "llama-tiny.gguf", "--ids-file", list, "--against", "llama-tiny.gguf"];
    let found = valid(&run(&[&args[..], &["--json"]].concat()));
    let against = &found["against"];
    assert_eq!((&found["tokens"], &found["windows"]), (&19.into(), &1.into()));
    for figure in ["mean", "error", "median", "percentile_99", "max"] {
        assert_eq!(against["kl"][figure], 0.0, "{figure}");
    }
    assert_eq!(against["agreement"]["value"], 1.0);
    assert_eq!(against["perplexity"], found["perplexity"]);
    let text = run(&args);
    assert!(text.out.contains("same likeliest token") && text.out.contains("100.000%"), "{}", text.out);
}

#[test]
fn what_is_no_text_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ids");
    let told = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let run = run(&[&["perplexity", "qwen3-tiny", "--ids-file", file.to_str().unwrap()], more].concat());
        (run.code, run.err)
    };
    for (text, more, code, words) in [
        ("1", &[][..], 2, "2 are the least"),
        ("[1, 2, x]", &[], 3, "number 2 of it is \"x\""),
        ("1 2 999", &[], 2, "token 2 is id 999"),
        ("1 2 3", &["--context", "8", "--stride", "8"], 2, "0 < stride < context"),
        ("1 2 3", &["--against", "no-such-model"], 3, "no-such-model"),
    ] {
        let (found, err) = told(text, more);
        assert!(found == code && err.contains(words), "{found} {err}");
    }
    assert_eq!(run(&["perplexity", "qwen3-tiny", "--ids-file", "no-such-file"]).code, 3);
}

/// A copy of a small model that may be harmed.
fn copy_of(model: &str, at: &Path) -> PathBuf {
    let folder = at.join(model);
    std::fs::create_dir_all(&folder).unwrap();
    for entry in std::fs::read_dir(testdata(model)).unwrap() {
        let file = entry.unwrap().path();
        std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    folder
}

#[cfg(unix)]
#[test]
fn nothing_that_is_read_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let model = copy_of("qwen3-tiny", folder.path());
    let dump = folder.path().join("dump.safetensors");
    let (model, dump) = (model.to_str().unwrap(), dump.to_str().unwrap());
    assert_eq!(run(&["trace", model, "--ids", "1,2", "-o", dump]).code, 0);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(format!("{model}/model.safetensors"), &link).unwrap();
    let own = ["model.safetensors", "config.json", "tokenizer.json"].map(|name| format!("{model}/{name}"));
    let before: Vec<_> = own.iter().map(|file| std::fs::read(file).unwrap()).collect();
    for target in own.iter().map(String::as_str).chain([link.to_str().unwrap()]) {
        for args in
            [&["logits", model, "--ids", "1", "--npy", target], &["trace", model, "--ids", "1", "-o", target]]
        {
            let told = run(args);
            assert!(told.code == 2 && told.err.contains("name another file"), "{args:?} {}", told.err);
        }
    }
    let was = std::fs::read(dump).unwrap();
    let told = run(&["trace", model, "--against", dump, "-o", dump]);
    assert!(told.code == 2 && told.err.contains("name another file"), "{}", told.err);
    assert_eq!(std::fs::read(dump).unwrap(), was);
    let after: Vec<_> = own.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(before == after);
}

#[cfg(unix)]
#[test]
fn a_file_that_is_interrupted_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("logits.npy");
    let many = joined(&vec![1; 50_000]);
    for signal in ["-INT", "-TERM"] {
        let mut child = common::program()
            .current_dir(testdata(""))
            .args([
                "logits",
                "qwen3-tiny",
                "--ids",
                &many,
                "--all-positions",
                "--npy",
                target.to_str().unwrap(),
            ])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while std::fs::read_dir(folder.path()).unwrap().count() == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it wrote");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
