//! The numbers of each tensor: how many, how large, how spread, what is odd about them.
//!
//! One pass over all of them, on all cores, in pieces of a fixed size that are joined in their order: the same bits
//! whatever the number of threads. Weights that several stored tensors make up are looked at as the matrices they are.
//! A second pass, where it is wanted, counts histograms and codes.

pub mod blocks;
pub mod extent;
pub mod histogram;
pub mod moments;
mod notes;
pub mod piece;
mod reading;
pub mod tally;

use crate::check::{DATA_NOT_FINITE, DATA_UNREADABLE, Progress, look_at};
use crate::codes;
use crate::finding::{Finding, Severity};
use crate::index::{ElementType, OVERLAP, Shape, TensorInfo, overlap, role};
use crate::kernel::Kernel;
use crate::names;
use crate::parallel::on_cores;
use crate::report::Unchecked;
use crate::show;
use crate::source::WeightSource;
use blocks::Blocks;
use histogram::Histogram;
use rayon::prelude::*;
use reading::{Found, Reading};
use std::path::Path;
use tally::Tally;

codes! {
    pub static STATS_NO_TENSOR = Error, Names, "stats-no-tensor",
        "no tensor has a name that was asked for",
        "The patterns leave no tensor to look at, so nothing is known of any. A pattern has to match the whole of a name as \
         the file stores it: '*q_proj*' matches what holds q_proj. Names of the other format match nothing.";
}

/// What is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Threads; 0 for all cores.
    pub threads: usize,
    /// Whether histograms and codes are counted.
    pub detail: bool,
}

/// What was found in the tensors that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// One for each tensor that could be read, in the order asked for.
    pub tensors: Vec<TensorStats>,
    /// Numbers that are none as errors, what is odd as notes.
    pub findings: Vec<Finding>,
    /// What was not looked at.
    pub unchecked: Vec<Unchecked>,
}

/// What is known of the numbers of one tensor.
#[derive(Clone, Debug)]
pub struct TensorStats {
    /// Name as stored.
    pub name: String,
    /// Name without the numbers of layers and experts: tensors of one kind are of one use.
    pub kind: String,
    /// The layer it belongs to.
    pub layer: Option<usize>,
    /// How its numbers are stored.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Bytes it takes in its files.
    pub bytes: u64,
    /// The numbers.
    pub tally: Tally,
    /// Rows, if it has any: runs along the innermost axis.
    pub rows: Option<u64>,
    /// Rows that are nothing but zeros.
    pub dead_rows: u64,
    /// The first of them.
    pub first_dead_row: Option<u64>,
    /// How the numbers are spread, where that was wanted and some are finite.
    pub histogram: Option<Histogram>,
    /// How the blocks are used, where that was wanted and there are some.
    pub blocks: Option<Blocks>,
}

impl Stats {
    /// Numbers looked at.
    pub fn values(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.tally.count))
    }

    /// Bytes looked at.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, t| sum.saturating_add(t.bytes))
    }

    /// Number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }
}

/// Looks at all numbers of these tensors of the source that was opened at a path.
pub fn run(
    source: &dyn WeightSource,
    path: &Path,
    tensors: &[&TensorInfo],
    how: How,
    kernel: &dyn Kernel,
    progress: &dyn Progress,
) -> Stats {
    if let Some(finding) = overlap(source.tensors(), source.files()) {
        let what = format!("values of {} tensors", tensors.len());
        let unchecked = vec![Unchecked { what, why: OVERLAP.to_owned() }];
        return Stats { findings: vec![finding], unchecked, ..Stats::default() };
    }
    let bytes = tensors.iter().fold(0u64, |sum, t| sum.saturating_add(t.byte_len()));
    let passes = if how.detail { 2 } else { 1 };
    progress.begin("reading values", bytes.saturating_mul(passes));
    let stats = on_cores(how.threads, || {
        let mut pass =
            Pass { source, path, how, kernel, progress, stats: Stats::default(), batch: Vec::new() };
        tensors.iter().for_each(|tensor| pass.add(tensor));
        pass.flush();
        let mut stats = pass.stats;
        stats.findings.extend(notes::of(source, &stats.tensors));
        stats
    });
    progress.end();
    stats
}

/// Pieces that are read before they are joined: what is found of each is kept until then.
const BATCH: usize = 4096;
/// Bytes of tensors that have to be made, not only mapped, which are held at a time.
const HELD: usize = 64 << 20;

/// The pass under way.
struct Pass<'s> {
    source: &'s dyn WeightSource,
    path: &'s Path,
    how: How,
    kernel: &'s dyn Kernel,
    progress: &'s dyn Progress,
    stats: Stats,
    batch: Vec<(&'s TensorInfo, Reading<'s>)>,
}

impl<'s> Pass<'s> {
    fn add(&mut self, tensor: &'s TensorInfo) {
        match Reading::open(self.source, tensor) {
            // What the bytes are of nobody knows.
            Ok(_) if misfits(tensor) => self.skip(tensor, "its bytes do not hold its shape"),
            Ok(Some(reading)) => self.batch.push((tensor, reading)),
            Ok(None) => {
                let why = match &tensor.dtype {
                    ElementType::Unknown(name) if name.is_empty() => "its type, shape or place is not said",
                    ElementType::Unknown(_) => "its type is not known",
                    ElementType::Known(_) | ElementType::Packed(_) => "nothing says how its bits are packed",
                };
                self.skip(tensor, why);
            }
            Err(e) => {
                let f = Finding::new(&DATA_UNREADABLE, e.to_string()).tensor(&tensor.name);
                self.stats.findings.push(f.file(file_of(self.source, tensor)));
                self.skip(tensor, "they could not be read");
            }
        }
        let pieces = self.batch.iter().map(|(_, reading)| reading.pieces()).sum::<usize>();
        let held = self.batch.iter().map(|(_, reading)| reading.owned()).sum::<usize>();
        if pieces >= BATCH || held >= HELD {
            self.flush();
        }
    }

    fn skip(&mut self, tensor: &TensorInfo, why: &str) {
        let dtype = match tensor.dtype.to_string() {
            none if none.is_empty() => none,
            dtype => format!(" ({dtype})"),
        };
        let what = format!("values of {}{dtype}", tensor.name);
        self.stats.unchecked.push(Unchecked { what, why: why.to_owned() });
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let pieces =
            |(i, (_, reading)): (usize, &(_, Reading<'_>))| (0..reading.pieces()).map(move |p| (i, p));
        let jobs: Vec<(usize, usize)> = batch.iter().enumerate().flat_map(pieces).collect();
        let look = |room: &mut Vec<f32>, &(i, piece): &(usize, usize)| {
            let Some((_, reading)) = batch.get(i) else { return Found::default() };
            let found = reading.tally(self.kernel, piece, room);
            self.progress.advance(reading.share());
            found
        };
        let found: Vec<Found> = jobs.par_iter().map_init(Vec::new, look).collect();
        let mut rest = found.as_slice();
        for (tensor, reading) in &batch {
            let (own, others) = rest.split_at(reading.pieces().min(rest.len()));
            rest = others;
            self.finish(tensor, reading, &reading.joined(own));
        }
    }

    fn finish(&mut self, tensor: &TensorInfo, reading: &Reading<'_>, found: &Found) {
        let tally = reading.exact(found.tally);
        if tally.nan > 0 || tally.infinite > 0 {
            self.stats.findings.push(not_finite(self.source, self.path, tensor, &tally));
        }
        let (mut histogram, mut blocks) = (None, None);
        if self.how.detail {
            (histogram, blocks) = self.detail(reading, &tally);
        }
        self.stats.tensors.push(TensorStats {
            name: tensor.name.clone(),
            kind: role(&tensor.name),
            layer: names::part(&tensor.name).map(|part| part.layer),
            dtype: tensor.dtype.to_string(),
            shape: tensor.shape.clone(),
            bytes: tensor.byte_len(),
            tally,
            rows: reading.rows(),
            dead_rows: found.dead,
            first_dead_row: found.first_dead,
            histogram,
            blocks,
        });
    }

    /// Counts whose sums do not depend on the order.
    fn detail(&self, reading: &Reading<'_>, tally: &Tally) -> (Option<Histogram>, Option<Blocks>) {
        let empty = || (Histogram::of(tally), reading.blocks());
        let count = |(mut histogram, mut blocks): (Option<Histogram>, Option<Blocks>), piece: usize| {
            reading.count(self.kernel, piece, &mut histogram, &mut blocks);
            self.progress.advance(reading.share());
            (histogram, blocks)
        };
        let join = |a: (Option<Histogram>, Option<Blocks>), b: (Option<Histogram>, Option<Blocks>)| {
            (a.0.zip(b.0).map(|(a, b)| a.join(&b)), a.1.zip(b.1).map(|(a, b)| a.join(&b)))
        };
        (0..reading.pieces()).into_par_iter().fold(empty, count).reduce(empty, join)
    }
}

/// Whether a tensor that is stored by itself has other bytes than its shape asks for.
fn misfits(tensor: &TensorInfo) -> bool {
    let Some(dtype) = tensor.dtype.known().filter(|_| !tensor.is_packed()) else { return false };
    dtype.byte_len(&tensor.shape) != Ok(tensor.byte_len())
}

fn file_of(source: &dyn WeightSource, tensor: &TensorInfo) -> String {
    source.files().get(tensor.shard).map_or_else(String::new, |f| f.name().to_owned())
}

/// The finding about numbers that are none, placed at the first of them.
fn not_finite(source: &dyn WeightSource, path: &Path, tensor: &TensorInfo, tally: &Tally) -> Finding {
    let first = tally.first_nan.into_iter().chain(tally.first_infinite).min().unwrap_or(0);
    let (element, places) = show::element_of(first, tensor.dtype.known(), &tensor.shape);
    let message = format!(
        "{} NaN and {} infinite of {} values, the first at element {element} {:?}",
        tally.nan,
        tally.infinite,
        tally.count,
        Shape(&places)
    );
    let mut f = Finding::new(&DATA_NOT_FINITE, message).tensor(&tensor.name).file(file_of(source, tensor));
    if let (Some(range), Some(dtype)) = (&tensor.bytes, tensor.dtype.known()) {
        let block = first / (dtype.block_values().max(1) as u64);
        f = f.at(range.start.saturating_add(block.saturating_mul(dtype.block_bytes() as u64)));
    }
    f.advice(look_at(path, &tensor.name, &places))
}
