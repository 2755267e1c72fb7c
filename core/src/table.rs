//! The tensors a model must have: each declared once, with both names, its shape and the reason for it.

use crate::axis::Axis;
use crate::source::Dialect;

/// How a tensor is used, which says how its shape is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A lookup: an id picks a row.
    Embedding,
    /// `y = x · Wᵀ`, stored [out, in].
    Matrix,
    /// Multiplied element by element.
    Scale,
    /// Added element by element.
    Bias,
    /// Helper numbers a converter wrote.
    Helper,
}

/// What it means when a tensor is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The model cannot be computed.
    Fault,
    /// Nothing: the tensor is optional.
    Fine,
    /// Another tensor of the table stands in for it. If both are there they should be equal: must be, where
    /// `declared` says that the config ties them.
    StandIn {
        /// Position in the table of the tensor that stands in.
        by: usize,
        /// Whether the config says so, or only the absence does.
        declared: bool,
    },
}

/// One tensor of the table.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Hugging Face name, after the layer's prefix; empty if there is none in that world.
    pub hf: &'static str,
    /// GGUF name, after the layer's prefix; empty if there is none in that world.
    pub gguf: &'static str,
    /// Layer number, for tensors of a layer.
    pub layer: Option<usize>,
    /// Outermost axis first.
    pub shape: Vec<Axis>,
    /// How it is used.
    pub usage: Use,
    /// What its absence means.
    pub absence: Absence,
    /// What to think of first when it is missing.
    pub hint: Option<&'static str>,
}

/// Handle of a declared tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorId(usize);

impl TensorId {
    /// Its place in the table.
    pub(crate) fn position(self) -> usize {
        self.0
    }

    /// Without a bias.
    pub fn plain(self) -> LinearId {
        LinearId { weight: self, bias: None }
    }

    /// With one.
    pub fn with(self, bias: Option<TensorId>) -> LinearId {
        LinearId { weight: self, bias }
    }
}

/// Handles of a matrix and the bias that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearId {
    /// The matrix.
    pub weight: TensorId,
    /// The bias.
    pub bias: Option<TensorId>,
}

/// Every tensor of a model, in the order in which a forward pass meets them.
#[derive(Clone, Debug)]
pub struct TensorTable {
    rows: Vec<Expected>,
    /// Prefixes of the tensors of a layer: ("model.layers", "blk").
    prefixes: (&'static str, &'static str),
    layer: Option<usize>,
    /// Layer-relative or global names that a file may hold though nothing uses them (Hugging Face names).
    ignored: Vec<&'static str>,
}

impl TensorTable {
    /// An empty table. `hf` and `gguf` are what layer tensors' names begin with: `model.layers`, `blk`.
    pub fn new(hf: &'static str, gguf: &'static str) -> TensorTable {
        TensorTable { rows: Vec::new(), prefixes: (hf, gguf), layer: None, ignored: Vec::new() }
    }

    /// What follows belongs to this layer.
    pub fn layer(&mut self, layer: usize) {
        self.layer = Some(layer);
    }

    /// What follows belongs to no layer.
    pub fn global(&mut self) {
        self.layer = None;
    }

    /// A lookup table, one row for each id.
    pub fn embedding(&mut self, hf: &'static str, gguf: &'static str, shape: [&Axis; 2]) -> TensorId {
        self.add(hf, gguf, &shape, Use::Embedding)
    }

    /// A matrix, stored [out, in].
    pub fn matrix(&mut self, hf: &'static str, gguf: &'static str, shape: [&Axis; 2]) -> TensorId {
        self.add(hf, gguf, &shape, Use::Matrix)
    }

    /// A vector that scales, such as a norm's weight.
    pub fn scale(&mut self, hf: &'static str, gguf: &'static str, len: &Axis) -> TensorId {
        self.add(hf, gguf, &[len], Use::Scale)
    }

    /// A vector that is added.
    pub fn bias(&mut self, hf: &'static str, gguf: &'static str, len: &Axis) -> TensorId {
        self.add(hf, gguf, &[len], Use::Bias)
    }

    /// Numbers that a GGUF converter may have worked out from the config; no Hugging Face file holds them.
    pub fn gguf_helper(&mut self, gguf: &'static str, len: &Axis) -> TensorId {
        let id = self.add("", gguf, &[len], Use::Helper);
        self.set_absence(id, Absence::Fine);
        id
    }

    /// The tensor may be missing.
    pub fn optional(&mut self, id: TensorId) {
        self.set_absence(id, Absence::Fine);
    }

    /// `by` stands in for the tensor where it is missing; see [`Absence::StandIn`].
    pub fn tie(&mut self, id: TensorId, by: TensorId, declared: bool) {
        self.set_absence(id, Absence::StandIn { by: by.0, declared });
    }

    /// What to think of first when the tensor is missing.
    pub fn hint(&mut self, id: TensorId, hint: &'static str) {
        if let Some(row) = self.rows.get_mut(id.0) {
            row.hint = Some(hint);
        }
    }

    /// A tensor that old files hold though it is worked out anew: a mask or a table of frequencies. Given by
    /// its Hugging Face name after the layer's prefix.
    pub fn ignore(&mut self, hf: &'static str) {
        self.ignored.push(hf);
    }

    /// All rows, in the order of declaration.
    pub fn rows(&self) -> &[Expected] {
        &self.rows
    }

    /// Names of tensors that a file may hold though nothing uses them.
    pub fn ignored(&self) -> &[&'static str] {
        &self.ignored
    }

    /// What the names of a layer's tensors begin with, without the layer's number.
    pub fn layer_prefix(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Hf => self.prefixes.0,
            Dialect::Gguf => self.prefixes.1,
        }
    }

    /// Number of layers declared.
    pub fn layers(&self) -> usize {
        self.rows.iter().filter_map(|r| r.layer).max().map_or(0, |l| l.saturating_add(1))
    }

    /// The rows that exist in a dialect, with their full names.
    pub fn named(&self, dialect: Dialect) -> impl Iterator<Item = (String, &Expected)> {
        self.rows.iter().filter_map(move |row| {
            let local = row.local_name(dialect);
            (!local.is_empty()).then(|| (self.full_name(row.layer, local, dialect), row))
        })
    }

    fn full_name(&self, layer: Option<usize>, local: &str, dialect: Dialect) -> String {
        match layer {
            Some(layer) => format!("{}.{layer}.{local}", self.layer_prefix(dialect)),
            None => local.to_owned(),
        }
    }

    /// The full name of a row.
    pub fn name(&self, row: &Expected, dialect: Dialect) -> String {
        self.full_name(row.layer, row.local_name(dialect), dialect)
    }

    fn add(&mut self, hf: &'static str, gguf: &'static str, shape: &[&Axis], usage: Use) -> TensorId {
        let shape = shape.iter().map(|&axis| axis.clone()).collect();
        let row = Expected { hf, gguf, layer: self.layer, shape, usage, absence: Absence::Fault, hint: None };
        self.rows.push(row);
        TensorId(self.rows.len().saturating_sub(1))
    }

    fn set_absence(&mut self, id: TensorId, absence: Absence) {
        if let Some(row) = self.rows.get_mut(id.0) {
            row.absence = absence;
        }
    }
}

impl Expected {
    /// The name after the layer's prefix.
    pub fn local_name(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Hf => self.hf,
            Dialect::Gguf => self.gguf,
        }
    }

    /// Number of elements; saturates.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, axis| n.saturating_mul(axis.len as u64))
    }
}
