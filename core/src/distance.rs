//! How far two runs of numbers are apart, in one pass over both: what [`Kernel::distance`] means.
//!
//! [`Kernel::distance`]: crate::kernel::Kernel::distance

use std::ops::AddAssign;

/// Numbers that are looked at as one, where nothing else is asked for.
pub const RUN: usize = 512;

/// What was found of so many numbers that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Σ(b - a)².
    pub squares: f64,
    /// Σa².
    pub a: f64,
    /// Σb².
    pub b: f64,
    /// The largest |b - a|.
    pub largest: f64,
}

/// How far two runs of numbers `a` and `b` are apart. Pairs in which one is no number are counted and left out of the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Pairs.
    pub count: u64,
    /// Pairs whose values differ; NaN equals NaN here.
    pub differing: u64,
    /// The first of them, and the last.
    pub span: Option<(u64, u64)>,
    /// The pair farthest apart.
    pub worst: Option<Worst>,
    /// Of each side the values that are NaN or infinite.
    pub not_finite: [u64; 2],
    /// Pairs of which one is no number, which the sums leave out.
    pub skipped: u64,
    /// The first value that is NaN or infinite on one side alone.
    pub first_not_finite: Option<u64>,
    /// Σ(b - a).
    pub sum: f64,
    /// Σ(b - a)².
    pub squares: f64,
    /// Σa².
    pub a: f64,
    /// Σb².
    pub b: f64,
    /// Σab.
    pub products: f64,
}

/// In what the sums of a run are taken. Differences are those of f32 in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// f64, in eight lanes: the squares of f32 are exact in it, so that it does not matter whether they are fused.
    F64,
    /// f32, in sixteen lanes: enough where one side is quantised, and a run is short. A run whose squares f32 does not
    /// hold is summed in f64.
    F32,
}

/// Squares below this may have lost digits in f32, or all of them.
const TINY: f64 = 1.0 / (1u128 << 80) as f64;

/// Sums over pairs of `a` and `b`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ(b - a).
    pub sum: f64,
    /// Σ(b - a)².
    pub squares: f64,
    /// Σa².
    pub a: f64,
    /// Σb².
    pub b: f64,
    /// Σab.
    pub products: f64,
    /// The largest |b - a|.
    pub largest: f32,
    /// Pairs whose numbers differ.
    pub differing: u64,
}

/// How the pairs of a run are summed: as [`Plainly`] does it, to the bit, as long as all are finite.
pub trait Summing: Copy {
    /// In f64. Both are equally long; pair i goes to lane i mod 8, and lanes are [`folded`].
    fn wide(self, a: &[f32], b: &[f32]) -> Sums;
    /// In f32. Pair i goes to lane i mod 16, products are rounded before they are added, and lanes are [`folded`].
    fn narrow(self, a: &[f32], b: &[f32]) -> Sums;
}

/// The definition of these sums.
#[derive(Clone, Copy, Debug)]
pub struct Plainly;

impl Summing for Plainly {
    fn wide(self, a: &[f32], b: &[f32]) -> Sums {
        let mut lanes = [[0.0f64; 8]; 5];
        let mut sums = Sums::default();
        for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
            let apart = sums.meet(a, b);
            let (wide, a, b) = (f64::from(apart), f64::from(a), f64::from(b));
            for (lanes, x) in lanes.iter_mut().zip([wide, wide * wide, a * a, b * b, a * b]) {
                lanes[i % 8] += x;
            }
        }
        sums.with(lanes.map(folded))
    }

    fn narrow(self, a: &[f32], b: &[f32]) -> Sums {
        let mut lanes = [[0.0f32; 16]; 5];
        let mut sums = Sums::default();
        for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
            let apart = sums.meet(a, b);
            for (lanes, x) in lanes.iter_mut().zip([apart, apart * apart, a * a, b * b, a * b]) {
                lanes[i % 16] += x;
            }
        }
        sums.with(lanes.map(|lanes| f64::from(folded(lanes))))
    }
}

impl Sums {
    /// Looks how far a pair is apart.
    #[inline(always)]
    pub fn meet(&mut self, a: f32, b: f32) -> f32 {
        let apart = b - a;
        self.differing += u64::from(apart != 0.0);
        self.largest = if apart.abs() > self.largest { apart.abs() } else { self.largest };
        apart
    }

    /// With these sums.
    #[inline(always)]
    pub fn with(self, [sum, squares, a, b, products]: [f64; 5]) -> Sums {
        Sums { sum, squares, a, b, products, ..self }
    }

    /// Whether f32 held the squares, with their digits.
    fn fit_f32(&self) -> bool {
        let fits = |sum: f64| (TINY..f64::INFINITY).contains(&sum);
        fits(self.a) && fits(self.b) && (self.differing == 0 || fits(self.squares))
    }
}

/// The sum of lanes, of which there are sixteen at most, a power of two: of halves, of quarters, …
#[inline(always)]
pub fn folded<T: Copy + AddAssign, const N: usize>(mut lanes: [T; N]) -> T {
    for half in [8, 4, 2, 1] {
        if half < N {
            for i in 0..half {
                let upper = lanes[i + half];
                lanes[i] += upper;
            }
        }
    }
    lanes[0]
}

/// The run that has the pair farthest apart.
#[derive(Default)]
struct Farthest {
    start: usize,
    largest: f32,
}

impl Farthest {
    #[inline(always)]
    fn consider(&mut self, start: usize, largest: f32) {
        if largest > self.largest {
            (self.start, self.largest) = (start, largest);
        }
    }
}

/// Two values and where they stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Which.
    pub index: u64,
    /// One.
    pub a: f64,
    /// The other.
    pub b: f64,
    /// How far they are apart.
    pub error: f64,
}

impl Worst {
    fn of(index: u64, a: f32, b: f32) -> Worst {
        let (a, b) = (f64::from(a), f64::from(b));
        Worst { index, a, b, error: (b - a).abs() }
    }
}

impl Distance {
    /// Of two runs that are equally long, the first of which has this index; `runs` is given the figures of each `run`
    /// numbers. The order of every sum is the same whoever sums.
    #[inline(always)]
    pub fn of(
        summing: impl Summing,
        accumulate: Accumulate,
        first: u64,
        [a, b]: [&[f32]; 2],
        run: usize,
        runs: &mut Vec<Run>,
    ) -> Distance {
        let mut distance = Distance { count: a.len().min(b.len()) as u64, ..Distance::default() };
        let run = run.max(1);
        let mut worst = Farthest::default();
        for (i, (a, b)) in a.chunks(run).zip(b.chunks(run)).enumerate() {
            let both = a.len().min(b.len());
            let (a, b) = (&a[..both], &b[..both]);
            let narrow = accumulate == Accumulate::F32;
            let mut sums = if narrow { summing.narrow(a, b) } else { Sums::default() };
            if !(narrow && sums.fit_f32()) {
                sums = summing.wide(a, b);
            }
            let start = i.saturating_mul(run);
            let at = first.saturating_add(start as u64);
            if [sums.squares, sums.a, sums.b].iter().all(|sum| sum.is_finite()) {
                runs.push(distance.run(at, a, b, &sums));
                worst.consider(start, sums.largest);
            } else {
                runs.push(distance.carefully(at, a, b));
            }
        }
        if worst.largest > 0.0 {
            distance.find(first, [a, b], &worst, run);
        }
        distance
    }

    /// The two together, `other` being that of what follows.
    pub fn join(&mut self, other: &Distance) {
        self.count = self.count.saturating_add(other.count);
        self.differing = self.differing.saturating_add(other.differing);
        self.span = match (self.span, other.span) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (one, None) => one,
            (None, other) => other,
        };
        if let Some(worst) = other.worst {
            self.consider(worst);
        }
        for (own, more) in self.not_finite.iter_mut().zip(other.not_finite) {
            *own = own.saturating_add(more);
        }
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.first_not_finite = self.first_not_finite.or(other.first_not_finite);
        self.sum += other.sum;
        self.squares += other.squares;
        self.a += other.a;
        self.b += other.b;
        self.products += other.products;
    }

    fn consider(&mut self, worst: Worst) {
        if worst.error > self.worst.map_or(0.0, |w| w.error) {
            self.worst = Some(worst);
        }
    }

    #[inline(always)]
    fn run(&mut self, first: u64, a: &[f32], b: &[f32], sums: &Sums) -> Run {
        self.sum += sums.sum;
        self.squares += sums.squares;
        self.a += sums.a;
        self.b += sums.b;
        self.products += sums.products;
        if sums.differing > 0 {
            self.differing = self.differing.saturating_add(sums.differing);
            let differ = |(a, b): (&f32, &f32)| a != b;
            let at = |place: Option<usize>| first.saturating_add(place.unwrap_or(0) as u64);
            let to = at(a.iter().zip(b).rposition(differ));
            let from = self.span.map_or_else(|| at(a.iter().zip(b).position(differ)), |(from, _)| from);
            self.extend(from, to);
        }
        Run { squares: sums.squares, a: sums.a, b: sums.b, largest: f64::from(sums.largest) }
    }

    /// Looks for the pair that is farthest apart, once it is known in which run it is: sixteen at a time, since there is
    /// one among many.
    #[inline(always)]
    fn find(&mut self, first: u64, [a, b]: [&[f32]; 2], worst: &Farthest, run: usize) {
        let end = worst.start.saturating_add(run).min(a.len()).min(b.len());
        let (a, b) = (&a[worst.start..end], &b[worst.start..end]);
        let far = |a: f32, b: f32| (b - a).abs() >= worst.largest;
        for (i, (some, others)) in a.chunks(16).zip(b.chunks(16)).enumerate() {
            let mut among = false;
            for (a, b) in some.iter().zip(others) {
                among |= far(*a, *b);
            }
            if among {
                let at = some.iter().zip(others).position(|(a, b)| far(*a, *b)).unwrap_or(0);
                let index = first.saturating_add((worst.start + 16 * i + at) as u64);
                return self.consider(Worst::of(index, some[at], others[at]));
            }
        }
    }

    /// The same where some are no numbers.
    #[inline(never)]
    fn carefully(&mut self, first: u64, a: &[f32], b: &[f32]) -> Run {
        let mut run = Run::default();
        for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
            let index = first.saturating_add(i as u64);
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            let apart = wide_b - wide_a;
            if self.met(index, a == b || a.is_nan() && b.is_nan(), [wide_a, wide_b]) {
                self.sum += apart;
                run.squares += apart * apart;
                run.a += wide_a * wide_a;
                run.b += wide_b * wide_b;
                self.products += wide_a * wide_b;
                run.largest = run.largest.max(apart.abs());
                self.consider(Worst::of(index, a, b));
            }
        }
        self.squares += run.squares;
        self.a += run.a;
        self.b += run.b;
        run
    }

    /// Adds a pair of any numbers, and how far they are apart.
    pub fn add(&mut self, index: u64, same: bool, [a, b]: [f64; 2], apart: f64) {
        if self.met(index, same, [a, b]) {
            self.sum += apart;
            self.squares += apart * apart;
            self.a += a * a;
            self.b += b * b;
            self.products += a * b;
            self.consider(Worst { index, a, b, error: apart.abs() });
        }
    }

    /// Counts a pair in; whether it goes into the sums.
    fn met(&mut self, index: u64, same: bool, pair: [f64; 2]) -> bool {
        if !same {
            self.differing = self.differing.saturating_add(1);
            self.extend(index, index);
        }
        let finite = pair.map(f64::is_finite);
        for (count, finite) in self.not_finite.iter_mut().zip(finite) {
            *count = count.saturating_add(u64::from(!finite));
        }
        if finite[0] != finite[1] || !finite[0] && !same {
            self.first_not_finite.get_or_insert(index);
        }
        let counts = finite == [true, true];
        self.skipped = self.skipped.saturating_add(u64::from(!counts));
        counts
    }

    fn extend(&mut self, from: u64, to: u64) {
        self.span = Some((self.span.map_or(from, |(first, _)| first), to));
    }

    /// Pairs that went into the sums.
    fn summed(&self) -> u64 {
        self.count.saturating_sub(self.skipped)
    }

    /// Whether there are pairs, and none of two numbers.
    fn says_nothing(&self) -> bool {
        self.count > 0 && self.summed() == 0
    }

    /// The root of the mean square of the errors; like all figures NaN where no pair is one of two numbers.
    pub fn rms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.summed() as f64).sqrt() }
    }

    /// The same as a share of the root mean square of `a`; infinite where only `b` is not zero.
    pub fn relative(&self) -> f64 {
        match self.squares == 0.0 {
            true if self.says_nothing() => f64::NAN,
            true => 0.0,
            false => (self.squares / self.a).sqrt(),
        }
    }

    /// The cosine of the angle between the two; 1 where both are zero, 0 where one is.
    pub fn cosine(&self) -> f64 {
        match (self.a == 0.0, self.b == 0.0) {
            (true, true) if self.says_nothing() => f64::NAN,
            (true, true) => 1.0,
            // Rounding may make it a little more than 1.
            (false, false) => (self.products / (self.a.sqrt() * self.b.sqrt())).clamp(-1.0, 1.0),
            _ => 0.0,
        }
    }

    /// The largest error.
    pub fn max(&self) -> f64 {
        self.worst.map_or(if self.says_nothing() { f64::NAN } else { 0.0 }, |w| w.error)
    }

    /// The number that `a` is best multiplied by to be `b`, and what is left of the error then, as a share of `b`.
    pub fn as_factor(&self) -> (f64, f64) {
        let factor = self.products / self.a;
        let left = (self.b - factor * self.products).max(0.0);
        (factor, (left / self.b).sqrt())
    }

    /// The number that the values of a side are best multiplied by to be those of the other.
    pub fn nearest_factor(&self, side: usize) -> f64 {
        self.products / if side == 0 { self.a } else { self.b }
    }

    /// The number that is best added to `a` to be `b`, and what is left of the error then, as a share of that number.
    pub fn as_offset(&self) -> (f64, f64) {
        let n = self.summed().max(1) as f64;
        let offset = self.sum / n;
        let left = (self.squares / n - offset * offset).max(0.0);
        (offset, left.sqrt() / offset.abs())
    }

    /// Whether one side has a NaN or an infinity where the other has not the same.
    pub fn not_finite_apart(&self) -> bool {
        self.first_not_finite.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(first: u64, a: &[f32], b: &[f32]) -> Distance {
        Distance::of(Plainly, Accumulate::F64, first, [a, b], RUN, &mut Vec::new())
    }

    #[test]
    fn figures_are_those_worked_out_by_hand() {
        let a = [3.0, 4.0, 0.0, 1.0];
        let b = [3.0, 4.0, 2.0, -1.0];
        let d = of(10, &a, &b);
        assert_eq!((d.count, d.differing, d.span), (4, 2, Some((12, 13))));
        assert_eq!((d.sum, d.squares, d.a, d.b, d.products), (0.0, 8.0, 26.0, 30.0, 24.0));
        assert_eq!(d.worst, Some(Worst { index: 12, a: 0.0, b: 2.0, error: 2.0 }));
        assert_eq!(d.rms(), 2f64.sqrt());
        assert_eq!(d.relative(), (8.0f64 / 26.0).sqrt());
        assert!((d.cosine() - 24.0 / (26.0f64 * 30.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn runs_have_figures_of_their_own() {
        let mut runs = Vec::new();
        Distance::of(Plainly, Accumulate::F64, 0, [&[1.0, 2.0, 3.0], &[1.0, 4.0, f32::NAN]], 2, &mut runs);
        assert_eq!(runs, [Run { squares: 4.0, a: 5.0, b: 17.0, largest: 2.0 }, Run::default()]);
    }

    #[test]
    fn what_is_no_number_is_counted_and_left_out() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let d = of(0, &[nan, 1.0, inf, 2.0], &[nan, nan, inf, 3.0]);
        assert_eq!((d.not_finite, d.first_not_finite, d.differing), ([2, 3], Some(1), 2));
        assert_eq!((d.a, d.squares, d.worst.map(|w| w.index)), (4.0, 1.0, Some(3)));
        let nothing = of(0, &[1.0, 2.0], &[nan, nan]);
        assert!(nothing.rms().is_nan() && nothing.cosine().is_nan() && nothing.relative().is_nan());
        let same = of(0, &[nan, inf], &[nan, inf]);
        assert!(same.differing == 0 && !same.not_finite_apart());
        assert!(of(0, &[inf], &[-inf]).not_finite_apart());
    }

    #[test]
    fn sums_of_f32_are_near_those_of_f64_and_give_way_where_squares_do_not_fit() {
        let a: Vec<f32> = (0..500u16).map(|i| f32::from(i * 7 % 101) - 50.0).collect();
        let b: Vec<f32> = a.iter().map(|x| x * 1.03 + 0.1).collect();
        let both = |by: f32| {
            let (a, b): (Vec<f32>, Vec<f32>) = a.iter().zip(&b).map(|(a, b)| (a * by, b * by)).unzip();
            [Accumulate::F64, Accumulate::F32]
                .map(|how| Distance::of(Plainly, how, 0, [&a, &b], 64, &mut Vec::new()))
        };
        let [wide, narrow] = both(1.0);
        assert_ne!(wide.squares, narrow.squares);
        for (wide, narrow) in [(wide.squares, narrow.squares), (wide.a, narrow.a), (wide.b, narrow.b)] {
            assert!((wide - narrow).abs() < 1e-6 * wide, "{wide} {narrow}");
        }
        for by in [1e-30, 1e30] {
            let [wide, narrow] = both(by);
            assert_eq!(wide, narrow);
            assert!(wide.squares > 0.0 && wide.squares.is_finite());
        }
    }

    #[test]
    fn numbers_of_very_different_sizes_have_a_direction() {
        let a: Vec<f32> = (0..600u16).map(|i| f32::from(i * 7 % 101) - 50.0).collect();
        for by in [1e-8f32, 1e-5, 1e8] {
            let b: Vec<f32> = a.iter().map(|x| x * by).collect();
            for accumulate in [Accumulate::F64, Accumulate::F32] {
                let d = Distance::of(Plainly, accumulate, 0, [&a, &b], 64, &mut Vec::new());
                let (factor, left) = d.as_factor();
                assert!((d.cosine() - 1.0).abs() < 1e-6 && d.cosine() <= 1.0, "{by}: {}", d.cosine());
                assert!((factor / f64::from(by) - 1.0).abs() < 1e-6 && left < 2e-3, "{by}: {factor} {left}");
            }
        }
    }

    #[test]
    fn pieces_join_to_the_whole_and_long_runs_keep_their_places() {
        let a: Vec<f32> = (0..5000u16).map(|i| f32::from(i % 97) - 40.0).collect();
        let mut b = a.clone();
        b[700] = 1e3;
        b[4999] += 1.0;
        let whole = of(0, &a, &b);
        assert_eq!(
            (whole.differing, whole.span, whole.worst.map(|w| w.index)),
            (2, Some((700, 4999)), Some(700))
        );
        let mut joined = of(0, &a[..1024], &b[..1024]);
        joined.join(&of(1024, &a[1024..], &b[1024..]));
        assert_eq!((joined.span, joined.count, joined.squares), (whole.span, 5000, whole.squares));
        let scaled: Vec<f32> = a.iter().map(|x| x * 1.5).collect();
        let (factor, left) = of(0, &a, &scaled).as_factor();
        assert!((factor - 1.5).abs() < 1e-12 && left < 1e-6, "{factor} {left}");
        let moved: Vec<f32> = a.iter().map(|x| x - 1.0).collect();
        assert_eq!(of(0, &a, &moved).as_offset(), (-1.0, 0.0));
    }
}
