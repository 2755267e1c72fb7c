//! `memory`: what a run of a model would take, and whether it fits.

use super::{note, written};
use crate::args::{KvWish, LookArgs, MemoryArgs};
use crate::backend;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::memory::{self, Estimate, Memory, Options, Planned, Storing, USUAL};
use scantling_core::paging;
use scantling_core::registry::{Registry, Work};

/// What is shown.
pub struct Told<'a> {
    /// The path as it was given.
    pub path: String,
    /// Name and threads of the kernel.
    pub kernel: (&'a str, usize),
    /// What a run takes.
    pub memory: &'a Memory<'a>,
    /// The context that was asked for.
    pub estimate: Estimate,
    /// Others.
    pub table: Vec<Estimate>,
    /// How the weights would be stored, and in other ways, where there are none.
    pub planned: Option<(Storing, Vec<(Storing, u64)>)>,
    /// Whether the vocabulary is counted.
    pub vocabulary: bool,
    /// The bytes that a context was to fit into, and the longest that does; `None` where all do.
    pub fit: Option<(u64, Option<usize>)>,
    /// Whether a context was asked for.
    pub asked: bool,
    /// Memory that is free, and memory in all.
    pub machine: (Option<u64>, Option<u64>),
}

impl Told<'_> {
    /// The longest context that the model was made for, where this one is longer.
    pub fn beyond(&self, context: usize) -> Option<usize> {
        self.memory.longest.filter(|made_for| context > *made_for)
    }

    /// Whether the context that was asked for fits into what is free; `None` where the system does not say.
    pub fn fits(&self) -> Option<bool> {
        self.machine.0.map(|free| self.estimate.total <= free)
    }
}

pub(super) fn run(
    registry: &Registry,
    args: &MemoryArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.run.kernels, registry, Work::Fast)?;
    let kernel = backend.kernel.as_ref();
    let kv = runner::kv_type(args.kv_type.map(KvWish::kind), kernel);
    let options = Options { kv, batch: args.batch };
    let config = memory::config_at(registry, &args.model)?;
    let (memory, planned, vocabulary) = match config {
        Some(config) => {
            let storing = args.weights.unwrap_or(Storing::Plain(DType::BF16));
            let planned = Planned::of(registry, args.run.overrides.arch.as_deref(), &config, storing)?;
            let others = USUAL.iter().map(|storing| (*storing, planned.stored(*storing))).collect();
            let vocabulary = planned.has_vocabulary();
            (planned.memory(kernel, options)?, Some((storing, others)), vocabulary)
        }
        None if args.weights.is_some() => {
            return Err(Error::Usage(
                "--weights is for a config.json alone: here the weights are there, stored as they are"
                    .to_owned(),
            ));
        }
        None => {
            let model = runner::load(registry, &args.model, &args.run.overrides)?;
            (Memory::of(&model, kernel, options)?, None, true)
        }
    };
    let longest = memory.longest;
    let fit = args.fit.map(|bytes| (bytes, memory.largest(bytes)));
    let context = args.context.unwrap_or_else(|| match fit {
        Some((_, Some(found))) => found.max(1),
        _ => longest.unwrap_or(4096).min(4096),
    });
    if let Some(most) = longest.filter(|most| args.context.is_some() && context > *most) {
        if memory.ends {
            return Err(Error::Usage(format!(
                "a context of {context} tokens, but the model has a place for {most} positions: ask for a smaller one"
            )));
        }
        if args.run.list.wants_json() && !args.quiet {
            // As a text it is said with the verdict.
            note(look, &format!("{context} tokens are more than the {most} that the model was made for"));
        }
    }
    let told = Told {
        path: args.model.display().to_string(),
        kernel: (&backend.name, backend.threads),
        estimate: memory.at(context),
        table: memory.contexts().into_iter().map(|context| memory.at(context)).collect(),
        planned,
        vocabulary,
        fit,
        asked: args.context.is_some(),
        machine: (paging::available(), paging::total()),
        memory: &memory,
    };
    if args.run.list.wants_json() {
        json::memory::memory(screen, &told);
    } else {
        written(text::memory::memory(screen, &told, args.quiet))?;
    }
    Ok(u8::from(match told.fit {
        // Whoever says what it is to fit into does not ask for this machine.
        Some((size, _)) if told.asked => told.estimate.total > size,
        Some((_, longest)) => longest == Some(0),
        None => told.fits() == Some(false),
    }))
}
