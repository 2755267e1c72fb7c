//! The block of tensors, one row for each kind.

use super::{FAINT, hanging, heading};
use crate::render::words::{columns, cut_end, cut_middle, ranges, shape, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::metadata::Value;
use scantling_core::report::{Report, Row, RowPart, Section, SectionPlace};
use scantling_core::table::Use;
use std::fmt::{self, Write};

/// Rows of a section that are shown; a file that fits no architecture may have one for each tensor.
const ROWS: usize = 200;
/// Names wider than this do not widen their column, and are cut at three times as much.
const NAME: usize = 64;
/// Columns before the stored tensors that make up a packed one.
const PARTS: usize = 8;

pub(super) fn write(screen: &mut Screen<'_>, report: &Report, full: bool) -> fmt::Result {
    heading(screen, "tensors")?;
    if report.sections.iter().all(|s| s.rows.is_empty()) {
        return writeln!(screen, "  none");
    }
    let shown = |section: &Section| if full { section.rows.len() } else { section.rows.len().min(ROWS) };
    let several =
        report.sections.iter().filter(|s| matches!(s.place, SectionPlace::Layers { .. })).count() > 1;
    let mut blocks = Vec::new();
    for section in &report.sections {
        let lines: Vec<Line> =
            section.rows.iter().take(shown(section)).map(|r| Line::of(report, section, r)).collect();
        blocks.push((section, lines));
    }
    let layout = Layout::of(screen, blocks.iter().flat_map(|(_, lines)| lines));
    layout.header(screen)?;
    for (section, lines) in &blocks {
        let hidden = section.rows.len().saturating_sub(lines.len());
        writeln!(screen, "  {}", title(report, &section.place, several))?;
        for line in lines {
            layout.row(screen, line)?;
            if !line.parts.is_empty() {
                write!(screen, "{:PARTS$}", "")?;
                hanging(screen, &line.parts, PARTS, PARTS)?;
            }
        }
        if hidden > 0 {
            writeln!(screen, "    … and {} more rows (--full shows all)", thousands(hidden as u64))?;
        }
    }
    Ok(())
}

fn title(report: &Report, place: &SectionPlace, several: bool) -> String {
    match place {
        SectionPlace::Global => "global".to_owned(),
        SectionPlace::Final => "final".to_owned(),
        SectionPlace::Unexpected if report.model.architecture.is_none() => "all".to_owned(),
        SectionPlace::Unexpected => "not in the architecture".to_owned(),
        SectionPlace::Outside => "outside the text model".to_owned(),
        SectionPlace::Layers { prefix, layers, alike } => {
            let of = if several { format!(" of {}", escape(prefix)) } else { String::new() };
            let how = match (alike, layers.first()) {
                (true, Some(first)) => format!("shown: layer {first}"),
                _ => "rows that differ name their layers".to_owned(),
            };
            format!("each block{of}  × {}   ({how})", layers.len())
        }
    }
}

/// One row as text.
struct Line {
    name: String,
    dtype: String,
    shape: String,
    params: String,
    usage: String,
    layers: String,
    /// What it is made of; empty where it is stored by itself.
    parts: String,
}

impl Line {
    fn of(report: &Report, section: &Section, row: &Row) -> Line {
        let mut name = escape(&row.name).into_owned();
        let each = row.tensors.checked_div(row.layers.len().max(1)).unwrap_or(1);
        if each > 1 {
            name.push_str(&format!("   × {}", thousands(each as u64)));
        }
        if row.tied {
            name.push_str("   (tied)");
        }
        let everywhere = match &section.place {
            SectionPlace::Layers { layers, alike, .. } => *alike || *layers == row.layers,
            _ => true,
        };
        let word = if row.layers.len() == 1 { "layer" } else { "layers" };
        Line {
            name,
            dtype: cut_end(&escape(&row.dtype), 16, "…"),
            shape: shape(&row.shape),
            params: thousands(row.elements),
            usage: row.usage.map(|u| usage(report, u, &row.shape)).unwrap_or_default(),
            layers: if everywhere { String::new() } else { format!("{word} {}", ranges(&row.layers)) },
            parts: parts(row),
        }
    }
}

/// `4.63 bits per weight: qweight I32 [8, 64], scales F16 [2, 64]`.
fn parts(row: &Row) -> String {
    let Some(bits) = row.bits_per_weight() else { return String::new() };
    let part = |p: &RowPart| format!("{} {} {}", escape(&p.name), escape(&p.dtype), shape(&p.shape));
    let parts: Vec<String> = row.parts.iter().map(part).collect();
    format!("{bits:.2} bits per weight: {}", parts.join(", "))
}

/// How a tensor is used: `1024 ──▶ 2048`.
pub(in crate::render) fn usage(report: &Report, usage: Use, shape: &[usize]) -> String {
    let all = || shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
    match (usage, shape) {
        (Use::Embedding, [_, width]) => format!("id ──▶ {}   (row gather)", width_symbol(report, *width)),
        (Use::Matrix, [outer @ .., rows, columns]) => {
            let stack = outer.iter().map(|n| format!("   × {n}")).collect::<String>();
            format!("{columns} ──▶ {rows}{stack}")
        }
        (Use::Scale, _) => format!("scale {}", all()),
        (Use::Bias, _) => format!("bias {}", all()),
        (Use::Helper, _) => "helper".to_owned(),
        (Use::Embedding | Use::Matrix, _) => String::new(),
    }
}

/// The letter of the residual stream's width, if that is what the number is.
fn width_symbol(report: &Report, width: usize) -> String {
    let is_it = |value: &Value| matches!(value, Value::Unsigned(n) if *n == width as u64);
    let named = report.facts.iter().any(|f| f.symbol == "H" && is_it(&f.value));
    if named { "H".to_owned() } else { width.to_string() }
}

/// Widths of the columns.
struct Layout {
    name: usize,
    dtype: usize,
    shape: usize,
    params: usize,
    /// Whether there is room, and reason, for the column that says how a tensor is used.
    usage: bool,
    /// What a name that is wider than its column is cut to.
    cut: usize,
}

impl Layout {
    fn of<'l>(screen: &Screen<'_>, lines: impl Iterator<Item = &'l Line> + Clone) -> Layout {
        let widest = |least: &str, of: &dyn Fn(&Line) -> usize| {
            lines.clone().map(of).max().unwrap_or(0).max(columns(least))
        };
        let mut layout = Layout {
            name: widest("TENSOR", &|l| columns(&l.name).min(NAME)),
            dtype: widest("DTYPE", &|l| columns(&l.dtype)),
            shape: widest("SHAPE", &|l| columns(&l.shape).min(40)),
            params: widest("PARAMS", &|l| columns(&l.params)),
            usage: lines.clone().any(|l| !l.usage.is_empty()),
            cut: NAME.saturating_mul(3),
        };
        let tail = |l: &Line, usage: bool| {
            let columns = |t: &str| if t.is_empty() { 0 } else { columns(t).saturating_add(3) };
            columns(&l.layers).saturating_add(if usage { columns(&l.usage) } else { 0 })
        };
        let with_usage = layout.fixed().saturating_add(widest("", &|l| tail(l, true)));
        let without = layout.fixed().saturating_add(widest("", &|l| tail(l, false)));
        let width = screen.width();
        if with_usage.saturating_add(layout.name) > width {
            // Names give way first, then the column that only repeats the shape.
            layout.usage = layout.usage && width.saturating_sub(with_usage) >= 20;
            let rest = if layout.usage { with_usage } else { without };
            layout.name = layout.name.min(width.saturating_sub(rest)).max(12);
            layout.cut = layout.name;
        }
        layout
    }

    /// Columns of everything but the name and the use.
    fn fixed(&self) -> usize {
        let gaps = 9; // 4 before the name, 1, 2 and 2 between the columns
        gaps + self.dtype + self.shape + self.params
    }

    fn header(&self, screen: &mut Screen<'_>) -> fmt::Result {
        let Layout { dtype, shape, params, .. } = *self;
        let name = self.name.saturating_add(2);
        let last = if self.usage { "   in ──▶ out" } else { "" };
        let line = format!(
            "  {:name$} {:dtype$}  {:shape$}  {:>params$}{last}",
            "TENSOR", "DTYPE", "SHAPE", "PARAMS"
        );
        screen.paint(FAINT, &line)?;
        writeln!(screen)
    }

    fn row(&self, screen: &mut Screen<'_>, line: &Line) -> fmt::Result {
        let Layout { name: width, dtype, shape, params, .. } = *self;
        let name = cut_middle(&line.name, self.cut, screen.ellipsis());
        write!(
            screen,
            "    {name:width$} {:dtype$}  {:shape$}  {:>params$}",
            line.dtype, line.shape, line.params
        )?;
        if self.usage && !line.usage.is_empty() {
            write!(screen, "   {}", line.usage)?;
        }
        if !line.layers.is_empty() {
            write!(screen, "   {}", line.layers)?;
        }
        writeln!(screen)
    }
}
