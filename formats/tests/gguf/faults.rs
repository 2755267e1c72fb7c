//! Wrong files: every fault in one run, at the right byte; no change of a byte makes the reader panic.

use crate::build::{File, T, V, text};
use crate::roundtrip::all_kinds;
use crate::{codes, findings, open_one, refused, use_all};
use scantling_core::error::Error;
use scantling_core::finding::Severity;

fn small() -> File {
    File::new(all_kinds(), vec![T::f32("a.weight", &[3, 2]), T::new("b", &[32], 8, vec![7; 34])])
}

#[test]
fn no_change_of_a_byte_panics() {
    for big in [false, true] {
        let bytes = File { big, ..small() }.build().bytes;
        assert!(!refused(&open_one(bytes.clone())));
        for at in 0..bytes.len() {
            let was = bytes[at];
            for new in [0, 1, 9, 0x7f, 0x80, 0xff, was ^ 1, was ^ 0x80, was.wrapping_add(1)] {
                let mut changed = bytes.clone();
                changed[at] = new;
                if let Ok(source) = open_one(changed) {
                    use_all(&*source);
                }
            }
        }
    }
}

#[test]
fn every_shorter_file_is_refused() {
    for big in [false, true] {
        let built = File { big, ..small() }.build();
        for len in 0..built.bytes.len() {
            let opened = open_one(built.bytes[..len].to_vec());
            assert!(refused(&opened), "{len} of {} bytes pass", built.bytes.len());
            // Past the mark, a short file is a damaged one, and the last finding is about its end.
            if len >= 4 {
                let last = findings(&opened).pop().unwrap_or_else(|| panic!("{len} bytes: no finding"));
                assert!(last.place.offset.is_some_and(|at| at <= len as u64), "{len}: {last}");
                assert!(last.expected.is_some() && last.found.is_some(), "{len}: {last}");
            }
            if let Ok(source) = opened {
                use_all(&*source);
            }
        }
    }
}

#[test]
fn all_faults_are_found_in_one_run_at_their_bytes() {
    let mut file = File::new(
        vec![
            ("general.alignment", V::U64(32)),
            ("dup", V::U8(1)),
            ("dup", text("two")),
            ("", V::U8(1)),
            ("bad.utf8", V::Text(vec![0xff])),
            ("nested", V::Array(9, vec![])),
            ("last", V::Bool(true)),
        ],
        vec![
            T::f32("fine", &[8]),
            T::f32("rank", &[1, 1, 1, 1, 8]),
            T::new("removed", &[32], 4, vec![]),
            T::new(&"n".repeat(65), &[8], 24, vec![1; 8]),
            T::f32("fine", &[8]),
            T { offset: Some(1), ..T::new("off", &[8], 24, vec![1; 8]) },
            T::new("partial", &[31], 8, vec![1; 34]),
            T::f32("none", &[1 << 63, 0]),
        ],
    );
    file.keys.push((vec![b'k', 0xff], V::Bool(false)));
    file.tensors[6].name = vec![0xc0, b'x'];
    let built = file.build();
    let mut bytes = built.bytes.clone();
    // The last byte before the second but last key is the value of "last".
    let bool_at = built.key_at[7] - 1;
    bytes[bool_at as usize] = 2;
    let opened = open_one(bytes);
    let at = |i: usize| built.tensor_at[i];
    let expected = [
        ("gguf-key-duplicate", built.key_at[2]),
        ("gguf-name", built.key_at[3]),
        ("gguf-string", built.key_at[4] + 8 + 8 + 4),
        ("gguf-array", built.key_at[5] + 8 + 6 + 4),
        ("gguf-metadata", bool_at),
        ("gguf-name", built.key_at[7]),
        ("gguf-alignment", built.key_at[0]),
        ("gguf-tensor-entry", at(1) + 8 + 4),
        ("gguf-name", at(3)),
        ("gguf-name", at(6)),
        ("gguf-tensor-entry", at(7) + 8 + 4),
        ("gguf-order", at(5)),
        ("tensor-type-unknown", at(2)),
        ("tensor-duplicate", at(4)),
        ("tensor-misaligned", at(5)),
        ("tensor-size", at(6)),
        ("tensors-overlap", built.data_at + 1),
        // The place of "partial", whose size cannot be told.
        ("data-gap", built.data_at + 128),
    ];
    assert_eq!(codes(&opened), expected, "{:#?}", findings(&opened));
    let source = opened.unwrap();
    use_all(&*source);
    assert_eq!(source.tensors().len(), 8);
    assert_eq!(source.tensors().tensors()[6].name, "\\xc0x");
    assert_eq!(source.metadata().entries().last().unwrap().key, "k\\xff");
    let removed = findings(&Ok(source)).into_iter().find(|f| f.code.id == "tensor-type-unknown").unwrap();
    assert!(removed.message.contains("type 4 was Q4_2, which has been removed"), "{removed}");
}

#[test]
fn what_was_found_before_the_end_is_told_with_it() {
    let built = File::new(
        vec![("dup", V::U8(1)), ("dup", V::U8(2)), ("texts", V::Array(8, vec![text("abc"), text("defgh")]))],
        vec![],
    )
    .build();
    let cut = built.bytes.len() - 2;
    let opened = open_one(built.bytes[..cut].to_vec());
    let text_at = built.bytes.len() as u64 - 13;
    assert_eq!(codes(&opened), [("gguf-key-duplicate", built.key_at[1]), ("gguf-truncated", text_at)]);
    let last = findings(&opened).pop().unwrap().to_string();
    assert!(last.contains("value of texts") && last.contains("2 bytes past the end"), "{last}");
}

#[test]
fn versions_and_marks_are_told_apart() {
    let build = |version, big| File { version, big, ..small() }.build().bytes;
    for (version, big, words) in [
        (1, false, "version 1 is the first form"),
        (1, true, "big-endian"),
        (0, false, "no such version"),
        (4, false, "later than this program"),
        (4, true, "version 4, big-endian"),
    ] {
        let opened = open_one(build(version, big));
        assert_eq!(codes(&opened), [("gguf-version", 4)]);
        assert!(findings(&opened)[0].to_string().contains(words), "{}", findings(&opened)[0]);
    }
    let foreign = open_one(b"PK\x03\x04 and more".to_vec());
    assert!(matches!(foreign, Err(Error::Foreign { .. })));
}

#[test]
fn counts_are_bounded_before_anything_is_kept_for_them() {
    let with = |tensors: u64, keys: u64, padding: usize| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        bytes.extend(vec![0; padding]);
        open_one(bytes)
    };
    assert_eq!(codes(&with(u64::MAX, u64::MAX, 0)), [("gguf-count", 8), ("gguf-count", 16)]);
    assert_eq!(codes(&with(2, 0, 24)), [("gguf-count", 8)]);
    assert!(matches!(with(0, 1 << 17, 13 << 17), Err(Error::Limit { .. })));
    assert!(matches!(with(1 << 19, 0, 24 << 19), Err(Error::Limit { .. })));
}

#[test]
fn many_faults_of_one_kind_are_counted_and_the_end_is_still_told() {
    let mut file = File::new(vec![("k", V::U8(0)); 3000], vec![]);
    file.keys.push((b"cut".to_vec(), text("cut")));
    let mut bytes = file.build().bytes;
    bytes.pop();
    let opened = open_one(bytes);
    let found = findings(&opened);
    assert_eq!(found.len(), 1002);
    assert!(found[1000].message.contains("1999 more"), "{}", found[1000]);
    assert_eq!(found[1001].code.id, "gguf-truncated");
}

#[test]
fn nesting_is_bounded() {
    let nest = |depth: usize| (1..depth).fold(V::Array(0, vec![V::U8(1)]), |v, _| V::Array(9, vec![v]));
    let open = |depth| open_one(File::new(vec![("n", nest(depth))], vec![]).build().bytes);
    let eight = open(8);
    assert!(!refused(&eight) && findings(&eight)[0].severity == Severity::Warning);
    use_all(&*eight.unwrap());
    let nine = open(9);
    assert!(findings(&nine)[0].message.contains("too deep"), "{}", findings(&nine)[0]);
}

#[test]
fn alignment_is_a_power_of_two_written_as_u32() {
    for (value, severity) in [
        (V::U32(64), None),
        (V::U32(1), Some(Severity::Warning)),
        (V::U32(0), Some(Severity::Error)),
        (V::U32(48), Some(Severity::Error)),
        (V::I32(64), Some(Severity::Error)),
        (text("32"), Some(Severity::Error)),
    ] {
        let alignment = if value == V::U32(64) { 64 } else { 32 };
        let file = File::new(vec![("general.alignment", value)], vec![T::f32("t", &[4])]);
        let opened = open_one(File { alignment, ..file }.build().bytes);
        let found = findings(&opened).into_iter().find(|f| f.code.id == "gguf-alignment");
        assert_eq!(found.map(|f| f.severity), severity);
    }
}
