//! JSON text whose pieces know where they stand in their file, and words for what stands in it.

use serde_json::value::RawValue;
use std::borrow::Cow;

/// A JSON text of a file.
#[derive(Clone, Copy)]
pub(super) struct Text<'t> {
    /// The file's name, for messages.
    pub file: &'t str,
    /// The text.
    pub text: &'t str,
    /// Where the text begins in the file.
    pub base: u64,
}

impl Text<'_> {
    /// Where a piece of the text begins in the file. The parser hands out pieces of the text itself, so the
    /// distance of two addresses is their distance in the file.
    pub fn at(&self, piece: &str) -> u64 {
        let past = (piece.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.base.saturating_add(past as u64)
    }

    /// Where in the file the parser stopped while it read a piece of the text.
    pub fn stopped_at(&self, piece: &str, error: &serde_json::Error) -> u64 {
        self.at(piece).saturating_add(offset(piece, error) as u64)
    }
}

/// The parser counts lines and columns; a header is one long line, where a byte offset says more.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before = error.line().saturating_sub(1);
    let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i.saturating_add(1));
    let line = if before == 0 { 0 } else { newlines.take(before).last().unwrap_or(0) };
    line.saturating_add(error.column().saturating_sub(1)).min(text.len())
}

/// What the parser has to say, without its line and column.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let mut all = error.to_string();
    if let Some(i) = all.rfind(" at line ") {
        all.truncate(i);
    }
    all
}

/// A JSON string's value; borrowed if nothing in it is escaped.
pub(super) fn string(raw: &str) -> serde_json::Result<Cow<'_, str>> {
    match raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')) {
        Some(inside) if !inside.contains('\\') => Ok(Cow::Borrowed(inside)),
        _ => serde_json::from_str::<String>(raw).map(Cow::Owned),
    }
}

/// The elements of a JSON list, unread; `None` if it is no list.
pub(super) fn elements(raw: &str) -> Option<Vec<&str>> {
    let list: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(list.into_iter().map(RawValue::get).collect())
}

/// What kind of JSON value a raw one is, in words.
pub(super) fn kind(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Characters of a foreign text that a message shows.
const SHOWN: usize = 60;

/// A text as messages show it: cut, since a name may be as long as its file.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// `12,345`.
pub(super) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(i);
        if i > 0 && left.is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 tensor`, `2 tensors`.
pub(super) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(n), if n == 1 { "" } else { "s" })
}
