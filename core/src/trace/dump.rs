//! A trace as a file of tensors: named for its places, a row to each token.

use super::{Making, Place, Trace};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::metadata::{Entry, Metadata, Value};
use crate::model::Model;
use crate::quant;
use crate::source::{TensorSpec, WeightSource};
use std::borrow::Cow;

/// Names that no model has and every dump has one of.
const MARKS: [&str; 3] = ["embedding", "final_norm", "logits"];

/// Key of the metadata that says which tokens it is of.
const IDS: &str = "ids";

/// Whether a file of tensors is a trace rather than a model.
pub fn is_dump(source: &dyn WeightSource) -> bool {
    MARKS.iter().any(|name| source.tensors().get(name).is_some())
}

/// The tokens that a dump is of, if it says.
pub fn ids_in(source: &dyn WeightSource) -> Option<Vec<u32>> {
    let text = source.metadata().text(IDS)?;
    text.split([',', ' ']).filter(|id| !id.is_empty()).map(|id| id.parse().ok()).collect()
}

/// Metadata and tensors of the file that holds a trace.
pub fn layout(model: &Model, making: &Making, ids: &[u32], trace: &Trace) -> (Metadata, Vec<TensorSpec>) {
    let list = |items: Vec<String>| items.join(",");
    let types = list(making.types.iter().map(|t| t.name().to_owned()).collect());
    let said = [
        ("trace", "1".to_owned()),
        ("model", model.path.clone()),
        ("family", model.family.to_owned()),
        ("kernel", making.kernel.clone()),
        ("rounds_activations", making.rounds.to_string()),
        ("types", types),
        (IDS, list(ids.iter().map(u32::to_string).collect())),
    ];
    let mut metadata = Metadata::default();
    for (key, value) in said {
        let (key, kind) = (key.to_owned(), "string".to_owned());
        // The keys above differ.
        let _ = metadata.push(Entry { key, value: Value::Text(value), kind, at: None });
    }
    let spec = |(place, rows): (&Place, crate::matrix::Rows<'_>)| TensorSpec {
        name: place.to_string(),
        dtype: DType::F32,
        shape: vec![rows.rows(), rows.cols()],
    };
    (metadata, trace.parts().map(spec).collect())
}

/// A dump that is read some tokens at a time.
pub struct Dump<'a> {
    parts: Vec<Stored<'a>>,
    making: Making,
    seen: usize,
}

struct Stored<'a> {
    place: Place,
    dtype: DType,
    rows: usize,
    cols: usize,
    data: Cow<'a, [u8]>,
}

impl<'a> Dump<'a> {
    /// Whatever of a file has the name of a place and can be widened to f32; leading axes of 1 are left away.
    pub fn of(source: &'a dyn WeightSource) -> Result<Dump<'a>> {
        let mut parts = Vec::new();
        for info in source.tensors().tensors() {
            let Some((place, dtype, rows, cols)) = shaped(info) else { continue };
            parts.push(Stored { place, dtype, rows, cols, data: source.bytes(info)? });
        }
        let said = source.metadata();
        let types = said.text("types").unwrap_or_default().split(',');
        let known = |name: &str| DType::all().find(|d| d.name() == name);
        let making = Making {
            kernel: said.text("kernel").unwrap_or_default().to_owned(),
            rounds: said.text("rounds_activations") == Some("true"),
            types: types.filter_map(known).collect(),
        };
        if parts.is_empty() {
            return Err(Error::Usage("there is no intermediate in it that could be compared".to_owned()));
        }
        Ok(Dump { parts, making, seen: 0 })
    }

    /// What made it.
    pub fn making(&self) -> &Making {
        &self.making
    }

    /// The most tokens that any of its parts has rows for.
    pub fn tokens(&self) -> usize {
        self.parts.iter().map(|part| part.rows).max().unwrap_or(0)
    }

    /// The rows of the next tokens.
    pub(super) fn next(&mut self, tokens: usize) -> Result<Trace> {
        let mut trace = Trace::default();
        let range = self.seen..self.seen + tokens;
        for part in &self.parts {
            let (from, to) = (range.start.min(part.rows), range.end.min(part.rows));
            let row_bytes = part.data.len() / part.rows.max(1);
            let raw = &part.data[from * row_bytes..to * row_bytes];
            let mut values = vec![0.0; (to - from) * part.cols];
            quant::decode(part.dtype, raw, &mut values)
                .map_err(|e| Error::Usage(format!("{}: {e}", part.place)))?;
            trace.push(part.place.clone(), &values, part.cols);
        }
        self.seen = range.end;
        Ok(trace)
    }
}

/// Place, type and shape of a tensor that can be a part of a trace.
fn shaped(info: &TensorInfo) -> Option<(Place, DType, usize, usize)> {
    let dtype = info.dtype.known().filter(|d| d.codec().is_some() && d.block_values() == 1)?;
    let place = Place::parse(&info.name)?;
    let ones = info.shape.iter().take_while(|n| **n == 1).count();
    match info.shape.get(ones.min(info.shape.len().saturating_sub(2))..)? {
        [rows, cols] => Some((place, dtype, *rows, *cols)),
        _ => None,
    }
}
