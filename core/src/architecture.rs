//! What a family of models is: its hyperparameters, the tensors that follow from them, and how they compute.

use crate::cache::LayerCache;
use crate::config::Config;
use crate::error::Result;
use crate::index::TensorIndex;
use crate::matrix::RowsBuf;
use crate::pass::Pass;
use crate::source::{Dialect, WeightSource};
use crate::table::{TensorId, TensorTable};
use crate::wrapped;

/// What a family without a forward pass says.
pub(crate) const CHECKED_ONLY: &str = "this family is checked only";

/// A family with its numbers filled in.
pub trait Architecture: Send + Sync {
    /// Every tensor it must have.
    fn tensors(&self) -> &TensorTable;

    /// How it computes, or why it does not: the whole family is only checked, or this model asks for something that
    /// its forward pass does not know.
    fn decoder(&self) -> Result<&dyn Decoder, String> {
        Err(CHECKED_ONLY.to_owned())
    }
}

/// The half of an architecture that computes: tokens in, logits out.
pub trait Decoder: Send + Sync {
    /// What each layer keeps of a position.
    fn cache(&self) -> Vec<LayerCache>;

    /// The tensor that has a row for each token.
    fn embedding(&self) -> TensorId;

    /// How many positions it can compute at all, where that is a matter of its tensors (learned positions); a rotation
    /// knows no end.
    fn positions(&self) -> Option<usize> {
        None
    }

    /// Width of the heads of an intermediate that, computed from a file of this dialect, has the pairs that rotate side
    /// by side (`0 1 0 1`) where from a Hugging Face file it has them half a head apart (`0 0 1 1`), so that a trace can
    /// bring both into one order. `None` for those that are in that order already.
    fn interleaved(&self, name: &str, dialect: Dialect) -> Option<usize> {
        let _ = (name, dialect);
        None
    }

    /// The logits `[pass.want, vocabulary]` of the last tokens of a pass. Nothing can go wrong in it: what could was
    /// found when the weights were bound.
    fn forward(&self, pass: &mut Pass<'_>) -> RowsBuf;
}

/// A family of models.
#[derive(Debug)]
pub struct ArchitecturePlugin {
    /// Short name: `qwen3`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Values of `model_type` that are this family.
    pub model_types: &'static [&'static str],
    /// Class names in `architectures` that are this family.
    pub classes: &'static [&'static str],
    /// Values of GGUF's `general.architecture` that are this family.
    pub gguf: &'static [&'static str],
    /// A further condition, where several families share one name: GGUF calls a mixture of experts `llama` too.
    pub when: Option<fn(&Config) -> bool>,
    /// Reads the hyperparameters and declares the tensors. Every fault of the config is to be found in one
    /// call: ask for all values first, then [`Config::settle`]. The index is there for what a GGUF file leaves
    /// to be derived from its tensors; shapes are judged elsewhere.
    pub build: fn(&Config, &TensorIndex) -> Result<Box<dyn Architecture>>,
}

inventory::collect!(ArchitecturePlugin);

impl ArchitecturePlugin {
    /// Builds the family for the tensors of a source. Where the config is that of a larger model, they are looked for in
    /// the part that is the text model.
    pub fn fit(&self, config: &Config, source: &dyn WeightSource) -> Result<Box<dyn Architecture>> {
        let architecture = (self.build)(config, source.tensors())?;
        let placed = config.is_wrapped() && source.dialect() == Dialect::Hf;
        Ok(if placed { wrapped::place(architecture, source.tensors()) } else { architecture })
    }

    /// Whether a config says that it is of this family, and meets its further condition.
    pub fn claims(&self, config: &Config) -> bool {
        self.named_by(config) && self.when.is_none_or(|holds| holds(config))
    }

    /// Whether a config carries a name of this family.
    pub fn named_by(&self, config: &Config) -> bool {
        let family = config.family();
        match config.dialect() {
            Dialect::Gguf => family.is_some_and(|f| self.gguf.contains(&f)),
            Dialect::Hf => match family {
                Some(family) => self.model_types.contains(&family),
                None => config.classes().iter().any(|c| self.classes.contains(&c.as_str())),
            },
        }
    }
}
