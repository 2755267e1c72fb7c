//! The list of tensors as data that the page's script makes a table of. Rows are lists, and what many of them share
//! stands once, since a model may have some ten thousand tensors.

use super::page::{Cell, Histogram, Page, TensorRow};
use crate::render::json::Each;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Columns of a histogram as it is drawn.
const BARS: usize = 64;
/// Heights of its bars.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";

/// All that the script needs, written as it is made.
pub(super) struct Data<'p>(pub &'p Page<'p>);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (page, list) = (self.0, &self.0.list);
        let (mut types, mut shapes) = (Words::default(), Words::default());
        for row in list.rows.iter() {
            types.add(&row.dtype);
            shapes.add(&row.shape);
        }
        let columns = list.columns.iter().map(|c| json!([c.id, c.title, c.explain, c.narrow, c.words]));
        let kinds = || page.kinds.iter().map(|k| json!([shown(&k.full_name()), k.group.word()]));
        let mut data = serializer.serialize_map(None)?;
        data.serialize_entry("columns", &columns.collect::<Vec<_>>())?;
        data.serialize_entry("kinds", &Each(kinds))?;
        data.serialize_entry("types", &types.all)?;
        data.serialize_entry("shapes", &shapes.all)?;
        data.serialize_entry("files", &Each(|| list.files.iter().map(|f| shown(f))))?;
        data.serialize_entry("sort", &json!([list.sorted.0, list.sorted.1]))?;
        data.serialize_entry("hidden", &list.hidden)?;
        data.serialize_entry("rows", &Each(|| list.rows.iter().map(|row| self::row(&row, &types, &shapes))))?;
        data.end()
    }
}

/// Name, layer, kind, type, shape, elements, bytes, file, offset, note, what stands in further columns, histogram.
fn row(row: &TensorRow, types: &Words, shapes: &Words) -> Value {
    let mut cells = vec![
        json!(shown(&row.name)),
        json!(row.layer),
        json!(row.kind),
        json!(types.number(&row.dtype)),
        json!(shapes.number(&row.shape)),
        json!(row.elements),
        json!(row.bytes),
        json!(row.file),
        json!(row.offset),
        json!(row.note.as_deref().map(shown)),
    ];
    cells.extend(row.cells.iter().map(cell));
    cells.extend(row.histogram.as_ref().map(histogram));
    Value::Array(cells)
}

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::None => Value::Null,
        Cell::Number(n) if n.is_finite() => json!(rounded(*n)),
        Cell::Number(n) => json!(n.to_string()),
        Cell::Word(word) => json!(shown(word)),
    }
}

/// A number with as many digits as a page shows.
fn rounded(n: f64) -> f64 {
    format!("{n:.6e}").parse().unwrap_or(n)
}

/// The ends, the height of each bar as a digit of the base 64, how many numbers the highest stands for, and how many lie
/// below and above. What is not nothing has a height of one at least.
fn histogram(histogram: &Histogram) -> Value {
    let bars = bars(&histogram.counts);
    let most = bars.iter().copied().max().unwrap_or(0).max(1);
    let height =
        |n: &u64| if *n == 0 { 0 } else { ((*n as f64 / most as f64) * 63.0).round().max(1.0) as usize };
    let digits: String =
        bars.iter().map(|n| char::from(DIGITS.get(height(n)).copied().unwrap_or(b'0'))).collect();
    let (below, above) = histogram.beyond;
    json!([rounded(histogram.low), rounded(histogram.high), digits, most, below, above])
}

/// Bins put together until there are few enough to draw.
fn bars(counts: &[u64]) -> Vec<u64> {
    let each = counts.len().div_ceil(BARS).max(1);
    counts.chunks(each).map(|bins| bins.iter().fold(0u64, |n, bin| n.saturating_add(*bin))).collect()
}

/// Text as it is shown everywhere else; the script sets it as text, never as markup.
fn shown(text: &str) -> String {
    crate::terminal::escape(text).into_owned()
}

/// Words that stand once, by number.
#[derive(Default)]
struct Words {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Words {
    fn add(&mut self, word: &str) {
        if !self.numbers.contains_key(word) {
            self.numbers.insert(word.to_owned(), self.all.len());
            self.all.push(shown(word));
        }
    }

    fn number(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_become_bars_and_none_is_lost() {
        let counts: Vec<u64> = (0..200).collect();
        let bars = bars(&counts);
        assert!(bars.len() <= BARS);
        assert_eq!(bars.iter().sum::<u64>(), 199 * 100);
        assert_eq!(super::bars(&[]), [0u64; 0]);
        let drawn =
            histogram(&Histogram { low: -1.0, high: 1.0, counts: vec![0, 1, 1000, 500], beyond: (0, 3) });
        assert_eq!(drawn, json!([-1.0, 1.0, "01-W", 1000, 0, 3]));
    }

    #[test]
    fn numbers_have_the_digits_that_are_shown() {
        assert_eq!(cell(&Cell::Number(0.1 + 0.2)), json!(0.3));
        assert_eq!(cell(&Cell::Number(f64::NAN)), json!("NaN"));
        assert_eq!(cell(&Cell::Number(f64::NEG_INFINITY)), json!("-inf"));
        assert_eq!(cell(&Cell::None), Value::Null);
    }

    #[test]
    fn words_stand_once() {
        let mut words = Words::default();
        ["F32", "BF16", "F32"].iter().for_each(|word| words.add(word));
        assert_eq!(["F32", "BF16", "F64"].map(|word| words.number(word)), [Some(0), Some(1), None]);
        assert_eq!(words.all, ["F32", "BF16"]);
    }
}
