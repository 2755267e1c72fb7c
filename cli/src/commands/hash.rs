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
use scantling_core::finding::{Finding, Part, Severity};
use scantling_core::hash::files::{self, Verdict};
use scantling_core::hash::manifest::{self, Difference, MAX_MANIFEST_BYTES, Manifest};
use scantling_core::hash::{Hashed, Hashes, Kind, Names as AllNames};
use scantling_core::kernel::Options;
use scantling_core::registry::Registry;
use scantling_core::source::WeightSource;
use std::path::Path;

/// What is told of a model's digests.
pub struct Told<'a> {
    /// The model as it was given.
    pub model: &'a Path,
    /// The digests.
    pub hashes: &'a Hashes,
    /// Whether only some tensors were asked for, so that there is no whole.
    pub some: bool,
    /// What it was held against.
    pub against: Option<Against<'a>>,
    /// Where the digests were to be written to, and whether they were.
    pub write: Option<(&'a Path, bool)>,
    /// What the digests were of that were written over, where that is something else.
    pub replaced: Option<Kind>,
    /// Faults of the files.
    pub findings: &'a [Finding],
    /// Whether nothing else is said.
    pub quiet: bool,
}

/// A manifest that a model was held against.
pub struct Against<'a> {
    /// Where it lies.
    pub path: &'a Path,
    /// How its tensors were chosen, where they are not all.
    pub partial: Option<String>,
    /// In what the model differs from it.
    pub differences: Vec<(String, Difference)>,
    /// Whether a tensor of either was looked at: without one nothing is the same.
    pub any: bool,
    /// What is to be said where no name of either is one of the other.
    pub strange: Option<Finding>,
}

impl Against<'_> {
    /// Whether the model is what it was.
    pub fn same(&self) -> bool {
        self.any && self.differences.is_empty()
    }
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
    let (hashes, mut inputs, findings, all_names) = match kind {
        Kind::Stored => {
            let source = registry.open(&args.model)?;
            let hashes = scantling_core::hash::stored(source.as_ref(), &wanted, args.threads, &bar);
            (hashes, runner::files_of(source.as_ref()), faults(source.as_ref()), AllNames::default())
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
            (hashes, runner::files_of(source), faults(source), AllNames::of(table))
        }
    };
    inputs.push(args.model.clone());
    inputs.extend(args.config.clone().into_iter().chain(args.check.clone()));
    let unread: Vec<String> =
        hashes.left_out.iter().filter(|left| left.wanted).flat_map(|left| left.names.clone()).collect();
    // What is not whole, or not sound, is nothing to hold others against.
    let sound = unread.is_empty() && findings.is_empty() && !(some && hashes.tensors.is_empty());
    let mut replaced = None;
    if let Some(path) = args.write.as_ref().filter(|_| sound) {
        replaced = other(path, kind);
        let mut file = NewFile::create(path, &inputs)?;
        let chosen = some.then(|| chosen(args));
        file.write(manifest::write(kind, &hashes.tensors, chosen.as_deref()).as_bytes())?;
        file.finish()?;
    }
    let against = args.check.as_deref().zip(kept).map(|(path, kept)| {
        let meant = |tensor: &Hashed| names.wants_any(&all_names.all(&tensor.name));
        let expected: Vec<Hashed> = kept.tensors.into_iter().filter(meant).collect();
        let differences = manifest::compare(&expected, &hashes.tensors, &unread);
        let any = !expected.is_empty() || !hashes.tensors.is_empty();
        let strange = manifest::strangers(kind, &expected, &hashes.tensors);
        Against { path, partial: kept.some, differences, any, strange }
    });
    let differs = against.as_ref().is_some_and(|against| !against.same());
    let told = Told {
        model: &args.model,
        hashes: &hashes,
        some,
        against,
        write: args.write.as_deref().map(|path| (path, sound)),
        replaced,
        findings: &findings,
        quiet: args.quiet,
    };
    match args.list.wants_json() {
        true => json::hash::hashes(screen, &told),
        false => written(text::hash::hashes(screen, &told))?,
    }
    let unwritten = args.write.is_some() && !sound;
    Ok(u8::from(differs || unwritten || !unread.is_empty() || !findings.is_empty()))
}

/// What is wrong with the files of a model, beside what else there is to say of them.
fn faults(source: &dyn WeightSource) -> Vec<Finding> {
    source.findings().iter().filter(|finding| finding.severity == Severity::Error).cloned().collect()
}

/// How some tensors were chosen, as the options for it.
fn chosen(args: &HashArgs) -> String {
    let option = |name: &str, globs: &[String]| -> Vec<String> {
        globs.iter().map(|glob| format!("--{name} '{glob}'")).collect()
    };
    [option("include", &args.include), option("exclude", &args.exclude)].concat().join(" ")
}

/// What the manifest at a path is of, where there is one and it is of something else than what takes its place.
fn other(path: &Path, kind: Kind) -> Option<Kind> {
    // What is no file need not end, and keeps nothing.
    let text = path.is_file().then(|| read_text(path, MAX_MANIFEST_BYTES).ok()).flatten()?;
    manifest::read(&text).ok().map(|kept| kept.kind).filter(|old| *old != kind)
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
    let findings = faults(source.as_ref());
    match args.list.wants_json() {
        true => json::hash::files(screen, &args.model, &files, &findings),
        false => written(text::hash::files(screen, &files, &findings, args.quiet))?,
    }
    let bad = |verdict| !matches!(verdict, Verdict::Agrees | Verdict::Nothing);
    Ok(u8::from(!findings.is_empty() || files.iter().any(|file| bad(file.verdict()))))
}
