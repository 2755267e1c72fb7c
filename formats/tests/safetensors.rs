//! The safetensors plugin: faults with their places, sets of shards, damage byte by byte, and the reference
//! reader as judge.

#[path = "safetensors/damage.rs"]
mod damage;
#[path = "safetensors/faults.rs"]
mod faults;
#[path = "safetensors/reference.rs"]
mod reference;
#[path = "safetensors/sets.rs"]
mod sets;

use scantling_core::bundle::Bundle;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Severity};
use scantling_core::source::WeightSource;
use scantling_formats::SAFETENSORS;

/// A file of a header and data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A file of F32 tensors of one number each.
fn numbers(names: &[&str]) -> Vec<u8> {
    let entry = |(i, name): (usize, &&str)| {
        format!(r#""{name}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#, i * 4, i * 4 + 4)
    };
    let entries: Vec<String> = names.iter().enumerate().map(entry).collect();
    file(&format!("{{{}}}", entries.join(",")), &vec![7; names.len() * 4])
}

/// The index of tensors with their files.
fn index(map: &[(&str, &str)], total: Option<u64>) -> Vec<u8> {
    let entries: Vec<String> = map.iter().map(|(t, f)| format!("{t:?}: {f:?}")).collect();
    let total = total.map_or(String::new(), |n| format!(r#""metadata": {{"total_size": {n}}}, "#));
    format!(r#"{{{total}"weight_map": {{{}}}}}"#, entries.join(", ")).into_bytes()
}

type Files<'a> = Vec<(&'a str, Vec<u8>)>;

fn open(name: &str, files: Files<'_>) -> Result<Box<dyn WeightSource>> {
    let files = files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes));
    (SAFETENSORS.open)(&Bundle::in_memory(name, files)?)
}

fn open_one(bytes: Vec<u8>) -> Result<Box<dyn WeightSource>> {
    open("model.safetensors", vec![("model.safetensors", bytes)])
}

/// All findings, those of a refusal too.
fn found(opened: Result<Box<dyn WeightSource>>) -> Vec<Finding> {
    match opened {
        Ok(source) => source.findings().to_vec(),
        Err(Error::Malformed { findings }) => findings,
        Err(other) => panic!("{other}"),
    }
}

/// Codes and places of findings.
fn places(findings: &[Finding]) -> Vec<(&'static str, Option<u64>)> {
    findings.iter().map(|f| (f.code.id, f.place.offset)).collect()
}

/// Whether it was opened and nothing is wrong with it.
fn accepted(opened: &Result<Box<dyn WeightSource>>) -> bool {
    opened.as_ref().is_ok_and(|s| s.findings().iter().all(|f| f.severity != Severity::Error))
}
