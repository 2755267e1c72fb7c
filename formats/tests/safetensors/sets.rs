//! Sets of shards, by index and by number, whole and broken; and what is seen in a folder.

use super::{Files, accepted, file, found, index, numbers, open, places};
use scantling_core::bundle::Folder;
use scantling_core::error::Error;
use scantling_core::finding::{Finding, Severity};
use scantling_formats::SAFETENSORS;
use std::sync::Arc;

const INDEX: &str = "model.safetensors.index.json";

fn shard(number: usize, of: usize) -> String {
    format!("model-{number:05}-of-{of:05}.safetensors")
}

/// Three shards of two tensors each, with a right index.
fn set() -> (Vec<String>, Vec<(String, Vec<u8>)>) {
    let names: Vec<String> = (1..=3).map(|i| shard(i, 3)).collect();
    let tensors = [["a", "b"], ["c", "d"], ["e", "f"]];
    let map: Vec<(&str, &str)> =
        tensors.iter().zip(&names).flat_map(|(t, n)| t.map(|t| (t, n.as_str()))).collect();
    let mut files = vec![(INDEX.to_owned(), index(&map, Some(24)))];
    files.extend(names.iter().zip(tensors).map(|(n, t)| (n.clone(), numbers(&t))));
    files.push(("config.json".to_owned(), br#"{"model_type":"qwen3"}"#.to_vec()));
    (names, files)
}

fn borrowed(files: &[(String, Vec<u8>)]) -> Files<'_> {
    files.iter().map(|(n, b)| (n.as_str(), b.clone())).collect()
}

fn ids(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|f| f.code.id).collect()
}

#[test]
fn a_whole_set_by_its_index_and_by_a_shard() {
    let (names, files) = set();
    let source = open(INDEX, borrowed(&files)).unwrap();
    assert!(source.findings().is_empty(), "{:?}", source.findings());
    let shards: Vec<&str> = source.files().iter().map(|f| f.name()).collect();
    assert_eq!(shards, names);
    assert_eq!(source.tensors().get("d").unwrap().shard, 1);
    assert_eq!(source.tensors().len(), 6);
    assert_eq!(source.config().unwrap().unwrap().family(), Some("qwen3"));
    assert!(source.beside(INDEX).unwrap().is_some());
    let by_shard = open(&names[1], borrowed(&files)).unwrap();
    assert_eq!(by_shard.tensors().len(), 6);
    assert_eq!(ids(by_shard.findings()), ["shard-of-set"]);
    assert_eq!(by_shard.findings()[0].severity, Severity::Note);
}

#[test]
fn missing_shards_are_one_finding() {
    let names: Vec<String> = (1..=400).map(|i| shard(i, 400)).collect();
    let tensors: Vec<String> = (0..4000).map(|i| format!("t{i}")).collect();
    let map: Vec<(&str, &str)> =
        tensors.iter().enumerate().map(|(i, t)| (t.as_str(), names[i / 10].as_str())).collect();
    let first: Vec<&str> = tensors[..10].iter().map(String::as_str).collect();
    let files = vec![(INDEX, index(&map, None)), (names[0].as_str(), numbers(&first))];
    let source = open(INDEX, files).unwrap();
    assert_eq!(ids(source.findings()), ["shard-missing"]);
    let message = &source.findings()[0].message;
    for part in ["399 of 400 shards missing", &names[1], "and 396 more", "2–400", "3,990 tensors"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(source.tensors().len(), 10);
}

#[test]
fn a_set_of_which_nothing_is_left_is_refused() {
    let map = [("a", "x.safetensors"), ("b", "../y.safetensors"), ("c", "/dev/zero"), ("d", "z.safetensors")];
    let files = vec![(INDEX, index(&map, None)), ("z.safetensors", b"nothing".to_vec())];
    match open(INDEX, files) {
        Err(Error::Malformed { findings }) => {
            let mut ids = ids(&findings);
            ids.sort_unstable();
            assert_eq!(ids, ["shard-damaged", "shard-missing", "shard-name", "shard-name"]);
        }
        other => panic!("{:?}", other.map(|s| s.findings().to_vec())),
    }
}

#[test]
fn a_damaged_shard_says_why() {
    let (names, mut files) = set();
    files[2].1.truncate(40);
    let lfs = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    files[3].1 = lfs.to_vec();
    let source = open(INDEX, borrowed(&files)).unwrap();
    assert_eq!(ids(source.findings()), ["shard-damaged", "shard-damaged"]);
    let [cut, pointer] = source.findings() else { panic!() };
    assert_eq!(cut.place.file.as_ref(), Some(&names[1]));
    assert_eq!(places(&cut.symptoms), [("safetensors-header", Some(0))]);
    assert!(cut.message.contains("2 tensors"));
    assert!(pointer.message.contains("Git LFS") && pointer.place.file.as_ref() == Some(&names[2]));
}

#[test]
fn index_and_shards_are_held_against_each_other() {
    let (one, two) = (shard(1, 2), shard(2, 2));
    let map = [("a", &*one), ("b", &one), ("ghost", &one), ("c", &one), ("both", &two)];
    let text = index(&map, Some(99));
    let files = vec![
        (INDEX, text.clone()),
        (&one, numbers(&["a", "b", "both"])),
        (&two, numbers(&["c", "both", "extra"])),
    ];
    let source = open(INDEX, files).unwrap();
    let at = |what: &str| Some(String::from_utf8_lossy(&text).find(what).unwrap() as u64);
    let mut places = places(source.findings());
    places.sort_unstable();
    let entry = |name: &str| source.tensors().get(name).unwrap().entry_at;
    let second = source.tensors().tensors().iter().rfind(|t| t.name == "both").unwrap().entry_at;
    let mut expected = vec![
        ("index-tensor-elsewhere", at("\"c\"")),
        ("index-tensor-missing", at("\"ghost\"")),
        ("index-tensor-unlisted", Some(entry("extra"))),
        ("index-total-size", at("99")),
        ("tensor-duplicate", Some(second)),
    ];
    expected.sort_unstable();
    assert_eq!(places, expected);
}

#[test]
fn an_index_with_faults_of_its_own() {
    let one = "one.safetensors";
    let text =
        br#"{"metadata":{"total_size":"4"},"weight_map":{"a":"one.safetensors","a":"one.safetensors","b":3,
        "a":"two.safetensors","\ud800":"one.safetensors"}}"#;
    let files = vec![(INDEX, text.to_vec()), (one, numbers(&["a"]))];
    let source = open(INDEX, files).unwrap();
    let all: Vec<_> = source.findings().iter().map(|f| (f.code.id, f.severity)).collect();
    let expected = [
        ("index-total-size", Severity::Warning),
        ("index-duplicate", Severity::Warning),
        ("index-entry", Severity::Error),
        ("index-duplicate", Severity::Error),
        ("index-entry", Severity::Error),
        ("shard-missing", Severity::Error),
    ];
    assert_eq!(all, expected);
    let syntax = found(open(INDEX, vec![(INDEX, br#"{"weight_map":{"a" 1}}"#.to_vec())]));
    assert_eq!(places(&syntax), [("index-invalid", Some(19))]);
    let twice = br#"{"weight_map":{"a":"one.safetensors"},"weight_map":{}}"#.to_vec();
    assert!(!accepted(&open(INDEX, vec![(INDEX, twice), (one, numbers(&["a"]))])));
}

#[test]
fn the_index_of_a_pickled_model_is_foreign() {
    let name = "pytorch_model.bin.index.json";
    let map = [("a", "pytorch_model-00001-of-00001.bin")];
    match open(name, vec![(name, index(&map, None))]) {
        Err(Error::Foreign { what, .. }) => assert!(what.contains("pickled")),
        other => panic!("{:?}", other.map(|s| s.findings().to_vec())),
    }
}

#[test]
fn numbered_shards_without_an_index() {
    let (names, files) = set();
    let source = open(&names[2], borrowed(&files[1..])).unwrap();
    assert_eq!(ids(source.findings()), ["index-missing"]);
    assert_eq!(source.tensors().len(), 6);
    let source = open(&names[2], borrowed(&files[3..])).unwrap();
    assert_eq!(ids(source.findings()), ["index-missing", "shard-missing"]);
    let message = &source.findings()[1].message;
    assert!(message.contains("2 of 3 shards missing") && message.contains("1–2"), "{message}");
    // A number of digits that speaks of a billion files costs nothing.
    let huge = "m-000000002-of-999999999.safetensors";
    let source = open(huge, vec![(huge, numbers(&["a"]))]).unwrap();
    assert!(source.findings()[1].message.contains("999,999,998 of 999,999,999"));
    // Some writers begin at 0.
    let zero = vec![("m-0-of-2.safetensors", numbers(&["a"])), ("m-1-of-2.safetensors", numbers(&["b"]))];
    assert_eq!(ids(open("m-1-of-2.safetensors", zero).unwrap().findings()), ["index-missing"]);
}

#[test]
fn an_index_that_names_too_few_numbers() {
    let name = shard(1, 2);
    let files = vec![(INDEX, index(&[("a", &name)], None)), (&*name, numbers(&["a"]))];
    assert_eq!(ids(open(INDEX, files).unwrap().findings()), ["shard-numbering"]);
}

#[test]
fn a_broken_index_beside_a_shard_is_reported() {
    let (names, mut files) = set();
    files[0].1.truncate(30);
    let source = open(&names[0], borrowed(&files)).unwrap();
    assert_eq!(ids(source.findings()), ["index-invalid"]);
    assert_eq!(source.tensors().len(), 6);
}

#[test]
fn findings_beyond_the_bound_are_counted_over_all_shards() {
    let bad: Vec<String> = (0..1500).map(|i| format!(r#""t{i}":1"#)).collect();
    let part = || file(&format!("{{{}}}", bad.join(",")), &[]);
    let (one, two) = (shard(1, 2), shard(2, 2));
    let source = open(&one, vec![(&*one, part()), (&*two, part())]).unwrap();
    let entries: Vec<_> = source.findings().iter().filter(|f| f.code.id == "safetensors-entry").collect();
    assert_eq!(entries.len(), 1001);
    assert_eq!(entries[1000].message, "and 2000 more like it");
}

#[test]
fn metadata_of_all_shards_is_one() {
    let (one, two) = (shard(1, 2), shard(2, 2));
    let part = |text: &str| file(&format!(r#"{{"__metadata__":{text}}}"#), &[]);
    let files = vec![(&*one, part(r#"{"format":"pt"}"#)), (&*two, part(r#"{"format":"tf","by":"me"}"#))];
    let source = open(&one, files).unwrap();
    assert_eq!(source.metadata().text("format"), Some("pt"));
    assert_eq!(source.metadata().text("by"), Some("me"));
}

/// The candidates in a folder.
fn seen(files: Files<'_>) -> Vec<String> {
    let files = files.into_iter().map(|(n, b)| (n.to_owned(), Arc::from(b))).collect();
    let folder = Folder::Memory(Arc::new(files));
    let names = folder.names().unwrap();
    (SAFETENSORS.find)(&folder, &names).unwrap().into_iter().map(|c| c.file).collect()
}

#[test]
fn what_is_seen_in_a_folder() {
    let one = |name| (name, numbers(&["a"]));
    assert_eq!(seen(vec![one("model.safetensors"), ("config.json", b"{}".to_vec())]), ["model.safetensors"]);
    assert_eq!(seen(vec![one("ADAPTER.SafeTensors"), one("._x.safetensors")]), ["ADAPTER.SafeTensors"]);
    assert_eq!(seen(vec![one("a.safetensors"), one("b.safetensors")]), ["a.safetensors", "b.safetensors"]);
    assert_eq!(seen(vec![one("consolidated.safetensors"), one("model.safetensors")]), ["model.safetensors"]);
    assert_eq!(seen(vec![one("consolidated.safetensors")]), ["consolidated.safetensors"]);
    let (names, files) = set();
    assert_eq!(seen(borrowed(&files)), [INDEX]);
    assert_eq!(seen(borrowed(&files[1..])), [names[0].clone()]);
    let mut with_single = borrowed(&files);
    with_single.extend([one("model.safetensors"), one("consolidated.safetensors")]);
    assert_eq!(seen(with_single.clone()), ["model.safetensors"]);
    let source = open("model.safetensors", with_single).unwrap();
    assert_eq!(ids(source.findings()), ["index-ignored"]);
    assert_eq!((source.findings()[0].severity, source.tensors().len()), (Severity::Note, 1));
    let map = index(&[("a", "sub/one.safetensors"), ("b", "two.safetensors")], None);
    let odd = vec![(INDEX, map), ("sub/one.safetensors", numbers(&["a"])), one("two.safetensors")];
    assert_eq!(seen(odd), [INDEX]);
    assert_eq!(seen(vec![(INDEX, b"not JSON".to_vec()), one("x-1-of-2.safetensors")]).len(), 2);
}
