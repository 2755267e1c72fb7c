//! Whole models that were run, as tables.

use super::table::Table;
use super::{bench::mapped, kernels, strong};
use crate::bench::runs::Measured;
use crate::render::words::bytes;
use crate::terminal::Screen;
use scantling_core::machine::Machine;
use scantling_core::model::Model;
use scantling_core::paging::Prepared;
use std::fmt::{self, Write};

/// Rates of each kernel.
pub fn bench(screen: &mut Screen<'_>, model: &Model, prepared: &Prepared, all: &[Measured]) -> fmt::Result {
    kernels::machine(screen, &Machine::here())?;
    write!(screen, "{}, ", model.family)?;
    mapped(screen, prepared)?;
    writeln!(screen)?;
    let mut table =
        Table::new(&["TEST", "KERNEL", ">THR", ">TOKENS/s", ">±", ">SHARE", "OF", "KV", ">CACHE", ">OTHER"]);
    for measured in all {
        for run in &measured.runs {
            table.row([
                run.test.clone(),
                measured.kernel.clone(),
                measured.threads.to_string(),
                format!("{:.2}", run.rate()),
                format!("{:.1}%", run.time.noise() * 50.0),
                run.share().map_or_else(String::new, |s| format!("{:.0}%", s * 100.0)),
                run.limit.map_or("", |l| l.word).to_owned(),
                measured.kv.dtype().to_string(),
                bytes(measured.beside.1 as u64),
                bytes(measured.beside.0 as u64),
            ]);
        }
    }
    table.write(screen, 0)?;
    for measured in all.iter().filter(|m| !m.report.is_empty()) {
        writeln!(screen)?;
        report(screen, &measured.kernel, &measured.report)?;
    }
    Ok(())
}

/// What a kernel that watches another has seen.
pub fn report(screen: &mut Screen<'_>, kernel: &str, lines: &[String]) -> fmt::Result {
    strong(screen, kernel)?;
    writeln!(screen)?;
    lines.iter().try_for_each(|line| writeln!(screen, "  {line}"))
}
