//! The page as a whole: that it is one document, that names stay text, that it is the same every time.

use super::heat::{About, Fold, Map, Scale};
use super::page::*;
use super::*;

const HOSTILE: [&str; 5] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "</script></style></title><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "a\u{202e}b<!--",
];

/// The page as a document.
fn document(page: &Page<'_>) -> String {
    let mut document = Vec::new();
    write(page, &mut document).unwrap();
    String::from_utf8(document).unwrap()
}

/// A page whose every text is hostile.
fn page(text: &str) -> Page<'static> {
    let text = text.to_owned();
    let kind = |name: &str, group| Kind {
        prefix: text.clone(),
        name: name.to_owned(),
        group,
        usage: text.clone(),
        types: vec![(text.clone(), 2)],
        shapes: vec![text.clone()],
        tensors: 2,
        layers: vec![0, 1],
        elements: 4,
        bytes: 1 << 20,
        pieces: (0..2).map(|n| Piece { layer: Some(n), bytes: 1 << 19, tensors: 1, dtype: 0 }).collect(),
    };
    let row = |layer: usize| TensorRow {
        name: format!("{text}.{layer}"),
        dtype: text.clone(),
        shape: text.clone(),
        elements: 2,
        bytes: 1 << 19,
        file: 0,
        offset: Some(8),
        layer: Some(layer),
        kind: 0,
        cells: vec![Cell::Number(layer as f64 + 1.0), Cell::Word(text.clone())],
        histogram: Some(Histogram { low: -1.0, high: 1.0, counts: vec![1, 2, 3], beyond: (0, 1) }),
        note: Some(text.clone()),
    };
    let table = Table {
        title: text.clone(),
        note: text.clone(),
        columns: vec!["name", "value"],
        rows: vec![vec![text.clone(), text.clone()]],
        ..Table::default()
    };
    let kinds = vec![kind(&text, Group::Attention), kind("other", Group::Norm)];
    let all = [row(0), row(1)];
    let mut rows = Rows::new(all.len(), move |at| all[at].clone());
    rows.place(|row| (row.layer, row.kind));
    let about = About {
        title: "RMS",
        explain: "Root of the mean of squares.",
        scale: Scale::Log,
        fold: Fold::Rms,
        show: |n| n.to_string(),
        zero: "nothing",
    };
    let number = |row: &TensorRow| match row.cells.first() {
        Some(Cell::Number(n)) => Some(*n),
        _ => None,
    };
    Page {
        title: text.clone(),
        path: text.clone(),
        command: "inspect",
        summary: text.clone(),
        tiles: vec![Tile { name: "size", value: text.clone(), note: text.clone() }],
        verdict: Verdict { standing: Standing::Bad, headline: text.clone(), advice: Some(text.clone()) },
        findings: vec![Remark {
            severity: scantling_core::finding::Severity::Error,
            code: text.clone(),
            message: text.clone(),
            expected: Some(text.clone()),
            found: Some(text.clone()),
            advice: Some(text.clone()),
            symptoms: vec![text.clone()],
            symptoms_hidden: 1,
        }],
        findings_hidden: 3,
        tables: vec![table.clone()],
        details: vec![table],
        bytes_of: "Of the second.",
        types: vec![TypeShare { name: text.clone(), tensors: 2, elements: 4, bytes: 1 << 20 }],
        maps: Map::all(about, &kinds, &rows, number),
        kinds,
        list: List {
            columns: vec![
                Column { id: "rms", title: "RMS", explain: "a number", narrow: true, words: false },
                Column { id: "class", title: "class", explain: "a word", narrow: false, words: true },
            ],
            rows,
            files: vec![text.clone()],
            sorted: ("name".to_owned(), false),
            hidden: 1,
        },
        looked_at: text.clone(),
        unchecked: vec![text],
    }
}

/// The tags of a document, those within its style and script left out. Fails where elements are not closed in order.
fn tags(document: &str) -> Vec<String> {
    const EMPTY: [&str; 2] = ["meta", "input"];
    let (mut open, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = document.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').unwrap();
        let tag = &rest[..end];
        assert!(!tag.contains('<'), "{tag}");
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "in {all:?}");
            continue;
        }
        let name = tag.split(' ').next().unwrap().to_owned();
        if name == "style" || name == "script" {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).unwrap() + close.len()..];
        } else if !EMPTY.contains(&name.as_str()) {
            open.push(name.clone());
        }
        all.push(name);
    }
    assert!(open.is_empty(), "{open:?}");
    all
}

#[test]
fn names_change_no_tag() {
    let plain = tags(&document(&page("plain")));
    for text in HOSTILE {
        let document = document(&page(text));
        assert_eq!(tags(&document), plain, "{text}");
        // In the data for the script a quote may stand as it is.
        let (shown, data) = document.split_once("<script type=\"application/json\"").unwrap();
        assert!(!shown.contains(text), "{text}");
        let data = data.split("</script>").next().unwrap();
        assert!(!data.split_once('>').unwrap().1.contains(['<', '>', '&']), "{text}");
    }
}

#[test]
fn a_page_has_all_that_it_is_given() {
    let whole = document(&page("plain"));
    for part in ["verdict", "facts", "bytes", "layers", "kinds", "tensors", "details", "about"] {
        assert!(whole.contains(&format!("<section id=\"{part}\"")), "{part}");
        assert!(whole.contains(&format!("href=\"#{part}\"")), "{part}");
    }
    let few = document(&Page { title: "t".to_owned(), ..Page::default() });
    assert!(!few.contains("<section id=\"layers\"") && !few.contains("href=\"#layers\""));
    tags(&few);
}

#[test]
fn the_same_page_twice() {
    assert_eq!(document(&page("plain")), document(&page("plain")));
}

#[test]
fn nothing_is_loaded_and_nothing_stands_in_attributes_that_run() {
    let document = document(&page("plain"));
    let own = document.replace(STYLE, "").replace(SCRIPT, "");
    for word in ["http:", "https:", "src=", "url(", "@import", " style=", " onclick", "javascript:"] {
        assert!(!own.contains(word), "{word}");
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    for word in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("]
    {
        assert!(!SCRIPT.contains(word), "{word}");
    }
    assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--") && !STYLE.contains("</style"));
}
