//! All faults of a file are found in one run, each at its byte.

use super::{accepted, file, found, open_one, places};
use scantling_core::dtype::DType;
use scantling_core::finding::Severity;
use scantling_core::source::Confidence;
use scantling_formats::SAFETENSORS;

#[test]
fn a_good_file_reads_back() {
    let header = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},
        "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "empty":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4],"note":{"by":["a","newer"]}}}   "#;
    let data: Vec<u8> = (0..16).collect();
    let source = open_one(file(header, &data)).unwrap();
    assert!(source.findings().is_empty(), "{:?}", source.findings());
    assert_eq!(source.metadata().text("format"), Some("pt"));
    let b = source.tensors().get("b").unwrap();
    assert_eq!((b.dtype.known(), &b.shape[..]), (Some(DType::BF16), &[2, 3][..]));
    assert_eq!(b.entry_at, 8 + header.find("\"b\"").unwrap() as u64);
    assert_eq!(&*source.bytes(b).unwrap(), &data[4..]);
    let a = source.tensors().get("a").unwrap();
    assert_eq!(&*source.bytes(a).unwrap(), &data[..4]);
    assert!(source.bytes(source.tensors().get("empty").unwrap()).unwrap().is_empty());
    assert!(source.config().unwrap().is_none() && source.beside("tokenizer.json").unwrap().is_none());
    assert_eq!(source.facts()[0], ("shards", "1".to_owned()));
}

#[test]
fn every_fault_is_found_in_one_run() {
    let header = concat!(
        r#"{"kind":[1],"#,
        r#""none":{},"#,
        r#""dtype":{"dtype":7,"shape":[1],"data_offsets":[0,4]},"#,
        r#""lower":{"dtype":"bf16","shape":[2],"data_offsets":[4,8]},"#,
        r#""strange":{"dtype":"F5","shape":[2.5],"data_offsets":[8,12]},"#,
        r#""shape":{"dtype":"F32","shape":[1,-2],"data_offsets":[12,16]},"#,
        r#""range":{"dtype":"F32","shape":[1],"data_offsets":[16]},"#,
        r#""twice":{"dtype":"F32","shape":[1],"data_offsets":[16,20],"shape":[2]},"#,
        r#""same":{"dtype":"U8","shape":[1],"data_offsets":[20,21]},"#,
        r#""same":{"dtype":"U8","shape":[1],"data_offsets":[21,22]},"#,
        r#""long":{"dtype":"U8","shape":[3],"data_offsets":[22,24]},"#,
        r#""\ud800":{"dtype":"U8","shape":[1],"data_offsets":[24,25]},"#,
        r#""back":{"dtype":"U8","shape":[1],"data_offsets":[5,4]},"#,
        r#""__metadata__":{"n":1,"ok":"x"}}"#
    );
    let at = |what: &str| Some(8 + header.find(what).unwrap() as u64);
    let source = open_one(file(header, &[0; 25])).unwrap();
    let mut expected = vec![
        ("safetensors-entry", at("[1],")),
        ("safetensors-dtype", at("\"none\"")),
        ("safetensors-shape", at("\"none\"")),
        ("safetensors-offsets", at("\"none\"")),
        ("safetensors-dtype", at("7,")),
        ("safetensors-shape", at("2.5")),
        ("safetensors-shape", at("-2")),
        ("safetensors-offsets", at("[16]")),
        ("safetensors-entry", at("[2]}")),
        ("safetensors-entry", at("\\ud800").map(|n| n + 6)),
        ("safetensors-metadata", at("1,\"ok\"")),
        ("tensor-type-unknown", at("\"lower\"")),
        ("tensor-type-unknown", at("\"strange\"")),
        ("tensor-duplicate", Some(8 + header.rfind("\"same\"").unwrap() as u64)),
        ("tensor-length", at("\"long\"")),
        ("tensor-range", at("\"back\"")),
    ];
    let mut places = places(source.findings());
    expected.sort_unstable();
    places.sort_unstable();
    assert_eq!(places, expected);
    assert_eq!(source.tensors().len(), 13, "every entry is listed");
    let named = |f: &&scantling_core::finding::Finding| f.place.tensor.as_deref() == Some("lower");
    let lower = source.findings().iter().find(named).unwrap();
    assert!(lower.advice.as_deref().unwrap().contains("BF16"));
    assert!(source.findings().iter().all(|f| f.place.file.as_deref() == Some("model.safetensors")));
}

#[test]
fn a_syntax_error_ends_the_list_but_not_what_was_found() {
    let header = "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]},\n \"b\":tru}";
    let places = places(&found(open_one(file(header, &[0]))));
    let (dtype, end) = (8 + header.find("1,").unwrap() as u64, 8 + header.find("tru").unwrap() as u64 + 3);
    assert_eq!(places, [("safetensors-dtype", Some(dtype)), ("safetensors-header", Some(end))]);
}

#[test]
fn text_that_is_not_utf8_is_told_by_its_byte() {
    let mut bytes = file(r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]},"bx":0}"#, &[0]);
    let at = bytes.len() - 6;
    bytes[at] = 0xff;
    let places = places(&found(open_one(bytes)));
    assert_eq!(places[0].0, "safetensors-shape");
    assert_eq!(places[1..], [("safetensors-header", Some(at as u64))]);
}

#[test]
fn lengths_are_held_against_the_file_before_anything_is_read() {
    let with_length = |n: u64| {
        let mut bytes = super::numbers(&["a"]);
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        places(&found(open_one(bytes)))
    };
    for n in [1000, 100_000_001, 1 << 32, u64::MAX, u64::MAX - 7, i64::MAX as u64] {
        assert_eq!(with_length(n), [("safetensors-header", Some(0))], "{n}");
    }
    assert_eq!(with_length(0), [("safetensors-header", Some(8))]);
    assert_eq!(places(&found(open_one(Vec::new()))), [("safetensors-header", Some(0))]);
}

#[test]
fn white_space_around_the_header() {
    let entry = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    assert!(accepted(&open_one(file(&format!("{entry}    "), &[0]))));
    let odd = open_one(file(&format!("{entry}  \n"), &[0])).unwrap();
    let at = 8 + entry.len() as u64 + 2;
    assert_eq!(places(odd.findings()), [("safetensors-padding", Some(at))]);
    assert_eq!(odd.findings()[0].severity, Severity::Note);
    let before = open_one(file(&format!(" {entry}"), &[0])).unwrap();
    assert_eq!(places(before.findings()), [("safetensors-header", Some(8))]);
}

#[test]
fn metadata_may_be_null_and_may_not_come_twice() {
    assert!(accepted(&open_one(file(r#"{"__metadata__":null}"#, &[]))));
    let twice = r#"{"__metadata__":{"a":"1","a":"1"},"__metadata__":{"a":"2"}}"#;
    let findings = open_one(file(twice, &[])).unwrap().findings().to_vec();
    let severities: Vec<Severity> = findings.iter().map(|f| f.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error, Severity::Error]);
}

#[test]
fn an_empty_tensor_inside_another_is_refused() {
    let header = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}"#;
    let places = places(&found(open_one(file(header, &[0; 4]))));
    assert_eq!(places, [("safetensors-empty-inside", Some(8 + header.find("\"e\"").unwrap() as u64))]);
}

#[test]
fn a_type_without_a_name_is_not_passed_over() {
    let header = r#"{"a":{"dtype":"","shape":[4],"data_offsets":[0,4]}}"#;
    let at = 8 + header.find("\"\"").unwrap() as u64;
    assert_eq!(places(&found(open_one(file(header, &[0; 4])))), [("safetensors-dtype", Some(at))]);
}

#[test]
fn the_place_of_a_tensor_without_a_range_is_no_gap() {
    let header = r#"{"a":{"dtype":"U8","shape":[4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#;
    assert_eq!(places(&found(open_one(file(header, &[0; 12])))), [("safetensors-offsets", Some(9))]);
}

#[test]
fn probing() {
    let probe = |name: &str, head: &[u8]| (SAFETENSORS.probe)(name, head, head.len() as u64);
    let good = super::numbers(&["a"]);
    assert_eq!(probe("0a1b", &good), Confidence::Shape);
    assert_eq!(probe("MODEL.SafeTensors", b"short"), Confidence::Name);
    assert_eq!(probe("x.safetensors.index.json", b"\xef\xbb\xbf {"), Confidence::Shape);
    assert_eq!(probe("blob", br#"{"weight_map": {}}"#), Confidence::Shape);
    assert_eq!(probe("config.json", br#"{"model_type": "qwen3"}"#), Confidence::No);
    assert_eq!(probe("model.gguf", b"GGUF\x03\0\0\0\x7b\0\0\0\0\0\0\0"), Confidence::No);
    assert_eq!(probe("x.index.json", b""), Confidence::Name);
    assert_eq!(probe("", b""), Confidence::No);
}
