//! Digests for people, and what differs from those that were kept.

use super::{GOOD, hanging, severity_style};
use crate::commands::Told;
use crate::render::words::{bytes, plural, shape};
use crate::terminal::{Screen, escape};
use scantling_core::finding::Severity;
use scantling_core::hash::Kind;
use scantling_core::hash::files::{FileHash, Said, Verdict};
use scantling_core::hash::manifest::Difference;
use std::fmt::{self, Write};

/// Names that are listed for one reason.
const NAMES: usize = 3;

/// A line for each tensor, as `sha256sum` writes them; or what differs.
pub fn hashes(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let hashes = told.hashes;
    match told.against {
        None if told.quiet || told.wrote.is_some() => {}
        None => {
            for tensor in &hashes.tensors {
                writeln!(screen, "{}  {}", tensor.digest, escape(&tensor.name))?;
            }
            writeln!(screen)?;
        }
        Some((_, differences)) => {
            for (name, difference) in differences {
                self::difference(screen, name, difference)?;
            }
        }
    }
    for left in &hashes.left_out {
        let names: Vec<_> = left.names.iter().take(NAMES).map(|name| escape(name)).collect();
        let more = left.names.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        match left.wanted {
            true => screen.paint(severity_style(Severity::Error), "not hashed")?,
            false => write!(screen, "left out")?,
        }
        hanging(screen, &format!(": {}{more}: {}", names.join(", "), escape(&left.why)), 10, 2)?;
    }
    if hashes.kind == Kind::Semantic && !hashes.canonical {
        hanging(
            screen,
            "the family is not known, or its config not sound: names and forms are those stored, not GGUF's",
            0,
            2,
        )?;
    }
    match hashes.whole() {
        Some(whole) if !told.some => writeln!(screen, "whole  {whole}")?,
        Some(_) => writeln!(screen, "no digest of the whole: only some tensors were asked for")?,
        None => writeln!(screen, "no digest of the whole: not all tensors could be read")?,
    }
    if let Some(path) = told.wrote {
        writeln!(
            screen,
            "wrote {} to {}",
            plural(hashes.tensors.len(), "digest"),
            escape(&path.display().to_string())
        )?;
    }
    verdict(screen, told)
}

fn difference(screen: &mut Screen<'_>, name: &str, difference: &Difference) -> fmt::Result {
    let (word, rest) = match difference {
        Difference::Values => ("differs", String::new()),
        Difference::Type(kept, found) => {
            ("differs", format!(": type {} there, {} here", escape(kept), escape(found)))
        }
        Difference::Shape(kept, found) => {
            ("differs", format!(": shape {} there, {} here", shape(kept), shape(found)))
        }
        Difference::Missing => ("missing", String::new()),
        Difference::New => ("new", String::new()),
        Difference::Unread => ("unread", String::new()),
    };
    screen.paint(severity_style(Severity::Error), word)?;
    writeln!(screen, "{:gap$}{}{rest}", "", escape(name), gap = 9usize.saturating_sub(word.len()))
}

/// What was hashed and held against what, and what was not.
fn verdict(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let hashes = told.hashes;
    let count = plural(hashes.tensors.len(), "tensor");
    let how = match hashes.kind {
        Kind::Stored => "as stored",
        Kind::Semantic if hashes.canonical => "as f32 in the form of GGUF",
        Kind::Semantic => "as f32",
    };
    let rest = "not looked at: metadata, config, vocabulary";
    let read = bytes(hashes.bytes);
    if let Some((path, differences)) = told.against {
        let path = path.display().to_string();
        let same = differences.is_empty();
        match same {
            true => screen.paint(GOOD, "✓")?,
            false => screen.paint(severity_style(Severity::Error), "✗")?,
        }
        let line = match differences.len() {
            0 => format!(" all {count} of {read} {how} are those of {}; {rest}", escape(&path)),
            n => format!(
                " {} of {count} of {read} {how}, held against {}; {rest}",
                plural(n, "difference"),
                escape(&path)
            ),
        };
        return hanging(screen, &line, 1, 2);
    }
    hanging(screen, &format!("{count} of {read} hashed {how}; {rest}"), 0, 2)
}

/// A line for each file, and what was written down of it.
pub fn files(screen: &mut Screen<'_>, files: &[FileHash], quiet: bool) -> fmt::Result {
    for file in files {
        let name = escape(&file.name).into_owned();
        match &file.digest {
            Ok(digest) if !quiet => writeln!(screen, "{digest}  {name}")?,
            Ok(_) => {}
            Err(error) => writeln!(screen, "{name}: {}", escape(error))?,
        }
        for record in &file.records {
            let at = escape(&record.at);
            match (&record.said, &file.digest) {
                (Said::Sha256(said), Ok(found)) if said == found => {
                    if !quiet {
                        writeln!(screen, "  agrees with {at}")?;
                    }
                }
                (Said::Sha256(said), _) => {
                    write!(screen, "  ")?;
                    screen.paint(severity_style(Severity::Error), "differs")?;
                    writeln!(screen, " from {at}, of {name}: it says {said}")?;
                }
                (Said::GitBlob(id), _) => {
                    writeln!(
                        screen,
                        "  not checked: {at} says {id}, which is git's digest (SHA-1), not SHA-256"
                    )?;
                }
                (Said::Unknown(text), _) => {
                    writeln!(
                        screen,
                        "  not checked: {at} says \"{}\", which is no digest known",
                        escape(text)
                    )?;
                }
            }
        }
    }
    let count = |verdict| files.iter().filter(|file| file.verdict() == verdict).count();
    let words = [
        (Verdict::Agrees, "as they were written down"),
        (Verdict::Differs, "not as they were written down"),
        (Verdict::Unread, "not read"),
        (Verdict::Nothing, "with nothing to hold them against"),
    ];
    let parts: Vec<String> = words
        .into_iter()
        .filter(|(verdict, _)| count(*verdict) > 0)
        .map(|(verdict, words)| format!("{} {words}", plural(count(verdict), "file")))
        .collect();
    let read = files.iter().fold(0u64, |n, file| n.saturating_add(file.len));
    writeln!(screen)?;
    let line =
        format!("{}; {} hashed; not looked at: files that hold no weights", parts.join(", "), bytes(read));
    hanging(screen, &line, 0, 2)
}
