//! What a model wrote, as JSON.

use super::begin;
use super::emitter::Emitter;
use crate::backend::Backend;
use crate::terminal::Screen;
use scantling_core::cache::KvType;
use scantling_core::generate::{Ending, Written};
use scantling_core::model::Model;
use serde_json::{Value, json};

/// A conversation.
pub struct Chat<'a> {
    /// Tokens there was room for.
    pub context: usize,
    /// What the system said.
    pub system: Option<&'a str>,
    /// What was said and answered.
    pub turns: &'a [Turn],
}

/// What a user said, and what came of it.
pub struct Turn {
    /// What was said.
    pub user: String,
    /// The tokens of the whole conversation up to the answer.
    pub prompt: Vec<u32>,
    /// How many of them the model had seen before.
    pub kept: usize,
    /// The answer.
    pub done: Written,
}

/// One text that was written on.
pub fn generate(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    kv: KvType,
    prompt: &[u32],
    done: &Written,
) {
    let mut out = begun(screen, model, backend, kv);
    out.put("prompt_ids", &json!(prompt));
    members(done).into_iter().for_each(|(key, value)| out.put(key, &value));
    out.finish();
}

/// All turns of a conversation.
pub fn chat(screen: &mut Screen<'_>, model: &Model, backend: &Backend, kv: KvType, chat: &Chat<'_>) {
    let mut out = begun(screen, model, backend, kv);
    out.put("context", &json!(chat.context));
    out.put("system", &json!(chat.system));
    out.list("turns");
    for turn in chat.turns {
        out.item_object();
        out.put("user", &json!(turn.user));
        out.put("prompt_ids", &json!(turn.prompt));
        out.put("kept", &json!(turn.kept));
        members(&turn.done).into_iter().for_each(|(key, value)| out.put(key, &value));
        out.end();
    }
    out.finish();
}

fn begun<'s, 'a>(
    screen: &'s mut Screen<'a>,
    model: &Model,
    backend: &Backend,
    kv: KvType,
) -> Emitter<'s, 'a> {
    let mut out = begin(screen);
    out.put("model", &json!(model.path));
    out.put("family", &json!(model.family));
    out.put("kernel", &json!(backend.name));
    out.put("threads", &json!(backend.threads));
    out.put("kv_type", &json!(kv.dtype().name()));
    out.put("report", &json!(backend.kernel.report()));
    out
}

fn members(done: &Written) -> [(&'static str, Value); 5] {
    let (ending, detail) = match &done.ending {
        Ending::Length => ("length", json!(null)),
        Ending::Token(id) => ("token", json!(id)),
        Ending::Text(text) => ("text", json!(text)),
        Ending::Context => ("context", json!(null)),
        Ending::Interrupted => ("interrupted", json!(null)),
    };
    [
        ("text", json!(done.text)),
        ("ids", json!(done.ids)),
        ("ending", json!({ "kind": ending, "detail": detail })),
        ("prompt_seconds", json!(done.read.as_secs_f64())),
        ("written_seconds", json!(done.wrote.as_secs_f64())),
    ]
}
