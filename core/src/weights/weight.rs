//! A matrix of a model, whichever way it is stored: what a kernel computes with as it lies, and what has to be brought
//! into rows first, a tile at a time, so that there is never a second copy of it.

use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::matrix::{Matrix, Rows, RowsMut};
use crate::ops::Linear;
use crate::packed::Packed;
use crate::paging::HugeBuf;
use crate::parallel::on_all_cores;
use rayon::prelude::*;
use std::ops::Range;

/// A matrix of a model: `rows` outputs of `cols` inputs.
#[derive(Clone, Copy)]
pub struct Weight<'a> {
    stored: Stored<'a>,
    /// Whether it is stored [in, out] instead of [out, in].
    turned: bool,
}

/// How it lies in the file.
#[derive(Clone, Copy)]
enum Stored<'a> {
    /// In rows of one element type.
    Plain(Matrix<'a>),
    /// In several tensors.
    Packed(PackedWindow<'a>),
}

/// Some rows and columns of a packed matrix.
#[derive(Clone, Copy)]
struct PackedWindow<'a> {
    all: &'a dyn Packed,
    rows: (usize, usize),
    cols: (usize, usize),
}

/// What a product with a matrix needs to know of it.
#[derive(Clone, Copy)]
pub struct Projection<'a> {
    /// The name of the tensor, for reports.
    pub name: &'a str,
    /// The matrix.
    pub weight: Weight<'a>,
    /// One number for each output, or none.
    pub bias: Option<&'a [f32]>,
}

/// Bytes of the widened rows that are at hand at a time for each thread: they stay in the caches while they are used.
const TILE: usize = 1 << 20;

/// Rows that one core widens at a time.
const GRAIN: usize = 16;

impl<'a> Weight<'a> {
    /// One that is stored in rows.
    pub(super) fn plain(matrix: Matrix<'a>) -> Weight<'a> {
        Weight { stored: Stored::Plain(matrix), turned: false }
    }

    /// One that is stored in several tensors.
    pub(super) fn packed(all: &'a dyn Packed) -> Weight<'a> {
        let window = PackedWindow { all, rows: (0, all.rows()), cols: (0, all.cols()) };
        Weight { stored: Stored::Packed(window), turned: false }
    }

    /// The rows of one element type that it is, if it is.
    pub fn matrix(&self) -> Option<Matrix<'a>> {
        match self.stored {
            Stored::Plain(matrix) if !self.turned => Some(matrix),
            _ => None,
        }
    }

    /// Number of outputs.
    pub fn rows(&self) -> usize {
        if self.turned { self.stored.cols() } else { self.stored.rows() }
    }

    /// Number of inputs.
    pub fn cols(&self) -> usize {
        if self.turned { self.stored.rows() } else { self.stored.cols() }
    }

    /// Its transpose, which is the same bytes.
    pub fn transposed(self) -> Weight<'a> {
        Weight { turned: !self.turned, ..self }
    }

    /// The part that makes some of the outputs. Panics past the last.
    pub fn outputs(&self, outputs: Range<usize>) -> Weight<'a> {
        let stored = if self.turned { self.stored.cols_at(outputs) } else { self.stored.rows_at(outputs) };
        Weight { stored, ..*self }
    }

    /// One of `of` matrices that are stored one under the other in this one.
    pub(super) fn one_of(&self, of: usize, which: usize) -> Weight<'a> {
        let each = self.stored.rows() / of.max(1);
        Weight { stored: self.stored.rows_at(which * each..(which + 1) * each), ..*self }
    }

    /// Its outputs from `first` on as rows of f32, as many as `out` has room for. Panics past the last.
    pub fn widen(&self, kernel: &dyn Kernel, first: usize, out: &mut [f32]) {
        let cols = self.cols().max(1);
        if !self.turned {
            return self.stored.widen(kernel, first, out);
        }
        let outputs = out.len() / cols;
        let some = self.stored.cols_at(first..first + outputs);
        let mut row = vec![0.0; outputs];
        for input in 0..some.rows() {
            some.widen(kernel, input, &mut row);
            row.iter().zip(out.iter_mut().skip(input).step_by(cols)).for_each(|(w, out)| *out = *w);
        }
    }
}

impl<'a> Stored<'a> {
    fn rows(&self) -> usize {
        match self {
            Stored::Plain(m) => m.rows(),
            Stored::Packed(p) => p.rows.1 - p.rows.0,
        }
    }

    fn cols(&self) -> usize {
        match self {
            Stored::Plain(m) => m.cols(),
            Stored::Packed(p) => p.cols.1 - p.cols.0,
        }
    }

    fn rows_at(&self, rows: Range<usize>) -> Stored<'a> {
        assert!(rows.end <= self.rows(), "rows {rows:?} of {}", self.rows());
        match *self {
            Stored::Plain(m) => Stored::Plain(m.rows_at(rows)),
            Stored::Packed(p) => {
                Stored::Packed(PackedWindow { rows: (p.rows.0 + rows.start, p.rows.0 + rows.end), ..p })
            }
        }
    }

    fn cols_at(&self, cols: Range<usize>) -> Stored<'a> {
        assert!(cols.end <= self.cols(), "columns {cols:?} of {}", self.cols());
        match *self {
            Stored::Plain(m) => Stored::Plain(m.cols_at(cols)),
            Stored::Packed(p) => {
                Stored::Packed(PackedWindow { cols: (p.cols.0 + cols.start, p.cols.0 + cols.end), ..p })
            }
        }
    }

    /// Rows from `first` on, as many as `out` has room for.
    fn widen(&self, kernel: &dyn Kernel, first: usize, out: &mut [f32]) {
        let cols = self.cols().max(1);
        match self {
            Stored::Plain(m) => {
                for (row, out) in out.chunks_mut(cols).enumerate() {
                    kernel.decode(m.dtype(), m.row(first + row), out).expect("seen when it was bound");
                }
            }
            Stored::Packed(p) if p.cols == (0, p.all.cols()) => p.all.widen(p.rows.0 + first, out),
            Stored::Packed(p) => {
                let mut whole = vec![0.0; p.all.cols()];
                for (row, out) in out.chunks_mut(cols).enumerate() {
                    p.all.widen(p.rows.0 + first + row, &mut whole);
                    out.copy_from_slice(&whole[p.cols.0..p.cols.1]);
                }
            }
        }
    }
}

impl Projection<'_> {
    /// As kernels compute with it, if it is stored so.
    pub fn plain(&self) -> Option<Linear<'_>> {
        self.weight.matrix().map(|weight| Linear { bias: self.bias, ..Linear::plain(weight) })
    }

    /// The product with `x`, with the bias: `[x.rows, outputs]`. What is stored as rows goes to the kernel as it lies;
    /// of anything else, tiles of rows are widened and used at once.
    pub fn apply(&self, kernel: &dyn Kernel, x: Rows<'_>, out: RowsMut<'_>) {
        if let Some(linear) = self.plain() {
            return kernel.matmul(linear, x, out);
        }
        let (outputs, cols) = (self.weight.rows(), self.weight.cols().max(1));
        let tile = (TILE / size_of::<f32>() / cols).max(1) * kernel.threads();
        let tile = tile.min(outputs.max(1));
        let mut buffer = HugeBuf::zeroed(tile * cols * size_of::<f32>()).expect("memory for a tile");
        let (mut rest, mut first) = (out, 0);
        while first < outputs {
            let rows = tile.min(outputs - first);
            let widen = |(i, part): (usize, &mut [f32])| self.weight.widen(kernel, first + i * GRAIN, part);
            let floats = &mut buffer.floats_mut()[..rows * cols];
            if kernel.threads() > 1 {
                on_all_cores(|| floats.par_chunks_mut(GRAIN * cols).enumerate().for_each(widen));
            } else {
                floats.chunks_mut(GRAIN * cols).enumerate().for_each(widen);
            }
            let bytes = &buffer[..rows * cols * size_of::<f32>()];
            kernel.label(bytes, self.name);
            let weight = Matrix::new(DType::F32, rows, cols, bytes).expect("whole rows");
            let bias = self.bias.map(|b| &b[first..first + rows]);
            let (part, behind) = rest.split_cols(rows);
            kernel.matmul(Linear { bias, ..Linear::plain(weight) }, x, part);
            (rest, first) = (behind, first + rows);
        }
    }
}
