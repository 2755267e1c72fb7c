//! A folder of files as one run of bytes: each file is its name in double angle brackets and its content.
//!
//! ```text
//! <<config.json>>{"model_type": …}<<model.safetensors>>…
//! ```

use crate::mutate::repair_header;
use std::ops::Range;

/// Longest name that counts as one.
const NAME: usize = 64;

/// One file: where its name and its content stand in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name, without brackets.
    pub name: Range<usize>,
    /// What follows, to the next name.
    pub content: Range<usize>,
}

/// The files of an input. What stands before the first name is nobody's.
pub fn parts(input: &[u8]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    while let Some(open) = find(input, b"<<", at, input.len()) {
        let begin = open.saturating_add(2);
        let Some(close) = find(input, b">>", begin, begin.saturating_add(NAME)) else {
            at = begin;
            continue;
        };
        at = close.saturating_add(2);
        if let Some(last) = parts.last_mut() {
            last.content.end = open;
        }
        parts.push(Part { name: begin..close, content: at..input.len() });
    }
    parts
}

fn find(input: &[u8], what: &[u8; 2], from: usize, to: usize) -> Option<usize> {
    let window = input.get(from..to.min(input.len()))?;
    window.windows(2).position(|pair| pair == what).map(|at| from.saturating_add(at))
}

/// The files of an input, by name and content; names that are not UTF-8 are made so.
pub fn files(input: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    parts(input).into_iter().map(|Part { name, content }| {
        let name = String::from_utf8_lossy(input.get(name).unwrap_or_default()).into_owned();
        (name, input.get(content).unwrap_or_default())
    })
}

/// An input of these files.
pub fn join(files: &[(&str, &[u8])]) -> Vec<u8> {
    files.iter().flat_map(|(name, content)| [b"<<", name.as_bytes(), b">>", content].concat()).collect()
}

/// Repairs the header of everything that looks like a `.safetensors` file.
pub fn repair(input: &mut [u8]) {
    for Part { content, .. } in parts(input) {
        if input.get(content.start.saturating_add(8)) == Some(&b'{') {
            repair_header(input, content.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_comes_apart() {
        let input = join(&[("a.json", b"{}"), ("b", b""), ("c", b"< <>> x")]);
        let apart: Vec<(String, &[u8])> = files(&input).collect();
        assert_eq!(apart, [("a.json".into(), &b"{}"[..]), ("b".into(), b""), ("c".into(), b"< <>> x")]);
        assert_eq!(parts(b"none <<here"), []);
    }
}
