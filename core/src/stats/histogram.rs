//! How numbers are spread: counts of equal bins between two limits, and of what lies beyond them.

use super::tally::Tally;

/// Bins of a histogram.
pub const BINS: usize = 64;
/// Standard deviations from the mean, beyond which single numbers would leave all others in one bin.
const FAR: f64 = 8.0;

/// Counts of equal bins. Each holds its lower edge, the last its upper one too.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The lower edge of the first bin.
    pub low: f64,
    /// The upper edge of the last bin.
    pub high: f64,
    /// How many numbers lie in each.
    pub counts: Vec<u64>,
    /// Finite numbers below the first bin.
    pub below: u64,
    /// Finite numbers above the last bin.
    pub above: u64,
}

impl Histogram {
    /// Without counts, for numbers of which this is known: over all of them, but for those that lie eight standard
    /// deviations from the mean and further. `None` where no number is finite.
    pub fn of(tally: &Tally) -> Option<Histogram> {
        let reach = FAR * tally.std()?;
        let (low, high) = (tally.min.max(tally.mean - reach), tally.max.min(tally.mean + reach));
        // Numbers so large that the width overflows are told as being beyond.
        let (low, high) = if (high - low).is_finite() { (low, high) } else { (tally.mean, tally.mean) };
        Some(Histogram { low, high, counts: vec![0; BINS], below: 0, above: 0 })
    }

    /// The lower edge of a bin; of the bin after the last, the upper edge of that.
    pub fn edge(&self, bin: usize) -> f64 {
        let bins = self.counts.len().max(1);
        if bin >= bins { self.high } else { self.low + bin as f64 * ((self.high - self.low) / bins as f64) }
    }

    /// Counts numbers.
    pub fn add(&mut self, values: impl IntoIterator<Item = f64>) {
        let bins = self.counts.len();
        let scale = bins as f64 / (self.high - self.low);
        let edges: Vec<f64> = (0..=bins).map(|bin| self.edge(bin)).collect();
        for x in values {
            if !x.is_finite() {
                continue;
            }
            if x < self.low {
                self.below += 1;
                continue;
            }
            if x > self.high {
                self.above += 1;
                continue;
            }
            // Where all numbers are alike, bins have no width, and they are in the first.
            let alike = self.low == self.high;
            let mut bin =
                if alike { 0 } else { ((x - self.low) * scale) as usize }.min(bins.saturating_sub(1));
            // The product is rounded: what matters is the edges.
            while bin > 0 && edges.get(bin).is_some_and(|edge| x < *edge) {
                bin -= 1;
            }
            while !alike && bin + 1 < bins && edges.get(bin + 1).is_some_and(|edge| x >= *edge) {
                bin += 1;
            }
            if let Some(count) = self.counts.get_mut(bin) {
                *count += 1;
            }
        }
    }

    /// These counts and those of another piece with the same edges.
    pub fn join(mut self, other: &Histogram) -> Histogram {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.below += other.below;
        self.above += other.above;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece::tally_of;
    use super::*;

    #[test]
    fn every_number_is_in_the_bin_whose_edges_hold_it() {
        let values: Vec<f32> = (0..4000).map(|i| ((i * 7919) % 4001) as f32 / 4001.0 - 0.3).collect();
        let mut histogram = Histogram::of(&tally_of(&values)).unwrap();
        let edges: Vec<f64> = (0..=BINS).map(|i| histogram.edge(i)).collect();
        // And numbers on the edges themselves.
        let all: Vec<f64> = values.iter().map(|x| f64::from(*x)).chain(edges.iter().copied()).collect();
        histogram.add(all.iter().copied());
        for (bin, count) in histogram.counts.iter().enumerate() {
            let within = |x: &&f64| **x >= edges[bin] && (**x < edges[bin + 1] || bin + 1 == BINS);
            assert_eq!(*count as usize, all.iter().filter(within).count(), "bin {bin}");
        }
        assert_eq!((histogram.below, histogram.above), (0, 0));
    }

    #[test]
    fn far_numbers_are_counted_beside_the_bins_and_equal_ones_in_the_first() {
        let mut values = vec![0.0f32; 9999];
        values.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 10) as f32);
        values.push(1e6);
        let tally = tally_of(&values);
        let mut histogram = Histogram::of(&tally).unwrap();
        histogram.add(values.iter().map(|x| f64::from(*x)).chain([f64::NAN, f64::INFINITY]));
        assert_eq!(histogram.above, 1);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 9999);
        assert!(histogram.high < 1e6);

        let tally = tally_of(&[2.5; 10]);
        let mut histogram = Histogram::of(&tally).unwrap();
        histogram.add([2.5; 10]);
        assert_eq!((histogram.low, histogram.high, histogram.counts[0]), (2.5, 2.5, 10));
        assert!(Histogram::of(&tally_of(&[f32::NAN])).is_none());
    }
}
