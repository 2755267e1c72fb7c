//! Two models held against each other, across formats: their hyperparameters, their vocabularies, their tensors, their numbers.
//!
//! Tensors are paired by what they are to the architecture, not by their names, and compared in one form ([`convert`]).
//! What differs is then looked into: whether rows lie in another order, whether it is another tensor's place, whether one
//! number scales it all. A pair that could not be compared is said to be so, and is never taken for equal.
//!
//! [`convert`]: crate::convert

mod causes;
pub mod compare;
mod facts;
mod gathered;
mod pairing;
mod places_of;
mod sample;
mod vocabulary;
mod wide;

pub use compare::{Bound, Class, Measured};
pub use facts::{FactChange, FactDifference};
pub use vocabulary::VocabularyCompared;

use crate::check::{Checked, Progress};
use crate::convert::Step;
use crate::error::Result;
use crate::finding::{Finding, Severity};
use crate::index::{OVERLAP, overlap};
use crate::kernel::{Kernel, Options};
use crate::parallel::on_cores;
use crate::registry::Registry;
use crate::report::{Container, Model};
use pairing::{Matched, Paired, Unit};

/// What was found out about two models.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The two.
    pub sides: [Side; 2],
    /// Hyperparameters that are not the same in both.
    pub facts: Vec<FactDifference>,
    /// Hyperparameters that are.
    pub facts_equal: usize,
    /// Every pair of tensors, in the order of the first model; those of the second alone at the end.
    pub pairs: Vec<Pair>,
    /// What it comes to, causes before symptoms.
    pub findings: Vec<Finding>,
    /// How far their vocabularies were compared.
    pub vocabulary: VocabularyCompared,
    /// Tensors that were left out on purpose, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// Pairs, or tensors of one model alone, that were not wanted.
    pub unwanted: usize,
}

/// One of two models.
#[derive(Clone, Debug)]
pub struct Side {
    /// The path as it was given.
    pub path: String,
    /// Its files.
    pub container: Container,
    /// What kind of model it is.
    pub model: Model,
    /// Tensors it has.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Two tensors that are the same part of a model.
#[derive(Clone, Debug)]
pub struct Pair {
    /// What it is called: in the first model's world where it is there.
    pub name: String,
    /// Its layer.
    pub layer: Option<usize>,
    /// Its name without numbers, the same in all layers.
    pub kind: String,
    /// Lengths of the axes in the form in which the two were compared; empty where they were not.
    pub shape: Vec<usize>,
    /// As each model stores it; `None` where it does not.
    pub stored: [Option<Stored>; 2],
    /// What the two are.
    pub class: Class,
    /// What was done to each side's numbers, beyond widening, before they were compared.
    pub steps: [Vec<Step>; 2],
    /// How far they are apart, where that was measured.
    pub measured: Option<Measured>,
    /// Why the class is what it is, where that is not plain: "only in the first".
    pub why: Option<String>,
}

impl Pair {
    /// Where a value stands in the form in which the two were compared.
    pub fn place_of(&self, index: u64) -> String {
        causes::element(&self.shape, index)
    }
}

/// A tensor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name, with a `*` for the numbers of experts that are tensors of their own.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Bytes.
    pub bytes: u64,
}

/// What is wanted of a comparison.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Whether a tensor's numbers are wanted, by its names in both worlds.
    pub wanted: &'a (dyn Fn(&str) -> bool + Sync),
    /// Threads; 0 for all cores.
    pub threads: usize,
}

/// Holds two models against each other. Fails only where no kernel can read them.
pub fn run(
    registry: &Registry,
    sides: [&Checked; 2],
    request: &Request<'_>,
    progress: &dyn Progress,
) -> Result<Diff> {
    let kernel = registry.best_leaf(false, &Options::default())?;
    let kernel = kernel.as_ref();
    let mut paired = pairing::pairs(sides, request.wanted, kernel);
    let over = |side: &&Checked| overlap(side.source.tensors(), side.source.files()).is_some();
    if sides.iter().any(over) {
        // A small file would take days to read.
        paired.matched.iter_mut().for_each(|matched| matched.apart = Some(OVERLAP));
    }
    let bytes = |unit: &Option<Unit<'_>>| unit.as_ref().map_or(0, |u| u.stored.bytes);
    let total =
        paired.matched.iter().fold(0u64, |n, m| m.units.iter().fold(n, |n, u| n.saturating_add(bytes(u))));
    progress.begin("comparing values", total);
    let heads = causes::head_widths(sides);
    let (pairs, causes) = on_cores(request.threads, || {
        let pairs: Vec<Pair> =
            paired.matched.iter().map(|matched| compare_pair(matched, kernel, progress)).collect();
        let causes = causes::of(&paired.matched, &pairs, heads, kernel);
        (pairs, causes)
    });
    progress.end();
    let compared = facts::compare(sides);
    let (vocabulary, words) = vocabulary::compare(sides);
    let mut findings = compared.findings;
    findings.extend(words);
    findings.extend(causes);
    // What is wrong with a file itself explains the rest.
    let own = |f: &Finding| [facts::SIDE_AT_FAULT.id, facts::SIDE_BROKEN.id].contains(&f.code.id);
    findings.sort_by_key(|f| (!own(f), std::cmp::Reverse(f.severity)));
    let sides = sides.map(|side| Side {
        path: side.report.path.clone(),
        container: side.report.container.clone(),
        model: side.report.model.clone(),
        tensors: side.report.counts.tensors,
        bytes: side.report.counts.bytes,
    });
    let (facts, facts_equal) = (compared.facts, compared.equal);
    let Paired { left_out, unwanted, .. } = paired;
    Ok(Diff { sides, facts, facts_equal, pairs, findings, vocabulary, left_out, unwanted })
}

fn compare_pair(matched: &Matched<'_>, kernel: &dyn Kernel, progress: &dyn Progress) -> Pair {
    let [a, b] = &matched.units;
    let named = match matched.own {
        1 => b.as_ref().or(a.as_ref()),
        _ => a.as_ref().or(b.as_ref()),
    };
    let stored = matched.units.each_ref().map(|unit| unit.as_ref().map(|u| u.stored.clone()));
    let name = named.map_or_else(String::new, |u| u.stored.name.clone());
    let mut pair = Pair {
        name,
        layer: matched.layer,
        kind: matched.kind.clone(),
        shape: Vec::new(),
        stored,
        class: Class::Uncompared,
        steps: [Vec::new(), Vec::new()],
        measured: None,
        why: None,
    };
    if let Some(why) = matched.apart {
        return Pair { why: Some(why.to_owned()), ..pair };
    }
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (Some(_), None) => {
            return Pair { class: Class::Different, why: Some("only in the first".into()), ..pair };
        }
        _ => return Pair { class: Class::Different, why: Some("only in the second".into()), ..pair },
    };
    let (x, y) = match (&a.numbers, &b.numbers) {
        (Ok(x), Ok(y)) => (x, y),
        // Bytes can be the same though nobody knows what they mean.
        _ if a.is_same_stored(b) => {
            progress.advance(a.stored.bytes.saturating_add(b.stored.bytes));
            return Pair { class: Class::Identical, ..pair };
        }
        (Err(why), _) | (_, Err(why)) => return Pair { why: Some(why.clone()), ..pair },
    };
    pair.steps = [x.steps().to_vec(), y.steps().to_vec()];
    if x.shape() != y.shape() {
        let why = format!("shape {:?} in the first, {:?} in the second", x.shape(), y.shape());
        return Pair { class: Class::Different, why: Some(why), ..pair };
    }
    pair.shape = x.shape().to_vec();
    let transformed = pair.steps[0] != pair.steps[1];
    if let (Some((one, first)), Some((other, second))) = (x.raw(), y.raw())
        && one == other
        && !transformed
        && same_bytes(first, second)
    {
        progress.advance(a.stored.bytes.saturating_add(b.stored.bytes));
        return Pair { class: Class::Identical, ..pair };
    }
    let len = x.len().max(1) as u64;
    let bytes = a.stored.bytes.saturating_add(b.stored.bytes);
    let read = |numbers: usize| {
        let share = (bytes as u128).saturating_mul(numbers as u128).checked_div(u128::from(len)).unwrap_or(0);
        progress.advance(u64::try_from(share).unwrap_or(u64::MAX));
    };
    let exactly = x.raw().zip(y.raw()).and_then(|(x, y)| wide::measure(x, y));
    let measured = match exactly {
        Some(measured) => {
            read(x.len());
            measured
        }
        None => {
            let measured = compare::measure(&a.side(x), &b.side(y), kernel, &read);
            // Its errors are held against the bound as f32; what differs at all is told as it stands.
            let distance = x.raw().zip(y.raw()).and_then(|(x, y)| wide::distance(x, y));
            Measured { distance: distance.unwrap_or(measured.distance), ..measured }
        }
    };
    pair.class = measured.class(transformed, a.dtype == b.dtype);
    pair.measured = Some(measured);
    pair
}

/// Whether all bytes are the same, looked at on all cores.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    use rayon::prelude::*;
    const CHUNK: usize = 4 << 20;
    a.len() == b.len() && a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)).all(|(a, b)| a == b)
}

/// What a comparison admits beyond the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Findings less grave than this.
    pub below: Severity,
    /// What rounding to the coarser element type accounts for.
    pub quantised: bool,
    /// Tensors that could not be compared.
    pub uncompared: bool,
}

impl Diff {
    /// How many pairs are of a class.
    pub fn count(&self, class: Class) -> usize {
        self.pairs.iter().filter(|p| p.class == class).count()
    }

    /// How many pairs were compared by every value.
    pub fn compared(&self) -> usize {
        self.pairs.iter().filter(|p| p.class == Class::Identical || p.measured.is_some()).count()
    }

    /// Whether a finding stands against the second model.
    pub fn counts(&self, finding: &Finding, allowed: Allowed) -> bool {
        let admitted = finding.code.id == causes::NOT_COMPARED.id && allowed.uncompared;
        finding.severity >= allowed.below && !admitted
    }

    /// Whether the second model is the first one, as far as is asked for: every tensor the same, and no hyperparameter
    /// another. A comparison of nothing does not pass.
    pub fn passes(&self, allowed: Allowed) -> bool {
        let fine = |pair: &Pair| match pair.class {
            Class::Quantised => allowed.quantised,
            Class::Uncompared => allowed.uncompared,
            class => class.is_same(),
        };
        let compared = self.compared() > 0 || allowed.uncompared;
        compared
            && !self.pairs.is_empty()
            && self.pairs.iter().all(fine)
            && !self.findings.iter().any(|f| self.counts(f, allowed))
    }
}
