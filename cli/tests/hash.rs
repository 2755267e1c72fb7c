//! `hash`: digests that others made too, that do not depend on how a model is stored, and that formats agree on.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;

use common::{CONFIG, Run, Tensor, folder, model, qwen3, run_in, safetensors, valid};
use models::{folder_from, format, testdata};
use scantling_core::dtype::DType;
use scantling_core::hash::Digest;
use scantling_core::metadata::{Entry, Metadata, Value as Said};
use scantling_core::source::TensorSpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn hash(model: &Path, args: &[&str]) -> Run {
    run_in(Path::new("."), &[&["hash", model.to_str().unwrap()], args].concat())
}

#[track_caller]
fn document(model: &Path, args: &[&str]) -> Value {
    let run = hash(model, &[&["--json"], args].concat());
    assert_eq!(run.code, 0, "{}\n{}{}", model.display(), run.out, run.err);
    valid(&run)
}

/// Digests by name.
fn digests(document: &Value) -> BTreeMap<String, String> {
    let tensors = document["tensors"].as_array().unwrap().iter();
    tensors
        .map(|t| (t["name"].as_str().unwrap().to_owned(), t["sha256"].as_str().unwrap().to_owned()))
        .collect()
}

fn whole(model: &Path, args: &[&str]) -> String {
    document(model, args)["whole"].as_str().unwrap().to_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn entries(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|p| p.to_string_lossy().ends_with(suffix)).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    paths
}

#[test]
fn digests_of_the_goldens_are_those_that_others_made() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let golden = shared.join("golden");
    let own = |path: PathBuf, folder: &Path| (path, json(&folder.join("tensors.json")));
    let mut lists: Vec<(PathBuf, Value)> =
        entries(&golden.join("models"), "").into_iter().map(|folder| own(folder.clone(), &folder)).collect();
    // Beside the model there lies what others have decoded it to.
    let packed = entries(&golden.join("hf-quantized"), "").into_iter();
    lists.extend(packed.map(|folder| own(folder.join("model.safetensors"), &folder)));
    let files = entries(&golden.join("gguf"), ".gguf").into_iter();
    let files = files.map(|file| (file.clone(), json(&file.with_extension("json"))["tensors"].clone()));
    let mut tensors = 0;
    for (path, list) in lists.into_iter().chain(files) {
        let wanted: BTreeMap<String, String> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|t| (t["name"].as_str().unwrap().to_owned(), t["sha256"].as_str().unwrap().to_owned()))
            .collect();
        assert_eq!(digests(&document(&path, &[])), wanted, "{}", path.display());
        tensors += wanted.len();
    }
    assert!(tensors > 1800, "{tensors}");
}

#[test]
fn formats_of_a_model_agree() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let mut pairs = 0;
    for file in entries(&shared.join("golden/gguf"), ".gguf") {
        let source = json(&file.with_extension("json"))["source_model"].as_str().unwrap().to_owned();
        let folder = shared.join("golden/models").join(source);
        if !folder.exists() {
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let [hf, gguf] = [folder.as_path(), &file].map(|path| document(path, &["--semantic"]));
        assert_eq!(
            (&hf["canonical"], &gguf["canonical"]),
            (&Value::from(true), &Value::from(true)),
            "{name}"
        );
        let exact = name.contains(".bf16.") || name.contains(".f16.");
        if exact {
            assert_eq!(hf["tensors"], gguf["tensors"], "{name}");
            assert_eq!(hf["whole"], gguf["whole"], "{name}");
            pairs += 1;
        } else {
            let (hf, gguf) = (digests(&hf), digests(&gguf));
            assert_eq!(hf.keys().collect::<Vec<_>>(), gguf.keys().collect::<Vec<_>>(), "{name}");
            assert_ne!(hf, gguf, "{name}: rounded");
            assert_eq!(hf["output_norm.weight"], gguf["output_norm.weight"], "{name}");
        }
        assert_ne!(whole(&folder, &[]), whole(&file, &[]), "{name}: other names");
    }
    assert!(pairs >= 20, "{pairs}");
}

#[test]
fn semantic_digests_are_of_f32_in_the_form_of_gguf() {
    let (folder, file) = (testdata("qwen3-tiny"), testdata("qwen3-tiny.gguf"));
    let found = document(&file, &["--semantic"]);
    assert_eq!(found["tensors"], document(&folder, &["--semantic"])["tensors"]);
    for threads in ["1", "2", "3"] {
        assert_eq!(document(&file, &["--semantic", "--threads", threads])["tensors"], found["tensors"]);
    }
    // What is stored, widened here by hand: BF16 is the upper half of an f32.
    let source = models::registry().open(&file).unwrap();
    let mut tried = 0;
    for (name, digest) in digests(&found) {
        let tensor = source.tensors().get(&name).unwrap();
        let bytes = source.bytes(tensor).unwrap();
        let wide: Vec<u8> = match tensor.dtype.known().unwrap() {
            DType::F32 => bytes.to_vec(),
            DType::BF16 => bytes.chunks(2).flat_map(|b| [0, 0, b[0], b[1]]).collect(),
            DType::F16 => bytes
                .chunks(2)
                .flat_map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32().to_le_bytes())
                .collect(),
            _ => continue,
        };
        assert_eq!(digest, Digest::of(&wide).to_string(), "{name}");
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}

/// The safetensors bytes of `qwen3()`, spread over two files, back to front.
fn spread(at: &Path, tensors: &[Tensor]) -> PathBuf {
    let folder = at.join("spread");
    fs::create_dir_all(&folder).unwrap();
    let back: Vec<Tensor> = tensors.iter().rev().cloned().collect();
    let (a, b) = back.split_at(back.len() / 3);
    let mut map = serde_json::Map::new();
    for (part, file) in [(a, "model-00001-of-00002.safetensors"), (b, "model-00002-of-00002.safetensors")] {
        fs::write(folder.join(file), safetensors(part, "{}")).unwrap();
        map.extend(part.iter().map(|t| (t.name.clone(), Value::from(file))));
    }
    let index = serde_json::json!({"metadata": {"total_size": 0}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    folder
}

/// The same tensors, by the same names, in a GGUF file.
fn gguf(at: &Path, tensors: &[Tensor]) -> PathBuf {
    let mut metadata = Metadata::default();
    let value = Said::Text("nonesuch".to_owned());
    let entry = Entry { key: "general.architecture".to_owned(), value, kind: "string".to_owned(), at: None };
    metadata.push(entry).unwrap();
    let specs: Vec<TensorSpec> = tensors
        .iter()
        .map(|t| TensorSpec { name: t.name.clone(), dtype: DType::F32, shape: t.shape.clone() })
        .collect();
    let plan = format("gguf").plan.unwrap()(&metadata, &specs).unwrap();
    let mut file = vec![0; plan.len as usize];
    file[..plan.header.len()].copy_from_slice(&plan.header);
    for (offset, tensor) in plan.offsets.iter().zip(tensors) {
        file[*offset as usize..][..tensor.bytes.len()].copy_from_slice(&tensor.bytes);
    }
    let path = at.join("same.gguf");
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn the_whole_depends_on_what_is_held_alone() {
    let folder = folder();
    let at = folder.path();
    let same = whole(&at.join("good"), &[]);
    assert_eq!(whole(&spread(at, &qwen3()), &[]), same);
    assert_eq!(whole(&gguf(at, &qwen3()), &[]), same);
    for threads in ["1", "2", "3"] {
        assert_eq!(whole(&at.join("good"), &["--threads", threads]), same);
    }
    let changed = |change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut tensors = qwen3();
        change(&mut tensors);
        whole(&model(at, "changed", &tensors, None), &[])
    };
    assert_eq!(changed(&|_| {}), same);
    /// A change to the tensors of a model.
    type Change<'c> = &'c dyn Fn(&mut Vec<Tensor>);
    let changes: [Change<'_>; 5] = [
        &|t| t[4].bytes[0] ^= 1,
        &|t| t[4].name.push('x'),
        &|t| t[4].shape.reverse(),
        &|t| drop(t.pop()),
        &|t| {
            let (a, b) = (t[2].bytes.clone(), t[3].bytes.clone());
            (t[2].bytes, t[3].bytes) = (b, a);
        },
    ];
    for (i, change) in changes.into_iter().enumerate() {
        if i == 4 {
            // Two of one shape change places.
            let swapped = changed(&|t| {
                let (gate, up) = (t[9].bytes.clone(), t[10].bytes.clone());
                (t[9].bytes, t[10].bytes) = (up, gate);
            });
            assert_ne!(swapped, same);
            continue;
        }
        assert_ne!(changed(change), same, "change {i}");
    }
}

#[test]
fn a_manifest_is_a_text_that_other_programs_can_check() {
    let folder = folder();
    let at = folder.path();
    let run = run_in(at, &["hash", "good", "--write", "m"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let text = fs::read_to_string(at.join("m")).unwrap();
    let counted: String = text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    assert_eq!(Digest::of(counted.as_bytes()).to_string(), whole(&at.join("good"), &[]));
    // Again, from elsewhere: the same text.
    fs::rename(at.join("good"), at.join("moved")).unwrap();
    assert_eq!(run_in(at, &["hash", "moved", "--write", "again"]).code, 0);
    assert_eq!(fs::read_to_string(at.join("again")).unwrap(), text);
    let first = qwen3().into_iter().find(|t| t.name == "lm_head.weight").unwrap();
    assert_eq!(
        text.lines().find(|l| !l.starts_with('#')).zip(text.lines().find(|l| l.contains("lm_head"))),
        Some((
            "scantling 1 stored",
            format!("{} [\"lm_head.weight\",\"F32\",[16,8]]", Digest::of(&first.bytes)).as_str()
        ))
    );
    let run = run_in(at, &["hash", "moved", "--write", "moved/model.safetensors"]);
    assert!(run.code == 2 && run.err.contains("destroy"), "{}", run.err);
}

#[test]
fn what_differs_from_a_manifest_is_named() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run_in(at, &["hash", "good", "--write", "m", "-q"]).code, 0);
    let run = run_in(at, &["hash", "good", "--check", "m"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(
        run.out.contains("all 25 tensors of ") && run.out.contains("those of m; not looked at: "),
        "{}",
        run.out
    );
    let mut tensors = qwen3();
    tensors[3].bytes[5] ^= 0x40;
    tensors[12].shape = vec![4, 2];
    tensors.remove(7);
    tensors.push(Tensor::new("extra", &[2]));
    model(at, "changed", &tensors, Some(CONFIG));
    let run = run_in(at, &["hash", "changed", "--check", "m"]);
    assert_eq!(run.code, 1, "{}", run.out);
    for line in [
        &format!("differs  {}\n", tensors[3].name),
        "missing  model.layers.0.self_attn.k_norm.weight\n",
        "new      extra\n",
        ": shape [8] there, [4, 2] here\n",
        "4 differences of 25 tensors",
    ] {
        assert!(run.out.contains(line), "{line} is not in\n{}", run.out);
    }
    let run = run_in(at, &["hash", "changed", "--check", "m", "--json"]);
    let found = valid(&run)["against"].clone();
    let kinds: Vec<&str> =
        found["differences"].as_array().unwrap().iter().map(|d| d["kind"].as_str().unwrap()).collect();
    assert_eq!((run.code, found["same"].as_bool(), kinds.len()), (1, Some(false), 4), "{kinds:?}");
    let values = found["differences"].as_array().unwrap().iter().find(|d| d["kind"] == "values").unwrap();
    let whole = qwen3().into_iter().find(|t| t.name == tensors[3].name).unwrap();
    let digests = [&whole, &tensors[3]].map(|tensor| Digest::of(&tensor.bytes).to_string());
    assert_eq!([&values["expected"], &values["found"]], digests.each_ref().map(String::as_str));
    // Only what is asked for is held against each other.
    let some = ["hash", "changed", "--check", "m", "--include", "*norm*", "--exclude", "*k_norm*"];
    let run = run_in(at, &some);
    assert_eq!(run.code, 1, "{}", run.out);
    let run = run_in(at, &["hash", "changed", "--check", "m", "--include", "*embed*"]);
    assert!(run.code == 0 && run.out.contains("only some tensors were asked for"), "{}", run.out);
}

#[test]
fn manifests_that_cannot_be_held_against_are_told() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run_in(at, &["hash", "good", "--write", "stored"]).code, 0);
    assert_eq!(run_in(at, &["hash", "good", "--semantic", "--write", "meant"]).code, 0);
    let run = run_in(at, &["hash", "good", "--semantic", "--check", "stored"]);
    assert!(run.code == 2 && run.err.contains("stored bytes"), "{}", run.err);
    let run = run_in(at, &["hash", "good", "--check", "meant"]);
    assert!(run.code == 0 && run.out.contains("as f32 in the form of GGUF"), "{}", run.out);
    let edited = fs::read_to_string(at.join("stored")).unwrap().replace("[16,8]", "[8,16]");
    fs::write(at.join("edited"), edited).unwrap();
    let run = run_in(at, &["hash", "good", "--check", "edited"]);
    assert!(run.code == 3 && run.err.contains("its lines were changed"), "{}", run.err);
    fs::write(at.join("noise"), b"\xff\xfe").unwrap();
    for wrong in ["noise", "absent", "good/config.json"] {
        let run = run_in(at, &["hash", "good", "--check", wrong]);
        assert!(run.code == 3 && !run.err.contains("panicked"), "{wrong}: {}", run.err);
    }
    assert_eq!(run_in(at, &["hash", "good", "--files", "--semantic"]).code, 2);
}

#[test]
fn a_manifest_without_a_common_name_is_one_finding() {
    let folder = folder();
    let kept = folder.path().join("kept");
    let kept = kept.to_str().unwrap();
    assert_eq!(hash(&testdata("llama-tiny"), &["--write", kept]).code, 0);
    let run = hash(&testdata("llama-tiny.gguf"), &["--check", kept]);
    assert_eq!(run.code, 1, "{}", run.out);
    let flat = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("none of the names agree: the manifest is of stored bytes of another"), "{flat}");
    assert!(
        flat.contains("hash MODEL --semantic --write FILE") && flat.contains("(--json lists all)"),
        "{flat}"
    );
    assert!(run.out.lines().filter(|line| line.starts_with("new ")).count() == 3, "{}", run.out);
    assert!(run.out.lines().count() < 20, "{}", run.out);
    let document = valid(&hash(&testdata("llama-tiny.gguf"), &["--check", kept, "--json"]));
    assert_eq!(document["findings"][0]["code"], "hash-no-name-agrees");
    assert!(document["against"]["differences"].as_array().unwrap().len() > 20);
}

#[test]
fn what_a_manifest_held_before_is_told() {
    let folder = folder();
    let at = folder.path();
    let written = |args: &[&str]| {
        let run = run_in(at, &[&["hash", "good", "--write", "m", "--json"], args].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        valid(&run)["replaced"].clone()
    };
    assert_eq!(written(&[]), Value::Null);
    assert_eq!(written(&[]), Value::Null, "of the same kind");
    let text = run_in(at, &["hash", "good", "--write", "m", "--semantic"]);
    let note = "note: m held digests of stored bytes before, and holds digests of numbers (--semantic) now";
    assert!(text.code == 0 && text.out.contains(note), "{}", text.out);
    assert_eq!(written(&[]), "semantic");
    fs::write(at.join("m"), "no manifest").unwrap();
    assert_eq!(written(&[]), Value::Null);
}

#[test]
fn a_semantic_manifest_holds_for_the_other_format() {
    let folder = folder();
    let (hf, gguf) = (testdata("llama-tiny"), testdata("llama-tiny.gguf"));
    let kept = folder.path().join("kept");
    let kept = kept.to_str().unwrap();
    assert_eq!(hash(&hf, &["--semantic", "--write", kept]).code, 0);
    let run = hash(&gguf, &["--check", kept]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    // Patterns may be of either world.
    for include in ["*q_proj*", "*attn_q.*"] {
        let run = hash(&hf, &["--check", kept, "--include", include]);
        assert!(run.code == 0 && !run.out.contains("all 0 tensors"), "{include}: {}", run.out);
    }
    let run = hash(&hf, &["--check", kept, "--exclude", "*q_proj*"]);
    assert_eq!(run.code, 0, "{}", run.out);
    let run = hash(&testdata("qwen2-tiny.gguf"), &["--check", kept]);
    assert_eq!(run.code, 1, "{}", run.out);
}

#[test]
fn what_is_tied_or_unknown_is_said() {
    let folder = folder();
    let at = folder.path();
    let with_head = document(&at.join("good"), &["--semantic"]);
    let left = &with_head["left_out"][0];
    assert_eq!(
        (&left["names"][0], &left["wanted"]),
        (&Value::from("output.weight"), &Value::from(false)),
        "{with_head}"
    );
    let mut tensors = qwen3();
    tensors.pop();
    let without = model(at, "without", &tensors, Some(CONFIG));
    assert_eq!(
        whole(&without, &["--semantic"]),
        with_head["whole"],
        "a copy of what it is tied to changes nothing"
    );
    let mut other = qwen3();
    other.last_mut().unwrap().bytes[0] ^= 1;
    let other = model(at, "other", &other, Some(CONFIG));
    assert_ne!(whole(&other, &["--semantic"]), with_head["whole"], "one that differs does");

    let bare = model(at, "bare", &qwen3(), None);
    let run = hash(&bare, &["--semantic"]);
    assert!(run.code == 0 && run.out.contains("the family is not known"), "{}", run.out);
    assert_eq!(document(&bare, &["--semantic"])["canonical"], Value::from(false));
    // A tensor that is missing leaves no whole.
    let run = hash(&at.join("bad"), &["--semantic"]);
    assert!(run.code == 1 && run.out.contains("not hashed: blk.1.ffn_up.weight: missing"), "{}", run.out);
    assert!(run.out.contains("no digest of the whole"), "{}", run.out);
}

#[test]
fn packed_weights_are_hashed_as_what_they_make() {
    let packed = testdata("packed/fp8_tensor_inv");
    let stored = digests(&document(&packed, &[]));
    assert!(stored.contains_key("model.layers.0.self_attn.q_proj.weight_scale_inv"), "{stored:?}");
    let meant = document(&packed, &["--semantic"]);
    let q = meant["tensors"].as_array().unwrap().iter().find(|t| t["name"] == "blk.0.attn_q.weight").unwrap();
    assert_eq!(q["dtype"], "F32");
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    // Decoded by other programs; Qwen3 stores them as GGUF does.
    let decoded = shared.join("golden/hf-quantized/fp8_tensor_inv/decoded.safetensors");
    let decoded = digests(&document(&decoded, &[]));
    let own = meant["tensors"].as_array().unwrap().iter();
    let own: Vec<&str> = own.map(|t| t["sha256"].as_str().unwrap()).collect();
    let full = shared.join("golden/hf-quantized/fp8_tensor_inv/model.safetensors");
    let own_of_full = document(&full, &["--semantic"]);
    let own_of_full = digests(&own_of_full);
    assert!(!decoded.is_empty() && !own.is_empty());
    for (name, digest) in decoded {
        assert!(own_of_full.values().any(|own| *own == digest), "{name}");
    }
}

#[test]
fn a_file_that_ends_early_has_no_whole() {
    let folder = folder();
    let mut bytes = safetensors(&qwen3(), "{}");
    bytes.truncate(bytes.len() - 9);
    fs::write(folder.path().join("short.safetensors"), bytes).unwrap();
    let run = run_in(folder.path(), &["hash", "short.safetensors"]);
    assert!(
        run.code == 1
            && run.out.contains("not hashed: lm_head.weight")
            && run.out.contains("no digest of the whole"),
        "{}",
        run.out
    );
    assert_eq!(run_in(folder.path(), &["hash", "short.safetensors", "--write", "m"]).code, 1);
    assert!(!folder.path().join("m").exists());
}

#[test]
fn hostile_names_are_inert() {
    let folder = folder();
    let name = "evil\x1b[2J\u{202e}\nfake";
    model(folder.path(), "hostile", &[Tensor::new(name, &[2])], None);
    assert_eq!(run_in(folder.path(), &["hash", "hostile", "--write", "m"]).code, 0);
    let manifest = fs::read(folder.path().join("m")).unwrap();
    assert!(manifest.iter().all(|b| *b == b'\n' || (b' '..0x7f).contains(b)));
    for args in [&["hash", "hostile"][..], &["hash", "hostile", "--json"], &["hash", "good", "--check", "m"]]
    {
        let run = run_in(folder.path(), args);
        assert!(!run.out.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{}", run.out);
        assert!(!run.out.lines().any(|line| line.starts_with("fake")), "{}", run.out);
    }
    let check = run_in(folder.path(), &["hash", "hostile", "--check", "m"]);
    assert_eq!(check.code, 0, "{}", check.out);
}

#[test]
fn downloads_are_held_against_what_was_written_down() {
    let folder = folder();
    let at = folder.path();
    let file = at.join("good/model.safetensors");
    let digest = Digest::of(&fs::read(&file).unwrap()).to_string();
    let run = run_in(at, &["hash", "good", "--files"]);
    assert!(
        run.code == 0 && run.out.contains(&digest) && run.out.contains("nothing to hold them against"),
        "{}",
        run.out
    );

    // As `hf download --local-dir` leaves it: commit, digest, time.
    let notes = at.join("good/.cache/huggingface/download");
    fs::create_dir_all(&notes).unwrap();
    let note = notes.join("model.safetensors.metadata");
    let commit = "11c5a3d5811f50298f278a704980280950aedb10";
    fs::write(&note, format!("{commit}\n{digest}\n1712656091.123\n")).unwrap();
    let run = run_in(at, &["hash", "good", "--files"]);
    assert!(run.code == 0 && run.out.contains("agrees with .cache/huggingface/download/"), "{}", run.out);
    fs::write(&note, format!("{commit}\n{commit}\n1712656091.123\n")).unwrap();
    let run = run_in(at, &["hash", "good", "--files"]);
    assert!(run.code == 0 && run.out.contains("not checked") && run.out.contains("SHA-1"), "{}", run.out);
    fs::write(&note, format!("{commit}\n{}\n1712656091.123\n", digest.replace(['0', '1'], "2"))).unwrap();
    let run = run_in(at, &["hash", "good", "--files"]);
    assert!(run.code == 1 && run.out.contains("differs from .cache"), "{}", run.out);
    let document = valid(&run_in(at, &["hash", "good", "--files", "--json"]));
    assert_eq!(document["files"][0]["verdict"], "differs");
    fs::remove_file(&note).unwrap();

    let list = at.join("good/SHA256SUMS");
    fs::write(&list, format!("{}  other\n{digest} *model.safetensors\n", digest.replace('a', "b"))).unwrap();
    let run = run_in(at, &["hash", "good", "--files"]);
    assert!(run.code == 0 && run.out.contains("agrees with SHA256SUMS"), "{}", run.out);
}

#[cfg(unix)]
#[test]
fn blobs_of_the_hubs_cache_are_what_their_names_say() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    let at = folder.path();
    let bytes = fs::read(at.join("good/model.safetensors")).unwrap();
    let digest = Digest::of(&bytes).to_string();
    let cache = at.join("models--a--b");
    let snapshot = cache.join("snapshots/11c5a3d5811f50298f278a704980280950aedb10");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(cache.join("blobs")).unwrap();
    fs::write(cache.join("blobs").join(&digest), &bytes).unwrap();
    symlink(format!("../../blobs/{digest}"), snapshot.join("model.safetensors")).unwrap();
    let run = hash(&snapshot, &["--files"]);
    assert!(run.code == 0 && run.out.contains(&format!("agrees with blobs/{digest}")), "{}", run.out);
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(cache.join("blobs").join(&digest), damaged).unwrap();
    let run = hash(&snapshot, &["--files"]);
    assert!(run.code == 1 && run.out.contains("differs"), "{}", run.out);
}
