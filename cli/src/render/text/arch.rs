//! What an architecture must hold by a config: every tensor under both names, with the reasons for its shape.

use super::table::Table;
use super::{dimensions, findings, heading};
use crate::render::words::{columns, plural, ranges, shape, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::derived::{Derived, Kind, Totals, kinds, totals};
use scantling_core::source::Dialect;
use scantling_core::table::{Absence, Conversion, Expected, Split, TensorTable};
use std::fmt::{self, Write};

/// What stands for a name that a world does not have.
const NONE: &str = "—";

/// Dimensions, tensors, totals, and what is wrong with the config.
pub fn derived(screen: &mut Screen<'_>, derived: &Derived) -> fmt::Result {
    if let Some(table) = derived.table() {
        dimensions::facts(screen, Some(&derived.config), &derived.facts)?;
        writeln!(screen)?;
        heading(screen, &format!("tensors of {}", derived.plugin.name))?;
        tensors(screen, table)?;
        writeln!(screen)?;
        heading(screen, "totals")?;
        sums(screen, table)?;
    }
    findings::list(screen, derived.findings.iter(), false)
}

fn tensors(screen: &mut Screen<'_>, table: &TensorTable) -> fmt::Result {
    let kinds = kinds(table);
    let layers = table.layers();
    let mut rows = Table::new(&["HUGGING FACE", "GGUF", "SHAPE", ">PARAMS", ""]);
    let mut reasons = Vec::new();
    let mut in_layers = false;
    for kind in &kinds {
        let layered = kind.row.layer.is_some();
        if layered && !in_layers {
            let [hf, gguf] = [Dialect::Hf, Dialect::Gguf].map(|d| format!("{}.N.", table.layer_prefix(d)));
            rows.row([hf, gguf, format!("× {layers}"), String::new(), String::new()]);
            reasons.push(String::new());
        }
        in_layers = layered;
        let [hf, gguf] = [Dialect::Hf, Dialect::Gguf].map(|dialect| name(table, kind.row, dialect));
        let lens: Vec<usize> = kind.row.shape.iter().map(|axis| axis.len).collect();
        let where_ = if layered && kind.layers.len() < layers { places(&kind.layers) } else { String::new() };
        rows.row([hf, gguf, shape(&lens), thousands(kind.row.elements()), where_]);
        reasons.push(reason(table, kind));
    }
    rows.write_with(screen, 2, &reasons)
}

fn places(layers: &[usize]) -> String {
    format!("{} {}", if layers.len() == 1 { "layer" } else { "layers" }, ranges(layers))
}

/// The name; that of a layer's tensor after the layer's prefix, and a little further in.
fn name(table: &TensorTable, row: &Expected, dialect: Dialect) -> String {
    let indent = if row.layer.is_some() { "  " } else { "" };
    match row.local_name(dialect) {
        "" => format!("{indent}{NONE}"),
        local if row.layer.is_some() => format!("{indent}{local}"),
        _ => table.name(row, dialect),
    }
}

/// What the lengths follow from, how the worlds differ, and what its absence means.
fn reason(table: &TensorTable, kind: &Kind<'_>) -> String {
    let row = kind.row;
    let whys: Vec<String> = row.shape.iter().map(|axis| escape(&axis.to_string()).into_owned()).collect();
    let mut parts = vec![whys.join(", ")];
    match row.conversion {
        Conversion::None => {}
        Conversion::Transposed => parts.push("Hugging Face stores it transposed, [in, out]".to_owned()),
        Conversion::Interleaved(head) => parts
            .push(format!("GGUF has the rows that turn together side by side, within each head of {head}")),
        Conversion::PlusOne => parts.push("Hugging Face stores 1 less".to_owned()),
    }
    if let Some((whole, split, part)) = table.part_of(kind.at) {
        let whole = table.rows().get(whole).map_or("", |whole| whole.hf);
        let which = match (split, part) {
            (Split::Alternating, 0) => "the even outputs",
            (Split::Alternating, _) => "the odd outputs",
            (Split::PerHead, 0) => "the first rows of each head, transposed,",
            (Split::PerHead, _) => "the other rows of each head",
        };
        parts.push(format!("{which} of {whole}"));
    }
    if let Some(experts) = row.parts(Dialect::Hf) {
        parts.push(format!("Hugging Face has {}, GGUF one stack", plural(experts, "tensor")));
    }
    parts.extend(row.used.map(|used| format!("a token uses {used}")));
    match row.absence {
        Absence::Fault => {}
        Absence::Fine => parts.push("may be missing".to_owned()),
        Absence::StandIn { by, declared } => {
            let by = table.rows().get(by).map(|by| table.name(by, Dialect::Hf)).unwrap_or_default();
            let tied = if declared { ", as the config ties them" } else { "" };
            parts.push(format!("may be missing: {by} stands in for it{tied}"));
        }
    }
    parts.join("; ")
}

fn sums(screen: &mut Screen<'_>, table: &TensorTable) -> fmt::Result {
    let worlds = [("Hugging Face", Dialect::Hf), ("GGUF", Dialect::Gguf)];
    let width = worlds.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
    for (name, dialect) in worlds {
        let Totals { tensors, optional, parameters } = totals(table, dialect);
        let more = if optional > 0 {
            format!(", and {} that may be missing", thousands(optional as u64))
        } else {
            String::new()
        };
        writeln!(
            screen,
            "  {name:width$}   {}{more} · {} params",
            plural(tensors, "tensor"),
            thousands(parameters)
        )?;
    }
    Ok(())
}
