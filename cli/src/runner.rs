//! What the commands that run a model share: opening it, bringing its weights into memory, how its cache is stored.

use crate::args::OverrideArgs;
use crate::render::words::bytes;
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::error::{Error, Result};
use scantling_core::finding::Finding;
use scantling_core::kernel::{Kernel, Precision};
use scantling_core::model::Model;
use scantling_core::paging::{self, Prepared};
use scantling_core::parallel::both;
use scantling_core::registry::Registry;
use scantling_core::source::WeightSource;
use scantling_core::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};

/// Opens a model that is sound, and brings its weights into memory.
pub fn open(registry: &Registry, path: &Path, overrides: &OverrideArgs) -> Result<(Model, Prepared)> {
    let model = load(registry, path, overrides)?;
    let prepared = prepare(&model, |_| {})?;
    Ok((model, prepared))
}

/// Opens a model that is sound and can be run; its weights are not read yet.
pub fn load(registry: &Registry, path: &Path, overrides: &OverrideArgs) -> Result<Model> {
    let request = Request {
        architecture: overrides.arch.clone(),
        config: overrides.config.clone(),
        ..Request::default()
    };
    let model = Model::load(registry, path, &request).map_err(|error| match error {
        Error::Malformed { findings } => {
            let what = match registry.open(path) {
                Err(_) => "no tensor list can be made".to_owned(),
                Ok(_) => cannot_run(registry, &findings),
            };
            Error::Unfit { file: path.display().to_string(), what, findings }
        }
        error => error,
    })?;
    model.decoder()?;
    Ok(model)
}

/// Findings that say that it is the family that this program does not know.
const FAMILY: [&str; 2] = ["architecture-unknown", "config-absent"];

/// Why a model that can be listed cannot be run; where its family is the reason, which ones could be.
fn cannot_run(registry: &Registry, findings: &[Finding]) -> String {
    let foreign = findings.iter().any(|f| FAMILY.contains(&f.code.id));
    let known: Vec<&str> = registry.architectures().iter().map(|plugin| plugin.name).collect();
    match foreign {
        true => format!("cannot run this model; this build knows {}", known.join(", ")),
        false => "cannot run this model".to_owned(),
    }
}

/// Says of a vocabulary that cannot be read that it is the vocabulary: the model may be fine otherwise.
pub fn vocabulary<T>(path: &Path, read: Result<T>) -> Result<T> {
    unfit(path, "cannot read its vocabulary", read)
}

/// The same of what a chat template gave.
pub fn chat_template<T>(path: &Path, read: Result<T>) -> Result<T> {
    unfit(path, "cannot use its chat template", read)
}

fn unfit<T>(path: &Path, what: &str, read: Result<T>) -> Result<T> {
    read.map_err(|error| match error {
        Error::Malformed { findings } => {
            Error::Unfit { file: path.display().to_string(), what: what.to_owned(), findings }
        }
        error => error,
    })
}

/// Files that lie beside weights and may have been read with them.
const BESIDE: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "model.safetensors.index.json",
];

/// The files that a source is read from, as far as they lie on disk.
pub fn files_of(source: &dyn WeightSource) -> Vec<PathBuf> {
    let own = source.files().iter().filter_map(|file| file.path().map(Path::to_owned));
    // One that cannot be looked at cannot have been read.
    let beside = BESIDE.iter().filter_map(|name| source.beside(name).ok()??.path().map(Path::to_owned));
    own.chain(beside).collect()
}

/// All files that a model was asked of: what it is read from, the path that names it, and what takes a place in it.
pub fn inputs(model: &Model, path: &Path, overrides: &OverrideArgs) -> Vec<PathBuf> {
    let mut all = files_of(model.source.as_ref());
    all.push(path.to_owned());
    all.extend(overrides.config.clone());
    all
}

/// Brings the weights of a model into memory; says so if they will not fit.
pub fn prepare(model: &Model, note: impl FnOnce(&str)) -> Result<Prepared> {
    note_size(model, note);
    paging::prepare(model.source.files())
}

/// The same, while its vocabulary is read, which takes as long where it is large. It stays until the program ends:
/// to give back some hundred thousand pieces of text one by one would only hold up that end.
pub fn prepare_with_tokenizer(model: &Model, note: impl FnOnce(&str)) -> Result<&'static Tokenizer> {
    note_size(model, note);
    let source = model.source.as_ref();
    let (tokenizer, prepared) = both(|| Tokenizer::of(source), || paging::prepare(source.files()));
    prepared?;
    vocabulary(Path::new(&model.path), tokenizer).map(|tokenizer| &*Box::leak(Box::new(tokenizer)))
}

/// Says so if the weights will not fit into memory.
fn note_size(model: &Model, note: impl FnOnce(&str)) {
    let (takes, free) = (model.bytes(), paging::available());
    if let Some(free) = free.filter(|free| takes > *free) {
        note(&format!(
            "{}: weights of {} and {} of free memory: they will be read again and again, which is slow",
            model.path,
            bytes(takes),
            bytes(free)
        ));
    }
}

/// How keys and values are stored: as was asked, or without loss where the kernel is exact.
pub fn kv_type(asked: Option<KvType>, kernel: &dyn Kernel) -> KvType {
    let usual = if kernel.precision() == Precision::Exact { KvType::F32 } else { KvType::F16 };
    asked.unwrap_or(usual)
}
