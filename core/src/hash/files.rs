//! Digests of whole files, held against those that were written down when they were fetched.
//!
//! | where | what |
//! |---|---|
//! | `blobs/HEX`, reached by a link | the cache of huggingface_hub: SHA-256 of a large file, of a small one git's own |
//! | `.cache/huggingface/download/NAME.metadata` | the same, of a file that was fetched into a folder: commit, digest, time |
//! | `blobs/sha256-HEX`, `blobs/sha256/HEX` | stores of Ollama and of OCI images |
//! | `NAME.sha256`, `SHA256SUMS` and the like | what `sha256sum` writes |

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
    /// Something that is no digest known here.
    Unknown(String),
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
    /// Nothing was written down that can be checked.
    Nothing,
    /// It could not be read.
    Unread,
}

impl FileHash {
    /// What came of it.
    pub fn verdict(&self) -> Verdict {
        let Ok(found) = self.digest else { return Verdict::Unread };
        let mut said = self.records.iter().filter_map(|record| match record.said {
            Said::Sha256(digest) => Some(digest == found),
            _ => None,
        });
        match said.clone().next() {
            None => Verdict::Nothing,
            Some(_) if said.all(|same| same) => Verdict::Agrees,
            Some(_) => Verdict::Differs,
        }
    }
}

/// Bytes of the largest note of digests that is read.
const MAX_NOTE_BYTES: u64 = 1 << 20;

/// Names of lists that `sha256sum` writes.
const LISTS: [&str; 6] =
    ["SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt", "sha256sum.txt", "SHA256SUM", "checksums.txt"];

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
    let text = |name: &str| {
        let file = source.beside(name).ok()??;
        let bytes = file.read_all(MAX_NOTE_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let downloaded = format!(".cache/huggingface/download/{}.metadata", file.name());
    if let Some(tag) = text(&downloaded).and_then(|text| text.lines().nth(1).map(|tag| tag.trim().to_owned()))
    {
        records.push(Record { said: said(&tag), at: downloaded });
    }
    let own = format!("{}.sha256", file.name());
    for list in std::iter::once(own.as_str()).chain(LISTS) {
        let Some(text) = text(list) else { continue };
        let found = text.lines().find_map(|line| in_list(line, file.name(), list == own));
        records.extend(found.map(|digest| Record { said: Said::Sha256(digest), at: list.to_owned() }));
    }
    records
}

/// What the name of a file in a store says it holds.
fn by_name(path: &Path) -> Option<Record> {
    let name = path.file_name()?.to_str()?;
    let mut folders = path.iter().rev().skip(1).filter_map(|part| part.to_str());
    let (at, said) = match (folders.next()?, folders.next()) {
        ("blobs", _) => {
            let said = match name.strip_prefix("sha256-") {
                Some(hex) => Said::Sha256(Digest::parse(hex)?),
                None => said(name),
            };
            (format!("blobs/{name}"), said)
        }
        ("sha256", Some("blobs")) => (format!("blobs/sha256/{name}"), Said::Sha256(Digest::parse(name)?)),
        _ => return None,
    };
    // A file that is called anything else says nothing.
    (!matches!(said, Said::Unknown(_))).then_some(Record { at, said })
}

/// A tag as the hub gives it: SHA-256 of large files, of small ones what git calls them.
fn said(tag: &str) -> Said {
    let tag = tag.trim_matches('"');
    match Digest::parse(tag) {
        Some(digest) => Said::Sha256(digest),
        None if tag.len() == 40 && tag.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Said::GitBlob(tag.to_owned())
        }
        None => Said::Unknown(tag.chars().take(80).collect()),
    }
}

/// The digest of a file in a line of `sha256sum`; in a file of its own the name may be left away.
fn in_list(line: &str, file: &str, own: bool) -> Option<Digest> {
    let (digest, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_start().trim_start_matches('*').trim_start_matches("./").trim_end();
    let digest = Digest::parse(digest)?;
    (name == file || own && name.is_empty()).then_some(digest)
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
    fn lines_of_sha256sum() {
        let abc = Some(Digest::of(b"abc"));
        assert_eq!(in_list(&format!("{HEX}  m.gguf"), "m.gguf", false), abc);
        assert_eq!(in_list(&format!("{HEX} *./m.gguf\r"), "m.gguf", false), abc);
        assert_eq!(in_list(&format!("{HEX}  other"), "m.gguf", false), None);
        assert_eq!(in_list(HEX, "m.gguf", true), abc);
        assert_eq!(in_list(HEX, "m.gguf", false), None);
        assert_eq!(in_list("", "m.gguf", true), None);
    }
}
