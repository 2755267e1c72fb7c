//! `kernels bench`: how fast kernels are, and how far from what the machine can do.

use super::model::{self, Model};
use crate::args::{BenchForm, KernelsBenchArgs, LookArgs};
use crate::backend::{Backend, backends};
use crate::bench::baseline::{Baseline, Comparison};
use crate::bench::cases::{self, Case, Choice, Chosen, Data, Dims, Stored};
use crate::bench::{Contender, Measured, Row, measure, ranked};
use crate::commands::written;
use crate::progress::Steps;
use crate::render::json::bench::key;
use crate::render::{json, text};
use crate::terminal::{self, Look, Screen};
use scantling_core::error::{Error, Result};
use scantling_core::machine::Machine;
use scantling_core::paging;
use scantling_core::registry::{Registry, SPREADER, Work};
use std::fmt::{self, Write};

/// Seconds that a run is to take, the making of data not counted.
const SECONDS: f64 = 50.0;
/// What one number may take of it: enough for a few repetitions, and no more than helps.
const EACH: (f64, f64) = (0.05, 0.5);
/// The same in a hurry.
const EACH_QUICK: f64 = 0.04;

pub(super) fn run(
    registry: &Registry,
    args: &KernelsBenchArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let contenders = contenders(registry, args)?;
    let model = args.model.as_deref().map(|path| Model::open(registry, path)).transpose()?;
    if let Some(baseline) = &baseline {
        let shown = model.as_ref().map(|m| (m.path.display().to_string(), m.prepared.bytes));
        if let Some(note) = baseline.fits(shown.as_ref().map(|(path, bytes)| (&**path, *bytes)))? {
            beside(look, |screen| writeln!(screen, "{note}"));
        }
    }
    let measured = measured(args, &contenders, model.as_ref(), baseline.as_ref(), screen.look())?;
    let machine = json::kernels::machine(&Machine::here());
    let compared = baseline.map(|baseline| baseline.compare(&measured, &machine));
    match args.form() {
        BenchForm::Json => {
            json::bench::bench(screen, &measured, model.as_ref().map(Model::shown), compared.as_ref());
        }
        BenchForm::Csv => {
            json::bench::csv(screen, &measured);
            // A spreadsheet takes the rows; what else there is to say is for whoever runs it.
            beside(look, |screen| said(screen, &measured, compared.as_ref()));
        }
        BenchForm::Text => written(shown(screen, &measured, model.as_ref(), compared.as_ref()))?,
    }
    Ok(u8::from(compared.is_some_and(|c| !c.slower.is_empty())))
}

/// Writes to standard error.
fn beside(look: &LookArgs, write: impl FnOnce(&mut Screen<'_>) -> fmt::Result) {
    let look = Look::of_stderr(look);
    let mut out = terminal::stderr(&look);
    let mut screen = Screen::new(&mut out, look);
    // Where standard error is closed there is nobody to tell.
    let _ = write(&mut screen);
    let _ = screen.finish();
}

/// The kernels that take part, the one that ratios are to among them.
fn contenders(registry: &Registry, args: &KernelsBenchArgs) -> Result<Vec<Contender>> {
    let usual = || {
        let mut specs: Vec<String> = registry.usable_leaves().map(|k| k.name.to_owned()).collect();
        if registry.kernels().iter().any(|k| k.name == SPREADER) {
            let best = [false, true].into_iter().filter_map(|fast| registry.best_plugin(fast));
            specs.extend(best.map(|k| format!("{SPREADER}+{}", k.name)));
        }
        specs
    };
    let mut all = backends(&args.kernels, registry, Work::Fast, usual)?;
    if let Some(spec) = &args.against {
        let against = Backend::new(registry, spec, Work::Fast, first(&args.kernels.threads))?;
        match all.iter().position(|b| b.name == against.name && b.threads == against.threads) {
            Some(at) => all.swap(0, at),
            None => all.insert(0, against),
        }
    } else if let Some(at) = all.iter().position(|b| b.name == "scalar") {
        all.swap(0, at);
    }
    Ok(all.into_iter().map(Contender::new).collect())
}

fn first(threads: &[usize]) -> usize {
    threads.first().copied().unwrap_or(0)
}

fn measured(
    args: &KernelsBenchArgs,
    contenders: &[Contender],
    model: Option<&Model>,
    baseline: Option<&Baseline>,
    look: Look,
) -> Result<Measured> {
    let tensors = model.map(Model::tensors).transpose()?.unwrap_or_default();
    for (tensor, contender) in tensors.iter().flat_map(|t| contenders.iter().map(move |c| (t, c))) {
        tensor.label(contender.backend.kernel.as_ref());
    }
    let groups = model::by_shape(&tensors);
    let stored: Vec<Stored> = groups.iter().map(|(stored, _)| *stored).collect();
    let dims = model.map_or_else(Dims::default, |m| m.dims);
    let stored = model.map(|_| &*stored);
    let mut dtypes = args.dtype.clone();
    dtypes.sort_unstable();
    dtypes.dedup();
    let choice = Choice { ops: &args.op, dtypes: &dtypes, quick: args.quick, stored, dims };
    let Chosen { cases, left_out } = cases::chosen(&choice, paging::available());
    if cases.is_empty() {
        return Err(nothing(&left_out));
    }
    let takes_part = |case: &Case| -> Vec<&Contender> {
        // Kernels that round activations do so for products with quantised weights; the rest they inherit.
        let same = |c: &&Contender| {
            !c.backend.rounds_activations || !args.kernels.kernel.is_empty() || case.rounds()
        };
        contenders.iter().filter(same).collect()
    };
    let numbers: usize = cases.iter().map(|case| takes_part(case).len()).sum();
    let each = if args.quick { EACH_QUICK } else { (SECONDS / numbers.max(1) as f64).clamp(EACH.0, EACH.1) };
    if let Some(baseline) = baseline {
        let keys = |case: &Case| {
            let shape = case.shape(dims);
            takes_part(case).into_iter().map(move |c| key(&c.backend.name, c.backend.threads, shape))
        };
        baseline.meets(cases.iter().flat_map(keys))?;
    }
    let mut data = Data::new(groups, dims, &cases)?;
    let steps = Steps::new(cases.len(), look);
    let mut rows: Vec<Row> = Vec::new();
    for case in &cases {
        steps.next(&case.words());
        rows.extend(data.with(case, |job| measure(job, &takes_part(case), each))?);
    }
    if let Some(baseline) = baseline {
        baseline.settle(&mut rows, |row| {
            let case = cases.iter().find(|case| case.shape(dims) == row.shape);
            let Some((case, contender)) = case.zip(contenders.iter().find(|c| row.of(c))) else {
                return Ok(None);
            };
            steps.next(&format!("{} again", case.words()));
            Ok(data.with(case, |job| measure(job, &[contender], each))?.pop())
        })?;
    }
    let measured = ranked(rows, contenders, data.huge_share(), left_out).filter(|m| !m.rows.is_empty());
    measured.ok_or_else(|| nothing(&[]))
}

/// Why nothing is measured.
fn nothing(left_out: &[String]) -> Error {
    Error::Usage(match left_out.first() {
        None => "there is nothing to measure: no op that was asked for has any of these element types".into(),
        Some(first) => format!(
            "there is nothing that could be measured: {first}; see whether the model's config is right, free memory, \
             or name other ops with --op"
        ),
    })
}

fn shown(
    screen: &mut Screen<'_>,
    measured: &Measured,
    model: Option<&Model>,
    compared: Option<&Comparison>,
) -> fmt::Result {
    text::kernels::machine(screen, &Machine::here())?;
    if let Some(model) = model {
        text::bench::mapped(screen, &model.prepared)?;
    }
    if let Some(share) = measured.made_up_huge {
        writeln!(screen, "made-up weights, {:.0}% on huge pages", share * 100.0)?;
    }
    writeln!(screen)?;
    text::bench::bench(screen, measured)?;
    text::bench::limits(screen, measured)?;
    said(screen, measured, compared)
}

/// What there is to say beside the numbers.
fn said(screen: &mut Screen<'_>, measured: &Measured, compared: Option<&Comparison>) -> fmt::Result {
    text::bench::left_out(screen, measured)?;
    text::bench::reports(screen, measured)?;
    compared.map_or(Ok(()), |compared| text::bench::compared(screen, measured, compared))
}
