//! How well a model foretells a text, and how far it is from another that foretells the same.
//!
//! A text longer than the context is read in windows of `context` tokens. The first begins with the text, each further
//! one ends `stride` tokens behind the last one's end, the last with the text. Each token but the first of the text is
//! scored once: by the first window that holds it, with all of the window before it as context, so with at least
//! `context − stride` tokens of it but in the first window. Nothing is put before the text: no BOS but one that the ids
//! hold.

use crate::error::{Error, Result};
use crate::logits::{argmax, logsumexp, rows_at_once, usable};
use crate::matrix::Rows;
use crate::model::Session;
use std::ops::Range;

/// Tokens that are fed together, and which of them are scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Places in the text.
    pub tokens: Range<usize>,
    /// Those of them that are scored: the last.
    pub scored: Range<usize>,
}

/// The windows of a text, as this module's head tells.
pub fn windows(tokens: usize, context: usize, stride: usize) -> Result<Vec<Window>> {
    if tokens < 2 {
        return Err(Error::Usage(format!(
            "{tokens} tokens are no text: the first is never scored, so 2 are the least"
        )));
    }
    if context < 2 || stride == 0 || stride >= context {
        return Err(Error::Usage(format!(
            "a window of {context} tokens cannot move by {stride}: both have to be such that 0 < stride < context"
        )));
    }
    let mut end = context.min(tokens);
    let mut all = vec![Window { tokens: 0..end, scored: 1..end }];
    while end < tokens {
        let next = end.saturating_add(stride).min(tokens);
        all.push(Window { tokens: next - context..next, scored: end..next });
        end = next;
    }
    Ok(all)
}

/// A mean, and its standard error: the deviation of single values over the root of their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its standard error; not a number for a single value.
    pub error: f64,
}

impl Mean {
    /// Of values, as if they were drawn apart from each other.
    pub fn of(values: &[f64]) -> Mean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Mean { mean, error: (squares / (n - 1.0) / n).sqrt() }
    }

    /// Its exponential, the error by the slope there.
    pub fn exp(self) -> Mean {
        Mean { mean: self.mean.exp(), error: self.mean.exp() * self.error }
    }
}

/// How well a text was foretold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foretold {
    /// Mean of `−ln p` of each token that was scored.
    pub nll: Mean,
    /// Its exponential.
    pub perplexity: Mean,
}

impl Foretold {
    fn of(values: &[f64]) -> Foretold {
        let nll = Mean::of(values);
        Foretold { nll, perplexity: nll.exp() }
    }
}

/// How far a model is from the one it is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// How well that one foretold.
    pub reference: Foretold,
    /// Mean of what each token's `−ln p` is larger by.
    pub nll_more: Mean,
    /// `Σ p·ln(p/q)` over the vocabulary, p the reference's and q the model's, at each token that was scored.
    pub kl: Mean,
    /// Its median, the value that 99 % are not above, and the largest.
    pub kl_quantiles: [f64; 3],
    /// Share of places where both find the same token the likeliest; its error that of a share.
    pub agreement: Mean,
}

/// What came of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// Tokens that were scored.
    pub tokens: usize,
    /// Windows that the text was read in.
    pub windows: usize,
    /// By the model.
    pub model: Foretold,
    /// Against another, if one was given.
    pub apart: Option<Apart>,
}

/// Scores a text in the given windows, with another model if there is one; `step` is told of each window done.
pub fn score(
    session: &mut Session<'_>,
    mut reference: Option<&mut Session<'_>>,
    ids: &[u32],
    windows: &[Window],
    mut step: impl FnMut(),
) -> Result<Scored> {
    if let Some(reference) = &reference
        && reference.vocabulary() != session.vocabulary()
    {
        let (a, b) = (session.vocabulary(), reference.vocabulary());
        return Err(Error::Usage(format!(
            "the models have {a} and {b} tokens: only equal vocabularies compare"
        )));
    }
    let mut found = Values::default();
    for window in windows {
        session.truncate(0);
        let fed = &ids[window.tokens.start..window.tokens.end - 1];
        let (before, scored) = fed.split_at(window.scored.start - 1 - window.tokens.start);
        session.feed(before, 0, None)?;
        if let Some(reference) = &mut reference {
            reference.truncate(0);
            reference.feed(before, 0, None)?;
        }
        let mut target = window.scored.start;
        for some in scored.chunks(rows_at_once(session.vocabulary())) {
            let place = Place { first: target - 1, ids: some, targets: &ids[target..target + some.len()] };
            let logits = session.feed(some, some.len(), None)?;
            let others = reference.as_mut().map(|r| r.feed(some, some.len(), None)).transpose()?;
            found.add(logits.view(), others.as_ref().map(|o| o.view()), place)?;
            target += some.len();
        }
        step();
    }
    Ok(found.done(windows.len()))
}

/// Tokens that were fed, and those that follow on each.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Where in the text the first stands.
    first: usize,
    ids: &'a [u32],
    targets: &'a [u32],
}

#[derive(Default)]
struct Values {
    nll: Vec<f64>,
    reference: Vec<f64>,
    kl: Vec<f64>,
    agree: usize,
}

impl Values {
    fn add(&mut self, logits: Rows<'_>, others: Option<Rows<'_>>, place: Place<'_>) -> Result<()> {
        for (i, (row, target)) in logits.iter().zip(place.targets).enumerate() {
            let of = |row: &[f32], sum: f64| {
                usable(place.first + i, place.ids[i], row, sum)?;
                let logit = row.get(*target as usize).copied();
                let logit = logit.ok_or_else(|| {
                    Error::Usage(format!("id {target} is beyond the vocabulary of {}", row.len()))
                });
                let nll = sum - f64::from(logit?);
                if !nll.is_finite() {
                    let at = place.first + i + 1;
                    let what =
                        format!("token {at} (id {target}) has no probability at all: its logit is infinite");
                    return Err(Error::NotFinite { what });
                }
                Ok(nll)
            };
            let sum = logsumexp(row);
            self.nll.push(of(row, sum)?);
            if let Some(other) = others.map(|o| o.row(i)) {
                let other_sum = logsumexp(other);
                let nll = of(other, other_sum).map_err(of_the_other)?;
                self.reference.push(nll);
                self.kl.push(divergence(other, other_sum, row, sum));
                self.agree += usize::from(argmax(row) == argmax(other));
            }
        }
        Ok(())
    }

    fn done(mut self, windows: usize) -> Scored {
        let tokens = self.nll.len();
        let apart = (!self.kl.is_empty()).then(|| {
            let more: Vec<f64> = self.nll.iter().zip(&self.reference).map(|(a, b)| a - b).collect();
            let share = self.agree as f64 / tokens as f64;
            let kl = Mean::of(&self.kl);
            self.kl.sort_unstable_by(f64::total_cmp);
            Apart {
                reference: Foretold::of(&self.reference),
                nll_more: Mean::of(&more),
                kl,
                kl_quantiles: [0.5, 0.99, 1.0].map(|q| quantile(&self.kl, q)),
                agreement: Mean { mean: share, error: (share * (1.0 - share) / tokens as f64).sqrt() },
            }
        });
        Scored { tokens, windows, model: Foretold::of(&self.nll), apart }
    }
}

/// Says of which model it is.
fn of_the_other(error: Error) -> Error {
    match error {
        Error::NotFinite { what } => {
            Error::NotFinite { what: format!("of the model that it is held against: {what}") }
        }
        error => error,
    }
}

/// Of sorted values, between the two nearest.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    if low == high { low } else { low + (high - low) * at.fract() }
}

/// `Σ p·ln(p/q)` of two rows of logits; what rounding leaves below 0 is 0.
fn divergence(p: &[f32], p_sum: f64, q: &[f32], q_sum: f64) -> f64 {
    let each = p.iter().zip(q).map(|(p, q)| {
        let (p, q) = (f64::from(*p) - p_sum, f64::from(*q) - q_sum);
        let weight = p.exp();
        if weight == 0.0 { 0.0 } else { weight * (p - q) }
    });
    let sum = each.sum::<f64>();
    if sum < 0.0 { 0.0 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_but_the_first_is_scored_once() {
        for (tokens, context, stride) in [(2, 2, 1), (9, 20, 10), (100, 10, 5), (101, 10, 9), (23, 8, 1)] {
            let all = windows(tokens, context, stride).unwrap();
            let scored: Vec<usize> = all.iter().flat_map(|w| w.scored.clone()).collect();
            assert_eq!(scored, (1..tokens).collect::<Vec<_>>());
            for window in &all {
                assert!(window.tokens.len() <= context && window.tokens.end == window.scored.end);
                assert!(window.tokens.start < window.scored.start);
            }
            let later = all.iter().skip(1);
            assert!(later.clone().all(|w| w.tokens.len() == context));
            assert!(later.clone().all(|w| w.scored.start - w.tokens.start >= context - stride));
        }
        assert!(windows(1, 8, 4).is_err() && windows(9, 8, 8).is_err() && windows(9, 8, 0).is_err());
    }

    #[test]
    fn errors_are_those_of_statistics() {
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean.mean, 2.5);
        assert!((mean.error - (5.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-15);
        assert_eq!([0.0, 0.5, 1.0].map(|q| quantile(&[1.0, 2.0, 4.0], q)), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn divergence_is_zero_of_itself_and_right_of_two() {
        let (p, q) = ([0.0f32, 1.0, f32::NEG_INFINITY], [0.0f32, 0.0, 0.0]);
        assert_eq!(divergence(&q, logsumexp(&q), &q, logsumexp(&q)), 0.0);
        let e = 1f64.exp();
        let (a, b) = (1.0 / (1.0 + e), e / (1.0 + e));
        let expected = a * (3.0 * a).ln() + b * (3.0 * b).ln();
        assert!((divergence(&p, logsumexp(&p), &q, logsumexp(&q)) - expected).abs() < 1e-15);
        assert!(divergence(&q, logsumexp(&q), &p, logsumexp(&p)).is_infinite());
    }
}
