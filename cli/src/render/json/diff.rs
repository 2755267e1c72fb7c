//! What two models differ in, as JSON.

use super::{begin, parts};
use crate::terminal::Screen;
use scantling_core::diff::{Allowed, Bound, Class, Diff, FactDifference, Measured, Pair, Side, Stored};
use serde_json::{Map, Value, json};

/// The whole comparison.
pub fn diff(screen: &mut Screen<'_>, diff: &Diff, allowed: Allowed) {
    let mut out = begin(screen);
    out.put_all("models", diff.sides.iter().map(side));
    out.put("hyperparameters_equal", &json!(diff.facts_equal));
    out.put_all("hyperparameters", diff.facts.iter().map(fact));
    out.put_all("tensors", diff.pairs.iter().map(pair));
    out.put_all("left_out", diff.left_out.iter().map(|(name, why)| json!({"name": name, "why": why})));
    let vocabulary = &diff.vocabulary;
    out.put(
        "vocabulary",
        &json!({"ids": vocabulary.tokens, "differing": vocabulary.differing, "why_not": vocabulary.why}),
    );
    out.put("not_looked_at", &json!(diff.unwanted));
    out.put_all("findings", diff.findings.iter().map(parts::finding));
    let counts = Class::ALL.iter().map(|class| (class.word().to_owned(), json!(diff.count(*class))));
    out.put(
        "verdict",
        &json!({
            "ok": diff.passes(allowed),
            "against": diff.findings.iter().filter(|f| diff.counts(f, allowed)).count(),
            "allowed": {"quantised": allowed.quantised, "uncompared": allowed.uncompared},
            "classes": counts.collect::<Map<String, Value>>(),
        }),
    );
    out.finish();
}

fn side(side: &Side) -> Value {
    json!({
        "path": side.path,
        "container": parts::container(&side.container),
        "model": parts::model(&side.model),
        "tensors": side.tensors,
        "bytes": side.bytes,
    })
}

fn fact(fact: &FactDifference) -> Value {
    let side = |side: usize| match (&fact.names[side], &fact.values[side]) {
        (Some(name), Some(value)) => json!({"name": name, "value": parts::stored(value, false)}),
        _ => Value::Null,
    };
    json!({"meaning": fact.meaning, "change": fact.change.word(), "a": side(0), "b": side(1)})
}

fn pair(pair: &Pair) -> Value {
    let steps = |side: usize| pair.steps[side].iter().map(ToString::to_string).collect::<Vec<_>>();
    let stored = |side: usize| pair.stored[side].as_ref().map_or(Value::Null, stored);
    json!({
        "name": pair.name,
        "layer": pair.layer,
        "kind": pair.kind,
        "class": pair.class.word(),
        "why": pair.why,
        "a": stored(0),
        "b": stored(1),
        "steps": {"a": steps(0), "b": steps(1)},
        "measured": pair.measured.as_ref().map(|m| measured(pair, m)),
    })
}

fn stored(stored: &Stored) -> Value {
    json!({"name": stored.name, "dtype": stored.dtype, "shape": stored.shape, "bytes": stored.bytes})
}

fn measured(pair: &Pair, measured: &Measured) -> Value {
    let d = &measured.distance;
    let worst =
        d.worst.map(|w| json!({"index": w.index, "place": pair.place_of(w.index), "a": parts::narrow(w.a), "b": parts::narrow(w.b)}));
    json!({
        "values": d.count,
        "differing": d.differing,
        "max": parts::number(d.max()),
        "rms": parts::number(d.rms()),
        "relative_rms": parts::number(d.relative()),
        "cosine": parts::number(d.cosine()),
        "worst": worst,
        "not_finite": {"a": d.not_finite[0], "b": d.not_finite[1]},
        "bound": {
            "kind": match measured.bound {
                Bound::Equal => "equal",
                Bound::Step { .. } => "step",
                Bound::Relative { .. } => "relative-rms",
            },
            "limit": match measured.bound {
                Bound::Step { whole } | Bound::Relative { whole, .. } => json!(whole),
                Bound::Equal => Value::Null,
            },
            "beyond": measured.beyond,
        },
    })
}
