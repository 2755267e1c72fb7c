//! Measurements of kernels as JSON and as CSV.

use super::begin;
use super::kernels::machine;
use crate::bench::baseline::Comparison;
use crate::bench::{Measured, Row, Shape};
use crate::terminal::Screen;
use scantling_core::dtype::DType;
use scantling_core::machine::Machine;
use scantling_core::paging::Prepared;
use serde_json::{Value, json};

/// The document of a run.
pub fn bench(
    screen: &mut Screen<'_>,
    measured: &Measured,
    model: Option<(String, &Prepared)>,
    compared: Option<&Comparison>,
) {
    let mut out = begin(screen);
    out.put("machine", &machine(&Machine::here()));
    out.put("model", &model.map_or(Value::Null, |(path, prepared)| mapped(&path, prepared)));
    out.put("made_up_huge_share", &json!(measured.made_up_huge));
    out.put("against", &json!(measured.against));
    out.put_all("left_out", measured.left_out.iter().map(|line| json!(line)));
    out.put_all("bench", measured.rows.iter().map(row));
    let report = |(kernel, threads, lines): &(String, usize, Vec<String>)| json!({"kernel": kernel, "threads": threads, "lines": lines});
    out.put_all("reports", measured.reports.iter().map(report));
    if let Some(compared) = compared {
        out.put("baseline", &comparison(measured, compared));
    }
    out.finish();
}

/// How the weights of a model came into memory.
pub fn mapped(path: &str, prepared: &Prepared) -> Value {
    json!({
        "path": path,
        "bytes": prepared.bytes,
        "resident": prepared.resident,
        "huge": prepared.huge,
        "populated_seconds": prepared.populated.map(|t| t.as_secs_f64()),
    })
}

/// What tells one row from another.
pub fn key(kernel: &str, threads: usize, shape: Shape) -> Value {
    json!({
        "kernel": kernel,
        "threads": threads,
        "op": shape.op.word(),
        "type": shape.dtype.map(DType::name),
        "rows": shape.rows,
        "inputs": shape.inputs,
        "outputs": shape.outputs,
    })
}

fn key_of(row: &Row) -> Value {
    key(&row.kernel, row.threads, row.shape)
}

fn row(row: &Row) -> Value {
    let mut value = key_of(row);
    let rest = json!({
        "ratio": row.ratio,
        "share": row.share(),
        "limit": row.limit.map(|l| l.word),
        "seconds": {
            "median": row.time.median,
            "first_quartile": row.time.first,
            "third_quartile": row.time.third,
            "repetitions": row.time.count,
        },
        "part": row.part,
        "bytes": row.cost.bytes,
        "flops": row.cost.flops,
        "gb_per_s": row.cost.bytes / row.time.median / 1e9,
        "gflop_per_s": row.cost.flops / row.time.median / 1e9,
        "read_gb_per_s": row.rates.read.map(|r| r / 1e9),
        "copy_gb_per_s": row.rates.copy.map(|r| r / 1e9),
        "peak_gflop_per_s": row.rates.peak.map(|r| r / 1e9),
    });
    if let (Value::Object(members), Value::Object(rest)) = (&mut value, rest) {
        members.extend(rest);
    }
    value
}

fn comparison(measured: &Measured, compared: &Comparison) -> Value {
    let slower = compared.slower.iter().filter_map(|change| {
        let mut value = key_of(measured.rows.get(change.row)?);
        value["factor"] = json!(change.factor);
        value["allowed"] = json!(1.0 + change.allowed);
        Some(value)
    });
    json!({
        "matched": compared.matched,
        "new": compared.new,
        "gone": compared.gone,
        "other_machine": compared.other_machine,
        "faster": compared.faster,
        "slower": slower.collect::<Vec<_>>(),
    })
}

/// The columns of the CSV form: those of the JSON rows, times flat.
const COLUMNS: [&str; 20] = [
    "op",
    "type",
    "rows",
    "inputs",
    "outputs",
    "kernel",
    "threads",
    "ratio",
    "share",
    "limit",
    "median_s",
    "first_quartile_s",
    "third_quartile_s",
    "repetitions",
    "part",
    "gb_per_s",
    "gflop_per_s",
    "read_gb_per_s",
    "copy_gb_per_s",
    "peak_gflop_per_s",
];

/// The rows for a spreadsheet. No name or word in them holds a comma or a quote.
pub fn csv(screen: &mut Screen<'_>, measured: &Measured) {
    screen.send(format!("{}\n", COLUMNS.join(",")).as_bytes());
    for measured in &measured.rows {
        let value = row(measured);
        let cell = |column: &&str| {
            let found = match *column {
                "median_s" => &value["seconds"]["median"],
                "first_quartile_s" => &value["seconds"]["first_quartile"],
                "third_quartile_s" => &value["seconds"]["third_quartile"],
                "repetitions" => &value["seconds"]["repetitions"],
                column => &value[column],
            };
            match found {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }
        };
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        screen.send(format!("{}\n", cells.join(",")).as_bytes());
    }
}
