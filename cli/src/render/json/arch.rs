//! Architectures, and what one must hold by a config, as JSON.

use super::{begin, parts};
use crate::terminal::Screen;
use scantling_core::architecture::ArchitecturePlugin;
use scantling_core::axis::Axis;
use scantling_core::derived::{Derived, Kind, Totals, kinds, totals};
use scantling_core::source::Dialect;
use scantling_core::table::{Absence, Conversion, Expected, Split, TensorTable};
use serde_json::{Value, json};

/// A family and how files call it.
pub fn plugin(plugin: &ArchitecturePlugin) -> Value {
    json!({
        "name": plugin.name,
        "summary": plugin.summary,
        "model_types": plugin.model_types,
        "classes": plugin.classes,
        "gguf": plugin.gguf,
    })
}

/// Families.
pub fn list(screen: &mut Screen<'_>, plugins: &[&'static ArchitecturePlugin]) {
    let mut out = begin(screen);
    out.put_all("architectures", plugins.iter().map(|p| plugin(p)));
    out.finish();
}

/// What a family must hold.
pub fn derived(screen: &mut Screen<'_>, derived: &Derived) {
    let mut out = begin(screen);
    out.put("architecture", &json!(derived.plugin.name));
    out.put("config", &json!(derived.config));
    out.put_all("dimensions", derived.facts.iter().map(parts::fact));
    let table = derived.table();
    let kinds = table.map(kinds).unwrap_or_default();
    out.put_all("tensors", table.iter().flat_map(|table| kinds.iter().map(|kind| tensor(table, kind))));
    let both = |table| {
        let of = |dialect| in_world(totals(table, dialect));
        json!({"hf": of(Dialect::Hf), "gguf": of(Dialect::Gguf)})
    };
    out.put("totals", &table.map_or(Value::Null, both));
    out.put_all("findings", derived.findings.iter().map(parts::finding));
    out.finish();
}

fn tensor(table: &TensorTable, kind: &Kind<'_>) -> Value {
    let row = kind.row;
    let axis = |axis: &Axis| json!({"len": axis.len, "why": axis.why()});
    let (absence, by) = match row.absence {
        Absence::Fault => ("fault", None),
        Absence::Fine => ("fine", None),
        Absence::StandIn { by, declared } => {
            (if declared { "tied" } else { "stand-in" }, table.rows().get(by))
        }
    };
    let (conversion, head) = match row.conversion {
        Conversion::None => (None, None),
        Conversion::Transposed => (Some("transposed"), None),
        Conversion::Interleaved(head) => (Some("interleaved"), Some(head)),
        Conversion::PlusOne => (Some("plus-one"), None),
    };
    let split = table.part_of(kind.at).map(|(whole, split, part)| {
        let how = match split {
            Split::Alternating => "alternating",
            Split::PerHead => "per-head",
        };
        let of = table.rows().get(whole).map(|whole| name(table, whole, Dialect::Hf));
        json!({"of": of, "how": how, "part": part})
    });
    json!({
        "hf": name(table, row, Dialect::Hf),
        "gguf": name(table, row, Dialect::Gguf),
        "layers": kind.layers,
        "shape": row.shape.iter().map(axis).collect::<Vec<_>>(),
        "elements": row.elements(),
        "usage": parts::usage(row.usage),
        "conversion": conversion,
        "head": head,
        "split": split,
        "hf_tensors": row.parts(Dialect::Hf),
        "used": row.used,
        "absence": absence,
        "by": by.map(|by| name(table, by, Dialect::Hf)),
    })
}

/// The full name with `{layer}` for its layer's number and `{expert}` for an expert's.
fn name(table: &TensorTable, row: &Expected, dialect: Dialect) -> Option<String> {
    let local = row.local_name(dialect);
    if local.is_empty() {
        return None;
    }
    let name = match row.layer {
        Some(_) => format!("{}.{{layer}}.{local}", table.layer_prefix(dialect)),
        None => table.name(row, dialect),
    };
    Some(if row.parts(dialect).is_some() { name.replacen('*', "{expert}", 1) } else { name })
}

fn in_world(totals: Totals) -> Value {
    json!({"tensors": totals.tensors, "optional": totals.optional, "parameters": totals.parameters})
}
