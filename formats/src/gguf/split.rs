//! Split sets: files named `<prefix>-00001-of-00003.gguf` that act as one.

use super::header::{self, Header};
use scantling_core::bundle::{Bundle, File};
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Code, Finding, Findings};
use scantling_core::metadata::{Metadata, Value};
use scantling_core::source::Candidate;
use std::collections::HashMap;
use std::sync::Arc;

codes! {
    pub(super) static SPLIT_MISSING = Error, Shards, "split-missing",
        "parts of a split model are missing",
        "The names of a split model's files say how many parts there are, and some of them do not lie in the \
         folder. Their tensors are in no other file, so the model is incomplete: fetch the parts that are named.";
    pub(super) static SPLIT_NUMBER = Error, Shards, "split-number",
        "a part's number contradicts its name",
        "Every part states its number in split.no, counted from 0, and carries it in its name, counted from 1. \
         Where the two differ, files were renamed or mixed up; llama.cpp refuses to load them.";
    pub(super) static SPLIT_COUNT = Error, Shards, "split-count",
        "a part states another number of parts",
        "Every part states in split.count how many parts there are, and carries it in its name. Where the two \
         differ, the file is of another set (an older split of the same model, say) or was renamed.";
    pub(super) static SPLIT_TENSOR_COUNT = Error, Shards, "split-tensor-count",
        "the parts together hold another number of tensors than they state",
        "split.tensors.count is the number of tensors in all parts together. Another number means that a part is \
         of another set, or that tensors were lost or added when it was written.";
    pub(super) static SPLIT_DAMAGED = Error, Shards, "split-damaged",
        "a part cannot be read",
        "One file of a split model is damaged so early that none of its tensors can be told. The other parts are \
         listed. Fetch that one file again.";
    pub(super) static SPLIT_ALONE = Warning, Shards, "split-alone",
        "a part of a split model has a name that does not lead to the others",
        "The file states that it is one of several parts, but it is not named <prefix>-00001-of-00003.gguf, so \
         the others cannot be found. Only its own tensors are listed; give all parts their usual names.";
}

/// Tensors that a source may have in all; the largest models have some tens of thousands. Bounds what a
/// hostile file can cost.
const MAX_TENSORS: u64 = 1 << 18;

/// Key of the number of tensors in all parts together.
const TENSOR_COUNT: &str = "split.tensors.count";

/// Bytes of `-00001-of-00003`.
const PATTERN: usize = 15;

/// The name of a part, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartName<'a> {
    prefix: &'a str,
    /// From 1.
    number: u16,
    count: u16,
    suffix: &'a str,
}

impl<'a> PartName<'a> {
    /// Takes a name apart that has the form of a part's, with a number in its range.
    pub(super) fn parse(name: &'a str) -> Option<PartName<'a>> {
        let (stem, suffix) = name.split_at_checked(name.len().checked_sub(5)?)?;
        let (prefix, pattern) = stem.split_at_checked(stem.len().checked_sub(PATTERN)?)?;
        let (number, count) = pattern.strip_prefix('-')?.split_once("-of-")?;
        let digits = |text: &str| (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then_some(());
        digits(number).and(digits(count))?;
        let (number, count) = (number.parse().ok()?, count.parse().ok()?);
        let fits = suffix.eq_ignore_ascii_case(".gguf") && (1..=count).contains(&number);
        fits.then_some(PartName { prefix, number, count, suffix })
    }

    /// The name of another part.
    fn sibling(&self, number: u16) -> String {
        format!("{}-{number:05}-of-{:05}{}", self.prefix, self.count, self.suffix)
    }
}

/// One file of a source.
pub(super) struct Part {
    /// The file.
    pub(super) file: Arc<File>,
    /// Its header; `None` if it could not be read, which a finding tells.
    pub(super) header: Option<Header>,
}

/// The files of a source, with what is wrong with each and with the set.
#[derive(Default)]
pub(super) struct Set {
    /// In order of their numbers.
    pub(super) parts: Vec<Part>,
    /// Faults.
    pub(super) findings: Findings,
}

/// Reads the header of a bundle's file, and those of all parts if it is one of several.
pub(super) fn read(bundle: &Bundle) -> Result<Set> {
    let file = bundle.file();
    match PartName::parse(file.name()) {
        Some(name) => read_parts(bundle, &name),
        None => read_single(file),
    }
}

fn read_single(file: &Arc<File>) -> Result<Set> {
    let mut set = Set::default();
    let mut header = header::read(file, 0, MAX_TENSORS)?;
    set.findings.extend(std::mem::take(&mut header.findings));
    if let Some(count) = header.metadata.unsigned("split.count").filter(|&n| n > 1) {
        let f =
            Finding::new(&SPLIT_ALONE, format!("one of {count} parts of a model, the others are not known"));
        let f = f.file(file.name()).field("split.count");
        set.findings.push(f.advice("name the parts <prefix>-00001-of-00003.gguf and so on"));
    }
    set.parts.push(Part { file: file.clone(), header: Some(header) });
    Ok(set)
}

fn read_parts(bundle: &Bundle, name: &PartName<'_>) -> Result<Set> {
    let mut set = Set::default();
    let mut missing = Vec::new();
    let mut room = MAX_TENSORS;
    // The folder is asked once what it holds, not for each of 65,535 names that a file may claim.
    let names = bundle.folder().names()?;
    for number in 1..=name.count {
        let sibling = name.sibling(number);
        let file = if number == name.number {
            Ok(Some(bundle.file().clone()))
        } else if names.binary_search(&sibling).is_ok() || sibling.contains('/') {
            bundle.folder().file(&sibling).map(|file| file.map(Arc::new))
        } else {
            Ok(None)
        };
        let file = match file {
            Ok(Some(file)) => file,
            Ok(None) => {
                missing.push(number);
                continue;
            }
            Err(error) => {
                set.findings.push(damaged(&sibling, error));
                continue;
            }
        };
        let header = match header::read(&file, set.parts.len(), room) {
            Ok(mut header) => {
                set.findings.extend(std::mem::take(&mut header.findings));
                judge(&file, name, number, &header.metadata, &mut set.findings);
                room = room.saturating_sub(header.tensors.len() as u64);
                if set.parts.iter().any(|p| p.header.is_some()) {
                    // The metadata that counts has been read; a set may have thousands of parts.
                    header.metadata = only(&header.metadata, TENSOR_COUNT);
                }
                Some(header)
            }
            Err(error) if name.count == 1 || matches!(error, Error::Limit { .. }) => return Err(error),
            Err(error) => {
                set.findings.push(damaged(file.name(), error));
                None
            }
        };
        set.parts.push(Part { file, header });
    }
    judge_set(name, &set.parts, &missing, &mut set.findings);
    if set.parts.iter().all(|p| p.header.is_none()) {
        return Err(Error::Malformed { findings: set.findings.into_vec() });
    }
    Ok(set)
}

/// One entry of some metadata by itself.
fn only(metadata: &Metadata, key: &str) -> Metadata {
    let mut one = Metadata::default();
    if let Some(entry) = metadata.entry(key) {
        // Nothing can stand twice in what was empty.
        let _ = one.push(entry.clone());
    }
    one
}

fn damaged(file: &str, error: Error) -> Finding {
    let advice = "fetch this part again";
    match error {
        Error::Malformed { findings } => {
            let f = Finding::new(&SPLIT_DAMAGED, "this part is damaged, its tensors cannot be listed");
            f.file(file).advice(advice).because_of_this(findings)
        }
        other => {
            let message = format!("this part cannot be read: {other}");
            Finding::new(&SPLIT_DAMAGED, message).file(file).advice(advice)
        }
    }
}

/// What a part says of its place in the set, against its name.
fn judge(file: &File, name: &PartName<'_>, number: u16, metadata: &Metadata, findings: &mut Findings) {
    let keys = ["split.no", "split.count", TENSOR_COUNT];
    if name.count == 1 && keys.iter().all(|key| metadata.get(key).is_none()) {
        // A whole file that only has the name of a part, which llama.cpp loads as well.
        return;
    }
    let expected = u64::from(number.saturating_sub(1));
    stated(file, metadata, "split.no", &SPLIT_NUMBER, expected, findings);
    stated(file, metadata, "split.count", &SPLIT_COUNT, u64::from(name.count), findings);
}

fn stated(
    file: &File,
    metadata: &Metadata,
    key: &str,
    code: &'static Code,
    expected: u64,
    findings: &mut Findings,
) {
    let (message, found) = match metadata.entry(key) {
        None => ("the part does not state it", "nothing".to_owned()),
        Some(entry) => match &entry.value {
            Value::Unsigned(n) if *n == expected => return,
            Value::Unsigned(n) => ("the part's own statement contradicts its name", n.to_string()),
            other => ("not a number of the type it should be", format!("{} {other}", entry.kind)),
        },
    };
    let mut f = Finding::new(code, message).file(file.name()).field(key).versus(expected.to_string(), found);
    f.place.offset = metadata.entry(key).and_then(|e| e.at);
    findings.push(f.advice("the file was renamed, or is of another set: fetch it again"));
}

/// Parts that are missing, and the number of tensors in all.
fn judge_set(name: &PartName<'_>, parts: &[Part], missing: &[u16], findings: &mut Findings) {
    let headers: Vec<&Header> = parts.iter().filter_map(|p| p.header.as_ref()).collect();
    let held = headers.iter().fold(0u64, |n, h| n.saturating_add(h.tensors.len() as u64));
    if let Some(first) = missing.first() {
        let of = headers.iter().find_map(|h| h.metadata.unsigned(TENSOR_COUNT));
        let of = of.map_or(String::new(), |n| format!(", and {held} of {n} tensors are there"));
        let message =
            format!("{} of {} parts are missing: {}{of}", missing.len(), name.count, ranges(missing));
        let f = Finding::new(&SPLIT_MISSING, message).file(name.sibling(*first));
        findings.push(f.advice("fetch the missing parts into the same folder"));
    }
    let complete = headers.len() == usize::from(name.count);
    let mut told = Vec::new();
    for (part, header) in parts.iter().filter_map(|p| Some((p, p.header.as_ref()?))) {
        let Some(entry) = header.metadata.entry(TENSOR_COUNT) else { continue };
        let found = match &entry.value {
            Value::Unsigned(n) if *n == held || !complete => continue,
            Value::Unsigned(n) => n.to_string(),
            other => format!("{} {other}", entry.kind),
        };
        // Parts that say the same wrong number are one fault.
        if told.contains(&found) || told.len() == Findings::KEPT {
            continue;
        }
        let f = Finding::new(&SPLIT_TENSOR_COUNT, "the parts together hold another number of tensors");
        let f = f.file(part.file.name()).at(entry.at.unwrap_or(0)).field(TENSOR_COUNT);
        findings.push(f.versus(held.to_string(), found.clone()));
        told.push(found);
    }
}

/// Ascending numbers as `2, 5–9, 12`; cut after 20 ranges.
fn ranges(numbers: &[u16]) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for &n in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(n) => *last = n,
            _ => ranges.push((n, n)),
        }
    }
    let shown = ranges.iter().take(20).map(|(a, b)| if a == b { a.to_string() } else { format!("{a}–{b}") });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if ranges.len() > 20 { format!("{shown}, …") } else { shown }
}

/// The models among a folder's files: parts that share a name count as one.
pub(super) fn candidates(names: &[String]) -> Vec<Candidate> {
    struct Group {
        first: String,
        present: usize,
        /// Parts there should be; `None` for a file by itself.
        count: Option<u16>,
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<(&str, u16, &str), usize> = HashMap::new();
    for name in names.iter().filter(|n| has_suffix(n)) {
        let part = PartName::parse(name);
        let key = part.as_ref().map(|p| (p.prefix, p.count, p.suffix));
        let group = key.and_then(|key| known.get(&key)).and_then(|&i| groups.get_mut(i));
        if let Some(group) = group {
            group.present = group.present.saturating_add(1);
            continue;
        }
        known.extend(key.map(|key| (key, groups.len())));
        groups.push(Group { first: name.clone(), present: 1, count: part.map(|p| p.count) });
    }
    let describe = |group: Group| {
        let what = match (group.present, group.count.map(usize::from)) {
            (_, None) => "GGUF".to_owned(),
            (1, Some(1)) => "GGUF, 1 part".to_owned(),
            (present, Some(count)) if present == count => format!("GGUF, {count} parts"),
            (present, Some(count)) => format!("GGUF, {present} of {count} parts"),
        };
        Candidate { file: group.first, what }
    };
    groups.into_iter().map(describe).collect()
}

/// Whether a name ends as GGUF files do.
pub(super) fn has_suffix(name: &str) -> bool {
    name.len().checked_sub(5).and_then(|at| name.get(at..)).is_some_and(|s| s.eq_ignore_ascii_case(".gguf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts_are_taken_apart() {
        let parts = |name| PartName::parse(name).map(|p| (p.prefix, p.number, p.count));
        assert_eq!(parts("a-b-00002-of-00003.gguf"), Some(("a-b", 2, 3)));
        assert_eq!(parts("x-00001-of-00001.GGUF"), Some(("x", 1, 1)));
        assert_eq!(parts("-00001-of-65535.gguf"), Some(("", 1, 65535)));
        for other in [
            "x.gguf",
            "x-00000-of-00002.gguf",
            "x-00003-of-00002.gguf",
            "x-1-of-2.gguf",
            "x-00001-of-65536.gguf",
            "x-+0001-of-00002.gguf",
            "x-00001-of-00002.bin",
            "",
            ".gguf",
            "ü0001-of-00002.gguf",
        ] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn numbers_fold_into_ranges() {
        assert_eq!(ranges(&[2, 5, 6, 7, 12, 65535]), "2, 5–7, 12, 65535");
        assert_eq!(ranges(&(1..=60).step_by(2).collect::<Vec<_>>()).matches(',').count(), 20);
    }
}
