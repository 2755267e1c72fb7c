//! Views of numbers: stored matrices cut by rows, activations cut by rows and by columns.
//!
//! A wrapper that spreads an op over cores cuts the *output*: disjoint windows of its columns, with the rows of
//! the weights that make them. No sum is ever cut, so the result has the same bits at any number of threads.

#![allow(unsafe_code)]

use crate::dtype::DType;
use crate::ledger::Share;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// A stored matrix `[rows, cols]`, each row whole blocks of its element type; possibly a window of the columns of
/// something wider.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    dtype: DType,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    /// Bytes from one row to the next.
    stride: usize,
    data: &'a [u8],
}

/// Why bytes are no matrix of a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{dtype} [{rows}, {cols}] takes {}, found {found} bytes", needed(.expected))]
pub struct NotAMatrix {
    /// Element type.
    pub dtype: DType,
    /// Rows asked for.
    pub rows: usize,
    /// Columns asked for.
    pub cols: usize,
    /// Bytes that such a matrix takes, if it can be stored at all.
    pub expected: Option<usize>,
    /// Bytes given.
    pub found: usize,
}

fn needed(expected: &Option<usize>) -> String {
    expected.map_or_else(|| "no whole number of blocks".to_owned(), |n| format!("{n} bytes"))
}

impl<'a> Matrix<'a> {
    /// A view of stored bytes.
    pub fn new(dtype: DType, rows: usize, cols: usize, data: &'a [u8]) -> Result<Matrix<'a>, NotAMatrix> {
        let whole = cols.is_multiple_of(dtype.block_elements());
        let row_bytes =
            whole.then(|| (cols / dtype.block_elements()).checked_mul(dtype.block_bytes())).flatten();
        let expected = row_bytes.and_then(|b| b.checked_mul(rows));
        match (row_bytes, expected) {
            (Some(row_bytes), Some(len)) if len == data.len() => {
                Ok(Matrix { dtype, rows, cols, row_bytes, stride: row_bytes, data })
            }
            _ => Err(NotAMatrix { dtype, rows, cols, expected, found: data.len() }),
        }
    }

    /// Element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of rows, the outputs of a product.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, the inputs of a product.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of one row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Bytes from the start of one row to the start of the next; more than [`row_bytes`](Self::row_bytes) in a
    /// window of columns.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The bytes from the first of the first row to the last of the last.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The bytes of one row. Panics past the last.
    #[inline]
    pub fn row(&self, row: usize) -> &'a [u8] {
        &self.data[row * self.stride..][..self.row_bytes]
    }

    /// Some of the rows. Panics past the last.
    #[inline]
    pub fn rows_at(&self, rows: Range<usize>) -> Matrix<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let (start, end) = (rows.start * self.stride, rows.end * self.stride);
        let data = if rows.is_empty() { &[] } else { &self.data[start..end.min(self.data.len())] };
        Matrix { rows: rows.len(), data, ..*self }
    }

    /// A window of the columns. Panics past the last, and if it cuts a block.
    #[inline]
    pub fn cols_at(&self, cols: Range<usize>) -> Matrix<'a> {
        let block = self.dtype.block_elements();
        assert!(cols.start <= cols.end && cols.end <= self.cols, "columns {cols:?} of {}", self.cols);
        assert!(
            cols.start.is_multiple_of(block) && cols.end.is_multiple_of(block),
            "columns {cols:?} cut a block of {block}"
        );
        let at = |col: usize| col / block * self.dtype.block_bytes();
        let row_bytes = at(cols.end) - at(cols.start);
        let len = self.rows.saturating_sub(1) * self.stride + row_bytes;
        let data = if self.rows == 0 { &[] } else { &self.data[at(cols.start)..][..len] };
        Matrix { cols: cols.len(), row_bytes, data, ..*self }
    }
}

impl fmt::Debug for Matrix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}, {}]", self.dtype, self.rows, self.cols)
    }
}

/// Activations: rows of f32, one for each token, possibly a window of the columns of something wider.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// Rows that lie one after the other. Panics if the length is not rows × cols.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Rows<'a> {
        assert_eq!(data.len(), rows * cols, "{rows} rows of {cols}");
        Rows { data, rows, cols, stride: cols }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One row. Panics past the last.
    #[inline]
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &self.data[row * self.stride..][..self.cols]
    }

    /// All rows in turn.
    pub fn iter(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let all = *self;
        (0..all.rows).map(move |i| all.row(i))
    }

    /// A window of the columns. Panics past the last.
    #[inline]
    pub fn cols_at(&self, cols: Range<usize>) -> Rows<'a> {
        assert!(cols.start <= cols.end && cols.end <= self.cols, "columns {cols:?} of {}", self.cols);
        let data = if self.rows == 0 { &[] } else { &self.data[cols.start..] };
        Rows { data, cols: cols.len(), ..*self }
    }

    /// Some of the rows. Panics past the last.
    #[inline]
    pub fn rows_at(&self, rows: Range<usize>) -> Rows<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let data = self.data.get(rows.start * self.stride..).unwrap_or(&[]);
        Rows { data, rows: rows.len(), ..*self }
    }
}

/// Activations to be written: rows of f32, possibly a window of the columns of something wider.
///
/// Windows split off by [`split_cols`](Self::split_cols) interleave in memory, which no slice can express; so
/// this holds a pointer, and the rows it gives out never overlap.
pub struct RowsMut<'a> {
    first: NonNull<f32>,
    rows: usize,
    cols: usize,
    stride: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `RowsMut` is an exclusive borrow of its columns of its rows, as `&mut [f32]` is of its elements;
// windows made by splitting are disjoint.
unsafe impl Send for RowsMut<'_> {}

impl<'a> RowsMut<'a> {
    /// Rows that lie one after the other. Panics if the length is not rows × cols.
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize) -> RowsMut<'a> {
        assert_eq!(data.len(), rows * cols, "{rows} rows of {cols}");
        let first = NonNull::from(data).cast();
        RowsMut { first, rows, cols, stride: cols, borrow: PhantomData }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One row. Panics past the last.
    #[inline]
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: row < rows, and the last row's columns lie inside the borrow that `new` checked.
        let start = unsafe { self.first.as_ptr().add(row * self.stride) };
        // SAFETY: `cols` elements from `start` lie inside the borrow, belong to this window alone, and the
        // exclusive borrow of `self` keeps a second slice of them from being made meanwhile.
        unsafe { std::slice::from_raw_parts_mut(start, self.cols) }
    }

    /// The same rows, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> RowsMut<'_> {
        RowsMut { borrow: PhantomData, ..*self }
    }

    /// What has been written so far.
    pub fn copy_to(&mut self, out: &mut Vec<f32>) {
        out.clear();
        for row in 0..self.rows {
            out.extend_from_slice(self.row(row));
        }
    }

    /// Two windows: the columns before `at`, and the rest. Panics if `at` is past the last.
    pub fn split_cols(self, at: usize) -> (RowsMut<'a>, RowsMut<'a>) {
        assert!(at <= self.cols, "column {at} of {}", self.cols);
        // SAFETY: at most `cols` elements on from the first, inside the borrow or one past its end; of no rows
        // nothing is ever read.
        let second = unsafe { NonNull::new_unchecked(self.first.as_ptr().wrapping_add(at)) };
        let right = RowsMut { first: second, cols: self.cols - at, ..self };
        (RowsMut { cols: at, borrow: PhantomData, ..self }, right)
    }

    /// Two windows: the rows before `at`, and the rest. Panics if `at` is past the last.
    pub fn split_rows(self, at: usize) -> (RowsMut<'a>, RowsMut<'a>) {
        assert!(at <= self.rows, "row {at} of {}", self.rows);
        // SAFETY: not null, as the pointer it is made from is not; nothing is read through it past the last row.
        let second = unsafe { NonNull::new_unchecked(self.first.as_ptr().wrapping_add(at * self.stride)) };
        let below = RowsMut { first: second, rows: self.rows - at, ..self };
        (RowsMut { rows: at, borrow: PhantomData, ..self }, below)
    }
}

/// Activations of its own: what an op returns.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsBuf {
    data: Vec<f32>,
    rows: usize,
    cols: usize,
    counted: Share,
}

impl RowsBuf {
    /// Zeros.
    pub fn zeros(rows: usize, cols: usize) -> RowsBuf {
        RowsBuf::from_vec(vec![0.0; rows * cols], rows, cols)
    }

    /// Rows that lie one after the other. Panics if the length is not rows × cols.
    pub fn from_vec(data: Vec<f32>, rows: usize, cols: usize) -> RowsBuf {
        assert_eq!(data.len(), rows * cols, "{rows} rows of {cols}");
        let counted = Share::of(data.len() * size_of::<f32>());
        RowsBuf { data, rows, cols, counted }
    }

    /// A copy of a view.
    pub fn copy_of(x: Rows<'_>) -> RowsBuf {
        let data = x.iter().flat_map(|row| row.iter().copied()).collect();
        RowsBuf::from_vec(data, x.rows(), x.cols())
    }

    /// Puts rows of the same width below its own. Where it has none, it is the other.
    pub fn append(&mut self, below: RowsBuf) {
        if self.rows == 0 {
            *self = below;
            return;
        }
        assert!(self.cols == below.cols, "rows of {} below rows of {}", below.cols, self.cols);
        let mut data = std::mem::take(&mut self.data);
        data.extend_from_slice(&below.data);
        *self = RowsBuf::from_vec(data, self.rows + below.rows, self.cols);
    }

    /// To be read.
    pub fn view(&self) -> Rows<'_> {
        Rows::new(&self.data, self.rows, self.cols)
    }

    /// To be written.
    pub fn view_mut(&mut self) -> RowsMut<'_> {
        RowsMut::new(&mut self.data, self.rows, self.cols)
    }

    /// All numbers, row after row.
    pub fn data(&self) -> &[f32] {
        &self.data
    }
}

/// Bytes as the f32 they hold, in the machine's own order. Panics unless they start and end at a whole number.
pub fn floats_mut(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: any four bytes are an f32, and any f32 four bytes.
    let (before, floats, after) = unsafe { bytes.align_to_mut::<f32>() };
    assert!(before.is_empty() && after.is_empty(), "bytes that are no whole f32");
    floats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_and_complete() {
        let mut data = vec![0.0; 5 * 7];
        let (left, right) = RowsMut::new(&mut data, 5, 7).split_cols(3);
        let (mut upper, mut lower) = right.split_rows(2);
        let mut left = left;
        for (window, value) in [(&mut left, 1.0), (&mut upper, 2.0), (&mut lower, 3.0)] {
            for row in 0..window.rows() {
                window.row(row).iter_mut().for_each(|x| *x += value);
            }
        }
        for (i, x) in data.iter().enumerate() {
            let expected = if i % 7 < 3 {
                1.0
            } else if i / 7 < 2 {
                2.0
            } else {
                3.0
            };
            assert_eq!(*x, expected, "element {i}");
        }
    }

    #[test]
    fn reading_windows_agree_with_indexes() {
        let data: Vec<f32> = (0..35u8).map(f32::from).collect();
        let window = Rows::new(&data, 5, 7).cols_at(2..6).rows_at(1..4);
        assert_eq!((window.rows(), window.cols()), (3, 4));
        assert_eq!(window.row(2), &data[3 * 7 + 2..3 * 7 + 6]);
        assert_eq!(window.iter().count(), 3);
        assert_eq!(Rows::new(&[], 0, 4).cols_at(1..3).iter().count(), 0);
    }

    #[test]
    fn stored_windows_agree_with_indexes() {
        let data: Vec<u8> = (0..5 * 3 * 34).map(|i| (i % 251) as u8).collect();
        let all = Matrix::new(DType::Q8_0, 5, 96, &data).unwrap();
        let window = all.cols_at(32..96).rows_at(1..5);
        assert_eq!((window.rows(), window.cols(), window.row_bytes(), window.stride()), (4, 64, 68, 102));
        for row in 0..4 {
            assert_eq!(window.row(row), &data[(row + 1) * 102 + 34..][..68], "row {row}");
        }
        assert!(window.rows_at(2..2).data().is_empty());
        assert_eq!(all.rows_at(5..5).cols_at(0..32).rows(), 0);
    }

    #[test]
    fn a_matrix_is_whole_blocks() {
        assert!(Matrix::new(DType::Q8_0, 2, 64, &[0; 2 * 2 * 34]).is_ok());
        let error = Matrix::new(DType::Q8_0, 2, 63, &[0; 2 * 2 * 34]).unwrap_err();
        assert_eq!(error.expected, None);
        assert!(Matrix::new(DType::F32, usize::MAX, usize::MAX, &[]).is_err());
    }
}
