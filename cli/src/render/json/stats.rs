//! The numbers of tensors as JSON.

use super::{begin, parts};
use crate::render::text::stats::Model;
use crate::terminal::Screen;
use scantling_core::stats::TensorStats;
use scantling_core::stats::blocks::{Blocks, Range};
use scantling_core::stats::histogram::Histogram;
use serde_json::{Value, json};

/// The document.
pub fn stats(screen: &mut Screen<'_>, model: &Model<'_>) {
    let stats = model.stats;
    let mut out = begin(screen);
    out.put("path", &json!(model.path));
    out.put("format", &json!(model.format));
    out.put_all("tensors", stats.tensors.iter().map(tensor));
    out.put_all("findings", stats.findings.iter().map(parts::finding));
    out.put(
        "looked_at",
        &json!({"tensors": stats.tensors.len(), "values": stats.values(), "bytes": stats.bytes()}),
    );
    out.put("tensors_hidden", &json!(model.hidden));
    out.put_all("unchecked", stats.unchecked.iter().map(|u| json!({"what": u.what, "why": u.why})));
    out.finish();
}

/// One tensor.
pub fn tensor(t: &TensorStats) -> Value {
    let tally = &t.tally;
    let finite = |x: f64| (tally.finite() > 0).then_some(x);
    let mut object = json!({
        "name": t.name,
        "kind": t.kind,
        "layer": t.layer,
        "dtype": t.dtype,
        "shape": t.shape,
        "bytes": t.bytes,
        "count": tally.count,
        "min": finite(tally.min),
        "max": finite(tally.max),
        "mean": finite(tally.mean),
        "std": tally.std(),
        "rms": tally.rms(),
        "abs_max": tally.abs_max(),
        "zeros": tally.zeros,
        "subnormals": tally.subnormals,
        "nan": {"count": tally.nan, "first": tally.first_nan},
        "infinite": {"count": tally.infinite, "first": tally.first_infinite},
        "dead_rows": t.rows.map(|rows| json!({"rows": rows, "count": t.dead_rows, "first": t.first_dead_row})),
    });
    if let Some(histogram) = &t.histogram {
        object["histogram"] = self::histogram(histogram);
    }
    if let Some(blocks) = &t.blocks {
        object["blocks"] = self::blocks(blocks);
    }
    object
}

fn histogram(h: &Histogram) -> Value {
    json!({"low": h.low, "high": h.high, "counts": h.counts, "below": h.below, "above": h.above})
}

fn blocks(b: &Blocks) -> Value {
    json!({
        "count": b.count,
        "scales": range(&b.scales),
        "minima": b.minima.as_ref().map(range),
        "codes": {"lowest": b.lowest, "used": b.used(), "entropy": b.entropy(), "counts": b.codes},
    })
}

fn range(r: &Range) -> Value {
    let some = r.count > r.not_finite;
    json!({
        "count": r.count,
        "min": some.then(|| f64::from(r.min)),
        "max": some.then(|| f64::from(r.max)),
        "zeros": r.zeros,
        "not_finite": r.not_finite,
    })
}
