//! The plugins by way of the library: found in the registry, and right about good and bad files.

use crate::model::{self, Named, tensors, toytensors};
use scantling_core::bundle::Bundle;
use scantling_core::check::{self, Request, Silent};
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Part, Severity};
use scantling_core::metadata::Metadata;
use scantling_core::registry::Registry;
use scantling_core::report::Report;
use scantling_core::source::{TensorSpec, WeightSource};

fn open(bytes: Vec<u8>) -> Result<Box<dyn WeightSource>> {
    let bundle = Bundle::in_memory("model.toytensors", [("model.toytensors".to_owned(), bytes)])?;
    Registry::linked()?.open_bundle(&bundle)
}

/// Writes a model to a folder and checks all of it.
fn check_as(name: &str, weights: &[u8]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    model::write(folder.path(), name, weights);
    let request = Request {
        parts: Part::ALL.to_vec(),
        architecture: None,
        config: None,
        identity: true,
        must_check: true,
    };
    let registry = Registry::linked().unwrap();
    check::run(&registry, folder.path(), &request, &Silent).unwrap().report
}

fn check(weights: &[u8]) -> Report {
    check_as("model.toytensors", weights)
}

/// Findings that are errors, as a person reads them, with what follows from each.
fn errors(report: &Report) -> Vec<String> {
    let errors = report.findings.iter().filter(|f| f.severity == Severity::Error);
    errors.flat_map(|f| std::iter::once(f).chain(&f.symptoms)).map(ToString::to_string).collect()
}

#[test]
fn both_are_registered() {
    let registry = Registry::linked().unwrap();
    assert!(registry.formats().iter().any(|f| f.name == "toytensors"));
    assert_eq!(registry.architecture("toymlp").unwrap().model_types, ["toymlp"]);
    assert_eq!(registry.code("toytensors-header").unwrap().part, Part::Container);
}

/// Format and architecture know nothing of each other.
#[test]
fn a_good_model_is_clean_in_every_format() {
    for (name, weights) in model::in_every_format(&tensors()) {
        let report = check_as(name, &weights);
        assert_eq!(errors(&report), [""; 0], "{name}");
        assert_eq!(report.model.architecture, Some("toymlp"), "{name}");
        assert_eq!(report.counts.expected, Some(6), "{name}");
        assert_eq!(report.counts.stored, 2 * 20 + 4 * 64, "{name}");
    }
    assert_eq!(check(&toytensors(&tensors())).container.format, "toytensors v1");
}

#[test]
fn values_are_those_of_the_file() {
    let source = open(toytensors(&tensors())).unwrap();
    let tensor = source.tensors().get("layers.1.up.weight").unwrap();
    let bytes = source.bytes(tensor).unwrap();
    assert_eq!(bytes.len(), 4 * 64);
    assert_eq!(bytes[4..8], 0.125f32.to_le_bytes());
}

#[test]
fn each_missing_tensor_is_named() {
    for i in 0..tensors().len() {
        let mut rest = tensors();
        let (name, _) = rest.remove(i);
        let errors = errors(&check(&toytensors(&rest)));
        assert!(errors.iter().any(|e| e.contains(&name)), "{name}: {errors:?}");
    }
}

#[test]
fn a_wrong_shape_says_what_it_follows_from() {
    let mut wrong = tensors();
    wrong[1].1 = vec![15, 4];
    let errors = errors(&check(&toytensors(&wrong)));
    let told = |e: &String| e.contains("layers.0.up.weight") && e.contains("4 × hidden_size = 16");
    assert!(errors.iter().any(told), "{errors:?}");
}

#[test]
fn a_cut_in_the_data_names_the_tensor_and_one_in_the_header_the_byte() {
    let whole = toytensors(&tensors());
    let errors = errors(&check(&whole[..whole.len() - 1]));
    assert!(errors.iter().any(|e| e.contains("head.weight: lies past the end of the file")), "{errors:?}");

    let header = whole.len() - 4 * (2 * 20 + 4 * 64);
    for len in 4..header {
        match open(whole[..len].to_vec()) {
            Err(Error::Malformed { findings }) => {
                assert_eq!(findings[0].code.id, "toytensors-header", "{len}");
                assert!(findings[0].place.offset.is_some_and(|at| at <= len as u64), "{len}");
            }
            other => panic!("{len} bytes: {:?}", other.map(|s| s.format())),
        }
    }
}

/// Any byte may be anything: a file is refused or opened, and nothing panics.
#[test]
fn no_change_of_a_byte_panics() {
    let whole = toytensors(&tensors());
    let mut opened = 0;
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Ok(source) = open(changed) {
                opened += 1;
                for tensor in source.tensors().tensors() {
                    let _ = source.bytes(tensor);
                }
            }
        }
    }
    assert!(opened > whole.len());
}

#[test]
fn what_is_planned_reads_back() {
    let registry = Registry::linked().unwrap();
    let format = registry.formats().iter().find(|f| f.name == "toytensors").unwrap();
    let spec = |(name, shape): Named| TensorSpec { name, dtype: DType::F32, shape };
    let specs: Vec<TensorSpec> = tensors().into_iter().map(spec).collect();
    let plan = format.plan.unwrap()(&Metadata::default(), &specs).unwrap();
    let mut file = plan.header;
    file.resize(plan.len as usize, 0);
    let source = open(file).unwrap();
    assert!(source.findings().is_empty());
    for (spec, offset) in specs.iter().zip(plan.offsets) {
        let tensor = source.tensors().get(&spec.name).unwrap();
        assert_eq!(tensor.shape, spec.shape);
        assert_eq!(tensor.bytes.as_ref().map(|range| range.start), Some(offset));
    }

    let quantised = TensorSpec { name: "q".into(), dtype: DType::Q4_0, shape: vec![32] };
    assert!(matches!(format.plan.unwrap()(&Metadata::default(), &[quantised]), Err(Error::Usage(_))));
}
