//! The tensors of a table, found in a source: matrices as they are stored, vectors widened once.

mod weight;

pub use weight::{Projection, Weight};

use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::ops::Pairing;
use crate::packed::Packed;
use crate::quant;
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, Conversion, Expected, LinearId, Stored, TensorId, TensorTable, Use};
use std::borrow::Cow;

/// What a forward pass computes with; asked for by the handles that declaring a tensor gave.
///
/// It borrows the source: the bytes of matrices stay where the file has them.
pub struct Weights<'s> {
    table: &'s TensorTable,
    dialect: Dialect,
    rows: Vec<Row<'s>>,
}

enum Row<'s> {
    /// Not in the file, which is no fault.
    Absent,
    /// Another row is used in its place.
    StandIn(usize),
    /// Matrices: one, or those of experts, which lie in one tensor each or stacked in one.
    Matrices(Vec<Held<'s>>),
    Vector(Vec<f32>),
}

/// A tensor of matrices.
pub(crate) struct Held<'s> {
    info: &'s TensorInfo,
    form: Form<'s>,
    /// Rows and columns as they are stored, those of stacked matrices together.
    shape: (usize, usize),
    /// How many are stacked in it.
    stacked: usize,
}

/// How a matrix is stored.
enum Form<'s> {
    Rows(Cow<'s, [u8]>),
    Columns(Cow<'s, [u8]>),
    Packed(Box<dyn Packed + 's>),
}

impl<'s> Weights<'s> {
    /// Finds every tensor of a table. Whatever could be wrong with one is told here, so that computing cannot fail.
    /// The kernel is told the tensors' names.
    pub fn bind(
        table: &'s TensorTable,
        source: &'s dyn WeightSource,
        kernel: &dyn Kernel,
    ) -> Result<Weights<'s>> {
        let bound = table.rows().iter().map(|row| bind(table, row, source, kernel));
        Ok(Weights { table, dialect: source.dialect(), rows: bound.collect::<Result<_>>()? })
    }

    /// Whose names and layouts the weights have.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn row(&self, id: TensorId) -> &Row<'s> {
        match &self.rows[id.position()] {
            Row::StandIn(by) => &self.rows[*by],
            row => row,
        }
    }

    /// Whether the tensor is there, or another in its place.
    pub fn has(&self, id: TensorId) -> bool {
        !matches!(self.row(id), Row::Absent)
    }

    /// A matrix, or what stands in for it. Panics if it is optional and absent, or no matrix: an architecture's
    /// fault.
    pub fn matrix(&self, id: TensorId) -> Weight<'_> {
        self.linear(id.plain()).weight
    }

    /// A vector. Panics if it is optional and absent, or no vector: an architecture's fault.
    pub fn vector(&self, id: TensorId) -> &[f32] {
        self.optional(id)
            .unwrap_or_else(|| panic!("tensor {} of the table is no vector that is there", id.position()))
    }

    /// A vector that may be absent.
    pub fn optional(&self, id: TensorId) -> Option<&[f32]> {
        match self.row(id) {
            Row::Vector(values) => Some(values),
            _ => None,
        }
    }

    /// A matrix with its bias. Panics as [`matrix`](Self::matrix) does.
    pub fn linear(&self, id: LinearId) -> Projection<'_> {
        let Row::Matrices(held) = self.row(id.weight) else {
            panic!("tensor {} of the table is no matrix that is there", id.weight.position());
        };
        let (held, weight) = match held.as_slice() {
            [one] => (one, one.weight().one_of(one.stacked, id.expert)),
            several => (&several[id.expert], several[id.expert].weight()),
        };
        let bias = id.bias.map(|bias| {
            let len = weight.rows();
            let all = self.vector(bias);
            if all.len() == len { all } else { &all[id.expert * len..][..len] }
        });
        let (from, to) = id.outputs.unwrap_or((0, weight.rows()));
        let (weight, bias) = (weight.outputs(from..to), bias.map(|bias| &bias[from..to]));
        let weight = if id.transposed { weight.transposed() } else { weight };
        Projection { name: &held.info.name, weight, bias }
    }

    /// Which elements of a head rotate together in what a projection gives, by how this file stores its rows.
    pub fn pairing(&self, projection: LinearId) -> Pairing {
        let row = self.table.rows().get(projection.weight.position());
        match (row.map(|r| r.conversion), self.dialect) {
            (Some(Conversion::Interleaved(_)), Dialect::Gguf) => Pairing::Neighbours,
            _ => Pairing::Halves,
        }
    }

    /// What one token takes: bytes of the matrices that are read whole, and operations with them, a multiply and an
    /// add counted as two; of experts, those that are used. Of a table that is only looked up, nothing.
    pub fn work(&self, looked_up: TensorId) -> (u64, u64) {
        let used = self.rows.iter().any(|r| matches!(r, Row::StandIn(by) if *by == looked_up.position()));
        let whole = |(at, row): (usize, &Row<'_>)| match row {
            Row::Matrices(held) if used || at != looked_up.position() => {
                let bytes = held.iter().map(Held::bytes).fold(0u64, u64::saturating_add);
                let expected = self.table.rows().get(at)?;
                let share = expected.share_used();
                let of = |n: u64| (n as f64 * share) as u64;
                Some((of(bytes), of(expected.elements().saturating_mul(2))))
            }
            _ => None,
        };
        let whole = self.rows.iter().enumerate().filter_map(whole);
        whole.fold((0, 0), |(bytes, ops), (b, o)| (bytes + b, ops + o))
    }

    /// Bytes that are held apart from the source's files.
    pub fn owned_bytes(&self) -> usize {
        let owned = |row: &Row<'_>| match row {
            Row::Vector(values) => values.len() * size_of::<f32>(),
            Row::Matrices(held) => held.iter().map(Held::owned).sum(),
            _ => 0,
        };
        self.rows.iter().map(owned).sum()
    }
}

impl<'s> Held<'s> {
    /// One of the matrices of several tensors, counted through all that are stacked in them.
    pub(crate) fn nth<'h>(held: &'h [Held<'s>], mut which: usize) -> Option<Weight<'h>> {
        for held in held {
            if which < held.stacked {
                return Some(held.weight().one_of(held.stacked, which));
            }
            which -= held.stacked;
        }
        None
    }

    /// All that it holds, stacked matrices one under the other.
    fn weight(&self) -> Weight<'_> {
        let (rows, cols) = self.shape;
        let view = |data| view(self.info, rows, cols, data).expect("seen when it was bound");
        match &self.form {
            Form::Rows(data) => Weight::plain(view(data)),
            Form::Columns(data) => Weight::plain(view(data)).transposed(),
            Form::Packed(all) => Weight::packed(all.as_ref()),
        }
    }

    /// How far rounding to a packed scheme moves numbers, where it is packed.
    pub(crate) fn packed_error(&self) -> Option<f64> {
        match &self.form {
            Form::Packed(all) => Some(all.quantisation_error()),
            _ => None,
        }
    }

    fn bytes(&self) -> u64 {
        match &self.form {
            Form::Rows(data) | Form::Columns(data) => data.len() as u64,
            Form::Packed(all) => all.bytes(),
        }
    }

    fn owned(&self) -> usize {
        match &self.form {
            Form::Rows(Cow::Owned(data)) | Form::Columns(Cow::Owned(data)) => data.len(),
            _ => 0,
        }
    }
}

fn bind<'s>(
    table: &'s TensorTable,
    row: &'s Expected,
    source: &'s dyn WeightSource,
    kernel: &dyn Kernel,
) -> Result<Row<'s>> {
    let mut held = Vec::new();
    for stored in table.stored(row, source.dialect()) {
        let Some(info) = source.tensors().get(&stored.name) else {
            match row.absence {
                Absence::Fine => return Ok(Row::Absent),
                Absence::StandIn { by, .. } => return Ok(Row::StandIn(by)),
                Absence::Fault => return Err(unusable(source, &stored.name, "it is missing")),
            }
        };
        let stored = stored.beside(info);
        if !stored.fits(&info.shape, source.dialect()) {
            let what = format!("expected shape {:?}, found {:?}", stored.lens(), info.shape);
            return Err(unusable(source, &stored.name, &what));
        }
        if !matches!(row.usage, Use::Embedding | Use::Matrix) {
            return vector(&stored, info, source).map(Row::Vector);
        }
        held.push(matrix(&stored, info, source, kernel)?);
    }
    match (held.is_empty(), row.absence) {
        (false, _) => Ok(Row::Matrices(held)),
        (true, Absence::StandIn { by, .. }) => Ok(Row::StandIn(by)),
        (true, _) => Ok(Row::Absent), // There is no such tensor in this dialect.
    }
}

/// A stored tensor of matrices, as its row of the table says.
pub(crate) fn matrix<'s>(
    stored: &Stored<'s>,
    info: &'s TensorInfo,
    source: &'s dyn WeightSource,
    kernel: &dyn Kernel,
) -> Result<Held<'s>> {
    let lens = stored.lens();
    let (stacked, rows, cols) = match lens.as_slice() {
        [rows, cols] => (1, *rows, *cols),
        [stacked, rows, cols] => (*stacked, stacked.saturating_mul(*rows), *cols),
        _ => return Err(unusable(source, &stored.name, "it is no matrix")),
    };
    let shape = (rows, cols);
    if let Some(packed) = source.packed(info)? {
        if (packed.rows(), packed.cols()) != shape {
            let what = format!("its parts make {} rows of {}", packed.rows(), packed.cols());
            return Err(unusable(source, &stored.name, &what));
        }
        return Ok(Held { info, form: Form::Packed(packed), shape, stacked });
    }
    let turned = source.dialect() == Dialect::Hf && stored.row.conversion == Conversion::Transposed;
    let dtype = info.dtype.known().filter(|d| d.codec().is_some() && (!turned || d.block_elements() == 1));
    if dtype.is_none() {
        let what = format!("its element type {} cannot be computed with", info.dtype);
        return Err(unusable(source, &stored.name, &what));
    }
    let data = source.bytes(info)?;
    view(info, rows, cols, &data).map_err(|what| unusable(source, &stored.name, &what))?;
    kernel.label(&data, &stored.name);
    let form = if turned { Form::Columns(data) } else { Form::Rows(data) };
    Ok(Held { info, form, shape, stacked })
}

/// The numbers of a stored vector, as they are computed with.
pub(crate) fn vector(stored: &Stored<'_>, info: &TensorInfo, source: &dyn WeightSource) -> Result<Vec<f32>> {
    let Some(dtype) = info.dtype.known().filter(|d| d.codec().is_some()) else {
        let what = format!("its element type {} cannot be computed with", info.dtype);
        return Err(unusable(source, &stored.name, &what));
    };
    let data = source.bytes(info)?;
    let mut values = vec![0.0; data.len() / dtype.block_bytes().max(1) * dtype.block_values()];
    quant::decode(dtype, &data, &mut values).map_err(|e| unusable(source, &stored.name, &e.to_string()))?;
    if source.dialect() == Dialect::Hf && stored.row.conversion == Conversion::PlusOne {
        values.iter_mut().for_each(|v| *v += 1.0);
    }
    Ok(values)
}

/// The matrix that the bytes of a tensor are.
fn view<'a>(info: &TensorInfo, rows: usize, cols: usize, data: &'a [u8]) -> Result<Matrix<'a>, String> {
    let dtype = info.dtype.known().ok_or_else(|| "its element type is not known".to_owned())?;
    Matrix::new(dtype, rows, cols, data).map_err(|e| e.to_string())
}

fn unusable(source: &dyn WeightSource, name: &str, what: &str) -> Error {
    let file = source.files().first().map_or_else(String::new, |f| f.name().to_owned());
    let advice = "scantling check tells all that is wrong with the model".to_owned();
    Error::Foreign { file, what: format!("tensor {name} cannot be used: {what}"), advice }
}
