//! One tensor for programs.

use super::begin;
use super::parts;
use crate::commands::{Shown, Wrote, each_line};
use crate::terminal::Screen;
use scantling_core::error::Result;
use scantling_core::quant::fields::Numbers;
use scantling_core::show::{Block, Found, Values, View};
use serde_json::{Value, json};
use std::path::Path;

/// The document of `show`.
pub fn shown(
    screen: &mut Screen<'_>,
    path: &Path,
    asked: &str,
    found: &Found<'_>,
    view: &View<'_>,
    shown: &Shown<'_>,
    wrote: &[Wrote<'_>],
) -> Result<()> {
    let mut out = begin(screen);
    out.put("path", &json!(path.display().to_string()));
    out.put("asked", &json!(asked));
    out.put("tensor", &parts::tensor(view.source().files(), view.tensor()));
    out.put("notes", &json!(found.notes));
    out.put("shape", &json!(view.selection().shape()));
    out.put("first_offset", &json!(view.first_at()));
    out.put("byte_order", &json!(if view.is_big_endian() { "big" } else { "little" }));
    match shown {
        Shown::Numbers { .. } => {
            out.list("values");
            each_line(view, |values| {
                out.item(&numbers(&values));
                Ok(())
            })?;
            out.end();
        }
        Shown::Bytes { .. } => {
            let (data, start) = (view.stored()?, view.at().unwrap_or(0));
            out.list("bytes");
            view.each_run(false, &mut |run| {
                for from in run.clone().step_by(LINE) {
                    let line = data.get(from..run.end.min(from.saturating_add(LINE))).unwrap_or_default();
                    let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
                    out.item(&json!({"offset": start.saturating_add(from as u64), "hex": hex}));
                }
                Ok(())
            })?;
            out.end();
        }
        Shown::Block(one) => out.put("block", &block(one)),
        Shown::Nothing => {}
    }
    out.put_all(
        "written",
        wrote.iter().map(|file| json!({"path": file.path.display().to_string(), "what": file.what})),
    );
    out.finish();
    Ok(())
}

/// Bytes of an entry.
const LINE: usize = 256;

fn block(block: &Block<'_>) -> Value {
    let list = |(name, all): &(&'static str, Numbers)| {
        let values = match all {
            Numbers::Whole(all) => json!(all),
            Numbers::Real(all) => numbers(&Values::F32(all.clone())),
        };
        json!({"name": name, "values": values})
    };
    let fields: Vec<Value> = block
        .fields
        .iter()
        .map(|field| {
            let hex: String = field.raw.iter().map(|byte| format!("{byte:02x}")).collect();
            let lists: Vec<Value> = field.lists.iter().map(list).collect();
            json!({"name": field.name, "at": field.at, "hex": hex, "lists": lists})
        })
        .collect();
    json!({
        "dtype": block.dtype.name(),
        "number": block.number,
        "offset": block.at,
        "first_element": block.first,
        "fields": fields,
        "formula": block.layout.formula,
        "elements": numbers(&Values::F32(block.elements.clone())),
    })
}

/// Numbers; those that JSON has no word for as text.
fn numbers(values: &Values) -> Value {
    match values {
        Values::F32(all) => all.iter().map(|v| number(f64::from(*v))).collect(),
        Values::F64(all) => all.iter().map(|v| number(*v)).collect(),
        Values::Signed(all) => json!(all),
        Values::Unsigned(all) => json!(all),
        Values::Bool(all) => json!(all),
        Values::Complex(all) => {
            all.iter().map(|v| Value::from(v.map(|v| number(f64::from(v))).to_vec())).collect()
        }
    }
}

fn number(value: f64) -> Value {
    match value {
        v if v.is_finite() => json!(v),
        v if v.is_nan() => json!("NaN"),
        v if v > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    }
}
