//! Why two tensors differ: what is tried on those that do, and what it comes to over all of them.

use super::compare::Bound;
use super::gathered::{spread, together};
use super::pairing::{Matched, Unit, is_other};
use super::sample::{self, Reader};
use super::{Class, Measured, Pair, places_of};
use crate::check::Checked;
use crate::codes;
use crate::convert::{Converted, interleaved};
use crate::finding::{Code, Finding, Findings};
use crate::kernel::Kernel;
use crate::quant::rounding::float_step;
use crate::table::{Conversion, Use};
use std::collections::{BTreeMap, HashMap};

codes! {
    pub static REREAD = Error, Types, "diff-other-type",
        "a tensor has the same bytes, declared to be of another element type",
        "BF16 and F16 take as many bytes, and so do some other types: whoever wrote the file copied the bytes and named the \
         wrong type.";
    pub static LOOSE = Error, Data, "diff-loose",
        "many tensors have some numbers farther from the original than their type accounts for",
        "Most numbers are as near as rounding leaves them and some are not, all over the model: it was made from other weights \
         (another training, a merge), quantised twice, or small numbers became zero on the way.";
    pub static ONLY_IN_ONE = Error, Names, "diff-only-in-one",
        "a tensor is in one of the two models alone",
        "The other model has no tensor for this part, nor another that stands in for it. A converter that dropped it, or two \
         models of different architectures.";
    pub static SHAPES_DIFFER = Error, Shapes, "diff-shape",
        "a tensor has another shape in the second model",
        "Tensors of different shapes are not the same numbers; what they have in common was not looked at, unless it is said.";
    pub static ROWS_CUT = Error, Shapes, "diff-rows-cut",
        "one model has fewer rows of a tensor, and those it has are the other's",
        "Rows at the end are missing: of a vocabulary, tokens that were cut off or padding that was left out. Ids beyond the end \
         cannot be used.";
    pub static NOT_COMPARED = Warning, Data, "diff-uncompared",
        "a tensor could not be compared",
        "Its numbers could not be read, or nothing tells which tensor of the other model it is to be held against. It is not \
         taken for equal; --allow uncompared lets it pass.";
    pub static NOT_FINITE = Error, Data, "diff-not-finite",
        "a tensor holds NaN or infinity in one of the two models",
        "Where the other model has a number, this one has none: the value was damaged, or overflowed in a conversion to F16.";
    pub static DAMAGED = Error, Data, "diff-damaged",
        "a small part of a tensor differs, and all the rest does not",
        "No conversion, quantisation or training does that: bytes were damaged, or written over. Fetch the file again, and compare \
         its hash with the published one.";
    pub static FEW_BEYOND = Error, Data, "diff-few-beyond-type",
        "a few numbers of a tensor are farther from the original than its type accounts for",
        "All others are as near as rounding leaves them, which no quantiser and no training does: bytes were damaged, or written \
         over. Fetch the file again, and compare its hash with the published one.";
    pub static BEYOND = Error, Data, "diff-beyond-type",
        "a quantised tensor is farther from the original than its type accounts for",
        "The numbers are alike, but the errors are larger than those of ggml's quantiser on numbers of such a distribution: it was \
         quantised twice, by a poor quantiser, or from another version of the model.";
    pub static ROWS_PERMUTED = Error, Data, "diff-rows-permuted",
        "the rows of a tensor lie in another order",
        "The rows of each head that rotate together lie side by side in one model and half a head apart in the other, where they \
         should not. A converter did this to a family that it must not be done to, twice, or not at all.";
    pub static ROWS_REORDERED = Error, Data, "diff-rows-reordered",
        "a tensor has the same rows in another order",
        "All rows that were looked at are there, elsewhere. For an embedding that means another numbering of the tokens.";
    pub static TRANSPOSED = Error, Data, "diff-transposed",
        "a matrix is transposed",
        "A square matrix has the same shape either way, so that no check of shapes shows it. One of the two files stores inputs \
         before outputs where outputs before inputs are meant.";
    pub static SCALED = Error, Data, "diff-scaled",
        "a tensor is the other model's times a number",
        "Some programs fold scales into norms or weights. If that was meant, another tensor carries the inverse.";
    pub static OFFSET = Error, Data, "diff-offset",
        "a tensor is the other model's plus a number",
        "Every element differs by the same number. For the weights of norms that number is 1 where a family stores them less one: \
         the 1 was left out in a conversion, or added twice.";
    pub static SWAPPED = Error, Data, "diff-misplaced",
        "a tensor holds what another tensor of the first model holds",
        "Names were mixed up: gate and up, query and key, or layers. Shapes are the same, so that no check of shapes shows it.";
    pub static LAYERS_SWAPPED = Error, Data, "diff-layers",
        "a layer holds what another layer of the first model holds",
        "Every tensor of the layer that differs is that of another one: layers were numbered anew, or put in another order.";
    pub static EXPERTS_REORDERED = Error, Data, "diff-experts",
        "experts are in another order",
        "The experts of a layer are the same ones, numbered otherwise. Unless the router's rows are in the same new order, tokens are \
         sent to the wrong ones.";
    pub static NEAR = Error, Data, "diff-near",
        "tensors hold other numbers that are near those of the first model",
        "Errors are larger than rounding to any type here makes them. Where most values differ it is another training of the \
         same model (a fine-tune, another checkpoint), or a merge; where few do, which the finding then says, something was \
         written over.";
    pub static FAR = Error, Data, "diff-values",
        "tensors hold other numbers",
        "Nothing that was tried makes one of the other: not another order of rows, a transposition, a scale, or another tensor's \
         place. Another model, or a part that was initialised anew.";
}

/// How alike the numbers of two tensors are that are called near each other.
const NEAR_COSINE: f64 = 0.8;

/// Whether one model's numbers are near the other's: their directions and their sizes.
pub(super) fn is_near(measured: &Measured) -> bool {
    measured.distance.cosine() >= NEAR_COSINE && measured.distance.relative() <= 1.0
}

/// Element types that round by more than this do not keep the bits of a row.
const COARSE: f64 = 0.02;

/// Pairs of tensors that are held against each other to find what stands in another's place.
const MOST_PAIRS: usize = 4 << 20;

/// The causes of all differences.
pub(super) fn of(
    matched: &[Matched<'_>],
    pairs: &[Pair],
    heads: Vec<usize>,
    kernel: &dyn Kernel,
) -> Vec<Finding> {
    let mut looking = Looking { kernel, matched, heads, samples: HashMap::new(), tried: 0 };
    // Numbers that are too far off in tensor after tensor are no damage to a file.
    let loose = beyond_everywhere(pairs);
    let mut off = Findings::new();
    let mut findings = Findings::new();
    let mut left = Vec::new();
    for (i, (matched, pair)) in matched.iter().zip(pairs).enumerate() {
        if pair.class == Class::Uncompared {
            let why = pair.why.clone().unwrap_or_default();
            findings.push(Finding::new(&NOT_COMPARED, format!("not compared: {why}")).tensor(&pair.name));
        } else if pair.measured.is_none() && pair.class == Class::Different {
            findings.push(looking.of_shape(matched, pair));
        } else if is_other(pair.class) {
            match looking.alone(matched, pair) {
                Some(cause) if loose.is_some() && cause.code.id == FEW_BEYOND.id => off.push(cause),
                Some(cause) => findings.push(cause),
                None => left.push(i),
            }
        }
    }
    let moved: BTreeMap<usize, usize> =
        left.iter().filter_map(|&i| Some((i, looking.elsewhere(i)?))).collect();
    if looking.tried >= MOST_PAIRS {
        let message =
            format!("after {MOST_PAIRS} pairs no further tensors were looked for in the places of others");
        findings.push(Finding::new(&NOT_COMPARED, message));
    }
    findings.extend(places_of::misplaced(pairs, &moved));
    left.retain(|i| !moved.contains_key(i));
    findings.extend(spread(pairs, &left));
    if let Some(differing) = loose.filter(|_| !off.is_empty()) {
        let message = format!(
            "{} of {differing} tensors that differ have numbers farther off than their types account for",
            off.count()
        );
        let f =
            Finding::new(&LOOSE, message).advice("compare with the checkpoint that it was converted from");
        findings.push(f.because_of_this(off.into_vec()));
    }
    together(findings.into_vec())
}

/// How many tensors differ, where half of them or more have numbers farther off than their types account for.
fn beyond_everywhere(pairs: &[Pair]) -> Option<usize> {
    let differing = || pairs.iter().filter_map(|p| p.measured.as_ref()).filter(|m| m.distance.differing > 0);
    let (all, beyond) = (differing().count(), differing().filter(|m| m.beyond > 0).count());
    (beyond >= 4 && beyond.saturating_mul(2) >= all).then_some(all)
}

/// Widths of heads that rows may be put in another order in.
pub(super) fn head_widths(sides: [&Checked; 2]) -> Vec<usize> {
    let mut widths = Vec::new();
    for side in sides {
        let rows = side.architecture.iter().flat_map(|a| a.tensors().rows());
        widths.extend(rows.filter_map(|row| match row.conversion {
            Conversion::Interleaved(head) => Some(head),
            _ => None,
        }));
        let said = side.report.facts.iter().filter(|fact| fact.symbol == "d");
        widths.extend(said.filter_map(|fact| match fact.value {
            crate::metadata::Value::Unsigned(d) => usize::try_from(d).ok(),
            _ => None,
        }));
    }
    widths.sort_unstable();
    widths.dedup();
    widths.retain(|d| *d > 2 && d.is_multiple_of(2));
    widths
}

/// Where the numbers of one tensor are those of another in another order: what it is, and what to do about it.
struct Cause {
    code: &'static Code,
    message: String,
    advice: &'static str,
}

struct Looking<'m, 's> {
    kernel: &'m dyn Kernel,
    matched: &'m [Matched<'s>],
    heads: Vec<usize>,
    /// Of each side's tensors a few numbers, by the pair's place.
    samples: HashMap<(usize, usize), Vec<f32>>,
    /// Pairs of samples that were held against each other.
    tried: usize,
}

/// How far two samples of the same numbers may be apart for the element types.
fn allowance(units: [&Unit<'_>; 2]) -> f64 {
    let same = units[0].dtype == units[1].dtype;
    let error = |unit: &Unit<'_>| {
        let packed = unit.numbers.as_ref().ok().and_then(Converted::packed_error);
        let block = packed.or_else(|| unit.dtype.and_then(|d| d.quantisation_error()));
        block.or_else(|| unit.dtype.filter(|_| !same).and_then(|d| float_step(d, 1.0))).unwrap_or(0.0)
    };
    (1.5 * (error(units[0]) + error(units[1]))).clamp(1e-6, 0.9)
}

impl<'m, 's> Looking<'m, 's> {
    fn reader<'t>(&self, numbers: &'t Converted<'s>) -> Reader<'t, 's>
    where
        'm: 't,
    {
        Reader { numbers, kernel: self.kernel }
    }

    /// Two tensors that were not measured: one is not there, or they are of two shapes.
    fn of_shape(&self, matched: &Matched<'s>, pair: &Pair) -> Finding {
        let why = pair.why.clone().unwrap_or_default();
        let [Some(a), Some(b)] = &matched.units else {
            return Finding::new(&ONLY_IN_ONE, why).tensor(&pair.name);
        };
        let (Ok(x), Ok(y)) = (&a.numbers, &b.numbers) else {
            return Finding::new(&SHAPES_DIFFER, why).tensor(&pair.name);
        };
        let shapes = [x.shape(), y.shape()];
        let finding = |code, message| {
            let [one, other] = shapes.map(|shape| format!("{shape:?}"));
            Finding::new(code, message).tensor(&pair.name).versus(one, other)
        };
        let [(first, rest), (second, others)] = shapes.map(|s| s.split_first().unwrap_or((&0, &[])));
        if rest == others && first != second {
            let (one, other) = (self.reader(x), self.reader(y));
            let common = one.rows().min(other.rows());
            let places = sample::places(0, common);
            let apart = sample::apart(&sample::rows(&one, &places), &sample::rows(&other, &places));
            if common > 0 && apart <= allowance([a, b]) {
                let common = (*first).min(*second);
                let fewer = if first < second { "first" } else { "second" };
                let gone = first.abs_diff(*second);
                let message = format!(
                    "the {fewer} model lacks the last {gone} rows; of the {common} that both have, those looked at ({}) are the \
                     same as far as their types allow",
                    places.len()
                );
                return finding(&ROWS_CUT, message);
            }
        }
        let turned: Vec<usize> = shapes[0].iter().rev().copied().collect();
        let turned = turned == shapes[1] && turned.len() > 1;
        let message = if turned { "one shape is the other turned" } else { "the shapes are not the same" };
        finding(&SHAPES_DIFFER, message.to_owned())
    }

    /// What is wrong with a pair, as far as the two alone tell.
    fn alone(&self, matched: &Matched<'s>, pair: &Pair) -> Option<Finding> {
        let [Some(a), Some(b)] = &matched.units else { return None };
        let (Ok(x), Ok(y)) = (&a.numbers, &b.numbers) else { return None };
        let measured = pair.measured.as_ref()?;
        let d = &measured.distance;
        let finding = |code, message: String| Finding::new(code, message).tensor(&pair.name);
        if let Some(index) = d.first_not_finite {
            let [in_a, in_b] = d.not_finite;
            let message = format!(
                "{in_a} values of the first model and {in_b} of the second are NaN or infinite, the first that is so in one alone at {}",
                element(x.shape(), index)
            );
            let side = if in_b >= in_a { b } else { a };
            return Some(at(finding(&NOT_FINITE, message), side, index));
        }
        if let (Some((one, raw)), Some((other, theirs))) = (x.raw(), y.raw())
            && one != other
            && raw == theirs
        {
            let message = format!("the same bytes are {one} in the first model and {other} in the second");
            return Some(
                finding(&REREAD, message).advice("write the tensor with the type that its numbers have"),
            );
        }
        if let (true, Some((first, last))) = (measured.is_patch(), d.span) {
            let message = format!(
                "{} of {} values differ, all between {} and {}, by up to {:.3e}; the rest is equal",
                d.differing,
                d.count,
                element(x.shape(), first),
                element(x.shape(), last),
                d.max()
            );
            return Some(at(finding(&DAMAGED, message), b, first));
        }
        let few = measured.within_but_for_a_few(self.grains(measured.bound, d.count));
        if let (true, Some(first)) = (few, measured.first_beyond) {
            let (what, place) = match measured.bound {
                Bound::Relative { .. } if measured.beyond == 1 => ("block is", "it begins"),
                Bound::Relative { .. } => ("blocks are", "the first begins"),
                _ if measured.beyond == 1 => ("value is", "it is"),
                _ => ("values are", "the first is"),
            };
            let message = format!(
                "{} {what} farther from the first model than the type accounts for, and the rest is not; {place} at {}, the worst value \
                 differs by {:.3e}",
                measured.beyond,
                element(x.shape(), first),
                d.max()
            );
            return Some(at(finding(&FEW_BEYOND, message), b, first));
        }
        let allowed = allowance([a, b]);
        let vector = matched.usage.is_some_and(|usage| matches!(usage, Use::Scale | Use::Bias))
            || x.shape().len() == 1;
        let (offset, left) = d.as_offset();
        if vector && left <= allowed.max(1e-2) && d.count > 1 {
            let one = (offset.abs() - 1.0).abs() < 0.01;
            let advice =
                "convert again: whether a family's norms are stored less one is its architecture's matter";
            let message = match one {
                true if offset < 0.0 => "the second model's weights are less by 1: the 1 that the norm multiplies by was left out".to_owned(),
                true => "the second model's weights are more by 1: the 1 that the norm multiplies by was added once too often".to_owned(),
                false => format!("every value of the second model is that of the first plus {offset:.3e}"),
            };
            let f = finding(&OFFSET, message);
            return Some(if one { f.advice(advice) } else { f });
        }
        let coarse = measured.bound != Bound::Equal;
        let (factor, left) = d.as_factor();
        if factor.is_finite()
            && left <= allowed.max(4e-3)
            && ((factor - 1.0).abs() > 2.0 * left || coarse && measured.is_scaled())
        {
            return Some(finding(
                &SCALED,
                match (1e-2..1e4).contains(&factor.abs()) {
                    true => format!("the second model's values are the first's times {factor:.4}"),
                    false => format!("the second model's values are the first's times {factor:.3e}"),
                },
            ));
        }
        if pair.class == Class::Beyond {
            return Some(
                finding(&BEYOND, format!("the relative RMS of the errors is {:.4}", d.relative())).versus(
                    measured.bound.words(),
                    match measured.bound {
                        _ if measured.beyond == 0 => format!("a relative RMS of {:.4}", d.relative()),
                        Bound::Relative { .. } => format!("{:.4}", d.relative()),
                        _ => format!("{} of {} values beyond it", measured.beyond, d.count),
                    },
                ),
            );
        }
        if is_near(measured) {
            return None;
        }
        self.permuted(x, y, allowed)
            .or_else(|| self.experts(x, y, allowed))
            .map(|Cause { code, message, advice }| finding(code, message).advice(advice))
    }

    /// Elements or blocks that a bound is held against.
    fn grains(&self, bound: Bound, count: u64) -> u64 {
        match bound {
            Bound::Relative { block: (_, elements), .. } => {
                count.checked_div(elements as u64).unwrap_or(count)
            }
            _ => count,
        }
    }

    /// The same rows or columns elsewhere.
    fn permuted(&self, x: &Converted<'s>, y: &Converted<'s>, allowed: f64) -> Option<Cause> {
        let (one, other) = (self.reader(x), self.reader(y));
        let rows = other.rows();
        if x.shape().len() != 2 {
            return None;
        }
        let places = sample::places(0, rows);
        let theirs = sample::rows(&other, &places);
        let permuted = |message| Cause {
            code: &ROWS_PERMUTED,
            message,
            advice: "convert again with the order of rows that the family has: llama's queries and keys are interleaved once",
        };
        for &head in self.heads.iter().filter(|head| rows.is_multiple_of(**head)) {
            let inverse: Vec<usize> = (0..head).map(|row| interleaved(row, head)).collect();
            let back = |row: usize| {
                let (at, base) = (row.checked_rem(head).unwrap_or(0), row);
                let place = inverse.iter().position(|to| *to == at).unwrap_or(at);
                base.saturating_sub(at).saturating_add(place)
            };
            let there: Vec<usize> = places.iter().map(|row| interleaved(*row, head)).collect();
            if sample::apart(&sample::rows(&one, &there), &theirs) <= allowed {
                let message = format!(
                    "within heads of {head}, the second model has the rows side by side (0 1 0 1) that the first has half a head apart"
                );
                return Some(permuted(message));
            }
            let there: Vec<usize> = places.iter().map(|row| back(*row)).collect();
            if sample::apart(&sample::rows(&one, &there), &theirs) <= allowed {
                let message = format!(
                    "within heads of {head}, the second model has the rows half a head apart that the first has side by side (0 1 0 1)"
                );
                return Some(permuted(message));
            }
        }
        if rows == other.cols() {
            let cols = other.cols();
            let whole = |reader: &Reader<'_, '_>, row: usize| reader.at(row.saturating_mul(cols), cols);
            let (ours, yours): (Vec<_>, Vec<_>) =
                places.iter().map(|r| (whole(&one, *r), whole(&other, *r))).unzip();
            let pick = |rows: &[Vec<f32>], i: usize, place: usize| {
                rows.get(i).and_then(|row| row.get(place)).copied().unwrap_or(f32::NAN)
            };
            let grid = || (0..places.len()).flat_map(|i| (0..places.len()).map(move |j| (i, j)));
            let straight: Vec<f32> =
                grid().map(|(i, j)| pick(&yours, i, places.get(j).copied().unwrap_or(0))).collect();
            let turned: Vec<f32> =
                grid().map(|(i, j)| pick(&ours, j, places.get(i).copied().unwrap_or(0))).collect();
            if sample::apart(&turned, &straight) <= allowed {
                return Some(Cause {
                    code: &TRANSPOSED,
                    message: "rows and columns are exchanged".to_owned(),
                    advice: "write the matrix with outputs before inputs",
                });
            }
        }
        self.reordered(&one, &other, &places, allowed)
    }

    /// Rows that are all there, in another order: told where types are exact, since it takes every row of one side.
    fn reordered(
        &self,
        one: &Reader<'_, '_>,
        other: &Reader<'_, '_>,
        places: &[usize],
        allowed: f64,
    ) -> Option<Cause> {
        const MOST_ROWS: usize = 1 << 20;
        if allowed > COARSE || one.rows() > MOST_ROWS || one.rows() < 4 {
            return None;
        }
        let bits = |row: Vec<f32>| row.into_iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<u32>>();
        let wanted: HashMap<Vec<u32>, usize> =
            places.iter().map(|row| (bits(other.row(*row)), *row)).collect();
        let mut found = HashMap::new();
        for row in 0..one.rows() {
            if let Some(place) = wanted.get(&bits(one.row(row))) {
                found.entry(*place).or_insert(row);
            }
        }
        let (place, from) = places
            .iter()
            .find_map(|place| found.get(place).filter(|from| *from != place).map(|from| (place, from)))?;
        (found.len() == wanted.len()).then(|| {
            let message = format!(
                "all {} rows looked at are there elsewhere: row {place} is row {from} of the first model",
                places.len()
            );
            Cause { code: &ROWS_REORDERED, message, advice: "write the rows in the order of the first model" }
        })
    }

    /// Stacked experts in another order.
    fn experts(&self, x: &Converted<'s>, y: &Converted<'s>, allowed: f64) -> Option<Cause> {
        const MOST_EXPERTS: usize = 1024;
        let &[experts, rows, _] = x.shape() else { return None };
        if !(2..=MOST_EXPERTS).contains(&experts) {
            return None;
        }
        let samples = |numbers| {
            let reader = self.reader(numbers);
            let some = |expert: usize| {
                let places = sample::places(expert.saturating_mul(rows), rows);
                sample::rows(&reader, places.get(..4).unwrap_or(&places))
            };
            (0..experts).map(some).collect::<Vec<_>>()
        };
        let (ours, yours) = (samples(x), samples(y));
        let order: Option<Vec<usize>> = yours
            .iter()
            .map(|theirs| ours.iter().position(|own| sample::apart(own, theirs) <= allowed))
            .collect();
        let order = order?;
        let moved: Vec<String> = order
            .iter()
            .enumerate()
            .filter(|(i, from)| i != *from)
            .map(|(i, from)| format!("{i} is {from}"))
            .collect();
        (!moved.is_empty()).then(|| {
            let shown = moved.get(..moved.len().min(8)).unwrap_or_default().join(", ");
            Cause {
                code: &EXPERTS_REORDERED,
                message: format!("{} experts are others of the first model: {shown}", moved.len()),
                advice: "number the experts, and the router's rows, as the first model does",
            }
        })
    }

    /// The pair whose tensor of the first model a pair's tensor of the second is.
    fn elsewhere(&mut self, which: usize) -> Option<usize> {
        let all = self.matched;
        let own = all.get(which)?;
        let unit = own.units[1].as_ref()?;
        let shape = unit.numbers.as_ref().ok()?.shape();
        let theirs = self.sample(which, 1)?;
        let alike = all.iter().enumerate().filter(|(i, other)| {
            let there = other.units[0].as_ref().and_then(|u| u.numbers.as_ref().ok());
            let near = other.layer == own.layer || other.kind == own.kind;
            *i != which && near && there.is_some_and(|numbers| numbers.shape() == shape)
        });
        let candidates: Vec<usize> = alike.map(|(i, _)| i).collect();
        candidates.into_iter().find(|&i| {
            self.tried = self.tried.saturating_add(1);
            if self.tried > MOST_PAIRS {
                return false;
            }
            let Some(ours) = self.sample(i, 0) else { return false };
            let Some(first) = all.get(i).and_then(|m| m.units[0].as_ref()) else { return false };
            sample::apart(&ours, &theirs) <= allowance([first, unit])
        })
    }

    fn sample(&mut self, which: usize, side: usize) -> Option<Vec<f32>> {
        if let Some(known) = self.samples.get(&(which, side)) {
            return Some(known.clone());
        }
        let numbers = self.matched.get(which)?.units.get(side)?.as_ref()?.numbers.as_ref().ok()?;
        let reader = self.reader(numbers);
        let sample = sample::rows(&reader, &sample::places(0, reader.rows()));
        self.samples.insert((which, side), sample.clone());
        Some(sample)
    }
}

/// Where an element stands, by its axes.
pub(super) fn element(shape: &[usize], index: u64) -> String {
    let mut rest = index;
    let mut place: Vec<String> = Vec::new();
    for axis in shape.iter().rev().take(8) {
        let axis = (*axis as u64).max(1);
        place.push(rest.checked_rem(axis).unwrap_or(0).to_string());
        rest = rest.checked_div(axis).unwrap_or(0);
    }
    place.reverse();
    format!("[{}]", place.join(", "))
}

/// The byte of the file at which an element's block begins, where it lies there as it is.
fn at(finding: Finding, unit: &Unit<'_>, index: u64) -> Finding {
    let raw = unit.numbers.as_ref().ok().and_then(Converted::raw);
    let (Some((file, start)), Some((dtype, _))) = (&unit.place, raw) else { return finding };
    let block = index.checked_div(dtype.block_values() as u64).unwrap_or(0);
    let offset = block.saturating_mul(dtype.block_bytes() as u64).saturating_add(*start);
    finding.file(*file).at(offset)
}
