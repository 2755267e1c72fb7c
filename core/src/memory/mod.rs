//! What a run takes in memory, before anything is run: weights, keys and values, and what a pass works with.
//!
//! Nothing is described a second time. Weights are bound as a run binds them, the cache's size is that which the cache
//! itself takes, and the buffers of a pass are counted while it is gone through without numbers.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod outline;
mod rehearsal;
mod storing;
mod vocabulary;

pub use storing::{Storing, USUAL};
pub use vocabulary::Vocabulary;

use crate::architecture::{Architecture, Decoder};
use crate::bundle::{Bundle, Target};
use crate::cache::{KvCache, KvType, LayerCache};
use crate::check;
use crate::config::Config;
use crate::decoder::CONTEXT;
use crate::error::{Error, Result};
use crate::index::{TensorIndex, TensorInfo};
use crate::kernel::Kernel;
use crate::model::Model;
use crate::registry::Registry;
use crate::source::FormatPlugin;
use crate::table::TensorTable;
use crate::weights::Weights;
use outline::Outline;
use rehearsal::Rehearsal;
use std::path::{Path, PathBuf};

/// What the program itself takes, on one thread: measured on a model of next to nothing.
pub const PROGRAM: u64 = 5 << 18;

/// What each thread takes for itself, but for what it works with: the part of its stack that is in use, and what the
/// allocator keeps for it.
pub const THREAD: u64 = 64 << 10;

/// How a run is to be.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How keys and values are stored.
    pub kv: KvType,
    /// Tokens that are computed at once.
    pub batch: usize,
}

/// What weights take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Bytes of the files, which are mapped: they are read from there, and given back when others need the memory.
    pub mapped: u64,
    /// Bytes that are held apart from the files: vectors, widened.
    pub owned: u64,
}

/// What a run of a model takes, by the length of its context.
pub struct Memory<'k> {
    /// The family's name.
    pub family: &'static str,
    /// The longest sequence that the model was made for, if it says.
    pub longest: Option<usize>,
    /// Whether nothing longer can be computed at all.
    pub ends: bool,
    /// What the weights take.
    pub weights: WeightBytes,
    /// What each layer keeps of a position.
    pub layers: Vec<LayerCache>,
    /// How many positions the attention of each layer sees, where that is bounded.
    pub windows: Vec<Option<usize>>,
    /// What the vocabulary takes.
    pub vocabulary: Vocabulary,
    /// How the run is to be.
    pub options: Options,
    kernel: &'k dyn Kernel,
    rehearsal: Rehearsal,
}

/// Layers that keep the same of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// Their numbers, ascending.
    pub layers: Vec<usize>,
    /// What each keeps.
    pub cache: LayerCache,
    /// How many positions their attention sees, where that is bounded.
    pub window: Option<usize>,
}

/// What a context of some length takes. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Positions.
    pub context: usize,
    /// Weights in their files.
    pub mapped: u64,
    /// Weights that are held apart.
    pub owned: u64,
    /// Keys and values of every position of every layer, which is what is allocated.
    pub kv: u64,
    /// Keys and values if layers with a window kept only what they see.
    pub kv_windowed: u64,
    /// Buffers of a pass: activations and logits.
    pub buffers: u64,
    /// What the kernel takes for itself: activations as it wants them, scores.
    pub scratch: u64,
    /// The vocabulary and the program.
    pub program: u64,
    /// All of it: what is held apart from the files when that is most, and the files.
    pub total: u64,
}

impl Estimate {
    /// What is held apart from the files when that is most.
    pub fn own(&self) -> u64 {
        self.total.saturating_sub(self.mapped)
    }
}

impl<'k> Memory<'k> {
    /// That of a model that is there.
    pub fn of(model: &Model, kernel: &'k dyn Kernel, options: Options) -> Result<Memory<'k>> {
        let (source, table) = (model.source.as_ref(), model.architecture().tensors());
        let outline = Outline::of(source)?;
        // Bound as a run does, so that what is held apart is what a run holds.
        let owned = Weights::bind(table, source, kernel)?.owned_bytes() as u64;
        let weights = WeightBytes { mapped: model.bytes(), owned };
        let decoder = model.decoder()?;
        let rehearsal = Rehearsal::of(decoder, table, &outline, kernel)?;
        Ok(Memory {
            family: model.family,
            longest: model.context(),
            ends: decoder.positions().is_some(),
            weights,
            layers: decoder.cache(),
            windows: rehearsal.windows(),
            vocabulary: Vocabulary::of(source)?,
            options,
            kernel,
            rehearsal,
        })
    }

    /// Layers that keep the same and see as far, in the order of the first of each.
    pub fn kinds(&self) -> Vec<LayerKind> {
        let windows = self.windows.iter().copied().chain(std::iter::repeat(None));
        let mut kinds: Vec<LayerKind> = Vec::new();
        for (layer, (cache, window)) in self.layers.iter().zip(windows).enumerate() {
            match kinds.iter_mut().find(|kind| (kind.cache, kind.window) == (*cache, window)) {
                Some(kind) => kind.layers.push(layer),
                None => kinds.push(LayerKind { layers: vec![layer], cache: *cache, window }),
            }
        }
        kinds
    }

    /// Bytes of keys and values that each position takes.
    pub fn kv_per_position(&self) -> u64 {
        self.kv(1).unwrap_or(u64::MAX)
    }

    fn kv(&self, positions: usize) -> Option<u64> {
        KvCache::bytes(&self.layers, self.options.kv, positions).map(|bytes| bytes as u64)
    }

    /// Keys and values if each layer kept no more positions than it sees.
    fn kv_windowed(&self, positions: usize) -> Option<u64> {
        let windows = self.windows.iter().copied().chain(std::iter::repeat(None));
        let layers = self.layers.iter().zip(windows).map(|(layer, window)| {
            let seen = window.map_or(positions, |window| window.min(positions));
            KvCache::bytes(std::slice::from_ref(layer), self.options.kv, seen)
        });
        layers.into_iter().try_fold(0u64, |sum, bytes| sum.checked_add(bytes? as u64))
    }

    /// What so many positions take; numbers that are too large to be named are the largest that is.
    pub fn at(&self, context: usize) -> Estimate {
        let kv = self.kv(context).unwrap_or(u64::MAX);
        let tokens = self.options.batch.max(1).min(context.max(1));
        // A token alone is gone about in another way than many.
        let most = |of: &dyn Fn(usize) -> u64| of(tokens).max(of(1));
        let buffers = most(&|tokens| self.rehearsal.buffers(tokens));
        let scratch = most(&|tokens| self.rehearsal.scratch(self.kernel, tokens, context));
        let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
        let threads = THREAD.saturating_mul(self.kernel.threads() as u64);
        let program = sum(&[PROGRAM, threads, self.vocabulary.held]);
        let running = sum(&[program, self.weights.owned, kv, buffers, scratch]);
        // The vocabulary is read before there is anything else, and takes more then.
        let reading = sum(&[PROGRAM, threads, self.vocabulary.reading]);
        Estimate {
            context,
            mapped: self.weights.mapped,
            owned: self.weights.owned,
            kv,
            kv_windowed: self.kv_windowed(context).unwrap_or(u64::MAX),
            buffers,
            scratch,
            program,
            total: self.weights.mapped.saturating_add(running.max(reading)),
        }
    }

    /// The longest context that takes no more than so many bytes; 0 if none does. `None` where no length is too long.
    pub fn largest(&self, bytes: u64) -> Option<usize> {
        let fits = |context: usize| self.at(context).total <= bytes;
        let most = self.longest.filter(|_| self.ends).unwrap_or(MOST_CONTEXT);
        if fits(most) {
            return (most < MOST_CONTEXT).then_some(most);
        }
        // `fits` holds up to some length and not beyond: it is between these.
        let (mut fit, mut too_long) = (0, most);
        while too_long.saturating_sub(fit) > 1 {
            let middle = fit + (too_long - fit) / 2;
            if fits(middle) {
                fit = middle;
            } else {
                too_long = middle;
            }
        }
        Some(fit)
    }

    /// Lengths to show: powers of two up to the longest that the model was made for, and that one.
    pub fn contexts(&self) -> Vec<usize> {
        let longest = self.longest.unwrap_or(32_768).clamp(1, MOST_CONTEXT);
        let first = longest.min(512);
        let doubled = std::iter::successors(Some(first), |n| n.checked_mul(2));
        let mut contexts: Vec<usize> = doubled.take_while(|n| *n < longest).collect();
        contexts.push(longest);
        contexts
    }
}

/// No context is looked at that is longer: 2³¹ tokens.
const MOST_CONTEXT: usize = 1 << 31;

/// A model of which there is only a `config.json`.
pub struct Planned {
    /// The family's name.
    pub family: &'static str,
    /// The config, as it was given.
    file: PathBuf,
    architecture: Box<dyn Architecture>,
    storing: Storing,
    longest: Option<usize>,
    vocabulary: Option<Vocabulary>,
}

/// The `config.json` that a path stands for: the file itself, or that of a folder without weights. `None` where it stands
/// for weights, or for nothing.
pub fn config_at(registry: &Registry, path: &Path) -> Result<Option<PathBuf>> {
    match Target::at(path)? {
        Target::File(bundle) => {
            // By what is in it: a file in a cache may have any name.
            let head = bundle.file().head(HEAD).unwrap_or_default();
            let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
            let may_be = head.trim_ascii_start().starts_with(b"{");
            let config = if may_be { check::config_file(path).ok() } else { None };
            let is = config.is_some_and(|c| c.family().is_some() || !c.classes().is_empty());
            Ok(is.then(|| path.to_owned()))
        }
        Target::Folder(folder) => {
            let names = folder.names()?;
            let weights = |format: &&'static FormatPlugin| {
                (format.find)(&folder, &names).is_ok_and(|found| !found.is_empty())
            };
            let bare = !registry.formats().iter().any(weights);
            let config = names.iter().find(|name| *name == "config.json").filter(|_| bare);
            Ok(config.map(|name| path.join(name)))
        }
    }
}

/// Bytes at the beginning of a file that are looked at.
const HEAD: usize = 256;

impl Planned {
    /// Builds the family of this name, or else the one that the config names, for weights that would be stored so.
    ///
    /// # Errors
    /// [`Error::Usage`] where the family is neither given nor known, [`Error::Malformed`] where the config is wrong.
    pub fn of(registry: &Registry, name: Option<&str>, file: &Path, storing: Storing) -> Result<Planned> {
        let config: Config = check::config_file(file)?.describing(storing.dialect());
        let plugin = match name {
            Some(name) => registry.architecture(name)?,
            None => {
                registry.architecture_of(&config).ok_or_else(|| crate::derived::unknown(registry, &config))?
            }
        };
        let architecture = (plugin.build)(&config, &TensorIndex::default())?;
        let learned = architecture.decoder().ok().and_then(|decoder| decoder.positions());
        let longest = learned.or_else(|| config.peek(&CONTEXT).filter(|n| *n > 0));
        let beside = Bundle::on_disk(file)?.folder().file("tokenizer.json")?;
        let vocabulary = beside.map(|file| Vocabulary::of_file(file.len()));
        Ok(Planned { family: plugin.name, file: file.to_owned(), architecture, storing, longest, vocabulary })
    }

    fn table(&self) -> &TensorTable {
        self.architecture.tensors()
    }

    /// Whether there is a vocabulary beside the config.
    pub fn has_vocabulary(&self) -> bool {
        self.vocabulary.is_some()
    }

    /// How its weights would be stored.
    pub fn storing(&self) -> Storing {
        self.storing
    }

    /// Bytes of its weights if they were stored so.
    pub fn stored(&self, storing: Storing) -> u64 {
        let listed = outline::listed(self.table(), storing);
        listed.iter().map(TensorInfo::byte_len).fold(0, u64::saturating_add)
    }

    /// What a run of it would take.
    pub fn memory<'k>(&self, kernel: &'k dyn Kernel, options: Options) -> Result<Memory<'k>> {
        let decoder: &dyn Decoder = self.architecture.decoder().map_err(|why| {
            Error::Usage(format!(
                "this {} model cannot be run, so that there is no telling: {why}",
                self.family
            ))
        })?;
        // Whatever is refused is what the config says.
        let of_file = |error| match error {
            Error::Usage(why) => Error::Usage(format!("{}: {why}", self.file.display())),
            other => other,
        };
        let outline = Outline::made(self.table(), self.storing).map_err(of_file)?;
        let rehearsal = Rehearsal::of(decoder, self.table(), &outline, kernel).map_err(of_file)?;
        let owned = rehearsal.owned();
        Ok(Memory {
            family: self.family,
            longest: self.longest,
            ends: decoder.positions().is_some(),
            weights: WeightBytes { mapped: self.stored(self.storing), owned },
            layers: decoder.cache(),
            windows: rehearsal.windows(),
            vocabulary: self.vocabulary.unwrap_or_default(),
            options,
            kernel,
            rehearsal,
        })
    }
}
