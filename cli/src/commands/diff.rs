//! `diff`: whether a model is another one, and in what it is not.

use super::page::NewPage;
use super::{tell, written};
use crate::args::{Allow, DiffArgs, LookArgs};
use crate::progress::Bar;
use crate::render::listing::Names;
use crate::render::{code_of, html, json, text};
use crate::terminal::Screen;
use scantling_core::check::{self, Checked, Request};
use scantling_core::diff::{self, Allowed};
use scantling_core::error::Result;
use scantling_core::finding::{Part, Severity};
use scantling_core::registry::Registry;
use std::path::{Path, PathBuf};

pub(super) fn run(
    registry: &Registry,
    args: &DiffArgs,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let names = Names::new(&args.include, &args.exclude)?;
    let opened = [(&args.a, &args.config_a), (&args.b, &args.config_b)]
        .map(|(path, config)| (path, open(registry, path, args, config.as_ref())));
    // Both are told, where both cannot be read.
    let mut worst = 0;
    for (path, result) in &opened {
        if let Err(error) = result {
            tell(look, &path.display().to_string(), error);
            worst = worst.max(code_of(error));
        }
    }
    let [(_, Ok(a)), (_, Ok(b))] = opened else { return Ok(worst) };
    let models = [(a.source.as_ref(), args.a.as_path()), (b.source.as_ref(), args.b.as_path())];
    let page = NewPage::begin(args.html.as_ref(), &models, &[&args.config_a, &args.config_b])?;
    let wanted = |name: &str| names.wants(name);
    let request = diff::Request { wanted: &wanted, threads: args.threads };
    let found = diff::run(registry, [&a, &b], &request, &Bar::new(args.quiet))?;
    let fail_on = args.fail_on.severity();
    let allowed = Allowed {
        below: fail_on.unwrap_or(Severity::Error),
        quantised: args.allow.contains(&Allow::Quantised),
        uncompared: args.allow.contains(&Allow::Uncompared),
    };
    if let Some(page) = page {
        let told = !args.list.wants_json() && !args.quiet;
        page.finish(&html::diff(&a, &found, allowed), told.then_some(&mut *screen))?;
    }
    if args.list.wants_json() {
        json::diff::diff(screen, &found, allowed);
    } else {
        let options = text::diff::Options {
            allowed,
            worst: args.worst,
            list: args.tensors || args.only_different,
            only_different: args.only_different,
            full: args.full,
            quiet: args.quiet,
        };
        written(text::diff::diff(screen, &found, options))?;
    }
    Ok(u8::from(fail_on.is_some() && !found.passes(allowed)))
}

/// One of the two, with what its config says it is made of; faults of its own are `check`'s matter.
fn open(registry: &Registry, path: &Path, args: &DiffArgs, config: Option<&PathBuf>) -> Result<Checked> {
    let parts = [Part::Container, Part::Shards, Part::Config, Part::Names, Part::Shapes, Part::Types];
    let request = Request {
        parts: parts.to_vec(),
        architecture: args.arch.clone(),
        config: config.cloned(),
        identity: false,
        must_check: false,
    };
    check::run(registry, path, &request, &check::Silent)
}
