//! `trace`: dumps, and the first place where two runs differ, found for faults that were planted.
#![allow(clippy::disallowed_methods)] // tests read and write files

mod common;
#[allow(clippy::duplicate_mod)]
mod models;

use common::{Run, run_in, valid};
use models::testdata;
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options as KernelOptions, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::ops::{Attending, Pairing, Rotation};
use scantling_core::registry::Work;
use scantling_core::trace::{Allowance, Comparison, EXACT, Side, compare};
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};

const IDS: &str = "5,107,282,9,300,302,263,44,7,251";

fn run(args: &[&str]) -> Run {
    run_in(&testdata(""), args)
}

/// A copy of a model that faults can be planted in.
struct Planted {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Planted {
    fn new(model: &str) -> Planted {
        let folder = tempfile::tempdir().unwrap();
        let (from, path) = (testdata(model), folder.path().join(model));
        if from.is_dir() {
            std::fs::create_dir(&path).unwrap();
            for entry in std::fs::read_dir(&from).unwrap() {
                let file = entry.unwrap().path();
                std::fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
            }
        } else {
            std::fs::copy(&from, &path).unwrap();
        }
        Planted { _folder: folder, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Changes keys of the config.
    fn config(self, change: impl FnOnce(&mut Value)) -> Planted {
        let file = self.path.join("config.json");
        let mut config = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        change(&mut config);
        std::fs::write(&file, config.to_string()).unwrap();
        self
    }

    /// The file and the bytes in it of a tensor, and its shape.
    fn place(&self, tensor: &str) -> (PathBuf, Range<usize>, Vec<usize>) {
        let source = models::registry().open(&self.path).unwrap();
        let info = source.tensors().get(tensor).unwrap();
        let file = source.files()[info.shard].path().unwrap().to_owned();
        let range = info.bytes.clone().unwrap();
        (file, range.start as usize..range.end as usize, info.shape.clone())
    }

    /// Changes bytes of a tensor, given its shape.
    fn tensor(self, tensor: &str, change: impl FnOnce(&mut [u8], &[usize])) -> Planted {
        let (file, range, shape) = self.place(tensor);
        let mut bytes = std::fs::read(&file).unwrap();
        change(&mut bytes[range], &shape);
        std::fs::write(&file, bytes).unwrap();
        self
    }

    fn bytes(&self, tensor: &str) -> Vec<u8> {
        let (file, range, _) = self.place(tensor);
        std::fs::read(file).unwrap()[range].to_vec()
    }
}

/// What the program says of a model against another: the first place, its layer, token and element.
#[track_caller]
fn first(model: &str, against: &str) -> (String, Option<u64>, u64, u64) {
    let run = run(&["trace", model, "--ids", IDS, "--against", against, "--json"]);
    let document = valid(&run);
    assert_eq!((run.code, &document["within"]), (1, &Value::Bool(false)), "{}", run.err);
    let first = &document["first"];
    let number = |of: &str| first["first"][of].as_u64().unwrap();
    let name = first["name"].as_str().unwrap().to_owned();
    (name, first["layer"].as_u64(), number("token"), number("element"))
}

#[track_caller]
fn found(model: &str, against: &str, name: &str, layer: u64, token: u64) -> u64 {
    let (place, of, at, element) = first(model, against);
    assert_eq!((place.as_str(), of, at), (name, Some(layer), token));
    element
}

#[test]
fn a_tenfold_eps_is_found() {
    // Of the small qwen3 it is 1e-6, and ten times that is below the tolerance where its embeddings are.
    let faulty = Planted::new("llama-tiny").config(|c| c["rms_norm_eps"] = 1e-4.into());
    found(faulty.path(), "llama-tiny", "layers.0.input_norm", 0, 0);
}

#[test]
fn gate_and_up_swapped_are_found() {
    let faulty = Planted::new("qwen3-tiny");
    let [gate, up] = ["gate", "up"].map(|n| format!("model.layers.1.mlp.{n}_proj.weight"));
    let (was_gate, was_up) = (faulty.bytes(&gate), faulty.bytes(&up));
    let faulty = faulty.tensor(&gate, |b, _| b.copy_from_slice(&was_up));
    let faulty = faulty.tensor(&up, |b, _| b.copy_from_slice(&was_gate));
    found(faulty.path(), "qwen3-tiny", "layers.1.gate", 1, 0);
}

#[test]
fn a_missing_q_norm_is_found() {
    let one = 0x3f80u16.to_le_bytes();
    let faulty = Planted::new("qwen3-tiny").tensor("model.layers.1.self_attn.q_norm.weight", |bytes, _| {
        bytes.chunks_exact_mut(2).for_each(|b| b.copy_from_slice(&one));
    });
    found(faulty.path(), "qwen3-tiny", "layers.1.q_norm", 1, 0);
}

#[test]
fn one_corrupted_block_of_one_tensor_is_found() {
    let model = "qwen3-q4_k_m.gguf";
    let (row, mut rows) = (37, 0);
    let faulty = Planted::new(model).tensor("blk.0.ffn_up.weight", |bytes, shape| {
        rows = shape[0];
        let row_bytes = bytes.len() / shape[0];
        // Its 6-bit scales, behind the two f16.
        bytes[row * row_bytes + 4..][..12].iter_mut().for_each(|b| *b ^= 0x15);
    });
    assert!(rows > row);
    assert_eq!(found(faulty.path(), model, "layers.0.up", 0, 0), row as u64);
    let report = valid(&run(&["trace", faulty.path(), "--ids", IDS, "--against", model, "--json"]));
    let tokens = IDS.split(',').count();
    assert!(report["first"]["beyond"].as_u64().unwrap() <= tokens as u64, "only that row is off");
}

#[test]
fn a_hundredth_more_of_theta_is_found() {
    let faulty =
        Planted::new("qwen3-tiny").config(|c| c["rope_parameters"]["rope_theta"] = 1_010_000.0.into());
    found(faulty.path(), "qwen3-tiny", "layers.0.q_rope", 0, 1);
}

#[test]
fn rows_of_k_left_unpermuted_are_found() {
    let (heads, width) = (2, 20);
    let faulty = Planted::new("llama-tiny.gguf").tensor("blk.1.attn_k.weight", |bytes, shape| {
        assert_eq!(shape[0], heads * width);
        let was = bytes.to_vec();
        let row = bytes.len() / shape[0];
        for head in 0..heads {
            for i in 0..width {
                // Pairs side by side go back to where Hugging Face has them.
                let to = head * width + i % 2 * (width / 2) + i / 2;
                bytes[to * row..][..row].copy_from_slice(&was[(head * width + i) * row..][..row]);
            }
        }
    });
    found(faulty.path(), "llama-tiny", "layers.1.k", 1, 0);
}

#[test]
fn a_window_one_too_wide_is_found() {
    let windowed = |width: u64| {
        Planted::new("qwen2-tiny").config(|c| {
            c["use_sliding_window"] = true.into();
            c["sliding_window"] = width.into();
            c["max_window_layers"] = 1.into();
            c["layer_types"] = serde_json::json!(["full_attention", "sliding_attention"]);
        })
    };
    let (faulty, sound) = (windowed(5), windowed(4));
    // The first token that a window of 4 cuts is the fifth.
    found(faulty.path(), sound.path(), "layers.1.heads", 1, 4);
}

#[test]
fn a_dropped_bias_is_found() {
    let faulty = Planted::new("qwen2-tiny").tensor("model.layers.1.self_attn.k_proj.bias", |b, _| b.fill(0));
    found(faulty.path(), "qwen2-tiny", "layers.1.k", 1, 0);
}

/// A wrapper whose numbers are wrong in one way.
struct Faulty {
    inner: Box<dyn Kernel>,
    pairing: Option<Pairing>,
    scale: Option<f32>,
}

impl Kernel for Faulty {
    fn name(&self) -> String {
        format!("faulty+{}", self.inner.name())
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(self.inner.as_ref())
    }

    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let pairing = self.pairing.unwrap_or(rotation.pairing);
        self.inner.rope(x, &Rotation { pairing, ..rotation.clone() });
    }

    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let scale = self.scale.unwrap_or(how.scale);
        self.inner.attention(q, k, v, Attending { scale, ..how }, out);
    }
}

const TURNED: KernelPlugin = KernelPlugin {
    name: "turned",
    summary: "rotates pairs of neighbours",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Wrapper(|inner, _| {
        Box::new(Faulty { inner, pairing: Some(Pairing::Neighbours), scale: None })
    }),
};
inventory::submit! { TURNED }

const SCALED: KernelPlugin = KernelPlugin {
    name: "scaled",
    summary: "takes hidden / heads for the width of a head",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Wrapper(|inner, _| {
        // hidden_size 64 over 6 heads, where a head is 20 wide.
        Box::new(Faulty { inner, pairing: None, scale: Some((6.0f32 / 64.0).sqrt()) })
    }),
};
inventory::submit! { SCALED }

/// One model on two kernels, through the library.
fn on_kernels(model: &str, found: &str, expected: &str) -> Comparison {
    let registry = models::registry();
    let model = Model::load(&registry, &testdata(model), &Request::default()).unwrap();
    let kernel = |spec: &str| registry.kernel(spec, Work::Exact, &KernelOptions::default()).unwrap();
    let (found, expected) = (kernel(found), kernel(expected));
    let options = Options { context: 16, kv: KvType::F32, batch: BATCH };
    let side = |k| Side::Run(Box::new(Session::new(&model, k, options).unwrap()));
    let ids: Vec<u32> = IDS.split(',').map(|id| id.parse().unwrap()).collect();
    let (mut found, mut expected) = (side(&*found), side(&*expected));
    compare(&mut found, &mut expected, &ids, Allowance::given(EXACT)).unwrap()
}

#[test]
fn a_wrong_pairing_is_found() {
    let report = on_kernels("qwen3-tiny", "turned+scalar", "scalar");
    let first = report.first().unwrap();
    assert_eq!((first.place.to_string().as_str(), first.first.unwrap().row), ("layers.0.q_rope", 1));
}

#[test]
fn a_scale_from_hidden_over_heads_is_found() {
    let report = on_kernels("qwen3-tiny", "scaled+scalar", "scalar");
    let first = report.first().unwrap();
    // The first token sees only itself, whatever its score.
    assert_eq!((first.place.to_string().as_str(), first.first.unwrap().row), ("layers.0.heads", 1));
}

#[test]
fn both_formats_and_all_kernels_are_within_the_tolerance() {
    for family in ["qwen3", "qwen2", "llama"] {
        let (folder, file) = (format!("{family}-tiny"), format!("{family}-tiny.gguf"));
        let within = valid(&run(&["trace", &file, "--ids", IDS, "--against", &folder, "--json"]));
        assert_eq!(within["tolerance"]["share"], EXACT, "{family}");
        assert_eq!((&within["within"], &within["first"]), (&Value::Bool(true), &Value::Null), "{family}");
        assert!(within["intermediates"].as_array().unwrap().len() > 30);
        assert_eq!(within["only_found"], within["only_expected"]);
        let args = ["trace", &file, "--ids", IDS, "--against", "kernel:scalar", "--kernel", "exact"];
        let kernels = run(&args);
        assert_eq!(kernels.code, 0, "{}{}", kernels.out, kernels.err);
        assert!(
            kernels.out.contains("are within it") && kernels.out.contains("\nlayers.1.output"),
            "{}",
            kernels.out
        );
    }
}

#[test]
fn a_dump_is_read_back_and_says_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.safetensors");
    let dump = dump.to_str().unwrap();
    let written = valid(&run(&["trace", "llama-tiny", "--ids", IDS, "-o", dump, "--json"]));
    let names: Vec<&str> =
        written["intermediates"].as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("embedding", "logits"));
    assert_eq!(names[1..6].join(" "), "layers.0.input_norm layers.0.q layers.0.k layers.0.v layers.0.q_rope");
    for model in ["llama-tiny", "llama-tiny.gguf"] {
        let again = run(&["trace", model, "--against", dump]);
        assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    }
    let other = run(&["trace", "llama-tiny", "--ids", "1,2", "--against", dump]);
    assert!(other.code == 2 && other.err.contains("other tokens"), "{}", other.err);
    let faulty = Planted::new("llama-tiny").config(|c| c["rms_norm_eps"] = 1e-3.into());
    let text = run(&["trace", faulty.path(), "--against", dump, "--full"]);
    assert_eq!(text.code, 1);
    assert!(text.out.contains("first beyond it: layers.0.input_norm"), "{}", text.out);
    assert!(text.out.contains("  first: token 0, element "), "{}", text.out);
    assert!(text.out.contains("\nlayers.2.gated"), "{}", text.out);
    let loose = run(&["trace", faulty.path(), "--against", dump, "--tolerance", "1e9"]);
    assert_eq!(loose.code, 0, "{}", loose.out);
}

/// What another program may have written: few names, a batch axis, bf16, no metadata.
#[test]
fn dumps_made_elsewhere_are_compared_as_far_as_they_go() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("own.safetensors");
    assert_eq!(run(&["trace", "qwen3-tiny", "--ids", "3,4", "-o", dump.to_str().unwrap()]).code, 0);
    let source = models::registry().open(&dump).unwrap();
    let taken = |name: &str, shape: &[usize]| {
        let info = source.tensors().get(name).unwrap();
        common::Tensor {
            name: name.to_owned(),
            shape: shape.to_vec(),
            bytes: source.bytes(info).unwrap().to_vec(),
        }
    };
    let tensors = [
        taken("embedding", &[1, 2, 64]),
        taken("layers.1.output", &[2, 64]),
        common::Tensor::new("layers.0.router", &[2, 3]),
        common::Tensor::new("layers.0.q", &[2, 3]),
    ];
    let other = folder.path().join("other.safetensors");
    std::fs::write(&other, common::safetensors(&tensors, "{}")).unwrap();
    let args = ["trace", "qwen3-tiny.gguf", "--against", other.to_str().unwrap(), "--json"];
    let asked = run(&args);
    assert!(asked.code == 2 && asked.err.contains("Give --prompt or --ids"), "{}", asked.err);
    let run = run(&[&args[..], &["--ids", "3,4"]].concat());
    let report = valid(&run);
    let names: Vec<&Value> = report["intermediates"].as_array().unwrap().iter().map(|i| &i["name"]).collect();
    assert_eq!(names, ["embedding", "layers.1.output"]);
    assert_eq!(report["only_expected"], serde_json::json!(["layers.0.router"]));
    assert_eq!(report["misfits"][0]["name"], "layers.0.q");
    assert!(report["first"].is_null() && run.code == 1, "a shape that differs is beyond any tolerance");
}

#[test]
fn what_cannot_be_traced_is_told() {
    for (args, code, words) in [
        (&["trace", "qwen3-tiny", "--ids", "1"][..], 2, "--output"),
        (&["trace", "qwen3-tiny", "-o", "x"], 2, "--ids"),
        (&["trace", "qwen3-tiny", "--ids", "1", "--against", "nowhere"], 3, "nowhere"),
        (&["trace", "qwen3-tiny", "--ids", "1", "--against", "kernel:nowhere"], 2, "unknown kernel"),
        (&["trace", "qwen3-tiny", "--ids", "1", "--against", "README.md"], 3, "README.md"),
        (&["trace", "qwen3-tiny", "--ids", "999", "--against", "kernel:scalar"], 2, "ends at 330"),
    ] {
        let run = run(args);
        assert!(run.code == code && run.err.contains(words), "{args:?}: {} {}", run.code, run.err);
    }
    assert!(!Path::new("x").exists());
}

/// A dump of a model that is changed before it is written again.
fn dump_of(at: &Path, change: impl FnOnce(&mut Vec<common::Tensor>), metadata: &str) -> String {
    let dump = at.join("own.safetensors");
    assert_eq!(run(&["trace", "qwen3-tiny", "--ids", "3,4,5", "-o", dump.to_str().unwrap()]).code, 0);
    let source = models::registry().open(&dump).unwrap();
    let taken = |info: &scantling_core::index::TensorInfo| common::Tensor {
        name: info.name.clone(),
        shape: info.shape.clone(),
        bytes: source.bytes(info).unwrap().to_vec(),
    };
    let mut tensors: Vec<_> = source.tensors().tensors().iter().map(taken).collect();
    change(&mut tensors);
    let other = at.join("other.safetensors");
    std::fs::write(&other, common::safetensors(&tensors, metadata)).unwrap();
    other.to_str().unwrap().to_owned()
}

const THREE: &str = "{\"ids\":\"3,4,5\"}";

#[test]
fn what_a_trace_lacks_is_told_and_what_has_another_shape_is_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let against = |dump: &str| run(&["trace", "qwen3-tiny", "--against", dump]);
    let dump = dump_of(folder.path(), |all| all.retain(|t| t.name != "logits"), THREE);
    let told = against(&dump);
    let line = format!("intermediates, which are within it; not in {dump}: logits");
    assert!(told.code == 0 && told.out.replace("\n  ", " ").contains(&line), "{}{}", told.out, told.err);
    let ends = ["logits", "layers.1.output"];
    let dump = dump_of(folder.path(), |all| all.retain(|t| !ends.contains(&t.name.as_str())), THREE);
    let told = against(&dump);
    assert!(told.code == 1 && told.out.contains("neither the logits nor"), "{}{}", told.out, told.err);
    let flat = |all: &mut Vec<common::Tensor>| {
        let logits = all.iter_mut().find(|t| t.name == "logits").unwrap();
        logits.shape = vec![logits.shape.iter().product()];
    };
    let dump = dump_of(folder.path(), flat, THREE);
    let told = against(&dump);
    assert!(told.code == 1 && told.out.contains("logits: shape [3, 331] here, [993] there"), "{}", told.out);
    let report = valid(&run(&["trace", "qwen3-tiny", "--against", &dump, "--json"]));
    assert_eq!(
        report["misfits"],
        serde_json::json!([{"name": "logits", "found": [3, 331], "expected": [993]}])
    );
}

#[test]
fn a_trace_that_cannot_be_used_is_told_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (metadata, words) in [
        ("{\"ids\":\"3,4\"}", "has 3 rows, where one is expected for each of 2 ids"),
        ("{\"ids\":\"3,4,x\"}", "number 2 of it is \"x\""),
    ] {
        let dump = dump_of(folder.path(), |_| {}, metadata);
        let told = run(&["trace", "qwen3-tiny", "--against", &dump]);
        assert!(told.code == 3 && told.err.contains(words) && told.err.contains(&dump), "{}", told.err);
    }
    let dump = dump_of(folder.path(), |_| {}, "{}");
    let told = run(&["trace", "qwen3-tiny", "--ids", "3,4", "--against", &dump]);
    assert!(told.code == 3 && told.err.contains("has 3 rows"), "{}", told.err);
    let bytes = std::fs::read(&dump).unwrap();
    std::fs::write(&dump, &bytes[..bytes.len() / 2]).unwrap();
    let told = run(&["trace", "qwen3-tiny", "--ids", "3,4,5", "--against", &dump]);
    assert!(told.code == 3 && told.err.starts_with(&format!("error: {dump}: ")), "{}", told.err);
    let other = run(&["trace", "qwen3-tiny", "--ids", "3,4", "--against", "llama-tiny"]);
    assert!(other.err.contains("these are different families (qwen3, llama)"), "{}", other.err);
    assert_eq!(other.code, 1);
}

#[test]
fn numbers_that_are_none_are_no_agreement() {
    let nan = 0x7fc0u16.to_le_bytes();
    let faulty = Planted::new("qwen3-tiny").tensor("model.layers.1.input_layernorm.weight", |bytes, _| {
        bytes[..2].copy_from_slice(&nan);
    });
    let args = ["trace", faulty.path(), "--ids", IDS, "--against", "kernel:scalar"];
    let told = run(&args);
    assert!(
        told.code == 1 && told.out.contains("first that is not finite: layers.1.input_norm"),
        "{}",
        told.out
    );
    assert!(told.out.contains("10 of 640 elements are NaN or infinite here, 10 there"), "{}", told.out);
    assert!(told.out.contains("NOT FINITE"), "{}", told.out);
    let all = told
        .out
        .lines()
        .find(|line| line.starts_with("layers.1.output "))
        .unwrap_or_else(|| panic!("{}", told.out));
    assert!(all.contains(" - ") && !all.contains("0.00e0"), "{all}");
    let report = valid(&run(&[&args[..], &["--json"]].concat()));
    assert_eq!((&report["within"], &report["first"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(report["first_not_finite"]["name"], "layers.1.input_norm");
    let dump = faulty.path.with_extension("trace");
    let told = run(&["trace", faulty.path(), "--ids", IDS, "-o", dump.to_str().unwrap()]);
    assert!(told.code == 1 && told.err.contains("layers.1.input_norm is the first"), "{}", told.err);
    assert!(told.err.contains("(10 of 640)") && dump.exists(), "{}", told.err);
    for args in [
        &["logits", faulty.path(), "--ids", "5,6"][..],
        &["generate", faulty.path(), "--prompt", "the sea"],
        &["perplexity", faulty.path(), "--ids-file", "tokens-3"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokens-3"), "5,6,7").unwrap();
        let told = run_in(folder.path(), args);
        assert!(told.code == 1 && told.err.contains("after token "), "{args:?} {} {}", told.code, told.err);
        assert!(told.err.contains("scantling check --data"), "{}", told.err);
    }
}

#[test]
fn a_kernel_that_watches_another_tells_what_it_saw() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("ids");
    std::fs::write(&list, "5,6,7").unwrap();
    let dump = folder.path().join("dump");
    for args in [
        &["logits", "qwen3-tiny", "--ids", "5,6"][..],
        &["perplexity", "qwen3-tiny", "--ids-file", list.to_str().unwrap()],
        &["trace", "qwen3-tiny", "--ids", "5,6", "-o", dump.to_str().unwrap()],
        &["trace", "qwen3-tiny", "--ids", "5,6", "--against", "kernel:verify+scalar"],
        &["generate", "qwen3-tiny", "--prompt", "the sea", "-n", "2"],
    ] {
        let told = run(&[args, &["--kernel", "verify+scalar", "--json"]].concat());
        let document = valid(&told);
        let words = "ops, all within their bounds";
        assert!(told.err.contains("verify+scalar\n  verify: ") && told.err.contains(words), "{}", told.err);
        let report = if document["run"].is_null() { &document["report"] } else { &document["run"]["report"] };
        assert!(report[0].as_str().unwrap().ends_with(words), "{document:#}");
    }
}
