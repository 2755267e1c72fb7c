//! Digests as a text to keep beside a model, and a model held against such a text.
//!
//! ```text
//! # anything, which does not count
//! scantling 1 stored
//! SHA-256 ["NAME","TYPE",[LENGTHS]]
//! ```
//!
//! The second line says the version and what was hashed. One line for each tensor follows, in the order of the names as
//! bytes of UTF-8; what is behind the digest is JSON without spaces in ASCII alone, other characters as `\uXXXX`. All lines
//! that do not begin with `#` end in a newline, and SHA-256 of them is the digest of the whole.

use super::{Digest, Hashed, Kind};
use crate::codes;
use crate::finding::Finding;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// Bytes of the largest manifest that is read.
pub const MAX_MANIFEST_BYTES: u64 = 256 << 20;

const HEAD: &str = "scantling 1 ";

/// The digest of the whole of these tensors, which are in the order of their names.
pub fn whole(kind: Kind, tensors: &[Hashed]) -> Digest {
    Digest::of(lines(kind, tensors).as_bytes())
}

/// The manifest. Nothing in it tells where or when it was made, so that equal models have equal ones. `some` says how
/// tensors were chosen where not all were: there is no digest of the whole then.
pub fn write(kind: Kind, tensors: &[Hashed], some: Option<&str>) -> String {
    let lines = lines(kind, tensors);
    let of = match kind {
        Kind::Stored => "each tensor's bytes as they are stored",
        Kind::Semantic => {
            "each tensor's numbers as f32, little-endian, in the form and under the names of GGUF"
        }
    };
    let end = match some {
        None => {
            format!("{WHOLE}{} (SHA-256 of the lines that do not begin with #)", Digest::of(lines.as_bytes()))
        }
        Some(how) => format!("{SOME}{}", ascii(how)),
    };
    format!(
        "# Digests of the tensors of a model; scantling hash MODEL --check FILE holds a model against them.\n\
         # SHA-256 of {of}; then name, type and shape, outermost axis first.\n\
         # {end}\n{lines}"
    )
}

/// How the comments begin that say the digest of the whole, or that there is none.
const WHOLE: &str = "whole: ";
const SOME: &str = "of some tensors alone: ";

fn lines(kind: Kind, tensors: &[Hashed]) -> String {
    let mut text = format!("{HEAD}{}\n", kind.word());
    for tensor in tensors {
        let said = serde_json::to_string(&(&tensor.name, &tensor.dtype, &tensor.shape)).unwrap_or_default();
        let _ = writeln!(text, "{} {}", tensor.digest, ascii(&said));
    }
    text
}

/// JSON with everything that is not printable ASCII escaped; beyond ASCII it has characters only in strings.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii_graphic() || c == ' ' {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

/// A manifest that was read.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// What was hashed.
    pub kind: Kind,
    /// The tensors.
    pub tensors: Vec<Hashed>,
    /// How they were chosen, where it says that they are not all.
    pub some: Option<String>,
}

/// Reads a manifest; or tells in which line it is none.
pub fn read(text: &[u8]) -> Result<Manifest, String> {
    // Some editors put a byte order mark before the first line.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let text = std::str::from_utf8(text).map_err(|e| format!("byte {}: not text", e.valid_up_to()))?;
    let mut said_whole: Vec<Digest> = Vec::new();
    let mut some = None;
    let mut kind = None;
    let mut tensors = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = |what: &str| format!("line {}: {what}", number.saturating_add(1));
        if let Some(comment) = line.strip_prefix('#') {
            some = comment.trim().strip_prefix(SOME).map(str::to_owned).or(some);
            if let Some(whole) = comment.trim().strip_prefix(WHOLE.trim_end()) {
                let digest = whole.split_whitespace().next().and_then(Digest::parse);
                said_whole
                    .push(digest.ok_or_else(|| at("expected the SHA-256 of the whole after \"whole:\""))?);
            }
        } else if kind.is_some() && !line.starts_with(HEAD) {
            let parted = line.split_once(' ').and_then(|(digest, said)| {
                let digest = Digest::parse(digest)?;
                let (name, dtype, shape) = serde_json::from_str(said).ok()?;
                Some(Hashed { name, dtype, shape, digest })
            });
            let wanted = "expected a SHA-256, a space, and [\"NAME\",\"TYPE\",[LENGTHS]]";
            tensors.push(parted.ok_or_else(|| at(wanted))?);
        } else {
            let word = line.strip_prefix(HEAD).filter(|_| kind.is_none());
            let known =
                word.and_then(|word| [Kind::Stored, Kind::Semantic].into_iter().find(|k| k.word() == word));
            let wanted = "expected \"scantling 1 stored\" or \"scantling 1 semantic\" once, before all tensors: \
                          this is no manifest, or one of a newer program";
            kind = Some(known.ok_or_else(|| at(wanted))?);
        }
    }
    let kind = kind.ok_or("there is no line \"scantling 1 stored\" or \"scantling 1 semantic\"")?;
    let found = whole(kind, &tensors);
    if let Some(said) = said_whole.iter().find(|said| **said != found) {
        return Err(format!(
            "its lines were changed: the digest of the whole is said to be {said}, and is {found}; take the comment \
             away if that was meant"
        ));
    }
    Ok(Manifest { kind, tensors, some })
}

/// How a tensor differs from what a manifest says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Its bytes or numbers are others: the digest of the manifest, and that found.
    Values(Digest, Digest),
    /// Its type is another: that of the manifest, and that found.
    Type(String, String),
    /// Its shape is another.
    Shape(Vec<usize>, Vec<usize>),
    /// The manifest has it and the model has not.
    Missing,
    /// The model has it and the manifest has not.
    New,
    /// The manifest has it, and what the model has could not be read.
    Unread,
}

/// All differences by name, in the order of the names. `unread` are tensors of the model that could not be hashed.
pub fn compare(expected: &[Hashed], found: &[Hashed], unread: &[String]) -> Vec<(String, Difference)> {
    let unread: HashSet<&str> = unread.iter().map(String::as_str).collect();
    // Names may stand twice in a faulty file.
    let mut both: BTreeMap<&str, (Vec<&Hashed>, Vec<&Hashed>)> = BTreeMap::new();
    expected.iter().for_each(|tensor| both.entry(&tensor.name).or_default().0.push(tensor));
    found.iter().for_each(|tensor| both.entry(&tensor.name).or_default().1.push(tensor));
    let mut all = Vec::new();
    for (name, (mut expected, mut found)) in both {
        expected.sort_by_key(|tensor| tensor.digest);
        found.sort_by_key(|tensor| tensor.digest);
        for i in 0..expected.len().max(found.len()) {
            let difference = match (expected.get(i), found.get(i)) {
                (Some(_), None) if unread.contains(name) => Difference::Unread,
                (Some(_), None) => Difference::Missing,
                (None, _) => Difference::New,
                (Some(e), Some(f)) if e.shape != f.shape => {
                    Difference::Shape(e.shape.clone(), f.shape.clone())
                }
                (Some(e), Some(f)) if e.dtype != f.dtype => {
                    Difference::Type(e.dtype.clone(), f.dtype.clone())
                }
                (Some(e), Some(f)) if e.digest != f.digest => Difference::Values(e.digest, f.digest),
                (Some(_), Some(_)) => continue,
            };
            all.push((name.to_owned(), difference));
        }
    }
    all
}

codes! {
    pub static HASH_NO_NAME = Error, Names, "hash-no-name-agrees",
        "no name of the model stands in the manifest",
        "Digests of stored bytes are held against each other by the names as stored, and a safetensors model and a GGUF \
         file of it have no name in common. Digests of numbers, which --semantic makes, have one name for both.";
}

/// The one finding about a model that has no name in common with a manifest: each of its tensors is new and each of the
/// manifest's is missing, which says nothing of what they hold.
pub fn strangers(kind: Kind, expected: &[Hashed], found: &[Hashed]) -> Option<Finding> {
    let known: HashSet<&str> = expected.iter().map(|tensor| tensor.name.as_str()).collect();
    if expected.is_empty() || found.is_empty() || found.iter().any(|t| known.contains(t.name.as_str())) {
        return None;
    }
    let (of, advice) = match kind {
        Kind::Stored => (
            "stored bytes of another container, or of another model",
            "make one that holds for both: scantling hash MODEL --semantic --write FILE",
        ),
        Kind::Semantic => ("another model", "hold it against one of the same model"),
    };
    Some(
        Finding::new(&HASH_NO_NAME, format!("none of the names agree: the manifest is of {of}"))
            .advice(advice),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(name: &str, dtype: &str, shape: &[usize], byte: u8) -> Hashed {
        Hashed {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            shape: shape.to_vec(),
            digest: Digest([byte; 32]),
        }
    }

    #[test]
    fn the_whole_is_what_other_programs_make_of_the_text() {
        let tensors = [tensor("a.weight", "BF16", &[2, 3], 0x11), tensor("bü\n😀\u{7f}", "F32", &[], 0x22)];
        let text = write(Kind::Stored, &tensors, None);
        // As Python has it: json.dumps([name, dtype, shape], separators=(",", ":")).
        let ones = "11".repeat(32);
        assert!(text.contains(&format!("\n{ones} [\"a.weight\",\"BF16\",[2,3]]\n")), "{text}");
        assert!(text.ends_with("2222 [\"b\\u00fc\\n\\ud83d\\ude00\\u007f\",\"F32\",[]]\n"), "{text}");
        let counted: String =
            text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        // printf 'scantling 1 stored\n...' | sha256sum
        assert_eq!(whole(Kind::Stored, &tensors), Digest::of(counted.as_bytes()));
        assert!(text.contains(&format!("# whole: {} ", whole(Kind::Stored, &tensors))));
        assert_ne!(whole(Kind::Stored, &tensors), whole(Kind::Semantic, &tensors));
    }

    #[test]
    fn faults_are_told_with_their_line() {
        let text = write(Kind::Semantic, &[tensor("a", "F32", &[2], 1)], None);
        assert_eq!(read(text.as_bytes()).unwrap().kind, Kind::Semantic);
        let told = |text: &str| read(text.as_bytes()).unwrap_err();
        assert!(told(&text.replace("[2]", "[3]")).contains("its lines were changed"));
        assert!(told("scantling 1 stored\nzz").starts_with("line 2: expected a SHA-256"));
        assert!(told("scantling 2 stored\n").starts_with("line 1: "));
        let whole = text.lines().find(|line| line.starts_with("# whole:")).unwrap();
        for bad in ["# whole:", "# whole: zzzz", &whole[..whole.len().min(9 + 63)], "#whole: 11"] {
            assert!(told(&text.replace(whole, bad)).starts_with("line 3: expected the SHA-256"), "{bad}");
        }
        assert!(told(&format!("{text}# whole: {}\n", "0".repeat(64))).contains("its lines were changed"));
        assert_eq!(read(format!("\u{feff}{text}").as_bytes()).unwrap().tensors.len(), 1);
        assert!(told("").contains("no line"));
        assert!(told("scantling 1 stored\nscantling 1 stored\n").starts_with("line 2: "));
        assert!(read(&[0xff]).unwrap_err().starts_with("byte 0"));
    }

    #[test]
    fn a_manifest_of_some_tensors_says_so() {
        let tensors = [tensor("a", "F32", &[2], 1)];
        let text = write(Kind::Stored, &tensors, Some("--include a\n"));
        assert!(!text.contains("# whole") && text.contains("# of some tensors alone: --include a\\u000a\n"));
        let kept = read(text.as_bytes()).unwrap();
        assert_eq!((kept.tensors, kept.some.as_deref()), (tensors.to_vec(), Some("--include a\\u000a")));
    }

    #[test]
    fn differences_are_told_apart() {
        let expected = [
            tensor("gone", "F32", &[1], 1),
            tensor("same", "F32", &[1], 1),
            tensor("shape", "F32", &[1, 2], 1),
            tensor("type", "F32", &[1], 1),
            tensor("unread", "F32", &[1], 1),
            tensor("values", "F32", &[1], 1),
        ];
        let found = [
            tensor("new", "F32", &[1], 1),
            tensor("same", "F32", &[1], 1),
            tensor("shape", "F32", &[2, 1], 1),
            tensor("type", "F16", &[1], 2),
            tensor("values", "F32", &[1], 2),
        ];
        let all = compare(&expected, &found, &["unread".to_owned()]);
        let wanted = [
            ("gone", Difference::Missing),
            ("new", Difference::New),
            ("shape", Difference::Shape(vec![1, 2], vec![2, 1])),
            ("type", Difference::Type("F32".into(), "F16".into())),
            ("unread", Difference::Unread),
            ("values", Difference::Values(Digest([1; 32]), Digest([2; 32]))),
        ];
        assert_eq!(all, wanted.map(|(name, difference)| (name.to_owned(), difference)));
        assert!(compare(&expected, &expected, &[]).is_empty());
    }

    #[test]
    fn names_that_are_all_others_are_one_finding() {
        let [a, b] = ["model.norm.weight", "output_norm.weight"].map(|name| [tensor(name, "F32", &[1], 1)]);
        let told = |kind, expected: &[Hashed], found: &[Hashed]| {
            strangers(kind, expected, found).map(|finding| finding.message).unwrap_or_default()
        };
        assert!(told(Kind::Stored, &a, &b).contains("stored bytes of another container"));
        assert!(told(Kind::Semantic, &a, &b).ends_with("of another model"));
        let both = [a.as_slice(), b.as_slice()].concat();
        for (expected, found) in [(&a[..], &both[..]), (&both, &b), (&a, &[]), (&[], &b)] {
            assert_eq!(told(Kind::Stored, expected, found), "");
        }
    }

    proptest! {
        #[test]
        fn any_names_read_back(names in prop::collection::btree_set(any::<String>(), 0..8), shape in prop::collection::vec(any::<usize>(), 0..4)) {
            let tensors: Vec<Hashed> = names.iter().map(|name| tensor(name, name, &shape, 7)).collect();
            let text = write(Kind::Stored, &tensors, None);
            prop_assert!(text.bytes().all(|b| b == b'\n' || (b' '..0x7f).contains(&b)));
            prop_assert_eq!(read(text.as_bytes()).unwrap().tensors, tensors);
        }

        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&text);
            let _ = read(&[b"scantling 1 stored\n", &text[..]].concat());
        }
    }
}
