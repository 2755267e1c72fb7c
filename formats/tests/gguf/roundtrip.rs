//! What the builder writes is read back equal.

use crate::build::{File, T, V, text};
use crate::{findings, open_one};
use proptest::prelude::*;
use scantling_core::dtype::DType;
use scantling_core::source::WeightSource;

/// One value of every kind, and an array of every kind.
pub fn all_kinds() -> Vec<(&'static str, V)> {
    let numbers = |f: fn(i64) -> V| V::Array(f(0).id(), [0, 1, -1, 77].map(f).to_vec());
    vec![
        ("general.architecture", text("x")),
        ("k.u8", V::U8(255)),
        ("k.i8", V::I8(-1)),
        ("k.u16", V::U16(65535)),
        ("k.i16", V::I16(-300)),
        ("k.u32", V::U32(u32::MAX)),
        ("k.i32", V::I32(i32::MIN)),
        ("k.f32", V::F32(0.1)),
        ("k.bool", V::Bool(true)),
        ("k.text", text("väl\0 ")),
        ("k.raw", V::Text(vec![b'a', 0xff, 0xfe])),
        ("k.u64", V::U64(u64::MAX)),
        ("k.i64", V::I64(i64::MIN)),
        ("k.f64", V::F64(f64::MIN_POSITIVE)),
        ("a.u8", numbers(|n| V::U8(n as u8))),
        ("a.i8", numbers(|n| V::I8(n as i8))),
        ("a.u16", numbers(|n| V::U16(n as u16))),
        ("a.i16", numbers(|n| V::I16(n as i16))),
        ("a.u32", numbers(|n| V::U32(n as u32))),
        ("a.i32", numbers(|n| V::I32(n as i32))),
        ("a.f32", numbers(|n| V::F32(n as f32 / 3.0))),
        ("a.bool", numbers(|n| V::Bool(n == 1))),
        ("a.u64", numbers(|n| V::U64(n as u64))),
        ("a.i64", numbers(V::I64)),
        ("a.f64", numbers(|n| V::F64(n as f64 / 3.0))),
        ("a.text", V::Array(8, vec![text(""), text("a"), V::Text(vec![0x80]), text(&"long ".repeat(20))])),
        ("a.empty", V::Array(8, vec![])),
        (
            "a.nested",
            V::Array(9, vec![V::Array(8, vec![text("in")]), V::Array(9, vec![V::Array(0, vec![])])]),
        ),
    ]
}

/// Everything in a source against what was written.
pub fn compare(source: &dyn WeightSource, file: &File) {
    let read: Vec<(Vec<u8>, V)> = source
        .metadata()
        .entries()
        .iter()
        .map(|e| (e.key.as_bytes().to_vec(), V::from_read(&e.value, &e.kind)))
        .collect();
    assert_eq!(read, file.keys);
    for (entry, (_, value)) in source.metadata().entries().iter().zip(&file.keys) {
        assert_eq!(entry.kind, value.kind());
    }
    assert_eq!(source.tensors().len(), file.tensors.len());
    for (tensor, written) in source.tensors().tensors().iter().zip(&file.tensors) {
        assert_eq!(tensor.name.as_bytes(), written.name);
        assert_eq!(tensor.dtype.known().unwrap().ggml_id(), Some(written.id));
        let shape: Vec<usize> = written.dims.iter().rev().map(|&d| d as usize).collect();
        assert_eq!(tensor.shape, shape);
        assert_eq!(source.bytes(tensor).unwrap(), written.data, "{}", tensor.name);
    }
}

#[test]
fn every_kind_is_read_in_both_byte_orders() {
    for (big, version) in [(false, 2), (false, 3), (true, 3)] {
        let tensors = vec![T::f32("a", &[3, 5]), T::f32("scalar", &[]), T::f32("none", &[0, 7])];
        let file = File { big, version, ..File::new(all_kinds(), tensors) };
        let built = file.build();
        let source = open_one(built.bytes).unwrap();
        compare(&*source, &file);
        let ats: Vec<u64> = source.metadata().entries().iter().map(|e| e.at.unwrap()).collect();
        assert_eq!(ats, built.key_at);
        let ats: Vec<u64> = source.tensors().tensors().iter().map(|t| t.entry_at).collect();
        assert_eq!(ats, built.tensor_at);
        assert_eq!(source.tensors().get("a").unwrap().bytes, Some(built.data_at..built.data_at + 60));
        assert_eq!(source.format(), format!("GGUF v{version}{}", if big { " (big-endian)" } else { "" }));
        assert_eq!(source.config().unwrap().unwrap().family(), Some("x"));
        // Text that is not UTF-8, and arrays of arrays.
        let ids: Vec<&str> = source.findings().iter().map(|f| f.code.id).collect();
        assert_eq!(ids, ["gguf-string", "gguf-array"]);
    }
}

#[test]
fn every_element_type_is_read_in_both_byte_orders() {
    for big in [false, true] {
        let types = DType::all().filter_map(|d| Some((d, d.ggml_id()?)));
        let tensor = |(d, id): (DType, u32)| {
            let data = (0..2 * d.block_bytes()).map(|i| (i * 31 % 253) as u8).collect();
            T::new(d.name(), &[d.block_elements() as u64, 2], id, data)
        };
        let file = File { big, ..File::new(vec![], types.map(tensor).collect()) };
        let source = open_one(file.build().bytes).unwrap();
        assert!(source.findings().is_empty(), "{:?}", source.findings());
        compare(&*source, &file);
    }
}

/// Lengths that put the end of a buffer at every place of a text and of its length.
#[test]
fn long_arrays_of_text_are_passed_over_exactly() {
    for step in 0..40 {
        let texts: Vec<V> = (0..9000).map(|i| V::Text(vec![b'x'; (i * step) % 41])).collect();
        let more = vec![V::Text(vec![b'y'; 200_000]), text("z"), V::Text(vec![b'w'; 65_536]), text("")];
        let texts = V::Array(8, texts.into_iter().chain(more).collect());
        let shift = "s".repeat(step);
        let keys = vec![("shift", text(&shift)), ("texts", texts), ("after", V::U8(step as u8))];
        let file = File { big: step % 2 == 1, ..File::new(keys, vec![T::f32("t", &[4])]) };
        let source = open_one(file.build().bytes).unwrap();
        compare(&*source, &file);
    }
}

#[test]
fn long_arrays_of_numbers_are_read_across_buffers() {
    let wide = V::Array(10, (0..20_000u64).map(|n| V::U64(n << 40 | n)).collect());
    let narrow = V::Array(7, (0..200_000).map(|n| V::Bool(n % 3 == 0)).collect());
    for big in [false, true] {
        let keys = vec![("odd", V::U8(1)), ("wide", wide.clone()), ("narrow", narrow.clone())];
        let file = File { big, ..File::new(keys, vec![]) };
        compare(&*open_one(file.build().bytes).unwrap(), &file);
    }
}

#[test]
fn text_beyond_the_budget_stays_in_the_file() {
    let mut keys: Vec<(String, V)> = (0..20).map(|i| (format!("k{i}"), text(&"x".repeat(1 << 20)))).collect();
    keys.push(("huge".into(), text(&"x".repeat((1 << 20) + 1))));
    keys.push(("in.list".into(), V::Array(8, vec![text(&"x".repeat((1 << 20) + 1)), text("short")])));
    let keys = keys.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let source = open_one(File::new(keys, vec![]).build().bytes).unwrap();
    let long = source.metadata().entries().iter().filter(|e| matches!(e.value.kind(), "text"));
    let (long, short): (Vec<_>, Vec<_>) = long.partition(|e| e.value.to_string().starts_with("text of"));
    // 15 texts and their keys; the sixteenth would be over it by the keys.
    assert_eq!((long.len(), short.len()), (6, 15));
    let items = source.metadata().get("in.list").unwrap().first_items(2).unwrap();
    assert_eq!(
        items.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["text of 1048577 bytes", "\"short\""]
    );
    assert!(source.findings().is_empty());
}

#[test]
fn a_file_without_tensors_ends_after_its_metadata_padded_or_not() {
    for padding in [0, 1, 5, 31] {
        let mut bytes = File::new(vec![("k", text("vocabulary only"))], vec![]).build().bytes;
        let padding = padding.min(bytes.len().next_multiple_of(32) - bytes.len());
        bytes.extend(vec![0; padding]);
        assert!(findings(&open_one(bytes)).is_empty());
    }
}

fn any_value() -> impl Strategy<Value = V> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let scalar = prop_oneof![
        any::<u8>().prop_map(V::U8),
        any::<i8>().prop_map(V::I8),
        any::<u16>().prop_map(V::U16),
        any::<i16>().prop_map(V::I16),
        any::<u32>().prop_map(V::U32),
        any::<i32>().prop_map(V::I32),
        (-1e30f32..1e30).prop_map(V::F32),
        any::<bool>().prop_map(V::Bool),
        bytes.prop_map(V::Text),
        any::<u64>().prop_map(V::U64),
        any::<i64>().prop_map(V::I64),
        (-1e300f64..1e300).prop_map(V::F64),
    ];
    scalar.prop_flat_map(|v| {
        let same = V::Array(v.id(), vec![v.clone(); 3]);
        let twice = V::Array(9, vec![same.clone(), V::Array(v.id(), vec![])]);
        prop_oneof![4 => Just(v), 2 => Just(same), 1 => Just(twice)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read(
        big in any::<bool>(),
        keys in prop::collection::btree_map("[a-zäß.]{1,20}", any_value(), 0..12),
        names in prop::collection::btree_set("[a-zä.0-9]{1,20}", 0..6),
        dims in prop::collection::vec(prop::collection::vec(0u64..5, 0..5), 6),
        alignment in prop::sample::select(vec![8usize, 16, 32, 64, 256]),
    ) {
        let mut keys: Vec<(String, V)> = keys.into_iter().filter(|(k, _)| k != "general.alignment").collect();
        keys.push(("general.alignment".into(), V::U32(alignment as u32)));
        let keys = keys.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        let tensors = names.iter().zip(&dims).map(|(n, d)| T::f32(n, d)).collect();
        let file = File { big, alignment, ..File::new(keys, tensors) };
        let source = open_one(file.build().bytes).unwrap();
        compare(&*source, &file);
        prop_assert!(source.findings().iter().all(|f| f.severity < scantling_core::finding::Severity::Error));
    }
}
