//! `hash`: digests of tensors, of the whole, of files; and a model held against those that were kept.

use super::written;
use crate::args::HashArgs;
use crate::output::NewFile;
use crate::progress::Bar;
use crate::render::listing::Names;
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::bundle::read_text;
use scantling_core::check::{self, Request};
use scantling_core::error::{Error, Result};
use scantling_core::finding::Part;
use scantling_core::hash::files::{self, Verdict};
use scantling_core::hash::manifest::{self, Difference, MAX_MANIFEST_BYTES, Manifest};
use scantling_core::hash::{Hashed, Hashes, Kind};
use scantling_core::kernel::Options;
use scantling_core::registry::Registry;
use std::collections::HashSet;
use std::path::Path;

/// What is told of a model's digests.
pub struct Told<'a> {
    /// The model as it was given.
    pub model: &'a Path,
    /// The digests.
    pub hashes: &'a Hashes,
    /// Whether only some tensors were asked for, so that there is no whole.
    pub some: bool,
    /// What it was held against, and in what it differs from that.
    pub against: Option<(&'a Path, &'a [(String, Difference)])>,
    /// Where the digests were written to.
    pub wrote: Option<&'a Path>,
    /// Whether nothing else is said.
    pub quiet: bool,
}

pub(super) fn run(registry: &Registry, args: &HashArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let bar = Bar::new(args.quiet);
    if args.files {
        return whole_files(registry, args, screen, &bar);
    }
    let names = Names::new(&args.include, &args.exclude)?;
    let some = !args.include.is_empty() || !args.exclude.is_empty();
    let kept = args.check.as_deref().map(|path| kept(path, args)).transpose()?;
    let kind = match &kept {
        Some(kept) => kept.kind,
        None if args.semantic => Kind::Semantic,
        None => Kind::Stored,
    };
    let wanted = |all: &[&str]| names.wants_any(all);
    let (hashes, mut inputs) = match kind {
        Kind::Stored => {
            let source = registry.open(&args.model)?;
            let hashes = scantling_core::hash::stored(source.as_ref(), &wanted, args.threads, &bar);
            (hashes, runner::files_of(source.as_ref()))
        }
        Kind::Semantic => {
            let request = Request {
                parts: vec![Part::Config],
                architecture: args.arch.clone(),
                config: args.config.clone(),
                identity: false,
                must_check: false,
            };
            let checked = check::run(registry, &args.model, &request, &bar)?;
            let source = checked.source.as_ref();
            let kernel = registry.best_leaf(false, &Options::default())?;
            let table = checked.architecture.as_ref().map(|architecture| architecture.tensors());
            let hashes =
                scantling_core::hash::semantic(source, table, kernel.as_ref(), &wanted, args.threads, &bar);
            (hashes, runner::files_of(source))
        }
    };
    inputs.push(args.model.clone());
    inputs.extend(args.config.clone().into_iter().chain(args.check.clone()));
    if let Some(path) = &args.write {
        if hashes.left_out.iter().any(|left| left.wanted) {
            told(
                screen,
                args,
                &Told {
                    model: &args.model,
                    hashes: &hashes,
                    some,
                    against: None,
                    wrote: None,
                    quiet: args.quiet,
                },
            )?;
            return Ok(1);
        }
        let mut file = NewFile::create(path, &inputs)?;
        file.write(manifest::write(kind, &hashes.tensors).as_bytes())?;
        file.finish()?;
    }
    let differences = kept.map(|kept| {
        let unread: Vec<String> =
            hashes.left_out.iter().filter(|left| left.wanted).flat_map(|left| left.names.clone()).collect();
        let own: HashSet<&str> =
            hashes.tensors.iter().map(|t| &t.name).chain(&unread).map(String::as_str).collect();
        // Patterns may have chosen by stored names, which a semantic manifest does not have.
        let meant = |tensor: &Hashed| match kind {
            _ if !some => true,
            Kind::Stored => names.wants(&tensor.name),
            Kind::Semantic => own.contains(tensor.name.as_str()),
        };
        let expected: Vec<Hashed> = kept.tensors.into_iter().filter(meant).collect();
        manifest::compare(&expected, &hashes.tensors, &unread)
    });
    let against = args.check.as_deref().zip(differences.as_deref());
    told(
        screen,
        args,
        &Told {
            model: &args.model,
            hashes: &hashes,
            some,
            against,
            wrote: args.write.as_deref(),
            quiet: args.quiet,
        },
    )?;
    let differs = differences.is_some_and(|differences| !differences.is_empty());
    Ok(u8::from(differs || hashes.left_out.iter().any(|left| left.wanted)))
}

fn told(screen: &mut Screen<'_>, args: &HashArgs, told: &Told<'_>) -> Result<()> {
    match args.list.wants_json() {
        true => json::hash::hashes(screen, told),
        false => written(text::hash::hashes(screen, told))?,
    }
    Ok(())
}

/// The manifest that a model is held against.
fn kept(path: &Path, args: &HashArgs) -> Result<Manifest> {
    let shown = path.display().to_string();
    let read = manifest::read(&read_text(path, MAX_MANIFEST_BYTES)?).map_err(|what| Error::Foreign {
        file: shown.clone(),
        what,
        advice: "scantling hash MODEL --write FILE makes one".to_owned(),
    })?;
    if args.semantic && read.kind == Kind::Stored {
        return Err(Error::Usage(format!(
            "{shown} holds digests of stored bytes, which --semantic cannot be held against; leave it away, or make one \
             with --semantic --write"
        )));
    }
    Ok(read)
}

fn whole_files(registry: &Registry, args: &HashArgs, screen: &mut Screen<'_>, bar: &Bar) -> Result<u8> {
    let source = registry.open(&args.model)?;
    let files = files::hash(source.as_ref(), args.threads, bar);
    match args.list.wants_json() {
        true => json::hash::files(screen, &args.model, &files),
        false => written(text::hash::files(screen, &files, args.quiet))?,
    }
    let bad = |verdict| matches!(verdict, Verdict::Differs | Verdict::Unread);
    Ok(u8::from(files.iter().any(|file| bad(file.verdict()))))
}
