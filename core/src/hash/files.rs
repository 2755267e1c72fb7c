//! Digests of whole files, held against those that were written down when they were fetched.
//!
//! | where | what |
//! |---|---|
//! | `blobs/HEX`, reached by a link | the cache of huggingface_hub: SHA-256 of a large file, of a small one git's own |
//! | `.cache/huggingface/download/NAME.metadata` | the same, of a file that was fetched into a folder: commit, digest, time |
//! | `blobs/sha256-HEX`, `blobs/sha256/HEX` | stores of Ollama and of OCI images |
//! | `NAME.sha256`, `SHA256SUMS` and the like | what `sha256sum` writes |

mod lists;

use super::{Digest, digest_of, largest_first};
use crate::bundle::File;
use crate::check::Progress;
use crate::source::WeightSource;
use std::path::Path;

/// What was written down of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Its SHA-256.
    Sha256(Digest),
    /// Its SHA-1 as a blob of git, which is not checked here.
    GitBlob(String),
    /// Nothing of this file, or nothing that is checked here: why.
    Unused(String),
    /// What should be its SHA-256 and is none: why.
    Malformed(String),
}

/// A digest that was written down, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub at: String,
    /// What it says.
    pub said: Said,
}

/// A file, its digest, and what was written down of it.
#[derive(Clone, Debug)]
pub struct FileHash {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// Its digest, or why there is none.
    pub digest: Result<Digest, String>,
    /// What was written down.
    pub records: Vec<Record>,
}

/// What came of holding a file against what was written down of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that could be checked agrees.
    Agrees,
    /// Something says otherwise.
    Differs,
    /// Something that was written down of it cannot be read, and nothing says otherwise.
    Unusable,
    /// Nothing was written down that can be checked.
    Nothing,
    /// It could not be read.
    Unread,
}

impl FileHash {
    /// What came of it.
    pub fn verdict(&self) -> Verdict {
        let Ok(found) = self.digest else { return Verdict::Unread };
        let any = |what: &dyn Fn(&Said) -> bool| self.records.iter().any(|record| what(&record.said));
        if any(&|said| matches!(said, Said::Sha256(digest) if *digest != found)) {
            Verdict::Differs
        } else if any(&|said| matches!(said, Said::Malformed(_))) {
            Verdict::Unusable
        } else if any(&|said| matches!(said, Said::Sha256(_))) {
            Verdict::Agrees
        } else {
            Verdict::Nothing
        }
    }
}

/// Bytes of the largest note of digests that is read.
const MAX_NOTE_BYTES: u64 = 1 << 20;

/// Names of lists that `sha256sum` writes.
const LISTS: [&str; 6] =
    ["SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt", "sha256sum.txt", "SHA256SUM", ANY_SUMS];

/// The list that may be of other digests than SHA-256.
const ANY_SUMS: &str = "checksums.txt";

/// The weight files of a source, each hashed as a whole.
pub fn hash(source: &dyn WeightSource, threads: usize, progress: &dyn Progress) -> Vec<FileHash> {
    let files: Vec<&File> = source.files().iter().map(AsRef::as_ref).collect();
    progress.begin("hashing files", files.iter().fold(0u64, |n, file| n.saturating_add(file.len())));
    let digest = |file: &&File| {
        let bytes = file.bytes(0..file.len()).map_err(|error| error.to_string());
        bytes.map(|bytes| digest_of(bytes, progress))
    };
    let found = largest_first(threads, &files, |file| file.len(), digest);
    progress.end();
    let hashed = files.iter().zip(found).map(|(file, digest)| FileHash {
        name: file.name().to_owned(),
        len: file.len(),
        digest,
        records: records(source, file),
    });
    hashed.collect()
}

/// All that was written down of a file: in the names of what it leads to, and beside it.
pub fn records(source: &dyn WeightSource, file: &File) -> Vec<Record> {
    let mut records: Vec<Record> = file.trail().iter().filter_map(|path| by_name(path)).collect();
    let name = file.name();
    /// Lines of a file, with their numbers where it has several.
    type Read<'r> = &'r dyn Fn(&str, &dyn Fn(&str) -> bool) -> Vec<(Option<usize>, Said)>;
    let mut see = |at: String, read: Read<'_>| {
        let text = match source.beside(&at) {
            Ok(None) => return,
            Ok(Some(note)) => note.read_all(MAX_NOTE_BYTES).map(|bytes| (lists::text(&bytes), note)),
            Err(error) => Err(error),
        };
        let found = match text {
            Ok((text, _)) if text.contains('\0') => {
                vec![(None, Said::Malformed("it is no text: it holds bytes of 0".to_owned()))]
            }
            Ok((text, note)) => read(&text, &|path| file.is_named_by(&note, path)),
            Err(error) => vec![(None, Said::Malformed(format!("it cannot be read: {error}")))],
        };
        records.extend(found.into_iter().map(|(line, said)| {
            let at = line.map_or_else(|| at.clone(), |line| format!("{at}, line {line}"));
            Record { at, said }
        }));
    };
    see(format!(".cache/huggingface/download/{name}.metadata"), &|text, _| vec![(None, noted(text))]);
    see(format!("{name}.sha256"), &|text, _| lists::own(text, name));
    for list in LISTS {
        see(list.to_owned(), &|text, leads| lists::of(text, name, leads, list == ANY_SUMS));
    }
    records
}

/// What a note of huggingface_hub says: commit, digest, time.
fn noted(text: &str) -> Said {
    match text.lines().nth(1).map(str::trim) {
        Some(tag) if !tag.is_empty() => said(tag),
        _ => Said::Malformed("it has no second line, which should be the digest".to_owned()),
    }
}

/// What the name of a file in a store says it holds.
fn by_name(path: &Path) -> Option<Record> {
    let name = path.file_name()?.to_str()?;
    let mut folders = path.iter().rev().skip(1).filter_map(|part| part.to_str());
    let (at, said) = match (folders.next()?, folders.next()) {
        ("blobs", _) => {
            let said = match name.strip_prefix("sha256-") {
                Some(hex) => sha256(hex),
                // A file that is called anything else says nothing.
                None if name.len() < 32 || !name.bytes().all(|b| b.is_ascii_hexdigit()) => return None,
                None => said(name),
            };
            (format!("blobs/{name}"), said)
        }
        ("sha256", Some("blobs")) => (format!("blobs/sha256/{name}"), sha256(name)),
        _ => return None,
    };
    Some(Record { at, said })
}

/// A tag as the hub gives it: SHA-256 of large files, of small ones what git calls them.
fn said(tag: &str) -> Said {
    let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    if tag.len() == 40 && tag.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Said::GitBlob(tag.to_owned());
    }
    sha256(tag)
}

/// What should be a SHA-256.
fn sha256(text: &str) -> Said {
    Digest::parse(text).map_or_else(|| Said::Malformed(lists::no_digest(text)), Said::Sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const GIT: &str = "a16a55fda99d2f2e7b69cce5cf93ff4ad3049930";

    #[test]
    fn names_in_stores_are_digests() {
        let abc = || Said::Sha256(Digest::of(b"abc"));
        let said = |path: &str| by_name(Path::new(path)).map(|record| record.said);
        assert_eq!(said(&format!("/c/models--a--b/blobs/{HEX}")), Some(abc()));
        assert_eq!(said(&format!("../../blobs/{HEX}")), Some(abc()));
        assert_eq!(said(&format!("blobs/{GIT}")), Some(Said::GitBlob(GIT.to_owned())));
        assert_eq!(said(&format!("/m/blobs/sha256-{HEX}")), Some(abc()));
        assert_eq!(said(&format!("/m/blobs/sha256/{HEX}")), Some(abc()));
        for other in
            ["model.gguf", "blobs/model.gguf", &format!("elsewhere/{HEX}"), &format!("sha256/{HEX}"), ""]
        {
            assert_eq!(said(other), None, "{other}");
        }
    }

    #[test]
    fn digests_that_are_none_are_told() {
        let cut = &HEX[1..];
        for name in [format!("blobs/{cut}"), format!("blobs/sha256-{cut}"), format!("blobs/sha256/{cut}0x")] {
            let record = by_name(Path::new(&name));
            assert!(matches!(record.unwrap().said, Said::Malformed(_)), "{name}");
        }
        assert_eq!(noted(&format!("c\n\"{HEX}\"\n1.5\n")), Said::Sha256(Digest::of(b"abc")));
        assert_eq!(noted(&format!("c\r\nW/\"{GIT}\"\r\n")), Said::GitBlob(GIT.to_owned()));
        for text in ["", "c", "c\n\n", "c\nnoise\n1.5", &format!("c\n{cut}\n")] {
            assert!(matches!(noted(text), Said::Malformed(_)), "{text:?}");
        }
    }
}
