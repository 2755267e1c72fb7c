//! What is known of the numbers of a tensor, and how what is known of pieces is joined.

/// Exponents whose squares leave room for many numbers and for all their digits.
const SQUARED_SAFELY: i32 = 440;

/// What is known of the numbers of a tensor, or of a piece of it. All but the counts is of the finite ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// All numbers; a complex one is two.
    pub count: u64,
    /// NaN.
    pub nan: u64,
    /// Infinities of either sign.
    pub infinite: u64,
    /// Index of the first NaN.
    pub first_nan: Option<u64>,
    /// Index of the first infinity.
    pub first_infinite: Option<u64>,
    /// Zeros of either sign.
    pub zeros: u64,
    /// Numbers, not zero, that are smaller than the smallest normal one of the type they are stored in (of f32 for block
    /// types).
    pub subnormals: u64,
    /// The smallest; infinite if there is none.
    pub min: f64,
    /// The largest; infinite if there is none.
    pub max: f64,
    /// Their mean; 0 if there is none.
    pub mean: f64,
    /// Sum of the squares of their distances from the mean, in units of 4 to the power of `scale`.
    pub spread: f64,
    /// 0, but for f64 whose squares f64 does not hold: the power of two that is taken out before they are squared.
    pub(super) scale: i32,
    /// The most zeros that a run of the pass had: where there are few everywhere, no row is nothing but zeros.
    pub(super) crowd: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            count: 0,
            nan: 0,
            infinite: 0,
            first_nan: None,
            first_infinite: None,
            zeros: 0,
            subnormals: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            spread: 0.0,
            scale: 0,
            crowd: 0,
        }
    }
}

impl Tally {
    /// How many numbers are finite.
    pub fn finite(&self) -> u64 {
        self.count.saturating_sub(self.nan.saturating_add(self.infinite))
    }

    /// Standard deviation of the finite numbers, as of a whole population; `None` if there are none.
    pub fn std(&self) -> Option<f64> {
        (self.finite() > 0).then(|| self.unscaled((self.spread / self.finite() as f64).sqrt()))
    }

    /// Root of the mean square; `None` without finite numbers.
    pub fn rms(&self) -> Option<f64> {
        let mean = self.mean * 2f64.powi(-self.scale);
        let mean_square = || mean * mean + self.spread / self.finite() as f64;
        (self.finite() > 0).then(|| self.unscaled(mean_square().sqrt()))
    }

    /// With the power of two again. No figure is larger than the largest number, but rounding may make it so.
    fn unscaled(&self, x: f64) -> f64 {
        (x * 2f64.powi(self.scale)).min(f64::MAX)
    }

    /// The power of two to take out of these numbers, where they are so large or so small that their squares are not
    /// numbers of f64, or not to all digits.
    pub(super) fn needs_scale(&self) -> Option<i32> {
        let largest = self.abs_max().filter(|x| *x > 0.0)?;
        // Of subnormals the exponent is that of the smallest normal number, which is near enough.
        let exponent = ((largest.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        // Beyond that the power itself would not be one.
        (exponent.abs() > SQUARED_SAFELY).then(|| exponent.clamp(-1000, 1000))
    }

    /// These numbers, with the mean and the spread of the same without that power of two.
    pub(super) fn with_sums_of(self, scaled: &Tally, scale: i32) -> Tally {
        let both = Tally { mean: scaled.mean * 2f64.powi(scale), spread: scaled.spread, scale, ..self };
        both.settled()
    }

    /// The largest magnitude; `None` without finite numbers.
    pub fn abs_max(&self) -> Option<f64> {
        (self.finite() > 0).then(|| self.min.abs().max(self.max.abs()))
    }

    /// The largest magnitude as a multiple of the root mean square; `None` where all numbers are zero.
    pub fn peak(&self) -> Option<f64> {
        Some(self.abs_max()? / self.rms().filter(|rms| *rms > 0.0)?)
    }

    /// Whether all numbers are finite and the same.
    pub fn is_constant(&self) -> bool {
        self.count > 0 && self.finite() == self.count && self.min == self.max
    }

    /// The tally of these numbers and those that follow them.
    pub fn join(&self, next: &Tally) -> Tally {
        let behind = |first: Option<u64>| first.map(|at| at.saturating_add(self.count));
        let mut both = Tally {
            count: self.count.saturating_add(next.count),
            nan: self.nan.saturating_add(next.nan),
            infinite: self.infinite.saturating_add(next.infinite),
            first_nan: self.first_nan.or_else(|| behind(next.first_nan)),
            first_infinite: self.first_infinite.or_else(|| behind(next.first_infinite)),
            zeros: self.zeros.saturating_add(next.zeros),
            subnormals: self.subnormals.saturating_add(next.subnormals),
            min: self.min.min(next.min),
            max: self.max.max(next.max),
            mean: self.mean,
            spread: self.spread,
            scale: self.scale,
            crowd: self.crowd.max(next.crowd),
        };
        let (a, b) = (self.finite() as f64, next.finite() as f64);
        if a == 0.0 {
            (both.mean, both.spread) = (next.mean, next.spread);
        } else if b > 0.0 {
            let (apart, share) = (next.mean - self.mean, b / (a + b));
            both.mean += apart * share;
            both.spread += next.spread + apart * apart * a * share;
        }
        both.settled()
    }

    /// Numbers that are all alike have no rounding in their mean, and no spread. A limit of zero has no sign: which of two
    /// zeros is the smaller one `min` leaves open, and compilers make use of that.
    pub(super) fn settled(mut self) -> Tally {
        self.min += 0.0;
        self.max += 0.0;
        if self.min == self.max {
            (self.mean, self.spread) = (self.min, 0.0);
        }
        self
    }
}

impl Tally {
    /// So many more zeros in a run.
    pub(super) fn add_zeros(&mut self, zeros: u64) {
        self.zeros += zeros;
        self.crowd = self.crowd.max(zeros);
    }

    /// Whether so many zeros in a row are possible: of them, at least half of a run, or half of all, are in one run.
    pub(super) fn may_hold_zeros(&self, row: usize, run: usize) -> bool {
        row > 0 && self.zeros >= row as u64 && self.crowd >= row.min(run).div_ceil(2) as u64
    }

    /// The number after those that are counted is not finite.
    pub(super) fn not_finite(&mut self, nan: bool) {
        let (count, first) = match nan {
            true => (&mut self.nan, &mut self.first_nan),
            false => (&mut self.infinite, &mut self.first_infinite),
        };
        *count += 1;
        first.get_or_insert(self.count);
    }
}
