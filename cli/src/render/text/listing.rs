//! The list of each tensor.

use super::{FAINT, heading};
use crate::render::listing::Listing;
use crate::render::words::{columns, cut_end, cut_middle, shape, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::check::Checked;
use scantling_core::index::TensorInfo;
use std::fmt::{self, Write};

pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked, listing: &Listing) -> fmt::Result {
    let all = checked.source.tensors().tensors();
    let shown = listing.of(all);
    heading(screen, "tensors")?;
    let layout = Layout::of(screen, &shown);
    layout.header(screen)?;
    for tensor in &shown {
        layout.row(screen, checked, tensor)?;
    }
    match all.len().saturating_sub(shown.len()) {
        0 => Ok(()),
        hidden => {
            let (shown, hidden) = (thousands(shown.len() as u64), thousands(hidden as u64));
            writeln!(screen, "  {shown} shown, {hidden} hidden by --include and --exclude")
        }
    }
}

/// Widths of the columns.
struct Layout {
    name: usize,
    dtype: usize,
    axes: usize,
    params: usize,
    bytes: usize,
    /// What a name that is wider than its column is cut to.
    cut: usize,
}

impl Layout {
    fn of(screen: &Screen<'_>, shown: &[&TensorInfo]) -> Layout {
        let widest = |least: &str, of: &dyn Fn(&TensorInfo) -> usize| {
            let all = shown.iter().flat_map(|t| std::iter::once(*t).chain(&t.parts));
            all.map(of).max().unwrap_or(0).max(columns(least))
        };
        let parts = if shown.iter().any(|t| t.is_packed()) { 2 } else { 0 };
        let mut layout = Layout {
            name: widest("TENSOR", &|t| columns(&escape(&t.name)).saturating_add(parts).min(64)),
            dtype: widest("DTYPE", &|t| columns(&dtype_of(t))),
            axes: widest("SHAPE", &|t| columns(&shape(&t.shape)).min(40)),
            params: widest("PARAMS", &|t| columns(&thousands(t.elements()))),
            bytes: widest("BYTES", &|t| columns(&thousands(t.byte_len()))),
            cut: usize::MAX,
        };
        // Two before the name, two between the columns, and room for an offset.
        let fixed = 22 + layout.dtype + layout.axes + layout.params + layout.bytes;
        let width = screen.width();
        if fixed.saturating_add(layout.name) > width {
            layout.name = layout.name.min(width.saturating_sub(fixed)).max(12);
            layout.cut = layout.name;
        }
        layout
    }

    fn header(&self, screen: &mut Screen<'_>) -> fmt::Result {
        let Layout { name, dtype, axes, params, bytes, .. } = *self;
        let start = format!("  {:name$}  {:dtype$}  {:axes$}", "TENSOR", "DTYPE", "SHAPE");
        screen.paint(FAINT, &format!("{start}  {:>params$}  {:>bytes$}  WHERE", "PARAMS", "BYTES"))?;
        writeln!(screen)
    }

    fn row(&self, screen: &mut Screen<'_>, checked: &Checked, tensor: &TensorInfo) -> fmt::Result {
        let Layout { name: width, dtype, axes, params, bytes, .. } = *self;
        let name = cut_middle(&escape(&tensor.name), self.cut, screen.ellipsis());
        write!(screen, "  {name:width$}  {:dtype$}  {:axes$}", dtype_of(tensor), shape(&tensor.shape))?;
        let (elements, len) = (thousands(tensor.elements()), thousands(tensor.byte_len()));
        let place = if tensor.is_packed() { bits(tensor) } else { whereabouts(checked, tensor) };
        writeln!(screen, "  {elements:>params$}  {len:>bytes$}  {place}")?;
        for part in &tensor.parts {
            let name = format!("  {}", escape(&part.name));
            let name = cut_middle(&name, self.cut, screen.ellipsis());
            write!(screen, "  {name:width$}  {:dtype$}  {:axes$}", dtype_of(part), shape(&part.shape))?;
            let (len, place) = (thousands(part.byte_len()), whereabouts(checked, part));
            writeln!(screen, "  {:>params$}  {len:>bytes$}  {place}", "")?;
        }
        Ok(())
    }
}

fn bits(tensor: &TensorInfo) -> String {
    tensor.bits_per_weight().map_or_else(String::new, |bits| format!("{bits:.2} bits per weight"))
}

fn dtype_of(tensor: &TensorInfo) -> String {
    cut_end(&escape(&tensor.dtype.to_string()), 16, "…")
}

/// The byte it begins at, and the file where there are several.
fn whereabouts(checked: &Checked, tensor: &TensorInfo) -> String {
    let files = checked.source.files();
    let at = tensor.bytes.as_ref().map_or_else(|| "?".to_owned(), |r| r.start.to_string());
    match files.get(tensor.shard) {
        Some(file) if files.len() > 1 => format!("{}:{at}", escape(file.name())),
        _ => at,
    }
}
