//! `explain`: a paragraph about a code.

use super::written;
use crate::args::ExplainArgs;
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::error::{Error, Result};
use scantling_core::finding::Code;
use scantling_core::names;
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
    let near = names::nearest(id, all.iter().map(|code| code.id), 3);
    let hint = match near.as_slice() {
        [] => "scantling explain lists them all".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    Error::Usage(format!("unknown code \"{id}\"; {hint}"))
}
