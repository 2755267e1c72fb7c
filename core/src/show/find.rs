//! Which tensor a person means: by its name in the file, or by the one that it has in the other world.

use super::Selection;
use crate::convert::Step;
use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::names::{nearest, one_line};
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, Conversion, Expected, TensorTable};

/// A tensor that was asked for.
#[derive(Clone, Debug)]
pub struct Found<'s> {
    /// The tensor.
    pub tensor: &'s TensorInfo,
    /// Which of its elements.
    pub selection: Selection,
    /// What is to be said of it, where it goes by another name or is stored otherwise than the one asked for.
    pub notes: Vec<String>,
}

/// A tensor by a name, before its elements are looked for.
struct Named<'s> {
    tensor: &'s TensorInfo,
    /// Which of the stacked ones, where one of them alone has the name.
    index: Option<usize>,
    notes: Vec<String>,
}

/// How many names are suggested.
const SUGGESTED: usize = 4;

/// What of a tensor is meant: packed weights are one thing as numbers, and several as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meant {
    /// Its numbers.
    Numbers,
    /// Its bytes: of what is made of several stored tensors, those of the one that has its name.
    Bytes,
}

/// Finds `NAME` or `NAME[RANGES]`. The whole is tried as a name first, since names may hold brackets.
pub fn find<'s>(
    source: &'s dyn WeightSource,
    table: Option<&TensorTable>,
    asked: &str,
    meant: Meant,
) -> Result<Found<'s>> {
    let named = |name: &str| -> Result<Option<Named<'s>>> {
        Ok(named(source, table, name)?.map(|named| named.meaning(meant)))
    };
    if let Some(named) = named(asked)? {
        return named.with(None, asked);
    }
    let parted = asked.strip_suffix(']').and_then(|asked| asked.rsplit_once('['));
    if let Some((name, ranges)) = parted
        && let Some(named) = named(name.trim_end())?
    {
        return named.with(Some(ranges), asked);
    }
    Err(unknown(source, table, parted.map_or(asked, |(name, _)| name)))
}

impl<'s> Named<'s> {
    fn meaning(self, meant: Meant) -> Named<'s> {
        let part = self.tensor.parts.iter().find(|part| part.name == self.tensor.name);
        match part {
            Some(part) if meant == Meant::Bytes => {
                let others: Vec<&str> = self
                    .tensor
                    .parts
                    .iter()
                    .map(|part| part.name.as_str())
                    .filter(|n| *n != part.name)
                    .collect();
                let note = match others.as_slice() {
                    [] => "bytes as they are stored; numbers are those that they stand for".to_owned(),
                    others => format!(
                        "one of the stored tensors of a matrix, which also takes {}",
                        others.join(", ")
                    ),
                };
                Named { tensor: part, index: None, notes: vec![note] }
            }
            _ => self,
        }
    }

    fn with(self, ranges: Option<&str>, asked: &str) -> Result<Found<'s>> {
        let shape = &self.tensor.shape;
        let usage = |why: String| Error::Usage(format!("{}: {why}", one_line(asked)));
        let whole = match self.index {
            None => ranges.map(str::to_owned),
            Some(index) => {
                Some(ranges.map_or_else(|| index.to_string(), |ranges| format!("{index}, {ranges}")))
            }
        };
        let selection = match whole {
            None => Selection::all(shape),
            Some(ranges) => Selection::parse(&ranges, shape).map_err(usage)?,
        };
        Ok(Found { tensor: self.tensor, selection, notes: self.notes })
    }
}

/// A tensor of the file, or a part of a packed one.
fn stored<'s>(source: &'s dyn WeightSource, name: &str) -> Option<&'s TensorInfo> {
    let index = source.tensors();
    let part = || index.tensors().iter().flat_map(|t| &t.parts).find(|part| part.name == name);
    index.get(name).or_else(part)
}

fn named<'s>(
    source: &'s dyn WeightSource,
    table: Option<&TensorTable>,
    name: &str,
) -> Result<Option<Named<'s>>> {
    if let Some(tensor) = stored(source, name) {
        let mut notes = Vec::new();
        if tensor.is_packed() {
            let parts: Vec<&str> = tensor.parts.iter().map(|part| part.name.as_str()).collect();
            notes.push(format!("the matrix that {} make up together", parts.join(", ")));
        }
        return Ok(Some(Named { tensor, index: None, notes }));
    }
    let Some(table) = table else { return Ok(None) };
    let (own, other) = match source.dialect() {
        Dialect::Hf => (Dialect::Hf, Dialect::Gguf),
        Dialect::Gguf => (Dialect::Gguf, Dialect::Hf),
    };
    let places = table.rows().iter().enumerate();
    for (at, row) in places {
        for dialect in [own, other] {
            let number = table.stored(row, dialect).position(|stored| stored.name == name);
            if let Some(number) = number {
                return Asked { source, table, name, dialect }.row(at, row, number);
            }
        }
    }
    Ok(None)
}

/// A name that the table knows.
struct Asked<'s, 't> {
    source: &'s dyn WeightSource,
    table: &'t TensorTable,
    name: &'t str,
    /// The world that it is of.
    dialect: Dialect,
}

impl<'s> Asked<'s, '_> {
    /// The tensor of a row of the table, of which the name asked for is the one of this number.
    fn row(&self, at: usize, row: &Expected, number: usize) -> Result<Option<Named<'s>>> {
        let here = self.source.dialect();
        let own: Vec<String> = self.table.stored(row, here).map(|stored| stored.name).collect();
        let several = row.parts(self.dialect).is_some();
        match own.as_slice() {
            [] => Err(self.refuse(&self.elsewhere(at))),
            [one] => {
                let index = several.then_some(number).filter(|_| here == Dialect::Gguf);
                let Some(tensor) = stored(self.source, one) else { return self.stand_in(row) };
                let mut notes = Vec::new();
                if self.dialect != here {
                    let which = index.map_or_else(String::new, |i| format!("[{i}]"));
                    notes.push(format!("{} is {one}{which} in this file", self.name));
                    notes.extend(self.difference(row));
                }
                Ok(Some(Named { tensor, index, notes }))
            }
            [first, .., last] if self.dialect != here => {
                let what = format!("it is {} tensors here, {first} to {last}: name one of them", own.len());
                Err(self.refuse(&what))
            }
            // One of several that the file should hold and does not.
            _ => Ok(None),
        }
    }

    /// What a row without a name in this world is made of, or goes into.
    fn elsewhere(&self, at: usize) -> String {
        let here = self.source.dialect();
        let name = |row: usize| self.table.rows().get(row).map(|row| self.table.name(row, here));
        if let Some((whole, split, _)) = self.table.part_of(at) {
            let step = Step::Cut(split);
            return match name(whole) {
                Some(whole) => format!("here it is a part of {whole} ({step}): name that"),
                None => "there is no such tensor in this world".to_owned(),
            };
        }
        let rows = 0..self.table.rows().len();
        let parts = rows.filter(|row| self.table.part_of(*row).is_some_and(|(whole, ..)| whole == at));
        let parts: Vec<String> = parts.filter_map(name).collect();
        match parts.is_empty() {
            true => "there is no such tensor in this world".to_owned(),
            false => format!("here it is cut into {}: name one of them", parts.join(" and ")),
        }
    }

    /// What is used where the tensor of a row is absent.
    fn stand_in(&self, row: &Expected) -> Result<Option<Named<'s>>> {
        let Absence::StandIn { by, .. } = row.absence else { return Ok(None) };
        let here = self.source.dialect();
        let Some(by) = self.table.rows().get(by).map(|row| self.table.name(row, here)) else {
            return Ok(None);
        };
        let note = format!("{} is not in the file: it is tied to {by}, which this is", self.name);
        let named = |tensor| Named { tensor, index: None, notes: vec![note] };
        Ok(stored(self.source, &by).map(named))
    }

    /// In what the tensor here differs from the one asked for.
    fn difference(&self, row: &Expected) -> Option<String> {
        let step = match row.conversion {
            Conversion::None => return None,
            Conversion::Transposed => Step::Transposed,
            Conversion::Interleaved(head) => Step::Interleaved(head),
            Conversion::PlusOne => Step::PlusOne,
        };
        Some(match self.source.dialect() {
            Dialect::Gguf => format!("it is stored as GGUF has it, not as Hugging Face does: {step}"),
            Dialect::Hf => format!("it is stored as Hugging Face has it; in a GGUF file: {step}"),
        })
    }

    fn refuse(&self, what: &str) -> Error {
        let world = match self.dialect {
            Dialect::Hf => "a name of the Hugging Face world",
            Dialect::Gguf => "a name of the GGUF world",
        };
        Error::Usage(one_line(&format!("{} is {world}, and {what}", self.name)).into_owned())
    }
}

fn unknown(source: &dyn WeightSource, table: Option<&TensorTable>, name: &str) -> Error {
    let tensors = source.tensors().tensors();
    let own = tensors.iter().flat_map(|t| std::iter::once(t).chain(&t.parts)).map(|t| t.name.as_str());
    let mut near: Vec<String> = nearest(name, own, SUGGESTED).into_iter().map(str::to_owned).collect();
    if let (true, Some(table)) = (near.is_empty(), table) {
        let other = if source.dialect() == Dialect::Hf { Dialect::Gguf } else { Dialect::Hf };
        let all: Vec<String> = table.named(other).map(|stored| stored.name).collect();
        near.extend(nearest(name, all.iter().map(String::as_str), SUGGESTED).into_iter().map(str::to_owned));
    }
    let hint = match near.as_slice() {
        [] => "scantling inspect --tensors lists all names".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    let tensors =
        if tensors.len() == 1 { "1 tensor".to_owned() } else { format!("{} tensors", tensors.len()) };
    Error::Usage(one_line(&format!("none of {tensors} is named \"{name}\"; {hint}")).into_owned())
}
