//! Digests of what tensors mean: their numbers in the form that GGUF has them in, whichever format they come from.

use super::{Digest, Hashed, Hashes, Kind, Wanted, digest_of, largest_first};
use crate::check::Progress;
use crate::convert::Converted;
use crate::dtype::{Class, DType};
use crate::error::Result;
use crate::index::TensorInfo;
use crate::kernel::Kernel;
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, TensorTable, Use};
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};

/// Why a tensor that is there is not hashed.
const TIED: &str = "equal to what it is tied to, which is hashed";
const HELPER: &str = "written by a converter, from the config";
const UNUSED: &str = "worked out anew by whatever runs the model";
const OUTSIDE: &str = "of another part of a larger model";
const NO_PLACE: &str = "without a place in the form of GGUF";
const ABSENT: &str = "missing from the files";

/// SHA-256 of the numbers of each tensor as f32, little-endian, in GGUF's form and under its names, by the table of the
/// architecture. Without one, or of a tensor that it does not know, the numbers are those stored, under the stored name;
/// integers and floats of 64 bits, which f32 does not hold, are hashed as they are stored then.
pub fn semantic(
    source: &dyn WeightSource,
    table: Option<&TensorTable>,
    kernel: &dyn Kernel,
    wanted: Wanted<'_>,
    threads: usize,
    progress: &dyn Progress,
) -> Hashes {
    if let Some(none) = Hashes::new(Kind::Semantic, table.is_some()).refused(source, wanted) {
        return none;
    }
    let mut hashes = Hashes::new(Kind::Semantic, table.is_some());
    let jobs = jobs(source, table, wanted, &mut hashes);
    hashes.bytes = jobs.iter().fold(0u64, |n, job| n.saturating_add(job.bytes));
    progress.begin("hashing", hashes.bytes);
    let found =
        largest_first(threads, &jobs, |job| job.bytes, |job| job.hash(source, table, kernel, progress));
    progress.end();
    let mut rows: Vec<Option<(Vec<usize>, Digest)>> = vec![None; table.map_or(0, |t| t.rows().len())];
    for (job, made) in jobs.iter().zip(&found) {
        if let (What::Row(at), Ok(Some(hashed))) = (job.what, made)
            && let Some(place) = rows.get_mut(at)
        {
            *place = Some((hashed.shape.clone(), hashed.digest));
        }
    }
    for (job, made) in jobs.iter().zip(found) {
        match made {
            Ok(Some(hashed)) => {
                let same = |by: usize| {
                    let other = rows.get(by).and_then(Option::as_ref);
                    other.is_some_and(|(shape, digest)| (shape, digest) == (&hashed.shape, &hashed.digest))
                };
                match job.by {
                    _ if !job.wanted => {}
                    Some(by) if same(by) => hashes.leave_out(&job.name, TIED, false),
                    _ => hashes.tensors.push(hashed),
                }
            }
            _ if !job.wanted => {}
            Ok(None) => hashes.leave_out(&job.name, ABSENT, true),
            Err(error) => hashes.leave_out(&job.name, error.to_string(), true),
        }
    }
    hashes.sort();
    hashes
}

/// A tensor to hash.
struct Job<'s> {
    what: What<'s>,
    /// The name it goes by.
    name: String,
    /// Stored bytes that it is made of.
    bytes: u64,
    /// The row of the table that stands in where this is absent.
    by: Option<usize>,
    /// Whether it was asked for; else it is what one that was may be equal to.
    wanted: bool,
}

#[derive(Clone, Copy)]
enum What<'s> {
    /// A row of the table.
    Row(usize),
    /// A tensor as it is stored.
    Stored(&'s TensorInfo),
}

/// All that is to be hashed; what is there and is not goes to `hashes`.
fn jobs<'s>(
    source: &'s dyn WeightSource,
    table: Option<&TensorTable>,
    wanted: Wanted<'_>,
    hashes: &mut Hashes,
) -> Vec<Job<'s>> {
    let index = source.tensors();
    let as_stored = |t: &'s TensorInfo| Job {
        what: What::Stored(t),
        name: t.name.clone(),
        bytes: t.byte_len(),
        by: None,
        wanted: true,
    };
    let Some(table) = table else {
        return index.tensors().iter().filter(|t| wanted(&[&t.name])).map(as_stored).collect();
    };
    let dialect = source.dialect();
    let mut jobs = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    let stand_ins = stand_ins(source, table, wanted);
    for (at, row) in table.rows().iter().enumerate() {
        // What a row that only GGUF has is cut out of.
        let whole = table.part_of(at).filter(|_| dialect == Dialect::Hf).map(|(whole, ..)| whole);
        let from = whole.and_then(|whole| table.rows().get(whole)).unwrap_or(row);
        let names: Vec<String> = table.stored(from, dialect).map(|stored| stored.name).collect();
        let there: Vec<&TensorInfo> = names.iter().filter_map(|name| index.get(name)).collect();
        let is_whole =
            || (0..table.rows().len()).any(|row| table.part_of(row).is_some_and(|(w, ..)| w == at));
        let canonical = table.name(row, Dialect::Gguf);
        let all = all_names(table, at);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let unneeded = match row.gguf.is_empty() {
            true => (!is_whole()).then_some(NO_PLACE),
            false => (row.usage == Use::Helper).then_some(HELPER),
        };
        let asked = wanted(&all);
        if !asked && !stand_ins.contains(&at) {
            // Nobody asked.
        } else if let Some(why) = unneeded {
            there.iter().filter(|_| asked).for_each(|tensor| hashes.leave_out(&tensor.name, why, false));
        } else if !row.gguf.is_empty() && (!there.is_empty() || row.absence == Absence::Fault) {
            let by = match row.absence {
                Absence::StandIn { by, .. } => Some(by),
                _ => None,
            };
            let bytes = there.iter().fold(0u64, |n, t| n.saturating_add(t.byte_len()));
            // Of a tensor that is cut in two each half is read.
            let bytes = if whole.is_some() { bytes / 2 } else { bytes };
            jobs.push(Job { what: What::Row(at), name: canonical, bytes, by, wanted: asked });
        }
        known.extend(names);
    }
    for tensor in index.tensors().iter().filter(|t| !known.contains(&t.name) && wanted(&[&t.name])) {
        if table.ignores(&tensor.name, dialect) {
            hashes.leave_out(&tensor.name, UNUSED, false);
        } else if table.is_outside(&tensor.name) {
            hashes.leave_out(&tensor.name, OUTSIDE, false);
        } else {
            jobs.push(as_stored(tensor));
        }
    }
    jobs
}

/// The rows that stand in for tensors that are there and were asked for: without them nobody could tell whether those are
/// equal to what they are tied to.
fn stand_ins(source: &dyn WeightSource, table: &TensorTable, wanted: Wanted<'_>) -> HashSet<usize> {
    let rows = table.rows().iter().enumerate();
    let tied = rows.filter_map(|(at, row)| match row.absence {
        Absence::StandIn { by, .. } => Some((at, row, by)),
        _ => None,
    });
    let there = tied.filter(|(at, row, _)| {
        let mut stored = table.stored(row, source.dialect());
        let all = all_names(table, *at);
        wanted(&all.iter().map(String::as_str).collect::<Vec<_>>())
            && stored.any(|stored| source.tensors().get(&stored.name).is_some())
    });
    there.map(|(_, _, by)| by).collect()
}

/// All names of a row: those of both worlds, and of what it is cut out of in one of them.
fn all_names(table: &TensorTable, at: usize) -> Vec<String> {
    let rows = table.rows();
    let whole = table.part_of(at).and_then(|(whole, ..)| rows.get(whole));
    let both = rows.get(at).into_iter().chain(whole);
    let both = both.flat_map(|row| [Dialect::Hf, Dialect::Gguf].map(|dialect| (row, dialect)));
    let mut names: Vec<String> =
        both.flat_map(|(row, dialect)| table.stored(row, dialect)).map(|stored| stored.name).collect();
    names.dedup();
    names
}

/// The names that patterns may hear of tensors by their names in GGUF: all of both worlds.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Vec<String>>);

impl Names {
    /// By the table of an architecture; without one each tensor has one name.
    pub fn of(table: Option<&TensorTable>) -> Names {
        let rows = table.map_or(&[][..], TensorTable::rows).iter().enumerate();
        let named = rows.filter(|(_, row)| !row.gguf.is_empty());
        let named = named.filter_map(|(at, row)| {
            let table = table?;
            Some((table.name(row, Dialect::Gguf), all_names(table, at)))
        });
        Names(named.collect())
    }

    /// All names of a tensor of which one is known.
    pub fn all<'n>(&'n self, name: &'n str) -> Vec<&'n str> {
        self.0.get(name).map_or_else(|| vec![name], |all| all.iter().map(String::as_str).collect())
    }
}

impl Job<'_> {
    /// The digest; `None` where a tensor that it needs is missing.
    fn hash(
        &self,
        source: &dyn WeightSource,
        table: Option<&TensorTable>,
        kernel: &dyn Kernel,
        progress: &dyn Progress,
    ) -> Result<Option<Hashed>> {
        let converted = match (self.what, table) {
            (What::Row(at), Some(table)) => Converted::of(table, at, source, kernel)?,
            (What::Row(_), None) => None,
            (What::Stored(tensor), _) => {
                if let Some(dtype) = tensor.dtype.known().filter(|dtype| exceeds_f32(*dtype)) {
                    let digest = digest_of(&source.bytes(tensor)?, progress);
                    let (name, shape) = (self.name.clone(), tensor.shape.clone());
                    return Ok(Some(Hashed { name, dtype: dtype.name().to_owned(), shape, digest }));
                }
                Some(Converted::stored(source, tensor)?)
            }
        };
        let Some(converted) = converted else { return Ok(None) };
        let digest = numbers(&converted, kernel, |done| progress.advance((done * self.bytes as f64) as u64));
        let (name, shape) = (self.name.clone(), converted.shape().to_vec());
        Ok(Some(Hashed { name, dtype: DType::F32.name().to_owned(), shape, digest }))
    }
}

/// Whether f32 does not hold all numbers of a type.
fn exceeds_f32(dtype: DType) -> bool {
    dtype == DType::F64 || matches!(dtype.class(), Class::Integer | Class::Bool)
}

/// Bytes of numbers that are handed on at a time, few enough to stay in the nearest cache.
const BYTES: usize = 16 << 10;

/// The digest of numbers as f32, little-endian; tells which share of them each piece was.
fn numbers(converted: &Converted<'_>, kernel: &dyn Kernel, done: impl Fn(f64)) -> Digest {
    let mut sha = Sha256::new();
    let (len, piece) = (converted.len(), converted.piece(None));
    let mut values = vec![0.0f32; piece.min(len)];
    let mut bytes = [[0u8; 4]; BYTES / 4];
    let mut first = 0usize;
    while first < len {
        let some = piece.min(len.saturating_sub(first));
        let values = values.get_mut(..some).unwrap_or_default();
        converted.read(kernel, first, values);
        for values in values.chunks(bytes.len()) {
            bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
            sha.update(bytes.get(..values.len()).unwrap_or_default().as_flattened());
        }
        first = first.saturating_add(some);
        done(some as f64 / len as f64);
    }
    Digest(sha.finalize().into())
}
