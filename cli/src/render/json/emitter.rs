//! JSON written as it comes, so that a list of a hundred thousand tensors is never held as a whole.

use crate::terminal::{Screen, is_control};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes a document whose outer levels are indented and whose inner values take a line each.
pub struct Emitter<'s, 'a> {
    screen: &'s mut Screen<'a>,
    /// The brackets that are open, and whether anything stands in each yet.
    open: Vec<(char, bool)>,
}

impl<'s, 'a> Emitter<'s, 'a> {
    /// A document, an object at its outermost.
    pub fn new(screen: &'s mut Screen<'a>) -> Emitter<'s, 'a> {
        let mut emitter = Emitter { screen, open: Vec::new() };
        emitter.begin('{');
        emitter
    }

    /// A member with a value that is at hand.
    pub fn put(&mut self, key: &str, value: &impl Serialize) {
        self.member(key);
        self.value(value);
    }

    /// A member that is an object of its own.
    pub fn object(&mut self, key: &str) {
        self.member(key);
        self.begin('{');
    }

    /// A member that is a list.
    pub fn list(&mut self, key: &str) {
        self.member(key);
        self.begin('[');
    }

    /// A member that is a list of values that come one after the other.
    pub fn put_all(&mut self, key: &str, values: impl IntoIterator<Item = impl Serialize>) {
        self.list(key);
        for value in values {
            self.item(&value);
        }
        self.end();
    }

    /// An element of a list.
    pub fn item(&mut self, value: &impl Serialize) {
        self.separate();
        self.value(value);
    }

    /// An element of a list that is an object of its own.
    pub fn item_object(&mut self) {
        self.separate();
        self.begin('{');
    }

    /// Closes what was opened last.
    pub fn end(&mut self) {
        if let Some((bracket, filled)) = self.open.pop() {
            if filled {
                self.line();
            }
            self.screen.send(if bracket == '{' { b"}" } else { b"]" });
        }
    }

    /// Hands on what is written so far.
    pub fn flush(&mut self) {
        self.screen.flush();
    }

    /// Closes everything.
    pub fn finish(mut self) {
        while !self.open.is_empty() {
            self.end();
        }
        self.screen.send(b"\n");
    }

    fn begin(&mut self, bracket: char) {
        self.screen.send(if bracket == '{' { b"{" } else { b"[" });
        self.open.push((bracket, false));
    }

    fn member(&mut self, key: &str) {
        self.separate();
        self.value(&key);
        self.screen.send(b": ");
    }

    fn separate(&mut self) {
        if let Some((_, filled)) = self.open.last_mut()
            && std::mem::replace(filled, true)
        {
            self.screen.send(b",");
        }
        self.line();
    }

    fn line(&mut self) {
        self.screen.send(b"\n");
        for _ in 0..self.open.len() {
            self.screen.send(b"  ");
        }
    }

    fn value(&mut self, value: &impl Serialize) {
        // Values of this program's own can be written, and the screen keeps what goes wrong with it.
        let _ = serde_json::to_writer(Escaping(self.screen), value);
    }
}

/// Where values go to, piece by piece, each of whole characters.
struct Escaping<'s, 'a>(&'s mut Screen<'a>);

impl Write for Escaping<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ascii = self.0.look().ascii;
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.send(escaped(text, ascii).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON text with the characters escaped that a terminal would obey, and, if only ASCII may be written, all
/// others. Beyond ASCII a JSON text has characters only in strings, so this needs no parser.
fn escaped(text: &str, ascii: bool) -> Cow<'_, str> {
    let escape = |c: char| !c.is_ascii() && (ascii || is_control(c)) || c == '\x7f';
    if !text.chars().any(escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if escape(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Look;
    use serde_json::{Value, json};

    fn escaped_json(text: &str, ascii: bool) -> String {
        escaped(&json!(text).to_string(), ascii).into_owned()
    }

    #[test]
    fn controls_are_escaped_and_read_back_the_same() {
        let text = "a\x1b\x7f\u{9b}\u{202e}\n\u{feff}ü\u{1f600}";
        let plain = escaped_json(text, false);
        assert_eq!(plain, r#""a\u001b\u007f\u009b\u202e\n\ufeffü😀""#);
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), text);
        let ascii = escaped_json(text, true);
        assert!(ascii.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&ascii).unwrap(), text);
    }

    #[test]
    fn documents_are_valid() {
        let mut bytes = Vec::new();
        let mut screen = Screen::new(&mut bytes, Look::default());
        let mut out = Emitter::new(&mut screen);
        out.put("one", &json!(1));
        out.put_all("none", [] as [Value; 0]);
        out.list("list");
        out.item(&json!({"a": [1]}));
        out.item_object();
        out.put("b", &json!(null));
        out.end();
        out.finish();
        screen.finish().unwrap();
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read, json!({"one": 1, "none": [], "list": [{"a": [1]}, {"b": null}]}));
    }
}
