//! The tensors of a source folded for display: layers that are alike share a row.

use crate::index::{ElementType, TensorInfo};
use crate::names::{Parted, part, without_expert};
use crate::report::{Row, RowPart, Section, SectionPlace};
use crate::source::WeightSource;
use crate::table::{TensorTable, Use};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// What makes two tensors share a row.
#[derive(PartialEq, Eq, Hash)]
struct RowKey<'a> {
    prefix: Option<&'a str>,
    name: Cow<'a, str>,
    dtype: &'a ElementType,
    shape: &'a [usize],
}

/// Where the architecture places a tensor.
#[derive(Clone, Copy)]
struct Known {
    usage: Use,
    /// Position in the table, folded over layers.
    order: usize,
    /// Whether it comes after the layers.
    last: bool,
}

/// Folds all tensors into sections.
pub(super) fn sections(
    source: &dyn WeightSource,
    table: Option<&TensorTable>,
    copies: &[String],
) -> Vec<Section> {
    let known = table.map(|t| places(t, source)).unwrap_or_default();
    let mut rows: Vec<(Row, Option<&str>, Option<Known>)> = Vec::new();
    let mut by_key: HashMap<RowKey<'_>, usize> = HashMap::new();
    for tensor in source.tensors().tensors() {
        let parted = part(&tensor.name);
        let layer = parted.as_ref().map(|p| p.layer);
        let (key, place) = key_of(tensor, parted, &known);
        match by_key.get(&key).and_then(|&i| rows.get_mut(i)) {
            Some((row, _, _)) => {
                row.tensors += 1;
                row.layers.extend(layer);
                row.tied |= copies.contains(&tensor.name);
            }
            None => {
                let row = Row {
                    name: key.name.clone().into_owned(),
                    dtype: key.dtype.to_string(),
                    shape: tensor.shape.clone(),
                    elements: tensor.elements(),
                    tensors: 1,
                    layers: layer.into_iter().collect(),
                    usage: place.map(|k| k.usage),
                    tied: copies.contains(&tensor.name),
                    parts: parts(tensor),
                };
                rows.push((row, key.prefix, place));
                by_key.insert(key, rows.len().saturating_sub(1));
            }
        }
    }
    for (row, _, _) in &mut rows {
        row.layers.sort_unstable();
        row.layers.dedup();
    }
    gather(rows, table)
}

/// The stored tensors that make up one, by what follows what their names have in common with its own.
fn parts(tensor: &TensorInfo) -> Vec<RowPart> {
    let stem = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
    let local = |name: &str| {
        let end = name.strip_prefix(stem).unwrap_or(name);
        end.trim_start_matches(['.', '_']).to_owned()
    };
    let part = |part: &TensorInfo| RowPart {
        name: local(&part.name),
        dtype: part.dtype.to_string(),
        shape: part.shape.clone(),
        bytes: part.byte_len(),
    };
    tensor.parts.iter().map(part).collect()
}

fn key_of<'a>(
    tensor: &'a TensorInfo,
    parted: Option<Parted<'a>>,
    known: &HashMap<String, Known>,
) -> (RowKey<'a>, Option<Known>) {
    let (prefix, name) = match parted {
        Some(p) => (Some(p.prefix), Cow::Owned(p.local)),
        None => (None, Cow::Borrowed(tensor.name.as_str())),
    };
    let place = known.get(&place_key(prefix, &name)).copied();
    let key = RowKey { prefix, name, dtype: &tensor.dtype, shape: &tensor.shape };
    (key, place)
}

/// A table's row, whatever its layer.
fn place_key(prefix: Option<&str>, local: &str) -> String {
    prefix.map_or_else(|| local.to_owned(), |prefix| format!("{prefix}.*.{local}"))
}

fn places(table: &TensorTable, source: &dyn WeightSource) -> HashMap<String, Known> {
    let dialect = source.dialect();
    let mut places = HashMap::new();
    let mut past_layers = false;
    for (order, row) in table.rows().iter().enumerate() {
        let global = row.layer.is_none().then(|| table.name(row, dialect));
        let local = global.as_deref().unwrap_or(row.local_name(dialect));
        past_layers |= row.layer.is_some();
        let prefix = row.layer.map(|_| table.layer_prefix(dialect));
        let last = past_layers && row.layer.is_none();
        let place = Known { usage: row.usage, order, last };
        places.entry(place_key(prefix.as_deref(), &without_expert(local))).or_insert(place);
    }
    places
}

/// Sorts rows into sections, known ones in the table's order, others in the file's.
fn gather(rows: Vec<(Row, Option<&str>, Option<Known>)>, table: Option<&TensorTable>) -> Vec<Section> {
    let mut global = Vec::new();
    let mut last = Vec::new();
    let (mut unexpected, mut outside) = (Vec::new(), Vec::new());
    let mut stacks: Vec<(String, Vec<(Row, usize)>)> = Vec::new();
    let mut stack_of: HashMap<String, usize> = HashMap::new();
    for (at, (row, prefix, place)) in rows.into_iter().enumerate() {
        let order = place.map_or(usize::MAX / 2 + at, |k| k.order);
        match (prefix, place) {
            (None, None) if table.is_some_and(|t| t.is_outside(&row.name)) => outside.push((row, order)),
            (None, None) if table.is_some() => unexpected.push((row, order)),
            (None, Some(place)) if place.last => last.push((row, order)),
            (None, _) => global.push((row, order)),
            (Some(prefix), _) => match stack_of.get(prefix).and_then(|&i| stacks.get_mut(i)) {
                Some((_, rows)) => rows.push((row, order)),
                None => {
                    stack_of.insert(prefix.to_owned(), stacks.len());
                    stacks.push((prefix.to_owned(), vec![(row, order)]));
                }
            },
        }
    }
    let mut sections = vec![section(SectionPlace::Global, global)];
    sections.extend(stacks.into_iter().map(|(prefix, rows)| {
        let mut layers: BTreeMap<usize, usize> = BTreeMap::new();
        for layer in rows.iter().flat_map(|(row, _)| &row.layers) {
            *layers.entry(*layer).or_insert(0) += 1;
        }
        let layers: Vec<usize> = layers.into_keys().collect();
        let alike = rows.iter().all(|(row, _)| row.layers.len() == layers.len());
        section(SectionPlace::Layers { prefix, layers, alike }, rows)
    }));
    sections.push(section(SectionPlace::Final, last));
    sections.push(section(SectionPlace::Unexpected, unexpected));
    sections.push(section(SectionPlace::Outside, outside));
    sections.retain(|s| !s.rows.is_empty());
    sections
}

fn section(place: SectionPlace, mut rows: Vec<(Row, usize)>) -> Section {
    rows.sort_by_key(|(row, order)| (*order, row.layers.first().copied()));
    Section { place, rows: rows.into_iter().map(|(row, _)| row).collect() }
}
