//! Digests of a model's tensors, and one of them all that depends on what they hold and on nothing else: not on their
//! order, on how they are spread over files, or on the format.
//!
//! *Stored*: SHA-256 of each tensor's bytes as its file has them. *Semantic*: of its numbers, as f32 in the form and
//! under the names of GGUF, so that both formats of a model agree wherever the conversion was exact.
//!
//! The one of the whole is SHA-256 of the lines of the [`manifest`] that are no comments.

pub mod files;
pub mod manifest;
mod semantic;
mod stored;

pub use semantic::{Names, semantic};
pub use stored::stored;

use crate::check::Progress;
use crate::index::{OVERLAP, TensorInfo, overlap};
use crate::parallel::on_cores;
use crate::source::WeightSource;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is hashed of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its bytes.
    Stored,
    /// Its numbers.
    Semantic,
}

impl Kind {
    /// `stored`, `semantic`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Stored => "stored",
            Kind::Semantic => "semantic",
        }
    }
}

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Of bytes that are at hand.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// From 64 hexadecimal digits of either case.
    pub fn parse(text: &str) -> Option<Digest> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A tensor and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// Its name: as stored, or in GGUF's form.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// The digest.
    pub digest: Digest,
}

/// Tensors that were not hashed, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Their names.
    pub names: Vec<String>,
    /// Why, said of one or many: "tied to what it equals".
    pub why: String,
    /// Whether they belong to what was asked for, so that there is no digest of the whole.
    pub wanted: bool,
}

/// Digests of a model's tensors.
#[derive(Clone, Debug)]
pub struct Hashes {
    /// What was hashed of each.
    pub kind: Kind,
    /// In the order of their names.
    pub tensors: Vec<Hashed>,
    /// What was not hashed.
    pub left_out: Vec<LeftOut>,
    /// Bytes that were read.
    pub bytes: u64,
    /// Of semantic digests, whether the family is known, so that names and forms are GGUF's.
    pub canonical: bool,
}

impl Hashes {
    /// The digest of the whole; `None` where some tensor could not be read.
    pub fn whole(&self) -> Option<Digest> {
        let complete = self.left_out.iter().all(|left| !left.wanted);
        complete.then(|| manifest::whole(self.kind, &self.tensors))
    }

    fn new(kind: Kind, canonical: bool) -> Hashes {
        Hashes { kind, tensors: Vec::new(), left_out: Vec::new(), bytes: 0, canonical }
    }

    fn leave_out(&mut self, name: &str, why: impl Into<String>, wanted: bool) {
        let why = why.into();
        match self.left_out.iter_mut().find(|left| left.why == why && left.wanted == wanted) {
            Some(left) => left.names.push(name.to_owned()),
            None => self.left_out.push(LeftOut { names: vec![name.to_owned()], why, wanted }),
        }
    }

    /// What these digests come to where the files cannot be read within reason: nothing.
    fn refused(mut self, source: &dyn WeightSource, wanted: Wanted<'_>) -> Option<Hashes> {
        overlap(source.tensors(), source.files())?;
        let all = source.tensors().tensors().iter().flat_map(TensorInfo::stored);
        all.filter(|t| wanted(&[&t.name])).for_each(|t| self.leave_out(&t.name, OVERLAP, true));
        Some(self)
    }

    fn sort(&mut self) {
        let key = |t: &Hashed| (t.name.clone(), t.dtype.clone(), t.shape.clone(), t.digest);
        self.tensors.sort_by_cached_key(key);
    }
}

/// Which tensors are wanted, by all names of each: as stored, and in GGUF's form.
pub type Wanted<'w> = &'w dyn Fn(&[&str]) -> bool;

/// Bytes that are hashed between two reports of how far it has come.
const STEP: usize = 4 << 20;

/// The digest of bytes that lie in memory or in a map.
fn digest_of(bytes: &[u8], progress: &dyn Progress) -> Digest {
    let mut sha = Sha256::new();
    for piece in bytes.chunks(STEP) {
        sha.update(piece);
        progress.advance(piece.len() as u64);
    }
    Digest(sha.finalize().into())
}

/// Does each of `jobs`, the largest first, on so many threads (0: all cores), and gives what came of them in the order of
/// the jobs. One digest is made by one core, so the last to end should be short.
fn largest_first<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    size: impl Fn(&J) -> u64,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(jobs.get(*i).map(&size)));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let until_done = || {
        while let Some(&i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(job) = jobs.get(i) {
                let result = work(job);
                done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
            }
        }
    };
    on_cores(threads, || {
        rayon::broadcast(|_| until_done());
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_read_back() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(Digest::parse(&abc.to_uppercase()), Some(Digest::of(b"abc")));
        for bad in ["", "ab", &abc[1..], &format!("{abc}0"), &abc.replace('b', "g"), &"é".repeat(32)] {
            assert_eq!(Digest::parse(bad), None);
        }
    }

    #[test]
    fn pieces_do_not_change_a_digest() {
        let bytes: Vec<u8> = (0..2 * STEP + 5).map(|i| (i % 251) as u8).collect();
        assert_eq!(digest_of(&bytes, &crate::check::Silent), Digest::of(&bytes));
    }

    #[test]
    fn jobs_are_done_once_and_come_back_in_their_order() {
        let jobs: Vec<u64> = (0..500).map(|i| i * 7919 % 101).collect();
        let begun = Mutex::new(Vec::new());
        let found = largest_first(
            1,
            &jobs,
            |n| *n,
            |n| {
                begun.lock().unwrap().push(*n);
                n + 1
            },
        );
        assert_eq!(found, jobs.iter().map(|n| n + 1).collect::<Vec<_>>());
        assert!(begun.into_inner().unwrap().is_sorted_by(|a, b| a >= b));
        assert_eq!(largest_first(3, &jobs, |n| *n, |n| n + 1), found);
        assert!(largest_first(0, &[0u64; 0], |n| *n, |n| *n).is_empty());
    }
}
