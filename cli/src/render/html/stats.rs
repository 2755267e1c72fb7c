//! The page of statistics: that of an inspection, and what the numbers are.

use super::heat::{About, Fold, Map, Scale, digits};
use super::inspect::{self, Options, remark};
use super::page::{Cell, Column, Histogram, Page, Standing, TensorRow, Tile};
use crate::render::words::{self, plural, thousands};
use scantling_core::check::Checked;
use scantling_core::finding::Severity;
use scantling_core::report::Unchecked;
use scantling_core::stats::{Stats, TensorStats};
use std::collections::HashMap;
use std::rc::Rc;

/// The column of numbers that are none.
const NOT_FINITE: &str = "nonfinite";

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
        id: NOT_FINITE,
        title: "NaN, Inf",
        explain: "numbers that are NaN or infinite",
        narrow: false,
        words: false,
    },
];

/// Where in a row the figures stand that pictures are made of.
const RMS: usize = 0;
const PEAK: usize = 2;
/// What an inspection does not look at and this does; and why it leaves out what takes an option of its own.
const VALUES: &str = "tensor values";
const NO_IDENTITY: &str = "--no-identity";
/// Share of zeros from which a picture of them tells something.
const MANY_ZEROS: f64 = 0.01;

/// The page of statistics. Findings of the numbers stand before those of the files.
pub fn stats<'a>(checked: &'a Checked, found: &'a Stats, options: Options<'_>) -> Page<'a> {
    let mut page = inspect::inspect(checked, options);
    page.command = "stats";
    let by_name: HashMap<&str, &TensorStats> = found.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
    let by_name = Rc::new(by_name);
    page.list.columns = COLUMNS.to_vec();
    let known = Rc::clone(&by_name);
    page.list.rows = page.list.rows.with(move |row| {
        let stats = known.get(row.name.as_str());
        row.cells = stats.map_or_else(|| vec![Cell::None; COLUMNS.len()], |stats| cells(stats));
        row.histogram = stats.and_then(|stats| stats.histogram.as_ref()).map(|h| Histogram {
            low: h.low,
            high: h.high,
            counts: h.counts.clone(),
            beyond: (h.below, h.above),
        });
    });
    let (kinds, rows) = (&page.kinds, &page.list.rows);
    let lost = |row: &TensorRow| by_name.get(row.name.as_str()).map_or(0, |stats| not_finite(stats));
    // What has no number at all is there too.
    let or_none = |number: Option<f64>, row: &TensorRow| number.or((lost(row) > 0).then_some(f64::NAN));
    let figure = |at: usize| {
        move |row: &TensorRow| match row.cells.get(at) {
            Some(Cell::Number(n)) => Some(*n),
            _ => or_none(None, row),
        }
    };
    let zeros = |row: &TensorRow| {
        let tally = &by_name.get(row.name.as_str())?.tally;
        or_none((tally.finite() > 0).then(|| tally.zeros as f64 / tally.finite() as f64), row)
    };
    let mut maps = Map::all(SIZE, kinds, rows, figure(RMS));
    maps.extend(Map::all(OUTLIERS, kinds, rows, figure(PEAK)));
    let layered = rows.iter().filter(|row| row.layer.is_some());
    if layered.filter_map(|row| zeros(&row)).any(|share| share >= MANY_ZEROS) {
        maps.extend(Map::all(ZEROS, kinds, rows, zeros));
    }
    let mut maps: Vec<Map> = maps.into_iter().map(|map| map.marked(rows, lost)).collect();
    maps.append(&mut page.maps);
    page.maps = maps;
    judge(&mut page, found);
    looked_at(&mut page, checked, found);
    page
}

fn not_finite(stats: &TensorStats) -> u64 {
    stats.tally.nan.saturating_add(stats.tally.infinite)
}

/// What the numbers make of the verdict.
fn judge(page: &mut Page<'_>, found: &Stats) {
    let bad = found.tensors.iter().fold(0u64, |n, t| n.saturating_add(not_finite(t)));
    let all = thousands(found.values());
    let numbers = match bad {
        0 => format!("all {all} numbers that were read are finite"),
        n => format!("{} of {all} numbers are NaN or infinite", thousands(n)),
    };
    if found.count(Severity::Error) > 0 {
        page.verdict.standing = Standing::Bad;
    }
    page.verdict.headline = format!("{numbers}; {}", page.verdict.headline);
    if bad > 0 {
        // What one has come for stands first, also on a narrow page.
        page.list.sorted = (NOT_FINITE.to_owned(), true);
        page.list.columns.iter_mut().filter(|c| c.id == NOT_FINITE).for_each(|c| c.narrow = true);
    }
    let note = format!("of {all} numbers");
    page.tiles.push(Tile { name: "NaN or infinite", value: thousands(bad), note });
    let mut findings: Vec<_> = found.findings.iter().take(inspect::FINDINGS).map(remark).collect();
    page.findings_hidden += found.findings.len().saturating_sub(findings.len());
    findings.append(&mut page.findings);
    page.findings = findings;
}

/// What was looked at here, and what another command looks at: there is no option for it.
fn looked_at(page: &mut Page<'_>, checked: &Checked, found: &Stats) {
    let (values, tensors) = (thousands(found.values()), plural(found.tensors.len(), "tensor"));
    let names = match checked.report.counts.expected {
        Some(_) => "; names and shapes by the config",
        None => "",
    };
    page.looked_at = format!("all {values} numbers of {tensors}, {}{names}", words::bytes(found.bytes()));
    let others = checked.report.unchecked.iter().filter(|u| !u.what.starts_with(VALUES));
    let why = |u: &Unchecked| if u.why == NO_IDENTITY { "use check".to_owned() } else { u.why.clone() };
    let item = |what: &str, why: &str| match why {
        "" => what.to_owned(),
        why => format!("{what} ({why})"),
    };
    let hidden = (page.list.hidden > 0)
        .then(|| format!("{} left out by --include and --exclude", plural(page.list.hidden, "tensor")));
    page.unchecked = hidden.into_iter().collect();
    page.unchecked.extend(found.unchecked.iter().map(|u| item(&u.what, &u.why)));
    page.unchecked.extend(others.map(|u| item(&u.what, &why(u))));
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
    zero: "nothing but zeros",
};

const OUTLIERS: About = About {
    title: "Outliers",
    explain: "The largest magnitude in multiples of the root mean square. What stands out is hard to quantise.",
    scale: Scale::Log,
    fold: Fold::Largest,
    show: digits,
    zero: "nothing but zeros",
};

const ZEROS: About = About {
    title: "Zeros",
    explain: "The share of numbers that are zero.",
    scale: Scale::Linear,
    fold: Fold::Mean,
    show: |n| format!("{}%", digits(n * 100.0)),
    zero: "no zeros",
};
