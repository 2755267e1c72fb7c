//! Whole models that were run, as JSON.

use super::begin;
use super::bench::mapped;
use super::kernels::machine;
use crate::bench::runs::{Measured, Run};
use crate::terminal::Screen;
use scantling_core::machine::Machine;
use scantling_core::model::Model;
use scantling_core::paging::Prepared;
use serde_json::{Value, json};

/// Rates of each kernel.
pub fn bench(screen: &mut Screen<'_>, model: &Model, prepared: &Prepared, all: &[Measured]) {
    let mut out = begin(screen);
    out.put("machine", &machine(&Machine::here()));
    out.put("model", &mapped(&model.path, prepared));
    out.put("family", &json!(model.family));
    out.put_all("runs", all.iter().map(measured));
    out.finish();
}

fn measured(measured: &Measured) -> Value {
    json!({
        "kernel": measured.kernel,
        "threads": measured.threads,
        "kv_type": measured.kv.dtype().name(),
        "cache_bytes": measured.beside.1,
        "other_bytes": measured.beside.0,
        "tests": measured.runs.iter().map(run).collect::<Vec<_>>(),
        "report": measured.report,
    })
}

fn run(run: &Run) -> Value {
    json!({
        "test": run.test,
        "tokens": run.tokens,
        "tokens_per_second": run.rate(),
        "seconds": { "median": run.time.median, "first_quartile": run.time.first, "third_quartile": run.time.third, "repetitions": run.time.count },
        "share": run.share(),
        "limit": run.limit.map(|l| l.word),
        "read_gb_per_s": run.rates.read.map(|r| r / 1e9),
        "peak_gflop_per_s": run.rates.peak.map(|r| r / 1e9),
    })
}
