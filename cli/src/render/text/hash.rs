//! Digests for people, and what differs from those that were kept.

use super::{GOOD, findings, hanging, severity_style};
use crate::commands::{Against, Told};
use crate::render::words::{bytes, plural, shape};
use crate::terminal::{Screen, escape};
use scantling_core::finding::{Finding, Severity};
use scantling_core::hash::Kind;
use scantling_core::hash::files::{FileHash, Said, Verdict};
use scantling_core::hash::manifest::Difference;
use std::fmt::{self, Write};

/// Names that are listed for one reason.
const NAMES: usize = 3;

/// A line for each tensor, as `sha256sum` writes them; or what differs.
pub fn hashes(screen: &mut Screen<'_>, told: &Told<'_>) -> fmt::Result {
    let hashes = told.hashes;
    match &told.against {
        None if told.quiet || told.write.is_some_and(|(_, written)| written) => {}
        None => {
            for tensor in &hashes.tensors {
                writeln!(screen, "{}  {}", tensor.digest, escape(&tensor.name))?;
            }
            writeln!(screen)?;
        }
        Some(against) => differences(screen, against)?,
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
    faults(screen, told.findings)?;
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
    match told.write {
        Some((path, true)) => {
            let count = plural(hashes.tensors.len(), "digest");
            let path = escape(&path.display().to_string()).into_owned();
            writeln!(screen, "wrote {count} to {path}")?;
            if let Some(old) = told.replaced {
                let line = format!("note: {path} held {} before, and holds {} now", of(old), of(hashes.kind));
                hanging(screen, &line, 0, 2)?;
            }
        }
        Some((path, false)) => {
            let why = if !told.findings.is_empty() {
                "the files have faults"
            } else if hashes.tensors.is_empty() {
                "no tensor was hashed"
            } else {
                "not all tensors could be read"
            };
            screen.paint(severity_style(Severity::Error), "not written")?;
            hanging(screen, &format!(": {}: {why}", escape(&path.display().to_string())), 11, 2)?;
        }
        None => {}
    }
    verdict(screen, told)
}

/// What digests are of.
fn of(kind: Kind) -> &'static str {
    match kind {
        Kind::Stored => "digests of stored bytes",
        Kind::Semantic => "digests of numbers (--semantic)",
    }
}

/// What is wrong with the files, so that digests of what they hold mean little.
fn faults(screen: &mut Screen<'_>, all: &[Finding]) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(screen, "\nfindings on the files")?;
    findings::list(screen, all.iter(), false)?;
    writeln!(screen)
}

/// All that differs; where no name agrees that is every tensor of both, and a few of each stand for them.
fn differences(screen: &mut Screen<'_>, against: &Against<'_>) -> fmt::Result {
    let all = &against.differences;
    let Some(strange) = &against.strange else {
        return all.iter().try_for_each(|(name, difference)| self::difference(screen, name, difference));
    };
    findings::list(screen, std::iter::once(strange), false)?;
    let is_new = |of: &&(String, Difference)| of.1 == Difference::New;
    let (new, gone): (Vec<_>, Vec<_>) = all.iter().partition(is_new);
    for (name, difference) in gone.iter().take(NAMES).chain(new.iter().take(NAMES)) {
        self::difference(screen, name, difference)?;
    }
    match all.len().saturating_sub(gone.len().min(NAMES)).saturating_sub(new.len().min(NAMES)) {
        0 => writeln!(screen),
        more => writeln!(screen, "… and {more} more (--json lists all)\n"),
    }
}

fn difference(screen: &mut Screen<'_>, name: &str, difference: &Difference) -> fmt::Result {
    let (word, rest) = match difference {
        Difference::Values(..) => ("differs", String::new()),
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
    if let Some(against) = &told.against {
        let path = escape(&against.path.display().to_string()).into_owned();
        let differences = plural(against.differences.len(), "difference");
        if let Some(how) = against.partial.as_deref().filter(|_| !told.some) {
            let line = format!("{path} is of some tensors alone, chosen with {}", escape(how));
            hanging(screen, &line, 0, 2)?;
        }
        match against.same() {
            true => screen.paint(GOOD, "✓")?,
            false => screen.paint(severity_style(Severity::Error), "✗")?,
        }
        write!(screen, " ")?;
        let line = match hashes.tensors.len() {
            _ if !against.any => format!("no tensor was compared with those of {path}; {rest}"),
            _ if !against.same() => {
                format!("{differences} of {count} of {read} {how}, held against {path}; {rest}")
            }
            1 => format!("the one tensor of {read} {how} is that of {path}; {rest}"),
            _ => format!("all {count} of {read} {how} are those of {path}; {rest}"),
        };
        return hanging(screen, &line, 2, 2);
    }
    hanging(screen, &format!("{count} of {read} hashed {how}; {rest}"), 0, 2)
}

/// A line for each file, and what was written down of it.
pub fn files(screen: &mut Screen<'_>, files: &[FileHash], findings: &[Finding], quiet: bool) -> fmt::Result {
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
                (Said::Unused(why), _) => {
                    write!(screen, "  ")?;
                    hanging(screen, &format!("not used: {at}: {}", escape(why)), 2, 4)?;
                }
                (Said::Malformed(why), _) => {
                    write!(screen, "  ")?;
                    screen.paint(severity_style(Severity::Error), "not readable")?;
                    hanging(screen, &format!(": {at}, of {name}: {}", escape(why)), 14, 4)?;
                }
            }
        }
        let mut said = file.records.iter().filter_map(|record| match record.said {
            Said::Sha256(digest) => Some(digest),
            _ => None,
        });
        if said.next().is_some_and(|first| said.any(|other| other != first)) {
            writeln!(screen, "  what was written down of {name} contradicts itself")?;
        }
    }
    faults(screen, findings)?;
    let count = |verdict| files.iter().filter(|file| file.verdict() == verdict).count();
    let words = [
        (Verdict::Agrees, "as they were written down"),
        (Verdict::Differs, "not as they were written down"),
        (Verdict::Unusable, "with records that cannot be read"),
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
