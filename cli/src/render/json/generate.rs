//! What a model wrote, as JSON.

use super::begin;
use crate::backend::Backend;
use crate::terminal::Screen;
use scantling_core::cache::KvType;
use scantling_core::generate::{Ending, Written};
use scantling_core::model::Model;
use serde_json::json;

/// The whole of it.
pub fn generate(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    kv: KvType,
    prompt: &[u32],
    done: &Written,
) {
    let (ending, detail) = match &done.ending {
        Ending::Length => ("length", json!(null)),
        Ending::Token(id) => ("token", json!(id)),
        Ending::Text(text) => ("text", json!(text)),
        Ending::Context => ("context", json!(null)),
        Ending::Interrupted => ("interrupted", json!(null)),
    };
    let mut out = begin(screen);
    out.put("model", &json!(model.path));
    out.put("family", &json!(model.family));
    out.put("kernel", &json!(backend.name));
    out.put("threads", &json!(backend.threads));
    out.put("kv_type", &json!(kv.dtype().name()));
    out.put("prompt_ids", &json!(prompt));
    out.put("text", &json!(done.text));
    out.put("ids", &json!(done.ids));
    out.put("ending", &json!({ "kind": ending, "detail": detail }));
    out.put("prompt_seconds", &json!(done.read.as_secs_f64()));
    out.put("written_seconds", &json!(done.wrote.as_secs_f64()));
    out.finish();
}
