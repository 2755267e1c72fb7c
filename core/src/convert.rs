//! A model's tensors in the form that GGUF files have them in, whichever world they are stored in: read a piece at a time,
//! so that no tensor is ever held as a whole.
//!
//! From the Hugging Face world numbers are brought over as converters do it, and as the table of the architecture
//! declares it; what is stored as GGUF has it is only widened. So the two formats of a model can be held against each
//! other number by number.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::kernel::Kernel;
use crate::packed::Packed;
use crate::source::{Dialect, WeightSource};
use crate::table::{Conversion, Expected, Split, TensorTable, Use};
use crate::weights::{Held, matrix, vector};
use std::borrow::Cow;
use std::fmt;

/// Numbers of one piece, more or less: enough to keep a core busy, few enough to stay in its caches.
const PIECE: usize = 1 << 18;

/// Numbers to look at while they are in the nearest caches, those of both sides.
const NEAR: usize = 1 << 10;

/// What was done to stored numbers beyond widening them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Rows and columns were exchanged.
    Transposed,
    /// Within each head of this width, rows that rotate together were put side by side.
    Interleaved(usize),
    /// 1 was added, rounded in f32.
    PlusOne,
    /// So many tensors were put one under the other.
    Stacked(usize),
    /// It was cut out of a larger tensor.
    Cut(Split),
    /// Codes and scales of several tensors were put together.
    Unpacked,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Transposed => f.write_str("transposed"),
            Step::Interleaved(head) => write!(f, "rows of heads of {head} interleaved"),
            Step::PlusOne => f.write_str("1 added"),
            Step::Stacked(n) => write!(f, "{n} tensors stacked"),
            Step::Cut(Split::Alternating) => f.write_str("every second output of a fused tensor"),
            Step::Cut(Split::PerHead) => f.write_str("cut out of each head of a fused tensor"),
            Step::Unpacked => f.write_str("unpacked"),
        }
    }
}

/// A tensor's numbers in GGUF's form.
pub struct Converted<'s> {
    shape: Vec<usize>,
    steps: Vec<Step>,
    numbers: Numbers<'s>,
}

enum Numbers<'s> {
    /// One after the other as they are stored.
    Flat(DType, Cow<'s, [u8]>),
    /// Rows that are made out of several tensors.
    Packed(Box<dyn Packed + 's>),
    /// Rows of matrices that lie one under the other, in another order.
    Rows(Rows<'s>),
    /// A vector.
    Vector(Vec<f32>),
}

/// Matrices one under the other.
struct Rows<'s> {
    held: Vec<Held<'s>>,
    /// Rows of one matrix.
    each: usize,
    cols: usize,
    order: Order,
}

/// Which of the rows below each other a row is.
#[derive(Clone, Copy)]
enum Order {
    /// The one in its place.
    Same,
    /// The one that [`interleaved`] names, in heads of this width.
    Interleaved(usize),
    /// Every second one, from this one on.
    Alternating(usize),
    /// Of each head of so many rows, those that follow the first so many.
    Behind { head: usize, skipped: usize },
    /// Of each head of so many rows, the first so many, their rows and columns exchanged.
    Turned { head: usize, taken: usize },
}

impl<'s> Converted<'s> {
    /// The numbers of a row of the table as a GGUF file has them. `None` where the row has no name there, where the tensor
    /// (or one of those it is made of) is not in the source, or where it is made from the config alone.
    pub fn of(
        table: &'s TensorTable,
        row: usize,
        source: &'s dyn WeightSource,
        kernel: &dyn Kernel,
    ) -> Result<Option<Converted<'s>>> {
        let Some(expected) = table.rows().get(row).filter(|r| !r.gguf.is_empty()) else { return Ok(None) };
        if source.dialect() == Dialect::Hf && expected.hf.is_empty() {
            let Some((whole, split, part)) = table.part_of(row) else { return Ok(None) };
            let Some(whole) = table.rows().get(whole) else { return Ok(None) };
            let cut = Cut { split, part, shape: lens(expected) };
            return Bringing { table, source, kernel }.row(whole, Some(cut));
        }
        Bringing { table, source, kernel }.row(expected, None)
    }

    /// The numbers of a tensor as it is stored, a packed one unpacked.
    pub fn stored(source: &'s dyn WeightSource, tensor: &TensorInfo) -> Result<Converted<'s>> {
        let shape = tensor.shape.clone();
        if let Some(packed) = source.packed(tensor)? {
            let shape = vec![packed.rows(), packed.cols()];
            return Ok(Converted { shape, steps: vec![Step::Unpacked], numbers: Numbers::Packed(packed) });
        }
        let dtype = tensor.dtype.known().filter(|d| d.codec().is_some()).ok_or_else(|| {
            let what = format!("numbers of element type {} cannot be read", tensor.dtype);
            unreadable(source, tensor, what)
        })?;
        let numbers = Numbers::Flat(dtype, source.bytes(tensor)?);
        Ok(Converted { shape, steps: Vec::new(), numbers })
    }

    /// Lengths of its axes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// What was done to the stored numbers.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The stored bytes, where these are its numbers one after the other.
    pub fn raw(&self) -> Option<(DType, &[u8])> {
        match &self.numbers {
            Numbers::Flat(dtype, data) => Some((*dtype, data)),
            _ => None,
        }
    }

    /// How far rounding to a packed scheme moved its numbers, where it is stored so; see [`Packed::quantisation_error`].
    pub fn packed_error(&self) -> Option<f64> {
        match &self.numbers {
            Numbers::Packed(packed) => Some(packed.quantisation_error()),
            Numbers::Rows(rows) => rows.held.iter().find_map(Held::packed_error),
            _ => None,
        }
    }

    /// How many numbers there are; of complex ones, two to an element.
    pub fn len(&self) -> usize {
        match &self.numbers {
            Numbers::Flat(dtype, data) => {
                whole(data.len(), dtype.block_bytes()).saturating_mul(dtype.block_values())
            }
            Numbers::Vector(values) => values.len(),
            Numbers::Packed(_) | Numbers::Rows(_) => product(&self.shape),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers that have to be read together.
    pub fn grain(&self) -> usize {
        let grain = match &self.numbers {
            Numbers::Flat(dtype, _) => dtype.block_values(),
            Numbers::Packed(packed) => packed.cols(),
            Numbers::Vector(_) => 1,
            Numbers::Rows(rows) => rows.grain(),
        };
        grain.max(1)
    }

    /// A good number of numbers to share out at a time, of whole grains of this and `other`, if there is one.
    pub fn piece(&self, other: Option<&Converted<'_>>) -> usize {
        self.grains(PIECE, other)
    }

    /// The same for a number to look at while they are in the nearest caches.
    pub fn near(&self, other: &Converted<'_>) -> usize {
        self.grains(NEAR, Some(other))
    }

    fn grains(&self, size: usize, other: Option<&Converted<'_>>) -> usize {
        let (a, b) = (self.grain(), other.map_or(1, Converted::grain));
        let both = least_common(a, b).unwrap_or(usize::MAX);
        whole(size, both).max(1).saturating_mul(both)
    }

    /// The numbers from `first` on, as many as `out` has room for, both whole grains. Numbers past the last are left alone.
    pub fn read(&self, kernel: &dyn Kernel, first: usize, out: &mut [f32]) {
        match &self.numbers {
            Numbers::Flat(dtype, data) => {
                let (values, bytes) = (dtype.block_values().max(1), dtype.block_bytes());
                let from = whole(first, values).saturating_mul(bytes);
                let blocks = whole(out.len(), values);
                let some = data.get(from..).unwrap_or_default();
                let some = some.get(..blocks.saturating_mul(bytes)).unwrap_or(some);
                let room = whole(some.len(), bytes).saturating_mul(values);
                if let Some(out) = out.get_mut(..room) {
                    // The lengths are whole blocks of a type that has a codec: nothing is left to go wrong.
                    let _ = kernel.decode(*dtype, some, out);
                }
            }
            Numbers::Vector(values) => copy(values.get(first..).unwrap_or_default(), out),
            Numbers::Packed(packed) => {
                let first = whole(first, packed.cols());
                let rows = packed.rows().saturating_sub(first);
                let room = rows.saturating_mul(packed.cols()).min(out.len());
                if let Some(out) = out.get_mut(..room).filter(|out| !out.is_empty()) {
                    packed.widen(first, out);
                }
            }
            Numbers::Rows(rows) => rows.read(kernel, first, out),
        }
    }
}

/// A table's tensors, brought over from a source.
struct Bringing<'s, 'k> {
    table: &'s TensorTable,
    source: &'s dyn WeightSource,
    kernel: &'k dyn Kernel,
}

/// Which part of a tensor is meant, and its shape.
struct Cut {
    split: Split,
    part: usize,
    shape: Vec<usize>,
}

impl<'s> Bringing<'s, '_> {
    fn row(&self, row: &'s Expected, cut: Option<Cut>) -> Result<Option<Converted<'s>>> {
        let hf = self.source.dialect() == Dialect::Hf;
        let mut tensors = Vec::new();
        for stored in self.table.stored(row, self.source.dialect()) {
            let Some(info) = self.source.tensors().get(&stored.name) else { return Ok(None) };
            let stored = stored.beside(info);
            if !stored.fits(&info.shape, self.source.dialect()) {
                let what = format!("expected shape {:?}, found {:?}", stored.lens(), info.shape);
                return Err(unreadable(self.source, info, what));
            }
            tensors.push((stored, info));
        }
        let conversion = if hf { row.conversion } else { Conversion::None };
        let mut steps = Vec::new();
        let packed = tensors.iter().any(|(_, info)| info.is_packed());
        steps.extend(packed.then_some(Step::Unpacked));
        if tensors.len() > 1 || row.parts(self.source.dialect()).is_some() {
            steps.push(Step::Stacked(tensors.len()));
        }
        match conversion {
            Conversion::None => {}
            Conversion::Transposed if packed => {}
            Conversion::Transposed => steps.push(Step::Transposed),
            Conversion::Interleaved(head) => steps.push(Step::Interleaved(head)),
            Conversion::PlusOne => steps.push(Step::PlusOne),
        }
        steps.extend(cut.as_ref().map(|cut| Step::Cut(cut.split)));

        if let ([(_, info)], true) = (tensors.as_slice(), steps.is_empty() || steps == [Step::Unpacked]) {
            let as_is = Converted::stored(self.source, info)?;
            return Ok(Some(Converted { shape: lens(row), ..as_is }));
        }
        let shape = cut.as_ref().map_or_else(|| lens(row), |cut| cut.shape.clone());
        if !matches!(row.usage, Use::Embedding | Use::Matrix) {
            let mut values = Vec::new();
            for (stored, info) in &tensors {
                values.extend(vector(stored, info, self.source)?);
            }
            let order = Order::of(conversion, cut.as_ref(), &lens(row));
            let numbers = Numbers::Vector(reordered(&values, order, product(&shape)));
            return Ok(Some(Converted { shape, steps, numbers }));
        }
        let held = tensors.iter().map(|(stored, info)| matrix(stored, info, self.source, self.kernel));
        let held = held.collect::<Result<Vec<_>>>()?;
        let [.., each, cols] = *lens(row) else { return Ok(None) };
        let order = Order::of(conversion, cut.as_ref(), &lens(row));
        let numbers = Numbers::Rows(Rows { held, each, cols, order });
        Ok(Some(Converted { shape, steps, numbers }))
    }
}

impl Order {
    fn of(conversion: Conversion, cut: Option<&Cut>, whole_shape: &[usize]) -> Order {
        match (cut, conversion) {
            (Some(Cut { split: Split::Alternating, part, .. }), _) => Order::Alternating(*part),
            (Some(Cut { split: Split::PerHead, part, shape }), _) => {
                let (&[heads, a, b], Some(&rows)) = (shape.as_slice(), whole_shape.first()) else {
                    return Order::Same;
                };
                let head = whole(rows, heads);
                match part {
                    0 => Order::Turned { head, taken: b },
                    _ => Order::Behind { head, skipped: head.saturating_sub(a) },
                }
            }
            (None, Conversion::Interleaved(head)) => Order::Interleaved(head),
            (None, _) => Order::Same,
        }
    }

    /// Which row of the matrices below each other a row is.
    fn place(self, row: usize) -> usize {
        match self {
            Order::Same | Order::Turned { .. } => row,
            Order::Interleaved(head) => interleaved(row, head),
            Order::Alternating(part) => row.saturating_mul(2).saturating_add(part),
            Order::Behind { head, skipped } => {
                let own = head.saturating_sub(skipped).max(1);
                let (at, in_head) = (whole(row, own), rest(row, own));
                at.saturating_mul(head).saturating_add(skipped).saturating_add(in_head)
            }
        }
    }
}

/// Where, within its head, the row comes from that has this place once rows that rotate together lie side by side:
/// `0 h 1 h+1 …` of `0 1 … h h+1 …`.
pub fn interleaved(row: usize, head: usize) -> usize {
    let in_head = rest(row, head);
    let from = if in_head.is_multiple_of(2) { in_head / 2 } else { (in_head / 2).saturating_add(head / 2) };
    row.saturating_sub(in_head).saturating_add(from)
}

/// A vector's numbers in another order.
fn reordered(values: &[f32], order: Order, len: usize) -> Vec<f32> {
    (0..len).map(|i| values.get(order.place(i)).copied().unwrap_or(f32::NAN)).collect()
}

impl Rows<'_> {
    fn grain(&self) -> usize {
        match self.order {
            Order::Turned { taken, .. } => taken.saturating_mul(self.cols),
            _ => self.cols,
        }
    }

    fn read(&self, kernel: &dyn Kernel, first: usize, out: &mut [f32]) {
        let row = whole(first, self.cols);
        match self.order {
            Order::Same => self.as_they_lie(kernel, row, out),
            // Columns are costly to read one by one, so their neighbours are read along and left out.
            Order::Alternating(part) => {
                let mut both = vec![0.0; out.len().saturating_mul(2)];
                self.as_they_lie(kernel, row.saturating_mul(2), &mut both);
                let wanted = both.chunks(self.cols.max(1)).skip(part).step_by(2);
                out.chunks_mut(self.cols.max(1)).zip(wanted).for_each(|(out, row)| copy(row, out));
            }
            Order::Interleaved(_) | Order::Behind { .. } => {
                for (i, out) in out.chunks_mut(self.cols.max(1)).enumerate() {
                    self.as_they_lie(kernel, self.order.place(row.saturating_add(i)), out);
                }
            }
            Order::Turned { head, taken } => {
                let mut rows = vec![0.0; self.grain()];
                for (i, out) in out.chunks_mut(self.grain().max(1)).enumerate() {
                    let which = whole(first, self.grain()).saturating_add(i);
                    self.as_they_lie(kernel, which.saturating_mul(head), &mut rows);
                    for (c, out) in out.chunks_mut(taken.max(1)).enumerate() {
                        let column = rows.iter().skip(c).step_by(self.cols.max(1));
                        out.iter_mut().zip(column).for_each(|(out, x)| *out = *x);
                    }
                }
            }
        }
    }

    /// Rows one below the other, those past the last left alone.
    fn as_they_lie(&self, kernel: &dyn Kernel, mut row: usize, mut out: &mut [f32]) {
        while !out.is_empty() {
            let (matrix, local) = (whole(row, self.each), rest(row, self.each));
            let Some(weight) = Held::nth(&self.held, matrix) else { return };
            let some = self.each.saturating_sub(local).saturating_mul(self.cols).min(out.len());
            if some == 0 {
                return;
            }
            let (part, behind) = out.split_at_mut(some);
            weight.widen(kernel, local, part);
            row = row.saturating_add(whole(some, self.cols));
            out = behind;
        }
    }
}

fn unreadable(source: &dyn WeightSource, tensor: &TensorInfo, what: String) -> Error {
    let file = source.files().get(tensor.shard).map_or_else(String::new, |f| f.name().to_owned());
    let advice = "scantling check tells all that is wrong with the model".to_owned();
    Error::Foreign { file, what: format!("tensor {}: {what}", tensor.name), advice }
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
}

fn lens(row: &Expected) -> Vec<usize> {
    row.shape.iter().map(|axis| axis.len).collect()
}

fn product(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |n, len| n.saturating_mul(*len)) }
}

fn whole(n: usize, of: usize) -> usize {
    n.checked_div(of).unwrap_or(0)
}

fn rest(n: usize, of: usize) -> usize {
    n.checked_rem(of).unwrap_or(0)
}

fn least_common(a: usize, b: usize) -> Option<usize> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x.checked_rem(y)?);
    }
    a.checked_div(x)?.checked_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_their_order() {
        let places = |order: Order, n: usize| (0..n).map(|i| order.place(i)).collect::<Vec<_>>();
        assert_eq!(places(Order::Interleaved(4), 8), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(places(Order::Alternating(0), 4), [0, 2, 4, 6]);
        assert_eq!(places(Order::Alternating(1), 4), [1, 3, 5, 7]);
        // Two heads of two rows to keys and one to values.
        assert_eq!(places(Order::Behind { head: 3, skipped: 2 }, 2), [2, 5]);
    }

    #[test]
    fn pieces_are_whole_grains_of_both() {
        assert_eq!(least_common(32, 48), Some(96));
        assert_eq!(least_common(1, 7), Some(7));
        assert_eq!(least_common(usize::MAX, usize::MAX - 1), None);
    }
}
