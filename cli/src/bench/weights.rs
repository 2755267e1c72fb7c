//! Weights to measure with: those of a model, or made up, in more memory than any cache holds.

use scantling_core::conformance;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::matrix::Matrix;
use scantling_core::paging::HugeBuf;

/// Bytes that are gone through before any comes again: four times the last-level cache of a large server's core
/// complex (32 MiB), so that what is read comes from memory.
pub const COLD: usize = 128 << 20;

/// Matrices of one shape, used in turn.
pub struct Windows<'a> {
    matrices: Vec<Matrix<'a>>,
    next: usize,
}

impl<'a> Windows<'a> {
    /// Of at least one matrix.
    pub fn new(matrices: Vec<Matrix<'a>>) -> Option<Windows<'a>> {
        (!matrices.is_empty()).then_some(Windows { matrices, next: 0 })
    }

    /// The one that has not been used for longest.
    pub fn next(&mut self) -> Matrix<'a> {
        self.next = (self.next + 1) % self.matrices.len();
        self.matrices[self.next]
    }

    /// One to tell the shape by.
    pub fn first(&self) -> Matrix<'a> {
        self.matrices[0]
    }
}

/// Bytes that matrices of so many bytes each take so that none comes again while a cache could hold it.
pub fn cold_len(each: usize) -> usize {
    (COLD.div_ceil(each.max(1)) + 1) * each
}

/// As many matrices of a shape as a buffer holds, filled with blocks that decode to ordinary weights.
pub fn made_up(buffer: &mut HugeBuf, dtype: DType, rows: usize, cols: usize) -> Result<Windows<'_>> {
    let fault = |why: String| Error::Usage(format!("cannot make {dtype} [{rows}, {cols}]: {why}"));
    let each = dtype.byte_len(&[rows, cols]).map_err(|e| fault(e.to_string()))? as usize;
    let len = cold_len(each).min(buffer.len() / each.max(1) * each);
    let tile = tile(dtype).ok_or_else(|| fault("the type cannot be decoded".into()))?;
    let used = &mut buffer[..len];
    used.chunks_mut(tile.len()).for_each(|chunk| chunk.copy_from_slice(&tile[..chunk.len()]));
    let matrices = used.chunks(each.max(1)).map(|raw| Matrix::new(dtype, rows, cols, raw));
    let matrices = matrices.collect::<std::result::Result<_, _>>().map_err(|e| fault(e.to_string()))?;
    Windows::new(matrices).ok_or_else(|| fault("there is no memory for it".into()))
}

/// Bytes of blocks that are drawn one by one; the rest repeats them.
const TILE: usize = 1 << 20;

/// Blocks that decode to ordinary weights.
fn tile(dtype: DType) -> Option<Vec<u8>> {
    dtype.codec()?;
    Some(conformance::blocks(dtype, TILE / dtype.block_bytes(), 1))
}

/// Activations: ordinary numbers, the same every time; as of weights, some are drawn and the rest repeats them.
pub fn activations(rows: usize, cols: usize) -> Vec<f32> {
    let drawn = conformance::blocks(DType::F32, (rows * cols).min(TILE), 2);
    let drawn = drawn.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    drawn.cycle().take(rows * cols).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_made_up_for_every_type_that_decodes() {
        for dtype in DType::all() {
            assert_eq!(tile(dtype).is_some(), dtype.codec().is_some(), "{dtype}");
        }
        assert!(activations(3, 5).iter().all(|x| x.is_finite() && *x != 0.0));
    }

    #[test]
    fn windows_come_in_turn() {
        let mut buffer = HugeBuf::zeroed(cold_len(32 << 20)).unwrap();
        let mut windows = made_up(&mut buffer, DType::Q8_0, 1 << 15, 960).unwrap();
        let first = windows.next().data().as_ptr();
        let mut turn = 1;
        while windows.next().data().as_ptr() != first {
            turn += 1;
        }
        assert!(turn * windows.first().data().len() >= COLD, "{turn}");
    }
}
