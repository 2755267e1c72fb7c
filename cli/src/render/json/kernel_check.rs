//! A check of kernels as JSON values.

use super::begin;
use super::bench::mapped;
use super::kernels::machine;
use crate::render::kernel_check::{Checked, KernelChecked, Sum, used};
use crate::terminal::Screen;
use scantling_core::conformance::Row;
use scantling_core::dtype::DType;
use scantling_core::machine::Machine;
use scantling_core::paging::Prepared;
use serde_json::{Value, json};

/// The document of a check.
pub fn check(screen: &mut Screen<'_>, checked: &Checked, model: Option<(String, &Prepared)>) {
    let mut out = begin(screen);
    out.put("machine", &machine(&Machine::here()));
    out.put("model", &model.map_or(Value::Null, |(path, prepared)| mapped(&path, prepared)));
    let tensors = checked.tensors.as_ref().map(|t| {
        json!({
            "tried": t.tried,
            "sampled": t.sampled,
            "narrowed": t.narrowed,
            "usable": t.usable,
            "all": t.all,
            "unreadable": t.unreadable,
        })
    });
    out.put("tensors", &tensors.unwrap_or(Value::Null));
    out.put("ok", &json!(checked.ok()));
    out.put_all("checked", checked.kernels.iter().map(kernel));
    let rows = checked.kernels.iter().flat_map(|k| k.sums(true).into_iter().map(|sum| row(k, &sum)));
    out.put_all("rows", rows);
    out.put_all("misses", checked.kernels.iter().flat_map(|k| k.misses().map(|miss| self::miss(k, miss))));
    out.finish();
}

fn kernel(kernel: &KernelChecked) -> Value {
    json!({
        "kernel": kernel.name,
        "threads": kernel.threads,
        "cases": kernel.rows.len(),
        "failed": kernel.misses().count(),
        "report": kernel.report,
    })
}

fn row(kernel: &KernelChecked, sum: &Sum<'_>) -> Value {
    json!({
        "kernel": kernel.name,
        "threads": kernel.threads,
        "op": sum.op,
        "type": sum.dtype.map(DType::name),
        "cases": sum.cases,
        "failed": sum.failed,
        "not_finite": sum.not_finite,
        "max_abs": sum.max_abs,
        "max_rel": sum.max_rel,
        "bound": sum.worst.bound,
        "used": used(sum.worst),
        "shape": sum.worst.shape,
        "pass": sum.failed == 0,
    })
}

fn miss(kernel: &KernelChecked, row: &Row) -> Value {
    let worst =
        row.worst.map(|w| json!({"row": w.row, "col": w.col, "found": w.found, "expected": w.expected}));
    json!({
        "kernel": kernel.name,
        "threads": kernel.threads,
        "op": row.op,
        "type": row.dtype.map(DType::name),
        "tensor": row.tensor,
        "shape": row.shape,
        "max_abs": row.max_abs,
        "bound": row.bound,
        "worst": worst,
        "message": row.to_string(),
    })
}
