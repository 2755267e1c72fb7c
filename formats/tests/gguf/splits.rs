//! Files that are parts of one model.

use crate::build::{File, T, V, text};
use crate::{codes, findings, open_set, refused, use_all};
use scantling_core::bundle::{Bundle, Folder};
use scantling_core::source::WeightSource;
use scantling_formats::GGUF;
use std::collections::BTreeMap;
use std::sync::Arc;

type Files = BTreeMap<String, Vec<u8>>;

fn name(number: usize, count: usize) -> String {
    format!("m-{number:05}-of-{count:05}.gguf")
}

/// A set of `count` parts, two tensors in each, changed by `edit`.
fn set(count: usize, edit: impl Fn(usize, &mut File)) -> Files {
    let part = |number: usize| {
        let mut keys = vec![("general.architecture", text("x"))];
        if number > 1 {
            keys.clear();
        }
        keys.push(("split.no", V::U16(number as u16 - 1)));
        keys.push(("split.count", V::U16(count as u16)));
        keys.push(("split.tensors.count", V::I32(2 * count as i32)));
        let tensors =
            vec![T::f32(&format!("a{number}"), &[4]), T::f32(&format!("b{number}"), &[3, number as u64])];
        let mut file = File::new(keys, tensors);
        edit(number, &mut file);
        (name(number, count), file.build().bytes)
    };
    (1..=count).map(part).collect()
}

fn whole(count: usize) -> Files {
    set(count, |_, _| {})
}

fn ids(files: Files) -> Vec<&'static str> {
    let opened = open_set(&name(1, 3), files);
    codes(&opened).into_iter().map(|(id, _)| id).collect()
}

#[test]
fn any_part_opens_the_set() {
    for number in 1..=3 {
        let source = open_set(&name(number, 3), whole(3)).unwrap();
        assert!(source.findings().is_empty(), "{:?}", source.findings());
        let tensors: Vec<(&str, usize)> =
            source.tensors().tensors().iter().map(|t| (t.name.as_str(), t.shard)).collect();
        assert_eq!(tensors, [("a1", 0), ("b1", 0), ("a2", 1), ("b2", 1), ("a3", 2), ("b3", 2)]);
        let files: Vec<&str> = source.files().iter().map(|f| f.name()).collect();
        assert_eq!(files, [name(1, 3), name(2, 3), name(3, 3)]);
        assert_eq!(source.metadata().text("general.architecture"), Some("x"));
        assert_eq!(source.config().unwrap().unwrap().file(), name(1, 3));
        let b3 = source.tensors().get("b3").unwrap();
        assert_eq!(source.bytes(b3).unwrap()[4..8], 1f32.to_le_bytes());
    }
}

#[test]
fn parts_may_differ_in_byte_order_and_alignment() {
    let files = set(3, |number, file| {
        file.big = number == 2;
        if number == 1 {
            file.keys.push((b"general.alignment".to_vec(), V::U32(64)));
            file.alignment = 64;
        }
    });
    let source = open_set(&name(1, 3), files).unwrap();
    let value = |name: &str| source.bytes(source.tensors().get(name).unwrap()).unwrap()[4..8].to_vec();
    assert_eq!([value("a1"), value("a2")], [1f32.to_le_bytes(), 1f32.to_le_bytes()]);
    assert!(source.findings().iter().all(|f| f.code.id == "data-gap"));
}

#[test]
fn missing_parts_are_one_finding() {
    let mut files = whole(9);
    for gone in [1, 3, 4, 5, 8] {
        files.remove(&name(gone, 9));
    }
    let opened = open_set(&name(2, 9), files);
    let found = findings(&opened);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].code.id, "split-missing");
    assert_eq!(found[0].place.file, Some(name(1, 9)));
    assert_eq!(found[0].message, "5 of 9 parts are missing: 1, 3–5, 8, and 8 of 18 tensors are there");
    assert_eq!(opened.unwrap().tensors().len(), 8);
}

#[test]
fn contradictions_are_found() {
    fn put(file: &mut File, key: &str, value: Option<V>) {
        file.keys.retain(|(k, _)| k != key.as_bytes());
        file.keys.extend(value.map(|v| (key.as_bytes().to_vec(), v)));
    }
    let edited = |part: usize, key: &'static str, value: Option<V>| {
        ids(set(3, |n, file| {
            if n == part {
                put(file, key, value.clone());
            }
        }))
    };
    assert_eq!(edited(2, "split.no", Some(V::U16(0))), ["split-number"]);
    assert_eq!(edited(2, "split.no", None), ["split-number"]);
    assert_eq!(edited(1, "split.no", Some(text("0"))), ["split-number"]);
    assert_eq!(edited(3, "split.no", Some(V::I64(2))), [""; 0]);
    assert_eq!(edited(3, "split.count", Some(V::U16(4))), ["split-count"]);
    assert_eq!(edited(1, "split.count", Some(V::U16(0))), ["split-count"]);
    assert_eq!(edited(2, "split.tensors.count", Some(V::I32(7))), ["split-tensor-count"]);
    assert_eq!(edited(2, "split.tensors.count", Some(V::I32(-6))), ["split-tensor-count"]);
    assert_eq!(edited(2, "split.tensors.count", None), [""; 0]);
    let all = set(3, |_, file| put(file, "split.tensors.count", Some(V::I32(5))));
    assert_eq!(ids(all), ["split-tensor-count"]);
    let twice = set(3, |_, file| file.tensors[0].name = b"same".to_vec());
    assert_eq!(ids(twice), ["tensor-duplicate", "tensor-duplicate"]);
}

#[test]
fn a_damaged_part_leaves_the_others_to_be_listed() {
    let mut files = whole(3);
    files.get_mut(&name(2, 3)).unwrap().truncate(160);
    let opened = open_set(&name(3, 3), files.clone());
    let found = findings(&opened);
    assert_eq!(found.iter().map(|f| f.code.id).collect::<Vec<_>>(), ["split-damaged"]);
    assert_eq!(found[0].place.file, Some(name(2, 3)));
    assert_eq!(found[0].symptoms.last().unwrap().code.id, "gguf-truncated");
    let source = opened.unwrap();
    assert_eq!((source.tensors().len(), source.files().len()), (4, 3));
    assert_eq!(source.tensors().get("a3").unwrap().shard, 2);
    // So does damage to the part that was named, and to the first.
    assert!(open_set(&name(2, 3), files.clone()).is_ok());
    files.insert(name(1, 3), b"not it".to_vec());
    let opened = open_set(&name(1, 3), files.clone());
    assert_eq!(findings(&opened).len(), 2);
    assert_eq!(opened.unwrap().tensors().len(), 2);
    files.insert(name(3, 3), Vec::new());
    let opened = open_set(&name(1, 3), files);
    assert!(opened.is_err() && findings(&opened).len() == 3);
}

#[test]
fn names_that_are_not_a_set() {
    let lone = |keys| open_set("m.gguf", [("m.gguf".to_owned(), File::new(keys, vec![]).build().bytes)]);
    let opened = lone(vec![("split.count", V::U16(3))]);
    assert_eq!(findings(&opened)[0].code.id, "split-alone");
    assert!(!refused(&opened));
    assert!(findings(&lone(vec![("split.count", V::U16(1))])).is_empty());
    let unsplit = File::new(vec![], vec![]).build().bytes;
    assert!(findings(&open_set(&name(1, 1), [(name(1, 1), unsplit.clone())])).is_empty());
    assert!(refused(&open_set(&name(1, 2), [(name(1, 2), unsplit)])));
}

#[test]
fn no_change_of_a_byte_panics_and_every_shorter_part_is_refused() {
    let files = whole(2);
    for part in [1, 2] {
        let bytes = &files[&name(part, 2)];
        let open = |changed: Vec<u8>| {
            let mut files = files.clone();
            files.insert(name(part, 2), changed);
            let opened = open_set(&name(1, 2), files);
            if let Ok(source) = &opened {
                use_all(&**source);
            }
            opened
        };
        for at in 0..bytes.len() {
            assert!(refused(&open(bytes[..at].to_vec())), "part {part} cut to {at} bytes passes");
            for new in [0, 1, 0x7f, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80] {
                let mut changed = bytes.clone();
                changed[at] = new;
                let _ = open(changed);
            }
        }
    }
}

#[test]
fn a_folder_lists_a_set_once() {
    let mut names: Vec<String> = vec!["a.gguf".into(), "B.GGUF".into(), "config.json".into(), "gguf".into()];
    names.extend((1..=3).map(|n| name(n, 3)));
    names.extend([name(2, 4), name(4, 4)]);
    names.sort_unstable();
    let folder = Folder::Memory(Arc::default());
    let found = (GGUF.find)(&folder, &names).unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|c| (c.file.as_str(), c.what.as_str())).collect();
    let first = [name(1, 3), name(2, 4)];
    assert_eq!(
        found,
        [
            ("B.GGUF", "GGUF"),
            ("a.gguf", "GGUF"),
            (&first[0], "GGUF, 3 parts"),
            (&first[1], "GGUF, 2 of 4 parts")
        ]
    );
}

#[test]
fn siblings_can_be_read() {
    let mut files = whole(1);
    files.insert("tokenizer.json".into(), b"{}".to_vec());
    let source: Box<dyn WeightSource> = (GGUF.open)(&Bundle::in_memory(&name(1, 1), files).unwrap()).unwrap();
    assert_eq!(source.beside("tokenizer.json").unwrap().unwrap().len(), 2);
    assert!(source.beside("config.json").unwrap().is_none() && source.beside("../x").is_err());
}
