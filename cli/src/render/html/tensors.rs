//! The tensors of a model as a page lists them: one by one, and as kinds.

use super::page::{Group, Kind, List, Piece, Rows, TensorRow, TypeShare};
use crate::render::text::tensors::usage;
use crate::render::{natural, words};
use scantling_core::check::Checked;
use scantling_core::index::TensorInfo;
use scantling_core::names::part;
use scantling_core::report::{Report, Row, Section, SectionPlace};
use scantling_core::source::{Dialect, WeightSource};
use scantling_core::table::{Expected, TensorTable, Use};
use std::collections::HashMap;

/// Shapes and types of a kind that are told.
const TOLD: usize = 16;

impl Kind {
    /// The name with `*` in the place of the layer's number.
    pub fn full_name(&self) -> String {
        if self.layers.is_empty() { self.name.clone() } else { format!("{}.*.{}", self.prefix, self.name) }
    }
}

/// What the report tells of a kind: its place among all rows, its section and its row.
#[derive(Clone, Copy)]
struct Told<'r> {
    order: usize,
    section: &'r Section,
    row: &'r Row,
}

/// What tells kinds apart: what comes before the number of the layer, and what comes after.
type Key = (Option<String>, String);

/// Every tensor by name, and the kinds that they are of, in the order of the report.
pub(super) fn of<'a>(checked: &'a Checked, types: &[TypeShare]) -> (Vec<Kind>, Rows<'a>) {
    let mut sorted: Vec<&TensorInfo> = checked.source.tensors().tensors().iter().collect();
    sorted.sort_by(|a, b| natural::compare(&a.name, &b.name));
    let mut rows = Rows::new(sorted.len(), move |at| sorted.get(at).map(|t| row(t)).unwrap_or_default());
    (kinds(checked, types, &mut rows), rows)
}

/// The kinds that rows are of; each row learns its layer and which is its own. A model tells their order and their use.
pub(super) fn kinds(checked: &Checked, types: &[TypeShare], rows: &mut Rows<'_>) -> Vec<Kind> {
    let told = told(&checked.report);
    let table = checked.architecture.as_ref().map(|a| a.tensors());
    let canonical = table.map(|t| canonical(t, checked.source.dialect())).unwrap_or_default();
    let number: HashMap<&str, usize> = types.iter().enumerate().map(|(n, t)| (t.name.as_str(), n)).collect();
    let mut kinds: Vec<(usize, Kind)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    rows.place(|mut row| {
        let parted = part(&row.name);
        row.layer = parted.as_ref().map(|p| p.layer);
        let key: Key = match parted {
            Some(p) => (Some(p.prefix.to_owned()), p.local),
            None => (None, row.name.clone()),
        };
        row.kind = *places.entry(key).or_insert_with_key(|key| {
            let known = told.get(&(key.0.as_deref(), key.1.as_str())).copied();
            let canonical = canonical.get(key).copied().unwrap_or(&key.1);
            kinds.push((known.map_or(usize::MAX, |k| k.order), kind(&checked.report, key, canonical, known)));
            kinds.len() - 1
        });
        if let Some((_, kind)) = kinds.get_mut(row.kind) {
            let dtype = number.get(row.dtype.as_str()).copied().unwrap_or(usize::MAX);
            add(kind, &row, dtype);
        }
        (row.layer, row.kind)
    });
    // Sorted by the report's order, the rows' numbers follow.
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    order.sort_by_key(|at| kinds.get(*at).map(|(order, ..)| *order));
    let mut now = vec![0; kinds.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(place) = now.get_mut(*old) {
            *place = new;
        }
    }
    rows.renumber(|kind| now.get(kind).copied().unwrap_or(0));
    let mut kinds: Vec<Option<_>> = kinds.into_iter().map(Some).collect();
    let sorted = order.iter().filter_map(|at| kinds.get_mut(*at)?.take());
    let finish = |(_, mut kind): (usize, Kind)| {
        kind.layers = kind.pieces.iter().filter_map(|piece| piece.layer).collect();
        kind
    };
    sorted.map(finish).collect()
}

/// What GGUF calls a kind, which says what it is for in the same words for all families.
fn canonical(table: &TensorTable, dialect: Dialect) -> HashMap<Key, &'static str> {
    let named = table.rows().iter().filter(|row| !row.gguf.is_empty());
    let key = |row: &Expected| match row.layer {
        Some(_) => (Some(table.layer_prefix(dialect).into_owned()), row.local_name(dialect).to_owned()),
        None => (None, table.name(row, dialect)),
    };
    named.map(|row| (key(row), row.gguf)).collect()
}

fn told(report: &Report) -> HashMap<(Option<&str>, &str), Told<'_>> {
    let mut told = HashMap::new();
    let rows = report.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    for (order, (section, row)) in rows.enumerate() {
        let prefix = match &section.place {
            SectionPlace::Layers { prefix, .. } => Some(prefix.as_str()),
            _ => None,
        };
        told.entry((prefix, row.name.as_str())).or_insert(Told { order, section, row });
    }
    told
}

fn kind(report: &Report, key: &Key, canonical: &str, told: Option<Told<'_>>) -> Kind {
    let (prefix, name) = key;
    let outside = told.is_some_and(|t| t.section.place == SectionPlace::Outside);
    let how = told.and_then(|t| t.row.usage);
    let group = if outside { Group::Other } else { group(canonical, how) };
    let used = |t: Told<'_>| Some(usage(report, t.row.usage?, &t.row.shape).replace("──▶", "→"));
    Kind {
        prefix: prefix.clone().unwrap_or_default(),
        name: name.clone(),
        group,
        usage: told.and_then(used).unwrap_or_default(),
        types: Vec::new(),
        shapes: Vec::new(),
        tensors: 0,
        layers: Vec::new(),
        elements: 0,
        bytes: 0,
        pieces: Vec::new(),
    }
}

fn add(kind: &mut Kind, row: &TensorRow, dtype: usize) {
    kind.tensors += 1;
    kind.elements = kind.elements.saturating_add(row.elements);
    kind.bytes = kind.bytes.saturating_add(row.bytes);
    if let Some((_, n)) = kind.types.iter_mut().find(|(name, _)| *name == row.dtype) {
        *n += 1;
    } else if kind.types.len() < TOLD {
        kind.types.reserve_exact(1); // Most kinds are of one type, and there may be as many kinds as tensors.
        kind.types.push((row.dtype.clone(), 1));
    }
    if !kind.shapes.contains(&row.shape) && kind.shapes.len() < TOLD {
        kind.shapes.reserve_exact(1);
        kind.shapes.push(row.shape.clone());
    }
    let at = kind.pieces.binary_search_by_key(&row.layer, |piece| piece.layer).unwrap_or_else(|at| {
        if kind.pieces.is_empty() {
            kind.pieces.reserve_exact(1);
        }
        kind.pieces.insert(at, Piece { layer: row.layer, bytes: 0, tensors: 0, dtype });
        at
    });
    if let Some(piece) = kind.pieces.get_mut(at) {
        piece.bytes = piece.bytes.saturating_add(row.bytes);
        piece.tensors += 1;
    }
}

fn row(tensor: &TensorInfo) -> TensorRow {
    let parts = |part: &TensorInfo| format!("{} {} {}", part.name, part.dtype, words::shape(&part.shape));
    let note: Vec<String> = tensor.parts.iter().map(parts).collect();
    // A packed one begins where its codes do.
    let at = tensor.stored().first().unwrap_or(tensor);
    TensorRow {
        name: tensor.name.clone(),
        dtype: tensor.dtype.to_string(),
        shape: words::shape(&tensor.shape),
        elements: tensor.elements(),
        bytes: tensor.byte_len(),
        file: at.shard,
        offset: at.bytes.as_ref().map(|range| range.start),
        layer: None,
        kind: 0,
        cells: Vec::new(),
        histogram: None,
        note: (!note.is_empty()).then(|| format!("made up of {}", note.join(", "))),
    }
}

/// The part of a model that a name tells of, in either of the two worlds.
fn group(name: &str, usage: Option<Use>) -> Group {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if usage == Some(Use::Embedding) {
        Group::Embedding
    } else if has(&["norm", "ln_"]) {
        Group::Norm
    } else if has(&["expert", "exps", "shexp", "router", "gate_inp"]) || name.starts_with("mlp.gate.") {
        Group::Experts
    } else if has(&["attn", "attention"]) {
        Group::Attention
    } else if has(&["mlp", "ffn", "feed_forward"]) {
        Group::FeedForward
    } else if has(&["lm_head", "embed_out"]) || name == "output.weight" {
        Group::Head
    } else if has(&["embed", "embd", "wte", "wpe"]) {
        Group::Embedding
    } else {
        Group::Other
    }
}

/// The list, of those tensors that are wanted in it.
pub(super) fn list<'a>(
    source: &dyn WeightSource,
    mut rows: Rows<'a>,
    wanted: impl Fn(&str) -> bool,
    sorted: (&str, bool),
) -> List<'a> {
    let all = rows.len();
    rows.retain(|row| wanted(&row.name));
    List {
        columns: Vec::new(),
        hidden: all.saturating_sub(rows.len()),
        rows,
        files: source.files().iter().map(|file| file.name().to_owned()).collect(),
        sorted: (sorted.0.to_owned(), sorted.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_worlds_tell_their_part() {
        let cases = [
            ("model.embed_tokens.weight", Group::Embedding),
            ("token_embd.weight", Group::Embedding),
            ("self_attn.q_proj.weight", Group::Attention),
            ("attn_output.weight", Group::Attention),
            ("attn_q_norm.weight", Group::Norm),
            ("post_attention_layernorm.weight", Group::Norm),
            ("output_norm.weight", Group::Norm),
            ("ln_1.weight", Group::Norm),
            ("mlp.gate_proj.weight", Group::FeedForward),
            ("ffn_down.weight", Group::FeedForward),
            ("mlp.experts.*.up_proj.weight", Group::Experts),
            ("mlp.gate.weight", Group::Experts),
            ("ffn_gate_inp.weight", Group::Experts),
            ("ffn_gate_exps.weight", Group::Experts),
            ("lm_head.weight", Group::Head),
            ("output.weight", Group::Head),
            ("rope_freqs.weight", Group::Other),
        ];
        for (name, expected) in cases {
            assert_eq!(group(name, None), expected, "{name}");
        }
        assert_eq!(group("wte.weight", Some(Use::Embedding)), Group::Embedding);
    }
}
