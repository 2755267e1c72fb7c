//! Weights to measure with: those of a model, or made up, in more memory than any cache holds.

use scantling_core::dtype::{Class, DType};
use scantling_core::error::{Error, Result};
use scantling_core::matrix::Matrix;
use scantling_core::paging::HugeBuf;
use scantling_core::quant;

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

/// Bytes of blocks that are made one by one; the rest repeats them.
const TILE: usize = 1 << 17;

/// Random blocks whose values are neither too large to add up nor so small that the processor takes a slow path:
/// as many tries as it takes, so that no layout has to be known here.
fn tile(dtype: DType) -> Option<Vec<u8>> {
    let codec = dtype.codec()?;
    let block = dtype.block_bytes();
    let mut values = vec![0.0; dtype.block_values()];
    let mut random = Random(0x5ca7_u64);
    let mut tile = vec![0; TILE / block * block];
    for raw in tile.chunks_mut(block) {
        loop {
            raw.iter_mut().for_each(|byte| *byte = random.byte());
            (codec.decode)(raw, &mut values);
            if fit(dtype, &values) {
                break;
            }
        }
    }
    quant::decode(dtype, &tile[..block], &mut values).ok()?;
    Some(tile)
}

fn fit(dtype: DType, values: &[f32]) -> bool {
    let top = values.iter().fold(0.0f32, |top, x| top.max(x.abs()));
    let finite = values.iter().all(|x| x.is_finite());
    // Whole numbers are as large as they are.
    let whole = matches!(dtype.class(), Class::Integer | Class::Bool);
    finite && (whole || (1.0 / 1024.0..4.0).contains(&top))
}

/// A sequence of numbers that is the same every time (SplitMix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    /// Between -1 and 1.
    pub fn activation(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_decodes_has_ordinary_weights() {
        for dtype in DType::all().filter(|d| d.codec().is_some()) {
            let tile = tile(dtype).unwrap();
            let mut values = vec![0.0; tile.len() / dtype.block_bytes() * dtype.block_values()];
            quant::decode(dtype, &tile, &mut values).unwrap();
            assert!(values.iter().all(|x| x.is_finite()), "{dtype}");
            let first = values[0];
            assert!(values.iter().any(|x| *x != first), "{dtype} is all {first}");
        }
        assert!(tile(DType::F6_E2M3).is_none());
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
