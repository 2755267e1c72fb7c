//! The one way in which characters get into a page.
//!
//! Markup is written by this program and known when it is compiled, which its type says: `&'static str`. Everything else
//! is text, and is escaped here, be it between tags, in an attribute, or in the data that the page's script reads.

use crate::terminal::escape;
use serde_json::Value;

/// A piece of markup, growing.
#[derive(Default)]
pub struct Html {
    page: String,
}

impl Html {
    /// Nothing yet.
    pub fn new() -> Html {
        Html::default()
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.page
    }

    /// Markup of this program's own.
    pub fn raw(&mut self, markup: &'static str) {
        self.page.push_str(markup);
    }

    /// A style or a script of this program's own, that says so.
    pub fn code(&mut self, tag: &'static str, code: &str) {
        self.open(tag, &[]);
        self.page.push_str(code);
        self.close(tag);
    }

    /// Text, whoever wrote it.
    pub fn text(&mut self, text: &str) {
        push(&mut self.page, text);
    }

    /// An element begins.
    pub fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.page.push('<');
        self.page.push_str(tag);
        for (name, value) in attributes {
            self.page.push(' ');
            self.page.push_str(name);
            self.page.push_str("=\"");
            push(&mut self.page, value);
            self.page.push('"');
        }
        self.page.push('>');
    }

    /// An element ends.
    pub fn close(&mut self, tag: &'static str) {
        self.page.push_str("</");
        self.page.push_str(tag);
        self.page.push('>');
    }

    /// An element with text in it.
    pub fn element(&mut self, tag: &'static str, attributes: &[(&'static str, &str)], text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Data for the page's script. What could end the element, or begin another, is written as JSON's own escapes.
    pub fn data(&mut self, id: &'static str, value: &Value) {
        self.open("script", &[("type", "application/json"), ("id", id)]);
        for c in value.to_string().chars() {
            match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    self.page.push_str(&format!("\\u{:04x}", u32::from(c)));
                }
                c => self.page.push(c),
            }
        }
        self.close("script");
        self.page.push('\n');
    }
}

/// Text with what HTML reads as more than text written out, in tags and in attributes alike; what a terminal would obey
/// is shown as it is shown there.
fn push(page: &mut String, text: &str) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_stays_text() {
        let mut html = Html::new();
        let hostile = "</script><b title='\"'>&\u{202e}\n";
        html.element("td", &[("title", hostile)], hostile);
        let shown = "&lt;/script&gt;&lt;b title=&#39;&quot;&#39;&gt;&amp;\\u{202e}\\x0a";
        assert_eq!(html.finish(), format!("<td title=\"{shown}\">{shown}</td>"));
    }

    #[test]
    fn data_ends_where_it_should_and_reads_back() {
        let value = json!(["</script><!--<script>", "a&b", "\u{2028}", 1.5]);
        let mut html = Html::new();
        html.data("d", &value);
        let page = html.finish();
        let inner = page.strip_prefix("<script type=\"application/json\" id=\"d\">").unwrap();
        let inner = inner.strip_suffix("</script>\n").unwrap();
        assert!(!inner.contains(['<', '>', '&', '\u{2028}']), "{inner}");
        assert_eq!(serde_json::from_str::<Value>(inner).unwrap(), value);
    }
}
