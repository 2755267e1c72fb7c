//! A check of kernels as tables.

use super::table::Table;
use super::{GOOD, hanging, severity_style, strong};
use crate::render::kernel_check::{Checked, KernelChecked, Sum, off, used};
use crate::render::words::{plural, thousands};
use crate::terminal::Screen;
use scantling_core::dtype::{Class, DType};
use scantling_core::finding::Severity;
use std::fmt::{self, Write};

/// Misses of one op that are told one by one.
const MISSES: usize = 3;

/// A table for each kernel, then what missed.
pub fn check(screen: &mut Screen<'_>, checked: &Checked, full: bool) -> fmt::Result {
    if let Some(tensors) = &checked.tensors {
        let (tried, usable) = (thousands(tensors.tried as u64), thousands(tensors.usable as u64));
        writeln!(
            screen,
            "tried {tried} of {usable} tensors of weights: the first and last of each role, element type and shape"
        )?;
        if tensors.sampled > tensors.tried {
            let left = plural(tensors.sampled - tensors.tried, "tensor");
            writeln!(
                screen,
                "left out {left} of those: of so many, each element type has as many tried as others"
            )?;
        }
        if tensors.narrowed > 0 {
            let long = plural(tensors.narrowed, "tensor");
            writeln!(screen, "tried {long} with long rows by the first of their columns alone")?;
        }
        let others = tensors.all.saturating_sub(tensors.usable + tensors.unreadable.len());
        if others > 0 {
            writeln!(screen, "left out {}: no weights that kernels multiply by", plural(others, "tensor"))?;
        }
        if let Some(first) = tensors.unreadable.first() {
            let lost = plural(tensors.unreadable.len(), "tensor");
            writeln!(screen, "the files do not hold {lost}, such as {first}: see scantling check")?;
        }
        writeln!(screen)?;
    }
    for kernel in &checked.kernels {
        let misses = kernel.misses().count();
        let (style, mark) =
            if misses == 0 { (GOOD, "✓") } else { (severity_style(Severity::Error), "✗") };
        screen.paint(style, mark)?;
        write!(screen, " ")?;
        strong(screen, &kernel.name)?;
        let threads = plural(kernel.threads, "thread");
        let cases = plural(kernel.rows.len(), "case");
        match misses {
            0 => writeln!(screen, "  {threads}, {cases}, all within their bounds")?,
            n => writeln!(screen, "  {threads}, {cases}, {} outside their bounds", thousands(n as u64))?,
        }
        table(kernel, full).write(screen, 2)?;
        told(screen, kernel, full)?;
        for line in &kernel.report {
            write!(screen, "  ")?;
            hanging(screen, line, 2, 4)?;
        }
        writeln!(screen)?;
    }
    if let Some((count, tensor)) = checked.not_finite() {
        let what = format!(
            "{} with the model's weights not finite, such as of {tensor}: held to be NaN or the same infinity, but \
             to no bound",
            plural(count, "output")
        );
        hanging(screen, &what, 0, 2)?;
    }
    match (checked.failed(), &checked.tensors) {
        (0, Some(tensors)) if !tensors.unreadable.is_empty() => {
            writeln!(screen, "nothing missed, but the model is damaged: not all of it could be tried")
        }
        (0, Some(_)) => writeln!(
            screen,
            "nothing missed with this model's types and shapes; without a model, all types and many lengths are tried"
        ),
        (0, None) => writeln!(screen, "every kernel computes what the ops mean"),
        (n, _) => writeln!(screen, "{} outside their bounds", plural(n, "case")),
    }
}

fn table(kernel: &KernelChecked, full: bool) -> Table {
    let heads = ["OP", "TYPE", ">CASES", ">MISSED", ">MAX ABS", ">MAX REL", ">WORST", ">BOUND", ">USED", ""];
    let mut table = Table::new(&heads);
    for sum in kernel.sums(full) {
        table.row([
            sum.op.to_owned(),
            types(&sum),
            thousands(sum.cases as u64),
            if sum.failed == 0 { String::new() } else { thousands(sum.failed as u64) },
            number(sum.max_abs),
            number(sum.max_rel),
            number(off(sum.worst)),
            number(sum.worst.bound),
            share(used(sum.worst)),
            if sum.failed == 0 { "pass" } else { "FAIL" }.to_owned(),
        ]);
    }
    table
}

fn types(sum: &Sum<'_>) -> String {
    match (sum.dtypes.as_slice(), sum.worst.dtype) {
        ([], _) => String::new(),
        ([one], _) => one.to_string(),
        (several, worst) => {
            let worst = worst.map_or("", DType::name);
            let kind = sum.class.map_or("type", of_class);
            format!("{}, worst {worst}", plural(several.len(), kind))
        }
    }
}

fn of_class(class: Class) -> &'static str {
    match class {
        Class::Float => "float",
        Class::Integer => "integer",
        Class::Quantised => "block type",
        _ => "type",
    }
}

fn number(x: f64) -> String {
    if x == 0.0 { "0".to_owned() } else { format!("{x:.1e}") }
}

fn share(x: f64) -> String {
    match x {
        _ if !x.is_finite() => String::new(),
        10.0.. => format!("{x:.0e}×"),
        _ => format!("{:.0}%", x * 100.0),
    }
}

/// What missed: some of each op, with the element that is furthest out.
fn told(screen: &mut Screen<'_>, kernel: &KernelChecked, full: bool) -> fmt::Result {
    for sum in kernel.sums(false).iter().filter(|s| s.failed > 0) {
        let shown = if full { usize::MAX } else { MISSES };
        for row in kernel.misses().filter(|row| sum.holds(row)).take(shown) {
            write!(screen, "  ")?;
            hanging(screen, &row.to_string(), 2, 4)?;
        }
        if sum.failed > shown {
            writeln!(
                screen,
                "  … and {} more of {} (--full shows all)",
                sum.failed.saturating_sub(shown),
                sum.op
            )?;
        }
    }
    Ok(())
}
