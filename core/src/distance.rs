//! How far two runs of numbers are apart, in one pass over both: what [`Kernel::distance`] means.
//!
//! [`Kernel::distance`]: crate::kernel::Kernel::distance

/// Numbers that are summed side by side, so that the order of every sum is fixed and can be kept by vectors.
const LANES: usize = 8;

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
}

/// What is summed side by side.
#[derive(Default)]
struct Sums {
    sum: [f64; LANES],
    squares: [f64; LANES],
    a: [f64; LANES],
    b: [f64; LANES],
    largest: [f64; LANES],
    differing: [u32; LANES],
}

impl Sums {
    /// One pair to a lane. Loops over whole lanes, one for each sum, are what compilers make vectors of.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "a lane is a place in all of the arrays")]
    fn add(&mut self, a: &[f32; LANES], b: &[f32; LANES]) {
        let wide = |x: &[f32; LANES]| x.map(f64::from);
        let (x, y) = (wide(a), wide(b));
        let apart: [f64; LANES] = std::array::from_fn(|i| y[i] - x[i]);
        for i in 0..LANES {
            self.sum[i] += apart[i];
        }
        for i in 0..LANES {
            self.squares[i] += apart[i] * apart[i];
        }
        for i in 0..LANES {
            self.a[i] += x[i] * x[i];
        }
        for i in 0..LANES {
            self.b[i] += y[i] * y[i];
        }
        for i in 0..LANES {
            let size = apart[i].abs();
            self.largest[i] = if size > self.largest[i] { size } else { self.largest[i] };
        }
        for i in 0..LANES {
            self.differing[i] += u32::from(a[i] != b[i]);
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
    /// numbers. The order of every sum is the same wherever this is compiled.
    #[inline(always)]
    pub fn of(first: u64, a: &[f32], b: &[f32], run: usize, runs: &mut Vec<Run>) -> Distance {
        let mut distance = Distance { count: a.len().min(b.len()) as u64, ..Distance::default() };
        let mut at = first;
        for (a, b) in a.chunks(run.max(1)).zip(b.chunks(run.max(1))) {
            runs.push(distance.run(at, a, b));
            at = at.saturating_add(run as u64);
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
    }

    fn consider(&mut self, worst: Worst) {
        if worst.error > self.worst.map_or(0.0, |w| w.error) {
            self.worst = Some(worst);
        }
    }

    #[inline(always)]
    fn run(&mut self, first: u64, a: &[f32], b: &[f32]) -> Run {
        let mut sums = Sums::default();
        let (whole_a, rest_a) = a.as_chunks::<LANES>();
        let (whole_b, rest_b) = b.as_chunks::<LANES>();
        for (a, b) in whole_a.iter().zip(whole_b) {
            sums.add(a, b);
        }
        // Pairs of zeros at the end add nothing to any of them.
        let mut last = [[0.0f32; LANES]; 2];
        for (last, rest) in last.iter_mut().zip([rest_a, rest_b]) {
            last.iter_mut().zip(rest).for_each(|(last, x)| *last = *x);
        }
        sums.add(&last[0], &last[1]);
        let total = |lanes: &[f64; LANES]| lanes.iter().sum::<f64>();
        let run = Run {
            squares: total(&sums.squares),
            a: total(&sums.a),
            b: total(&sums.b),
            largest: sums.largest.iter().fold(0.0, |most: f64, x| if *x > most { *x } else { most }),
        };
        if !(run.squares.is_finite() && run.a.is_finite() && run.b.is_finite()) {
            return self.carefully(first, a, b);
        }
        let differing = sums.differing.iter().map(|n| u64::from(*n)).sum::<u64>();
        self.sum += total(&sums.sum);
        self.squares += run.squares;
        self.a += run.a;
        self.b += run.b;
        if differing == 0 {
            return run;
        }
        self.places(first, a, b, differing, run.largest);
        run
    }

    /// Where it is that some differ, looked for one by one.
    #[inline(never)]
    fn places(&mut self, first: u64, a: &[f32], b: &[f32], differing: u64, largest: f64) {
        self.differing = self.differing.saturating_add(differing);
        let differ = |(a, b): (&f32, &f32)| a != b;
        let from = a.iter().zip(b).position(differ).unwrap_or(0) as u64;
        let to = a.iter().zip(b).rposition(differ).unwrap_or(0) as u64;
        self.extend(first.saturating_add(from), first.saturating_add(to));
        if largest > self.worst.map_or(0.0, |w| w.error) {
            let pairs = a.iter().zip(b).enumerate();
            let found = pairs.map(|(i, (a, b))| Worst::of(first.saturating_add(i as u64), *a, *b));
            found.filter(|w| w.error >= largest).take(1).for_each(|w| self.consider(w));
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

    /// Σab, which follows from the other sums.
    pub fn products(&self) -> f64 {
        (self.a + self.b - self.squares) / 2.0
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
            (false, false) => self.products() / (self.a.sqrt() * self.b.sqrt()),
            _ => 0.0,
        }
    }

    /// The largest error.
    pub fn max(&self) -> f64 {
        self.worst.map_or(if self.says_nothing() { f64::NAN } else { 0.0 }, |w| w.error)
    }

    /// The number that `a` is best multiplied by to be `b`, and what is left of the error then, as a share of `b`.
    pub fn as_factor(&self) -> (f64, f64) {
        let factor = self.products() / self.a;
        let left = (self.b - factor * self.products()).max(0.0);
        (factor, (left / self.b).sqrt())
    }

    /// The number that the values of a side are best multiplied by to be those of the other.
    pub fn nearest_factor(&self, side: usize) -> f64 {
        self.products() / if side == 0 { self.a } else { self.b }
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
        Distance::of(first, a, b, RUN, &mut Vec::new())
    }

    #[test]
    fn figures_are_those_worked_out_by_hand() {
        let a = [3.0, 4.0, 0.0, 1.0];
        let b = [3.0, 4.0, 2.0, -1.0];
        let d = of(10, &a, &b);
        assert_eq!((d.count, d.differing, d.span), (4, 2, Some((12, 13))));
        assert_eq!((d.sum, d.squares, d.a, d.b, d.products()), (0.0, 8.0, 26.0, 30.0, 24.0));
        assert_eq!(d.worst, Some(Worst { index: 12, a: 0.0, b: 2.0, error: 2.0 }));
        assert_eq!(d.rms(), 2f64.sqrt());
        assert_eq!(d.relative(), (8.0f64 / 26.0).sqrt());
        assert!((d.cosine() - 24.0 / (26.0f64 * 30.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn runs_have_figures_of_their_own() {
        let mut runs = Vec::new();
        Distance::of(0, &[1.0, 2.0, 3.0], &[1.0, 4.0, f32::NAN], 2, &mut runs);
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
