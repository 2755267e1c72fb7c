//! A model that can be run: opened, checked, with its architecture; and a session that feeds it tokens.

use crate::architecture::{Architecture, Decoder};
use crate::bundle::File;
use crate::cache::{KvCache, KvType, LayerCache};
use crate::check::{self, Request};
use crate::config::Config;
use crate::decoder::CONTEXT;
use crate::error::{Error, Result};
use crate::finding::{Part, Severity};
use crate::kernel::Kernel;
use crate::matrix::RowsBuf;
use crate::pass::{Pass, Tap};
use crate::registry::Registry;
use crate::source::{Dialect, WeightSource};
use crate::weights::Weights;
use std::path::Path;

/// Tokens that are computed at once; more gain nothing and take memory.
pub const BATCH: usize = 512;

/// An opened model that was found to be what its config says.
pub struct Model {
    /// The path as it was given.
    pub path: String,
    /// Its weights.
    pub source: Box<dyn WeightSource>,
    /// Its hyperparameters.
    pub config: Config,
    /// The family's name.
    pub family: &'static str,
    architecture: Box<dyn Architecture>,
}

impl Model {
    /// Opens a model and checks all that a forward pass relies on; every error found is told. The overrides of the
    /// request are heard, its parts are not.
    pub fn load(registry: &Registry, path: &Path, request: &Request) -> Result<Model> {
        let parts = [Part::Container, Part::Config, Part::Names, Part::Shapes, Part::Types];
        let request = Request { parts: parts.to_vec(), identity: false, must_check: true, ..request.clone() };
        let source = registry.open(path)?;
        let report = check::examine(registry, source.as_ref(), path, &request, &check::Silent)?.report;
        let errors: Vec<_> = report.findings.into_iter().filter(|f| f.severity == Severity::Error).collect();
        if !errors.is_empty() {
            return Err(Error::Malformed { findings: errors });
        }
        let config = match &request.config {
            Some(file) => check::config_file(file)?.describing(source.dialect()),
            None => source.config()?.ok_or_else(|| Error::Usage("a model without a config".into()))?,
        };
        let plugin = match &request.architecture {
            Some(name) => Some(registry.architecture(name)?),
            None => registry.architecture_of(&config),
        };
        let plugin = plugin.ok_or_else(|| Error::Usage("a model of no known family".into()))?;
        let architecture = plugin.fit(&config, source.as_ref())?;
        let path = path.display().to_string();
        Ok(Model { path, source, config, family: plugin.name, architecture })
    }

    /// The half of its architecture that computes, or why there is none.
    pub fn decoder(&self) -> Result<&dyn Decoder> {
        self.architecture.decoder().map_err(|why| Error::Foreign {
            file: self.path.clone(),
            what: format!("this {} model cannot be run: {why}", self.family),
            advice: "it can be inspected and checked".to_owned(),
        })
    }

    /// The architecture.
    pub fn architecture(&self) -> &dyn Architecture {
        self.architecture.as_ref()
    }

    /// The longest sequence it was made for, if it says.
    pub fn context(&self) -> Option<usize> {
        let learned = self.architecture.decoder().ok().and_then(|decoder| decoder.positions());
        learned.or_else(|| self.config.peek(&CONTEXT).filter(|n| *n > 0))
    }

    /// Length of its weight files.
    pub fn bytes(&self) -> u64 {
        self.source.files().iter().map(|f: &std::sync::Arc<File>| f.len()).sum()
    }
}

/// How a session is to be.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Positions there is room for.
    pub context: usize,
    /// How keys and values are stored.
    pub kv: KvType,
    /// Tokens that are computed at once.
    pub batch: usize,
}

/// A model with a kernel and what it has seen so far.
pub struct Session<'m> {
    decoder: &'m dyn Decoder,
    weights: Weights<'m>,
    kernel: &'m dyn Kernel,
    cache: KvCache,
    /// The tokens whose keys and values the cache holds.
    ids: Vec<u32>,
    batch: usize,
    vocabulary: usize,
}

impl<'m> Session<'m> {
    /// Binds the weights and makes room for the cache.
    pub fn new(model: &'m Model, kernel: &'m dyn Kernel, options: Options) -> Result<Session<'m>> {
        let decoder = model.decoder()?;
        if let Some(most) = decoder.positions().filter(|most| *most < options.context) {
            return Err(Error::Usage(format!(
                "a context of {} tokens, but {} has a place for {most} positions: ask for a smaller one",
                options.context, model.path
            )));
        }
        let weights = Weights::bind(model.architecture.tensors(), model.source.as_ref(), kernel)?;
        let cache = KvCache::new(&decoder.cache(), options.kv, options.context)?;
        let vocabulary = weights.matrix(decoder.embedding()).rows();
        let batch = options.batch.max(1);
        Ok(Session { decoder, weights, kernel, cache, ids: Vec::new(), batch, vocabulary })
    }

    /// Computes the logits `[want, vocabulary]` of the last `want` of these tokens, which stand behind those fed
    /// before. `want` may be 0.
    pub fn feed(&mut self, ids: &[u32], want: usize, mut tap: Option<&mut dyn Tap>) -> Result<RowsBuf> {
        self.fits(ids)?;
        let from = ids.len() - want.min(ids.len());
        let mut logits = RowsBuf::zeros(0, self.vocabulary);
        let total = self.cache.len() + ids.len();
        let mut done = 0;
        for some in ids.chunks(self.batch) {
            let want = (done + some.len()).saturating_sub(from.max(done));
            let tap = tap.as_mut().map(|t| &mut **t as &mut dyn Tap);
            let mut pass = Pass {
                weights: &self.weights,
                kernel: self.kernel,
                cache: &mut self.cache,
                ids: some,
                total,
                want,
                tap,
                layer: None,
            };
            logits.append(self.decoder.forward(&mut pass));
            self.cache.advance(some.len());
            self.ids.extend_from_slice(some);
            done += some.len();
        }
        Ok(logits)
    }

    /// Whether tokens are in the vocabulary and have room, before anything is computed of them.
    pub fn fits(&self, ids: &[u32]) -> Result<()> {
        if let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= self.vocabulary) {
            let most = self.vocabulary.saturating_sub(1);
            return Err(Error::Usage(format!("token {at} is id {id}, but the vocabulary ends at {most}")));
        }
        let (seen, room) = (self.cache.len(), self.cache.capacity());
        if ids.len() > room - seen {
            let n = ids.len();
            return Err(Error::Usage(format!(
                "{n} tokens do not fit: the context has room for {room}, of which {seen} are used; give a larger \
                 --context, or less text"
            )));
        }
        Ok(())
    }

    /// What it computes with.
    pub fn decoder(&self) -> &'m dyn Decoder {
        self.decoder
    }

    /// Whose names and layouts its weights have.
    pub fn dialect(&self) -> Dialect {
        self.weights.dialect()
    }

    /// The tokens seen so far.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many tokens were seen so far.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether none has been seen.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Tokens there is room for.
    pub fn context(&self) -> usize {
        self.cache.capacity()
    }

    /// Tokens that are computed at once.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Forgets all but the first tokens. The cache keeps every position, those out of a layer's window too, so that it
    /// is as if the others had never been seen.
    pub fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
        self.ids.truncate(len);
    }

    /// Goes back to where these tokens part from those seen, and gives those that are still to be fed: at least the
    /// last, since nobody kept its logits.
    pub fn rewind<'i>(&mut self, ids: &'i [u32]) -> &'i [u32] {
        let same = self.ids.iter().zip(ids).take_while(|(seen, id)| seen == id).count();
        let kept = same.min(ids.len().saturating_sub(1));
        self.truncate(kept);
        &ids[kept..]
    }

    /// Number of distinct tokens, the width of the logits.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Bytes of weights that each token reads, and operations with them.
    pub fn work(&self) -> (u64, u64) {
        self.weights.work(self.decoder.embedding())
    }

    /// Bytes of weights that are held apart from the files.
    pub fn owned_bytes(&self) -> usize {
        self.weights.owned_bytes()
    }

    /// Bytes of keys and values that so many tokens take.
    pub fn cache_bytes(&self, tokens: usize) -> Option<usize> {
        let layers: Vec<LayerCache> = self.decoder.cache();
        KvCache::bytes(&layers, self.cache.kind(), tokens)
    }
}
