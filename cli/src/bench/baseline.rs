//! An earlier run, to be compared with: what has become slower beyond noise.

use super::{Measured, Row};
use crate::render::json::bench::key;
use scantling_core::bundle::File;
use scantling_core::error::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// Changes below this are never told: clocks, page placement and what else a machine does differ from run to run.
pub const LEAST_NOISE: f64 = 0.05;

/// Seconds between which every time that was measured lies.
const SHORTEST: f64 = 1e-12;
const LONGEST: f64 = 1e6;

/// Bytes up to which a baseline is read.
const LIMIT: u64 = 64 << 20;

/// A row that differs from the earlier run.
pub struct Change {
    /// The row's index.
    pub row: usize,
    /// Time now over time then.
    pub factor: f64,
    /// What it may be without meaning anything.
    pub allowed: f64,
}

/// What came of the comparison.
pub struct Comparison {
    /// Rows that were in both.
    pub matched: usize,
    /// Rows of this run that the earlier one has not.
    pub new: usize,
    /// Rows of the earlier run that this one has not.
    pub gone: usize,
    /// Whether the earlier run was on another machine.
    pub other_machine: bool,
    /// Slower beyond noise, worst first.
    pub slower: Vec<Change>,
    /// Faster beyond noise.
    pub faster: usize,
}

/// An earlier run.
pub struct Baseline {
    document: Value,
}

impl Baseline {
    /// Reads `kernels bench --json` output; anything else is a usage error.
    pub fn read(path: &Path) -> Result<Baseline> {
        let shown = path.display().to_string();
        let bytes = File::on_disk(&shown, path)?.read_all(LIMIT)?;
        let wrong = |why: String| {
            Error::Usage(format!(
                "{shown} is no output of kernels bench --json ({why}): make one and name it"
            ))
        };
        let document: Value = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        let rows = document["bench"].as_array().map_or(&[][..], Vec::as_slice);
        if rows.is_empty() {
            return Err(wrong("it has no rows under \"bench\"".into()));
        }
        if let Some(row) = rows.iter().position(|row| time_of(row).is_none()) {
            return Err(wrong(format!(
                "the times of bench[{row}] are not those of a measurement: 0 < first_quartile <= median <= \
                 third_quartile < {LONGEST:e} s was expected"
            )));
        }
        Ok(Baseline { document })
    }

    /// Holds a run against it.
    pub fn compare(&self, measured: &Measured, machine: &Value) -> Comparison {
        let old = self.document["bench"].as_array().map_or(&[][..], Vec::as_slice);
        let mut comparison = Comparison {
            matched: 0,
            new: 0,
            gone: 0,
            other_machine: self.document["machine"] != *machine,
            slower: Vec::new(),
            faster: 0,
        };
        for (i, row) in measured.rows.iter().enumerate() {
            let wanted = key(row);
            let Some((time, noise)) = old.iter().find(|o| same(o, &wanted)).and_then(time_of) else {
                comparison.new += 1;
                continue;
            };
            comparison.matched += 1;
            let change = judge(i, row, time, noise);
            if change.factor > 1.0 + change.allowed {
                comparison.slower.push(change);
            } else if change.factor.recip() > 1.0 + change.allowed {
                comparison.faster += 1;
            }
        }
        comparison.gone = old.len().saturating_sub(comparison.matched);
        comparison.slower.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        comparison
    }
}

fn judge(index: usize, row: &Row, time: f64, noise: f64) -> Change {
    let allowed = (row.time.noise() + noise).max(LEAST_NOISE);
    Change { row: index, factor: row.time.median / time, allowed }
}

fn same(old: &Value, wanted: &Value) -> bool {
    wanted.as_object().is_some_and(|members| members.iter().all(|(k, v)| old[k.as_str()] == *v))
}

/// Median and noise of an earlier row.
fn time_of(row: &Value) -> Option<(f64, f64)> {
    let number = |key: &str| row["seconds"][key].as_f64();
    let (first, median, third) = (number("first_quartile")?, number("median")?, number("third_quartile")?);
    let sane = SHORTEST < first && first <= median && median <= third && third < LONGEST;
    sane.then_some((median, (third - first) / median))
}
