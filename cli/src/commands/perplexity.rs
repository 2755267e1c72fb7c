//! `perplexity`: how well a model foretells a text, and how far it is from another.

use super::{ids_of_text, note, note_context, report, tokens, written};
use crate::args::{LookArgs, OverrideArgs, PerplexityArgs};
use crate::backend::{self, Backend};
use crate::progress::Steps;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::{Look, Screen};
use scantling_core::error::{Error, Result};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::perplexity;
use scantling_core::registry::{Registry, Work};

pub(super) fn run(
    registry: &Registry,
    args: &PerplexityArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.run.kernels, registry, Work::Exact)?;
    let model = runner::load(registry, &args.model, &args.run.overrides)?;
    let ids = match (&args.text, &args.ids_file) {
        (Some(text), _) => ids_of_text(&model, &tokens::of_file(text)?)?,
        (None, Some(file)) => tokens::ids_in_file(file)?,
        (None, None) => Vec::new(),
    };
    let stride = args.stride.unwrap_or((args.context / 2).max(1));
    let windows = perplexity::windows(ids.len(), args.context, stride)?;
    let context = args.context.min(ids.len());
    note_context(look, &model, context);
    let none = OverrideArgs { arch: None, config: None, no_identity: true };
    let other = args.against.as_deref().map(|path| runner::load(registry, path, &none)).transpose()?;
    for model in [Some(&model), other.as_ref()].into_iter().flatten() {
        runner::prepare(model, |text| note(look, text))?;
    }
    let mut session = session(&model, &backend, context)?;
    let mut reference = other.as_ref().map(|other| self::session(other, &backend, context)).transpose()?;
    if let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= session.vocabulary()) {
        let most = session.vocabulary().saturating_sub(1);
        return Err(Error::Usage(format!("token {at} is id {id}, but the vocabulary ends at {most}")));
    }
    let steps = Steps::new(windows.len(), Look::of_stderr(look));
    steps.message("windows");
    let scored =
        perplexity::score(&mut session, reference.as_mut(), &ids, &windows, || steps.next("windows"));
    drop(steps);
    report(look, &backend);
    let scored = scored?;
    let how = text::compute::Reading { context: args.context, stride };
    if args.run.list.wants_json() {
        json::compute::perplexity(screen, &model, other.as_ref(), &backend, how, &scored);
    } else {
        written(text::compute::perplexity(screen, &model, other.as_ref(), &backend, how, &scored))?;
    }
    Ok(0)
}

fn session<'m>(model: &'m Model, backend: &'m Backend, context: usize) -> Result<Session<'m>> {
    let kernel = backend.kernel.as_ref();
    Session::new(model, kernel, Options { context, kv: runner::kv_type(None, kernel), batch: BATCH })
}
