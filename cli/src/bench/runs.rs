//! Measuring whole models: reading a prompt, and writing tokens one by one.

use super::Cost;
use super::limits::{Limit, Rates, Sampler, peak_rounds};
use super::timing::{Spread, seconds};
use scantling_core::cache::KvType;
use scantling_core::error::Result;
use scantling_core::kernel::Kernel;
use scantling_core::model::Session;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens that are written.
    pub new: usize,
    /// Tokens that are in the cache before either.
    pub depth: usize,
    /// Repetitions.
    pub repetitions: usize,
}

/// What was measured of one kernel.
pub struct Measured {
    /// The kernel, wrappers and all.
    pub kernel: String,
    /// Threads it ran on.
    pub threads: usize,
    /// How keys and values were stored.
    pub kv: KvType,
    /// Bytes beside the mapped files: what is held of weights, and the cache.
    pub beside: (usize, usize),
    /// The numbers.
    pub runs: Vec<Run>,
    /// What the kernel had to say.
    pub report: Vec<String>,
}

/// One number.
#[derive(Clone, Debug)]
pub struct Run {
    /// `pp512`, `tg128`; `tg128@4096` behind so many tokens.
    pub test: String,
    /// Tokens of a repetition.
    pub tokens: usize,
    /// Seconds of a repetition.
    pub time: Spread,
    /// What the machine could do in the same rounds.
    pub rates: Rates,
    /// What it runs into, and the seconds it would take then.
    pub limit: Option<Limit>,
}

impl Run {
    /// Tokens a second.
    pub fn rate(&self) -> f64 {
        self.tokens as f64 / self.time.median
    }

    /// The time of the limit over that of the run.
    pub fn share(&self) -> Option<f64> {
        self.limit.map(|limit| limit.seconds / self.time.median)
    }
}

impl Plan {
    /// Tokens that a session must have room for.
    pub fn context(&self) -> usize {
        self.depth.saturating_add(self.prompt.max(self.new)).max(1)
    }
}

/// Runs a plan, prompt and writing in turns, each once before it counts. `weights` are bytes of the model, to measure
/// reading with.
pub fn runs(session: &mut Session<'_>, kernel: &dyn Kernel, weights: &[u8], plan: Plan) -> Result<Vec<Run>> {
    let ids = |n: usize| -> Vec<u32> {
        (0..n).map(|i| (i.wrapping_mul(7919) % session.vocabulary().max(1)) as u32).collect()
    };
    let (before, prompt, new) = (ids(plan.depth), ids(plan.prompt), ids(plan.new));
    session.truncate(0);
    session.feed(&before, 0, None)?;
    let (bytes, operations) = session.work();
    let kept = |tokens: usize| session.cache_bytes(tokens).unwrap_or(0) as f64;
    let once = kept(1);
    let mut lanes = Vec::new();
    if plan.prompt > 0 {
        let operations = operations as f64 * plan.prompt as f64;
        lanes.push(Lane::new(
            "pp",
            &prompt,
            plan.prompt,
            Cost { bytes: bytes as f64, flops: operations, written: 0.0 },
        ));
    }
    if plan.new > 0 {
        let n = plan.new as f64;
        // Each token reads what was kept of those before it.
        let cache = once * (n * plan.depth as f64 + n * (n - 1.0) / 2.0);
        let cost = Cost { bytes: bytes as f64 * n + cache, flops: operations as f64 * n, written: 0.0 };
        lanes.push(Lane::new("tg", &new, 1, cost));
    }
    let rounds = peak_rounds(kernel);
    for repetition in 0..=plan.repetitions {
        for lane in &mut lanes {
            let sample = lane.sample(session, plan.depth)?;
            if repetition > 0 {
                lane.limits.read(kernel, weights);
                lane.limits.peak(kernel, rounds);
                lane.samples.push(sample);
            }
        }
    }
    let at = if plan.depth > 0 { format!("@{}", plan.depth) } else { String::new() };
    Ok(lanes.into_iter().filter_map(|lane| lane.done(&at)).collect())
}

struct Lane<'i> {
    kind: &'static str,
    ids: &'i [u32],
    /// Tokens that are fed at once.
    at_once: usize,
    cost: Cost,
    samples: Vec<f64>,
    limits: Sampler,
}

impl<'i> Lane<'i> {
    fn new(kind: &'static str, ids: &'i [u32], at_once: usize, cost: Cost) -> Lane<'i> {
        Lane { kind, ids, at_once, cost, samples: Vec::new(), limits: Sampler::default() }
    }

    /// Seconds of all its tokens behind those of the depth, the logits of each piece's last made.
    fn sample(&self, session: &mut Session<'_>, depth: usize) -> Result<f64> {
        session.truncate(depth);
        let mut result = Ok(());
        let time = seconds(|| {
            for ids in self.ids.chunks(self.at_once.max(1)) {
                match session.feed(ids, 1, None) {
                    Ok(logits) => drop(std::hint::black_box(logits)),
                    Err(error) => {
                        result = Err(error);
                        return;
                    }
                }
            }
        });
        result.map(|()| time)
    }

    fn done(self, at: &str) -> Option<Run> {
        let rates = self.limits.rates();
        Some(Run {
            test: format!("{}{}{at}", self.kind, self.ids.len()),
            tokens: self.ids.len(),
            time: Spread::of(&self.samples)?,
            rates,
            limit: rates.limit(self.cost),
        })
    }
}
