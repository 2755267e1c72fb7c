//! Measuring kernels: what is measured ([`cases`], over [`weights`]), how ([`timing`]), and against what
//! ([`limits`] of the machine, a [`baseline`] of an earlier day).

pub mod baseline;
pub mod cases;
pub mod jobs;
pub mod limits;
pub mod runs;
pub mod timing;
pub mod weights;

use crate::args::BenchOp;
use crate::backend::Backend;
use jobs::Job;
use limits::{Limit, Rates, Sampler};
use scantling_core::dtype::DType;
use std::time::Instant;
use timing::{LEAST, Spread, seconds};

/// What is measured of each kernel that takes part: an op, an element type, a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The op.
    pub op: BenchOp,
    /// Element type of what is stored; none for ops on activations alone.
    pub dtype: Option<DType>,
    /// Rows of activations.
    pub rows: usize,
    /// Columns of them; of a decode, the elements of a row.
    pub inputs: usize,
    /// Outputs of a row; of an attention, the positions looked at.
    pub outputs: usize,
}

/// What an op takes: bytes of stored weights, operations (a multiply and an add are two), bytes of f32 written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Stored bytes that are read; for ops on activations alone, bytes of those that are read and written.
    pub bytes: f64,
    /// Operations.
    pub flops: f64,
    /// Bytes that are written, where writing is what it is about.
    pub written: f64,
}

/// One kernel on one shape. Times and costs are those of the whole op.
#[derive(Clone, Debug)]
pub struct Row {
    /// The kernel, wrappers and all.
    pub kernel: String,
    /// Threads it ran on.
    pub threads: usize,
    /// What it did.
    pub shape: Shape,
    /// The share of the op that was run, where all of it would have taken too long.
    pub part: f64,
    /// Seconds.
    pub time: Spread,
    /// What it took.
    pub cost: Cost,
    /// What the machine could do in the same rounds.
    pub rates: Rates,
    /// What the op runs into, and the seconds it would take then.
    pub limit: Option<Limit>,
    /// How many times as fast it is as the kernel that ratios are to.
    pub ratio: Option<f64>,
}

impl Row {
    /// Whether it is of a kernel.
    pub fn of(&self, contender: &Contender) -> bool {
        (&self.kernel, self.threads) == (&contender.backend.name, contender.backend.threads)
    }

    /// The time of the limit over that of the kernel.
    pub fn share(&self) -> Option<f64> {
        self.limit.map(|limit| limit.seconds / self.time.median)
    }
}

/// Everything a run has measured.
pub struct Measured {
    /// By shape, the fastest kernel first.
    pub rows: Vec<Row>,
    /// The kernel that ratios are to.
    pub against: String,
    /// The share of made-up weights that lay on huge pages, if there were any and the system says.
    pub made_up_huge: Option<f64>,
    /// What was not measured, and why: a line each.
    pub left_out: Vec<String>,
    /// What kernels had to say: name, threads, lines.
    pub reports: Vec<(String, usize, Vec<String>)>,
}

/// A kernel that takes part.
pub struct Contender {
    /// The kernel.
    pub backend: Backend,
    /// Rounds of its densest loop that take about a millisecond.
    peak_rounds: u64,
}

impl Contender {
    /// A kernel, tried out.
    pub fn new(backend: Backend) -> Contender {
        let peak_rounds = limits::peak_rounds(backend.kernel.as_ref());
        Contender { backend, peak_rounds }
    }
}

/// Runs one op on every kernel in turn, round after round, for about so many seconds each; one row for each kernel.
pub fn measure(job: &mut dyn Job, contenders: &[&Contender], budget: f64) -> Vec<Row> {
    let mut lanes: Vec<Lane<'_>> = contenders.iter().map(|c| Lane::begin(job, c, budget)).collect();
    let whole = budget * lanes.len() as f64;
    let start = Instant::now();
    for round in 0.. {
        if round >= LEAST && (start.elapsed().as_secs_f64() >= whole || round >= MOST) {
            break;
        }
        lanes.iter_mut().for_each(|lane| lane.round(job));
    }
    lanes.into_iter().filter_map(|lane| lane.row(job)).collect()
}

/// Rounds after which more tell nothing more.
const MOST: usize = 200;
/// A repetition lasts at least so long, so that the clock's own time is lost in it.
const SHORTEST: f64 = 2e-4;

/// A kernel's samples of one op.
struct Lane<'c> {
    contender: &'c Contender,
    parts: usize,
    runs: usize,
    samples: Vec<f64>,
    limits: Sampler,
}

impl<'c> Lane<'c> {
    /// Warms up, and cuts the op so that five repetitions and more fit the time.
    fn begin(job: &mut dyn Job, contender: &'c Contender, budget: f64) -> Lane<'c> {
        let mut lane = Lane { contender, parts: 0, runs: 1, samples: Vec::new(), limits: Sampler::default() };
        let (all, grain) = (job.parts(), job.grain());
        let target = budget / (LEAST + 1) as f64;
        lane.parts = grain.min(all);
        lane.sample(job);
        loop {
            let each = lane.sample(job) / lane.parts as f64;
            let fit = (target / each) as usize / grain * grain;
            let wanted = fit.clamp(grain.min(all), all);
            // A first estimate from few parts is too long where there is a start to pay: grow step by step.
            if wanted <= lane.parts {
                lane.parts = wanted;
                break;
            }
            lane.parts = wanted.min(lane.parts * 8);
        }
        let once = lane.sample(job).max(1e-9);
        lane.runs = ((SHORTEST / once).ceil() as usize).clamp(1, 64);
        lane
    }

    /// Seconds of the op, the mean of a few runs.
    fn sample(&self, job: &mut dyn Job) -> f64 {
        let mut sum = 0.0;
        for _ in 0..self.runs {
            job.prepare();
            sum += seconds(|| job.run(self.contender.backend.kernel.as_ref(), self.parts));
        }
        sum / (self.runs * job.repeats()) as f64
    }

    fn round(&mut self, job: &mut dyn Job) {
        let kernel = self.contender.backend.kernel.as_ref();
        if let Some(data) = job.stored() {
            self.limits.read(kernel, data);
        }
        if let Some((from, to)) = job.copied() {
            self.limits.copy(from, to, self.contender.backend.threads);
        }
        // The densest loop of a kernel that rounds activations says nothing of products with floats.
        let floats = job.shape().dtype.is_some_and(|d| !d.is_quantised());
        if job.multiplies() && !(floats && self.contender.backend.rounds_activations) {
            self.limits.peak(kernel, self.contender.peak_rounds);
        }
        let seconds = self.sample(job);
        self.samples.push(seconds);
    }

    fn row(&self, job: &dyn Job) -> Option<Row> {
        let (part, cost) = (job.cost(self.parts), job.cost(job.parts()));
        let weight = |c: Cost| if c.flops > 0.0 { c.flops } else { c.bytes };
        let (rates, factor) = (self.limits.rates(), weight(cost) / weight(part));
        Some(Row {
            kernel: self.contender.backend.name.clone(),
            threads: self.contender.backend.threads,
            shape: job.shape(),
            part: 1.0 / factor,
            time: Spread::of(&self.samples)?.times(factor),
            cost,
            limit: rates.limit(cost),
            rates,
            ratio: None,
        })
    }
}

/// Sets the ratios, which are to the first kernel, and puts rows in the order they are shown. None if no kernel took
/// part.
pub fn ranked(
    mut rows: Vec<Row>,
    contenders: &[Contender],
    made_up_huge: Option<f64>,
    left_out: Vec<String>,
) -> Option<Measured> {
    let against = &contenders.first()?.backend;
    best_reads(&mut rows);
    let reference: Vec<(Shape, f64)> = rows
        .iter()
        .filter(|r| (&r.kernel, r.threads) == (&against.name, against.threads))
        .map(|r| (r.shape, r.time.median))
        .collect();
    for row in &mut rows {
        let other = reference.iter().find(|(shape, _)| *shape == row.shape);
        row.ratio = other.map(|(_, seconds)| seconds / row.time.median);
    }
    rows.sort_by(|a, b| a.shape.cmp(&b.shape).then(a.time.median.total_cmp(&b.time.median)));
    let said = |c: &Contender| (c.backend.name.clone(), c.backend.threads, c.backend.kernel.report());
    let reports = contenders.iter().map(said).filter(|(_, _, lines)| !lines.is_empty()).collect();
    Some(Measured { rows, against: against.name.clone(), made_up_huge, left_out, reports })
}

/// Kernels on as many threads share what the best of them could read: a slow loop is no limit of the memory.
fn best_reads(rows: &mut [Row]) {
    let reads: Vec<(Shape, usize, f64)> =
        rows.iter().filter_map(|r| Some((r.shape, r.threads, r.rates.read?))).collect();
    for row in rows {
        let mine = reads.iter().filter(|(shape, threads, _)| (*shape, *threads) == (row.shape, row.threads));
        row.rates.read = mine.map(|(_, _, rate)| *rate).reduce(f64::max);
        row.limit = row.rates.limit(row.cost);
    }
}
