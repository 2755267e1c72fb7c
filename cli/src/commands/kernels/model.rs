//! A model whose tensors kernels are tried on.

use crate::bench::cases::{Dims, Stored};
use scantling_core::check::{self, Request, Silent};
use scantling_core::dtype::Class;
use scantling_core::error::Result;
use scantling_core::finding::Part;
use scantling_core::index::TensorInfo;
use scantling_core::kernel::Kernel;
use scantling_core::matrix::Matrix;
use scantling_core::metadata::Value;
use scantling_core::paging::{self, Prepared};
use scantling_core::registry::Registry;
use scantling_core::source::WeightSource;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An opened model, in memory as for a run.
pub struct Model {
    /// The path as it was given.
    pub path: PathBuf,
    /// How its weights came into memory.
    pub prepared: Prepared,
    /// Its widths, as far as its config tells them.
    pub dims: Dims,
    source: Box<dyn WeightSource>,
}

impl Model {
    /// Opens a model and brings its weights into memory.
    pub fn open(registry: &Registry, path: &Path) -> Result<Model> {
        let dims = dims(registry, path);
        let source = registry.open(path)?;
        let prepared = paging::prepare(source.files())?;
        Ok(Model { path: path.to_owned(), prepared, dims, source })
    }

    /// The tensors that hold weights, with their bytes; one of a single axis is a matrix of one row.
    pub fn tensors(&self) -> Result<Vec<Tensor<'_>>> {
        let mut all = Vec::new();
        for info in self.source.tensors().tensors() {
            if let Some(stored) = matrix_of(info) {
                all.push(Tensor::new(&info.name, stored, self.source.bytes(info)?));
            }
        }
        Ok(all)
    }

    /// How many tensors there are, and the names of those whose bytes are not in the files.
    pub fn all(&self) -> (usize, Vec<String>) {
        let all = self.source.tensors().tensors();
        let lost =
            all.iter().filter(|info| info.bytes.is_none() && !info.is_packed()).map(|info| info.name.clone());
        (all.len(), lost.collect())
    }

    /// The path as it was given, and how the weights came into memory.
    pub fn shown(&self) -> (String, &Prepared) {
        (self.path.display().to_string(), &self.prepared)
    }
}

/// A tensor's last two axes, if its numbers are weights.
fn matrix_of(info: &TensorInfo) -> Option<Stored> {
    let dtype = info.dtype.known()?;
    let weights = matches!(dtype.class(), Class::Float | Class::Quantised) && dtype.codec().is_some();
    let (rows, cols) = match *info.shape {
        [.., rows, cols] => (rows, cols),
        [cols] => (1, cols),
        [] => return None,
    };
    let whole = rows > 0 && cols > 0 && cols.is_multiple_of(dtype.block_elements());
    (weights && whole && info.bytes.is_some()).then_some((dtype, rows, cols))
}

/// A stored tensor of one matrix or several of the same shape.
pub struct Tensor<'m> {
    /// Its name.
    pub name: &'m str,
    /// Element type, rows and columns.
    pub stored: Stored,
    raw: Cow<'m, [u8]>,
}

impl<'m> Tensor<'m> {
    /// A tensor of some bytes.
    pub fn new(name: &'m str, stored: Stored, raw: impl Into<Cow<'m, [u8]>>) -> Tensor<'m> {
        Tensor { name, stored, raw: raw.into() }
    }

    /// Tells a kernel what the bytes are called.
    pub fn label(&self, kernel: &dyn Kernel) {
        kernel.label(&self.raw, self.name);
    }

    /// The matrices.
    pub fn matrices(&self) -> Vec<Matrix<'_>> {
        let (dtype, rows, cols) = self.stored;
        let each = dtype.byte_len(&[rows, cols]).map_or(0, |n| n as usize).max(1);
        self.raw.chunks_exact(each).filter_map(|raw| Matrix::new(dtype, rows, cols, raw).ok()).collect()
    }
}

/// Matrices of several rows by shape, the shape with most bytes first.
pub fn by_shape<'t>(tensors: &'t [Tensor<'_>]) -> Vec<(Stored, Vec<Matrix<'t>>)> {
    let mut by_shape: BTreeMap<Stored, Vec<Matrix<'t>>> = BTreeMap::new();
    for tensor in tensors.iter().filter(|t| t.stored.1 > 1) {
        by_shape.entry(tensor.stored).or_default().extend(tensor.matrices());
    }
    let mut groups: Vec<_> = by_shape.into_iter().collect();
    groups.retain(|(_, all)| !all.is_empty());
    let bytes = |all: &[Matrix<'_>]| all.iter().map(|m| m.data().len()).sum::<usize>();
    groups.sort_by_key(|(_, all)| std::cmp::Reverse(bytes(all)));
    groups
}

/// What the config says; the usual widths stand in for what it does not.
fn dims(registry: &Registry, path: &Path) -> Dims {
    let request = Request { parts: vec![Part::Config], identity: false, ..Request::default() };
    let usual = Dims::default();
    let Ok(checked) = check::run(registry, path, &request, &Silent) else { return usual };
    let number = |name: &str| {
        checked.report.facts.iter().find(|f| f.name == name).and_then(|f| match f.value {
            Value::Unsigned(n) => usize::try_from(n).ok().filter(|n| *n > 0),
            _ => None,
        })
    };
    let hidden = number("hidden_size").unwrap_or(usual.hidden);
    let heads = number("num_attention_heads").unwrap_or(usual.heads.0);
    let kv_heads = number("num_key_value_heads").filter(|n| heads.is_multiple_of(*n)).unwrap_or(heads);
    Dims {
        hidden,
        inner: number("intermediate_size").unwrap_or(usual.inner),
        heads: (heads, kv_heads),
        // Rotations pair elements, of which there are some.
        head: number("head_dim")
            .unwrap_or(hidden / heads)
            .max(1)
            .checked_next_multiple_of(2)
            .unwrap_or(usize::MAX),
    }
}
