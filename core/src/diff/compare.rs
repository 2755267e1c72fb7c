//! Two tensors in one form: how far they are apart, and whether their element types account for it.

use crate::convert::Converted;
use crate::distance::{Accumulate, Distance, RUN, Run};
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

/// A block that is off by as much as its own numbers may hold anything, or nothing at all.
const MOST_OF_BLOCK: f64 = 0.98;

/// How often the usual error a type with steps may have over all: a single element may be off by a step, not all of them.
pub(super) const STEP_SLACK: f64 = 3.0;

/// Numbers below this are nothing to a block: its scale is an f16.
const NOTHING: f64 = 1e-7;

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
    /// What they have of the sum of squared errors.
    pub squares_beyond: f64,
    /// The side that is rounded to a block type, where one alone is, and its [`DType::quantisation_factor`].
    pub rounded: Option<(usize, f64)>,
}

/// How far two tensors may be apart for their element types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Bound {
    /// Not at all: neither is coarser than the other.
    #[default]
    Equal,
    /// Each element by a step of each of the coarser types, and all together by a relative RMS of so much.
    Step {
        /// Of all.
        whole: f64,
    },
    /// The root mean square of the errors, as a share of that of the numbers; and so much of a block's.
    Relative {
        /// Of all.
        whole: f64,
        /// Of one block of so many elements.
        block: (f64, usize),
    },
}

/// How a side rounds numbers that the other side holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rounding {
    /// Not, or no more coarsely than the other side.
    None,
    /// Each by itself, to a float type.
    Float(DType),
    /// In blocks.
    Block(DType),
    /// In a packed scheme, with an error of this size.
    Packed(f64),
}

/// The relative error of a float type.
fn coarseness(dtype: DType) -> f64 {
    float_step(dtype, 1.0).unwrap_or(if dtype == DType::F64 { 0.0 } else { 2f64.powi(-23) })
}

/// Which of the two sides round: the coarser of two float types, and whatever is quantised.
fn rounding(a: &Side<'_, '_>, b: &Side<'_, '_>) -> [Rounding; 2] {
    // F16 has more bits and BF16 more range: neither holds the other.
    let types = [a.dtype, b.dtype];
    let crossed = types.contains(&Some(DType::F16)) && types.contains(&Some(DType::BF16));
    let of = |one: &Side<'_, '_>, other: &Side<'_, '_>| match (one.numbers.packed_error(), one.dtype) {
        (Some(error), _) => Rounding::Packed(error),
        (None, Some(dtype)) if dtype.is_quantised() => Rounding::Block(dtype),
        (None, Some(dtype)) if float_step(dtype, 1.0).is_some() => {
            let finer = |other: DType| !other.is_quantised() && coarseness(other) < coarseness(dtype);
            let coarser = crossed || other.numbers.packed_error().is_none() && other.dtype.is_some_and(finer);
            if coarser { Rounding::Float(dtype) } else { Rounding::None }
        }
        _ => Rounding::None,
    };
    [of(a, b), of(b, a)]
}

impl Rounding {
    /// Whether each element has a step of its own to be held against.
    fn by_steps(self) -> bool {
        match self {
            Rounding::None | Rounding::Float(_) => true,
            Rounding::Block(dtype) => has_steps(dtype),
            Rounding::Packed(_) => false,
        }
    }

    /// The error that is usual, as a share of the numbers.
    fn error(self) -> f64 {
        match self {
            Rounding::None => 0.0,
            Rounding::Float(dtype) => coarseness(dtype),
            Rounding::Block(dtype) => dtype.quantisation_error().unwrap_or_default(),
            Rounding::Packed(error) => error,
        }
    }

    /// Whether errors are so large that sums need few digits.
    fn is_coarse(self) -> bool {
        matches!(self, Rounding::Block(_) | Rounding::Packed(_))
    }

    fn block(self) -> usize {
        match self {
            Rounding::Block(dtype) => dtype.block_values(),
            _ => 1,
        }
    }
}

impl Bound {
    /// Of two sides that round so.
    fn of(sides: [Rounding; 2]) -> Bound {
        if sides == [Rounding::None; 2] {
            return Bound::Equal;
        }
        let error: f64 = sides.iter().map(|side| side.error()).sum();
        if sides.iter().all(|side| side.by_steps()) {
            return Bound::Step { whole: (STEP_SLACK * error).min(MOST) };
        }
        let block = sides.iter().map(|side| side.block()).max().filter(|block| *block > 1).unwrap_or(RUN);
        let of_block = (BLOCK_SLACK * error).min(MOST_OF_BLOCK);
        Bound::Relative { whole: (SLACK * error).min(MOST), block: (of_block, block) }
    }

    /// How many numbers are to have figures of their own: a block, so that it can be held against the bound.
    fn run(&self, sides: [Rounding; 2]) -> usize {
        match self {
            Bound::Equal => RUN,
            Bound::Relative { block: (_, elements), .. } => *elements,
            Bound::Step { .. } => {
                sides.iter().map(|side| side.block()).max().filter(|block| *block > 1).unwrap_or(RUN)
            }
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Bound::Equal => "the same numbers".to_owned(),
            Bound::Step { whole } => {
                format!("one step of the coarser type, and a relative RMS of {whole:.3}")
            }
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
    let rounds = rounding(a, b);
    let bound = Bound::of(rounds);
    let pieces = len.div_ceil(piece);
    let run = bound.run(rounds);
    let accumulate =
        if rounds.iter().any(|side| side.is_coarse()) { Accumulate::F32 } else { Accumulate::F64 };
    // Few enough at a time for the nearest caches, in grains of both sides.
    let step = a.numbers.near(b.numbers);
    let one = |buffers: &mut Buffers, which: usize| {
        let first = which.saturating_mul(piece);
        let end = first.saturating_add(piece).min(len);
        let mut measured = Measured { bound, ..Measured::default() };
        for first in (first..end).step_by(step.max(1)) {
            let some = step.min(end.saturating_sub(first));
            let Buffers { x, y, runs } = buffers;
            for (side, buffer) in [(a, &mut *x), (b, &mut *y)] {
                buffer.resize(some, 0.0);
                side.numbers.read(kernel, first, buffer);
            }
            runs.clear();
            let distance = kernel.distance(accumulate, first as u64, [x, y], run, runs);
            measured.distance.join(&distance);
            if distance.differing > 0 {
                match bound {
                    Bound::Equal => {}
                    Bound::Step { .. } => measured.steps(first, [(a, x), (b, y)], rounds, (run, runs)),
                    Bound::Relative { block, .. } => measured.blocks(first, block, rounds, runs),
                }
            }
        }
        read(end.saturating_sub(first));
        measured
    };
    let all: Vec<Measured> = if pieces <= 1 {
        (0..pieces).map(|which| one(&mut Buffers::default(), which)).collect()
    } else {
        (0..pieces).into_par_iter().map_init(Buffers::default, one).collect()
    };
    let rounded = match rounds {
        [Rounding::Block(dtype), Rounding::None | Rounding::Float(_)] => Some((0, dtype)),
        [Rounding::None | Rounding::Float(_), Rounding::Block(dtype)] => Some((1, dtype)),
        _ => None,
    };
    let rounded = rounded.and_then(|(side, dtype)| Some((side, dtype.quantisation_factor()?)));
    let mut whole = Measured { bound, rounded, ..Measured::default() };
    for piece in &all {
        whole.distance.join(&piece.distance);
        whole.beyond = whole.beyond.saturating_add(piece.beyond);
        whole.first_beyond = whole.first_beyond.or(piece.first_beyond);
        whole.squares_beyond += piece.squares_beyond;
    }
    whole
}

/// Some of the numbers, as far as there are so many.
fn of_run(values: &[f32], from: usize, run: usize) -> &[f32] {
    let to = from.saturating_add(run).min(values.len());
    values.get(from..to).unwrap_or_default()
}

/// Numbers of both sides, and the figures of each run of them.
#[derive(Default)]
struct Buffers {
    x: Vec<f32>,
    y: Vec<f32>,
    runs: Vec<Run>,
}

impl Measured {
    /// Counts the elements that are more than one step of each side that rounds apart.
    fn steps(
        &mut self,
        first: usize,
        sides: [(&Side<'_, '_>, &Vec<f32>); 2],
        rounds: [Rounding; 2],
        runs: (usize, &[Run]),
    ) {
        let [(a, x), (b, y)] = sides;
        let (run, figures) = runs;
        for (which, figures) in figures.iter().enumerate().filter(|(_, figures)| figures.largest > 0.0) {
            let from = which.saturating_mul(run);
            let one_rounds =
                matches!(rounds[0], Rounding::Block(_)) != matches!(rounds[1], Rounding::Block(_));
            let step = |side: &Side<'_, '_>, rounding: Rounding, numbers: &[f32]| {
                let Rounding::Block(dtype) = rounding else { return None };
                let block = first.saturating_add(from).checked_div(dtype.block_values())?;
                let from = block.saturating_mul(dtype.block_bytes());
                let (_, raw) = side.numbers.raw()?;
                let block = raw.get(from..from.saturating_add(dtype.block_bytes()))?;
                // Numbers that are rounded themselves do not tell what the block was made of.
                block_step(dtype, block, one_rounds.then_some(numbers))
            };
            let of_blocks = step(a, rounds[0], of_run(y, from, run)).unwrap_or(0.0)
                + step(b, rounds[1], of_run(x, from, run)).unwrap_or(0.0);
            if figures.largest <= of_blocks {
                continue;
            }
            for (i, (&x, &y)) in of_run(x, from, run).iter().zip(of_run(y, from, run)).enumerate() {
                let step = |rounding: Rounding, x: f32| match rounding {
                    Rounding::Float(dtype) => float_step(dtype, x).unwrap_or(0.0),
                    _ => 0.0,
                };
                let allowed = of_blocks + step(rounds[0], x) + step(rounds[1], y);
                let apart = (f64::from(x) - f64::from(y)).abs();
                // What is no number on either side is told by the distance.
                if apart.is_finite() && apart > allowed {
                    self.count(first.saturating_add(from).saturating_add(i), apart * apart);
                }
            }
        }
    }

    /// Counts the blocks whose errors are more than a share of their numbers, as the side has them that does not round.
    fn blocks(&mut self, first: usize, block: (f64, usize), rounds: [Rounding; 2], runs: &[Run]) {
        let (share, elements) = block;
        for (i, run) in runs.iter().enumerate() {
            let finer =
                if rounds[0] != Rounding::None && rounds[1] == Rounding::None { run.b } else { run.a };
            let nothing = NOTHING * NOTHING * elements as f64;
            // What is all zeros on one side and not on the other was written over.
            let emptied = (run.a == 0.0) != (run.b == 0.0);
            if run.squares > nothing && (run.squares > share * share * finer || emptied) {
                self.count(first.saturating_add(i.saturating_mul(elements)), run.squares);
            }
        }
    }

    fn count(&mut self, element: usize, squares: f64) {
        self.squares_beyond += squares;
        self.beyond = self.beyond.saturating_add(1);
        self.first_beyond.get_or_insert(element as u64);
    }

    /// The relative RMS that is allowed, of all.
    fn whole(&self) -> f64 {
        match self.bound {
            Bound::Equal => 0.0,
            Bound::Step { whole } | Bound::Relative { whole, .. } => whole,
        }
    }

    /// Whether the element types account for all that the two are apart.
    pub fn within(&self) -> bool {
        // Squares of tiny numbers are zero, so that what differs may have a relative error of 0.
        let close =
            self.bound != Bound::Equal && self.distance.relative() <= self.whole() && !self.is_scaled();
        (self.distance.differing == 0 || close) && self.beyond == 0 && !self.distance.not_finite_apart()
    }

    /// Whether all of it is the other's times a number that rounding does not explain: what types usually do is known of
    /// one that rounds alone, and others make numbers smaller by the square of their error at most.
    pub fn is_scaled(&self) -> bool {
        let error = match self.bound {
            Bound::Equal => 0.0,
            Bound::Step { whole } => whole / STEP_SLACK,
            Bound::Relative { whole, .. } => whole / SLACK,
        };
        let by_chance = 4.0 * error / (self.distance.count.max(1) as f64).sqrt() + 0.01;
        if let Some((side, usual)) = self.rounded {
            // What a quantiser leaves to be made up for is known, and is not more for being a coarse one.
            let factor = self.distance.nearest_factor(side);
            let most = (2.0 * error * error).min(0.04) + by_chance;
            return factor < 1.0 - SLACK * (1.0 - usual).max(0.0) - most
                || factor > 1.0 + SLACK * (usual - 1.0).max(0.0) + most;
        }
        let (factor, _) = self.distance.as_factor();
        (factor - 1.0).abs() > 2.0 * error * error + by_chance
    }

    /// Whether the element types account for what is left without the elements or blocks that are beyond them, which are
    /// few of so many.
    pub fn within_but_for_a_few(&self, of: u64) -> bool {
        let rest = (self.distance.squares - self.squares_beyond).max(0.0);
        // A block of a small tensor is much of it.
        let few = (of / 20).max(4.min(of / 4));
        self.beyond > 0 && self.beyond <= few && (rest / self.distance.a).sqrt() <= self.whole()
    }

    /// Whether the two are the same numbers, but for errors that are not far beyond what rounding accounts for.
    pub fn alike(&self) -> bool {
        let bound = (2.0 * self.whole()).min(MOST);
        self.bound != Bound::Equal && self.distance.relative() <= bound && !self.distance.not_finite_apart()
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
    fn bounds_follow_from_what_rounds() {
        use Rounding::{Block, Float, None, Packed};
        assert_eq!(Bound::of([None, None]), Bound::Equal);
        assert_eq!(Bound::of([None, Float(DType::BF16)]), Bound::Step { whole: 3.0 / 128.0 });
        assert_eq!(Bound::of([None, Block(DType::Q8_0)]), Bound::Step { whole: 3.0 * 0.0069 });
        let Bound::Relative { whole, block } = Bound::of([Block(DType::Q4_0), Block(DType::Q4_K)]) else {
            panic!("Q4_K has no steps")
        };
        assert!((whole - 1.5 * (0.1146 + 0.087)).abs() < 1e-12 && block.1 == 256, "{whole} {block:?}");
        let Bound::Relative { whole, block } = Bound::of([None, Packed(0.1)]) else { panic!("packed") };
        assert!((whole - 0.15).abs() < 1e-12 && block.1 == RUN, "{whole} {block:?}");
        let Bound::Relative { whole, .. } = Bound::of([None, Block(DType::TQ1_0)]) else { panic!("TQ1_0") };
        assert_eq!(whole, 0.95);
    }
}
