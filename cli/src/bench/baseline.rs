//! An earlier run, to be compared with: what has become slower beyond noise.

use super::{Measured, Row};
use crate::render::json::SCHEMA_VERSION;
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

impl Change {
    fn slower(&self) -> bool {
        self.factor > 1.0 + self.allowed
    }
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

/// How often a row that looks slower is measured again: what else the machine did may be over by then.
const AGAIN: usize = 2;

/// An earlier run.
pub struct Baseline {
    shown: String,
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
        let schema = &document["schema_version"];
        if *schema != SCHEMA_VERSION {
            return Err(Error::Usage(format!(
                "{shown} has schema_version {schema}, but this program compares {SCHEMA_VERSION}: make one with this \
                 program"
            )));
        }
        Ok(Baseline { shown, document })
    }

    /// Whether a run with a model, of so many bytes, or with made-up weights can be held against it; said before
    /// anything is measured. A line to note, if there is one.
    pub fn fits(&self, model: Option<(&str, u64)>) -> Result<Option<String>> {
        let old = &self.document["model"];
        let before = match (old["path"].as_str(), old["bytes"].as_u64()) {
            (Some(path), Some(bytes)) => Some((path, bytes)),
            _ => None,
        };
        let words = |of: Option<(&str, u64)>| {
            of.map_or_else(
                || "made-up weights".to_owned(),
                |(path, bytes)| format!("{path} of {bytes} bytes"),
            )
        };
        match (before, model) {
            (Some((old, a)), Some((new, b))) if a == b => Ok((old != new).then(|| {
                format!("note: the baseline was measured with {old}, of as many bytes as {new}: taken for the same")
            })),
            (None, None) => Ok(None),
            _ => Err(Error::Usage(format!(
                "{} was measured with {}, this run is with {}: name the same model, or make a new baseline",
                self.shown,
                words(before),
                words(model)
            ))),
        }
    }

    /// Whether any row that is going to be measured is in it; said before anything is measured.
    pub fn meets(&self, mut rows: impl Iterator<Item = Value>) -> Result<()> {
        match rows.any(|row| self.row(&row).is_some()) {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "{} has no row in common with this run: run it with the same ops, types, kernels, threads and --quick",
                self.shown
            ))),
        }
    }

    /// Has rows that look slower measured again, and keeps the faster of both.
    pub fn settle(&self, rows: &mut [Row], mut again: impl FnMut(&Row) -> Result<Option<Row>>) -> Result<()> {
        for row in rows {
            for _ in 0..AGAIN {
                if !self.change(0, row).is_some_and(|change| change.slower()) {
                    break;
                }
                if let Some(new) = again(row)?.filter(|new| new.time.median < row.time.median) {
                    *row = new;
                }
            }
        }
        Ok(())
    }

    fn rows(&self) -> &[Value] {
        self.document["bench"].as_array().map_or(&[][..], Vec::as_slice)
    }

    /// The time and noise of a row.
    fn row(&self, wanted: &Value) -> Option<(f64, f64)> {
        self.rows().iter().find(|old| same(old, wanted)).and_then(time_of)
    }

    /// How a row differs from the earlier one; none if there is none.
    fn change(&self, index: usize, row: &Row) -> Option<Change> {
        let (time, noise) = self.row(&key(&row.kernel, row.threads, row.shape))?;
        let allowed = (row.time.noise() + noise).max(LEAST_NOISE);
        Some(Change { row: index, factor: row.time.median / time, allowed })
    }

    /// Holds a run against it.
    pub fn compare(&self, measured: &Measured, machine: &Value) -> Comparison {
        let mut comparison = Comparison {
            matched: 0,
            new: 0,
            gone: 0,
            other_machine: self.document["machine"] != *machine,
            slower: Vec::new(),
            faster: 0,
        };
        for (i, row) in measured.rows.iter().enumerate() {
            let Some(change) = self.change(i, row) else {
                comparison.new += 1;
                continue;
            };
            comparison.matched += 1;
            if change.slower() {
                comparison.slower.push(change);
            } else if change.factor.recip() > 1.0 + change.allowed {
                comparison.faster += 1;
            }
        }
        comparison.gone = self.rows().len().saturating_sub(comparison.matched);
        comparison.slower.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        comparison
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BenchOp;
    use crate::bench::limits::Rates;
    use crate::bench::timing::Spread;
    use crate::bench::{Cost, Shape};
    use serde_json::json;

    fn row(seconds: f64) -> Row {
        Row {
            kernel: "scalar".into(),
            threads: 1,
            shape: Shape { op: BenchOp::Rope, dtype: None, rows: 1, inputs: 8, outputs: 8 },
            part: 1.0,
            time: Spread { median: seconds, first: seconds, third: seconds, count: 5 },
            cost: Cost::default(),
            rates: Rates::default(),
            limit: None,
            ratio: None,
        }
    }

    fn earlier(model: Value) -> Baseline {
        let mut old = key("scalar", 1, row(1.0).shape);
        old["seconds"] = json!({"first_quartile": 1.0, "median": 1.0, "third_quartile": 1.0});
        Baseline { shown: "old.json".into(), document: json!({"model": model, "bench": [old]}) }
    }

    #[test]
    fn a_row_is_slower_only_if_it_is_so_again() {
        let settled = |first: f64, later: &[f64]| {
            let (mut rows, mut later) = ([row(first)], later.iter());
            let again = |_: &Row| Ok(later.next().map(|seconds| row(*seconds)));
            earlier(Value::Null).settle(&mut rows, again).unwrap();
            (rows[0].time.median, later.len())
        };
        assert_eq!(settled(1.04, &[9.0]), (1.04, 1), "as fast as before: not measured again");
        assert_eq!(settled(1.5, &[1.01, 9.0]), (1.01, 1), "once was noise");
        assert_eq!(settled(1.5, &[1.6, 1.0]), (1.0, 0), "twice was noise");
        assert_eq!(settled(1.5, &[1.4, 1.6]), (1.4, 0), "slower, by the least it showed");
    }

    #[test]
    fn another_model_is_told_before_anything_is_measured() {
        let with = || earlier(json!({"path": "a.gguf", "bytes": 7}));
        assert_eq!(with().fits(Some(("a.gguf", 7))).unwrap(), None);
        assert!(with().fits(Some(("b/a.gguf", 7))).unwrap().unwrap().contains("taken for the same"));
        let told = |b: Baseline, model| b.fits(model).unwrap_err().to_string();
        let other = told(with(), Some(("a.gguf", 8)));
        assert!(
            other.contains("old.json was measured with a.gguf of 7 bytes, this run is with a.gguf of 8"),
            "{other}"
        );
        assert!(told(with(), None).contains("this run is with made-up weights"));
        assert!(told(earlier(Value::Null), Some(("a.gguf", 7))).contains("measured with made-up weights"));
        assert_eq!(earlier(Value::Null).fits(None).unwrap(), None);
    }

    #[test]
    fn a_run_without_a_common_row_is_told() {
        let shape = row(1.0).shape;
        earlier(Value::Null).meets([key("scalar", 1, shape)].into_iter()).unwrap();
        let told = earlier(Value::Null).meets([key("scalar", 2, shape)].into_iter()).unwrap_err().to_string();
        assert!(told.contains("no row in common"), "{told}");
    }
}
