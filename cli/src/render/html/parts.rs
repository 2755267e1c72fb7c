//! The parts of a page, each from its own data.

use super::markup::Html;
use super::page::{Group, Kind, Page, Remark, Standing, Table};
use super::treemap;
use crate::render::words::{self, percent, plural, ranges, thousands};
use scantling_core::finding::Severity;

/// Id, heading, whether there is anything in it, and what writes it.
pub(super) type Part = (&'static str, &'static str, bool, fn(&mut Html<'_>, &Page<'_>));

pub(super) fn header(html: &mut Html<'_>, page: &Page<'_>) {
    html.raw("<header>\n");
    html.element("h1", &[], &page.title);
    html.element("p", &[("class", "summary")], &page.summary);
    if page.path != page.title {
        html.element("p", &[("class", "path")], &page.path);
    }
    if !page.tiles.is_empty() {
        html.raw("<dl class=\"tiles\">");
        for tile in &page.tiles {
            html.raw("<div>");
            html.element("dt", &[], tile.name);
            html.element("dd", &[], &tile.value);
            if !tile.note.is_empty() {
                html.element("dd", &[("class", "note")], &tile.note);
            }
            html.raw("</div>");
        }
        html.raw("</dl>\n");
    }
    html.raw("</header>\n");
}

/// Links to the parts that there are.
pub(super) fn contents(html: &mut Html<'_>, parts: &[Part]) {
    html.raw("<nav aria-label=\"Parts of this page\"><ul>");
    for (id, title, wanted, _) in parts {
        if *wanted {
            html.raw("<li>");
            html.element("a", &[("href", &format!("#{id}"))], title);
            html.raw("</li>");
        }
    }
    html.raw("</ul></nav>\n");
}

pub(super) fn verdict(html: &mut Html<'_>, page: &Page<'_>) {
    let (class, mark, word) = match page.verdict.standing {
        Standing::Good => ("good", "✓", "Good: "),
        Standing::Bad => ("bad", "✗", "Faulty: "),
        Standing::Open => ("open", "?", "Open: "),
    };
    html.open("p", &[("class", &format!("verdict {class}"))]);
    html.element("span", &[("class", "mark"), ("aria-hidden", "true")], mark);
    html.element("span", &[("class", "unseen")], word);
    html.element("span", &[], &page.verdict.headline);
    html.close("p");
    if let Some(advice) = &page.verdict.advice {
        html.element("p", &[("class", "advice")], &format!("To do: {advice}"));
    }
    if !page.findings.is_empty() {
        html.raw("<ul class=\"findings\">\n");
        page.findings.iter().for_each(|remark| self::remark(html, remark));
        html.raw("</ul>\n");
    }
    if page.findings_hidden > 0 {
        let more = thousands(page.findings_hidden as u64);
        html.element(
            "p",
            &[("class", "note")],
            &format!("… and {more} more findings; check --full lists them all."),
        );
    }
    if !page.looked_at.is_empty() {
        html.element("p", &[("class", "note")], &format!("Looked at: {}.", page.looked_at));
    }
    if !page.unchecked.is_empty() {
        html.element(
            "p",
            &[("class", "note")],
            &format!("{}: {}.", not_checked(page), page.unchecked.join(", ")),
        );
    }
}

/// What stands before the list of what was not looked at.
fn not_checked(page: &Page<'_>) -> &'static str {
    if page.looked_at.is_empty() { "Not checked" } else { "Not looked at" }
}

fn remark(html: &mut Html<'_>, remark: &Remark) {
    let class = match remark.severity {
        Severity::Error => "bad",
        Severity::Warning => "open",
        Severity::Note => "said",
    };
    html.open("li", &[("class", class)]);
    html.element("b", &[], remark.severity.word());
    html.text(" ");
    html.element("code", &[], &remark.code);
    html.element("p", &[], &remark.message);
    let lines = [("expected", &remark.expected), ("found", &remark.found), ("to do", &remark.advice)];
    if lines.iter().any(|(_, text)| text.is_some()) {
        html.raw("<dl>");
        for (name, text) in lines {
            if let Some(text) = text {
                html.element("dt", &[], name);
                html.element("dd", &[], text);
            }
        }
        html.raw("</dl>");
    }
    if !remark.symptoms.is_empty() {
        let all = remark.symptoms.len().saturating_add(remark.symptoms_hidden);
        html.raw("<details>");
        html.element("summary", &[], &format!("{} that follow from it", thousands(all as u64)));
        html.raw("<ul>");
        remark.symptoms.iter().for_each(|symptom| html.element("li", &[], symptom));
        if remark.symptoms_hidden > 0 {
            html.element("li", &[], &format!("… and {} more", thousands(remark.symptoms_hidden as u64)));
        }
        html.raw("</ul></details>");
    }
    html.raw("</li>\n");
}

pub(super) fn tables(html: &mut Html<'_>, page: &Page<'_>) {
    html.raw("<div class=\"pair\">\n");
    for table in &page.tables {
        html.raw("<div class=\"card\">");
        html.element("h3", &[], &table.title);
        self::table(html, table);
        html.raw("</div>\n");
    }
    html.raw("</div>\n");
}

pub(super) fn details(html: &mut Html<'_>, page: &Page<'_>) {
    for table in &page.details {
        html.raw("<details class=\"card\">");
        let rows = table.rows.len().saturating_add(table.hidden);
        html.element("summary", &[], &format!("{} ({})", table.title, thousands(rows as u64)));
        self::table(html, table);
        html.raw("</details>\n");
    }
}

/// Characters of what is short.
const SHORT: usize = 14;

fn table(html: &mut Html<'_>, table: &Table) {
    if !table.note.is_empty() {
        html.element("p", &[("class", "note")], &table.note);
    }
    html.open(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &table.title)],
    );
    html.open("table", &[("class", "plain")]);
    let class = |at: usize| if table.numbers.contains(&at) { "n" } else { "" };
    // What is short is never broken.
    let cell_class = |at: usize, cell: &str| match class(at) {
        "" if words::columns(cell) <= SHORT => "s",
        class => class,
    };
    if table.columns.iter().any(|c| !c.is_empty()) {
        html.raw("<thead><tr>");
        for (at, column) in table.columns.iter().enumerate() {
            html.element("th", &[("scope", "col"), ("class", class(at))], column);
        }
        html.raw("</tr></thead>");
    }
    html.raw("<tbody>");
    for row in &table.rows {
        html.raw("<tr>");
        for (at, cell) in row.iter().enumerate() {
            match at {
                0 => html.element("th", &[("scope", "row")], cell),
                _ => {
                    let mut said = vec![("class", cell_class(at, cell))];
                    // A narrow page has no heads above its columns.
                    said.extend(table.columns.get(at).filter(|c| !c.is_empty()).map(|c| ("data-head", *c)));
                    html.element("td", &said, cell);
                }
            }
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>");
    if table.hidden > 0 {
        html.element("p", &[("class", "note")], &format!("… and {} more.", thousands(table.hidden as u64)));
    }
}

/// The picture of all bytes, and what types they are of.
pub(super) fn bytes(html: &mut Html<'_>, page: &Page<'_>) {
    let total = page.bytes();
    if total == 0 {
        html.element("p", &[], "No tensor has any bytes.");
        return;
    }
    if !page.bytes_of.is_empty() {
        html.element("p", &[("class", "note")], page.bytes_of);
    }
    html.raw("<div class=\"treemap\">\n<fieldset><legend>Coloured by</legend>");
    html.raw(
        "<label><input type=\"radio\" name=\"colour\" id=\"by-part\" checked> part of the model</label>",
    );
    html.raw(
        "<label><input type=\"radio\" name=\"colour\" id=\"by-type\"> element type</label></fieldset>\n",
    );
    html.raw("<ul class=\"swatches parts\">");
    for group in Group::ALL {
        let own = page.kinds.iter().filter(|k| k.group == group).fold(0u64, |n, k| n.saturating_add(k.bytes));
        if own > 0 {
            swatch(html, group.class(), &format!("{} {}", group.word(), percent(own, total)));
        }
    }
    html.raw("</ul><ul class=\"swatches types\">");
    for (at, share) in page.types.iter().enumerate().take(8) {
        let name = if at == 7 && page.types.len() > 8 { "other types" } else { &share.name };
        let own = page.types.iter().skip(at).take(if at == 7 { usize::MAX } else { 1 });
        let own = own.fold(0u64, |n, t| n.saturating_add(t.bytes));
        swatch(
            html,
            TYPE_CLASSES.get(at).copied().unwrap_or("t7"),
            &format!("{name} {}", percent(own, total)),
        );
    }
    html.raw("</ul>\n");
    treemap::write(html, page);
    html.raw("<p class=\"note\">Each area is a kind of tensor, divided into its layers. Choosing one lists its tensors below; \
              the table of kinds has the same numbers.</p>\n</div>\n");
    types(html, page, total);
}

/// The classes that give types their colours.
const TYPE_CLASSES: [&str; 8] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];

fn swatch(html: &mut Html<'_>, class: &str, text: &str) {
    html.raw("<li>");
    html.element("i", &[("class", class), ("aria-hidden", "true")], "");
    html.text(text);
    html.raw("</li>");
}

/// Which element types there are, and how much of each.
fn types(html: &mut Html<'_>, page: &Page<'_>, total: u64) {
    html.raw("<div class=\"card mix\"><h3>Element types</h3>\n");
    html.raw("<svg class=\"bar\" viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Share of \
              each element type; the table has the numbers\">");
    let mut at = 0.0;
    for (n, share) in page.types.iter().enumerate() {
        let width = share.bytes as f64 / total as f64 * 1000.0;
        let class = TYPE_CLASSES.get(treemap::colour(n)).copied().unwrap_or("t7");
        let [x, w] = [at, width].map(|n| format!("{n:.2}"));
        html.open("rect", &[("class", class), ("x", &x), ("y", "0"), ("width", &w), ("height", "24")]);
        html.element("title", &[], &format!("{} {}", share.name, percent(share.bytes, total)));
        html.close("rect");
        at += width;
    }
    html.raw("</svg>\n");
    let row = |share: &super::page::TypeShare| {
        let bits = match share.elements {
            0 => String::new(),
            n => format!("{:.2}", share.bytes as f64 * 8.0 / n as f64),
        };
        vec![
            share.name.clone(),
            thousands(share.tensors as u64),
            thousands(share.elements),
            words::bytes(share.bytes),
            percent(share.bytes, total),
            bits,
        ]
    };
    let table = Table {
        title: "Element types".to_owned(),
        columns: vec!["type", "tensors", "elements", "bytes", "share", "bits each"],
        numbers: vec![1, 2, 3, 4, 5],
        rows: page.types.iter().map(row).collect(),
        ..Table::default()
    };
    self::table(html, &table);
    html.raw("</div>\n");
}

pub(super) fn maps(html: &mut Html<'_>, page: &Page<'_>) {
    page.maps.iter().enumerate().for_each(|(number, map)| map.write(html, number));
}

/// Kinds that are listed.
const KINDS: usize = 400;
/// What the columns of their table are called; narrow pages leave the broad ones out.
const KIND_HEADS: [(&str, &str); 9] = [
    ("kind", ""),
    ("part", ""),
    ("type", ""),
    ("shape", "broad"),
    ("in → out", "broad"),
    ("tensors", "n"),
    ("elements", "n broad"),
    ("bytes", "n"),
    ("share", "n"),
];

pub(super) fn kinds(html: &mut Html<'_>, page: &Page<'_>) {
    let total = page.bytes();
    let region =
        [("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", "Kinds of tensors")];
    html.open("div", &region);
    html.open("table", &[("class", "plain")]);
    html.raw("<thead><tr>");
    for (title, class) in KIND_HEADS {
        html.element("th", &[("scope", "col"), ("class", class)], title);
    }
    html.raw("</tr></thead>\n");
    let mut prefix: Option<&str> = None;
    html.raw("<tbody>");
    for (number, kind) in page.kinds.iter().enumerate().take(KINDS) {
        if prefix.is_some_and(|p| p != kind.prefix) || prefix.is_none() && !kind.prefix.is_empty() {
            html.raw("</tbody><tbody>");
        }
        if prefix != Some(&kind.prefix) && !kind.prefix.is_empty() {
            let layers = most_layers(page, &kind.prefix);
            html.raw("<tr class=\"run\"><th scope=\"rowgroup\" colspan=\"9\">");
            html.text(&format!("{} × {}", kind.prefix, layers));
            html.raw("</th></tr>\n");
        }
        prefix = Some(&kind.prefix);
        self::kind(html, kind, number, total, page);
    }
    html.raw("</tbody></table></div>\n");
    let more = page.kinds.len().saturating_sub(KINDS);
    if more > 0 {
        html.element("p", &[("class", "note")], &format!("… and {} more kinds.", thousands(more as u64)));
    }
}

fn most_layers(page: &Page<'_>, prefix: &str) -> usize {
    page.kinds.iter().filter(|k| k.prefix == prefix).map(|k| k.layers.len()).max().unwrap_or(0)
}

fn kind(html: &mut Html<'_>, kind: &Kind, number: usize, total: u64, page: &Page<'_>) {
    html.raw("<tr>");
    html.raw("<th scope=\"row\">");
    html.element(
        "button",
        &[("type", "button"), ("class", "name"), ("data-kind", &number.to_string())],
        &kind.name,
    );
    if !kind.layers.is_empty() && kind.layers.len() < most_layers(page, &kind.prefix) {
        let word = if kind.layers.len() == 1 { "layer" } else { "layers" };
        html.element("span", &[("class", "note")], &format!(" {word} {}", ranges(&kind.layers)));
    }
    html.raw("</th>");
    html.open("td", &[("class", "part")]);
    html.element("i", &[("class", kind.group.class()), ("aria-hidden", "true")], "");
    html.text(kind.group.word());
    html.close("td");
    let types = kind.types.iter().take(4).map(|(name, n)| match kind.types.len() {
        1 => name.clone(),
        _ => format!("{name} × {n}"),
    });
    html.element("td", &[], &types.collect::<Vec<_>>().join(", "));
    let mut shapes = kind.shapes.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    if kind.shapes.len() > 3 {
        shapes.push_str(&format!(" … {} shapes", kind.shapes.len()));
    }
    html.element("td", &[("class", "broad")], &shapes);
    html.element("td", &[("class", "broad")], &kind.usage);
    html.element("td", &[("class", "n")], &thousands(kind.tensors as u64));
    html.element("td", &[("class", "n broad")], &thousands(kind.elements));
    html.element("td", &[("class", "n")], &words::bytes(kind.bytes));
    html.element("td", &[("class", "n")], &percent(kind.bytes, total));
    html.raw("</tr>\n");
}

/// What the script makes the list from stands at the end of the page; here are the places for it.
pub(super) fn list(html: &mut Html<'_>, page: &Page<'_>) {
    let all = page.list.rows.len();
    let mut said = plural(all, "tensor");
    if page.list.hidden > 0 {
        said.push_str(&format!(
            "; {} left out by --include and --exclude",
            thousands(page.list.hidden as u64)
        ));
    }
    html.raw("<noscript><p class=\"note\">The list is made by the script of this page, which is switched off; the kinds \
              above stand for all tensors.</p></noscript>\n<div id=\"list\" hidden>\n<form role=\"search\" id=\"search\">\
              <label>Search <input type=\"search\" id=\"query\" autocomplete=\"off\" spellcheck=\"false\" placeholder=\"name, \
              layer:3, *.q_proj.*\"></label><label>Type <select id=\"type\"></select></label><label>Part <select id=\"part\">\
              </select></label><button type=\"reset\">Clear</button></form>\n");
    html.element("p", &[("id", "count"), ("role", "status"), ("class", "note")], &said);
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Tensors\"><table id=\"rows\" class=\"plain\">\
              <caption class=\"unseen\">Tensors; the buttons in the heads of columns sort</caption><thead></thead><tbody>\
              </tbody></table></div>\n<div class=\"pages\"><button type=\"button\" id=\"previous\">Previous</button>\
              <span id=\"where\"></span><button type=\"button\" id=\"next\">Next</button></div>\n\
              <p class=\"note keys\">Keys: <kbd>/</kbd> searches, <kbd>↑</kbd> and <kbd>↓</kbd> go from row to row, \
              <kbd>Enter</kbd> opens one.</p>\n</div>\n");
}

pub(super) fn about(html: &mut Html<'_>, page: &Page<'_>) {
    html.raw("<p>");
    html.text(&format!("Made by scantling {} from ", env!("CARGO_PKG_VERSION")));
    html.element("code", &[], &format!("scantling {} {}", page.command, page.path));
    html.text(". It loads nothing and sends nothing. ");
    if !page.unchecked.is_empty() {
        html.text(&format!("{}: {}.", not_checked(page), page.unchecked.join(", ")));
    }
    html.raw("</p>\n");
}
