//! Choosing the next token from its logits.

use crate::logits::argmax;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How the next token is chosen. The defaults choose the likeliest, so that runs can be compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 chooses the likeliest.
    pub temperature: f32,
    /// Only so many of the likeliest; 0 for all.
    pub top_k: usize,
    /// Only the likeliest whose probabilities reach this together; 1 for all.
    pub top_p: f32,
    /// Only those at least so likely as this share of the likeliest; 0 for all.
    pub min_p: f32,
    /// Logits of tokens seen lately are divided by it where positive, multiplied where negative; 1 for none.
    pub repeat_penalty: f32,
    /// How many of the last tokens are seen lately.
    pub repeat_last: usize,
    /// Seed of the choice.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repeat_penalty: 1.0,
            repeat_last: 64,
            seed: 0,
        }
    }
}

/// Chooses token after token. The same seed and logits give the same tokens, on every machine.
pub struct Sampler {
    how: Sampling,
    random: ChaCha8Rng,
    logits: Vec<f32>,
    kept: Vec<(u32, f64)>,
}

impl Sampler {
    /// By these rules.
    pub fn new(how: Sampling) -> Sampler {
        let random = ChaCha8Rng::seed_from_u64(how.seed);
        Sampler { how, random, logits: Vec::new(), kept: Vec::new() }
    }

    /// The next token, given all before it: penalty, then temperature, then top k, top p and min p, in the order in
    /// which transformers applies them. A logit that is no number is never chosen; `None` if none is one.
    pub fn pick(&mut self, logits: &[f32], before: &[u32]) -> Option<u32> {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.penalise(before);
        if self.how.temperature <= 0.0 {
            return argmax(&self.logits);
        }
        self.keep();
        let total: f64 = self.kept.iter().map(|(_, p)| p).sum();
        // A number below 1 of 53 random bits.
        let mut left = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
        let chosen = self.kept.iter().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        chosen.or(self.kept.last()).map(|(id, _)| *id)
    }

    fn penalise(&mut self, before: &[u32]) {
        if self.how.repeat_penalty == 1.0 {
            return;
        }
        let from = before.len().saturating_sub(self.how.repeat_last);
        let mut seen: Vec<u32> = before.get(from..).unwrap_or_default().to_vec();
        seen.sort_unstable();
        seen.dedup();
        for id in seen {
            if let Some(x) = self.logits.get_mut(id as usize) {
                *x = if *x > 0.0 { *x / self.how.repeat_penalty } else { *x * self.how.repeat_penalty };
            }
        }
    }

    /// The tokens that may be chosen, the likeliest first, with weights in proportion to their probabilities.
    fn keep(&mut self) {
        let how = self.how;
        let numbers = self.logits.iter().enumerate().filter(|(_, x)| !x.is_nan());
        self.kept.clear();
        self.kept.extend(numbers.map(|(id, x)| (id as u32, f64::from(*x))));
        // Of equal ones the lower id; an unstable sort is then as good as a stable one.
        let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if how.top_k > 0 && how.top_k < self.kept.len() {
            self.kept.select_nth_unstable_by(how.top_k - 1, order);
            self.kept.truncate(how.top_k);
        }
        self.kept.sort_unstable_by(order);
        let Some(&(_, top)) = self.kept.first() else { return };
        let weight = |x: f64| if x == top { 1.0 } else { ((x - top) / f64::from(how.temperature)).exp() };
        self.kept.iter_mut().for_each(|(_, x)| *x = weight(*x));
        if how.top_p < 1.0 {
            let enough = f64::from(how.top_p) * self.kept.iter().map(|(_, p)| p).sum::<f64>();
            let mut sum = 0.0;
            let fewer = self.kept.iter().position(|(_, p)| {
                sum += p;
                sum >= enough
            });
            self.kept.truncate(fewer.map_or(self.kept.len(), |at| at + 1));
        }
        // The likeliest has weight 1.
        self.kept.retain(|(_, p)| *p >= f64::from(how.min_p).min(1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, f32::NAN, 2.0, 3.0];

    fn often(how: Sampling, logits: &[f32], before: &[u32]) -> Vec<u32> {
        let mut sampler = Sampler::new(how);
        let mut counts = vec![0; logits.len()];
        (0..10_000).for_each(|_| counts[sampler.pick(logits, before).unwrap() as usize] += 1);
        counts
    }

    #[test]
    fn without_temperature_the_first_of_the_largest() {
        let mut greedy = Sampler::new(Sampling::default());
        assert_eq!(greedy.pick(&LOGITS, &[]), Some(1));
        assert_eq!(greedy.pick(&[f32::NAN; 3], &[]), None);
        assert_eq!(greedy.pick(&[], &[]), None);
        assert_eq!(greedy.pick(&[f32::NEG_INFINITY, f32::NAN], &[]), Some(0));
    }

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let how = Sampling { temperature: 0.5, ..Sampling::default() };
        let counts = often(how, &LOGITS, &[]);
        let weights: Vec<f64> =
            [1.0f64, 3.0, f64::NEG_INFINITY, 2.0, 3.0].iter().map(|x| (x / 0.5).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let p = weight / sum;
            // Five standard deviations.
            let off = (f64::from(*count) - 10_000.0 * p).abs();
            assert!(off <= 5.0 * (10_000.0 * p * (1.0 - p)).sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn what_is_cut_never_comes() {
        let warm = Sampling { temperature: 1.0, ..Sampling::default() };
        let comes =
            |how: Sampling| -> Vec<bool> { often(how, &LOGITS, &[]).iter().map(|n| *n > 0).collect() };
        assert_eq!(comes(warm), [true, true, false, true, true]);
        assert_eq!(comes(Sampling { top_k: 1, ..warm }), [false, true, false, false, false]);
        assert_eq!(comes(Sampling { top_k: 3, ..warm }), [false, true, false, true, true]);
        // 0.42, 0.42, 0.15 and 0.06 of all.
        assert_eq!(comes(Sampling { top_p: 0.5, ..warm }), [false, true, false, false, true]);
        assert_eq!(comes(Sampling { top_p: 0.0, ..warm }), [false, true, false, false, false]);
        assert_eq!(comes(Sampling { min_p: 0.2, ..warm }), [false, true, false, true, true]);
        assert_eq!(comes(Sampling { min_p: 2.0, ..warm }), [false, true, false, false, true]);
    }

    #[test]
    fn what_was_seen_lately_is_less_likely() {
        let how = Sampling { repeat_penalty: 2.0, repeat_last: 2, ..Sampling::default() };
        let mut sampler = Sampler::new(how);
        assert_eq!(sampler.pick(&LOGITS, &[1, 1, 99]), Some(4));
        assert_eq!(sampler.pick(&LOGITS, &[4, 1, 1, 4]), Some(3));
        assert_eq!(sampler.pick(&[-1.0, -1.5], &[0]), Some(1));
    }

    #[test]
    fn a_seed_gives_the_same_on_every_machine() {
        let how = Sampling { temperature: 1.0, seed: 7, ..Sampling::default() };
        let logits = [0.0f32; 100];
        let picks = |how| {
            let mut sampler = Sampler::new(how);
            (0..6).map(|_| sampler.pick(&logits, &[]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(picks(how), picks(how));
        assert_ne!(picks(how), picks(Sampling { seed: 8, ..how }));
    }
}
