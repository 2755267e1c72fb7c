//! The table of an architecture beside the tensors of a source: what is missing, misshapen, of a wrong type,
//! or not in the table at all.

use crate::codes;
use crate::dtype::Class;
use crate::finding::Finding;
use crate::index::{Shape, TensorInfo};
use crate::source::WeightSource;
use crate::table::{Absence, Expected, Stored, TensorTable, Use};
use std::collections::{BTreeMap, HashSet};

codes! {
    pub static TENSOR_MISSING = Error, Names, "tensor-missing",
        "a tensor that the architecture needs is not there",
        "The config implies the tensor and no file holds it under its name. It may have been lost in a conversion, \
         renamed, lie in a shard that is absent, or the config may be that of another model.";
    pub static TENSOR_UNEXPECTED = Error, Names, "tensor-unexpected",
        "a tensor that the architecture does not know",
        "The file holds a tensor that the family, with this config, has no place for: nothing would read it. It may be \
         misnamed, left over from training, belong to a further layer, or the model may be of another family.";
    pub static TENSOR_IGNORED = Note, Names, "tensor-ignored",
        "a tensor that nothing reads",
        "Older checkpoints hold tables and masks that are worked out anew when a model is loaded. They are harmless.";
    pub static TENSOR_MISSHAPEN = Error, Shapes, "tensor-misshapen",
        "a tensor does not have the shape that the config implies",
        "Each length follows from the hyperparameters named. Either the config is that of another model, or the \
         tensor was cut, padded, transposed or fused in a conversion.";
    pub static TENSOR_TYPE = Error, Types, "tensor-type",
        "a tensor's numbers are of a kind that cannot be weights",
        "The architecture computes with this tensor, so it must hold floating-point or block-quantised numbers. Whole \
         numbers and bare 4- or 6-bit codes are packed weights whose scales are stored elsewhere, or a mistake.";
    pub static TYPES_MIXED = Note, Types, "types-mixed",
        "tensors of one kind are stored in different types",
        "In a file that is not quantised all layers usually share one type for each kind of matrix. A mixture may be \
         meant (some layers kept in F32), or come from shards of two different conversions.";
    pub static SQUARE_MATRICES = Note, Shapes, "square-matrices",
        "a shape cannot tell whether a square matrix is transposed",
        "A transposed square matrix has the shape of the right one. Only its values tell, by a comparison with another \
         copy of the model or by computing with it.";
}

/// A tensor of the table that is not in the source.
pub(super) struct Missing<'t> {
    pub stored: Stored<'t>,
}

/// A tensor of the table whose shape is not the expected one.
pub(super) struct Misshapen<'t, 's> {
    pub tensor: &'s TensorInfo,
    pub stored: Stored<'t>,
}

/// Everything in which a source differs from a table.
#[derive(Default)]
pub(super) struct Differences<'t, 's> {
    pub missing: Vec<Missing<'t>>,
    pub unexpected: Vec<&'s TensorInfo>,
    pub misshapen: Vec<Misshapen<'t, 's>>,
    /// Tensors of other parts of a larger model, which are no difference.
    pub outside: Vec<&'s TensorInfo>,
    /// Findings about single tensors that need no further explanation.
    pub others: Vec<Finding>,
}

impl Differences<'_, '_> {
    /// How much differs in names and shapes.
    pub(super) fn count(&self) -> usize {
        self.missing.len().saturating_add(self.unexpected.len()).saturating_add(self.misshapen.len())
    }
}

/// Compares every row of the table with the source, and every tensor of the source with the table.
pub(super) fn compare<'t, 's>(table: &'t TensorTable, source: &'s dyn WeightSource) -> Differences<'t, 's> {
    let dialect = source.dialect();
    let tensors = source.tensors();
    let mut known: HashSet<&str> = HashSet::with_capacity(tensors.len());
    let mut found = Differences::default();
    let mut square: BTreeMap<&'static str, usize> = BTreeMap::new();
    for stored in table.named(dialect) {
        let row = stored.row;
        let Some(tensor) = tensors.get(&stored.name) else {
            if row.absence == Absence::Fault {
                found.missing.push(Missing { stored });
            }
            continue;
        };
        let stored = stored.beside(tensor);
        known.insert(&tensor.name);
        found.others.extend(judge_type(tensor, row, source));
        if !stored.fits(&tensor.shape, dialect) {
            found.misshapen.push(Misshapen { tensor, stored });
        } else if row.usage == Use::Matrix && is_square(&tensor.shape) {
            *square.entry(row.local_name(dialect)).or_insert(0) += 1;
        }
    }
    let packed = tensors.tensors().iter().any(TensorInfo::is_packed);
    for tensor in tensors.tensors() {
        if known.contains(tensor.name.as_str()) {
            continue;
        }
        if table.is_outside(&tensor.name) {
            found.outside.push(tensor);
        } else if table.ignores(&tensor.name, dialect) || packed && of_a_cache(&tensor.name) {
            let f = Finding::new(&TENSOR_IGNORED, "nothing reads it").tensor(&tensor.name);
            found.others.push(f.file(file_of(source, tensor)));
        } else {
            found.unexpected.push(tensor);
        }
    }
    found.others.extend(square_note(&square));
    found.others.extend(mixed_types(table, source));
    found
}

/// The file that holds a tensor, as messages name it.
pub(super) fn file_of(source: &dyn WeightSource, tensor: &TensorInfo) -> String {
    source.files().get(tensor.shard).map_or_else(String::new, |f| f.name().to_owned())
}

/// Whether its transpose, or that of each matrix in a stack, has the same shape.
fn is_square(shape: &[usize]) -> bool {
    matches!(shape, [.., a, b] if a == b)
}

/// Scales of a quantised cache of keys and values, which packed checkpoints may bring along; no cache here uses them.
fn of_a_cache(name: &str) -> bool {
    [".k_scale", ".v_scale", ".q_scale"].iter().any(|end| name.ends_with(end))
}

fn judge_type(tensor: &TensorInfo, row: &Expected, source: &dyn WeightSource) -> Option<Finding> {
    let (what, matrix) = match row.usage {
        Use::Embedding | Use::Matrix => ("a matrix of the model", true),
        Use::Scale | Use::Bias | Use::Helper => ("a vector of the model", false),
    };
    let fine = match tensor.dtype.known() {
        Some(dtype) => {
            let whole_bytes = dtype.is_quantised() || dtype.block_elements() == 1;
            matches!(dtype.class(), Class::Float | Class::Quantised) && whole_bytes
        }
        None => matrix || !tensor.is_packed(),
    };
    if fine {
        return None;
    }
    let dtype = &tensor.dtype;
    let f = Finding::new(&TENSOR_TYPE, format!("{what} is stored as {dtype}")).tensor(&tensor.name);
    let f = f.file(file_of(source, tensor)).at(tensor.entry_at);
    let f = f.versus("a floating-point or block-quantised type", dtype.to_string());
    Some(f.advice("if the weights are packed, the config has to say how (quantization_config)"))
}

fn square_note(square: &BTreeMap<&'static str, usize>) -> Option<Finding> {
    if square.is_empty() {
        return None;
    }
    let names: Vec<&str> = square.keys().copied().collect();
    let message = format!("a shape check cannot see whether the square {} are transposed", names.join(", "));
    Some(Finding::new(&SQUARE_MATRICES, message))
}

/// Kinds of matrices whose type differs between layers, where nothing is quantised.
fn mixed_types(table: &TensorTable, source: &dyn WeightSource) -> Vec<Finding> {
    let tensors = source.tensors();
    let quantised =
        |t: &TensorInfo| t.is_packed() || t.dtype.known().is_some_and(|dtype| dtype.is_quantised());
    let quantised = tensors.tensors().iter().any(quantised);
    if quantised {
        return Vec::new();
    }
    let mut kinds: BTreeMap<&str, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    for stored in table.named(source.dialect()).filter(|s| s.row.usage == Use::Matrix) {
        if let (Some(tensor), Some(layer)) = (tensors.get(&stored.name), stored.row.layer) {
            let types = kinds.entry(stored.row.local_name(source.dialect())).or_default();
            let layers = types.entry(tensor.dtype.to_string()).or_default();
            if layers.last() != Some(&layer) {
                layers.push(layer); // Once, however many experts it has.
            }
        }
    }
    let mixed = kinds.into_iter().filter(|(_, types)| types.len() > 1);
    mixed
        .map(|(kind, types)| {
            let parts: Vec<String> =
                types.iter().map(|(dtype, layers)| format!("{dtype} in layers {}", ranges(layers))).collect();
            Finding::new(&TYPES_MIXED, format!("{kind} is {}", parts.join(", ")))
        })
        .collect()
}

/// Ascending numbers as ranges: `0–3, 5, 7–9`.
pub(super) fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Option<(usize, usize)> = None;
    let show =
        |(from, to): (usize, usize)| if from == to { from.to_string() } else { format!("{from}–{to}") };
    for &n in numbers {
        run = match run {
            Some((from, to)) if to.saturating_add(1) == n => Some((from, n)),
            Some(done) => {
                parts.push(show(done));
                Some((n, n))
            }
            None => Some((n, n)),
        };
    }
    parts.extend(run.map(show));
    parts.join(", ")
}

/// A shape with the reasons for its lengths, for messages.
pub(super) fn reasons(stored: &Stored<'_>) -> String {
    let whys: Vec<String> = stored.shape.iter().map(ToString::to_string).collect();
    format!("{:?}: {}", Shape(&stored.lens()), whys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_fold_into_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[4]), "4");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0–2, 5, 7–8");
    }
}
