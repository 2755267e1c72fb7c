//! What a format gives: an opened set of weights, and the plugin that opens it.

use crate::bundle::{Bundle, File, Folder};
use crate::config::Config;
use crate::dtype::DType;
use crate::error::Result;
use crate::finding::Finding;
use crate::index::{TensorIndex, TensorInfo};
use crate::metadata::Metadata;
use crate::packed::Packed;
use std::borrow::Cow;
use std::sync::Arc;

/// The naming world that a source's tensors and hyperparameters come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Hugging Face: `model.layers.0.self_attn.q_proj.weight`, `config.json`.
    Hf,
    /// GGUF: `blk.0.attn_q.weight`, `qwen3.block_count`.
    Gguf,
}

/// An opened set of weights: one file, or shards that act as one.
///
/// Whatever could be read is there to be listed; what is wrong with it stands in [`findings`](Self::findings).
pub trait WeightSource: Send + Sync {
    /// Format and version in words, such as `GGUF v3`.
    fn format(&self) -> String;

    /// Whose names the tensors carry.
    fn dialect(&self) -> Dialect;

    /// The weight files, in shard order; [`TensorInfo::shard`] counts them.
    fn files(&self) -> &[Arc<File>];

    /// All tensors, by name and in file order.
    fn tensors(&self) -> &TensorIndex;

    /// A tensor's bytes, little-endian, as [`DType`] lays them out: mapped where the
    /// file has them so, owned where they had to be made.
    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>>;

    /// Whether the file has a tensor's numbers with their high bytes first, so that [`bytes`](Self::bytes) are not as it
    /// has them.
    fn is_big_endian(&self, tensor: &TensorInfo) -> bool {
        let _ = tensor;
        false
    }

    /// The matrix that a tensor is, where it is made of several stored ones; `None` where its bytes are its numbers.
    fn packed(&self, tensor: &TensorInfo) -> Result<Option<Box<dyn Packed + '_>>> {
        let _ = tensor;
        Ok(None)
    }

    /// What the weight file says of itself, as written.
    fn metadata(&self) -> &Metadata;

    /// The hyperparameters: in the file, or in one beside it. `None` if there is neither.
    fn config(&self) -> Result<Option<Config>>;

    /// Faults of the container and of the set of shards.
    fn findings(&self) -> &[Finding];

    /// A small file that belongs to the model (`tokenizer.json`), if the format keeps such beside the weights.
    fn beside(&self, name: &str) -> Result<Option<File>>;

    /// Facts of the container for display, such as ("alignment", "32").
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// How sure a format is that a file is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Not mine.
    No,
    /// Only the name says so.
    Name,
    /// The content has the right shape.
    Shape,
    /// The content begins with the format's mark.
    Magic,
}

/// A model that a format sees in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The file to open.
    pub file: String,
    /// What it is, for a person who has to choose: "GGUF, 3 parts".
    pub what: String,
}

/// A file format.
#[derive(Debug)]
pub struct FormatPlugin {
    /// Short name: `gguf`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Usual suffixes, without a dot.
    pub extensions: &'static [&'static str],
    /// Judges a file by its name, its first bytes (up to 4,096) and its length.
    pub probe: fn(name: &str, head: &[u8], len: u64) -> Confidence,
    /// The models of this format in a folder, by its sorted file names.
    pub find: fn(&Folder, names: &[String]) -> Result<Vec<Candidate>>,
    /// Opens the bundle's primary file, and what belongs to it.
    pub open: fn(&Bundle) -> Result<Box<dyn WeightSource>>,
    /// Lays out a new file, for formats that can be written.
    pub plan: Option<PlanFn>,
}

/// Lays out a new file with this metadata and these tensors.
pub type PlanFn = fn(&Metadata, &[TensorSpec]) -> Result<Plan>;

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name in the dialect of the format.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Outermost axis first.
    pub shape: Vec<usize>,
}

/// Where everything of a new file goes; the bytes of the tensors are the caller's to write.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The bytes before the data.
    pub header: Vec<u8>,
    /// Offset of each tensor from the start of the file, in the order of the specs.
    pub offsets: Vec<u64>,
    /// Length of the file.
    pub len: u64,
}

inventory::collect!(FormatPlugin);
