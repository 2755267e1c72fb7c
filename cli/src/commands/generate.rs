//! `generate`: a model writes on from a text, or answers turn after turn.

use super::chat;
use super::tokens::Asked;
use super::{note, note_context, report, written};
use crate::args::{GenerateArgs, KvWish, LookArgs, SamplingArgs};
use crate::backend::{self, Backend};
use crate::interrupt::{self, INTERRUPTED, Interrupts};
use crate::render::{json, text};
use crate::runner;
use crate::terminal::{Look, Screen};
use scantling_core::cache::KvType;
use scantling_core::error::{Error, Result};
use scantling_core::generate::{Ending, Stops, Written, write_on};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::{Registry, Work};
use scantling_core::sample::{Sampler, Sampling};
use scantling_core::tokenizer::{ChatTemplate, Reading, Tokenizer};

/// What writes: all that is settled before the first token.
pub(super) struct Writer<'a> {
    pub args: &'a GenerateArgs,
    pub look: &'a LookArgs,
    pub model: &'a Model,
    pub backend: &'a Backend,
    pub tokenizer: &'a Tokenizer,
    pub kv: KvType,
}

pub(super) fn run(
    registry: &Registry,
    args: &GenerateArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let backend = backend::one(&args.run.kernels, registry, Work::Fast)?;
    let model = runner::load(registry, &args.model, &args.run.overrides)?;
    let tokenizer = runner::prepare_with_tokenizer(&model, |text| note(look, text))?;
    let idle = args.sampling.idle();
    if !idle.is_empty() {
        let have = if idle.len() == 1 { "has" } else { "have" };
        let idle = idle.join(", ");
        note(
            look,
            &format!("{idle} {have} no effect without --temperature: the likeliest token is taken each time"),
        );
    }
    let kv = runner::kv_type(args.kv_type.map(KvWish::kind), backend.kernel.as_ref());
    let writer = Writer { args, look, model: &model, backend: &backend, tokenizer, kv };
    let turns = args.chat.chat && args.prompt.is_none() && args.prompt_file.is_none();
    if turns { chat::run(&writer, screen) } else { once(&writer, screen) }
}

/// One text, written on.
fn once(writer: &Writer<'_>, screen: &mut Screen<'_>) -> Result<u8> {
    let args = writer.args;
    let asked = Asked {
        model: &args.model,
        text: args.prompt.as_deref(),
        file: args.prompt_file.as_deref(),
        chat: args.chat.chat,
        system: args.chat.system.as_deref(),
    };
    let (text, how) = asked.read(|| writer.template())?;
    let ids = writer.ids(&text, how)?;
    let mut session = writer.session(args.context.unwrap_or(ids.len().saturating_add(args.new_tokens)))?;
    session.fits(&ids)?;
    let interrupts = Interrupts::heed(interrupt::quit);
    let done = writer.write(&mut session, &mut writer.sampler(), &ids, &interrupts, false, screen);
    report(writer.look, writer.backend);
    let done = done?;
    if args.run.list.wants_json() {
        json::generate::generate(screen, writer.model, writer.backend, writer.kv, &ids, &done);
    }
    Ok(if done.ending == Ending::Interrupted && !screen.is_lost() { INTERRUPTED } else { 0 })
}

impl<'a> Writer<'a> {
    /// The model's chat template, if it has one.
    pub fn template(&self) -> Result<Option<ChatTemplate>> {
        runner::chat_template(&self.args.model, ChatTemplate::of(self.model.source.as_ref(), self.tokenizer))
    }

    /// The tokens of a text, of which there has to be one.
    pub fn ids(&self, text: &str, how: Reading) -> Result<Vec<u32>> {
        let ids = self.tokenizer.ids(text, how)?;
        if ids.is_empty() {
            return Err(Error::Usage(
                "the text is no token at all: there is nothing to go on from".to_owned(),
            ));
        }
        Ok(ids)
    }

    /// A session with so much room.
    pub fn session(&self, context: usize) -> Result<Session<'a>> {
        note_context(self.look, self.model, context);
        let options = Options { context, kv: self.kv, batch: BATCH };
        Session::new(self.model, self.backend.kernel.as_ref(), options)
    }

    /// What chooses the tokens.
    pub fn sampler(&self) -> Sampler {
        Sampler::new(sampling(&self.args.sampling))
    }

    /// Writes on behind what the session has seen and these tokens. Unless JSON is asked for, the text is shown as it
    /// comes, and then what ran and how fast. In a talk an interrupt ends the answer, also while the prompt is read;
    /// otherwise it ends the program then, since nothing was written yet.
    pub fn write(
        &self,
        session: &mut Session<'_>,
        sampler: &mut Sampler,
        prompt: &[u32],
        interrupts: &Interrupts,
        talk: bool,
        screen: &mut Screen<'_>,
    ) -> Result<Written> {
        let args = self.args;
        let stops = Stops { tokens: args.new_tokens, texts: args.stop.clone(), ignore_ends: args.ignore_eos };
        let json = args.run.list.wants_json();
        let kept = session.len();
        let mut under_way = talk;
        if under_way {
            interrupts.begin();
        }
        let done = write_on(session, self.tokenizer, sampler, prompt, &stops, &mut |text| {
            let Some(text) = text else { return !interrupts.came() };
            if !std::mem::replace(&mut under_way, true) {
                interrupts.begin();
            }
            if !json && !text.is_empty() {
                let look = screen.look();
                screen.send(text::generate::shown(text, look).as_bytes());
                screen.flush();
            }
            !interrupts.came() && !screen.is_lost()
        });
        interrupts.end();
        let done = done?;
        if !json {
            screen.send(b"\n");
            screen.flush();
            let cache = session.cache_bytes(session.len()).unwrap_or(0);
            let held = session.owned_bytes().saturating_add(cache);
            let read = session.len().saturating_sub(kept).min(prompt.len());
            let read = text::generate::Read { kept, prompt: read };
            self.told(|to| text::generate::summary(to, self.model, self.backend, read, held, &done))?;
        }
        Ok(done)
    }

    /// Writes to standard error.
    pub fn told(&self, tell: impl FnOnce(&mut Screen<'_>) -> std::fmt::Result) -> Result<()> {
        let look = Look::of_stderr(self.look);
        let mut out = crate::terminal::stderr(&look);
        let mut screen = Screen::new(&mut out, look);
        written(tell(&mut screen))?;
        // Where standard error is closed there is nobody to tell.
        let _ = screen.finish();
        Ok(())
    }
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
