//! Tokens as JSON values.

use super::begin;
use crate::terminal::Screen;
use scantling_core::tokenizer::Token;
use serde_json::json;

/// A text with its tokens.
pub fn tokens(screen: &mut Screen<'_>, origin: &str, text: &str, tokens: &[Token]) {
    let mut out = begin(screen);
    out.put("origin", &json!(origin));
    out.put("text", &json!(text));
    let value = |t: &Token| json!({"id": t.id, "piece": t.piece, "bytes": [t.bytes.start, t.bytes.end]});
    out.put_all("tokens", tokens.iter().map(value));
    out.finish();
}

/// Ids with their text.
pub fn text(screen: &mut Screen<'_>, origin: &str, ids: &[u32], text: &str) {
    let mut out = begin(screen);
    out.put("origin", &json!(origin));
    out.put("ids", &json!(ids));
    out.put("text", &json!(text));
    out.finish();
}
