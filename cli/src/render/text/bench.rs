//! Measurements of kernels as tables.

use super::table::Table;
use super::{hanging, strong};
use crate::args::BenchOp;
use crate::bench::baseline::Comparison;
use crate::bench::{Measured, Row, Shape};
use crate::render::words::{bytes, plural};
use crate::terminal::Screen;
use scantling_core::dtype::DType;
use scantling_core::paging::Prepared;
use std::fmt::{self, Write};

/// A table for each op.
pub fn bench(screen: &mut Screen<'_>, measured: &Measured) -> fmt::Result {
    for op in BenchOp::ALL {
        let rows: Vec<&Row> = measured.rows.iter().filter(|r| r.shape.op == op).collect();
        if rows.is_empty() {
            continue;
        }
        strong(screen, op.word())?;
        writeln!(screen, "   {}", shapes(op))?;
        table(&rows).write(screen, 2)?;
        writeln!(screen)?;
    }
    if measured.rows.iter().any(|r| r.part < 1.0) {
        let note = "~ part of the op was run, and its time scaled to all of it";
        writeln!(screen, "{note}")?;
    }
    writeln!(screen, "ratios are to {}; ± is half of the interquartile range", measured.against)
}

/// What the numbers of a shape are.
fn shapes(op: BenchOp) -> &'static str {
    match op {
        BenchOp::Matmul => "rows × inputs → outputs; GB/s of stored weights",
        BenchOp::Decode => "rows × elements; GB/s of stored weights",
        BenchOp::Attention => "queries × width, positions; GB/s of keys and values",
        _ => "rows × columns; GB/s of activations, read and written",
    }
}

fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new(&[
        ">RATIO", ">SHARE", "OF", "TYPE", "SHAPE", "KERNEL", ">THR", ">TIME", ">±", ">GB/s", ">GFLOP/s",
    ]);
    let mut before = None;
    for row in rows {
        let again = before.replace(row.shape) == Some(row.shape);
        let once = |text: String| if again { String::new() } else { text };
        let gflops = row.cost.flops / row.time.median / 1e9;
        table.row([
            row.ratio.map_or_else(String::new, |r| format!("{r:.2}×")),
            row.share().map_or_else(String::new, |s| format!("{:.0}%", s * 100.0)),
            row.limit.map_or("", |l| l.word).to_owned(),
            once(row.shape.dtype.map_or("", DType::name).to_owned()),
            once(shape(row.shape)),
            row.kernel.clone(),
            row.threads.to_string(),
            format!("{}{}", if row.part < 1.0 { "~" } else { "" }, time(row.time.median)),
            format!("{:.0}%", row.time.noise() * 50.0),
            format!("{:.2}", row.cost.bytes / row.time.median / 1e9),
            if gflops > 0.0 { format!("{gflops:.1}") } else { String::new() },
        ]);
    }
    table
}

fn shape(shape: Shape) -> String {
    let Shape { op, rows, inputs, outputs, .. } = shape;
    match op {
        BenchOp::Matmul => format!("{rows} × {inputs} → {outputs}"),
        BenchOp::Attention => format!("{rows} × {inputs}, {outputs}"),
        _ => format!("{rows} × {inputs}"),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// What the machine could do, by kernel: the best of the rounds' medians.
pub fn limits(screen: &mut Screen<'_>, measured: &Measured) -> fmt::Result {
    let mut seen: Vec<(&str, usize)> = measured.rows.iter().map(|r| (&*r.kernel, r.threads)).collect();
    seen.sort_unstable();
    seen.dedup();
    let mut table = Table::new(&["KERNEL", ">THR", ">READ GB/s", ">COPY GB/s", ">MULTIPLY GFLOP/s"]);
    for (kernel, threads) in seen {
        let mine = || measured.rows.iter().filter(|r| (&*r.kernel, r.threads) == (kernel, threads));
        let best = |of: &dyn Fn(&Row) -> Option<f64>| {
            let best = mine().filter_map(of).reduce(f64::max);
            best.map_or_else(String::new, |rate| format!("{:.1}", rate / 1e9))
        };
        table.row([
            kernel.to_owned(),
            threads.to_string(),
            best(&|r| r.rates.read),
            best(&|r| r.rates.copy),
            best(&|r| r.rates.peak),
        ]);
    }
    strong(screen, "limits")?;
    writeln!(screen, "   measured in the same rounds")?;
    table.write(screen, 2)?;
    writeln!(screen)
}

/// What was not measured, and why.
pub fn left_out(screen: &mut Screen<'_>, measured: &Measured) -> fmt::Result {
    measured.left_out.iter().try_for_each(|line| hanging(screen, &format!("left out: {line}"), 0, 10))
}

/// What kernels had to say.
pub fn reports(screen: &mut Screen<'_>, measured: &Measured) -> fmt::Result {
    for (kernel, _, lines) in &measured.reports {
        strong(screen, kernel)?;
        writeln!(screen)?;
        lines.iter().try_for_each(|line| writeln!(screen, "  {line}"))?;
        writeln!(screen)?;
    }
    Ok(())
}

/// "mapped 1.2 GiB, 98% on huge pages, populated in 31 ms".
pub fn mapped(screen: &mut Screen<'_>, prepared: &Prepared) -> fmt::Result {
    write!(screen, "mapped {}, ", bytes(prepared.bytes))?;
    match prepared.huge_share() {
        Some(share) => write!(screen, "{:.0}% on huge pages, ", share * 100.0)?,
        None => write!(screen, "pages unknown, ")?,
    }
    match prepared.populated {
        Some(took) => writeln!(screen, "populated in {}", time(took.as_secs_f64())),
        None => writeln!(screen, "to be read as it is used"),
    }
}

/// What became of an earlier run's numbers.
pub fn compared(screen: &mut Screen<'_>, measured: &Measured, compared: &Comparison) -> fmt::Result {
    for change in &compared.slower {
        if let Some(row) = measured.rows.get(change.row) {
            let what = format!(
                "{} {} {}",
                row.shape.op.word(),
                row.shape.dtype.map_or("", DType::name),
                shape(row.shape)
            );
            let factor =
                format!("{:.2}× the time (noise explains {:.2}×)", change.factor, 1.0 + change.allowed);
            hanging(screen, &format!("slower: {}, {what}: {factor}", row.kernel), 0, 8)?;
        }
    }
    if compared.other_machine {
        writeln!(screen, "note: the baseline was measured on another machine")?;
    }
    let rest = [(compared.new, "new"), (compared.gone, "only in the baseline")];
    let rest: String = rest.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
    writeln!(
        screen,
        "baseline: {} compared, {} slower and {} faster beyond noise{rest}",
        plural(compared.matched, "row"),
        compared.slower.len(),
        compared.faster
    )
}
