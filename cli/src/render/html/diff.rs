//! The page of a comparison: its list is of pairs, its pictures of how far they are apart.

use super::heat::{About, Fold, Map, Scale, digits};
use super::inspect::{self, remark, title, value};
use super::page::{Cell, Column, List, Page, Rows, Standing, Table, TensorRow, Tile, TypeShare, Verdict};
use super::tensors;
use crate::render::natural;
use crate::render::text::diff::{headline, looked_at, steps};
use crate::render::words::{self, thousands};
use scantling_core::check::Checked;
use scantling_core::diff::{Allowed, Class, Diff, FactDifference, Pair, Side};

/// Columns that the list has, in the order of [`cells`].
const COLUMNS: [Column; 7] = [
    Column { id: "class", title: "class", explain: "what the two tensors are", narrow: true, words: true },
    Column { id: "types", title: "types", explain: "as each model stores it", narrow: false, words: true },
    Column {
        id: "relative",
        title: "rel. RMS",
        explain: "RMS of the differences, in multiples of that of the first model's numbers",
        narrow: true,
        words: false,
    },
    Column { id: "rms", title: "RMS", explain: "RMS of the differences", narrow: false, words: false },
    Column { id: "max", title: "max", explain: "the largest difference", narrow: false, words: false },
    Column { id: "cosine", title: "cosine", explain: "cosine of the two", narrow: false, words: false },
    Column {
        id: "worst",
        title: "farthest apart",
        explain: "the values that are, and where",
        narrow: false,
        words: true,
    },
];

/// Where in a row the relative RMS stands.
const RELATIVE: usize = 2;
/// Differences that are listed.
const FACTS: usize = 200;

/// The page of a comparison. The first model tells which kinds of tensors there are.
pub fn diff<'a>(first: &Checked, found: &'a Diff, allowed: Allowed) -> Page<'a> {
    let [a, b] = &found.sides;
    let mut pairs: Vec<&Pair> = found.pairs.iter().collect();
    pairs.sort_by(|x, y| natural::compare(&x.name, &y.name));
    let mut rows = Rows::new(pairs.len(), move |at| pairs.get(at).map(|pair| row(pair)).unwrap_or_default());
    let types = types(&rows);
    let kinds = tensors::kinds(first, &types, &mut rows);
    let apart = |row: &TensorRow| match row.cells.get(RELATIVE) {
        Some(Cell::Number(n)) => Some(*n),
        _ => None,
    };
    let maps = Map::all(APART, &kinds, &rows, apart);
    let passes = found.passes(allowed);
    let findings: Vec<_> = found.findings.iter().take(inspect::FINDINGS).map(remark).collect();
    let uncompared = found.pairs.iter().filter(|p| p.class == Class::Uncompared);
    let mut unchecked: Vec<String> = uncompared
        .take(20)
        .map(|p| format!("{} ({})", p.name, p.why.as_deref().unwrap_or("not compared")))
        .collect();
    unchecked.extend(found.left_out.iter().take(20).map(|(name, why)| format!("{name} ({why})")));
    Page {
        title: format!("{} → {}", title(&a.path), title(&b.path)),
        path: format!("{} {}", a.path, b.path),
        command: "diff",
        summary: looked_at(found),
        tiles: tiles(found),
        verdict: Verdict {
            standing: if passes { Standing::Good } else { Standing::Bad },
            headline: headline(found, allowed),
            advice: None,
        },
        findings_hidden: found.findings.len().saturating_sub(findings.len()),
        findings,
        tables: vec![sides(a, b), facts(found)].into_iter().filter(|t| !t.rows.is_empty()).collect(),
        bytes_of: "Bytes and types are those of model B, the second; a tensor that it lacks is drawn as A has it.",
        types,
        kinds,
        maps,
        list: List {
            columns: COLUMNS.to_vec(),
            rows,
            sorted: ("relative".to_owned(), true),
            ..List::default()
        },
        unchecked,
        ..Page::default()
    }
}

const APART: About = About {
    title: "How far apart",
    explain: "RMS of the differences in multiples of that of the first model's numbers; of several tensors the largest. \
              Rounding shows as an even colour in each kind; a fault stands out.",
    scale: Scale::Log,
    fold: Fold::Largest,
    show: digits,
    zero: "no difference",
};

fn row(pair: &Pair) -> TensorRow {
    let [a, b] = &pair.stored;
    let stored = b.as_ref().or(a.as_ref());
    let lengths = stored.map(|s| s.shape.as_slice()).unwrap_or_default();
    let elements = lengths.iter().fold(1u64, |n, len| n.saturating_mul(*len as u64));
    let names: Vec<&str> = [a, b].into_iter().flatten().map(|s| s.name.as_str()).collect();
    let mut note = vec![names.join(" → ")];
    note.extend(pair.why.clone());
    note.push(steps(pair));
    note.retain(|text| !text.is_empty() && *text != pair.name);
    TensorRow {
        name: pair.name.clone(),
        dtype: stored.map(|s| s.dtype.clone()).unwrap_or_default(),
        shape: words::shape(lengths),
        elements: if stored.is_some() { elements } else { 0 },
        bytes: stored.map_or(0, |s| s.bytes),
        file: 0,
        offset: None,
        layer: None,
        kind: 0,
        cells: cells(pair),
        histogram: None,
        note: (!note.is_empty()).then(|| note.join("; ")),
    }
}

fn cells(pair: &Pair) -> Vec<Cell> {
    let types: Vec<&str> = pair.stored.iter().flatten().map(|s| s.dtype.as_str()).collect();
    let types = match types.as_slice() {
        [a, b] if a == b => (*a).to_owned(),
        all => all.join(" → "),
    };
    let distance = pair.measured.as_ref().map(|m| &m.distance);
    let same = pair.class.is_same();
    // What is the same was not always measured, and is known to be nothing apart.
    let figure = |n: Option<f64>, else_: f64| match n {
        Some(n) => Cell::Number(n),
        None if same => Cell::Number(else_),
        None => Cell::None,
    };
    let worst = distance.filter(|d| d.differing > 0).and_then(|d| d.worst.as_ref());
    vec![
        Cell::Word(pair.class.word().to_owned()),
        Cell::Word(types),
        figure(distance.map(|d| d.relative()), 0.0),
        figure(distance.map(|d| d.rms()), 0.0),
        figure(distance.map(|d| d.max()), 0.0),
        figure(distance.map(|d| d.cosine()), 1.0),
        worst.map_or(Cell::None, |w| {
            Cell::Word(format!(
                "{} → {} at {}",
                words::shortest(w.a),
                words::shortest(w.b),
                pair.place_of(w.index)
            ))
        }),
    ]
}

/// The element types of the second model, the one with the most bytes first.
fn types(rows: &Rows<'_>) -> Vec<TypeShare> {
    let mut types: Vec<TypeShare> = Vec::new();
    for row in rows.iter() {
        let share = match types.iter_mut().position(|t| t.name == row.dtype) {
            Some(at) => types.get_mut(at),
            None => {
                types.push(TypeShare { name: row.dtype.clone(), tensors: 0, elements: 0, bytes: 0 });
                types.last_mut()
            }
        };
        if let Some(share) = share {
            share.tensors += 1;
            share.elements = share.elements.saturating_add(row.elements);
            share.bytes = share.bytes.saturating_add(row.bytes);
        }
    }
    types.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    types
}

fn tiles(found: &Diff) -> Vec<Tile> {
    let all = found.pairs.len();
    let mut tiles = vec![Tile {
        name: "tensors",
        value: thousands(all as u64),
        note: "paired by what they are".to_owned(),
    }];
    for class in Class::ALL {
        let n = found.count(class);
        if n > 0 {
            let note = format!("{} of all", words::percent(n as u64, all as u64));
            tiles.push(Tile { name: class.word(), value: thousands(n as u64), note });
        }
    }
    let measured = found.pairs.iter().filter_map(|p| Some((p, p.measured.as_ref()?.distance.relative())));
    let worst = measured.filter(|(_, n)| n.is_finite() && *n > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((pair, n)) = worst {
        tiles.push(Tile { name: "largest relative RMS", value: digits(n), note: pair.name.clone() });
    }
    tiles
}

fn sides(a: &Side, b: &Side) -> Table {
    let row = |name: &str, of: &dyn Fn(&Side) -> String| vec![name.to_owned(), of(a), of(b)];
    let family = |side: &Side| side.model.family.clone().unwrap_or_else(|| "unknown".to_owned());
    Table {
        title: "The two models".to_owned(),
        columns: vec!["", "A", "B"],
        rows: vec![
            row("path", &|side| side.path.clone()),
            row("format", &|side| side.container.format.clone()),
            row("family", &family),
            row("tensors", &|side| thousands(side.tensors as u64)),
            row("bytes", &|side| words::bytes(side.bytes)),
        ],
        ..Table::default()
    }
}

fn facts(found: &Diff) -> Table {
    let cell = |fact: &FactDifference, side: usize| {
        let name = fact.names.get(side).and_then(|n| n.as_deref());
        let said = fact.values.get(side).and_then(|v| v.as_ref());
        match (name, said) {
            (Some(name), Some(said)) => format!("{name} = {}", value(said)),
            _ => "—".to_owned(),
        }
    };
    let row = |fact: &FactDifference| {
        vec![fact.meaning.clone(), fact.change.word().to_owned(), cell(fact, 0), cell(fact, 1)]
    };
    Table {
        title: "Hyperparameters that differ".to_owned(),
        note: format!("{} are equal.", found.facts_equal),
        columns: vec!["what it is", "how", "A", "B"],
        numbers: Vec::new(),
        rows: found.facts.iter().take(FACTS).map(row).collect(),
        hidden: found.facts.len().saturating_sub(FACTS),
    }
}
