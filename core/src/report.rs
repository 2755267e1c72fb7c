//! What an inspection or a check found out: plain data, rendered elsewhere.

use crate::config::Fact;
use crate::finding::{Finding, Part, Severity};
use crate::source::Dialect;
use crate::table::Use;

/// Everything found out about one model.
#[derive(Clone, Debug)]
pub struct Report {
    /// The path as it was given.
    pub path: String,
    /// The weight files.
    pub container: Container,
    /// What kind of model it is.
    pub model: Model,
    /// Every hyperparameter that was asked for, in the order of asking.
    pub facts: Vec<Fact>,
    /// The tensors, folded where layers are alike.
    pub sections: Vec<Section>,
    /// Share of each element type, the largest first.
    pub types: Vec<TypeShare>,
    /// Counts over all tensors.
    pub counts: Counts,
    /// The vocabulary, where one is in the file or beside it.
    pub vocabulary: Option<Vocabulary>,
    /// What lies beside the text model in a larger one, by name.
    pub outside: Vec<Outside>,
    /// What can be told of a model whose architecture is not known.
    pub likeness: Option<Likeness>,
    /// The parts that were looked at.
    pub parts: Vec<Part>,
    /// Everything that was found, causes first.
    pub findings: Vec<Finding>,
    /// What was not looked at, and how to have it looked at.
    pub unchecked: Vec<Unchecked>,
}

/// The weight files.
#[derive(Clone, Debug)]
pub struct Container {
    /// Format and version.
    pub format: String,
    /// The naming world.
    pub dialect: Dialect,
    /// The files in shard order: name, length in bytes.
    pub files: Vec<(String, u64)>,
    /// Facts of the container: ("alignment", "32").
    pub facts: Vec<(&'static str, String)>,
}

impl Container {
    /// Length of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }
}

/// What kind of model it is.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The family as the config names it.
    pub family: Option<String>,
    /// The architecture plugin that was used.
    pub architecture: Option<&'static str>,
    /// The file that the hyperparameters came from.
    pub config: Option<String>,
    /// What it is, if it is not a language model's weights: "a LoRA adapter", …
    pub special: Option<String>,
    /// How the weights of a Hugging Face checkpoint are packed: "gptq, 4 bits".
    pub packing: Option<String>,
}

/// Tensors shown together.
#[derive(Clone, Debug)]
pub struct Section {
    /// Which.
    pub place: SectionPlace,
    /// One row for each kind of tensor, more where layers differ.
    pub rows: Vec<Row>,
}

/// Where the tensors of a section belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionPlace {
    /// Before the layers, or of no layer at all.
    Global,
    /// The layers with a common prefix.
    Layers {
        /// What their names begin with: `model.layers`.
        prefix: String,
        /// The layers, ascending.
        layers: Vec<usize>,
        /// Whether every row stands in every layer; if not, rows name theirs.
        alike: bool,
    },
    /// After the layers.
    Final,
    /// Not in the architecture's table.
    Unexpected,
    /// Of other parts of a larger model than the text model.
    Outside,
}

/// One kind of tensor.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name after the section's prefix; `*` stands for the number of an expert.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Elements of one tensor.
    pub elements: u64,
    /// How many tensors the row stands for.
    pub tensors: usize,
    /// The layers it stands for, ascending; empty outside layers.
    pub layers: Vec<usize>,
    /// How it is used, where the architecture says so.
    pub usage: Option<Use>,
    /// Whether it is a stored copy of a tensor that it is tied to.
    pub tied: bool,
    /// Of a packed tensor, the stored ones that make it up.
    pub parts: Vec<RowPart>,
}

/// One of the stored tensors that make up a packed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// Name as far as it differs from those of the other parts: `qweight`.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: Vec<usize>,
    /// Bytes it takes.
    pub bytes: u64,
}

impl Row {
    /// Bits that an element of a packed tensor takes, with all that belongs to it.
    pub fn bits_per_weight(&self) -> Option<f64> {
        let bytes = self.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
        (!self.parts.is_empty() && self.elements > 0).then(|| bytes as f64 * 8.0 / self.elements as f64)
    }
}

/// What one element type takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeShare {
    /// The type.
    pub dtype: String,
    /// Tensors of it.
    pub tensors: usize,
    /// Their elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts over all tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tensors in the files, a packed one counted once.
    pub tensors: usize,
    /// Bytes of tensor data.
    pub bytes: u64,
    /// Elements of all tensors that hold parameters (tables of whole numbers do not).
    pub stored: u64,
    /// The same with tied copies counted once, helper tensors and other parts of a larger model left out; `None` without
    /// an architecture.
    pub logical: Option<u64>,
    /// Elements of the embedding; `None` without an architecture, or where the embedding is not there by its name.
    pub embedding: Option<u64>,
    /// Tensors that the architecture asks of these files; `None` without an architecture.
    pub expected: Option<usize>,
}

/// A part of a larger model that is not its text model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// What its tensors' names begin with: `vision_tower`.
    pub part: String,
    /// How many there are.
    pub tensors: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What the shapes and names of a model tell whose architecture is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Likeness {
    /// What the names of its layers begin with: `model.layers`.
    pub prefix: String,
    /// Sizes that follow from shapes.
    pub sizes: Vec<Inferred>,
    /// What does not show in shapes: "the number of heads".
    pub hidden: Vec<&'static str>,
    /// The families whose layers are most alike, if any are.
    pub nearest: Option<Nearest>,
}

/// A size that follows from shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// Letter for formulas.
    pub symbol: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// How much.
    pub value: usize,
    /// Where it was seen.
    pub from: String,
}

/// The families whose layers are most like those of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// All that are equally near, by name.
    pub families: Vec<&'static str>,
    /// Kinds of tensors in a layer that they have too.
    pub shared: usize,
    /// Kinds that the model has beyond them.
    pub more: Vec<String>,
    /// Kinds that they have and the model lacks.
    pub less: Vec<String>,
}

/// A vocabulary, as far as a glance tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// The file it is in.
    pub file: String,
    /// Kind of tokenizer: `gpt2`, `llama`, `BPE`.
    pub model: Option<String>,
    /// Name of the rule that splits text first.
    pub pre: Option<String>,
    /// Number of tokens.
    pub tokens: Option<u64>,
    /// Number of merges.
    pub merges: Option<u64>,
    /// Whether there is a chat template.
    pub chat_template: bool,
}

/// [`Unchecked::what`] where tensors were not held against an architecture.
pub const ARCHITECTURE: &str = "the architecture";

/// Something that was not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// What: "tensor values".
    pub what: String,
    /// Why not, or what to do: "use check --data".
    pub why: String,
}

impl Report {
    /// Number of findings of a severity, symptoms not counted.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }

    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|f| f.severity).max()
    }
}
