//! One file for each command: arguments → core → what is shown.

mod arch;
mod bench;
mod chat;
mod check;
mod completions;
mod diff;
mod explain;
mod generate;
mod hash;
mod inspect;
mod kernels;
mod logits;
mod man;
pub mod memory;
mod page;
mod perplexity;
mod plugins;
mod show;
mod stats;
mod tokens;
mod trace;

pub use hash::{Against, Told};
pub use show::{Shown, Wrote, each_line};

use crate::args::{Cli, Command, Ids, KernelsCommand, LookArgs, OverrideArgs, PromptArgs};
use crate::backend::Backend;
use crate::render::{code_of, text};
use crate::runner;
use crate::terminal::{self, Look, Screen};
use clap::Parser;
use scantling_core::check::Request;
use scantling_core::error::{Error, Result};
use scantling_core::finding::Part;
use scantling_core::model::Model;
use scantling_core::registry::Registry;
use scantling_core::tokenizer::{Reading, Tokenizer};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Reads the arguments, runs the command, and gives the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, and are no failure; a closed pipe ends them quietly.
            return match error.print() {
                Err(e) if e.kind() != io::ErrorKind::BrokenPipe => 3,
                _ => u8::try_from(error.exit_code()).unwrap_or(2),
            };
        }
    };
    let look = Look::of_stdout(&cli.look);
    let mut out = terminal::stdout(&look);
    let mut screen = Screen::new(&mut out, look);
    let done = dispatch(&cli, &mut screen);
    let arrived = screen.finish();
    let code = done.unwrap_or_else(|error| {
        tell(&cli.look, &model_of(&cli.command), &error);
        code_of(&error)
    });
    match arrived {
        Ok(()) => code,
        Err(error) => {
            tell(&cli.look, "", &Error::io("standard output", "writing", error));
            3
        }
    }
}

/// The model that an error is about, where a command takes one and leaves its errors to be told here.
fn model_of(command: &Command) -> String {
    let model = match command {
        Command::Generate(args) => Some(args.model.as_path()),
        Command::Memory(args) => Some(args.model.as_path()),
        Command::Bench(args) => Some(args.model.as_path()),
        Command::Tokenize(args) => Some(args.model.as_path()),
        Command::Detokenize(args) => Some(args.model.as_path()),
        Command::Logits(args) => Some(args.model.as_path()),
        Command::Trace(args) => Some(args.model.as_path()),
        Command::Perplexity(args) => Some(args.model.as_path()),
        Command::Show(args) => Some(args.model.as_path()),
        Command::Hash(args) => Some(args.model.as_path()),
        Command::Stats(args) => Some(args.model.as_path()),
        Command::Kernels { command: KernelsCommand::Check(args) } => args.model.as_deref(),
        Command::Kernels { command: KernelsCommand::Bench(args) } => args.model.as_deref(),
        _ => None,
    };
    model.map_or_else(String::new, |path| path.display().to_string())
}

fn dispatch(cli: &Cli, screen: &mut Screen<'_>) -> Result<u8> {
    match &cli.command {
        Command::Inspect(args) => inspect::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Check(args) => check::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Show(args) => show::run(&Registry::linked()?, args, screen),
        Command::Hash(args) => hash::run(&Registry::linked()?, args, screen),
        Command::Stats(args) => stats::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Plugins(args) => plugins::run(&Registry::linked()?, args, screen),
        Command::Generate(args) => generate::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Memory(args) => memory::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Bench(args) => bench::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Kernels { command } => kernels::run(&Registry::linked()?, command, &cli.look, screen),
        Command::Tokenize(args) => tokens::tokenize(&Registry::linked()?, args, screen),
        Command::Detokenize(args) => tokens::detokenize(&Registry::linked()?, args, screen),
        Command::Logits(args) => logits::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Trace(args) => trace::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Perplexity(args) => perplexity::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Diff(args) => diff::run(&Registry::linked()?, args, &cli.look, screen),
        Command::Explain(args) => explain::run(&Registry::linked()?, args, screen),
        Command::Completions { shell } => completions::run(*shell, screen),
        Command::Man { command } => man::run(command.as_deref(), screen),
    }
}

/// Tells on standard error what stopped a command.
fn tell(look: &LookArgs, path: &str, error: &Error) {
    let look = Look::of_stderr(look);
    let mut out = terminal::stderr(&look);
    let mut screen = Screen::new(&mut out, look);
    // Where standard error is closed there is nobody to tell.
    let _ = text::error(&mut screen, path, error, false);
    let _ = screen.finish();
}

/// Tells something on standard error that stops nothing.
fn note(look: &LookArgs, text: &str) {
    let look = Look::of_stderr(look);
    let mut out = terminal::stderr(&look);
    let mut screen = Screen::new(&mut out, look);
    let _ = text::warning(&mut screen, text);
    let _ = screen.finish();
}

/// Tells on standard error what a kernel that watches another has seen: once a run is over, or has failed.
fn report(look: &LookArgs, backend: &Backend) {
    let lines = backend.kernel.report();
    if lines.is_empty() {
        return;
    }
    let look = Look::of_stderr(look);
    let mut out = terminal::stderr(&look);
    let mut screen = Screen::new(&mut out, look);
    // Where standard error is closed there is nobody to tell.
    let _ = text::report(&mut screen, &backend.name, &lines);
    let _ = screen.finish();
}

/// Says so where there are more tokens than a model was made for.
fn note_context(look: &LookArgs, model: &Model, tokens: usize) {
    if let Some(context) = model.context().filter(|context| tokens > *context) {
        note(look, &format!("{tokens} tokens are more than the {context} that the model was made for"));
    }
}

/// The tokens of a prompt.
fn ids_of(model: &Model, prompt: &PromptArgs) -> Result<Vec<u32>> {
    match &prompt.prompt {
        Some(text) => ids_of_text(model, text),
        None => Ok(Ids::all(&prompt.ids)),
    }
}

/// The tokens of a text, those included that the model wants at its edges.
fn ids_of_text(model: &Model, text: &str) -> Result<Vec<u32>> {
    let tokenizer = Tokenizer::of(model.source.as_ref());
    let ids = runner::vocabulary(Path::new(&model.path), tokenizer)?.ids(text, Reading::PROMPT)?;
    if ids.is_empty() {
        return Err(Error::Usage("the text is no token at all: there is nothing to compute".to_owned()));
    }
    Ok(ids)
}

/// Writing to a screen fails only when a formatter does, which would be a fault of this program.
fn written(result: std::fmt::Result) -> Result<()> {
    result.map_err(|_| Error::io("standard output", "writing", io::Error::other("a formatter failed")))
}

/// What is wanted of core, from what both commands share.
fn request(
    registry: &Registry,
    overrides: &OverrideArgs,
    parts: Vec<Part>,
    must_check: bool,
) -> Result<Request> {
    if let Some(name) = &overrides.arch {
        registry.architecture(name)?;
    }
    Ok(Request {
        parts,
        architecture: overrides.arch.clone(),
        config: overrides.config.clone(),
        identity: !overrides.no_identity,
        must_check,
    })
}
