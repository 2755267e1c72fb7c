//! The numbers of one tensor: which are meant, where they lie, and what they are.

mod find;
mod select;

pub use find::{Found, Meant, find};
pub use select::{Pick, Selection};

use crate::dtype::{Class, DType};
use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::names::{one_line, shell_word};
use crate::packed::Packed;
use crate::quant;
use crate::quant::fields::{Held, Layout};
use crate::source::WeightSource;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

/// Numbers, none of them rounded; but for floats of fewer bits and blocks, which are widened to f32.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floats, and what blocks decode to.
    F32(Vec<f32>),
    /// Floats of 64 bits.
    F64(Vec<f64>),
    /// Signed integers.
    Signed(Vec<i64>),
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Real and imaginary part.
    Complex(Vec<[f32; 2]>),
}

impl Values {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(all) => all.len(),
            Values::F64(all) => all.len(),
            Values::Signed(all) => all.len(),
            Values::Unsigned(all) => all.len(),
            Values::Bool(all) => all.len(),
            Values::Complex(all) => all.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends others, which have to be of the same kind.
    pub fn append(&mut self, more: Values) {
        match (self, more) {
            (Values::F32(all), Values::F32(more)) => all.extend(more),
            (Values::F64(all), Values::F64(more)) => all.extend(more),
            (Values::Signed(all), Values::Signed(more)) => all.extend(more),
            (Values::Unsigned(all), Values::Unsigned(more)) => all.extend(more),
            (Values::Bool(all), Values::Bool(more)) => all.extend(more),
            (Values::Complex(all), Values::Complex(more)) => all.extend(more),
            _ => {}
        }
    }

    /// Those at these places, in their order.
    fn at(&self, places: impl Iterator<Item = usize>) -> Values {
        fn of<T: Copy>(all: &[T], places: impl Iterator<Item = usize>) -> Vec<T> {
            places.filter_map(|place| all.get(place).copied()).collect()
        }
        match self {
            Values::F32(all) => Values::F32(of(all, places)),
            Values::F64(all) => Values::F64(of(all, places)),
            Values::Signed(all) => Values::Signed(of(all, places)),
            Values::Unsigned(all) => Values::Unsigned(of(all, places)),
            Values::Bool(all) => Values::Bool(of(all, places)),
            Values::Complex(all) => Values::Complex(of(all, places)),
        }
    }
}

/// Elements of one tensor, read when they are asked for.
pub struct View<'s> {
    source: &'s dyn WeightSource,
    tensor: &'s TensorInfo,
    selection: Selection,
    form: Form<'s>,
}

enum Form<'s> {
    Plain(DType, Cow<'s, [u8]>),
    Packed(Box<dyn Packed + 's>),
}

/// One block, taken apart.
pub struct Block<'v> {
    /// Its element type.
    pub dtype: DType,
    /// How it is laid out.
    pub layout: &'static Layout,
    /// Its number in the tensor.
    pub number: usize,
    /// Offset of its first byte in the file.
    pub at: u64,
    /// Number in the tensor of its first element.
    pub first: usize,
    /// Its fields, little-endian.
    pub fields: Vec<Held<'v>>,
    /// Its elements.
    pub elements: Vec<f32>,
}

impl<'s> View<'s> {
    /// The elements that were found. Fails where the tensor's bytes are not in the file, or no specification says how
    /// they are numbers.
    pub fn of(source: &'s dyn WeightSource, found: &Found<'s>) -> Result<View<'s>> {
        let (tensor, selection) = (found.tensor, found.selection.clone());
        let form = match source.packed(tensor)? {
            Some(packed) => Form::Packed(packed),
            None => {
                let dtype = tensor.dtype.known().ok_or_else(|| Error::Foreign {
                    file: file_of(source, tensor).to_owned(),
                    what: format!(
                        "{} is of an element type that is not known: {}",
                        tensor.name, tensor.dtype
                    ),
                    advice: "its numbers cannot be told; convert the model again".to_owned(),
                })?;
                Form::Plain(dtype, source.bytes(tensor)?)
            }
        };
        Ok(View { source, tensor, selection, form })
    }

    /// The tensor.
    pub fn tensor(&self) -> &'s TensorInfo {
        self.tensor
    }

    /// The source that it is of.
    pub fn source(&self) -> &'s dyn WeightSource {
        self.source
    }

    /// The file that it, or one of the tensors that make it up, lies in.
    pub fn file_of(&self, tensor: &TensorInfo) -> &str {
        file_of(self.source, tensor)
    }

    /// What is taken of it.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Its element type; `None` for one that is packed.
    pub fn dtype(&self) -> Option<DType> {
        match &self.form {
            Form::Plain(dtype, _) => Some(*dtype),
            Form::Packed(_) => None,
        }
    }

    /// Whether its numbers can be told, or only its bytes.
    pub fn is_decodable(&self) -> bool {
        self.dtype().is_none_or(|dtype| dtype.codec().is_some())
    }

    /// Offset in its file of the first byte of the tensor; `None` where several make it up.
    pub fn at(&self) -> Option<u64> {
        self.tensor.bytes.as_ref().map(|bytes| bytes.start)
    }

    /// Offset in its file of the first byte of the first element that is taken, or of the block that it is in.
    pub fn first_at(&self) -> Option<u64> {
        let dtype = self.dtype()?;
        let places: Vec<usize> = self.selection.picks.iter().map(|pick| pick.first).collect();
        let block = self.flat(&places).checked_div(dtype.block_elements())?;
        self.at()?.checked_add(block.checked_mul(dtype.block_bytes())? as u64)
    }

    /// Number in the tensor of the element at these places.
    fn flat(&self, places: &[usize]) -> usize {
        let axes = places.iter().zip(&self.tensor.shape);
        axes.fold(0usize, |flat, (place, len)| flat.saturating_mul(*len).saturating_add(*place))
    }

    /// Some of the elements that differ only in the innermost axis of those left; `outer` says which of those that are
    /// taken of each of the others. Without an axis left it is the one element that there is.
    pub fn line(&self, outer: &[usize], range: Range<usize>) -> Result<Values> {
        let picks = &self.selection.picks;
        let mut outer = outer.iter();
        let innermost = self.selection.innermost();
        let mut places = Vec::with_capacity(picks.len());
        for (axis, pick) in picks.iter().enumerate() {
            let i =
                if pick.single || Some(axis) == innermost { 0 } else { outer.next().copied().unwrap_or(0) };
            places.push(pick.place(i));
        }
        let Some(axis) = innermost else { return self.run(self.flat(&places), 1) };
        let Some(pick) = picks.get(axis) else { return self.run(0, 0) };
        let mut at = |i: usize| {
            if let Some(place) = places.get_mut(axis) {
                *place = pick.place(i);
            }
            self.flat(&places)
        };
        let Some(last) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else {
            return self.run(0, 0);
        };
        let (a, b) = (at(range.start), at(last));
        let (low, high) = (a.min(b), a.max(b));
        let spread = high.saturating_sub(low).saturating_add(1);
        if spread <= range.len().saturating_mul(WORTH_SKIPPING) {
            let all = self.run(low, spread)?;
            return Ok(all.at(range.map(|i| at(i).saturating_sub(low))));
        }
        let mut all = self.run(0, 0)?;
        for i in range {
            all.append(self.run(at(i), 1)?);
        }
        Ok(all)
    }

    /// Elements that follow each other in the tensor.
    fn run(&self, first: usize, count: usize) -> Result<Values> {
        match &self.form {
            Form::Plain(dtype, data) => self.plain(*dtype, data, first, count),
            Form::Packed(packed) => {
                let cols = packed.cols().max(1);
                let (row, skipped) = (first / cols, first % cols);
                let rows =
                    skipped.saturating_add(count).div_ceil(cols).min(packed.rows().saturating_sub(row));
                let mut values = vec![0.0; rows.saturating_mul(cols)];
                if rows > 0 {
                    packed.widen(row, &mut values);
                }
                Ok(Values::F32(values.into_iter().skip(skipped).take(count).collect()))
            }
        }
    }

    fn plain(&self, dtype: DType, data: &[u8], first: usize, count: usize) -> Result<Values> {
        let (block, each) = (dtype.block_bytes().max(1), dtype.block_elements().max(1));
        let (from, past) = (first / each, first.saturating_add(count).div_ceil(each));
        let bytes = from.saturating_mul(block)..past.saturating_mul(block);
        let raw = data.get(bytes).ok_or_else(|| self.fault("ends before its shape does"))?;
        let wide = |bytes: &[u8]| {
            let mut all = [0; 8];
            all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(all)
        };
        let spare = 64u32.saturating_sub((block as u32).saturating_mul(8));
        let signed = |bytes: &[u8]| ((wide(bytes) << spare) as i64) >> spare;
        Ok(match (dtype.class(), dtype) {
            (Class::Bool, _) => Values::Bool(raw.iter().map(|byte| *byte != 0).collect()),
            (Class::Integer, DType::U8 | DType::U16 | DType::U32 | DType::U64) => {
                Values::Unsigned(raw.chunks_exact(block).map(wide).collect())
            }
            (Class::Integer, _) => Values::Signed(raw.chunks_exact(block).map(signed).collect()),
            (_, DType::F64) => Values::F64(raw.chunks_exact(8).map(|b| f64::from_bits(wide(b))).collect()),
            (class, _) => {
                let mut values = vec![0.0; past.saturating_sub(from).saturating_mul(dtype.block_values())];
                quant::decode(dtype, raw, &mut values).map_err(|e| self.fault(&e.to_string()))?;
                if class == Class::Complex {
                    return Ok(Values::Complex(values.as_chunks().0.to_vec()));
                }
                Values::F32(values.into_iter().skip(first % each).take(count).collect())
            }
        })
    }

    fn fault(&self, what: &str) -> Error {
        Error::Foreign {
            file: self.file_of(self.tensor).to_owned(),
            what: format!("{}: {what}", one_line(&self.tensor.name)),
            advice: "--hex shows its bytes, scantling check what is wrong with it".to_owned(),
        }
    }

    /// Whether the file has its high bytes first.
    pub fn is_big_endian(&self) -> bool {
        self.source.is_big_endian(self.tensor)
    }

    /// The bytes as the file has them; an error where several tensors make up the one.
    pub fn stored(&self) -> Result<&[u8]> {
        let data = self.little_endian()?;
        match (self.source.files().get(self.tensor.shard), self.tensor.bytes.clone()) {
            (Some(file), Some(bytes)) if self.is_big_endian() => file.bytes(bytes),
            _ => Ok(data),
        }
    }

    /// The bytes, little-endian.
    fn little_endian(&self) -> Result<&[u8]> {
        match &self.form {
            Form::Plain(_, data) => Ok(data),
            Form::Packed(_) => {
                let parts: Vec<&str> = self.tensor.parts.iter().map(|part| part.name.as_str()).collect();
                Err(Error::Usage(format!(
                    "{} has no bytes of its own: name one of {}, which make it up",
                    self.tensor.name,
                    parts.join(", ")
                )))
            }
        }
    }

    /// The bytes of what is taken, as ranges within the tensor's, those that follow each other joined. Of a block that
    /// is taken in part all bytes come, which `whole` makes an error: then they are those elements alone.
    pub fn each_run(&self, whole: bool, see: &mut dyn FnMut(Range<usize>) -> Result<()>) -> Result<()> {
        let bytes = self.stored()?.len();
        let Some(dtype) = self.dtype() else { return Ok(()) };
        let shape = &self.tensor.shape;
        if dtype.byte_len(shape).ok() != Some(bytes as u64) {
            return Err(self.fault("has not as many bytes as its shape takes"));
        }
        if self.selection.elements() == 0 {
            return Ok(());
        }
        let picks = &self.selection.picks;
        // Axes that are whole, from the innermost on, are of one piece with the one before them.
        let joined = picks.iter().zip(shape).rev().take_while(|(pick, len)| pick.is_all(**len)).count();
        let axis = picks.len().saturating_sub(joined).saturating_sub(1);
        let product = |some: &[usize]| some.iter().fold(1usize, |n, len| n.saturating_mul(*len));
        let below = product(shape.get(axis.saturating_add(1)..).unwrap_or_default());
        let range = picks.get(axis).filter(|_| joined < picks.len()).copied().unwrap_or(Pick::all(1));
        let below = if joined == picks.len() { product(shape) } else { below };
        let (pieces, each) = if range.step == 1 { (1, range.count) } else { (range.count, 1) };
        let length = each.saturating_mul(below);
        let mut pending: Option<Range<usize>> = None;
        let outer: Vec<usize> = picks.iter().take(axis).map(|pick| pick.count).collect();
        let lines = product(&outer);
        let (block, values) = (dtype.block_bytes(), dtype.block_elements().max(1));
        for line in 0..lines {
            let mut places = unravel(line, &outer);
            places.iter_mut().zip(picks).for_each(|(place, pick)| *place = pick.place(*place));
            for piece in 0..pieces {
                let mut places = places.clone();
                if joined < picks.len() {
                    places.push(range.place(piece));
                }
                places.resize(picks.len(), 0);
                let first = self.flat(&places);
                let past = first.saturating_add(length);
                if whole && !(first.is_multiple_of(values) && past.is_multiple_of(values)) {
                    return Err(Error::Usage(format!(
                        "what is taken of {} is not whole blocks of {values} elements, so that it has no bytes of its \
                         own: take whole rows or blocks, or write numbers with --npy",
                        self.tensor.name
                    )));
                }
                let next =
                    (first / values).saturating_mul(block)..past.div_ceil(values).saturating_mul(block);
                pending = match pending.take() {
                    Some(before) if before.end >= next.start && before.start <= next.start => {
                        Some(before.start..next.end.max(before.end))
                    }
                    Some(before) => {
                        see(before)?;
                        Some(next)
                    }
                    None => Some(next),
                };
            }
        }
        pending.map_or(Ok(()), see)
    }

    /// A block, by its number in the tensor, or in one row of it (all axes but the innermost counted as one).
    pub fn block(&self, row: Option<usize>, number: usize) -> Result<Block<'_>> {
        let data = self.little_endian()?;
        let usage = |what: String| Error::Usage(format!("{}: {what}", one_line(&self.tensor.name)));
        if !self.selection.is_all(&self.tensor.shape) {
            return Err(usage(
                "--block counts the blocks of the whole tensor: leave the ranges away".to_owned(),
            ));
        }
        let layout = |dtype: DType| dtype.layout().map(|layout| (dtype, layout));
        let Some((dtype, layout)) = self.dtype().and_then(layout) else {
            return Err(usage(format!("--block takes apart blocks, and {} has none", self.tensor.dtype)));
        };
        let (values, bytes) = (dtype.block_elements(), dtype.block_bytes());
        let blocks = data.len() / bytes;
        let number = match row {
            None => number,
            Some(row) => {
                let each = self.tensor.shape.last().map_or(1, |len| len / values);
                let rows = blocks.checked_div(each).unwrap_or(0);
                if row >= rows || number >= each {
                    return Err(usage(format!(
                        "there is no block {number} of row {row}: it has {rows} rows of {each} blocks of {values}"
                    )));
                }
                row.saturating_mul(each).saturating_add(number)
            }
        };
        let start = number.saturating_mul(bytes);
        let raw = data.get(start..start.saturating_add(bytes));
        let Some((raw, fields)) = raw.and_then(|raw| Some((raw, layout.read(raw)?))) else {
            return Err(usage(format!("there is no block {number}: it has {blocks} blocks of {values}")));
        };
        let mut elements = vec![0.0; dtype.block_values()];
        quant::decode(dtype, raw, &mut elements).map_err(|e| self.fault(&e.to_string()))?;
        let at = self.at().unwrap_or(0).saturating_add(start as u64);
        let first = number.saturating_mul(values);
        Ok(Block { dtype, layout, number, at, first, fields, elements })
    }
}

fn file_of<'s>(source: &'s dyn WeightSource, tensor: &TensorInfo) -> &'s str {
    source.files().get(tensor.shard).map_or("", |file| file.name())
}

/// How many times more elements may be read than are wanted before they are read one by one.
const WORTH_SKIPPING: usize = 64;

/// The command that shows the element at these places, or all of what is not named.
pub(crate) fn command(model: &Path, tensor: &str, places: &[usize]) -> String {
    let places: Vec<String> = places.iter().map(usize::to_string).collect();
    let taken = if places.is_empty() { String::new() } else { format!("[{}]", places.join(",")) };
    let model = model.display().to_string();
    format!("scantling show {} {}", shell_word(&model), shell_word(&format!("{tensor}{taken}")))
}

/// Number and places of the element that a value belongs to: some types hold two of each.
pub(crate) fn element_of(value: u64, dtype: Option<DType>, shape: &[usize]) -> (u64, Vec<usize>) {
    let each = dtype.map_or(1, |d| d.block_values().checked_div(d.block_elements()).unwrap_or(1).max(1));
    let element = value.checked_div(each as u64).unwrap_or(value);
    (element, unravel(usize::try_from(element).unwrap_or(usize::MAX), shape))
}

/// The places of the `n`-th element of a shape, the innermost axis first to move.
pub fn unravel(mut n: usize, shape: &[usize]) -> Vec<usize> {
    let mut places = vec![0; shape.len()];
    for (place, len) in places.iter_mut().zip(shape).rev() {
        *place = n.checked_rem(*len).unwrap_or(0);
        n = n.checked_div(*len).unwrap_or(0);
    }
    places
}
