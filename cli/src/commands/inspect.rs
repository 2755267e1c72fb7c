//! `inspect`: what a model is, and whether it is whole.

use super::page::NewPage;
use super::{request, tell, written};
use crate::args::{InspectArgs, ListForm, LookArgs};
use crate::progress::Bar;
use crate::render::listing::Listing;
use crate::render::{Outcome, html, json, text};
use crate::terminal::Screen;
use scantling_core::check;
use scantling_core::error::Result;
use scantling_core::finding::{Part, Severity};
use scantling_core::registry::Registry;

pub(super) fn run(
    registry: &Registry,
    args: &InspectArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let listing = Listing::new(args.sort, &args.include, &args.exclude)?;
    let parts = Part::ALL.into_iter().filter(|p| !matches!(p, Part::Tokenizer | Part::Data)).collect();
    let request = request(registry, &args.overrides, parts, false)?;
    let result = check::run(registry, &args.model, &request, &Bar::new(args.quiet));
    let outcome = Outcome { path: args.model.clone(), result };
    let code = outcome.exit_code(Some(Severity::Error));
    if let Ok(checked) = &outcome.result {
        let models = [(checked.source.as_ref(), args.model.as_path())];
        if let Some(page) = NewPage::begin(args.html.as_ref(), &models, &[&args.overrides.config])? {
            let options = html::Options { listing: &listing, sort: args.sort, metadata: args.metadata };
            let told = args.form() == ListForm::Text && !args.quiet;
            page.finish(&html::inspect(checked, options), told.then_some(&mut *screen))?;
        }
    }
    if args.form() == ListForm::Json {
        let options = json::Options {
            listing: Some(&listing),
            metadata: args.metadata,
            full: args.full,
            fail_on: Some(Severity::Error),
        };
        json::inspect(screen, &outcome, options);
    }
    match &outcome.result {
        Err(error) => tell(look, &outcome.shown_path(), error),
        Ok(checked) if args.form() == ListForm::Text => {
            let listed = args.tensors || !args.include.is_empty() || !args.exclude.is_empty();
            let options = text::Options {
                listing: listed.then_some(&listing),
                metadata: args.metadata,
                full: args.full,
                quiet: args.quiet,
            };
            written(text::inspect(screen, checked, &options))?;
        }
        Ok(_) => {}
    }
    Ok(code)
}
