//! `check`: what is wrong with one model or many.

use super::{request, tell, written};
use crate::args::{CheckArgs, CheckForm, LookArgs};
use crate::progress::Bar;
use crate::render::{Outcome, json, markdown, sarif, text};
use crate::terminal::Screen;
use scantling_core::check::{self, Request};
use scantling_core::error::Result;
use scantling_core::finding::{Part, Severity};
use scantling_core::registry::Registry;

pub(super) fn run(
    registry: &Registry,
    args: &CheckArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let request = request(registry, &args.overrides, parts(args), true)?;
    let fail_on = args.fail_on.severity();
    let models = Models { registry, args, look, request, fail_on, bar: Bar::new(args.quiet) };
    match args.form() {
        CheckForm::Text => models.text(screen),
        CheckForm::Markdown => models.each(|outcome| {
            written(markdown::model(screen, outcome, fail_on))?;
            screen.flush();
            Ok(())
        }),
        CheckForm::Json => {
            let options = json::Options { listing: None, metadata: false, full: false, fail_on };
            let mut out = json::begin(screen);
            out.list("models");
            let code = models.each(|outcome| {
                out.item_object();
                json::model(&mut out, outcome, options);
                out.end();
                out.flush();
                Ok(())
            });
            out.finish();
            code
        }
        CheckForm::Sarif => {
            let mut log = sarif::Log::begin(screen, registry.codes());
            let code = models.each(|outcome| {
                log.model(outcome);
                Ok(())
            });
            log.end();
            code
        }
    }
}

/// The parts that were asked for. Reading every value takes its time, so it has to be asked for by name.
fn parts(args: &CheckArgs) -> Vec<Part> {
    let wanted = |part: &Part| match &args.only {
        _ if *part == Part::Data && args.data => true,
        Some(only) => only.contains(part),
        None => *part != Part::Data,
    };
    Part::ALL.into_iter().filter(wanted).collect()
}

struct Models<'r> {
    registry: &'r Registry,
    args: &'r CheckArgs,
    look: &'r LookArgs,
    request: Request,
    fail_on: Option<Severity>,
    bar: Bar,
}

impl Models<'_> {
    /// Looks at every model, whatever came of the one before, and gives the largest exit code.
    fn each(&self, mut show: impl FnMut(&Outcome) -> Result<()>) -> Result<u8> {
        let mut worst = 0;
        for path in &self.args.models {
            let result = check::run(self.registry, path, &self.request, &self.bar);
            let outcome = Outcome { path: path.clone(), result };
            worst = worst.max(outcome.exit_code(self.fail_on));
            show(&outcome)?;
            if let Err(error) = &outcome.result {
                tell(self.look, &outcome.shown_path(), error);
            }
        }
        Ok(worst)
    }

    fn text(&self, screen: &mut Screen<'_>) -> Result<u8> {
        let options = text::CheckOptions {
            fail_on: self.fail_on,
            quiet: self.args.quiet,
            full: self.args.full,
            several: self.args.models.len() > 1,
        };
        self.each(|outcome| {
            written(text::check(screen, outcome, options))?;
            screen.flush();
            Ok(())
        })
    }
}
