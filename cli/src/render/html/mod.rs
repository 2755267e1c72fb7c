//! A report as one page that stands by itself: nothing is loaded from anywhere, and nothing that a file says can become
//! markup. What makes a page fills in a [`Page`]; this module alone turns it into characters.

mod diff;
pub mod heat;
mod inspect;
mod list;
mod markup;
pub mod page;
mod parts;
mod policy;
mod stats;
mod tensors;
mod treemap;

pub use diff::diff;
pub use inspect::{Options, inspect};
pub use stats::stats;

use markup::Html;
use page::Page;
use parts::Part;
use std::io::{self, Write};

/// How the page looks.
const STYLE: &str = include_str!("style.css");
/// What sorts and searches its list.
const SCRIPT: &str = include_str!("script.js");

/// Writes the page as a document; how many bytes that takes.
pub fn write(page: &Page<'_>, out: &mut dyn Write) -> io::Result<u64> {
    // A checkout with other line ends gives the same bytes.
    let (style, script) = (STYLE.replace('\r', ""), SCRIPT.replace('\r', ""));
    let mut html = Html::new(out);
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Before anything that it is to hold.
    let policy = policy::of(&style, &script);
    html.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    html.raw("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    html.raw("<meta name=\"referrer\" content=\"no-referrer\">\n");
    html.element("title", &[], &format!("{} · {}", page.title, page.command));
    html.raw("\n");
    html.code("style", &style);
    html.raw("\n</head>\n<body>\n");
    body(&mut html, page);
    html.data("data", &list::Data(page));
    html.code("script", &script);
    html.raw("\n</body>\n</html>\n");
    html.finish()
}

fn body(html: &mut Html<'_>, page: &Page<'_>) {
    html.raw("<a class=\"jump\" href=\"#tensors\">Skip to the list of tensors</a>\n");
    parts::header(html, page);
    html.raw("<main>\n");
    let two = page.command == "diff";
    let facts = if two { "The two models" } else { "Dimensions and files" };
    let bytes = if two { "Where the bytes of B go" } else { "Where the bytes go" };
    let of_bytes: Part = ("bytes", bytes, !page.kinds.is_empty(), parts::bytes);
    let of_kinds: Part = ("kinds", "Kinds of tensors", !page.kinds.is_empty(), parts::kinds);
    let layers: Part = ("layers", "Layer by layer", !page.maps.is_empty(), parts::maps);
    let tensors: Part = ("tensors", "Tensors", true, parts::list);
    // Of two models it is the differences that one has come for.
    let middle = match two {
        true => [layers, tensors, of_bytes, of_kinds],
        false => [of_bytes, layers, of_kinds, tensors],
    };
    let before: [Part; 2] = [
        ("verdict", "Verdict", true, parts::verdict),
        ("facts", facts, !page.tables.is_empty(), parts::tables),
    ];
    let behind: [Part; 2] = [
        ("details", "Everything it says of itself", !page.details.is_empty(), parts::details),
        ("about", "About this page", true, parts::about),
    ];
    let all: Vec<Part> = before.into_iter().chain(middle).chain(behind).collect();
    parts::contents(html, &all);
    for (id, title, wanted, write) in all {
        if wanted {
            let heading = format!("{id}-title");
            html.open("section", &[("id", id), ("aria-labelledby", &heading)]);
            html.element("h2", &[("id", &heading)], title);
            write(html, page);
            html.raw("</section>\n");
        }
    }
    html.raw("</main>\n");
}

#[cfg(test)]
mod tests;
