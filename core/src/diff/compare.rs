//! Two tensors in one form: how far they are apart, and whether their element types account for it.

use super::distance::Distance;
use crate::convert::Converted;
use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::quant::rounding::{block_step, float_step};
use rayon::prelude::*;

/// A type's quantisation error may be exceeded so many times: other quantisers, other numbers.
const SLACK: f64 = 1.5;

/// Errors as large as the numbers themselves tell nothing of them: no type is allowed so much.
const MOST: f64 = 0.95;

/// The same for a single block, of which some are harder to round than all on average.
const BLOCK_SLACK: f64 = 4.5;

/// A block that is off by more than this share of its own numbers is unlike them, whatever its type.
const MOST_OF_BLOCK: f64 = 1.2;

/// What two tensors turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The same bytes of the same element type.
    Identical,
    /// The same numbers in another element type.
    Equal,
    /// The same numbers, once brought from one world's form into the other's.
    Transformed,
    /// As far apart as rounding to the coarser element type accounts for.
    Quantised,
    /// Alike, but farther apart than rounding accounts for.
    Beyond,
    /// Other numbers.
    Different,
    /// Not compared.
    Uncompared,
}

impl Class {
    /// All of them, the best first.
    pub const ALL: [Class; 7] = [
        Class::Identical,
        Class::Equal,
        Class::Transformed,
        Class::Quantised,
        Class::Beyond,
        Class::Different,
        Class::Uncompared,
    ];

    /// The word shown to people and written to JSON.
    pub fn word(self) -> &'static str {
        match self {
            Class::Identical => "identical",
            Class::Equal => "equal",
            Class::Transformed => "transformed",
            Class::Quantised => "quantised",
            Class::Beyond => "beyond",
            Class::Different => "different",
            Class::Uncompared => "uncompared",
        }
    }

    /// Whether the two hold the same numbers.
    pub fn is_same(self) -> bool {
        self <= Class::Transformed
    }
}

/// What a comparison of two tensors measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// How far they are apart.
    pub distance: Distance,
    /// What their element types allow.
    pub bound: Bound,
    /// Elements, or blocks, that are farther apart than that.
    pub beyond: u64,
    /// The first of these elements, or the first element of the first of these blocks.
    pub first_beyond: Option<u64>,
}

/// How far two tensors may be apart for their element types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Bound {
    /// Not at all: neither is coarser than the other.
    #[default]
    Equal,
    /// Each element by so many steps of the coarser types: one for each of them.
    Step,
    /// The root mean square of the errors, as a share of that of the numbers; and so much of a block's.
    Relative {
        /// Of all.
        whole: f64,
        /// Of one block of so many elements.
        block: (f64, usize),
    },
}

/// An element type as far as it rounds numbers.
fn coarseness(dtype: DType) -> f64 {
    let steps = float_step(dtype, 1.0).unwrap_or(if dtype == DType::F64 { 0.0 } else { 2f64.powi(-23) });
    dtype.quantisation_error().map_or(steps, |error| 1.0 + error)
}

/// Which of the two element types round: the coarser of two float types, and every block type.
fn rounding(a: Option<DType>, b: Option<DType>) -> [Option<DType>; 2] {
    let (Some(a), Some(b)) = (a, b) else { return [None; 2] };
    let coarser = |one: DType, other: DType| {
        one.is_quantised() || float_step(one, 1.0).is_some() && coarseness(one) > coarseness(other)
    };
    // F16 has more bits and BF16 more range: neither holds the other.
    let crossed = [a, b].contains(&DType::F16) && [a, b].contains(&DType::BF16);
    [(crossed || coarser(a, b)).then_some(a), (crossed || coarser(b, a)).then_some(b)]
}

impl Bound {
    /// Of two element types.
    fn of(a: Option<DType>, b: Option<DType>) -> Bound {
        let sides: Vec<DType> = rounding(a, b).into_iter().flatten().collect();
        if sides.is_empty() {
            return Bound::Equal;
        }
        let by_steps = |dtype: &DType| !dtype.is_quantised() || has_steps(*dtype);
        if sides.iter().all(by_steps) {
            return Bound::Step;
        }
        let error: f64 = sides.iter().map(|d| d.quantisation_error().unwrap_or_else(|| coarseness(*d))).sum();
        let block = sides.iter().filter(|d| d.is_quantised()).map(|d| d.block_values()).max().unwrap_or(1);
        let of_block = (BLOCK_SLACK * error).min(MOST_OF_BLOCK);
        Bound::Relative { whole: (SLACK * error).min(MOST), block: (of_block, block) }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Bound::Equal => "the same numbers".to_owned(),
            Bound::Step => "one step of the coarser type".to_owned(),
            Bound::Relative { whole, .. } => format!("a relative RMS of {whole:.3}"),
        }
    }
}

fn has_steps(dtype: DType) -> bool {
    matches!(dtype, DType::Q4_0 | DType::Q4_1 | DType::Q5_0 | DType::Q5_1 | DType::Q8_0)
}

/// One of the two sides.
pub(super) struct Side<'t, 's> {
    pub numbers: &'t Converted<'s>,
    /// The element type it is stored in, where it is stored in one.
    pub dtype: Option<DType>,
}

/// Measures how far two tensors of one shape are apart, on all cores of the pool it is called in; the same figures with
/// any number of threads. Calls `read` with the numbers of each side that were read.
pub(super) fn measure(
    a: &Side<'_, '_>,
    b: &Side<'_, '_>,
    kernel: &dyn Kernel,
    read: &(dyn Fn(usize) + Sync),
) -> Measured {
    let len = a.numbers.len().min(b.numbers.len());
    let piece = a.numbers.piece(Some(b.numbers));
    let bound = Bound::of(a.dtype, b.dtype);
    let pieces = len.div_ceil(piece);
    let one = |buffers: &mut [Vec<f32>; 2], which: usize| {
        let first = which.saturating_mul(piece);
        let some = piece.min(len.saturating_sub(first));
        let [x, y] = buffers;
        for (side, buffer) in [(a, &mut *x), (b, &mut *y)] {
            buffer.resize(some, 0.0);
            side.numbers.read(kernel, first, buffer);
        }
        read(some);
        let mut measured =
            Measured { distance: Distance::of(first as u64, x, y), bound, ..Measured::default() };
        if measured.distance.differing > 0 {
            match bound {
                Bound::Equal => {}
                Bound::Step => measured.steps(first, [(a, x), (b, y)]),
                Bound::Relative { block, .. } => measured.blocks(first, x, y, block, rounds(a, b)),
            }
        }
        measured
    };
    let all: Vec<Measured> = if pieces <= 1 {
        (0..pieces).map(|which| one(&mut Default::default(), which)).collect()
    } else {
        (0..pieces).into_par_iter().map_init(Default::default, one).collect()
    };
    let mut whole = Measured { bound, ..Measured::default() };
    for piece in &all {
        whole.distance.join(&piece.distance);
        whole.beyond = whole.beyond.saturating_add(piece.beyond);
        whole.first_beyond = whole.first_beyond.or(piece.first_beyond);
    }
    whole
}

/// Which sides round.
fn rounds(a: &Side<'_, '_>, b: &Side<'_, '_>) -> [bool; 2] {
    rounding(a.dtype, b.dtype).map(|dtype| dtype.is_some())
}

impl Measured {
    /// Counts the elements that are more than one step of each side that rounds apart.
    fn steps(&mut self, first: usize, sides: [(&Side<'_, '_>, &Vec<f32>); 2]) {
        let [(a, x), (b, y)] = sides;
        let rounds = rounds(a, b);
        let mut allowed = vec![0.0f64; x.len().min(y.len())];
        for ((side, values), rounds) in [(a, x), (b, y)].into_iter().zip(rounds) {
            let Some(dtype) = side.dtype.filter(|_| rounds) else { continue };
            if dtype.is_quantised() {
                let Some((_, raw)) = side.numbers.raw() else { continue };
                let (elements, bytes) = (dtype.block_values().max(1), dtype.block_bytes().max(1));
                let blocks = raw.chunks_exact(bytes).skip(first.checked_div(elements).unwrap_or(0));
                for (allowed, block) in allowed.chunks_mut(elements).zip(blocks) {
                    let step = block_step(dtype, block).unwrap_or(0.0);
                    allowed.iter_mut().for_each(|a| *a += step);
                }
            } else {
                let steps = values.iter().map(|v| float_step(dtype, *v).unwrap_or(0.0));
                allowed.iter_mut().zip(steps).for_each(|(a, step)| *a += step);
            }
        }
        for (i, ((x, y), allowed)) in x.iter().zip(y).zip(&allowed).enumerate() {
            let apart = (f64::from(*x) - f64::from(*y)).abs();
            // What is no number on either side is told by the distance.
            if apart.is_finite() && apart > *allowed {
                self.count(first.saturating_add(i));
            }
        }
    }

    /// Counts the blocks whose errors are more than a share of their numbers, as the side has them that does not round.
    fn blocks(&mut self, first: usize, x: &[f32], y: &[f32], block: (f64, usize), rounds: [bool; 2]) {
        let (share, elements) = block;
        let finer = if rounds[0] && !rounds[1] { y } else { x };
        let runs =
            x.chunks(elements.max(1)).zip(y.chunks(elements.max(1))).zip(finer.chunks(elements.max(1)));
        for (i, ((x, y), finer)) in runs.enumerate() {
            let square = |x: f64| x * x;
            let errors: f64 = x.iter().zip(y).map(|(x, y)| square(f64::from(*x) - f64::from(*y))).sum();
            let numbers: f64 = finer.iter().map(|x| square(f64::from(*x))).sum();
            if errors.is_finite() && errors > square(share) * numbers {
                self.count(first.saturating_add(i.saturating_mul(elements)));
            }
        }
    }

    fn count(&mut self, element: usize) {
        self.beyond = self.beyond.saturating_add(1);
        self.first_beyond.get_or_insert(element as u64);
    }

    /// Whether the element types account for all that the two are apart.
    pub fn within(&self) -> bool {
        let close = match self.bound {
            Bound::Equal => self.distance.differing == 0,
            Bound::Step => true,
            Bound::Relative { whole, .. } => self.distance.relative() <= whole,
        };
        close && self.beyond == 0 && !self.distance.not_finite_apart()
    }

    /// Whether the two are the same numbers, but for errors that are not far beyond what rounding accounts for.
    pub fn alike(&self) -> bool {
        let bound = match self.bound {
            Bound::Equal => return false,
            Bound::Step => 0.25,
            Bound::Relative { whole, .. } => (2.0 * whole).min(MOST),
        };
        self.distance.relative() <= bound && !self.distance.not_finite_apart()
    }

    /// What the two are, given whether anything had to be done to bring them into one form, and whether they are of one
    /// element type: then rounding would have changed all of it alike.
    pub(super) fn class(&self, transformed: bool, same_type: bool) -> Class {
        let damaged = same_type && self.is_patch();
        match () {
            () if self.distance.differing == 0 && transformed => Class::Transformed,
            () if self.distance.differing == 0 => Class::Equal,
            () if self.within() && !damaged => Class::Quantised,
            () if self.alike() && !damaged => Class::Beyond,
            () => Class::Different,
        }
    }

    /// Whether nearly all is the same and the rest lies together: no rounding does that, damage does.
    pub fn is_patch(&self) -> bool {
        let d = &self.distance;
        let span = d.span.map_or(0, |(first, last)| last.saturating_sub(first).saturating_add(1));
        d.differing > 0 && span.saturating_mul(20) <= d.count && d.count > 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarser_type_rounds_and_equal_ones_do_not() {
        use DType::{BF16, F16, F32, F64, Q4_0, Q4_K, Q8_0};
        let of = |a, b| rounding(Some(a), Some(b));
        assert_eq!(of(F32, BF16), [None, Some(BF16)]);
        assert_eq!(of(F16, BF16), [Some(F16), Some(BF16)]);
        assert_eq!(of(BF16, BF16), [None, None]);
        assert_eq!(of(F64, F32), [None, None]);
        assert_eq!(of(Q4_K, BF16), [Some(Q4_K), None]);
        assert_eq!(of(Q4_K, Q4_K), [Some(Q4_K), Some(Q4_K)]);
        assert_eq!(Bound::of(Some(F32), Some(Q8_0)), Bound::Step);
        assert_eq!(Bound::of(Some(BF16), Some(BF16)), Bound::Equal);
        let Bound::Relative { whole, block } = Bound::of(Some(Q4_0), Some(Q4_K)) else { panic!("by steps") };
        assert!((whole - 1.5 * (0.1146 + 0.087)).abs() < 1e-12 && block.1 == 256, "{whole} {block:?}");
    }
}
