//! What every family gets for a small config in `testdata/families`, named after the family: random weights are written
//! in both formats, those of GGUF converted as the table declares it. Both must check clean and compute the same, every
//! intermediate of it, in both formats, with every exact kernel, and token by token as well as all at once.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

mod common;

use common::{EXACT, farthest, kernels, registry, session, testdata};
use scantling_core::architecture::ArchitecturePlugin;
use scantling_core::check::{self, Request, Silent};
use scantling_core::config::Config;
use scantling_core::convert::Converted;
use scantling_core::dtype::DType;
use scantling_core::index::TensorIndex;
use scantling_core::metadata::{Entry, Metadata, Value};
use scantling_core::model::{BATCH, Model};
use scantling_core::source::{Dialect, TensorSpec};
use scantling_core::table::{Absence, Conversion, Expected, TensorTable, Use};
use scantling_core::trace::{Allowance, Side, compare};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The small config of a family.
fn config_of(plugin: &ArchitecturePlugin) -> PathBuf {
    let path = testdata(&format!("families/{}.json", plugin.name));
    assert!(path.exists(), "{} has no small config: add {}", plugin.name, path.display());
    path
}

/// Even numbers around zero, the same for the same name.
fn random(name: &str, n: usize, spread: f32) -> Vec<f32> {
    let mut state =
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..n).map(|_| next() * 2.0 * spread).collect()
}

/// Whether a file of the dialect holds the row's tensors: those that must be there.
fn stored(row: &Expected) -> bool {
    row.absence == Absence::Fault
}

/// All tensors of a Hugging Face file, of a size that keeps activations from dying or exploding.
fn hugging_face(table: &TensorTable) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let mut tensors = BTreeMap::new();
    for tensor in table.named(Dialect::Hf).filter(|t| stored(t.row)) {
        let shape = tensor.lens();
        let n = shape.iter().product();
        let inputs = *tensor.row.shape.last().map(|axis| &axis.len).unwrap();
        let values = match tensor.row.usage {
            Use::Embedding => random(&tensor.name, n, 1.0),
            Use::Matrix => random(&tensor.name, n, 2.0 / (inputs as f32).sqrt()),
            Use::Scale => {
                let about = if tensor.row.conversion == Conversion::PlusOne { 0.0 } else { 1.0 };
                random(&tensor.name, n, 0.3).into_iter().map(|v| v + about).collect()
            }
            Use::Bias | Use::Helper => random(&tensor.name, n, 0.3),
        };
        tensors.insert(tensor.name, (shape, values));
    }
    tensors
}

fn write(format: &str, metadata: &Metadata, tensors: &[(String, Vec<usize>, Vec<f32>)], path: &Path) {
    let registry = registry();
    let plan = registry.formats().iter().find(|f| f.name == format).unwrap().plan.unwrap();
    let specs: Vec<TensorSpec> = tensors
        .iter()
        .map(|(name, shape, _)| TensorSpec { name: name.clone(), dtype: DType::F32, shape: shape.clone() })
        .collect();
    let plan = plan(metadata, &specs).unwrap();
    let mut file = vec![0; usize::try_from(plan.len).unwrap()];
    file[..plan.header.len()].copy_from_slice(&plan.header);
    for (at, (_, _, values)) in plan.offsets.iter().zip(tensors) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        file[usize::try_from(*at).unwrap()..][..bytes.len()].copy_from_slice(&bytes);
    }
    fs::write(path, file).unwrap();
}

/// The model in both formats.
fn both(plugin: &ArchitecturePlugin, folder: &Path) -> [PathBuf; 2] {
    let text = fs::read(config_of(plugin)).unwrap();
    let config = Config::from_json("config.json", &text).unwrap();
    let architecture = (plugin.build)(&config, &TensorIndex::default()).unwrap();
    let table = architecture.tensors();
    let all = hugging_face(table);
    let hf = folder.join("hf");
    fs::create_dir(&hf).unwrap();
    fs::write(hf.join("config.json"), &text).unwrap();
    let list: Vec<_> =
        all.iter().map(|(name, (shape, values))| (name.clone(), shape.clone(), values.clone())).collect();
    write("safetensors", &Metadata::default(), &list, &hf.join("model.safetensors"));

    let mut gguf = Vec::new();
    let source = registry().open(&hf).unwrap();
    let exact = kernels();
    let kernel = &*exact[0];
    for (i, row) in table.rows().iter().enumerate().filter(|(_, row)| stored(row) && !row.gguf.is_empty()) {
        let name = table.name(row, Dialect::Gguf);
        let numbers = Converted::of(table, i, source.as_ref(), kernel).unwrap();
        let numbers =
            numbers.unwrap_or_else(|| panic!("{}: nothing says what {name} is made of", plugin.name));
        let mut values = vec![f32::NAN; numbers.len()];
        // Two grains at a time: pieces have to fit together, too.
        let piece = 2 * numbers.grain();
        for (i, out) in values.chunks_mut(piece).enumerate() {
            numbers.read(kernel, i * piece, out);
        }
        gguf.push((name, numbers.shape().to_vec(), values));
    }
    let mut metadata = Metadata::default();
    let kind = plugin.gguf.first().copied().unwrap_or("llama").to_owned();
    let entry = Entry {
        key: "general.architecture".to_owned(),
        value: Value::Text(kind),
        kind: "string".to_owned(),
        at: None,
    };
    metadata.push(entry).unwrap();
    let file = folder.join("model.gguf");
    write("gguf", &metadata, &gguf, &file);
    [hf, file]
}

#[test]
fn every_family_is_the_same_model_in_both_formats() {
    let registry = registry();
    let kernels = kernels();
    for plugin in registry.architectures() {
        let folder = tempfile::tempdir().unwrap();
        let paths = both(plugin, folder.path());
        // The config is the same file for both: what a GGUF file says of it in its own words is the goldens' matter.
        let request = Request { config: Some(config_of(plugin)), ..Request::default() };
        for path in &paths {
            let report = check::run(&registry, path, &request, &Silent).unwrap().report;
            let errors: Vec<_> = report
                .findings
                .iter()
                .filter(|f| f.severity == scantling_core::finding::Severity::Error)
                .collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
            assert_eq!(report.model.architecture, Some(plugin.name));
        }
        let [hf, gguf] = paths.map(|path| Model::load(&registry, &path, &request).unwrap());
        if hf.decoder().is_err() {
            continue; // It is checked only.
        }
        let ids: Vec<u32> = (0..30).map(|i| i * 7 % 90 + 1).collect();
        let reference = session(&hf, &*kernels[0], 30, BATCH).feed(&ids, 30, None).unwrap();
        let reference: Vec<f64> = reference.data().iter().map(|x| f64::from(*x)).collect();
        let largest = reference.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        assert!((0.1..1e4).contains(&largest), "{}: logits of size {largest}", plugin.name);
        for kernel in &kernels {
            for model in [&hf, &gguf] {
                let found = session(model, &**kernel, 30, BATCH).feed(&ids, 30, None).unwrap();
                let (off, i) = farthest(found.data(), &reference);
                assert!(
                    off <= EXACT * largest.max(1.0),
                    "{} with {}: logit {i} is off by {off:e}",
                    plugin.name,
                    kernel.name()
                );
            }
            let side = |model| Side::Run(Box::new(session(model, &**kernel, 30, BATCH)));
            let made = compare(&mut side(&hf), &mut side(&gguf), &ids, Allowance::given(1e-4)).unwrap();
            assert!(made.holds(), "{} with {}: {made:#?}", plugin.name, kernel.name());
        }
        let mut single = session(&gguf, &*kernels[0], 30, 1);
        let single: Vec<f32> =
            ids.iter().flat_map(|id| single.feed(&[*id], 1, None).unwrap().data().to_vec()).collect();
        // Factors that follow from the length of a sequence are not those of its beginnings.
        if plugin.name != "phi3" {
            let (off, i) = farthest(&single, &reference);
            assert!(
                off <= EXACT * largest.max(1.0),
                "{}: one by one, logit {i} is off by {off:e}",
                plugin.name
            );
        }
    }
}
