//! The one way in which characters get into a page.
//!
//! Markup is written by this program and known when it is compiled, which its type says: `&'static str`. Everything else
//! is text, and is escaped here, be it between tags, in an attribute, or in the data that the page's script reads.
//! It is handed on as it comes: a page of a hundred thousand tensors is never held as a whole.

use crate::terminal::escape;
use serde::Serialize;
use std::io::{self, Write};

/// A piece of markup on its way to where it is kept.
pub struct Html<'w> {
    out: &'w mut dyn Write,
    written: u64,
    /// The first thing that went wrong; nothing more is written after it.
    failed: Option<io::Error>,
}

impl<'w> Html<'w> {
    /// Nothing yet.
    pub fn new(out: &'w mut dyn Write) -> Html<'w> {
        Html { out, written: 0, failed: None }
    }

    /// How many bytes were written, where all of them were.
    pub fn finish(self) -> io::Result<u64> {
        self.failed.map_or(Ok(self.written), Err)
    }

    fn push(&mut self, page: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(page.as_bytes()).err();
            self.written = self.written.saturating_add(page.len() as u64);
        }
    }

    /// Markup of this program's own.
    pub fn raw(&mut self, markup: &'static str) {
        self.push(markup);
    }

    /// A style or a script of this program's own, that says so.
    pub fn code(&mut self, tag: &'static str, code: &str) {
        self.open(tag, &[]);
        self.push(code);
        self.close(tag);
    }

    /// Text, whoever wrote it.
    pub fn text(&mut self, text: &str) {
        self.push(&escaped(text));
    }

    /// An element begins.
    pub fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.push("<");
        self.push(tag);
        for (name, value) in attributes {
            self.push(" ");
            self.push(name);
            self.push("=\"");
            self.text(value);
            self.push("\"");
        }
        self.push(">");
    }

    /// An element ends.
    pub fn close(&mut self, tag: &'static str) {
        self.push("</");
        self.push(tag);
        self.push(">");
    }

    /// An element with text in it.
    pub fn element(&mut self, tag: &'static str, attributes: &[(&'static str, &str)], text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Data for the page's script. What could end the element, or begin another, is written as JSON's own escapes.
    pub fn data(&mut self, id: &'static str, value: &impl Serialize) {
        self.open("script", &[("type", "application/json"), ("id", id)]);
        if let Err(error) = serde_json::to_writer(Data(self), value) {
            self.failed.get_or_insert(error.into());
        }
        self.close("script");
        self.push("\n");
    }
}

/// Where JSON goes to, piece by piece, each of whole characters.
struct Data<'h, 'w>(&'h mut Html<'w>);

impl Write for Data<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = str::from_utf8(bytes).map_err(io::Error::other)?;
        while let Some((before, c)) = rest.find(MEANT).and_then(|at| rest.split_at_checked(at)) {
            self.0.push(before);
            let mut behind = c.chars();
            let c = behind.next().unwrap_or_default();
            self.0.push(&format!("\\u{:04x}", u32::from(c)));
            rest = behind.as_str();
        }
        self.0.push(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What could be taken for more than data.
const MEANT: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

/// Text with what HTML reads as more than text written out, in tags and in attributes alike; what a terminal would obey
/// is shown as it is shown there.
fn escaped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for c in escape(text).chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            c => page.push(c),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn written(write: impl FnOnce(&mut Html<'_>)) -> String {
        let mut page = Vec::new();
        let mut html = Html::new(&mut page);
        write(&mut html);
        assert_eq!(html.finish().unwrap(), page.len() as u64);
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut full = Full;
        let mut html = Html::new(&mut full);
        html.raw("<p>");
        html.data("d", &json!(1));
        assert_eq!(html.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn text_stays_text() {
        let hostile = "</script><b title='\"'>&\u{202e}\n";
        let shown = "&lt;/script&gt;&lt;b title=&#39;&quot;&#39;&gt;&amp;\\u{202e}\\x0a";
        let page = written(|html| html.element("td", &[("title", hostile)], hostile));
        assert_eq!(page, format!("<td title=\"{shown}\">{shown}</td>"));
    }

    #[test]
    fn data_ends_where_it_should_and_reads_back() {
        let value = json!(["</script><!--<script>", "a&b", "\u{2028}", 1.5]);
        let page = written(|html| html.data("d", &value));
        let inner = page.strip_prefix("<script type=\"application/json\" id=\"d\">").unwrap();
        let inner = inner.strip_suffix("</script>\n").unwrap();
        assert!(!inner.contains(['<', '>', '&', '\u{2028}']), "{inner}");
        assert_eq!(serde_json::from_str::<Value>(inner).unwrap(), value);
    }
}
