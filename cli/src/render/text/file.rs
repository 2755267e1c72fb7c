//! The block about the weight files. A plain safetensors file needs none: its name and its tensors say it all.

use super::{hanging, heading};
use crate::render::words;
use crate::terminal::{Screen, escape};
use scantling_core::report::{Report, Vocabulary};
use scantling_core::source::Dialect;
use std::fmt::{self, Write};

pub(super) fn wanted(report: &Report) -> bool {
    report.container.dialect == Dialect::Gguf
        || report.container.files.len() > 1
        || report.model.special.is_some()
        || report.model.packing.is_some()
}

pub(super) fn write(screen: &mut Screen<'_>, report: &Report) -> fmt::Result {
    let container = &report.container;
    let title = match container.files.as_slice() {
        [(name, _)] => format!("file ({})", escape(name)),
        files => format!("files ({})", words::thousands(files.len() as u64)),
    };
    heading(screen, &title)?;
    let rows = rows(report);
    let width = rows.iter().map(|(key, _)| words::columns(key)).max().unwrap_or(0);
    for (key, value) in rows {
        write!(screen, "  {key:width$}   ")?;
        let indent = width.saturating_add(5);
        hanging(screen, &value, indent, indent)?;
    }
    Ok(())
}

fn rows(report: &Report) -> Vec<(String, String)> {
    let container = &report.container;
    let mut rows = vec![("format".to_owned(), escape(&container.format).into_owned())];
    let mut add = |key: &str, value: Option<String>| {
        rows.extend(value.map(|v| (key.to_owned(), v)));
    };
    let family = report.model.family.as_ref().map(|f| escape(f).into_owned());
    add("architecture", family);
    add("what it is", report.model.special.as_ref().map(|s| escape(s).into_owned()));
    add("packing", report.model.packing.as_ref().map(|p| escape(p).into_owned()));
    for (key, value) in &container.facts {
        add(key, Some(escape(value).into_owned()));
    }
    let bytes = container.bytes();
    add("size", Some(format!("{} bytes ({})", words::thousands(bytes), words::bytes(bytes))));
    if report.sections.iter().flat_map(|s| &s.rows).any(|row| !row.parts.is_empty()) {
        add("bits per weight", bits_per_weight(report));
        add("types", Some(types(report)));
    }
    if container.dialect == Dialect::Gguf {
        add("bits per weight", bits_per_weight(report));
        add("types", Some(types(report)).filter(|t| !t.is_empty()));
        let vocabulary = report.vocabulary.as_ref();
        add("tokenizer", Some(vocabulary.map_or_else(|| "none".to_owned(), tokenizer)));
        add("chat template", vocabulary.map(|v| if v.chat_template { "yes" } else { "none" }.to_owned()));
    }
    rows
}

fn bits_per_weight(report: &Report) -> Option<String> {
    let elements = report.types.iter().fold(0u64, |n, t| n.saturating_add(t.elements));
    let bytes = report.types.iter().fold(0u64, |n, t| n.saturating_add(t.bytes));
    (elements > 0).then(|| format!("{:.2}", bytes as f64 * 8.0 / elements as f64))
}

/// Q4_K 62.1% of bytes, 168 tensors · F32 …
fn types(report: &Report) -> String {
    let all = report.types.iter().fold(0u64, |n, t| n.saturating_add(t.bytes));
    let one = |t: &scantling_core::report::TypeShare| {
        let share = Some(words::percent(t.bytes, all)).filter(|p| !p.is_empty());
        let share = share.map(|p| format!("{p} of bytes, ")).unwrap_or_default();
        format!("{} {share}{}", escape(&t.dtype), words::plural(t.tensors, "tensor"))
    };
    let mut shares: Vec<String> = report.types.iter().take(16).map(one).collect();
    if report.types.len() > 16 {
        shares.push(format!("… {} types in all", report.types.len()));
    }
    shares.join(" · ")
}

/// gpt2, pre-tokenizer qwen2, 151,936 tokens, 151,387 merges
fn tokenizer(vocabulary: &Vocabulary) -> String {
    let mut parts = Vec::new();
    parts.extend(vocabulary.model.as_ref().map(|m| escape(m).into_owned()));
    parts.extend(vocabulary.pre.as_ref().map(|p| format!("pre-tokenizer {}", escape(p))));
    parts.extend(vocabulary.tokens.map(|n| format!("{} tokens", words::thousands(n))));
    parts.extend(vocabulary.merges.map(|n| format!("{} merges", words::thousands(n))));
    parts.join(", ")
}
