//! Files of llama.cpp's own converter, against what its Python package read from them; and the same files
//! rewritten big-endian. Found by `SCANTLING_SHARED`.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

use crate::build::{File, T, V};
use crate::open_one;
use scantling_core::bundle::Bundle;
use scantling_core::metadata::Value;
use scantling_core::source::WeightSource;
use scantling_formats::GGUF;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

fn goldens() -> Vec<PathBuf> {
    let Ok(shared) = std::env::var("SCANTLING_SHARED") else {
        println!("skipped: SCANTLING_SHARED is not set");
        return Vec::new();
    };
    let folder = Path::new(&shared).join("golden/gguf");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == "gguf")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn open(path: &Path) -> Box<dyn WeightSource> {
    (GGUF.open)(&Bundle::on_disk(path).unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A kind as the JSON names it.
fn kind(named: &str) -> String {
    let plain = |name: &str| match name {
        "STRING" => "string".to_owned(),
        "BOOL" => "bool".to_owned(),
        other => other.to_lowercase().replace("uint", "u").replace("int", "i").replace("float", "f"),
    };
    match named.strip_prefix("ARRAY/") {
        Some(element) => format!("array[{}]", plain(element)),
        None => plain(named),
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::Bool(b) => (*b).into(),
        Value::Unsigned(n) => (*n).into(),
        Value::Signed(n) => (*n).into(),
        Value::Float(x) => (*x).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(list) => Json::Array(
            value.first_items(usize::try_from(list.len()).unwrap()).unwrap().iter().map(json).collect(),
        ),
        other => panic!("{other}"),
    }
}

fn compare_value(key: &str, found: &Json, expected: &Json) {
    let Some(length) = expected.get("array_len") else {
        return assert_eq!(found, expected, "{key}");
    };
    let found = found.as_array().unwrap();
    assert_eq!(found.len() as u64, length.as_u64().unwrap(), "{key}");
    let first = expected["first"].as_array().unwrap();
    let last = expected["last"].as_array().unwrap();
    assert_eq!(&found[..first.len()], first, "{key}");
    assert_eq!(&found[found.len() - last.len()..], last, "{key}");
}

#[test]
fn goldens_are_read_as_the_reference_reads_them() {
    for path in goldens() {
        let source = open(&path);
        let facts: Json =
            serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert!(source.findings().is_empty(), "{path:?}: {:?}", source.findings());
        assert_eq!(source.format(), format!("GGUF v{}", facts["version"]));
        assert!(source.facts().contains(&("alignment", facts["alignment"].to_string())));
        let expected = facts["metadata"].as_object().unwrap();
        assert_eq!(source.metadata().len(), expected.len());
        for (key, value) in expected {
            let entry = source.metadata().entry(key).unwrap();
            assert_eq!(entry.kind, kind(value["type"].as_str().unwrap()), "{key}");
            compare_value(key, &json(&entry.value), &value["value"]);
        }
        let expected = facts["tensors"].as_array().unwrap();
        assert_eq!(source.tensors().len(), expected.len());
        for (tensor, expected) in source.tensors().tensors().iter().zip(expected) {
            assert_eq!(tensor.name, expected["name"].as_str().unwrap());
            assert_eq!(tensor.dtype.to_string(), expected["type"].as_str().unwrap());
            let shape: Vec<Json> = tensor.shape.iter().rev().map(|&d| d.into()).collect();
            assert_eq!(&shape, expected["ne"].as_array().unwrap(), "{}", tensor.name);
            let start = facts["data_offset"].as_u64().unwrap() + expected["offset"].as_u64().unwrap();
            let end = start + expected["nbytes"].as_u64().unwrap();
            assert_eq!(tensor.bytes, Some(start..end), "{}", tensor.name);
            assert_eq!(hex(&source.bytes(tensor).unwrap()), expected["sha256"].as_str().unwrap());
        }
    }
}

#[test]
fn goldens_rewritten_big_endian_hold_the_same() {
    for path in goldens() {
        let little = open(&path);
        let entries = little.metadata().entries().iter();
        let keys = entries.map(|e| (e.key.as_str(), V::from_read(&e.value, &e.kind))).collect();
        let tensors = little.tensors().tensors().iter().map(|t| {
            let dims: Vec<u64> = t.shape.iter().rev().map(|&d| d as u64).collect();
            let id = t.dtype.known().unwrap().ggml_id().unwrap();
            T::new(&t.name, &dims, id, little.bytes(t).unwrap().into_owned())
        });
        let file = File { big: true, ..File::new(keys, tensors.collect()) };
        let bytes = file.build().bytes;
        assert_ne!(bytes, std::fs::read(&path).unwrap());
        let big = open_one(bytes).unwrap();
        assert!(big.findings().is_empty(), "{path:?}: {:?}", big.findings());
        crate::roundtrip::compare(&*big, &file);
        // And the builder writes what the converter wrote.
        let again = File { big: false, ..file }.build().bytes;
        assert!(std::fs::read(&path).unwrap().starts_with(&again), "{path:?}");
    }
}
