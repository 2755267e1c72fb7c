//! The page of an inspection.

use super::heat::{About, Fold, Map, Scale};
use super::page::{Group, Kind, Page, Remark, Standing, Table, TensorRow, Tile, TypeShare, Verdict};
use super::tensors;
use crate::args::SortKey;
use crate::render::judged;
use crate::render::listing::Listing;
use crate::render::words::{self, percent, plural, thousands};
use scantling_core::check::Checked;
use scantling_core::config::{Fact, Origin};
use scantling_core::finding::{Finding, Severity};
use scantling_core::metadata::Value;
use scantling_core::report::Report;

/// Findings, and what follows from one, that a page has room for.
pub(super) const FINDINGS: usize = 200;
const SYMPTOMS: usize = 50;
/// Files that are listed at once, and those that are listed at all.
const FEW: usize = 6;
const FILES: usize = 1000;

/// What goes into a page.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The tensors that are listed.
    pub listing: &'a Listing,
    /// The order of the list at first.
    pub sort: SortKey,
    /// Whether the metadata goes in.
    pub metadata: bool,
}

/// The page of an inspection.
pub fn inspect<'a>(checked: &'a Checked, options: Options<'_>) -> Page<'a> {
    let report = &checked.report;
    let source = checked.source.as_ref();
    let types: Vec<TypeShare> = report.types.iter().map(share).collect();
    let (kinds, rows) = tensors::of(checked, &types);
    let sorted = match options.sort {
        SortKey::Name => ("name", false),
        SortKey::Size => ("bytes", true),
        SortKey::Dtype => ("type", false),
        SortKey::File => ("offset", false),
    };
    // Vectors are few numbers, always stored whole, and would take the scale for themselves.
    let is_matrix = |row: &TensorRow| row.elements > 0 && row.shape.contains(',');
    let bits = Map::all(BITS, &kinds, &rows, |row| {
        is_matrix(row).then(|| row.bytes as f64 * 8.0 / row.elements as f64)
    });
    // Where all layers are stored alike there is nothing to see.
    let maps = bits.into_iter().filter(Map::differs).collect();
    let list = tensors::list(source, rows, |name| options.listing.shows(name), sorted);
    let mut page = Page {
        title: title(&report.path),
        path: report.path.clone(),
        command: "inspect",
        summary: summary(report),
        tiles: tiles(report, &list.files, &kinds),
        verdict: verdict(report),
        tables: vec![dimensions(report), container(report)],
        types,
        kinds,
        maps,
        list,
        unchecked: judged::unchecked(report, false),
        ..Page::default()
    };
    findings(&mut page, report);
    page.tables.retain(|table| !table.rows.is_empty());
    page.details.push(settings(report));
    if report.container.files.len() > FEW {
        page.details.push(files(report, FILES));
    }
    if options.metadata {
        page.details.push(metadata(checked));
    }
    page.details.retain(|table| !table.rows.is_empty());
    page
}

const BITS: About = About {
    title: "Bits for each element",
    explain: "What an element of a matrix takes in the file, scales included. Layers stored in more bits stand out.",
    scale: Scale::Linear,
    fold: Fold::Mean,
    show: |n| format!("{n:.2}"),
    zero: "no bytes",
};

/// The last part of a path; a path without one is its own name.
pub(super) fn title(path: &str) -> String {
    let end = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    if end.is_empty() || end.starts_with('.') { path.to_owned() } else { end.to_owned() }
}

fn share(share: &scantling_core::report::TypeShare) -> TypeShare {
    TypeShare {
        name: share.dtype.clone(),
        tensors: share.tensors,
        elements: share.elements,
        bytes: share.bytes,
    }
}

/// qwen3 · safetensors · BF16.
fn summary(report: &Report) -> String {
    let model = &report.model;
    let known = model.architecture.map(str::to_owned);
    let mut parts: Vec<String> =
        known.or_else(|| model.family.as_ref().map(|f| format!("{f} (not known)"))).into_iter().collect();
    parts.extend(model.special.clone());
    parts.push(report.container.format.clone());
    parts.extend(model.packing.clone());
    parts.extend(report.types.first().map(|t| match report.types.len() {
        1 => t.dtype.clone(),
        _ => format!("mostly {}", t.dtype),
    }));
    parts.join(" · ")
}

fn tiles(report: &Report, files: &[String], kinds: &[Kind]) -> Vec<Tile> {
    let counts = &report.counts;
    let (elements, bytes) = report
        .types
        .iter()
        .fold((0u64, 0u64), |(n, b), t| (n.saturating_add(t.elements), b.saturating_add(t.bytes)));
    let parameters = counts.logical.unwrap_or(counts.stored);
    let exact = match counts.logical {
        Some(logical) if logical != counts.stored => {
            format!("{}; {} stored", thousands(logical), thousands(counts.stored))
        }
        _ => thousands(parameters),
    };
    let mut tiles = vec![Tile { name: "parameters", value: rough(parameters), note: exact }];
    let size = report.container.bytes();
    let note = match files.len() {
        1 => format!("{} bytes", thousands(size)),
        n => format!("in {}", plural(n, "file")),
    };
    tiles.push(Tile { name: "size", value: words::bytes(size), note });
    if elements > 0 {
        let value = format!("{:.2}", bytes as f64 * 8.0 / elements as f64);
        tiles.push(Tile { name: "bits per weight", value, note: plural(report.types.len(), "element type") });
    }
    let expected = counts.expected.map(|n| format!("{} expected", thousands(n as u64))).unwrap_or_default();
    tiles.push(Tile { name: "tensors", value: thousands(counts.tensors as u64), note: expected });
    // As the picture tells parts apart: by the table, or else by the name. A file may lack what the table has.
    let embeddings = kinds.iter().filter(|kind| kind.group == Group::Embedding);
    let embedding = embeddings.fold(0u64, |n, kind| n.saturating_add(kind.elements));
    if let (1.., Some(logical)) = (embedding, counts.logical) {
        let value = percent(embedding, logical);
        let note = format!("{} parameters", thousands(embedding));
        tiles.push(Tile { name: "in embeddings", value, note });
    }
    tiles
}

/// 596049920 → 596 M.
fn rough(n: u64) -> String {
    const UNITS: [(&str, f64); 4] = [(" T", 1e12), (" B", 1e9), (" M", 1e6), (" K", 1e3)];
    match UNITS.into_iter().find(|(_, size)| n as f64 >= *size) {
        Some((unit, size)) => {
            let n = n as f64 / size;
            let decimals = if n < 9.995 { 2 } else { usize::from(n < 99.95) };
            format!("{n:.decimals$}{unit}")
        }
        None => n.to_string(),
    }
}

fn verdict(report: &Report) -> Verdict {
    let errors = report.count(Severity::Error);
    let unknown = judged::is_unknown(report);
    let why = if unknown { judged::why_not(report) } else { None };
    let advice = why.and_then(|f| f.advice.clone());
    let not_held = || format!("not checked against an architecture: {}", judged::unknown_reason(report));
    if errors > 0 {
        let mut headline = judged::counts(report);
        if unknown {
            headline = format!("{headline}; {}", not_held());
        }
        Verdict { standing: Standing::Bad, headline, advice }
    } else if unknown {
        Verdict { standing: Standing::Open, headline: not_held(), advice }
    } else {
        let n = thousands(report.counts.expected.unwrap_or(0) as u64);
        let mut headline = format!("all {n} expected tensors present, shapes match the config");
        let warnings = judged::counts(report);
        if !warnings.is_empty() {
            headline = format!("{headline}; {warnings}");
        }
        Verdict { standing: Standing::Good, headline, advice: None }
    }
}

/// Faults in the order of the report, causes first; then the notes.
fn findings(page: &mut Page<'_>, report: &Report) {
    let why = if judged::is_unknown(report) { judged::why_not(report) } else { None };
    let said = |f: &&Finding| !why.is_some_and(|why| std::ptr::eq(why, *f));
    let is_note = |f: &&Finding| f.severity == Severity::Note;
    let faults = report.findings.iter().filter(|f| !is_note(f));
    let notes = report.findings.iter().filter(is_note);
    let all: Vec<&Finding> = faults.chain(notes).filter(said).collect();
    page.findings = all.iter().take(FINDINGS).map(|f| remark(f)).collect();
    page.findings_hidden = all.len().saturating_sub(FINDINGS);
}

pub(super) fn remark(finding: &Finding) -> Remark {
    let line = |text: &Option<String>| text.as_deref().map(|t| judged::short(t, false));
    Remark {
        severity: finding.severity,
        code: finding.code.id.to_owned(),
        message: judged::headline(finding, false),
        expected: line(&finding.expected),
        found: line(&finding.found),
        advice: line(&finding.advice),
        symptoms: finding.symptoms.iter().take(SYMPTOMS).map(|s| judged::symptom(s, false)).collect(),
        symptoms_hidden: finding.symptoms.len().saturating_sub(SYMPTOMS),
    }
}

fn dimensions(report: &Report) -> Table {
    let from = report.model.config.as_ref().map(|c| format!("From {c}."));
    let sizes = report.facts.iter().filter(|f| f.dimension);
    let mut rows: Vec<Vec<String>> = sizes.map(fact).collect();
    let mut note = from.unwrap_or_default();
    if let (true, Some(likeness)) = (rows.is_empty(), &report.likeness) {
        note = "By shapes and names alone.".to_owned();
        rows = likeness
            .sizes
            .iter()
            .map(|size| {
                let row =
                    [size.symbol, size.meaning, &size.value.to_string(), &format!("from {}", size.from)];
                row.map(str::to_owned).to_vec()
            })
            .map(|mut row| {
                row.swap(0, 1);
                row
            })
            .collect();
    }
    Table {
        title: "Dimensions".to_owned(),
        note,
        columns: vec!["name", "", "value", "what it is"],
        numbers: vec![2],
        rows,
        hidden: 0,
    }
}

/// Settings that are no sizes.
fn settings(report: &Report) -> Table {
    Table {
        title: "Settings that were read".to_owned(),
        columns: vec!["name", "", "value", "what it is"],
        rows: report.facts.iter().filter(|f| !f.dimension).map(fact).collect(),
        ..Table::default()
    }
}

fn fact(fact: &Fact) -> Vec<String> {
    let mut meaning = fact.meaning.to_owned();
    meaning.extend(fact.note.iter().map(|note| format!(" → {note}")));
    match &fact.origin {
        Origin::File => {}
        Origin::Default => meaning.push_str(" (default)"),
        Origin::Assumed => meaning.push_str(" (assumed: a GGUF file cannot say it; --config FILE does)"),
        Origin::Derived(how) => meaning.push_str(&format!(" (derived: {how})")),
    }
    let value = match &fact.value {
        Value::Unsigned(n) => thousands(*n),
        other => words::cut_end(&other.to_string(), 60, "…"),
    };
    vec![fact.name.clone(), fact.symbol.to_owned(), value, meaning]
}

fn container(report: &Report) -> Table {
    let container = &report.container;
    let mut rows = vec![vec!["format".to_owned(), container.format.clone()]];
    let mut add = |name: &str, value: Option<String>| rows.extend(value.map(|v| vec![name.to_owned(), v]));
    add("architecture", report.model.family.clone());
    add("what it is", report.model.special.clone());
    add("packing", report.model.packing.clone());
    for (name, value) in &container.facts {
        add(name, Some(value.clone()));
    }
    if let Some(vocabulary) = &report.vocabulary {
        add("vocabulary", Some(vocabulary.file.clone()));
        add("tokenizer", vocabulary.model.clone());
        add("pre-tokenizer", vocabulary.pre.clone());
        add("tokens", vocabulary.tokens.map(thousands));
        add("merges", vocabulary.merges.map(thousands));
        add("chat template", Some(if vocabulary.chat_template { "yes" } else { "none" }.to_owned()));
    }
    for outside in &report.outside {
        let what = format!("{}, {}", plural(outside.tensors, "tensor"), words::bytes(outside.bytes));
        add(&outside.part, Some(what));
    }
    if container.files.len() > FEW {
        add("files", Some(format!("{}, listed below", thousands(container.files.len() as u64))));
    } else {
        rows.extend(files(report, FEW).rows);
    }
    Table { title: "Files".to_owned(), columns: vec!["", ""], rows, ..Table::default() }
}

/// The files with their lengths, as far as there is room for them.
fn files(report: &Report, room: usize) -> Table {
    let all = &report.container.files;
    let row = |(name, len): &(String, u64)| vec![name.clone(), format!("{} bytes", thousands(*len))];
    Table {
        title: "Files".to_owned(),
        columns: vec!["name", "length"],
        rows: all.iter().take(room).map(row).collect(),
        hidden: all.len().saturating_sub(room),
        ..Table::default()
    }
}

fn metadata(checked: &Checked) -> Table {
    let entries = checked.source.metadata().entries();
    let row = |e: &scantling_core::metadata::Entry| vec![e.key.clone(), e.kind.clone(), value(&e.value)];
    Table {
        title: "Metadata of the weight file".to_owned(),
        columns: vec!["key", "type", "value"],
        rows: entries.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A stored value in one line, long ones cut.
pub(super) fn value(value: &Value) -> String {
    const ITEMS: usize = 8;
    const TEXT: usize = 400;
    let Value::List(list) = value else { return words::cut_end(&value.to_string(), TEXT, "…") };
    let items = match value.first_items(ITEMS) {
        Ok(items) => items,
        Err(error) => return format!("could not be read: {error}"),
    };
    let mut shown: Vec<String> =
        items.iter().map(|item| words::cut_end(&item.to_string(), 40, "…")).collect();
    if list.len() > ITEMS as u64 {
        shown.push("…".to_owned());
    }
    format!("[{}] ({} {})", shown.join(", "), thousands(list.len()), list.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_paths() {
        assert_eq!(title("models/Qwen3-0.6B/"), "Qwen3-0.6B");
        assert_eq!(title("a.gguf"), "a.gguf");
        assert_eq!([".", "..", "/"].map(title), [".", "..", "/"]);
    }

    #[test]
    fn rough_numbers() {
        assert_eq!(rough(596_049_920), "596 M");
        assert_eq!(rough(8_030_261_248), "8.03 B");
        assert_eq!(rough(134_515_008), "135 M");
        assert_eq!(rough(2_304), "2.30 K");
        assert_eq!(rough(999), "999");
        assert_eq!(rough(671_026_419_200), "671 B");
    }
}
