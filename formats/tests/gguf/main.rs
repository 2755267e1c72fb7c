//! The GGUF reader: right files read back, wrong ones refused with all that is wrong, none panics.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod build;
mod corpus;
mod faults;
mod goldens;
mod roundtrip;
mod splits;

use scantling_core::bundle::Bundle;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Severity};
use scantling_core::source::WeightSource;
use scantling_formats::GGUF;

/// Opens a file in memory.
pub fn open_one(bytes: Vec<u8>) -> Result<Box<dyn WeightSource>> {
    open_set("model.gguf", [("model.gguf".to_owned(), bytes)])
}

/// Opens one of several files in memory.
pub fn open_set(
    name: &str,
    files: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> Result<Box<dyn WeightSource>> {
    (GGUF.open)(&Bundle::in_memory(name, files)?)
}

/// The findings of what was opened, or of the refusal.
pub fn findings(opened: &Result<Box<dyn WeightSource>>) -> Vec<Finding> {
    match opened {
        Ok(source) => source.findings().to_vec(),
        Err(Error::Malformed { findings }) => findings.clone(),
        Err(_) => Vec::new(),
    }
}

/// Whether something is wrong with it.
pub fn refused(opened: &Result<Box<dyn WeightSource>>) -> bool {
    opened.is_err() || findings(opened).iter().any(|f| f.severity == Severity::Error)
}

/// Code and offset of each finding.
pub fn codes(opened: &Result<Box<dyn WeightSource>>) -> Vec<(&'static str, u64)> {
    findings(opened).iter().map(|f| (f.code.id, f.place.offset.unwrap_or(u64::MAX))).collect()
}

/// Looks at everything that a source gives.
pub fn use_all(source: &dyn WeightSource) {
    use std::ops::ControlFlow;
    let mut shown = source.format();
    for f in source.findings() {
        shown += &f.to_string();
    }
    for entry in source.metadata().entries() {
        shown += &entry.value.to_string();
        if let scantling_core::metadata::Value::List(list) = &entry.value {
            let mut n = 0;
            let read = list.visit(&mut |_, _| {
                n += 1;
                ControlFlow::Continue(())
            });
            assert!(read.is_ok() && n == list.len());
        }
    }
    for tensor in source.tensors().tensors() {
        if let Ok(bytes) = source.bytes(tensor) {
            assert_eq!(bytes.len() as u64, tensor.byte_len());
        }
    }
    assert!(source.config().unwrap().is_some() && !source.facts().is_empty() && !shown.is_empty());
}
