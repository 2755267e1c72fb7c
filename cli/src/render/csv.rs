//! Tables for spreadsheets, as RFC 4180 has them but for the ends of lines.

use crate::terminal::Screen;
use scantling_core::error::{Error, Result};
use scantling_core::stats::{Stats, TensorStats};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;

const HEADS: [&str; 21] = [
    "name",
    "dtype",
    "shape",
    "bytes",
    "count",
    "min",
    "max",
    "mean",
    "std",
    "rms",
    "abs_max",
    "zeros",
    "subnormals",
    "nan",
    "infinite",
    "first_nan",
    "first_infinite",
    "rows",
    "dead_rows",
    "first_dead_row",
    "layer",
];

/// A row for each tensor. Into a file or a pipe go names as they are; on a terminal characters that it would obey are
/// escaped.
pub fn stats(screen: &mut Screen<'_>, stats: &Stats) -> Result<()> {
    line(screen, HEADS.iter().map(|head| (*head).to_owned()))?;
    stats.tensors.iter().try_for_each(|tensor| line(screen, cells(tensor).into_iter()))
}

fn cells(t: &TensorStats) -> Vec<String> {
    let tally = &t.tally;
    let finite = |x: f64| (tally.finite() > 0).then_some(x);
    let axes: Vec<String> = t.shape.iter().map(usize::to_string).collect();
    let figures = [
        json!(t.bytes),
        json!(tally.count),
        json!(finite(tally.min)),
        json!(finite(tally.max)),
        json!(finite(tally.mean)),
        json!(tally.std()),
        json!(tally.rms()),
        json!(tally.abs_max()),
        json!(tally.zeros),
        json!(tally.subnormals),
        json!(tally.nan),
        json!(tally.infinite),
        json!(tally.first_nan),
        json!(tally.first_infinite),
        json!(t.rows),
        json!(t.rows.map(|_| t.dead_rows)),
        json!(t.first_dead_row),
        json!(t.layer),
    ];
    let plain = |value: &Value| if value.is_null() { String::new() } else { value.to_string() };
    let mut cells = vec![t.name.clone(), t.dtype.clone(), axes.join("x")];
    cells.extend(figures.iter().map(plain));
    cells
}

fn line(screen: &mut Screen<'_>, cells: impl Iterator<Item = String>) -> Result<()> {
    let cells: Vec<String> = cells.map(|cell| quoted(&cell)).collect();
    let line = cells.join(",") + "\n";
    if !screen.look().terminal {
        screen.send(line.as_bytes());
        return Ok(());
    }
    let fault = |_| Error::io("standard output", "writing", io::Error::other("a formatter failed"));
    screen.write_str(&line).map_err(fault)
}

/// A cell: in quotes where it has a character that ends one.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_cell_is_quoted() {
        assert_eq!(quoted("a.b"), "a.b");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
