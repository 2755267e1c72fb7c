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

/// The tokens that a dump is of, if it says; or why what it says is none.
pub fn ids_in(source: &dyn WeightSource) -> Option<Result<Vec<u32>, String>> {
    let text = source.metadata().text(IDS)?;
    let words = text.split([',', ' ']).filter(|id| !id.is_empty()).enumerate();
    let id = |(i, word): (usize, &str)| {
        let start: String = word.chars().take(24).collect();
        word.parse()
            .map_err(|_| format!("its metadata \"{IDS}\" is no list of ids: number {i} of it is {start:?}"))
    };
    Some(words.map(id).collect())
}

/// The family of the model that a dump is of, if it says.
pub fn family_in(source: &dyn WeightSource) -> Option<&str> {
    source.metadata().text("family").filter(|family| !family.is_empty())
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
    file: String,
    parts: Vec<Stored<'a>>,
    /// What has the name of an intermediate, but no rows of tokens.
    odd: Vec<(Place, Vec<usize>)>,
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
    /// `file` is what errors call it.
    pub fn of(source: &'a dyn WeightSource, file: &str) -> Result<Dump<'a>> {
        let (mut parts, mut odd) = (Vec::new(), Vec::new());
        for info in source.tensors().tensors() {
            let Some((place, dtype, rows, cols)) = shaped(info) else {
                odd.extend(Place::parse(&info.name).map(|place| (place, info.shape.clone())));
                continue;
            };
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
            return Err(Error::Foreign {
                file: file.to_owned(),
                what: "there is no intermediate in it that could be compared".to_owned(),
                advice: "expected tensors [tokens, width] of F32, F16 or BF16, named as docs/trace.md tells"
                    .to_owned(),
            });
        }
        Ok(Dump { file: file.to_owned(), parts, odd, making, seen: 0 })
    }

    /// What made it.
    pub fn making(&self) -> &Making {
        &self.making
    }

    /// Refuses one that has not a row for each of so many tokens: what it is of would be unknown.
    pub fn has_rows_for(&self, tokens: usize) -> Result<()> {
        let of_a_pass =
            |part: &&Stored<'_>| part.place.layer.is_some() || MARKS.contains(&part.place.name.as_str());
        let Some(part) = self.parts.iter().filter(of_a_pass).find(|part| part.rows != tokens) else {
            return Ok(());
        };
        Err(Error::Foreign {
            file: self.file.clone(),
            what: format!(
                "{} has {} rows, where one is expected for each of {tokens} ids",
                part.place, part.rows
            ),
            advice: "make the trace anew, with the ids it is of".to_owned(),
        })
    }

    /// The rows of the next tokens.
    pub(super) fn next(&mut self, tokens: usize) -> Result<Trace> {
        let mut trace = Trace { odd: self.odd.clone(), ..Trace::default() };
        let range = self.seen..self.seen + tokens;
        for part in &self.parts {
            let (from, to) = (range.start.min(part.rows), range.end.min(part.rows));
            let row_bytes = part.data.len() / part.rows.max(1);
            let raw = &part.data[from * row_bytes..to * row_bytes];
            let mut values = vec![0.0; (to - from) * part.cols];
            quant::decode(part.dtype, raw, &mut values).map_err(|e| Error::Foreign {
                file: self.file.clone(),
                what: format!("{} cannot be read: {e}", part.place),
                advice: "make the trace anew".to_owned(),
            })?;
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
