//! A few numbers of a tensor, the same places in all of one shape: enough to tell whether two are the same tensor, and few
//! enough to hold every tensor of a model against every other.

use crate::convert::Converted;
use crate::distance::{Accumulate, Distance, Plainly, RUN};
use crate::kernel::Kernel;

/// Rows that are looked at.
const ROWS: usize = 8;

/// Numbers of each.
const COLUMNS: usize = 64;

/// Rows of a tensor, wherever they lie.
pub(super) struct Reader<'t, 's> {
    pub numbers: &'t Converted<'s>,
    pub kernel: &'t dyn Kernel,
}

impl Reader<'_, '_> {
    /// Numbers of a row: the last axis, or all of a vector.
    pub fn cols(&self) -> usize {
        self.numbers.shape().last().copied().unwrap_or(1).max(1)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.numbers.len().checked_div(self.cols()).unwrap_or(0)
    }

    /// Some numbers from a place on, whatever has to be read together to have them.
    pub fn at(&self, first: usize, count: usize) -> Vec<f32> {
        let grain = self.numbers.grain();
        let before = first.checked_rem(grain).unwrap_or(0);
        let from = first.saturating_sub(before);
        let end = first.saturating_add(count).min(self.numbers.len());
        let some = end.saturating_sub(from).div_ceil(grain).saturating_mul(grain);
        let mut out = vec![0.0; some];
        self.numbers.read(self.kernel, from, &mut out);
        out.drain(..before.min(out.len()));
        out.truncate(end.saturating_sub(first));
        out
    }

    /// The first numbers of a row.
    pub fn row(&self, row: usize) -> Vec<f32> {
        self.at(row.saturating_mul(self.cols()), self.cols().min(COLUMNS))
    }
}

/// Rows that are looked at of `rows` from the `first` on.
pub(super) fn places(first: usize, rows: usize) -> Vec<usize> {
    let some = rows.min(ROWS);
    // Not the same place of every head or expert: the step is not a divisor of their widths.
    let at = |i: usize| {
        i.saturating_mul(rows).saturating_add(i.saturating_mul(i)).checked_div(some.max(1)).unwrap_or(0)
    };
    let mut all: Vec<usize> =
        (0..some).map(|i| first.saturating_add(at(i).min(rows.saturating_sub(1)))).collect();
    all.dedup();
    all
}

/// The numbers of these rows.
pub(super) fn rows(reader: &Reader<'_, '_>, places: &[usize]) -> Vec<f32> {
    places.iter().flat_map(|row| reader.row(*row)).collect()
}

/// How far two samples are apart, as a share of the first.
pub(super) fn apart(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() || a.is_empty() {
        return f64::INFINITY;
    }
    let distance = Distance::of(Plainly, Accumulate::F64, 0, [a, b], RUN, &mut Vec::new());
    if distance.not_finite_apart() { f64::INFINITY } else { distance.relative() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_over_all_rows() {
        assert_eq!(places(0, 3), [0, 1, 2]);
        let many = places(1000, 1600);
        assert_eq!(many.len(), 8);
        assert!(many.windows(2).all(|w| w[0] < w[1]) && many[0] == 1000 && many[7] > 2300 && many[7] < 2600);
        assert_eq!(places(0, 0), [0usize; 0]);
    }

    #[test]
    fn samples_of_other_lengths_are_never_alike() {
        assert_eq!(apart(&[1.0], &[1.0, 2.0]), f64::INFINITY);
        assert_eq!(apart(&[1.0, -1.0], &[1.0, -1.0]), 0.0);
    }
}
