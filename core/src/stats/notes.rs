//! What is odd about tensors that hold nothing but numbers: told as notes, since a model may be meant so.
//!
//! Tensors of one kind are told of together, so that a habit of a whole model is one note.

use super::TensorStats;
use crate::codes;
use crate::finding::Finding;
use crate::names;
use crate::source::WeightSource;
use std::collections::{BTreeMap, BTreeSet, HashMap};

codes! {
    pub static STATS_OUTLIER = Note, Data, "stats-outlier",
        "a number lies far from all others of its tensor",
        "The largest number of the tensor is more than a hundred standard deviations from the mean. Trained models have such \
         weights, and block types with one scale to many numbers lose the others beside them; a flipped bit of an \
         exponent looks the same.";
    pub static STATS_MAGNITUDE = Note, Data, "stats-magnitude",
        "a tensor is of another magnitude than others of its kind",
        "The root mean square differs by a factor of more than 32 from the median of the same tensor in other layers. A scale \
         may have been applied twice or not at all, or the layer was added later and never trained.";
    pub static STATS_DEAD_ROWS = Note, Data, "stats-dead-rows",
        "rows of a matrix are nothing but zeros",
        "Such an output is always zero; in an embedding, such a token means nothing. Vocabularies padded to a round number \
         have rows like these at their end, pruned models anywhere.";
    pub static STATS_CONSTANT = Note, Data, "stats-constant",
        "all numbers of a tensor are the same",
        "A norm of ones or a bias of zeros is as it was initialised: never trained, or not used. A matrix of one number is \
         probably lost.";
    pub static STATS_FROZEN = Note, Data, "stats-frozen-layer",
        "a layer looks as if it had never been trained",
        "All its vectors are constant, as they are initialised, and those of other layers are not.";
    pub static STATS_COPY = Note, Data, "stats-copy",
        "two tensors hold the same bytes",
        "Tied weights are stored twice by some writers. Otherwise one tensor was written in the place of another, or a model \
         was made deeper by repeating layers.";
    pub static STATS_COPIED_LAYER = Note, Data, "stats-copied-layer",
        "two layers hold the same bytes",
        "All tensors of the one equal those of the other. Models that were made deeper by repeating layers have these; \
         otherwise a layer was written in the place of another.";
}

/// Standard deviations from the mean that are far.
const FAR: f64 = 100.0;
/// How much larger or smaller than the median of its kind a tensor may be.
const APART: f64 = 32.0;
/// Tensors of a kind that a median means something of.
const ENOUGH: usize = 5;
/// Numbers of which a copy is no accident.
const SEVERAL: u64 = 16;

/// All notes, those about layers first.
pub(super) fn of(source: &dyn WeightSource, tensors: &[TensorStats]) -> Vec<Finding> {
    let copies = Copies::of(source, tensors);
    let mut notes = copies.layers();
    notes.extend(frozen(tensors));
    notes.extend(copies.tensors(tensors));
    let mut kinds: BTreeMap<&str, Vec<&TensorStats>> = BTreeMap::new();
    for tensor in tensors {
        kinds.entry(&tensor.kind).or_default().push(tensor);
    }
    for alike in kinds.values() {
        notes.extend(constant(alike));
        notes.extend(dead_rows(alike));
        notes.extend(outlier(alike));
        notes.extend(magnitude(alike));
    }
    notes
}

/// A number in as few digits as lead back to it, and without a hundred zeros.
fn number(x: f64) -> String {
    if x == 0.0 || (1e-7..1e7).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// How many times, in whole numbers as long as they are short.
fn times(by: f64) -> String {
    if by < 1e7 { format!("{by:.0}") } else { format!("{by:.3e}") }
}

/// " (and in 3 more of 12 of its kind)", or nothing.
fn others(odd: usize, alike: usize) -> String {
    match odd {
        0 | 1 => String::new(),
        _ if odd == alike => format!("; so it is in all {alike} of its kind"),
        _ => format!("; so it is in {odd} of {alike} of its kind"),
    }
}

fn constant(alike: &[&TensorStats]) -> Vec<Finding> {
    let mut by_value: BTreeMap<u64, Vec<&&TensorStats>> = BTreeMap::new();
    for tensor in alike.iter().filter(|t| t.tally.is_constant() && t.tally.count > 1) {
        by_value.entry(tensor.tally.min.to_bits()).or_default().push(tensor);
    }
    let told = |same: &Vec<&&TensorStats>| {
        let first = same.first()?;
        let (n, value) = (first.tally.count, number(first.tally.min));
        let more = others(same.len(), alike.len());
        Some(Finding::new(&STATS_CONSTANT, format!("all {n} numbers are {value}{more}")).tensor(&first.name))
    };
    by_value.values().filter_map(told).collect()
}

fn dead_rows(alike: &[&TensorStats]) -> Option<Finding> {
    // A matrix of zeros is told of as one.
    let dead = |t: &&&TensorStats| t.dead_rows > 0 && !t.tally.is_constant();
    let odd = alike.iter().filter(dead).count();
    let worst = alike.iter().filter(dead).max_by_key(|t| t.dead_rows)?;
    let (n, rows) = (worst.dead_rows, worst.rows.unwrap_or(0));
    let first = worst.first_dead_row.unwrap_or(0);
    let (are, they) = if n == 1 { ("is", "it is") } else { ("are", "the first is") };
    let what =
        format!("{n} of {rows} rows {are} nothing but zeros, {they} row {first}{}", others(odd, alike.len()));
    Some(Finding::new(&STATS_DEAD_ROWS, what).tensor(&worst.name))
}

/// How many standard deviations the number is from the mean that is furthest from it.
fn furthest(tensor: &TensorStats) -> Option<f64> {
    let (tally, std) = (&tensor.tally, tensor.tally.std()?);
    let far = (tally.max - tally.mean).max(tally.mean - tally.min) / std;
    far.is_finite().then_some(far)
}

fn outlier(alike: &[&TensorStats]) -> Option<Finding> {
    let far = alike.iter().filter_map(|t| Some((*t, furthest(t)?))).filter(|(_, far)| *far > FAR);
    let far: Vec<(&TensorStats, f64)> = far.collect();
    let (worst, by) = far.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let tally = &worst.tally;
    let value = if tally.max - tally.mean > tally.mean - tally.min { tally.max } else { tally.min };
    let what = format!(
        "a number is {}, {} standard deviations from the mean{}",
        number(value),
        times(*by),
        others(far.len(), alike.len())
    );
    Some(Finding::new(&STATS_OUTLIER, what).tensor(&worst.name))
}

fn magnitude(alike: &[&TensorStats]) -> Vec<Finding> {
    let mut sizes: Vec<f64> = alike.iter().filter_map(|t| t.tally.rms()).filter(|rms| *rms > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let Some(&median) = sizes.get(sizes.len() / 2).filter(|_| sizes.len() >= ENOUGH) else {
        return Vec::new();
    };
    let odd = alike.iter().filter_map(|t| {
        let rms = t.tally.rms().filter(|rms| *rms > 0.0)?;
        let by = rms / median;
        let words =
            if by > 1.0 { format!("{} times", times(by)) } else { format!("1/{} of", times(1.0 / by)) };
        let what =
            format!("its root mean square, {rms:.4e}, is {words} the median of its kind, {median:.4e}");
        (by > APART || by * APART < 1.0).then(|| Finding::new(&STATS_MAGNITUDE, what).tensor(&t.name))
    });
    odd.collect()
}

/// The layer of a tensor and its name within it.
struct Within<'a> {
    prefix: &'a str,
    layer: usize,
    local: &'a str,
}

fn within(tensor: &TensorStats) -> Option<Within<'_>> {
    let part = names::part(&tensor.name)?;
    let (prefix, layer) = (part.prefix, part.layer);
    let rest = tensor.name.get(prefix.len().checked_add(1)?..)?;
    let (_, local) = rest.split_once('.')?;
    let prefix = tensor.name.get(..prefix.len())?;
    Some(Within { prefix, layer, local })
}

/// Layers whose vectors are all constant, each one where another layer's varies.
fn frozen(tensors: &[TensorStats]) -> Vec<Finding> {
    let vectors = || {
        let all = tensors.iter().filter(|t| t.shape.len() == 1 && t.tally.count > 1);
        all.filter_map(|t| Some((within(t)?, t.tally.is_constant())))
    };
    let vary: BTreeSet<(&str, &str)> =
        vectors().filter(|(_, constant)| !constant).map(|(at, _)| (at.prefix, at.local)).collect();
    let mut layers: BTreeMap<(&str, usize), (usize, bool)> = BTreeMap::new();
    for (at, constant) in vectors() {
        let (count, frozen) = layers.entry((at.prefix, at.layer)).or_insert((0, true));
        *count += 1;
        *frozen &= constant && vary.contains(&(at.prefix, at.local));
    }
    let odd = layers.iter().filter(|(_, (_, frozen))| *frozen).map(|((prefix, layer), (count, _))| {
        let what = format!("its {count} vectors are constant; those of other layers are not");
        Finding::new(&STATS_FROZEN, what).tensor(format!("{prefix}.{layer}"))
    });
    odd.collect()
}

/// Which tensors hold the same bytes.
struct Copies {
    /// Of each tensor, the first with the same bytes.
    first: Vec<usize>,
    /// Tensors of layers that are copies as a whole, by position.
    told: BTreeSet<usize>,
    layers: Vec<CopiedLayer>,
}

/// A layer all of whose tensors are those of an earlier one.
struct CopiedLayer {
    prefix: String,
    layer: usize,
    first: usize,
    tensors: usize,
}

impl Copies {
    /// Bytes are compared where all figures agree already.
    fn of(source: &dyn WeightSource, tensors: &[TensorStats]) -> Copies {
        let key = |tensor: &TensorStats| {
            let t = &tensor.tally;
            (t.count, t.zeros, t.nan, [t.min, t.max, t.mean, t.spread].map(f64::to_bits))
        };
        // Sorted rather than kept in a map: of a hundred thousand tensors nearly every one is alone.
        let mut order: Vec<(usize, &TensorStats)> = tensors.iter().enumerate().collect();
        let by = |a: &TensorStats, b: &TensorStats| {
            key(a).cmp(&key(b)).then_with(|| (&a.dtype, &a.shape).cmp(&(&b.dtype, &b.shape)))
        };
        order.sort_by(|(_, a), (_, b)| by(a, b));
        let mut first: Vec<usize> = (0..tensors.len()).collect();
        for alike in order.chunk_by(|(_, a), (_, b)| by(a, b).is_eq()) {
            let mut seen: Vec<(usize, &TensorStats)> = Vec::new();
            for (i, tensor) in alike {
                match (seen.iter().find(|(_, other)| same_bytes(source, other, tensor)), first.get_mut(*i)) {
                    (Some((same, _)), Some(first)) => *first = *same,
                    _ => seen.push((*i, tensor)),
                }
            }
        }
        let mut copies = Copies { first, told: BTreeSet::new(), layers: Vec::new() };
        copies.find_layers(tensors);
        copies
    }

    fn find_layers(&mut self, tensors: &[TensorStats]) {
        let mut layers: BTreeMap<(&str, usize), BTreeMap<&str, usize>> = BTreeMap::new();
        for (i, tensor) in tensors.iter().enumerate() {
            if let Some(at) = within(tensor) {
                layers.entry((at.prefix, at.layer)).or_default().insert(at.local, i);
            }
        }
        /// What the tensors of a layer are, and what their numbers come to.
        type Content<'t> = Vec<(&'t str, usize)>;
        let mut seen: HashMap<(&str, Content<'_>), usize> = HashMap::new();
        for ((prefix, layer), own) in &layers {
            let varied = |i: &usize| tensors.get(*i).is_some_and(|t| !t.tally.is_constant());
            if !own.values().any(varied) {
                continue;
            }
            let content = own.iter().map(|(local, i)| (*local, self.first.get(*i).copied().unwrap_or(*i)));
            match seen.entry((prefix, content.collect())) {
                std::collections::hash_map::Entry::Vacant(slot) => {
                    slot.insert(*layer);
                }
                std::collections::hash_map::Entry::Occupied(slot) => {
                    let (prefix, first) = ((*prefix).to_owned(), *slot.get());
                    self.layers.push(CopiedLayer { prefix, layer: *layer, first, tensors: own.len() });
                    self.told.extend(own.values());
                }
            }
        }
    }

    fn layers(&self) -> Vec<Finding> {
        let told = self.layers.iter().map(|copied| {
            let CopiedLayer { prefix, layer, first, tensors } = copied;
            let what = format!("all {tensors} tensors hold the same bytes as those of layer {first}");
            Finding::new(&STATS_COPIED_LAYER, what).tensor(format!("{prefix}.{layer}"))
        });
        told.collect()
    }

    /// Copies of single tensors, those of one kind and of one other told together.
    fn tensors(&self, tensors: &[TensorStats]) -> Vec<Finding> {
        let mut pairs: BTreeMap<(&str, &str), Vec<(&TensorStats, &TensorStats)>> = BTreeMap::new();
        for (i, tensor) in tensors.iter().enumerate() {
            let Some(other) = self.first.get(i).filter(|j| **j != i).and_then(|j| tensors.get(*j)) else {
                continue;
            };
            let few = tensor.tally.count < SEVERAL || tensor.tally.is_constant();
            if !few && !self.told.contains(&i) {
                pairs.entry((&tensor.kind, &other.kind)).or_default().push((tensor, other));
            }
        }
        let told = pairs.values().filter_map(|same| {
            let (tensor, other) = same.first()?;
            let more = match same.len() {
                1 => String::new(),
                n => format!("; so do {} more of its kind", n - 1),
            };
            Some(
                Finding::new(&STATS_COPY, format!("holds the same bytes as {}{more}", other.name))
                    .tensor(&tensor.name),
            )
        });
        told.collect()
    }
}

/// Whether two tensors are stored alike.
fn same_bytes(source: &dyn WeightSource, a: &TensorStats, b: &TensorStats) -> bool {
    let index = source.tensors();
    let (Some(a), Some(b)) = (index.get(&a.name), index.get(&b.name)) else { return false };
    let (a, b) = (a.stored(), b.stored());
    let same = |(a, b): (&_, &_)| match (source.bytes(a), source.bytes(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}
