//! The tensors a model must have: each declared once, with both names, its shape and the reason for it.

use crate::axis::Axis;
use crate::index::TensorInfo;
use crate::source::Dialect;
use std::borrow::Cow;
use std::ops::Range;

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

/// In what the numbers of a tensor differ between the two worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// In nothing.
    None,
    /// Hugging Face stores it [in, out]; GGUF, like everything else, [out, in].
    Transposed,
    /// Within each head of this width, GGUF has the rows that rotate together side by side (`0 1 0 1`), Hugging Face
    /// half a head apart (`0 0 1 1`).
    Interleaved(usize),
    /// GGUF stores the number by which is multiplied, Hugging Face that number less 1.
    PlusOne,
}

/// How a tensor that only Hugging Face has is cut into two that only GGUF has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Its outputs alternate: even ones belong to the first, odd ones to the second.
    Alternating,
    /// Of each head's rows the first ones are the first's, transposed there, and the others the second's.
    PerHead,
}

/// One tensor of the table.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Hugging Face name, after the layer's prefix; empty if there is none in that world. A `*` stands for the number
    /// of an expert, of which each is a tensor of its own there.
    pub hf: &'static str,
    /// GGUF name, after the layer's prefix; empty if there is none in that world.
    pub gguf: &'static str,
    /// Layer number, for tensors of a layer.
    pub layer: Option<usize>,
    /// As it is computed with, outermost axis first: [out, in] for a matrix, [experts, out, in] for those of experts.
    pub shape: Vec<Axis>,
    /// In what the stored numbers differ between the worlds.
    pub conversion: Conversion,
    /// Of how many of its parts (experts) a token makes use; all of them if there are no parts.
    pub used: Option<usize>,
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
        self.with(None)
    }

    /// With one.
    pub fn with(self, bias: Option<TensorId>) -> LinearId {
        LinearId { weight: self, bias, outputs: None, transposed: false, expert: 0 }
    }
}

/// Handles of a matrix and the bias that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearId {
    /// The matrix.
    pub weight: TensorId,
    /// The bias.
    pub bias: Option<TensorId>,
    /// The first of its outputs that are meant and the one past the last; `None` for all.
    pub outputs: Option<(usize, usize)>,
    /// Whether what is meant is the transpose, of those outputs alone.
    pub transposed: bool,
    /// Which of the stacked matrices is meant; 0 where there is one.
    pub expert: usize,
}

impl LinearId {
    /// Some of the outputs: of a matrix that several projections share.
    pub fn outputs(self, outputs: Range<usize>) -> LinearId {
        LinearId { outputs: Some((outputs.start, outputs.end)), ..self }
    }

    /// The transpose of what it is so far: its outputs become the inputs. Without a bias.
    pub fn transposed(self) -> LinearId {
        LinearId { transposed: true, bias: None, ..self }
    }

    /// One of the stacked matrices, with its bias.
    pub fn expert(self, expert: usize) -> LinearId {
        LinearId { expert, ..self }
    }
}

/// A tensor of the table as one of the two worlds stores it.
#[derive(Clone, Debug)]
pub struct Stored<'t> {
    /// Its full name.
    pub name: String,
    /// Outermost axis first.
    pub shape: Cow<'t, [Axis]>,
    /// Its row of the table, of which several may come: one for each expert.
    pub row: &'t Expected,
}

impl Stored<'_> {
    /// As it is beside a tensor that is stored: of one that is packed every scheme has the outputs before the inputs,
    /// also where the same tensor in a plain type is transposed.
    pub fn beside(self, tensor: &TensorInfo) -> Self {
        let turned = self.row.conversion == Conversion::Transposed && tensor.is_packed();
        let shape = if turned { Cow::Owned(last_two_swapped(&self.shape)) } else { self.shape };
        Stored { shape, ..self }
    }

    /// The lengths of its axes.
    pub fn lens(&self) -> Vec<usize> {
        self.shape.iter().map(|axis| axis.len).collect()
    }

    /// Whether a tensor's shape is the expected one. GGUF writers drop axes of length 1 at the far end or keep them:
    /// such axes are left out on both sides.
    pub fn fits(&self, found: &[usize], dialect: Dialect) -> bool {
        let wanted = self.lens();
        if dialect == Dialect::Hf {
            return found == wanted;
        }
        let significant = |shape: &[usize]| {
            let first = shape.iter().position(|&d| d != 1).unwrap_or(shape.len());
            shape.get(first..).unwrap_or_default().to_vec()
        };
        significant(found) == significant(&wanted)
    }
}

/// Every tensor of a model, in the order in which a forward pass meets them.
#[derive(Clone, Debug)]
pub struct TensorTable {
    rows: Vec<Expected>,
    /// Prefixes of the tensors of a layer: ("model.layers", "blk").
    prefixes: (&'static str, &'static str),
    layer: Option<usize>,
    /// Tensors that only one world has, and those of the other that are the same numbers.
    splits: Vec<(usize, Split, [usize; 2])>,
    /// What all Hugging Face names that begin with the first begin with instead; the first that fits counts.
    renamed: Vec<(Cow<'static, str>, String)>,
    /// What the names of the model begin with, where it is a part of a larger one: its own prefix, and those of its
    /// tensors that lie beside it.
    within: Vec<String>,
    /// Layers behind the last that a file may hold though nothing uses them.
    spare_layers: usize,
    /// How vectors that scale differ between the worlds.
    scales: Conversion,
    /// Layer-relative or global names that a file may hold though nothing uses them (Hugging Face names).
    ignored: Vec<&'static str>,
}

impl TensorTable {
    /// An empty table. `hf` and `gguf` are what layer tensors' names begin with: `model.layers`, `blk`.
    pub fn new(hf: &'static str, gguf: &'static str) -> TensorTable {
        TensorTable {
            rows: Vec::new(),
            prefixes: (hf, gguf),
            layer: None,
            splits: Vec::new(),
            renamed: Vec::new(),
            within: Vec::new(),
            spare_layers: 0,
            scales: Conversion::None,
            ignored: Vec::new(),
        }
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

    /// The matrices of all experts, `[experts, out, in]`, of which a token uses `used`. In the Hugging Face world each
    /// is a tensor of its own where the name has a `*` in the place of its number; else they are stacked, as they are in
    /// GGUF.
    pub fn experts(
        &mut self,
        hf: &'static str,
        gguf: &'static str,
        shape: [&Axis; 3],
        used: usize,
    ) -> TensorId {
        let id = self.add(hf, gguf, &shape, Use::Matrix);
        self.edit(id, |row| row.used = Some(used));
        id
    }

    /// Matrices that GGUF has stacked, all of which every token uses: one to a head.
    pub fn gguf_stack(&mut self, gguf: &'static str, shape: [&Axis; 3]) -> TensorId {
        self.add("", gguf, &shape, Use::Matrix)
    }

    /// Vectors that are added, one to each expert: `[experts, len]`.
    pub fn expert_biases(&mut self, hf: &'static str, gguf: &'static str, shape: [&Axis; 2]) -> TensorId {
        self.add(hf, gguf, &shape, Use::Bias)
    }

    /// A vector that scales, such as a norm's weight.
    pub fn scale(&mut self, hf: &'static str, gguf: &'static str, len: &Axis) -> TensorId {
        let id = self.add(hf, gguf, &[len], Use::Scale);
        self.convert(id, self.scales);
        id
    }

    /// Of all vectors that scale, Hugging Face stores 1 less than what is multiplied by; GGUF stores just that.
    pub fn scales_less_one(&mut self) {
        self.scales = Conversion::PlusOne;
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

    /// The same, where the model cannot be computed without them.
    pub fn gguf_only(&mut self, gguf: &'static str, len: &Axis) -> TensorId {
        self.add("", gguf, &[len], Use::Helper)
    }

    /// The tensor may be missing.
    pub fn optional(&mut self, id: TensorId) {
        self.set_absence(id, Absence::Fine);
    }

    /// The worlds store the tensor differently.
    pub fn convert(&mut self, id: TensorId, conversion: Conversion) {
        self.edit(id, |row| row.conversion = conversion);
    }

    /// What Hugging Face has in one tensor, GGUF has in two.
    pub fn split(&mut self, whole: TensorId, split: Split, parts: [TensorId; 2]) {
        self.splits.push((whole.0, split, parts.map(|part| part.0)));
    }

    /// Of which row's tensor, cut in which way, the row's is which part; by places in the table.
    pub fn part_of(&self, row: usize) -> Option<(usize, Split, usize)> {
        self.splits.iter().find_map(|&(whole, split, parts)| {
            let part = parts.iter().position(|&part| part == row)?;
            Some((whole, split, part))
        })
    }

    /// `by` stands in for the tensor where it is missing; see [`Absence::StandIn`].
    pub fn tie(&mut self, id: TensorId, by: TensorId, declared: bool) {
        self.set_absence(id, Absence::StandIn { by: by.0, declared });
    }

    /// What to think of first when the tensor is missing.
    pub fn hint(&mut self, id: TensorId, hint: &'static str) {
        self.edit(id, |row| row.hint = Some(hint));
    }

    /// A tensor that old files hold though it is worked out anew: a mask or a table of frequencies. Given by
    /// its Hugging Face name after the layer's prefix.
    pub fn ignore(&mut self, hf: &'static str) {
        self.ignored.push(hf);
    }

    /// Layers that follow the last, so many at most, may be in a file though nothing uses them.
    pub fn ignore_layers(&mut self, more: usize) {
        self.spare_layers = more;
    }

    /// In this model all Hugging Face names that begin with `from` begin with `to` instead: it is a bare base model, or
    /// part of a larger one.
    pub fn rename_hf(&mut self, from: &'static str, to: impl Into<String>) {
        self.renamed = vec![(Cow::Borrowed(from), to.into())];
    }

    /// In this model, which is a part of a larger one, Hugging Face names that begin with the first of a pair begin with
    /// the second instead. Names of the file that begin with none of `within`, the model's own prefix before those of
    /// tensors that lie beside it, belong to other parts.
    pub fn place_hf(&mut self, renamed: Vec<(String, String)>, within: Vec<String>) {
        self.renamed = renamed.into_iter().map(|(from, to)| (Cow::Owned(from), to)).collect();
        self.within = within;
    }

    /// What the names of the model begin with, where it is a part of a larger one.
    pub fn within(&self) -> Option<&str> {
        self.within.first().map(String::as_str)
    }

    /// Whether a tensor belongs to another part of a larger model.
    pub fn is_outside(&self, name: &str) -> bool {
        !self.within.is_empty() && !self.within.iter().any(|within| name.starts_with(within.as_str()))
    }

    /// All tensors from the one at this place in the table on may be missing.
    pub fn optional_since(&mut self, first: usize) {
        self.rows.iter_mut().skip(first).for_each(|row| row.absence = Absence::Fine);
    }

    /// All rows, in the order of declaration.
    pub fn rows(&self) -> &[Expected] {
        &self.rows
    }

    /// Whether a file may hold a tensor of this name though nothing uses it.
    pub fn ignores(&self, name: &str, dialect: Dialect) -> bool {
        let spare = || {
            let (layer, _) = self.layer_of(name, dialect)?;
            Some((self.layers()..self.layers().saturating_add(self.spare_layers)).contains(&layer))
        };
        self.ignored.iter().any(|local| name.ends_with(local))
            || self.spare_layers > 0 && spare() == Some(true)
    }

    /// What the names of a layer's tensors begin with, without the layer's number.
    pub fn layer_prefix(&self, dialect: Dialect) -> Cow<'_, str> {
        match dialect {
            Dialect::Hf => self.in_place(self.prefixes.0),
            Dialect::Gguf => Cow::Borrowed(self.prefixes.1),
        }
    }

    /// Layer number and local name of a tensor whose name begins as the table's layers do.
    pub fn layer_of<'n>(&self, name: &'n str, dialect: Dialect) -> Option<(usize, &'n str)> {
        let rest = name.strip_prefix(&*self.layer_prefix(dialect))?.strip_prefix('.')?;
        let (number, local) = rest.split_once('.')?;
        Some((number.parse().ok()?, local))
    }

    /// A Hugging Face name as it is in this model.
    fn in_place<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let renamed = self.renamed.iter().find_map(|(from, to)| Some((to, name.strip_prefix(&**from)?)));
        renamed.map_or(Cow::Borrowed(name), |(to, rest)| Cow::Owned(format!("{to}{rest}")))
    }

    /// Number of layers declared.
    pub fn layers(&self) -> usize {
        self.rows.iter().filter_map(|r| r.layer).max().map_or(0, |l| l.saturating_add(1))
    }

    /// The tensors that exist in a dialect, in the order of their rows.
    pub fn named(&self, dialect: Dialect) -> impl Iterator<Item = Stored<'_>> {
        self.rows.iter().flat_map(move |row| self.stored(row, dialect))
    }

    /// The tensors that a row is in a dialect: none where it has no name, one, or as many as there are experts.
    pub fn stored<'t>(&'t self, row: &'t Expected, dialect: Dialect) -> impl Iterator<Item = Stored<'t>> {
        let local = row.local_name(dialect);
        let parts = row.parts(dialect);
        let shape = if parts.is_some() { row.shape.get(1..).unwrap_or_default() } else { &row.shape };
        let turned = dialect == Dialect::Hf && row.conversion == Conversion::Transposed;
        let shape = move || if turned { Cow::Owned(last_two_swapped(shape)) } else { Cow::Borrowed(shape) };
        let names = if local.is_empty() { 0 } else { parts.unwrap_or(1) };
        (0..names).map(move |part| {
            let local = match parts {
                Some(_) => Cow::Owned(local.replacen('*', &part.to_string(), 1)),
                None => Cow::Borrowed(local),
            };
            Stored { name: self.full_name(row.layer, &local, dialect), shape: shape(), row }
        })
    }

    fn full_name(&self, layer: Option<usize>, local: &str, dialect: Dialect) -> String {
        match layer {
            Some(layer) => format!("{}.{layer}.{local}", self.layer_prefix(dialect)),
            None if dialect == Dialect::Hf => self.in_place(local).into_owned(),
            None => local.to_owned(),
        }
    }

    /// The full name of a row.
    pub fn name(&self, row: &Expected, dialect: Dialect) -> String {
        self.full_name(row.layer, row.local_name(dialect), dialect)
    }

    fn add(&mut self, hf: &'static str, gguf: &'static str, shape: &[&Axis], usage: Use) -> TensorId {
        let shape = shape.iter().map(|&axis| axis.clone()).collect();
        self.rows.push(Expected {
            hf,
            gguf,
            layer: self.layer,
            shape,
            conversion: Conversion::None,
            used: None,
            usage,
            absence: Absence::Fault,
            hint: None,
        });
        TensorId(self.rows.len().saturating_sub(1))
    }

    fn set_absence(&mut self, id: TensorId, absence: Absence) {
        self.edit(id, |row| row.absence = absence);
    }

    fn edit(&mut self, id: TensorId, change: impl FnOnce(&mut Expected)) {
        if let Some(row) = self.rows.get_mut(id.0) {
            change(row);
        }
    }
}

/// The shape of a transposed matrix, or of a stack of them.
fn last_two_swapped(shape: &[Axis]) -> Vec<Axis> {
    let mut shape = shape.to_vec();
    if let [.., a, b] = shape.as_mut_slice() {
        std::mem::swap(a, b);
    }
    shape
}

impl Expected {
    /// The name after the layer's prefix.
    pub fn local_name(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Hf => self.hf,
            Dialect::Gguf => self.gguf,
        }
    }

    /// How many tensors the row is in a dialect, where each expert is one of its own.
    pub fn parts(&self, dialect: Dialect) -> Option<usize> {
        let apart = dialect == Dialect::Hf && self.hf.contains('*');
        apart.then(|| self.shape.first().map_or(0, |experts| experts.len))
    }

    /// The part of it that one token makes use of: 1, but for experts.
    pub fn share_used(&self) -> f64 {
        let of = self.shape.first().map_or(1, |experts| experts.len.max(1));
        self.used.map_or(1.0, |used| used.min(of) as f64 / of as f64)
    }

    /// Number of elements; saturates.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, axis| n.saturating_mul(axis.len as u64))
    }
}
