//! The numbers of tensors as text.

use super::{FAINT, findings, hanging, strong};
use crate::render::judged::short;
use crate::render::words::{bytes, columns, cut_end, cut_middle, plural, shape, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::finding::Severity;
use scantling_core::report::Unchecked;
use scantling_core::stats::blocks::{Blocks, Range};
use scantling_core::stats::histogram::Histogram;
use scantling_core::stats::{Stats, TensorStats};
use std::fmt::{self, Write};

/// What was found, and in what.
pub struct Model<'a> {
    /// The path as it was given.
    pub path: String,
    /// Format of the files.
    pub format: String,
    /// What was found, in the order of showing.
    pub stats: &'a Stats,
    /// Tensors that were not asked for.
    pub hidden: usize,
}

/// A column: its heading, how soon it gives way where there is no room, and a cell of it.
type Column = (&'static str, u8, fn(&TensorStats) -> String);

/// Names to the left, all others to the right; of those that give way, the highest number first.
const COLUMNS: [Column; 11] = [
    ("DTYPE", 6, |t| cut_end(&escape(&t.dtype), 16, "…")),
    ("SHAPE", 8, |t| shape(&t.shape)),
    ("MIN", 1, |t| finite(t, t.tally.min)),
    ("MAX", 1, |t| finite(t, t.tally.max)),
    ("MEAN", 2, |t| finite(t, t.tally.mean)),
    ("STD", 0, |t| t.tally.std().map_or_else(String::new, figure)),
    ("RMS", 9, |t| t.tally.rms().map_or_else(String::new, figure)),
    ("PEAK", 7, |t| t.tally.peak().map_or_else(String::new, |peak| format!("{peak:.1}"))),
    ("ZEROS", 3, |t| count(t.tally.zeros)),
    ("SUBNORMAL", 5, |t| count(t.tally.subnormals)),
    ("NAN/INF", 4, |t| count(t.tally.nan.saturating_add(t.tally.infinite))),
];

/// Columns that only say that there is nothing, if there is nothing, are left out.
const ONLY_IF_ANY: [&str; 2] = ["SUBNORMAL", "NAN/INF"];
/// Narrowest that names are cut to before a column gives way.
const NARROW: usize = 24;
/// Widest that names are not cut at.
const WIDE: usize = 64;

/// Parts that were not looked at, of which the last line tells.
const TOLD: usize = 8;

/// All of it: spreads, which are long, before the table of figures, and what was found at the end, where it is seen.
pub fn stats(screen: &mut Screen<'_>, model: &Model<'_>, full: bool) -> fmt::Result {
    let stats = model.stats;
    for tensor in stats.tensors.iter().filter(|t| t.histogram.is_some() || t.blocks.is_some()) {
        detail(screen, tensor)?;
        writeln!(screen)?;
    }
    if !stats.tensors.is_empty() {
        table(screen, &stats.tensors)?;
        writeln!(screen)?;
    }
    if !stats.findings.is_empty() {
        findings::list(screen, stats.findings.iter(), full)?;
        writeln!(screen)?;
    }
    last_line(screen, model, full)
}

/// What was looked at, and what was not.
fn last_line(screen: &mut Screen<'_>, model: &Model<'_>, full: bool) -> fmt::Result {
    let stats = model.stats;
    let mut line = match stats.tensors.len() {
        0 => "looked at no values".to_owned(),
        n => format!(
            "looked at all {} values of {}, {}",
            thousands(stats.values()),
            plural(n, "tensor"),
            bytes(stats.bytes())
        ),
    };
    let count = |severity: Severity| {
        let n = stats.count(severity);
        (n > 0).then(|| plural(n, severity.word()))
    };
    let counts: Vec<String> =
        [Severity::Error, Severity::Warning, Severity::Note].into_iter().filter_map(count).collect();
    if !counts.is_empty() {
        line = format!("{}; {line}", counts.join(", "));
    }
    let mut not: Vec<String> = Vec::new();
    if model.hidden > 0 {
        not.push(format!("{} left out by --include and --exclude", plural(model.hidden, "tensor")));
    }
    let told = if full { usize::MAX } else { TOLD };
    let one = |u: &Unchecked| format!("{} ({})", short(&u.what, full), short(&u.why, full));
    not.extend(stats.unchecked.iter().take(told).map(one));
    match stats.unchecked.len().saturating_sub(told) {
        0 => {}
        more => not.push(format!("and {} more (--full shows all)", thousands(more as u64))),
    }
    if !not.is_empty() {
        line.push_str(&format!("; not looked at: {}", not.join(", ")));
    }
    hanging(screen, &line, 0, 2)
}

/// A number in five digits.
fn figure(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        "0".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        let decimals = (4 - size.log10().floor() as i64).clamp(0, 7) as usize;
        format!("{x:.decimals$}")
    } else {
        format!("{x:.3e}")
    }
}

fn finite(t: &TensorStats, x: f64) -> String {
    if t.tally.finite() > 0 { figure(x) } else { String::new() }
}

fn count(n: u64) -> String {
    if n == 0 { "0".to_owned() } else { thousands(n) }
}

fn table(screen: &mut Screen<'_>, tensors: &[TensorStats]) -> fmt::Result {
    let any =
        |(head, _, cell): &Column| !ONLY_IF_ANY.contains(head) || tensors.iter().any(|t| cell(t) != "0");
    // Cells are made twice, once for their widths: those of a hundred thousand tensors are not held.
    let mut shown: Vec<(&Column, usize)> = COLUMNS
        .iter()
        .filter(|column| any(column))
        .map(|column| {
            let widest = tensors.iter().map(|tensor| columns(&column.2(tensor))).max().unwrap_or(0);
            (column, widest.max(columns(column.0)))
        })
        .collect();
    let longest = tensors.iter().map(|tensor| columns(&escape(&tensor.name))).max().unwrap_or(0);
    let needed = |shown: &[(&Column, usize)]| shown.iter().map(|(_, width)| width + 2).sum::<usize>();
    while shown.len() > 1 && needed(&shown).saturating_add(longest.min(NARROW)) > screen.width() {
        let last = shown.iter().map(|(column, _)| column.1).max().unwrap_or(0);
        shown.retain(|(column, _)| column.1 != last);
    }
    let room = screen.width().saturating_sub(needed(&shown)).max(12);
    let (width, cut) = if longest <= room { (longest.clamp(6, WIDE), usize::MAX) } else { (room, room) };
    let head = |(column, wide): &(&Column, usize)| match column.0 {
        left @ ("DTYPE" | "SHAPE") => format!("  {left:wide$}"),
        right => format!("  {right:>wide$}"),
    };
    let heads: String = shown.iter().map(head).collect();
    screen.paint(FAINT, format!("{:width$}{heads}", "TENSOR").trim_end())?;
    writeln!(screen)?;
    for tensor in tensors {
        let name = cut_middle(&escape(&tensor.name), cut, screen.ellipsis());
        write!(screen, "{name:width$}")?;
        for (column, wide) in &shown {
            let cell = column.2(tensor);
            match column.0 {
                "DTYPE" | "SHAPE" => write!(screen, "  {cell:wide$}")?,
                _ => write!(screen, "  {cell:>wide$}")?,
            }
        }
        writeln!(screen)?;
    }
    Ok(())
}

/// Bins that are shown as one line.
const BINS: usize = 4;
/// Columns of the longest bar.
const BAR: usize = 40;

fn detail(screen: &mut Screen<'_>, tensor: &TensorStats) -> fmt::Result {
    let name = cut_middle(&escape(&tensor.name), screen.width(), screen.ellipsis());
    strong(screen, &name)?;
    writeln!(screen)?;
    if let Some(histogram) = &tensor.histogram {
        bars(screen, histogram)?;
    }
    tensor.blocks.as_ref().map_or(Ok(()), |blocks| use_of(screen, tensor, blocks))
}

fn bars(screen: &mut Screen<'_>, h: &Histogram) -> fmt::Result {
    let sums: Vec<u64> = h.counts.chunks(BINS).map(|bins| bins.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let widest = thousands(most).len();
    let room = screen.width().saturating_sub(16 + widest).clamp(4, BAR);
    let beyond = |screen: &mut Screen<'_>, words: &str, edge: f64, n: u64| match n {
        0 => Ok(()),
        _ => writeln!(screen, "  {words} {}: {}", figure(edge), thousands(n)),
    };
    beyond(screen, "below", h.low, h.below)?;
    for (i, sum) in sums.iter().enumerate() {
        let from = figure(h.edge(i * BINS));
        // Whatever is there is seen.
        let long = ((*sum as f64 / most as f64) * room as f64).round() as usize;
        let bar = "█".repeat(if *sum > 0 { long.max(1) } else { 0 });
        let line = format!("  {from:>10}  {:>widest$} {bar}", thousands(*sum));
        writeln!(screen, "{}", line.trim_end())?;
    }
    writeln!(screen, "  {:>10}", figure(h.high))?;
    beyond(screen, "above", h.high, h.above)
}

/// Scales, minima and codes of a block type.
fn use_of(screen: &mut Screen<'_>, tensor: &TensorStats, blocks: &Blocks) -> fmt::Result {
    let range = |r: &Range| {
        let zeros = if r.zeros > 0 { format!(", {} of them 0", thousands(r.zeros)) } else { String::new() };
        let odd = if r.not_finite > 0 {
            format!(", {} not finite", thousands(r.not_finite))
        } else {
            String::new()
        };
        let limits = match r.count > r.not_finite {
            true => format!("{} to {}", figure(f64::from(r.min)), figure(f64::from(r.max))),
            false => "no number".to_owned(),
        };
        format!("{} from {limits}{zeros}{odd}", thousands(r.count))
    };
    let mut parts = vec![
        format!("{} of {}", plural(blocks.count as usize, "block"), escape(&tensor.dtype)),
        format!("scales: {}", range(&blocks.scales)),
    ];
    parts.extend(blocks.minima.iter().map(|r| format!("minima: {}", range(r))));
    let (used, all, bits) = (blocks.used(), blocks.codes.len(), blocks.entropy());
    parts.push(format!(
        "codes: {used} of {all} used, {bits:.2} of {:.2} bits of information",
        (all.max(1) as f64).log2()
    ));
    for part in parts {
        write!(screen, "  ")?;
        hanging(screen, &part, 2, 4)?;
    }
    if blocks.codes.len() <= 16 {
        let counts: Vec<String> = blocks.codes.iter().map(|n| thousands(*n)).collect();
        write!(screen, "  ")?;
        hanging(screen, &format!("of each code from {}: {}", blocks.lowest, counts.join(" ")), 2, 4)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_have_five_digits() {
        let shown = [0.0, 1.0, -0.84765625, 12345.678, 0.0012345, 1e-9, -3.5e12].map(figure);
        assert_eq!(shown, ["0", "1.0000", "-0.84766", "12346", "0.0012345", "1.000e-9", "-3.500e12"]);
    }
}
