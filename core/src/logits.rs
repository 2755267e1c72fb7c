//! What logits say: the likeliest tokens with their probabilities, summed in f64.

use crate::error::{Error, Result};
use crate::matrix::Rows;
use crate::model::Session;

/// Bytes of logits that are held at once where those of many positions are asked for.
pub const HELD: usize = 32 << 20;

/// A token that may come next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
    /// Its probability.
    pub probability: f64,
}

/// What the logits of one position say.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// Its place among the tokens, counted from 0.
    pub position: usize,
    /// The token there, after which the next is told.
    pub id: u32,
    /// The logarithm of the sum of the exponentials of its logits.
    pub logsumexp: f64,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<Candidate>,
}

/// The logarithm of the sum of the exponentials: a logit minus this is the logarithm of its probability.
pub fn logsumexp(row: &[f32]) -> f64 {
    let top = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    if !top.is_finite() {
        return if row.iter().any(|x| x.is_nan()) { f64::NAN } else { top };
    }
    let sum: f64 = row.iter().map(|x| (f64::from(*x) - top).exp()).sum();
    top + sum.ln()
}

/// The likeliest tokens of a row, the likeliest first; of equal ones that of the lower id. Those that are no number
/// come last.
pub fn top(row: &[f32], count: usize, logsumexp: f64) -> Vec<Candidate> {
    let order = |a: &u32, b: &u32| {
        let (x, y) = (row[*a as usize], row[*b as usize]);
        let numbers = y.partial_cmp(&x).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()));
        numbers.then(a.cmp(b))
    };
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    let count = count.min(ids.len());
    if count < ids.len() {
        ids.select_nth_unstable_by(count, order);
        ids.truncate(count);
    }
    ids.sort_unstable_by(order);
    let candidate = |id: u32| {
        let logit = row[id as usize];
        Candidate { id, logit, probability: (f64::from(logit) - logsumexp).exp() }
    };
    ids.into_iter().map(candidate).collect()
}

/// The token of the largest logit, of equal ones the lowest id; none if no logit is a number.
pub fn argmax(row: &[f32]) -> Option<u32> {
    let numbers = row.iter().enumerate().filter(|(_, x)| !x.is_nan());
    numbers.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(id, _)| id as u32)
}

/// Refuses logits that give no probabilities: one of them is NaN or infinitely large, or none is above minus infinity.
/// `position` is that of the token they follow on, `id` its id.
pub fn usable(position: usize, id: u32, row: &[f32], logsumexp: f64) -> Result<()> {
    if logsumexp.is_finite() {
        return Ok(());
    }
    let bad = row.iter().filter(|x| !x.is_finite()).count();
    let first = row.iter().enumerate().find(|(_, x)| !x.is_finite());
    let first = first.map_or_else(String::new, |(id, x)| format!("; the first is that of id {id}, {x}"));
    let all = row.len();
    Err(Error::NotFinite {
        what: format!("after token {position} (id {id}) {bad} of {all} logits are NaN or infinite{first}"),
    })
}

/// The same of logits whose sum of exponentials nobody needs.
pub fn judge(position: usize, id: u32, row: &[f32]) -> Result<()> {
    let fine = row.iter().all(|x| *x < f32::INFINITY) && row.iter().any(|x| x.is_finite());
    usable(position, id, row, if fine { 0.0 } else { f64::NAN })
}

/// Rows of logits that are computed at once, so that no more than [`HELD`] bytes of them are.
pub fn rows_at_once(vocabulary: usize) -> usize {
    (HELD / size_of::<f32>() / vocabulary.max(1)).max(1)
}

/// Feeds tokens and shows the logits of the last `want` of them, some rows at a time: `see` is given the place of
/// the first among these tokens, and the rows.
pub fn feed_in_pieces(
    session: &mut Session<'_>,
    ids: &[u32],
    want: usize,
    mut see: impl FnMut(usize, Rows<'_>) -> Result<()>,
) -> Result<()> {
    session.fits(ids)?;
    let before = ids.len() - want.min(ids.len());
    session.feed(&ids[..before], 0, None)?;
    let mut at = before;
    for some in ids[before..].chunks(rows_at_once(session.vocabulary())) {
        let logits = session.feed(some, some.len(), None)?;
        see(at, logits.view())?;
        at += some.len();
    }
    Ok(())
}

/// What the logits of a position say.
pub fn position(position: usize, id: u32, row: &[f32], count: usize) -> Position {
    let logsumexp = logsumexp(row);
    Position { position, id, logsumexp, top: top(row, count, logsumexp) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_and_ties_go_to_the_lower_id() {
        let row = [1.0, 3.0, 2.0, 3.0, -1e30];
        let found = position(4, 9, &row, 10);
        let ids: Vec<u32> = found.top.iter().map(|c| c.id).collect();
        assert_eq!(ids, [1, 3, 2, 0, 4]);
        let sum: f64 = found.top.iter().map(|c| c.probability).sum();
        assert!((sum - 1.0).abs() < 1e-15, "{sum}");
        assert_eq!(Some(top(&row, 1, found.logsumexp)[0].id), argmax(&row));
    }

    #[test]
    fn numbers_come_before_what_is_none() {
        let row = [f32::NAN, 1.0, f32::NEG_INFINITY];
        let ids: Vec<u32> = top(&row, 3, 0.0).iter().map(|c| c.id).collect();
        assert_eq!((ids, argmax(&row)), (vec![1, 2, 0], Some(1)));
        assert!(logsumexp(&[f32::NAN]).is_nan());
        assert_eq!(logsumexp(&[f32::NEG_INFINITY; 2]), f64::NEG_INFINITY);
    }

    #[test]
    fn logits_without_probabilities_are_told_with_their_place() {
        let row = [0.0, f32::NAN, f32::INFINITY];
        let told = usable(3, 7, &row, logsumexp(&row)).unwrap_err().to_string();
        assert!(told.starts_with(
            "after token 3 (id 7) 2 of 3 logits are NaN or infinite; the first is that of id 1, NaN"
        ));
        let row = [0.0, f32::NEG_INFINITY];
        usable(0, 0, &row, logsumexp(&row)).unwrap();
        judge(0, 0, &row).unwrap();
        for bad in [[0.0, f32::NAN], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            let told = judge(0, 0, &bad).unwrap_err().to_string();
            assert_eq!(told, usable(0, 0, &bad, logsumexp(&bad)).unwrap_err().to_string());
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        assert!((logsumexp(&[1e30, 1e30]) - f64::from(1e30f32)).abs() < 1e15);
    }
}
