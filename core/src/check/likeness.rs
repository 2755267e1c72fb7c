//! What the shapes and names of a model tell whose architecture is not known: sizes, and the families that are nearest.
//! A hint for people; nothing is checked by it.

use crate::config::Config;
use crate::dtype::Class;
use crate::index::{TensorIndex, TensorInfo};
use crate::names::part;
use crate::registry::Registry;
use crate::report::{Inferred, Likeness, Nearest};
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, TensorTable};
use std::collections::{BTreeMap, BTreeSet};

/// Stacks of layers that are looked at, the largest first.
const STACKS: usize = 4;
/// Kinds of tensors that a hint names.
const NAMED: usize = 6;
/// What no shape shows.
const HIDDEN: [&str; 5] = [
    "the number of heads and their width",
    "the activation",
    "the epsilon of the norms",
    "the rotary base and its scaling",
    "the context it was made for",
];

/// Layers whose names begin alike.
#[derive(Default)]
struct Stack<'a> {
    prefix: &'a str,
    layers: BTreeSet<usize>,
    kinds: BTreeSet<String>,
    tensors: usize,
    /// Those of its first layer with what their names end with.
    first: Vec<(String, &'a TensorInfo)>,
}

/// Kinds of tensors in the layers of a family.
struct Family {
    name: &'static str,
    needed: BTreeSet<&'static str>,
    optional: BTreeSet<&'static str>,
}

/// Looks at a source; `None` where neither its shapes nor its names tell anything.
pub(super) fn of(
    source: &dyn WeightSource,
    config: Option<&Config>,
    registry: &Registry,
) -> Option<Likeness> {
    let stacks = stacks(source.tensors());
    let families = families(source, config, registry);
    let near = stacks.iter().filter_map(|stack| Some((stack, nearest(&stack.kinds, &families)?)));
    let best = near.max_by_key(|(_, near)| near.shared.saturating_sub(apart(near)));
    let (stack, nearest) = match best {
        Some((stack, nearest)) => (stack, Some(nearest)),
        None => (stacks.first()?, None),
    };
    let sizes = sizes(stack, source.tensors());
    if sizes.is_none() && nearest.is_none() {
        return None;
    }
    let sizes = sizes.unwrap_or_default();
    Some(Likeness { prefix: stack.prefix.to_owned(), sizes, hidden: HIDDEN.to_vec(), nearest })
}

/// The hint in words.
pub(super) fn hint(nearest: &Nearest) -> String {
    let Nearest { families, more, less, .. } = nearest;
    let all = families.join(", ");
    if more.is_empty() && less.is_empty() {
        return format!("its layers have just the tensors of {all}, though like names make no like model");
    }
    let mut hint = format!("nearest by the names in its layers: {all}");
    for (what, kinds) in [("it has beyond that", more), ("it lacks", less)] {
        let named = kinds.get(..NAMED).unwrap_or(kinds);
        let rest = kinds.len().saturating_sub(named.len());
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        if !kinds.is_empty() {
            hint.push_str(&format!("; {what} {}{more}", named.join(", ")));
        }
    }
    hint
}

fn apart(nearest: &Nearest) -> usize {
    nearest.more.len().saturating_add(nearest.less.len())
}

/// The largest stacks of layers, those with most tensors first.
fn stacks(tensors: &TensorIndex) -> Vec<Stack<'_>> {
    let mut stacks: BTreeMap<&str, Stack<'_>> = BTreeMap::new();
    for tensor in tensors.tensors() {
        let Some(parted) = part(&tensor.name) else { continue };
        let stack = stacks
            .entry(parted.prefix)
            .or_insert_with(|| Stack { prefix: parted.prefix, ..Stack::default() });
        stack.tensors = stack.tensors.saturating_add(1);
        match stack.layers.first() {
            Some(first) if parted.layer > *first => {}
            Some(first) if parted.layer == *first => stack.first.push((parted.local.clone(), tensor)),
            _ => stack.first = vec![(parted.local.clone(), tensor)],
        }
        stack.layers.insert(parted.layer);
        stack.kinds.insert(parted.local);
    }
    let mut stacks: Vec<Stack<'_>> = stacks.into_values().collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.tensors));
    stacks.truncate(STACKS);
    stacks
}

/// The kinds of each family: as it would be with what this config says, or, where that cannot be, with sizes that are
/// made up.
fn families(source: &dyn WeightSource, config: Option<&Config>, registry: &Registry) -> Vec<Family> {
    let dialect = source.dialect();
    let silent = Config::nothing(dialect);
    let config = config.unwrap_or(&silent);
    let none = TensorIndex::default();
    let family = |plugin: &&'static crate::architecture::ArchitecturePlugin| {
        let own = (plugin.build)(&config.sketch(false), source.tensors());
        let built = own.or_else(|_| (plugin.build)(&config.sketch(true), &none)).ok()?;
        Some(kinds(plugin.name, built.tensors(), dialect))
    };
    registry.architectures().iter().filter_map(family).collect()
}

fn kinds(name: &'static str, table: &TensorTable, dialect: Dialect) -> Family {
    let mut family = Family { name, needed: BTreeSet::new(), optional: BTreeSet::new() };
    for row in table.rows().iter().filter(|row| row.layer.is_some() && !row.local_name(dialect).is_empty()) {
        let kinds = if row.absence == Absence::Fault { &mut family.needed } else { &mut family.optional };
        kinds.insert(row.local_name(dialect));
    }
    family
}

/// The families that differ least, if they share more than they differ.
fn nearest(held: &BTreeSet<String>, families: &[Family]) -> Option<Nearest> {
    let mut best: Option<Nearest> = None;
    for family in families {
        let has = |kind: &str| family.needed.contains(kind) || family.optional.contains(kind);
        let lacks = |kind: &&&str| !held.contains(**kind);
        let shared = held.iter().filter(|kind| has(kind)).count();
        let apart =
            held.len().saturating_sub(shared).saturating_add(family.needed.iter().filter(lacks).count());
        if shared == 0 || apart > shared {
            continue;
        }
        let more = held.iter().filter(|kind| !has(kind)).cloned().collect();
        let less = family.needed.iter().filter(lacks).map(|kind| (*kind).to_owned()).collect();
        let near = Nearest { families: vec![family.name], shared, more, less };
        match &mut best {
            Some(best) if best.more == near.more && best.less == near.less => best.families.push(family.name),
            Some(best) if self::apart(best) <= apart => {}
            best => *best = Some(near),
        }
    }
    best
}

/// Whether a tensor's shape is that of the numbers in it.
fn plain(tensor: &TensorInfo) -> bool {
    tensor.dtype.known().is_some_and(|d| matches!(d.class(), Class::Float | Class::Quantised))
}

/// Sizes that follow from the shapes of a stack and of what lies outside all layers.
fn sizes(stack: &Stack<'_>, tensors: &TensorIndex) -> Option<Vec<Inferred>> {
    let first: Vec<&(String, &TensorInfo)> = stack.first.iter().filter(|(_, t)| plain(t)).collect();
    let matrices = first.iter().filter(|(_, t)| t.shape.len() > 1).count();
    let mut uses: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, tensor) in &first {
        let axes: BTreeSet<usize> = tensor.shape.iter().rev().take(2).copied().filter(|n| *n > 1).collect();
        for axis in axes {
            let times = uses.entry(axis).or_insert(0);
            *times = times.saturating_add(1);
        }
    }
    let most = uses.values().copied().max().filter(|_| matrices > 1)?;
    let mut widest = uses.iter().filter(|(_, times)| **times == most).map(|(axis, _)| *axis);
    // Two lengths that as many tensors have cannot be told apart.
    let (hidden, None) = (widest.next()?, widest.next()) else { return None };
    let layers = stack.layers.len();
    let mut sizes = vec![
        Inferred {
            symbol: "H",
            meaning: "residual-stream width",
            value: hidden,
            from: format!("an axis of {most} of the {} tensors of a layer", first.len()),
        },
        Inferred { symbol: "L", meaning: "layers", value: layers, from: stack.prefix.to_owned() },
    ];
    sizes.extend(vocabulary(tensors, hidden));
    let experts = experts(&first);
    sizes.extend(inner(&first, hidden, experts.as_ref().map(|e| e.value)));
    sizes.extend(experts);
    Some(sizes)
}

/// The length of the axis of a matrix that is not the hidden width.
fn other_axis(tensor: &TensorInfo, hidden: usize) -> Option<usize> {
    match tensor.shape.as_slice() {
        [.., a, b] if *a == hidden => Some(*b),
        [.., a, b] if *b == hidden => Some(*a),
        _ => None,
    }
}

/// The longest matrix outside of all layers that leads to the hidden width, one that is named so if there is any.
fn vocabulary(tensors: &TensorIndex, hidden: usize) -> Option<Inferred> {
    let global =
        tensors.tensors().iter().filter(|t| t.shape.len() == 2 && plain(t) && part(&t.name).is_none());
    let lengths = global.filter_map(|t| Some((t, other_axis(t, hidden)?)));
    let named = |name: &str| ["head", "emb", "wte"].iter().rposition(|word| name.contains(word));
    let (tensor, value) = lengths.max_by_key(|(t, n)| (named(&t.name), *n))?;
    Some(Inferred { symbol: "V", meaning: "distinct tokens", value, from: tensor.name.clone() })
}

/// The narrowest of the matrices that are named as those of an FFN are; one of two halves may hold gate and up both.
fn inner(first: &[&(String, &TensorInfo)], hidden: usize, experts: Option<usize>) -> Option<Inferred> {
    let named = |local: &str| {
        let ffn = ["mlp", "ffn", "feed_forward"].iter().any(|word| local.contains(word));
        ffn && !["expert", "exp", "router", "gate_inp"].iter().any(|word| local.contains(word))
    };
    let matrices = first.iter().filter(|(local, t)| t.shape.len() == 2 && named(local));
    let lengths = matrices.filter_map(|(local, t)| Some((local, other_axis(t, hidden)?)));
    // A matrix with an output for each expert is their router, whatever it is called.
    let lengths = lengths.filter(|(_, n)| Some(*n) != experts);
    let (local, value) = lengths.min_by_key(|(_, n)| *n)?;
    Some(Inferred { symbol: "I", meaning: "FFN inner width", value, from: local.clone() })
}

/// Matrices that are stacked, or that are numbered within one layer.
fn experts(first: &[&(String, &TensorInfo)]) -> Option<Inferred> {
    let stacked = first.iter().filter(|(local, t)| t.shape.len() == 3 && local.contains("exp"));
    let stacked = stacked.filter_map(|(local, t)| Some((local, t.shape.first().copied()?)));
    let mut numbered: BTreeMap<&String, usize> = BTreeMap::new();
    for (local, _) in first.iter().filter(|(local, _)| local.contains('*')) {
        let times = numbered.entry(local).or_insert(0);
        *times = times.saturating_add(1);
    }
    let (local, value) = stacked.chain(numbered).max_by_key(|(_, n)| *n)?;
    Some(Inferred { symbol: "E", meaning: "experts", value, from: local.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::index::ElementType;

    #[test]
    fn a_router_is_no_ffn() {
        let tensor = |name: &str, shape: [usize; 2]| TensorInfo {
            name: name.to_owned(),
            dtype: ElementType::Known(DType::F32),
            shape: shape.to_vec(),
            shard: 0,
            bytes: None,
            entry_at: 0,
            parts: Vec::new(),
        };
        let all = [tensor("mlp.gate.weight", [5, 64]), tensor("mlp.up_proj.weight", [24, 64])];
        let named: Vec<(String, &TensorInfo)> = all.iter().map(|t| (t.name.clone(), t)).collect();
        let value = |named: &[&(String, &TensorInfo)], experts| inner(named, 64, experts).map(|i| i.value);
        let both: Vec<&(String, &TensorInfo)> = named.iter().collect();
        assert_eq!(value(&both, Some(5)), Some(24));
        assert_eq!(value(both.get(..1).unwrap(), Some(5)), None);
        assert_eq!(value(both.get(..1).unwrap(), None), Some(5));
    }

    fn family(name: &'static str, needed: &[&'static str]) -> Family {
        Family { name, needed: needed.iter().copied().collect(), optional: BTreeSet::new() }
    }

    fn held(kinds: &[&str]) -> BTreeSet<String> {
        kinds.iter().map(|kind| (*kind).to_owned()).collect()
    }

    #[test]
    fn the_families_that_differ_least_are_named_with_the_difference() {
        let families = [
            family("a", &["norm", "q", "k", "v"]),
            family("b", &["norm", "q", "k", "v", "q_norm", "k_norm"]),
            family("c", &["norm", "q", "k", "v"]),
        ];
        let near = nearest(&held(&["norm", "q", "k", "v", "gate"]), &families).unwrap();
        assert_eq!((near.families.as_slice(), near.shared), (&["a", "c"][..], 4));
        assert_eq!((near.more.as_slice(), near.less.as_slice()), (&["gate".to_owned()][..], &[][..]));
        let told = hint(&near);
        assert_eq!(told, "nearest by the names in its layers: a, c; it has beyond that gate");
        let near = nearest(&held(&["norm", "q", "k", "v", "q_norm"]), &families).unwrap();
        assert_eq!(near.families, ["a", "c"], "the first of two that are as far");
        assert!(
            hint(&nearest(&held(&["norm", "q", "k", "v"]), &families).unwrap())
                .contains("just the tensors of a, c")
        );
        assert_eq!(nearest(&held(&["x", "y", "norm"]), &families), None);
        assert_eq!(nearest(&held(&[]), &families), None);
    }
}
