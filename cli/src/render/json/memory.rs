//! What a run takes in memory, as JSON.

use super::begin;
use crate::commands::memory::Told;
use crate::terminal::Screen;
use scantling_core::memory::Estimate;
use serde_json::{Value, json};

/// The document of `memory`.
pub fn memory(screen: &mut Screen<'_>, told: &Told<'_>) {
    let memory = told.memory;
    let mut out = begin(screen);
    let planned = told.planned.as_ref();
    let stored = planned.map(|(storing, _)| storing.name());
    out.put("model", &json!({"path": told.path, "architecture": memory.family, "weights": stored}));
    out.put(
        "run",
        &json!({
            "kernel": told.kernel.0,
            "threads": told.kernel.1,
            "batch": memory.options.batch,
            "kv_type": memory.options.kv.dtype().name(),
        }),
    );
    out.put("kv_bytes_per_token", &json!(memory.kv_per_position()));
    out.put_all("layers", memory.kinds().into_iter().map(|kind| {
        json!({"layers": kind.layers, "key": kind.cache.key, "value": kind.cache.value, "window": kind.window})
    }));
    out.put("estimate", &estimate(&told.estimate));
    out.put_all("contexts", told.table.iter().map(estimate));
    let others = planned.map(|(_, others)| others.as_slice()).unwrap_or_default();
    let others = others.iter().map(|(storing, bytes)| json!({"weights": storing.name(), "bytes": bytes}));
    out.put_all("stored_as", others);
    let fit = told.fit.map(|(bytes, context)| {
        json!({
            "bytes": bytes,
            "context": context,
            "any": context.is_none(),
            "made_for": memory.longest,
            "usable": context.into_iter().chain(memory.longest).min(),
        })
    });
    out.put("fit", &fit.unwrap_or(Value::Null));
    out.put("machine", &json!({"available": told.machine.0, "total": told.machine.1, "fits": told.fits()}));
    out.put("vocabulary_counted", &json!(told.vocabulary));
    out.finish();
}

fn estimate(e: &Estimate) -> Value {
    json!({
        "context": e.context,
        "weights_mapped": e.mapped,
        "weights_owned": e.owned,
        "kv": e.kv,
        "kv_if_windows_were_kept": e.kv_windowed,
        "buffers": e.buffers,
        "kernel": e.scratch,
        "program": e.program,
        "own": e.own(),
        "total": e.total,
    })
}
