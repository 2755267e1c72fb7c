//! Two traces side by side: how far each intermediate is off, and where the first is beyond what is allowed.

use super::{Allowance, CHUNK, Place, Side, Trace};
use crate::error::Result;
use crate::matrix::Rows;
use std::collections::{HashMap, HashSet};

/// An element of both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The token, counted from 0.
    pub row: usize,
    /// The element of its row.
    pub element: usize,
    /// What is looked at.
    pub found: f32,
    /// What it is held against.
    pub expected: f32,
    /// The distance as a share of the largest entry of the row it is held against.
    pub share: f64,
}

/// How far an intermediate is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Which.
    pub place: Place,
    /// Tokens.
    pub rows: usize,
    /// Width.
    pub cols: usize,
    /// The largest distance.
    pub max_abs: f64,
    /// The largest distance as a share of the largest entry of its row.
    pub max_share: f64,
    /// Root mean square of the distances over that of what it is held against.
    pub rms: f64,
    /// Cosine of the angle between both, as vectors of all their elements.
    pub cosine: f64,
    /// Elements beyond what is allowed.
    pub beyond: usize,
    /// The first of them.
    pub first: Option<Difference>,
    /// The one that is off most.
    pub worst: Option<Difference>,
    /// Elements that are NaN or infinite: of what is looked at, and of what it is held against.
    pub not_finite: (usize, usize),
}

/// An intermediate that has another shape on either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Which.
    pub place: Place,
    /// Tokens and width of what is looked at.
    pub found: Vec<usize>,
    /// Shape of what it is held against: tokens and width, unless it is of another kind.
    pub expected: Vec<usize>,
}

/// What came of holding a run against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was allowed.
    pub allowance: Allowance,
    /// Every intermediate that both have, in the order of the pass.
    pub stats: Vec<Stats>,
    /// Those that cannot be compared.
    pub misfits: Vec<Misfit>,
    /// Those that only what is looked at has.
    pub only_found: Vec<Place>,
    /// Those that only what it is held against has.
    pub only_expected: Vec<Place>,
    /// Whether both sides were computed here, so that what only one has is a difference; a trace may have fewer.
    pub computed: bool,
}

impl Comparison {
    /// The first intermediate of the pass with an element beyond what is allowed.
    pub fn first(&self) -> Option<&Stats> {
        self.stats.iter().find(|s| s.beyond > 0)
    }

    /// The first intermediate of the pass that is NaN or infinite somewhere, on whichever side: behind it no two runs
    /// say anything of each other, however equal.
    pub fn first_not_finite(&self) -> Option<&Stats> {
        self.stats.iter().find(|s| s.not_finite != (0, 0))
    }

    /// Whether all is within what is allowed: compared up to the end, finite, and nothing left out that both sides
    /// should have.
    pub fn holds(&self) -> bool {
        let whole = !self.computed || self.only_found.is_empty() && self.only_expected.is_empty();
        let sound = self.first().is_none() && self.misfits.is_empty() && self.first_not_finite().is_none();
        sound && whole && self.reaches_end()
    }

    /// Whether what all else leads to was compared: the logits, or what leaves the last layer. A fault anywhere shows
    /// there at least.
    pub fn reaches_end(&self) -> bool {
        let all = self.stats.iter().map(|s| &s.place).chain(&self.only_found);
        let last = all.filter_map(|place| place.layer).max();
        self.stats.iter().any(|s| match s.place.layer {
            None => s.place.name == "logits",
            layer => layer == last && s.place.name == "output",
        })
    }

    /// How many intermediates what is looked at has.
    pub fn had(&self) -> usize {
        self.stats.len() + self.misfits.len() + self.only_found.len()
    }

    /// How the error grows: what is of no layer, and the last intermediate of each layer that both have.
    pub fn growth(&self) -> Vec<&Stats> {
        let last = |(i, s): &(usize, &Stats)| {
            let next = self.stats.get(i + 1).map(|n| n.place.layer);
            s.place.layer.is_none() || next != Some(s.place.layer)
        };
        self.stats.iter().enumerate().filter(last).map(|(_, s)| s).collect()
    }
}

/// Computes both sides over the same tokens, some at a time, and compares them. `expected` is what `found` is held
/// against.
pub fn compare(
    found: &mut Side<'_>,
    expected: &mut Side<'_>,
    ids: &[u32],
    allowance: Allowance,
) -> Result<Comparison> {
    let mut tally = Tally { allowed: allowance.share, ..Tally::default() };
    let computed = matches!((&*found, &*expected), (Side::Run(_), Side::Run(_)));
    for (i, some) in ids.chunks(CHUNK).enumerate() {
        tally.add(i * CHUNK, &found.next(some)?, &expected.next(some)?);
    }
    let stats = tally.sums.into_iter().map(Sums::done).collect();
    let Tally { misfits, only_found, only_expected, .. } = tally;
    Ok(Comparison { allowance, stats, misfits, only_found, only_expected, computed })
}

#[derive(Default)]
struct Tally {
    allowed: f64,
    sums: Vec<Sums>,
    at: HashMap<Place, usize>,
    misfits: Vec<Misfit>,
    only_found: Vec<Place>,
    only_expected: Vec<Place>,
    /// Those that were told once.
    told: HashSet<Place>,
}

impl Tally {
    fn add(&mut self, start: usize, found: &Trace, expected: &Trace) {
        for (place, rows) in found.parts() {
            if let Some((_, shape)) = expected.odd.iter().find(|(odd, _)| odd == place) {
                if self.told.insert(place.clone()) {
                    let found = vec![rows.rows(), rows.cols()];
                    self.misfits.push(Misfit { place: place.clone(), found, expected: shape.clone() });
                }
                continue;
            }
            let Some(other) = expected.get(place) else {
                if self.told.insert(place.clone()) {
                    self.only_found.push(place.clone());
                }
                continue;
            };
            let shapes = (vec![rows.rows(), rows.cols()], vec![other.rows(), other.cols()]);
            if shapes.0 != shapes.1 {
                if self.told.insert(place.clone()) {
                    self.misfits.push(Misfit { place: place.clone(), found: shapes.0, expected: shapes.1 });
                }
                continue;
            }
            let at = *self.at.entry(place.clone()).or_insert_with(|| {
                self.sums.push(Sums::new(place.clone(), rows.cols()));
                self.sums.len() - 1
            });
            self.sums[at].add(start, rows, other, self.allowed);
        }
        for (place, _) in expected.parts() {
            if found.get(place).is_none() && self.told.insert(place.clone()) {
                self.only_expected.push(place.clone());
            }
        }
    }
}

/// Stats under way.
struct Sums {
    stats: Stats,
    /// Sums of d², e², f² and e·f.
    squares: [f64; 4],
}

impl Sums {
    fn new(place: Place, cols: usize) -> Sums {
        let stats = Stats {
            place,
            rows: 0,
            cols,
            max_abs: 0.0,
            max_share: 0.0,
            rms: 0.0,
            cosine: 1.0,
            beyond: 0,
            first: None,
            worst: None,
            not_finite: (0, 0),
        };
        Sums { stats, squares: [0.0; 4] }
    }

    fn add(&mut self, start: usize, found: Rows<'_>, expected: Rows<'_>, allowed: f64) {
        let stats = &mut self.stats;
        for (i, (found, expected)) in found.iter().zip(expected.iter()).enumerate() {
            let sizes = expected.iter().map(|e| f64::from(e.abs())).filter(|e| e.is_finite());
            let largest = sizes.fold(0.0, f64::max);
            for (element, (f, e)) in found.iter().zip(expected).enumerate() {
                let off = distance(*f, *e);
                stats.not_finite.0 += usize::from(!f.is_finite());
                stats.not_finite.1 += usize::from(!e.is_finite());
                let share = if off == 0.0 { 0.0 } else { off / largest };
                let (f64s, e64) = (f64::from(*f), f64::from(*e));
                self.squares[0] += off * off;
                self.squares[1] += e64 * e64;
                self.squares[2] += f64s * f64s;
                self.squares[3] += e64 * f64s;
                stats.max_abs = stats.max_abs.max(off);
                let difference = Difference { row: start + i, element, found: *f, expected: *e, share };
                if share > allowed {
                    stats.beyond += 1;
                    stats.first.get_or_insert(difference);
                }
                if share > stats.max_share {
                    stats.max_share = share;
                    stats.worst = Some(difference);
                }
            }
        }
        stats.rows += found.rows();
    }

    fn done(self) -> Stats {
        let [off, expected, found, both] = self.squares;
        let rms = if off == 0.0 { 0.0 } else { (off / expected).sqrt() };
        let cosine = if off == 0.0 { 1.0 } else { both / (expected * found).sqrt() };
        Stats { rms, cosine, ..self.stats }
    }
}

/// Of two numbers; infinite where one is none, or an infinity that the other is not.
fn distance(found: f32, expected: f32) -> f64 {
    let off = f64::from(found) - f64::from(expected);
    match found == expected || found.is_nan() && expected.is_nan() {
        true => 0.0,
        false if off.is_finite() => off.abs(),
        false => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(parts: &[(&str, &[f32], usize)]) -> Trace {
        let mut trace = Trace::default();
        parts.iter().for_each(|(name, data, cols)| trace.push(Place::parse(name).unwrap(), data, *cols));
        trace
    }

    fn tallied(found: &Trace, expected: &Trace, allowed: f64) -> Comparison {
        let mut tally = Tally { allowed, ..Tally::default() };
        tally.add(7, found, expected);
        let stats = tally.sums.into_iter().map(Sums::done).collect();
        let Tally { misfits, only_found, only_expected, .. } = tally;
        let allowance = Allowance::given(allowed);
        Comparison { allowance, stats, misfits, only_found, only_expected, computed: false }
    }

    #[test]
    fn the_first_place_is_that_of_the_pass() {
        let found = trace(&[
            ("embedding", &[1.0, 2.0, 3.0, 4.0], 2),
            ("layers.0.q", &[1.0, 2.0, 3.0, 4.5], 2),
            ("layers.0.output", &[9.0, 2.0, 3.0, 4.0], 2),
            ("extra", &[1.0], 1),
        ]);
        let expected = trace(&[
            ("layers.0.output", &[1.0, 2.0, 3.0, 4.0], 2),
            ("layers.0.q", &[1.0, 2.0, 3.0, 4.0], 2),
            ("embedding", &[1.0, 2.0, 3.0, 4.0], 2),
            ("elsewhere", &[1.0], 1),
        ]);
        let report = tallied(&found, &expected, 0.1);
        let first = report.first().unwrap();
        assert_eq!((first.place.to_string().as_str(), first.beyond), ("layers.0.q", 1));
        let off = first.first.unwrap();
        assert_eq!((off.row, off.element, off.found, off.expected, off.share), (8, 1, 4.5, 4.0, 0.125));
        let growth: Vec<String> = report.growth().iter().map(|s| s.place.to_string()).collect();
        assert_eq!(growth, ["embedding", "layers.0.output"]);
        assert_eq!(report.only_found[0].name, "extra");
        assert_eq!(report.only_expected[0].name, "elsewhere");
        assert!(!report.holds() && tallied(&found, &found, 0.0).holds());
    }

    #[test]
    fn what_is_no_number_is_beyond_any_bound() {
        let found = trace(&[("x", &[f32::NAN, 1.0, f32::INFINITY], 3)]);
        let expected = trace(&[("x", &[0.0, 1.0, f32::INFINITY], 3)]);
        let report = tallied(&found, &expected, 0.5);
        assert_eq!(report.stats[0].beyond, 1);
        assert!(report.stats[0].max_abs.is_infinite());
        let other = trace(&[("x", &[0.0, 1.0], 2)]);
        assert_eq!(tallied(&found, &other, 0.5).misfits.len(), 1);
        assert!(!tallied(&found, &trace(&[]), 0.5).holds());
    }

    #[test]
    fn numbers_that_are_none_on_both_sides_are_no_agreement() {
        let both =
            trace(&[("embedding", &[1.0, 2.0], 2), ("layers.0.output", &[f32::NAN, f32::INFINITY], 2)]);
        let report = tallied(&both, &both, 0.5);
        let first = report.first_not_finite().unwrap();
        assert_eq!((first.place.to_string().as_str(), first.not_finite), ("layers.0.output", (2, 2)));
        assert!(report.first().is_none() && !report.holds());
    }

    #[test]
    fn what_does_not_reach_the_end_does_not_hold() {
        let row: &[f32] = &[1.0, 2.0];
        let whole = trace(&[
            ("embedding", row, 2),
            ("layers.0.output", row, 2),
            ("layers.1.output", row, 2),
            ("logits", row, 2),
        ]);
        let without_logits = trace(&[("embedding", row, 2), ("layers.1.output", row, 2)]);
        let beginning = trace(&[("embedding", row, 2), ("layers.0.output", row, 2)]);
        let report = tallied(&whole, &without_logits, 0.0);
        assert_eq!((report.holds(), report.had(), report.stats.len()), (true, 4, 2));
        assert!(!tallied(&whole, &beginning, 0.0).holds());
        let runs = Comparison { computed: true, ..report };
        assert!(!runs.holds(), "of two runs both have all");
        let mut flat = trace(&[("embedding", row, 2), ("layers.1.output", row, 2)]);
        flat.odd.push((Place::parse("logits").unwrap(), vec![2]));
        let report = tallied(&whole, &flat, 0.0);
        assert_eq!((&report.misfits[0].found, &report.misfits[0].expected), (&vec![1, 2], &vec![2]));
        assert!(!report.holds());
    }
}
