//! Tensors that stand in the places of others: told layer by layer and kind by kind, where that is what happened.

use super::Pair;
use super::causes::{EXPERTS_REORDERED, LAYERS_SWAPPED, ONLY_IN_ONE, SWAPPED};
use super::pairing::is_other;
use crate::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// What it comes to that some pairs' second tensors are the first ones of other pairs.
pub(super) fn misplaced(pairs: &[Pair], moved: &BTreeMap<usize, usize>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    let pair = |i: usize| pairs.get(i);
    let mut by_layer: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for (to, from) in moved.iter().filter_map(|(to, from)| Some((pair(*to)?, pair(*from)?))) {
        if let (Some(to_layer), Some(from_layer), true) = (to.layer, from.layer, to.kind == from.kind) {
            let seen = by_layer.entry(to_layer).or_default().entry(from_layer).or_insert(0);
            *seen = seen.saturating_add(1);
        }
    }
    for (layer, sources) in &by_layer {
        let differing = pairs.iter().filter(|p| p.layer == Some(*layer) && is_other(p.class)).count();
        for (from, count) in
            sources.iter().filter(|(from, count)| **from != *layer && count.saturating_mul(2) > differing)
        {
            let own: Vec<usize> = moved
                .iter()
                .filter(|(to, source)| {
                    let layers = (pair(**to).and_then(|p| p.layer), pair(**source).and_then(|p| p.layer));
                    layers == (Some(*layer), Some(*from))
                })
                .map(|(to, _)| *to)
                .collect();
            let message = format!(
                "layer {layer} of the second model holds what layer {from} of the first does: {count} of {differing} tensors that differ"
            );
            findings.push(
                Finding::new(&LAYERS_SWAPPED, message)
                    .advice("number the layers as the first model does")
                    .because_of_this(symptoms(pairs, moved, &own)),
            );
            told.extend(own);
        }
    }
    // Within a layer: kinds exchanged, and experts that are tensors of their own.
    let mut by_kind: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (to, from) in moved.iter().filter(|(to, _)| !told.contains(*to)) {
        if let (Some(a), Some(b)) = (pair(*to), pair(*from)) {
            by_kind.entry((a.kind.clone(), b.kind.clone())).or_default().push(*to);
        }
    }
    for ((kind, from), own) in &by_kind {
        let layers: BTreeSet<usize> = own.iter().filter_map(|i| pair(*i)?.layer).collect();
        // One tensor that stands for two.
        let shared = own.iter().all(|to| {
            let name = |i: usize| pair(i).and_then(|p| p.stored[1].as_ref()).map(|stored| &stored.name);
            moved.get(to).is_some_and(|from| name(*to).is_some() && name(*to) == name(*from))
        });
        if shared {
            let message = format!(
                "the second model has no {kind} of its own, and reads {from} in its place; the first has one"
            );
            let f = Finding::new(&ONLY_IN_ONE, message).because_of_this(symptoms(pairs, moved, own));
            findings.push(f.advice("convert again, and keep the tensor"));
            continue;
        }
        let (code, message) = if kind == from {
            (&EXPERTS_REORDERED, format!("{} tensors of kind {kind} are others of their layer", own.len()))
        } else {
            let whole = match layers.len() {
                0 => String::new(),
                1 => ", in 1 layer".to_owned(),
                many => format!(", in {many} layers"),
            };
            (&SWAPPED, format!("{kind} holds what {from} of the first model holds{whole}"))
        };
        let f = Finding::new(code, message).because_of_this(symptoms(pairs, moved, own));
        findings.push(f.advice("give the tensors the names that they have in the first model"));
    }
    findings
}

fn symptoms(pairs: &[Pair], moved: &BTreeMap<usize, usize>, own: &[usize]) -> Vec<Finding> {
    const MOST: usize = 1000;
    let each = own.iter().take(MOST).filter_map(|to| Some((pairs.get(*to)?, pairs.get(*moved.get(to)?)?)));
    each.map(|(to, from)| {
        Finding::new(&SWAPPED, format!("is {} of the first model", from.name)).tensor(&to.name)
    })
    .collect()
}
