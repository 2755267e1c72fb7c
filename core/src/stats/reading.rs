//! A tensor's numbers, cut into pieces of a fixed size: what is found does not depend on who reads which.

use super::blocks::Blocks;
use super::histogram::Histogram;
use super::piece::{RUN, tally_of, tally_scaled, wide};
use super::tally::Tally;
use crate::dtype::DType;
use crate::error::Result;
use crate::index::TensorInfo;
use crate::kernel::Kernel;
use crate::packed::Packed;
use crate::source::WeightSource;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a piece, more or less: enough to keep a core busy, few enough to spread.
const PIECE: usize = 1 << 20;

/// Where the numbers of a tensor are.
enum Numbers<'s> {
    /// Stored one after the other.
    Stored(DType, Cow<'s, [u8]>),
    /// Made a row at a time.
    Packed(Box<dyn Packed + 's>),
}

/// A tensor that is being read.
pub(super) struct Reading<'s> {
    numbers: Numbers<'s>,
    cut: Cut,
    /// Bytes in the files for each piece, for whoever watches.
    share: u64,
}

/// What a piece holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub tally: Tally,
    /// Rows that are nothing but zeros, if the piece is whole rows.
    pub dead: u64,
    /// The first of them, counted from the start of the tensor.
    pub first_dead: Option<u64>,
}

/// How a tensor's bytes (of a packed one, rows) are cut: some rows to a piece, or each row into parts.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// All of them.
    len: usize,
    /// Those of a row; of a tensor that has no rows, of all of it.
    row: usize,
    /// Those of a piece that does not end a row.
    part: usize,
    /// Whether there are rows.
    rows: bool,
}

impl Cut {
    /// `grain` is what cannot be cut.
    fn new(len: usize, row: Option<usize>, grain: usize) -> Cut {
        let rows = row.is_some();
        let row = row.unwrap_or(len).max(1);
        let whole = |unit: usize| PIECE.checked_div(unit).unwrap_or(1).max(1).saturating_mul(unit);
        let part = if row <= PIECE { whole(row) } else { whole(grain) };
        Cut { len, row, part, rows }
    }

    /// Pieces of a row; 1 where a piece is one or more whole rows.
    fn per_row(&self) -> usize {
        if self.part >= self.row { 1 } else { self.row.div_ceil(self.part) }
    }

    fn pieces(&self) -> usize {
        match self.per_row() {
            1 => self.len.div_ceil(self.part),
            parts => (self.len / self.row).saturating_mul(parts),
        }
    }

    fn range(&self, piece: usize) -> Range<usize> {
        let parts = self.per_row();
        if parts == 1 {
            let start = piece.saturating_mul(self.part).min(self.len);
            return start..start.saturating_add(self.part).min(self.len);
        }
        let row = (piece / parts).saturating_mul(self.row);
        let start = row.saturating_add((piece % parts).saturating_mul(self.part));
        start..start.saturating_add(self.part).min(row.saturating_add(self.row)).min(self.len)
    }

    /// The row that a piece begins with, or is part of.
    fn first_row(&self, piece: usize) -> usize {
        match self.per_row() {
            1 => piece.saturating_mul(self.part / self.row),
            parts => piece / parts,
        }
    }
}

impl<'s> Reading<'s> {
    /// Opens a tensor; `None` where its numbers cannot be told.
    pub fn open(source: &'s dyn WeightSource, tensor: &TensorInfo) -> Result<Option<Reading<'s>>> {
        let (numbers, cut) = if let Some(packed) = source.packed(tensor)? {
            // Counted in numbers, four bytes each once they are made.
            let cols = packed.cols().max(1);
            let cut = Cut::new(packed.rows().saturating_mul(cols), Some(cols), cols);
            (Numbers::Packed(packed), cut)
        } else {
            let Some(dtype) = tensor.dtype.known().filter(|d| d.codec().is_some()) else { return Ok(None) };
            let bytes = source.bytes(tensor)?;
            let row = row_bytes(dtype, &tensor.shape);
            let cut = Cut::new(bytes.len(), row, dtype.block_bytes());
            (Numbers::Stored(dtype, bytes), cut)
        };
        let share = tensor.byte_len().checked_div(cut.pieces() as u64).unwrap_or(0);
        Ok(Some(Reading { numbers, cut, share }))
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.cut.pieces()
    }

    /// Bytes of the files that one of them stands for.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// Bytes held that are not the file's own.
    pub fn owned(&self) -> usize {
        match &self.numbers {
            Numbers::Stored(_, Cow::Owned(bytes)) => bytes.len(),
            _ => 0,
        }
    }

    /// How many rows there are: none of a vector.
    pub fn rows(&self) -> Option<u64> {
        self.cut.rows.then(|| (self.cut.len / self.cut.row) as u64)
    }

    /// Looks at a piece.
    pub fn tally(&self, kernel: &dyn Kernel, piece: usize, room: &mut Vec<f32>) -> Found {
        let range = self.cut.range(piece);
        let (tally, row) = match &self.numbers {
            Numbers::Stored(dtype, bytes) => {
                let raw = bytes.get(range.clone()).unwrap_or_default();
                // The type has a codec and the bytes are whole blocks: nothing is left to go wrong.
                let tally = kernel.tally(*dtype, raw).unwrap_or_default();
                (tally, self.cut.row / dtype.block_bytes() * dtype.block_values())
            }
            Numbers::Packed(packed) => {
                widen(packed.as_ref(), &range, room);
                (tally_of(room), self.cut.row)
            }
        };
        let mut found = Found { tally, dead: 0, first_dead: None };
        // So many zeros are rare enough for a second look, while the piece is in the caches.
        if self.cut.rows && self.cut.per_row() == 1 && tally.may_hold_zeros(row, RUN) {
            let first = self.cut.first_row(piece);
            for i in 0..range.len() / self.cut.row {
                let start = i.saturating_mul(self.cut.row);
                if self.is_dead(kernel, range.start, start, room) {
                    found.dead += 1;
                    found.first_dead.get_or_insert(first.saturating_add(i) as u64);
                }
            }
        }
        found
    }

    /// Whether a row is nothing but zeros, which mostly shows in its first numbers. It begins `start` behind the
    /// `piece`; what a packed piece makes is in `room`.
    fn is_dead(&self, kernel: &dyn Kernel, piece: usize, start: usize, room: &[f32]) -> bool {
        match &self.numbers {
            Numbers::Packed(_) => {
                let row = room.get(start..).and_then(|rest| rest.get(..self.cut.row));
                row.is_some_and(|row| row.iter().all(|x| *x == 0.0))
            }
            Numbers::Stored(dtype, bytes) => {
                let start = piece.saturating_add(start);
                let raw = bytes.get(start..).and_then(|rest| rest.get(..self.cut.row)).unwrap_or_default();
                let run = (256 / dtype.block_values()).max(1);
                let mut values = [0.0f32; 256];
                raw.chunks(run.saturating_mul(dtype.block_bytes())).all(|raw| {
                    let n = raw.len() / dtype.block_bytes() * dtype.block_values();
                    let Some(values) = values.get_mut(..n) else { return false };
                    kernel.decode(*dtype, raw, values).is_ok() && values.iter().all(|x| *x == 0.0)
                })
            }
        }
    }

    /// All pieces of a tensor joined, in their order.
    pub fn joined(&self, found: &[Found]) -> Found {
        let mut all = Found::default();
        let parts = self.cut.per_row();
        for (i, row) in found.chunks(parts).enumerate() {
            let before = all.tally.zeros;
            for piece in row {
                all.tally = all.tally.join(&piece.tally);
                all.dead += piece.dead;
                all.first_dead = all.first_dead.or(piece.first_dead);
            }
            let numbers = row.iter().map(|piece| piece.tally.count).sum::<u64>();
            if self.cut.rows && parts > 1 && all.tally.zeros - before == numbers {
                all.dead += 1;
                all.first_dead.get_or_insert(i as u64);
            }
        }
        all
    }

    /// Figures of what all pieces joined came to; where those are of f64 whose squares f64 does not hold, the sums are made
    /// once more, of smaller or larger numbers.
    pub fn exact(&self, tally: Tally) -> Tally {
        let Numbers::Stored(DType::F64, bytes) = &self.numbers else { return tally };
        let Some(scale) = tally.needs_scale() else { return tally };
        let piece = |piece| tally_scaled(bytes.get(self.cut.range(piece)).unwrap_or_default(), scale);
        // In their order, whoever made which.
        let pieces: Vec<Tally> = (0..self.pieces()).into_par_iter().map(piece).collect();
        let scaled = pieces.iter().fold(Tally::default(), |all, piece| all.join(piece));
        tally.with_sums_of(&scaled, scale)
    }

    /// Counts a piece in detail.
    pub fn count(
        &self,
        kernel: &dyn Kernel,
        piece: usize,
        histogram: &mut Option<Histogram>,
        blocks: &mut Option<Blocks>,
    ) {
        let range = self.cut.range(piece);
        match &self.numbers {
            Numbers::Packed(packed) => {
                let mut room = Vec::new();
                widen(packed.as_ref(), &range, &mut room);
                if let Some(histogram) = histogram {
                    histogram.add(room.iter().map(|x| f64::from(*x)));
                }
            }
            Numbers::Stored(dtype, bytes) => {
                let raw = bytes.get(range).unwrap_or_default();
                if let Some(blocks) = blocks {
                    blocks.add(*dtype, raw);
                }
                let Some(histogram) = histogram else { return };
                if wide(*dtype, raw, &mut |run| histogram.add(run.iter().copied())) {
                    return;
                }
                let mut values = [0.0f32; RUN];
                for raw in raw.chunks(RUN / dtype.block_values() * dtype.block_bytes()) {
                    let n = raw.len() / dtype.block_bytes() * dtype.block_values();
                    if let Some(values) = values.get_mut(..n)
                        && kernel.decode(*dtype, raw, values).is_ok()
                    {
                        histogram.add(values.iter().map(|x| f64::from(*x)));
                    }
                }
            }
        }
    }

    /// No block counted yet; `None` for tensors that have none.
    pub fn blocks(&self) -> Option<Blocks> {
        match &self.numbers {
            Numbers::Stored(dtype, _) => Blocks::new(*dtype),
            Numbers::Packed(_) => None,
        }
    }
}

/// The rows of a range of numbers.
fn widen(packed: &dyn Packed, range: &Range<usize>, room: &mut Vec<f32>) {
    room.resize(range.len(), 0.0);
    packed.widen(range.start.checked_div(packed.cols()).unwrap_or(0), room);
}

/// Bytes of a row, where there are rows that begin at bytes of their own.
fn row_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    let [_, .., cols] = *shape else { return None };
    let blocks = cols / dtype.block_elements();
    (blocks > 0 && cols.is_multiple_of(dtype.block_elements()))
        .then(|| blocks.checked_mul(dtype.block_bytes()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once_and_end_with_rows() {
        let cases = [
            (0, None, 2),
            (10 * PIECE + 6, None, 2),
            (300 * 7000, Some(7000), 2),
            (5 * 144 * 21_846, Some(144 * 21_846), 144),
            (4 * 58_256 * 18, Some(58_256 * 18), 18),
            (100, Some(100), 1),
            (8, Some(2), 2),
        ];
        for (len, row, grain) in cases {
            let cut = Cut::new(len, row, grain);
            let mut at = 0;
            for piece in 0..cut.pieces() {
                let range = cut.range(piece);
                assert_eq!(range.start, at, "{cut:?}");
                assert!(
                    !range.is_empty() && range.len() <= PIECE.max(grain) && range.start.is_multiple_of(grain)
                );
                assert!(row.is_none_or(|row| range.start / row == cut.first_row(piece)), "{cut:?}");
                at = range.end;
            }
            assert_eq!(at, len, "{cut:?}");
        }
    }
}
