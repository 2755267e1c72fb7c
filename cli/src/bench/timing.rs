//! Times: interleaved repetitions, their median and quartiles.

use std::time::Instant;

/// Repetitions that every number has at least.
pub const LEAST: usize = 5;

/// Where the middle half of repetitions lies, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// A quarter are faster.
    pub first: f64,
    /// A quarter are slower.
    pub third: f64,
    /// How many there were.
    pub count: usize,
}

impl Spread {
    /// Of samples; none of none.
    pub fn of(samples: &[f64]) -> Option<Spread> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Spread {
            median: quantile(&sorted, 0.5)?,
            first: quantile(&sorted, 0.25)?,
            third: quantile(&sorted, 0.75)?,
            count: sorted.len(),
        })
    }

    /// The interquartile range over the median: what repetitions differ by.
    pub fn noise(&self) -> f64 {
        (self.third - self.first) / self.median
    }

    /// The times of something that takes so many times as long.
    pub fn times(&self, factor: f64) -> Spread {
        Spread {
            median: self.median * factor,
            first: self.first * factor,
            third: self.third * factor,
            count: self.count,
        }
    }
}

/// The value below which a share of sorted numbers lies, between two of them in proportion.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * (sorted.len().checked_sub(1)? as f64);
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

/// Seconds that something takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_and_many() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[2.0]).unwrap();
        assert_eq!((one.first, one.median, one.third, one.noise()), (2.0, 2.0, 2.0, 0.0));
        let five = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.first, five.median, five.third), (2.0, 3.0, 4.0));
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
        // One outlier moves nothing.
        assert_eq!(Spread::of(&[1.0, 1.0, 1.0, 1.0, 99.0]).unwrap().noise(), 0.0);
    }
}
