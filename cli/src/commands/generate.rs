//! `generate`: a model writes on from a text.

use super::{note, note_context, tokens, written};
use crate::args::{GenerateArgs, KvWish, LookArgs, SamplingArgs};
use crate::backend;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::error::{Error, Result};
use scantling_core::generate::{Ending, Stops, write_on};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::{Registry, Work};
use scantling_core::sample::{Sampler, Sampling};
use scantling_core::tokenizer::{ChatTemplate, Message, Reading, Tokenizer};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell gives to a program that was interrupted.
const INTERRUPTED: u8 = 130;

pub(super) fn run(
    registry: &Registry,
    args: &GenerateArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.kernels, registry, Work::Fast)?;
    let model = runner::load(registry, &args.model, &args.overrides)?;
    let tokenizer = Tokenizer::of(model.source.as_ref())?;
    let ids = prompt(args, &model, &tokenizer)?;
    let context = args.context.unwrap_or(ids.len().saturating_add(args.new_tokens));
    note_context(look, &model, context);
    runner::prepare(&model, |text| note(look, text))?;
    let kernel = backend.kernel.as_ref();
    let kv = runner::kv_type(args.kv_type.map(KvWish::kind), kernel);
    let mut session = Session::new(&model, kernel, Options { context, kv, batch: BATCH })?;
    session.fits(&ids)?;
    let mut sampler = Sampler::new(sampling(&args.sampling));
    let stops = Stops { tokens: args.new_tokens, texts: args.stop.clone(), ignore_ends: args.ignore_eos };
    let json = args.list.wants_json();
    heed_interrupts();
    let done = write_on(&mut session, &tokenizer, &mut sampler, &[], &ids, &stops, &mut |text| {
        if !json {
            screen.send(text::generate::shown(text).as_bytes());
            screen.flush();
        }
        !STOPPED.load(Ordering::Relaxed)
    })?;
    if json {
        json::generate::generate(screen, &model, &backend, kv, &ids, &done);
    } else {
        screen.send(b"\n");
        screen.flush();
        let cache = session.cache_bytes(session.len()).unwrap_or(0);
        let held = session.owned_bytes().saturating_add(cache);
        told(look, |screen| text::generate::summary(screen, &model, &backend, ids.len(), held, &done))?;
    }
    Ok(if done.ending == Ending::Interrupted { INTERRUPTED } else { 0 })
}

/// Writes to standard error.
fn told(look: &LookArgs, tell: impl FnOnce(&mut Screen<'_>) -> std::fmt::Result) -> Result<()> {
    let look = crate::terminal::Look::of_stderr(look);
    let mut out = crate::terminal::stderr(&look);
    let mut screen = Screen::new(&mut out, look);
    written(tell(&mut screen))?;
    // Where standard error is closed there is nobody to tell.
    let _ = screen.finish();
    Ok(())
}

/// The tokens of what is asked for.
fn prompt(args: &GenerateArgs, model: &Model, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let given = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => tokens::of_file(path)?,
        (None, None) => tokens::of_stdin()?,
    };
    let ids = if args.chat {
        let template = ChatTemplate::of(model.source.as_ref(), tokenizer)?;
        let template = template.ok_or_else(|| {
            Error::Usage(format!("{} has no chat template; leave --chat out", args.model.display()))
        })?;
        let mut messages: Vec<Message> = Vec::new();
        messages.extend(args.system.as_ref().map(|text| Message::new("system", text)));
        messages.push(Message::new("user", given));
        tokenizer.ids(&template.render(&messages, true)?, Reading::TEMPLATED)?
    } else {
        tokenizer.ids(&given, Reading::PROMPT)?
    };
    if ids.is_empty() {
        return Err(Error::Usage("the text is no token at all: there is nothing to go on from".into()));
    }
    Ok(ids)
}

fn sampling(args: &SamplingArgs) -> Sampling {
    Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repeat_penalty: args.repeat_penalty,
        seed: args.seed,
        ..Sampling::default()
    }
}

static STOPPED: AtomicBool = AtomicBool::new(false);

/// The first interrupt ends the text behind the token under way, a second one the program.
fn heed_interrupts() {
    let heed = || {
        if STOPPED.swap(true, Ordering::Relaxed) {
            #[allow(clippy::exit, clippy::disallowed_methods)]
            // asked for twice, while something long is under way
            std::process::exit(i32::from(INTERRUPTED));
        }
    };
    // Where there is a handler already, or none can be had, an interrupt ends the program as ever.
    let _ = ctrlc::set_handler(heed);
}
