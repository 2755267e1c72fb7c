//! Numbers that belong to the blocks of a matrix: one to the whole, to each row, to groups of a row or to blocks.

use super::group::{Group, Part};
use crate::dtype::DType;
use crate::quant;
use std::borrow::Cow;

/// How a matrix is cut into blocks that share a number. Blocks at the far edges may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// One block.
    Tensor,
    /// Each row.
    Channel,
    /// So many neighbours in a row.
    Group(usize),
    /// So many rows and columns.
    Block(usize, usize),
}

impl Cut {
    /// Rows and columns of a block of a matrix.
    fn sides(self, (rows, cols): (usize, usize)) -> (usize, usize) {
        let (high, wide) = match self {
            Cut::Tensor => (rows, cols),
            Cut::Channel => (1, cols),
            Cut::Group(size) => (1, size),
            Cut::Block(high, wide) => (high, wide),
        };
        (high.max(1), wide.max(1))
    }

    /// The shapes that a part with one number for each block may have, the usual one first, and what they follow from.
    fn shapes(self, (rows, cols): (usize, usize)) -> (Vec<Vec<usize>>, String) {
        let (high, wide) = self.sides((rows, cols));
        let blocks = vec![rows.div_ceil(high), cols.div_ceil(wide)];
        match self {
            Cut::Tensor => (vec![vec![1], vec![], vec![1, 1]], "one for the tensor".to_owned()),
            Cut::Channel => (vec![vec![rows, 1], vec![rows]], "one for each output".to_owned()),
            Cut::Group(size) => (vec![blocks], format!("out, in / group_size {size}")),
            Cut::Block(high, wide) => (vec![blocks], format!("out / {high}, in / {wide}")),
        }
    }

    /// Whether a part has the shape of one number for each block.
    pub fn has_shape(self, shape: &[usize], matrix: (usize, usize)) -> bool {
        self.shapes(matrix).0.iter().any(|wanted| wanted == shape)
    }

    /// Blocks in a row of so many columns.
    pub fn wide(self, cols: usize) -> usize {
        cols.div_ceil(self.sides((1, cols)).1)
    }

    /// A few words: `g64`, `128×128`.
    pub fn words(self) -> String {
        match self {
            Cut::Tensor => "tensor".to_owned(),
            Cut::Channel => "channel".to_owned(),
            Cut::Group(size) => format!("g{size}"),
            Cut::Block(high, wide) => format!("{high}×{wide}"),
        }
    }
}

/// A part with one number for each block of a matrix.
pub(super) struct Grid<'a> {
    data: Cow<'a, [u8]>,
    dtype: DType,
    /// Rows and columns of a block.
    block: (usize, usize),
    /// Blocks in a row.
    wide: usize,
}

impl<'a> Grid<'a> {
    /// The part of a group that is one for a matrix; faults are noted.
    pub fn want(
        group: &Group<'a>,
        end: &str,
        types: &[DType],
        cut: Cut,
        matrix: (usize, usize),
    ) -> Option<Grid<'a>> {
        let (shapes, axes) = cut.shapes(matrix);
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let Part { data, dtype, .. } = group.want(end, types, &shapes, &axes)?;
        Some(Grid::new(data, dtype, cut, matrix))
    }

    /// Of as many numbers as there are blocks.
    pub fn new(data: Cow<'a, [u8]>, dtype: DType, cut: Cut, matrix: (usize, usize)) -> Grid<'a> {
        let block = cut.sides(matrix);
        // A byte that is a scale is a power of two.
        let dtype = if dtype == DType::U8 { DType::F8_E8M0 } else { dtype };
        Grid { data, dtype, block, wide: matrix.1.div_ceil(block.1) }
    }

    /// Columns of a block.
    pub fn block_cols(&self) -> usize {
        self.block.1
    }

    /// The numbers of the blocks that a row of the matrix crosses.
    pub fn row(&self, row: usize, out: &mut Vec<f32>) {
        let bytes = self.wide * self.dtype.block_bytes();
        out.resize(self.wide, 0.0);
        let data = &self.data[row / self.block.0 * bytes..][..bytes];
        quant::decode(self.dtype, data, out)
            .expect("types of one element to a block, seen when it was opened");
    }
}
