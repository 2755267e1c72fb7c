//! Tables whose columns are as wide as what stands in them.

use super::{FAINT, hanging};
use crate::render::words::{columns, cut_middle};
use crate::terminal::Screen;
use std::fmt::{self, Write};

/// Which edge of its column a cell stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Columns of the widest cell that is shown whole: all others of its column are as wide.
const WIDEST: usize = 400;

fn cut(cell: String) -> String {
    if cell.len() <= WIDEST { cell } else { cut_middle(&cell, WIDEST, "…") }
}

/// Rows under headings.
pub struct Table {
    heads: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these columns; a heading that starts with `>` is that of a column of numbers.
    pub fn new(heads: &[&'static str]) -> Table {
        let split = |head: &&'static str| match head.strip_prefix('>') {
            Some(head) => (head, Align::Right),
            None => (*head, Align::Left),
        };
        Table { heads: heads.iter().map(split).collect(), rows: Vec::new() }
    }

    /// One row more.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells: Vec<String> = cells.into();
        self.rows.push(cells.into_iter().map(cut).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes it all, so many columns in.
    pub fn write(&self, screen: &mut Screen<'_>, indent: usize) -> fmt::Result {
        self.write_with(screen, indent, &[])
    }

    /// The same with a text below each row, where it is not empty, four columns further in.
    pub fn write_with(&self, screen: &mut Screen<'_>, indent: usize, below: &[String]) -> fmt::Result {
        let widest = |i: usize, head: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| columns(cell));
            cells.max().unwrap_or(0).max(columns(head))
        };
        let widths: Vec<usize> =
            self.heads.iter().enumerate().map(|(i, (head, _))| widest(i, head)).collect();
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| (*head).to_owned()).collect();
        screen.paint(FAINT, &self.line(&heads, &widths, indent))?;
        writeln!(screen)?;
        for (i, row) in self.rows.iter().enumerate() {
            writeln!(screen, "{}", self.line(row, &widths, indent))?;
            if let Some(text) = below.get(i).filter(|text| !text.is_empty()) {
                let indent = indent.saturating_add(4);
                write!(screen, "{:indent$}", "")?;
                hanging(screen, text, indent, indent.saturating_add(2))?;
            }
        }
        Ok(())
    }

    fn line(&self, cells: &[String], widths: &[usize], indent: usize) -> String {
        let mut line = " ".repeat(indent);
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&self.heads) {
            let gap = " ".repeat(width.saturating_sub(columns(cell)));
            match align {
                Align::Left => line += &format!("{cell}{gap}  "),
                Align::Right => line += &format!("{gap}{cell}  "),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Look;

    #[test]
    fn one_long_name_does_not_widen_all_rows() {
        let mut table = Table::new(&["NAME", "REST"]);
        table.row([format!("a{}z", "é".repeat(1 << 20)), "x".into()]);
        table.row(["b".into(), "y".into()]);
        let mut bytes = Vec::new();
        let mut screen = Screen::new(&mut bytes, Look::default());
        table.write(&mut screen, 0).unwrap();
        screen.finish().unwrap();
        let out = String::from_utf8(bytes).unwrap();
        assert!(out.lines().all(|line| columns(line) == 400 + 2 + 1 || line.starts_with("NAME")), "{out}");
        assert!(out.contains("aé") && out.contains("é…é") && out.contains("éz  x"), "{out}");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["NAME", ">N", "REST"]);
        table.row(["a".into(), "1".into(), "x".into()]);
        table.row(["longer".into(), "1,000".into(), String::new()]);
        let mut bytes = Vec::new();
        let mut screen = Screen::new(&mut bytes, Look::default());
        table.write(&mut screen, 1).unwrap();
        screen.finish().unwrap();
        let wanted = " NAME        N  REST\n a           1  x\n longer  1,000\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), wanted);
    }
}
