//! The page of statistics: that of an inspection, and what the numbers are.

use super::heat::{About, Fold, Map, Scale, digits};
use super::inspect::{self, Options, remark};
use super::page::{Cell, Column, Histogram, Page, Standing, TensorRow, Tile};
use crate::render::words::thousands;
use scantling_core::check::Checked;
use scantling_core::finding::Severity;
use scantling_core::stats::{Stats, TensorStats};
use std::collections::HashMap;

/// Columns that the list has beyond those of an inspection, in the order of [`cells`].
const COLUMNS: [Column; 9] = [
    Column { id: "rms", title: "RMS", explain: "root of the mean of squares", narrow: true, words: false },
    Column { id: "absmax", title: "abs max", explain: "the largest magnitude", narrow: false, words: false },
    Column {
        id: "peak",
        title: "peak",
        explain: "the largest magnitude in multiples of RMS",
        narrow: false,
        words: false,
    },
    Column { id: "mean", title: "mean", explain: "mean of the finite numbers", narrow: false, words: false },
    Column {
        id: "std",
        title: "std",
        explain: "standard deviation, as of a whole population",
        narrow: false,
        words: false,
    },
    Column { id: "min", title: "min", explain: "the smallest number", narrow: false, words: false },
    Column { id: "max", title: "max", explain: "the largest number", narrow: false, words: false },
    Column { id: "zeros", title: "zeros", explain: "numbers that are zero", narrow: false, words: false },
    Column {
        id: "nonfinite",
        title: "NaN, Inf",
        explain: "numbers that are NaN or infinite",
        narrow: false,
        words: false,
    },
];

/// Where in a row the figures stand that pictures are made of.
const RMS: usize = 0;
const PEAK: usize = 2;
/// Share of zeros from which a picture of them tells something.
const MANY_ZEROS: f64 = 0.01;

/// The page of statistics. Findings of the numbers stand before those of the files.
pub fn stats(checked: &Checked, found: &Stats, options: Options<'_>) -> Page {
    let mut page = inspect::inspect(checked, options);
    page.command = "stats";
    let by_name: HashMap<&str, &TensorStats> = found.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
    page.list.columns = COLUMNS.to_vec();
    for row in &mut page.list.rows {
        let stats = by_name.get(row.name.as_str());
        row.cells = stats.map_or_else(|| vec![Cell::None; COLUMNS.len()], |stats| cells(stats));
        row.histogram = stats.and_then(|stats| stats.histogram.as_ref()).map(|h| Histogram {
            low: h.low,
            high: h.high,
            counts: h.counts.clone(),
            beyond: (h.below, h.above),
        });
    }
    let (kinds, rows) = (&page.kinds, &page.list.rows);
    let figure = |at: usize| {
        move |row: &TensorRow| match row.cells.get(at) {
            Some(Cell::Number(n)) => Some(*n),
            _ => None,
        }
    };
    let zeros = |row: &TensorRow| {
        let tally = &by_name.get(row.name.as_str())?.tally;
        (tally.finite() > 0).then(|| tally.zeros as f64 / tally.finite() as f64)
    };
    let mut maps = Map::all(SIZE, kinds, rows, figure(RMS));
    maps.extend(Map::all(OUTLIERS, kinds, rows, figure(PEAK)));
    if rows.iter().filter(|row| row.layer.is_some()).filter_map(zeros).any(|share| share >= MANY_ZEROS) {
        maps.extend(Map::all(ZEROS, kinds, rows, zeros));
    }
    maps.append(&mut page.maps);
    page.maps = maps;
    judge(&mut page, found);
    page
}

/// What the numbers make of the verdict.
fn judge(page: &mut Page, found: &Stats) {
    let bad = found
        .tensors
        .iter()
        .fold(0u64, |n, t| n.saturating_add(t.tally.nan).saturating_add(t.tally.infinite));
    let all = thousands(found.values());
    let numbers = match bad {
        0 => format!("all {all} numbers that were read are finite"),
        n => format!("{} of {all} numbers are NaN or infinite", thousands(n)),
    };
    if found.count(Severity::Error) > 0 {
        page.verdict.standing = Standing::Bad;
    }
    page.verdict.headline = format!("{numbers}; {}", page.verdict.headline);
    let note = format!("of {all} numbers");
    page.tiles.push(Tile { name: "NaN or infinite", value: thousands(bad), note });
    let mut findings: Vec<_> = found.findings.iter().take(inspect::FINDINGS).map(remark).collect();
    page.findings_hidden += found.findings.len().saturating_sub(findings.len());
    findings.append(&mut page.findings);
    page.findings = findings;
    // The values are what was looked at here.
    page.unchecked.retain(|what| !what.starts_with("tensor values"));
    page.unchecked.extend(found.unchecked.iter().map(|u| format!("{} ({})", u.what, u.why)));
}

fn cells(stats: &TensorStats) -> Vec<Cell> {
    let tally = &stats.tally;
    let number = |n: Option<f64>| n.map_or(Cell::None, Cell::Number);
    let finite = |n: f64| number((tally.finite() > 0).then_some(n));
    vec![
        number(tally.rms()),
        number(tally.abs_max()),
        number(tally.peak()),
        finite(tally.mean),
        number(tally.std()),
        finite(tally.min),
        finite(tally.max),
        Cell::Number(tally.zeros as f64),
        Cell::Number(tally.nan.saturating_add(tally.infinite) as f64),
    ]
}

const SIZE: About = About {
    title: "How large the numbers are",
    explain: "Root mean square of each kind in each layer. Within a kind, neighbours are alike in a sound model.",
    scale: Scale::Log,
    fold: Fold::Rms,
    show: digits,
};

const OUTLIERS: About = About {
    title: "Outliers",
    explain: "The largest magnitude in multiples of the root mean square. What stands out is hard to quantise.",
    scale: Scale::Log,
    fold: Fold::Largest,
    show: digits,
};

const ZEROS: About = About {
    title: "Zeros",
    explain: "The share of numbers that are zero.",
    scale: Scale::Linear,
    fold: Fold::Mean,
    show: |n| format!("{}%", digits(n * 100.0)),
};
