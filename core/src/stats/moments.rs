//! Sums of numbers and of their squares, in lanes.

use crate::distance::folded;

/// Sums under way at a time.
pub const LANES: usize = 16;

/// Sums of numbers, and of their squares: number i is in lane i mod 16.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Σx.
    pub sums: [f64; LANES],
    /// Σx².
    pub squares: [f64; LANES],
}

/// How the numbers of a run are summed: as [`Plainly`] does it, to the bit.
pub trait Summing: Copy {
    /// Sums of finite numbers.
    fn moments(self, values: &[f32]) -> Moments;
}

/// The definition of these sums.
#[derive(Clone, Copy, Debug)]
pub struct Plainly;

impl Summing for Plainly {
    #[inline(always)]
    fn moments(self, values: &[f32]) -> Moments {
        moments(values)
    }
}

/// The definition, of numbers of any width.
#[inline(always)]
pub(super) fn moments<T: Copy + Into<f64>>(values: &[T]) -> Moments {
    let mut moments = Moments::default();
    moments.add(0.0, values);
    moments
}

impl Moments {
    /// The distances of more numbers from a pivot, the first of which goes to the first lane.
    #[inline(always)]
    pub fn add<T: Copy + Into<f64>>(&mut self, pivot: f64, values: &[T]) {
        for some in values.chunks(LANES) {
            for ((sum, square), x) in self.sums.iter_mut().zip(&mut self.squares).zip(some) {
                let x = (*x).into() - pivot;
                *sum += x;
                *square += x * x;
            }
        }
    }

    #[inline(always)]
    pub(super) fn folded(&self) -> (f64, f64) {
        (folded(self.sums), folded(self.squares))
    }
}

/// Sum of the distances from the pivot, and of their squares.
#[inline(never)]
pub(super) fn about<T: Copy + Into<f64>>(pivot: f64, values: &[T]) -> (f64, f64) {
    let mut moments = Moments::default();
    moments.add(pivot, values);
    moments.folded()
}
