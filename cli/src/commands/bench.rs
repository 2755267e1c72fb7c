//! `bench`: how fast a model reads prompts and writes tokens.

use super::written;
use crate::args::{BenchArgs, KvWish, LookArgs};
use crate::backend::{Backend, backends};
use crate::bench::runs::{Measured, Plan, runs};
use crate::progress::Steps;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::{Look, Screen};
use scantling_core::error::{Error, Result};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::{Registry, Work};

pub(super) fn run(
    registry: &Registry,
    args: &BenchArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let plan = Plan {
        prompt: args.prompt_tokens,
        new: args.new_tokens,
        depth: args.depth,
        repetitions: args.repetitions,
    };
    if plan.prompt == 0 && plan.new == 0 {
        return Err(Error::Usage("there is nothing to measure: -p and -n are both 0".into()));
    }
    let contenders = backends(&args.run.kernels, registry, Work::Fast, || vec!["auto".to_owned()])?;
    let (model, prepared) = runner::open(registry, &args.model, &args.run.overrides)?;
    let steps = Steps::new(contenders.len(), Look::of_stderr(look));
    let mut all = Vec::new();
    for backend in &contenders {
        steps.next(&backend.name);
        all.push(measured(&model, backend, args, plan)?);
    }
    drop(steps);
    if args.run.list.wants_json() {
        json::runs::bench(screen, &model, &prepared, &all);
    } else {
        written(text::runs::bench(screen, &model, &prepared, &all))?;
    }
    Ok(0)
}

fn measured(model: &Model, backend: &Backend, args: &BenchArgs, plan: Plan) -> Result<Measured> {
    let kernel = backend.kernel.as_ref();
    let kv = runner::kv_type(args.kv_type.map(KvWish::kind), kernel);
    let options = Options { context: plan.context(), kv, batch: BATCH };
    let mut session = Session::new(model, kernel, options)?;
    let largest = model.source.files().iter().max_by_key(|f| f.len());
    let weights = match largest {
        Some(file) => file.bytes(0..file.len())?,
        None => Default::default(),
    };
    let runs = runs(&mut session, kernel, weights, plan)?;
    let cache = session.cache_bytes(plan.context()).unwrap_or(0);
    let beside = (session.owned_bytes(), cache);
    let report = kernel.report();
    Ok(Measured { kernel: backend.name.clone(), threads: backend.threads, kv, beside, runs, report })
}
