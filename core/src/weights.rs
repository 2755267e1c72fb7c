//! The tensors of a table, found in a source: matrices as they are stored, vectors widened once.

use crate::error::{Error, Result};
use crate::index::TensorInfo;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::ops::Linear;
use crate::quant;
use crate::source::WeightSource;
use crate::table::{Absence, Expected, LinearId, TensorId, TensorTable};
use std::borrow::Cow;

/// What a forward pass computes with; asked for by the handles that declaring a tensor gave.
///
/// It borrows the source: the bytes of matrices stay where the file has them.
pub struct Weights<'s> {
    rows: Vec<Row<'s>>,
}

enum Row<'s> {
    /// Not in the file, which is no fault.
    Absent,
    /// Another row is used in its place.
    StandIn(usize),
    Matrix {
        info: &'s TensorInfo,
        data: Cow<'s, [u8]>,
    },
    Vector(Vec<f32>),
}

impl<'s> Weights<'s> {
    /// Finds every tensor of a table. Whatever could be wrong with one is told here, so that computing cannot fail.
    /// The kernel is told the tensors' names.
    pub fn bind(
        table: &TensorTable,
        source: &'s dyn WeightSource,
        kernel: &dyn Kernel,
    ) -> Result<Weights<'s>> {
        let bound = table.rows().iter().map(|row| bind(table, row, source, kernel));
        Ok(Weights { rows: bound.collect::<Result<_>>()? })
    }

    fn row(&self, id: TensorId) -> &Row<'s> {
        match &self.rows[id.position()] {
            Row::StandIn(by) => &self.rows[*by],
            row => row,
        }
    }

    /// A matrix, or what stands in for it. Panics if it is optional and absent, or no matrix: an architecture's
    /// fault.
    pub fn matrix(&self, id: TensorId) -> Matrix<'_> {
        match self.row(id) {
            Row::Matrix { info, data } => view(info, data).expect("seen when it was bound"),
            _ => panic!("tensor {} of the table is no matrix that is there", id.position()),
        }
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

    /// A matrix with its bias.
    pub fn linear(&self, id: LinearId) -> Linear<'_> {
        Linear { bias: id.bias.map(|b| self.vector(b)), ..Linear::plain(self.matrix(id.weight)) }
    }

    /// What one token takes: bytes of the matrices that are read whole, and operations with them, a multiply and an
    /// add counted as two. Of a table that is only looked up, nothing.
    pub fn work(&self, looked_up: TensorId) -> (u64, u64) {
        let used = self.rows.iter().any(|r| matches!(r, Row::StandIn(by) if *by == looked_up.position()));
        let whole = |(at, row): (usize, &Row<'_>)| match row {
            Row::Matrix { info, data } if used || at != looked_up.position() => {
                Some((data.len() as u64, info.elements().saturating_mul(2)))
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
            Row::Matrix { data: Cow::Owned(data), .. } => data.len(),
            _ => 0,
        };
        self.rows.iter().map(owned).sum()
    }
}

fn bind<'s>(
    table: &TensorTable,
    row: &Expected,
    source: &'s dyn WeightSource,
    kernel: &dyn Kernel,
) -> Result<Row<'s>> {
    let name = table.name(row, source.dialect());
    let found = source.tensors().get(&name).filter(|_| !row.local_name(source.dialect()).is_empty());
    let info = match (found, row.absence) {
        (Some(info), _) => info,
        (None, Absence::Fine) => return Ok(Row::Absent),
        (None, Absence::StandIn { by, .. }) => return Ok(Row::StandIn(by)),
        (None, Absence::Fault) => return Err(unusable(source, &name, "it is missing")),
    };
    let lens: Vec<usize> = row.shape.iter().map(|axis| axis.len).collect();
    if info.shape != lens {
        return Err(unusable(source, &name, &format!("expected shape {lens:?}, found {:?}", info.shape)));
    }
    let dtype = info.dtype.known().filter(|d| d.codec().is_some());
    let Some(dtype) = dtype else {
        let what = format!("its element type {} cannot be computed with", info.dtype);
        return Err(unusable(source, &name, &what));
    };
    let data = source.bytes(info)?;
    if let [_, _] = lens[..] {
        view(info, &data).map_err(|what| unusable(source, &name, &what))?;
        kernel.label(&data, &name);
        return Ok(Row::Matrix { info, data });
    }
    let mut values = vec![0.0; data.len() / dtype.block_bytes().max(1) * dtype.block_values()];
    quant::decode(dtype, &data, &mut values).map_err(|e| unusable(source, &name, &e.to_string()))?;
    Ok(Row::Vector(values))
}

/// The matrix that the bytes of a tensor of two axes are.
fn view<'a>(info: &TensorInfo, data: &'a [u8]) -> Result<Matrix<'a>, String> {
    match (info.dtype.known(), info.shape.as_slice()) {
        (Some(dtype), [rows, cols]) => Matrix::new(dtype, *rows, *cols, data).map_err(|e| e.to_string()),
        _ => Err("it is no matrix".to_owned()),
    }
}

fn unusable(source: &dyn WeightSource, name: &str, what: &str) -> Error {
    let file = source.files().first().map_or_else(String::new, |f| f.name().to_owned());
    let advice = "scantling check tells all that is wrong with the model".to_owned();
    Error::Foreign { file, what: format!("tensor {name} cannot be used: {what}"), advice }
}
