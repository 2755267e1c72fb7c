//! `explain`: a paragraph about a code.

use super::written;
use crate::args::ExplainArgs;
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::error::{Error, Result};
use scantling_core::finding::Code;
use scantling_core::registry::Registry;
use std::fmt::{self, Write};

pub(super) fn run(registry: &Registry, args: &ExplainArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let all = registry.codes();
    let chosen: Vec<&'static Code> = match &args.code {
        None => all.to_vec(),
        Some(id) => {
            // As findings show it, `error[tensor-missing]`, or the name alone.
            let id = id.split_once('[').map_or(id.as_str(), |(_, rest)| rest.trim_end_matches(']'));
            vec![all.iter().copied().find(|c| c.id == id).ok_or_else(|| unknown(all, id))?]
        }
    };
    if args.list.wants_json() {
        json::codes(screen, &chosen);
    } else if let (Some(_), [code]) = (&args.code, chosen.as_slice()) {
        written(explain(screen, code))?;
    } else {
        written(list(screen, &chosen))?;
    }
    Ok(0)
}

fn explain(screen: &mut Screen<'_>, code: &Code) -> fmt::Result {
    text::strong(screen, code.id)?;
    text::hanging(screen, &format!(": {}", code.title), code.id.len(), 2)?;
    text::severity(screen, code.severity)?;
    writeln!(screen, " · part: {}\n", code.part.word())?;
    text::paragraph(screen, code.explain, 0)
}

fn list(screen: &mut Screen<'_>, codes: &[&'static Code]) -> fmt::Result {
    let width = codes.iter().map(|c| c.id.len()).max().unwrap_or(0);
    for code in codes {
        write!(screen, "{:width$}  ", code.id)?;
        text::severity(screen, code.severity)?;
        let gap = 9usize.saturating_sub(code.severity.word().len());
        let start = format!("{:gap$}{:9}  ", "", code.part.word());
        let used = width.saturating_add(code.severity.word().len()).saturating_add(start.len() + 2);
        write!(screen, "{start}")?;
        text::hanging(screen, code.title, used, used.min(screen.width() / 2))?;
    }
    Ok(())
}

fn unknown(all: &[&'static Code], id: &str) -> Error {
    let mut near: Vec<(usize, &str)> =
        all.iter().map(|c| (distance(id, c.id), c.id)).filter(|(d, known)| *d * 2 <= known.len()).collect();
    near.sort_unstable();
    let nearest = near.first().map_or(0, |(d, _)| *d);
    near.retain(|(d, _)| *d <= nearest.saturating_add(1));
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, id)| id).collect();
    let hint = match near.as_slice() {
        [] => "scantling explain lists them all".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    Error::Usage(format!("unknown code \"{id}\"; {hint}"))
}

/// Letters to add, drop or change to make one word of the other; a word within the other is near.
fn distance(wanted: &str, known: &str) -> usize {
    if wanted.len() >= 3 && known.contains(wanted) {
        return 1;
    }
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (i, c) in wanted.chars().take(100).enumerate() {
        let mut before = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (d, above) in known.iter().zip(row.iter().skip(1)) {
            let change = before.saturating_add(usize::from(c != *d));
            left = change.min(left.saturating_add(1)).min(above.saturating_add(1));
            next.push(left);
            before = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("tensor-missing", "tensor-missing"), 1); // never asked: it would have been found
        assert_eq!(distance("tensr-mising", "tensor-missing"), 2);
    }
}
