//! Every truncation and every changed byte of small files: nothing panics, nothing that was cut passes.

use super::{Files, accepted, file, index, numbers, open, open_one};
use scantling_core::source::WeightSource;

/// Looks at everything that an opened source gives.
fn walk(source: &dyn WeightSource) {
    for tensor in source.tensors().tensors() {
        assert_eq!(source.bytes(tensor).is_ok(), tensor.bytes.is_some());
    }
    let shown: Vec<String> = source.findings().iter().map(ToString::to_string).collect();
    assert!(shown.iter().all(|s| !s.is_empty()));
    assert!(source.tensors().tensors().iter().all(|t| t.shard < source.files().len()));
}

/// Values that a byte is set to: the neighbours, the extremes, and what means something in JSON.
fn values(byte: u8) -> Vec<u8> {
    let mut values = vec![byte ^ 1, byte ^ 0x80, byte.wrapping_add(1), byte.wrapping_sub(1)];
    values.extend([0, 0xff, b'"', b'{', b'}', b'[', b',', b'\\', b'0', b'9', b'-', b'.', b' ', b'\n']);
    values.retain(|v| *v != byte);
    values
}

fn small() -> Vec<u8> {
    let header = r#"{"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"s":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}  "#;
    file(header, &[1; 12])
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = small();
    assert!(accepted(&open_one(whole.clone())));
    for len in 0..whole.len() {
        let opened = open_one(whole[..len].to_vec());
        assert!(!accepted(&opened), "cut to {len} bytes");
        if let Ok(source) = opened {
            walk(&*source);
        }
    }
}

#[test]
fn a_file_changed_anywhere_is_read_or_refused() {
    let whole = small();
    let (mut read, mut refused) = (0, 0);
    for at in 0..whole.len() {
        for value in values(whole[at]) {
            let mut bytes = whole.clone();
            bytes[at] = value;
            match open_one(bytes) {
                Ok(source) => walk(&*source),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
            let mut bytes = whole.clone();
            bytes.insert(at, value);
            let passes = accepted(&open_one(bytes));
            read += usize::from(passes);
            refused += usize::from(!passes);
        }
    }
    assert!(refused > 10 * read, "{read} read, {refused} refused");
}

const INDEX: &str = "model.safetensors.index.json";
const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

fn set() -> Files<'static> {
    let map = [("a", SHARDS[0]), ("b", SHARDS[1]), ("c", SHARDS[1])];
    vec![(INDEX, index(&map, Some(12))), (SHARDS[0], numbers(&["a"])), (SHARDS[1], numbers(&["b", "c"]))]
}

#[test]
fn a_set_cut_anywhere_is_refused() {
    assert!(accepted(&open(INDEX, set())));
    for which in 0..3 {
        for len in 0..set()[which].1.len() {
            for primary in [INDEX, SHARDS[1]] {
                let mut files = set();
                files[which].1.truncate(len);
                let opened = open(primary, files);
                assert!(!accepted(&opened), "file {which} cut to {len} bytes, opened by {primary}");
                if let Ok(source) = opened {
                    walk(&*source);
                }
            }
        }
    }
}

#[test]
fn a_set_changed_anywhere_is_read_or_refused() {
    for which in 0..3 {
        for at in 0..set()[which].1.len() {
            for value in values(set()[which].1[at]) {
                let mut files = set();
                files[which].1[at] = value;
                match open(INDEX, files) {
                    Ok(source) => walk(&*source),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
    }
}
