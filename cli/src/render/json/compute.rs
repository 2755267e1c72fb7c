//! Logits, traces and perplexity as JSON.

use super::begin;
use crate::backend::Backend;
use crate::render::text::compute::Reading;
use crate::terminal::Screen;
use scantling_core::dtype::DType;
use scantling_core::logits::Position;
use scantling_core::model::Model;
use scantling_core::perplexity::{Foretold, Mean, Scored};
use scantling_core::tokenizer::Tokenizer;
use scantling_core::trace::{Comparison, Difference, Making, Misfit, Place, Stats, Trace};
use serde_json::{Value, json};
use std::path::Path;

fn ran(model: &Model, backend: &Backend) -> Value {
    json!({
        "model": model.path,
        "family": model.family,
        "kernel": backend.name,
        "threads": backend.threads,
        "rounds_activations": backend.rounds_activations,
        "report": backend.kernel.report(),
    })
}

/// The likeliest tokens of each position.
pub fn logits(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    vocabulary: usize,
    ids: &[u32],
    positions: &[Position],
    tokenizer: Option<&Tokenizer>,
) {
    let piece = |id: u32| tokenizer.and_then(|t| t.piece(id));
    let mut out = begin(screen);
    out.put("run", &ran(model, backend));
    out.put("ids", &json!(ids));
    out.put("vocabulary", &json!(vocabulary));
    let position = |p: &Position| {
        let top = p.top.iter();
        let top = top.map(
            |c| json!({"id": c.id, "piece": piece(c.id), "logit": c.logit, "probability": c.probability}),
        );
        json!({
            "position": p.position,
            "id": p.id,
            "piece": piece(p.id),
            "logsumexp": p.logsumexp,
            "top": top.collect::<Vec<_>>(),
        })
    };
    out.put_all("positions", positions.iter().map(position));
    out.finish();
}

/// What was written.
pub fn traced(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    ids: &[u32],
    path: &Path,
    trace: &Trace,
) {
    let mut out = begin(screen);
    out.put("run", &ran(model, backend));
    out.put("ids", &json!(ids));
    out.put("written", &json!(path.display().to_string()));
    let part = |(place, rows): (&Place, scantling_core::matrix::Rows<'_>)| json!({"name": place.to_string(), "shape": [rows.rows(), rows.cols()]});
    out.put_all("intermediates", trace.parts().map(part));
    out.finish();
}

/// What a run was held against.
#[derive(Clone, Copy)]
pub struct Against<'a> {
    /// As it was asked for.
    pub path: &'a str,
    /// What made it.
    pub made: &'a Making,
    /// What its kernel has to say.
    pub report: &'a [String],
}

/// What came of holding a run against another.
pub fn compared(
    screen: &mut Screen<'_>,
    model: &Model,
    backend: &Backend,
    ids: &[u32],
    against: Against<'_>,
    report: &Comparison,
) {
    let mut out = begin(screen);
    out.put("run", &ran(model, backend));
    out.put("ids", &json!(ids));
    let made = against.made;
    let types: Vec<&str> = made.types.iter().copied().map(DType::name).collect();
    let made = json!({
        "path": against.path,
        "kernel": made.kernel,
        "rounds_activations": made.rounds,
        "types": types,
        "report": against.report,
    });
    out.put("against", &made);
    out.put("tolerance", &json!({"share": report.allowance.share, "why": report.allowance.why}));
    out.put("within", &json!(report.holds()));
    out.put("first", &report.first().map_or(Value::Null, stats));
    out.put("first_not_finite", &report.first_not_finite().map_or(Value::Null, stats));
    out.put_all("intermediates", report.stats.iter().map(stats));
    let misfit = |m: &Misfit| {
        json!({
            "name": m.place.to_string(),
            "found": m.found,
            "expected": m.expected,
        })
    };
    out.put_all("misfits", report.misfits.iter().map(misfit));
    let name = |place: &Place| json!(place.to_string());
    out.put_all("only_found", report.only_found.iter().map(name));
    out.put_all("only_expected", report.only_expected.iter().map(name));
    out.finish();
}

fn stats(stats: &Stats) -> Value {
    json!({
        "name": stats.place.to_string(),
        "layer": stats.place.layer,
        "rows": stats.rows,
        "cols": stats.cols,
        "max_abs": stats.max_abs,
        "max_share": stats.max_share,
        "rms": stats.rms,
        "cosine": stats.cosine,
        "beyond": stats.beyond,
        "first": stats.first.map(difference),
        "worst": stats.worst.map(difference),
        "not_finite": {"found": stats.not_finite.0, "expected": stats.not_finite.1},
    })
}

fn difference(d: Difference) -> Value {
    json!({
        "token": d.row,
        "element": d.element,
        "found": d.found,
        "expected": d.expected,
        "share": d.share,
    })
}

/// How well a text was foretold.
pub fn perplexity(
    screen: &mut Screen<'_>,
    model: &Model,
    other: Option<&Model>,
    backend: &Backend,
    how: Reading,
    scored: &Scored,
) {
    let mut out = begin(screen);
    out.put("run", &ran(model, backend));
    out.put("context", &json!(how.context));
    out.put("stride", &json!(how.stride));
    out.put("windows", &json!(scored.windows));
    out.put("tokens", &json!(scored.tokens));
    out.put("nll", &mean(scored.model.nll));
    out.put("perplexity", &mean(scored.model.perplexity));
    let apart = scored.apart.as_ref().map(|apart| {
        let Foretold { nll, perplexity } = apart.reference;
        let [median, most, largest] = apart.kl_quantiles;
        json!({
            "model": other.map(|m| m.path.as_str()),
            "nll": mean(nll),
            "perplexity": mean(perplexity),
            "nll_more": mean(apart.nll_more),
            "kl": {
                "mean": apart.kl.mean,
                "error": apart.kl.error,
                "median": median,
                "percentile_99": most,
                "max": largest,
            },
            "agreement": mean(apart.agreement),
        })
    });
    out.put("against", &json!(apart));
    out.finish();
}

fn mean(mean: Mean) -> Value {
    json!({"value": mean.mean, "error": mean.error})
}
