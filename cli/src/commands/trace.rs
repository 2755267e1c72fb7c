//! `trace`: every intermediate of a forward pass, written down or held against another run.

use super::{ids_of_text, note, note_context, report, written};
use crate::args::{Ids, LookArgs, OverrideArgs, TraceArgs};
use crate::backend::{self, Backend};
use crate::output::NewFile;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::cache::KvType;
use scantling_core::error::{Error, Result};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::{Registry, Work};
use scantling_core::source::WeightSource;
use scantling_core::trace::{self, Allowance, Dump, Making, Side, Trace};
use std::path::{Path, PathBuf};

/// What says that a kernel is meant, and no file.
const KERNEL: &str = "kernel:";

/// What a run is held against.
enum Against {
    Dump(Box<dyn WeightSource>),
    Model(Box<Model>),
    Kernel(Backend),
}

impl Against {
    /// The files that it is read from.
    fn files(&self) -> Vec<PathBuf> {
        match self {
            Against::Dump(source) => runner::files_of(source.as_ref()),
            Against::Model(model) => runner::files_of(model.source.as_ref()),
            Against::Kernel(_) => Vec::new(),
        }
    }
}

pub(super) fn run(
    registry: &Registry,
    args: &TraceArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.run.kernels, registry, Work::Exact)?;
    let against = args.against.as_deref().map(|text| against(registry, args, text)).transpose()?;
    let model = runner::load(registry, &args.model, &args.run.overrides)?;
    let ids = ids(args, &model, against.as_ref())?;
    note_context(look, &model, ids.len());
    let others =
        against.iter().filter_map(|a| if let Against::Model(m) = a { Some(m.as_ref()) } else { None });
    for model in [&model].into_iter().chain(others) {
        runner::prepare(model, |text| note(look, text))?;
    }
    let family = match &against {
        Some(Against::Dump(source)) => trace::family_in(source.as_ref()),
        Some(Against::Model(other)) => Some(other.family),
        _ => None,
    };
    if let Some(family) = family.filter(|family| *family != model.family) {
        note(
            look,
            &format!(
                "these are different families ({}, {family}): their numbers have nothing in common",
                model.family
            ),
        );
    }
    let making = Making::of(&model, backend.kernel.as_ref());
    if let Some(path) = &args.output {
        let mut inputs = runner::inputs(&model, &args.model, &args.run.overrides);
        inputs.extend(against.iter().flat_map(Against::files));
        // Begun before anything is computed, so that nothing is computed in vain.
        let file = NewFile::create(path, &inputs)?;
        let trace = trace::record(&mut session(&model, &backend, ids.len())?, &ids)?;
        write(registry, file, &model, &making, &ids, &trace)?;
        if against.is_none() {
            report(look, &backend);
        }
        if against.is_none() && args.run.list.wants_json() {
            json::compute::traced(screen, &model, &backend, &ids, path, &trace);
        } else if against.is_none() {
            written(text::compute::traced(screen, &model, &backend, path, &trace))?;
        }
        if against.is_none()
            && let Some((place, bad, of)) = trace.first_not_finite()
        {
            let what = format!(
                "{place} is the first intermediate of which elements ({bad} of {of}) are NaN or infinite"
            );
            return Err(Error::NotFinite { what });
        }
    }
    let Some(against) = against else { return Ok(0) };
    let found = session(&model, &backend, ids.len())?;
    found.fits(&ids)?;
    let (mut expected, made) = match &against {
        Against::Dump(source) => {
            let file = args.against.as_deref().unwrap_or_default();
            // Its tensors may be found to lie outside of it only now.
            let dump = Dump::of(source.as_ref(), file).map_err(|error| unreadable(file, error))?;
            dump.has_rows_for(ids.len())?;
            let made = dump.making().clone();
            (Side::Dump(Box::new(dump)), made)
        }
        Against::Model(other) => run_of(other, &backend, &ids)?,
        Against::Kernel(other) => run_of(&model, other, &ids)?,
    };
    let allowance = args.tolerance.map_or_else(|| Allowance::between(&making, &made), Allowance::given);
    let mut found = Side::Run(Box::new(found));
    let compared = trace::compare(&mut found, &mut expected, &ids, allowance)?;
    report(look, &backend);
    let watched = match &against {
        Against::Kernel(other) => {
            report(look, other);
            other.kernel.report()
        }
        _ => Vec::new(),
    };
    let against = args.against.as_deref().unwrap_or_default();
    if args.run.list.wants_json() {
        let against = json::compute::Against { path: against, made: &made, report: &watched };
        json::compute::compared(screen, &model, &backend, &ids, against, &compared);
    } else {
        written(text::compute::compared(screen, &model, &backend, against, &made, &compared, args.full))?;
    }
    Ok(u8::from(!compared.holds()))
}

fn against(registry: &Registry, args: &TraceArgs, text: &str) -> Result<Against> {
    if let Some(spec) = text.strip_prefix(KERNEL) {
        let threads = args.run.kernels.threads.first().copied().unwrap_or(0);
        return Ok(Against::Kernel(Backend::new(registry, spec, Work::Exact, threads)?));
    }
    let source = registry.open(Path::new(text)).map_err(|error| unreadable(text, error))?;
    if trace::is_dump(source.as_ref()) {
        return Ok(Against::Dump(source));
    }
    let none = OverrideArgs { arch: None, config: None, no_identity: true };
    Ok(Against::Model(Box::new(runner::load(registry, Path::new(text), &none)?)))
}

/// What is held against is told by its own name: errors are headed with that of the model.
fn unreadable(text: &str, error: Error) -> Error {
    match error {
        Error::Malformed { .. } => Error::Foreign {
            file: text.to_owned(),
            what: format!("neither a trace nor a model can be read from it:\n{error}"),
            advice: "name a safetensors file that `scantling trace -o` wrote, or a model".to_owned(),
        },
        error => error,
    }
}

/// The tokens: as given, or as the trace says; if both, they have to be the same.
fn ids(args: &TraceArgs, model: &Model, against: Option<&Against>) -> Result<Vec<u32>> {
    let given = match &args.prompt {
        Some(text) => ids_of_text(model, text)?,
        None => Ids::all(&args.ids),
    };
    let said = match against {
        Some(Against::Dump(source)) => trace::ids_in(source.as_ref()),
        _ => None,
    };
    let said = said.transpose().map_err(|what| Error::Foreign {
        file: args.against.clone().unwrap_or_default(),
        what,
        advice: "expected whole numbers with commas between; make the trace anew".to_owned(),
    })?;
    match said {
        Some(said) if given.is_empty() || given == said => Ok(said),
        Some(_) => {
            let text = "the trace is of other tokens; leave --ids and --prompt away";
            Err(Error::Usage(text.to_owned()))
        }
        None if given.is_empty() => {
            let text = "which tokens? Give --prompt or --ids: what it is held against does not say";
            Err(Error::Usage(text.to_owned()))
        }
        None => Ok(given),
    }
}

fn session<'m>(model: &'m Model, backend: &'m Backend, context: usize) -> Result<Session<'m>> {
    let options = Options { context, kv: KvType::F32, batch: BATCH };
    Session::new(model, backend.kernel.as_ref(), options)
}

fn run_of<'m>(model: &'m Model, backend: &'m Backend, ids: &[u32]) -> Result<(Side<'m>, Making)> {
    let session = session(model, backend, ids.len())?;
    session.fits(ids)?;
    Ok((Side::Run(Box::new(session)), Making::of(model, backend.kernel.as_ref())))
}

fn write(
    registry: &Registry,
    mut file: NewFile,
    model: &Model,
    making: &Making,
    ids: &[u32],
    trace: &Trace,
) -> Result<()> {
    let format = registry.formats().iter().find(|f| f.name == "safetensors");
    let plan = format.and_then(|f| f.plan);
    let plan = plan.ok_or_else(|| Error::Usage("this program cannot write safetensors files".to_owned()))?;
    let (metadata, specs) = trace::layout(model, making, ids, trace);
    let plan = plan(&metadata, &specs)?;
    let mut parts: Vec<_> = plan.offsets.iter().zip(trace.parts()).collect();
    parts.sort_by_key(|(offset, _)| **offset);
    file.write(&plan.header)?;
    let mut at = plan.header.len() as u64;
    for (offset, (_, rows)) in parts {
        file.write(&vec![0; usize::try_from(offset.saturating_sub(at)).unwrap_or(0)])?;
        rows.iter().try_for_each(|row| file.floats(row))?;
        at = *offset + (rows.rows() * rows.cols() * size_of::<f32>()) as u64;
    }
    file.finish()
}
