//! What the machine could do: reading memory, copying it, multiplying and adding on registers.

use super::Cost;
use super::timing::{Spread, seconds};
use scantling_core::kernel::Kernel;
use std::hint::black_box;

/// Rates that were reached in the same rounds as the times, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes read from where the weights lie.
    pub read: Option<f64>,
    /// Bytes copied from there to where the output lies.
    pub copy: Option<f64>,
    /// Operations on registers.
    pub peak: Option<f64>,
}

/// What an op runs into first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// In a word: read, copy, multiply.
    pub word: &'static str,
    /// How long the op would take if it did nothing else.
    pub seconds: f64,
}

impl Rates {
    /// The one of the limits that takes longest.
    pub fn limit(&self, cost: Cost) -> Option<Limit> {
        let limits = [
            ("read", cost.bytes, self.read),
            // A copy reads as much as it writes; an op that widens reads less.
            ("copy", (cost.bytes + cost.written) / 2.0, self.copy.filter(|_| cost.written > 0.0)),
            ("multiply", cost.flops, self.peak),
        ];
        let seconds = |(word, amount, rate): (&'static str, f64, Option<f64>)| {
            rate.filter(|_| amount > 0.0).map(|rate| Limit { word, seconds: amount / rate })
        };
        limits.into_iter().filter_map(seconds).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

/// Samples of rates; each is of work that takes about a millisecond.
#[derive(Default)]
pub struct Sampler {
    read: Vec<f64>,
    copy: Vec<f64>,
    peak: Vec<f64>,
}

impl Sampler {
    /// Reads some memory once.
    pub fn read(&mut self, kernel: &dyn Kernel, data: &[u8]) {
        let time = seconds(|| {
            black_box(kernel.sweep(data));
        });
        self.read.push(data.len() as f64 / time);
    }

    /// Copies some memory, on so many threads.
    pub fn copy(&mut self, from: &[u8], to: &mut [u8], threads: usize) {
        let len = from.len().min(to.len());
        let piece = len.div_ceil(threads.max(1)).max(1);
        let pairs = || from[..len].chunks(piece);
        let mut started = true;
        let time = seconds(|| {
            std::thread::scope(|scope| {
                let mut pairs = pairs().zip(to[..len].chunks_mut(piece));
                let mine = pairs.next();
                pairs.for_each(|(from, to)| {
                    let copy = move || to.copy_from_slice(from);
                    started &= std::thread::Builder::new().spawn_scoped(scope, copy).is_ok();
                });
                if let Some((from, to)) = mine {
                    to.copy_from_slice(from);
                }
            });
            black_box(&mut *to);
        });
        // Where a thread could not be started, a part was not copied and there is nothing to tell.
        if started {
            self.copy.push(len as f64 / time);
        }
    }

    /// Multiplies and adds.
    pub fn peak(&mut self, kernel: &dyn Kernel, rounds: u64) {
        let mut done = 0;
        let time = seconds(|| done = kernel.saturate(rounds));
        self.peak.push(done as f64 / time);
    }

    /// The middle of each.
    pub fn rates(&self) -> Rates {
        let middle = |samples: &[f64]| Spread::of(samples).map(|s| s.median);
        Rates { read: middle(&self.read), copy: middle(&self.copy), peak: middle(&self.peak) }
    }
}

/// Rounds of a kernel's densest loop that take about a millisecond.
pub fn peak_rounds(kernel: &dyn Kernel) -> u64 {
    let time = |rounds| {
        seconds(|| {
            black_box(kernel.saturate(rounds));
        })
    };
    let mut rounds = 1 << 10;
    while rounds < 1 << 40 && time(rounds) < 1e-3 {
        rounds *= 2;
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_takes_longest() {
        let rates = Rates { read: Some(10.0), copy: None, peak: Some(100.0) };
        let few = Cost { bytes: 10.0, flops: 20.0, written: 0.0 };
        assert_eq!(rates.limit(few), Some(Limit { word: "read", seconds: 1.0 }));
        let many = Cost { flops: 400.0, ..few };
        assert_eq!(rates.limit(many), Some(Limit { word: "multiply", seconds: 4.0 }));
        assert_eq!(Rates::default().limit(many), None);
    }

    #[test]
    fn a_copy_is_whole_on_any_number_of_threads() {
        let from: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for threads in [1, 3, 7] {
            let mut to = vec![0; 1000];
            Sampler::default().copy(&from, &mut to, threads);
            assert_eq!(from, to, "{threads}");
        }
    }
}
