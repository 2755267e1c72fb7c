//! Logits, traces and perplexity as text.

use super::table::Table;
use super::{hanging, strong};
use crate::backend::Backend;
use crate::render::words::{bytes, plural, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::logits::Position;
use scantling_core::model::Model;
use scantling_core::perplexity::{Mean, Scored};
use scantling_core::tokenizer::Tokenizer;
use scantling_core::trace::{Comparison, Difference, Making, Place, Stats, Trace};
use std::fmt::{self, Write};
use std::path::Path;

/// How a text was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Tokens of a window.
    pub context: usize,
    /// Tokens that each window is behind the last.
    pub stride: usize,
}

/// "qwen3 on rayon+avx2, 2 threads".
fn ran(screen: &mut Screen<'_>, model: &Model, backend: &Backend) -> fmt::Result {
    let threads = plural(backend.threads, "thread");
    writeln!(screen, "{} on {}, {threads}", model.family, backend.name)
}

/// The likeliest tokens of each position.
pub fn logits(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    vocabulary: usize,
    positions: &[Position],
    tokenizer: Option<&Tokenizer>,
) -> fmt::Result {
    let piece = |id: u32| tokenizer.and_then(|t| t.piece(id)).map(|piece| escape(&piece).into_owned());
    ran(screen, model, backend)?;
    for position in positions {
        writeln!(screen)?;
        strong(screen, &format!("after token {}", position.position))?;
        write!(screen, "   id {}", position.id)?;
        piece(position.id).map_or(Ok(()), |piece| write!(screen, " \"{piece}\""))?;
        if !position.logsumexp.is_finite() {
            writeln!(screen, "; no probabilities: its logits are not finite")?;
            continue;
        }
        writeln!(
            screen,
            "; logsumexp {:.6} over {} tokens",
            position.logsumexp,
            thousands(vocabulary as u64)
        )?;
        let heads = [">RANK", ">ID", ">LOGIT", ">PROBABILITY", "PIECE"];
        let shown = if tokenizer.is_some() { heads.len() } else { heads.len() - 1 };
        let mut table = Table::new(&heads[..shown]);
        for (rank, candidate) in position.top.iter().enumerate() {
            table.row([
                (rank + 1).to_string(),
                candidate.id.to_string(),
                format!("{:.6}", candidate.logit),
                share(candidate.probability),
                piece(candidate.id).unwrap_or_default(),
            ]);
        }
        table.write(screen, 2)?;
    }
    Ok(())
}

/// 12.34%, or 1.2e-7 where that would be 0.00%.
fn share(p: f64) -> String {
    if p > 0.0 && p < 1e-4 { format!("{p:.2e}") } else { format!("{:.2}%", p * 100.0) }
}

/// What was written.
pub fn traced(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    path: &Path,
    trace: &Trace,
) -> fmt::Result {
    ran(screen, model, backend)?;
    let parts = plural(trace.parts().count(), "intermediate");
    let path = path.display().to_string();
    writeln!(screen, "wrote {parts}, {}, to {}", bytes(trace.bytes()), escape(&path))
}

/// What came of holding a run against another.
pub fn compared(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    against: &str,
    made: &Making,
    report: &Comparison,
    full: bool,
) -> fmt::Result {
    ran(screen, model, backend)?;
    write!(screen, "against {}", escape(against))?;
    match made.kernel.as_str() {
        "" => writeln!(screen)?,
        kernel => writeln!(screen, ", on {}", escape(kernel))?,
    }
    let allowance = &report.allowance;
    writeln!(screen, "tolerance {:.3e} of the largest entry of a row ({})", allowance.share, allowance.why)?;
    writeln!(screen)?;
    verdict(screen, against, report)?;
    writeln!(screen)?;
    let shown: Vec<&Stats> = if full { report.stats.iter().collect() } else { report.growth() };
    growth(&shown).write(screen, 0)?;
    for misfit in &report.misfits {
        let (found, expected) = (&misfit.found, &misfit.expected);
        let place = misfit.place.to_string();
        writeln!(screen, "{}: shape {found:?} here, {expected:?} there", escape(&place))?;
    }
    Ok(())
}

fn verdict(screen: &mut Screen<'_>, against: &str, report: &Comparison) -> fmt::Result {
    let count = report.stats.len();
    let held = report.first().is_none() && report.first_not_finite().is_none();
    let mut line = match (count, count == report.had()) {
        (0, _) => "nothing was compared: no name is on both sides".to_owned(),
        (_, true) if held => format!("all {} are within it", plural(count, "intermediate")),
        (_, true) => format!("compared all {}", plural(count, "intermediate")),
        (_, false) => {
            let within = if held { ", which are within it" } else { "" };
            format!("compared {count} of {}{within}", plural(report.had(), "intermediate"))
        }
    };
    let misfits: Vec<&Place> = report.misfits.iter().map(|misfit| &misfit.place).collect();
    line.push_str(&named("of another shape", &misfits));
    line.push_str(&named(
        &format!("not in {}", escape(against)),
        &report.only_found.iter().collect::<Vec<_>>(),
    ));
    line.push_str(&named(
        &format!("only in {}", escape(against)),
        &report.only_expected.iter().collect::<Vec<_>>(),
    ));
    if count > 0 && !report.reaches_end() {
        line.push_str("; neither the logits nor what leaves the last layer could be compared, so that nothing is said of the whole");
    }
    hanging(screen, &line, 0, 2)?;
    if let Some(first) = report.first_not_finite() {
        write!(screen, "first that is not finite: ")?;
        strong(screen, &escape(&first.place.to_string()))?;
        let of = thousands((first.rows * first.cols) as u64);
        let [here, there] = [first.not_finite.0, first.not_finite.1].map(|n| thousands(n as u64));
        writeln!(screen, "   {here} of {of} elements are NaN or infinite here, {there} there")?;
        writeln!(screen, "  see whether the weights hold such numbers: scantling check --data MODEL")?;
    }
    let Some(first) = report.first() else { return Ok(()) };
    write!(screen, "first beyond it: ")?;
    strong(screen, &escape(&first.place.to_string()))?;
    let of = first.rows * first.cols;
    writeln!(screen, "   {} of {} elements", thousands(first.beyond as u64), thousands(of as u64))?;
    for (word, difference) in [("first", first.first), ("worst", first.worst)] {
        difference.map_or(Ok(()), |d| element(screen, word, &d))?;
    }
    Ok(())
}

fn element(screen: &mut Screen<'_>, word: &str, d: &Difference) -> fmt::Result {
    writeln!(
        screen,
        "  {word}: token {}, element {}: {:e} here, {:e} there, off by {} of the row's largest",
        d.row,
        d.element,
        d.found,
        d.expected,
        share(d.share)
    )
}

fn growth(stats: &[&Stats]) -> Table {
    let mut heads = vec!["PLACE", ">MAX ABS", ">OF LARGEST", ">RMS", ">COSINE", ">BEYOND"];
    let any = stats.iter().any(|s| s.not_finite != (0, 0));
    if any {
        heads.push(">NOT FINITE");
    }
    let mut table = Table::new(&heads);
    let number = |n: usize| if n == 0 { String::new() } else { thousands(n as u64) };
    for stats in stats {
        let (here, there) = stats.not_finite;
        // The figures are of the numbers there are.
        let none = here.max(there) == stats.rows.saturating_mul(stats.cols);
        let figure = |told: String| if none { "-".to_owned() } else { told };
        let mut row = vec![
            escape(&stats.place.to_string()).into_owned(),
            figure(format!("{:.2e}", stats.max_abs)),
            figure(format!("{:.2e}", stats.max_share)),
            figure(format!("{:.2e}", stats.rms)),
            figure(format!("{:.9}", stats.cosine)),
            number(stats.beyond),
        ];
        if any {
            row.push(number(here.max(there)));
        }
        table.row(row);
    }
    table
}

/// "; not in FILE: logits", or nothing.
fn named(what: &str, places: &[&Place]) -> String {
    const SHOWN: usize = 12;
    if places.is_empty() {
        return String::new();
    }
    let names: Vec<String> = places.iter().take(SHOWN).map(|p| escape(&p.to_string()).into_owned()).collect();
    let more = places.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("; {what}: {}{more}", names.join(", "))
}

/// How well a text was foretold.
pub fn perplexity(
    screen: &mut Screen<'_>,
    model: &Model,
    other: Option<&Model>,
    backend: &Backend,
    how: Reading,
    scored: &Scored,
) -> fmt::Result {
    ran(screen, model, backend)?;
    writeln!(
        screen,
        "{} scored in {} of {}, each {} behind the last",
        plural(scored.tokens, "token"),
        plural(scored.windows, "window"),
        how.context,
        how.stride
    )?;
    writeln!(screen)?;
    let mut table = Table::new(&["", ">VALUE", ">±"]);
    let mut row = |name: &str, mean: Mean| {
        table.row([name.to_owned(), format!("{:.6}", mean.mean), error(mean.error)]);
    };
    row("perplexity", scored.model.perplexity);
    row("mean NLL", scored.model.nll);
    let Some(apart) = &scored.apart else { return table.write(screen, 0) };
    row("perplexity of the other", apart.reference.perplexity);
    row("mean NLL of the other", apart.reference.nll);
    row("NLL more than the other's", apart.nll_more);
    row("KL divergence, mean", apart.kl);
    let [median, most, largest] = apart.kl_quantiles;
    for (name, value) in [("median", median), ("99 % at most", most), ("largest", largest)] {
        row(&format!("KL divergence, {name}"), Mean { mean: value, error: f64::NAN });
    }
    let agreement = apart.agreement;
    table.row([
        "same likeliest token".to_owned(),
        format!("{:.3}%", agreement.mean * 100.0),
        format!("{:.3}%", agreement.error * 100.0),
    ]);
    let other = other.map_or_else(String::new, |m| m.path.clone());
    writeln!(screen, "the other is {}", escape(&other))?;
    writeln!(screen)?;
    table.write(screen, 0)
}

fn error(error: f64) -> String {
    if error.is_nan() { String::new() } else { format!("{error:.6}") }
}
