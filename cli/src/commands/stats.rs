//! `stats`: the numbers of each tensor.

use super::page::NewPage;
use super::{note, written};
use crate::args::{LookArgs, SortKey, StatsArgs, StatsForm, StatsKey};
use crate::progress::Bar;
use crate::render::listing::Listing;
use crate::render::{csv, html, json, natural, text};
use crate::terminal::Screen;
use scantling_core::check::{self, Checked, Examined, Request};
use scantling_core::error::Result;
use scantling_core::finding::{Finding, Part, Severity};
use scantling_core::kernel::Options;
use scantling_core::registry::Registry;
use scantling_core::source::WeightSource;
use scantling_core::stats::{self, How, STATS_NO_TENSOR, Stats, TensorStats};

/// Tensors that are chosen by name, up to which they are shown in detail.
const FEW: usize = 4;

pub(super) fn run(
    registry: &Registry,
    args: &StatsArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    // In the order of the files, which is how they are read fastest.
    let listing = Listing::new(SortKey::File, &args.include, &args.exclude)?;
    let source = registry.open(&args.model)?;
    let kernel = registry.best_leaf(false, &Options::default())?;
    let all = source.tensors().tensors();
    let chosen = listing.of(all);
    let detail = args.histogram || !args.include.is_empty() && chosen.len() <= FEW;
    // A page shows the histogram of each tensor.
    let how = How { threads: args.threads, detail: detail || args.html.is_some() };
    let models = [(source.as_ref(), args.model.as_path())];
    let page = NewPage::begin(args.html.as_ref(), &models, &[])?;
    let bar = Bar::new(args.quiet);
    let mut found = stats::run(source.as_ref(), &args.model, &chosen, how, kernel.as_ref(), &bar);
    let faults: Vec<Finding> =
        source.findings().iter().filter(|f| f.severity == Severity::Error).cloned().collect();
    let (format, all, chosen) = (source.format(), all.len(), chosen.len());
    if let Some(finding) = none_chosen(args, all, chosen) {
        if args.form() == StatsForm::Csv {
            // A table has no place for it.
            note(look, &finding.message);
        }
        found.findings.push(finding);
    }
    if let Some(page) = page {
        let told = args.form() == StatsForm::Text && !args.quiet;
        let checked = inspected(registry, args, source)?;
        let listing = Listing::new(SortKey::Name, &args.include, &args.exclude)?;
        let options = html::Options { listing: &listing, sort: SortKey::Name, metadata: false };
        page.finish(&html::stats(&checked, &found, options), told.then_some(&mut *screen))?;
    }
    // A page has them from the report that it is made of.
    found.findings.splice(0..0, faults);
    if !detail {
        // Nobody asked to be told.
        found.tensors.iter_mut().for_each(|t| (t.histogram, t.blocks) = (None, None));
    }
    sort(&mut found, args.sort);
    let model = stats_of(args, &format, &found, all, chosen);
    match args.form() {
        StatsForm::Json => json::stats::stats(screen, &model),
        StatsForm::Csv => csv::stats(screen, &found)?,
        StatsForm::Text => written(text::stats::stats(screen, &model, args.full))?,
    }
    Ok(u8::from(found.count(Severity::Error) > 0))
}

/// The finding about patterns that leave nothing to look at.
fn none_chosen(args: &StatsArgs, all: usize, chosen: usize) -> Option<Finding> {
    if all == 0 || chosen > 0 {
        return None;
    }
    let option = |name: &str, globs: &[String]| -> Vec<String> {
        globs.iter().map(|glob| format!("--{name} '{glob}'")).collect()
    };
    let (wanted, unwanted) = (option("include", &args.include), option("exclude", &args.exclude));
    let message = match (wanted.as_slice(), unwanted.as_slice()) {
        (wanted, []) => format!("no tensor of {all} matches {}", wanted.join(" or ")),
        (wanted, unwanted) => {
            format!("no tensor of {all} is left by {}", [wanted, unwanted].concat().join(" "))
        }
    };
    let advice = "a pattern matches whole names, as '*q_proj*'; scantling inspect --tensors lists them";
    Some(Finding::new(&STATS_NO_TENSOR, message).advice(advice))
}

/// What a page shows beside the numbers: an inspection.
fn inspected(registry: &Registry, args: &StatsArgs, source: Box<dyn WeightSource>) -> Result<Checked> {
    let parts = Part::ALL.into_iter().filter(|p| !matches!(p, Part::Tokenizer | Part::Data)).collect();
    let request = Request { parts, identity: false, must_check: false, ..Request::default() };
    let examined = check::examine(registry, source.as_ref(), &args.model, &request, &check::Silent)?;
    let Examined { report, architecture, config } = examined;
    Ok(Checked { source, report, architecture, config })
}

fn stats_of<'a>(
    args: &StatsArgs,
    format: &str,
    found: &'a Stats,
    all: usize,
    chosen: usize,
) -> text::stats::Model<'a> {
    text::stats::Model {
        path: args.model.display().to_string(),
        format: format.to_owned(),
        stats: found,
        hidden: all.saturating_sub(chosen),
    }
}

/// By a figure, the largest first; of tensors that have none, last.
fn sort(stats: &mut Stats, key: StatsKey) {
    let figure = |t: &TensorStats| -> Option<f64> {
        let tally = &t.tally;
        let finite = tally.finite() > 0;
        match key {
            StatsKey::Name | StatsKey::File | StatsKey::Dtype => None,
            StatsKey::Size => Some(t.bytes as f64),
            StatsKey::Min => finite.then_some(tally.min),
            StatsKey::Max => finite.then_some(tally.max),
            StatsKey::Mean => finite.then_some(tally.mean),
            StatsKey::Std => tally.std(),
            StatsKey::Rms => tally.rms(),
            StatsKey::Absmax => tally.abs_max(),
            StatsKey::Peak => tally.peak(),
            StatsKey::Zeros => finite.then(|| tally.zeros as f64 / tally.count as f64),
            StatsKey::Nonfinite => Some((tally.nan.saturating_add(tally.infinite)) as f64),
        }
    };
    if key == StatsKey::File {
        return;
    }
    stats.tensors.sort_by(|a, b| natural::compare(&a.name, &b.name));
    match key {
        StatsKey::Name | StatsKey::File => {}
        StatsKey::Dtype => stats.tensors.sort_by(|a, b| a.dtype.cmp(&b.dtype)),
        _ => stats.tensors.sort_by(|a, b| {
            let of = |t| figure(t).unwrap_or(f64::NEG_INFINITY);
            of(b).total_cmp(&of(a))
        }),
    }
}
