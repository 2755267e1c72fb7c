//! Attention of a few positions over stored keys and values, which are read once, where they lie.
//!
//! Queries that look at the same keys are taken together: all query heads of a key-value head, for a few positions.
//! Sums are taken in the same order however many there are, so cutting the queries or the heads changes no bit.

use super::dots::{Brain, Half, Single, Stored, Widened, dots, side_by_side};
use super::panels::{load, store};
use super::pointwise::{Capped, ExpLess, Larger, Sum, Times, apply, fold};
use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::Attending;
use std::ops::Range;

/// Positions whose queries are taken together.
const TILE: usize = 8;
/// Positions whose values are summed before the next are touched. Those of one head lie as far apart as the values of
/// all heads are long, often a power of two: more would drive each other out of the cache.
const NEAR: usize = 8;
/// Positions that are asked for ahead of their use, for the same reason: the processor does not foresee them.
const AHEAD: usize = 8;

/// See `ops::attention`.
pub(super) struct Attend<'a> {
    pub q: Rows<'a>,
    pub k: Matrix<'a>,
    pub v: Matrix<'a>,
    pub how: Attending<'a>,
    pub out: RowsMut<'a>,
}

impl Op for Attend<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        match (self.k.dtype(), self.v.dtype()) {
            (DType::F32, DType::F32) => self.in_place::<S, Single>(s),
            (DType::F16, DType::F16) => self.in_place::<S, Half>(s),
            (DType::BF16, DType::BF16) => self.in_place::<S, Brain>(s),
            _ => self.widened(s),
        }
    }
}

impl Attend<'_> {
    /// Keys and values that are read where they lie.
    #[inline(always)]
    fn in_place<S: Simd, W: for<'a> Stored<S, Stack<'a> = Matrix<'a>>>(mut self, s: S) {
        let mut scores = Vec::new();
        for g in 0..self.how.kv_heads {
            let k = self.k.cols_at(g * self.how.key..(g + 1) * self.how.key);
            let v = self.v.cols_at(g * self.how.value..(g + 1) * self.how.value);
            self.head::<S, W>(s, g, k, v, &mut scores);
        }
    }

    /// Keys and values that are widened first, one head at a time.
    #[inline(always)]
    fn widened<S: Simd>(mut self, s: S) {
        let how = self.how;
        let count = self.k.rows();
        let (mut keys, mut values) = (vec![0.0; count * how.key], vec![0.0; count * how.value]);
        let mut scores = Vec::new();
        for g in 0..how.kv_heads {
            widen(s, self.k.cols_at(g * how.key..(g + 1) * how.key), &mut keys);
            widen(s, self.v.cols_at(g * how.value..(g + 1) * how.value), &mut values);
            let (k, v) = (Rows::new(&keys, count, how.key), Rows::new(&values, count, how.value));
            self.head::<S, Widened>(s, g, k, v, &mut scores);
        }
    }

    /// One key-value head, with all queries that look at it.
    #[inline(always)]
    fn head<S: Simd, W: Stored<S>>(
        &mut self,
        s: S,
        g: usize,
        k: W::Stack<'_>,
        v: W::Stack<'_>,
        scores: &mut Vec<f32>,
    ) {
        let (how, count) = (self.how, self.k.rows());
        let group = how.heads / how.kv_heads;
        for first in (0..self.q.rows()).step_by(TILE) {
            let last = self.q.rows().min(first + TILE);
            let all = how.seen(first, count).start..how.seen(last - 1, count).end;
            let q = self.q;
            let queries: Vec<(usize, usize, &[f32])> = (first..last)
                .flat_map(|t| (g * group..(g + 1) * group).map(move |h| (t, h)))
                .map(|(t, h)| (t, h, &q.row(t)[h * how.key..][..how.key]))
                .collect();
            scores.clear();
            scores.resize(queries.len() * all.len(), 0.0);
            look::<S, W>(s, k, &queries, all.clone(), scores);
            for (scores, (t, h, _)) in scores.chunks_mut(all.len().max(1)).zip(&queries) {
                let seen = within(how.seen(*t, count), &all);
                weigh(s, how, *h, &mut scores[seen]);
            }
            let mut at = 0;
            while at < queries.len() {
                let weights = &scores[at * all.len()..];
                at += match queries.len() - at {
                    1 => self.gather::<S, W, 1, 4>(s, v, &queries[at..], weights, &all),
                    2 => self.gather::<S, W, 2, 4>(s, v, &queries[at..], weights, &all),
                    3 => self.gather::<S, W, 3, 2>(s, v, &queries[at..], weights, &all),
                    _ => self.gather::<S, W, 4, 2>(s, v, &queries[at..], weights, &all),
                };
            }
        }
    }

    /// Weighted sums of the values for the first `M` queries, `V` vectors of them at a time; gives `M`. They share the
    /// positions that all of them see; the few before and behind are each query's own.
    #[inline(always)]
    fn gather<S: Simd, W: Stored<S>, const M: usize, const V: usize>(
        &mut self,
        s: S,
        v: W::Stack<'_>,
        queries: &[(usize, usize, &[f32])],
        weights: &[f32],
        all: &Range<usize>,
    ) -> usize {
        let (width, count) = (self.how.value, self.k.rows());
        let mut seen = [const { 0..0 }; M];
        let mut own = [&weights[..0]; M];
        for (m, (t, _, _)) in queries.iter().enumerate().take(M) {
            seen[m] = self.how.seen(*t, count);
            own[m] = &weights[m * all.len()..][..all.len()];
        }
        let start = seen.iter().map(|r| r.start).max().unwrap_or(0);
        let end = seen.iter().map(|r| r.end).min().unwrap_or(0).max(start);
        let long = width.next_multiple_of(V * S::LANES);
        let mut sums = vec![0.0; M * long];
        for ((own, seen), sums) in own.iter().zip(&seen).zip(sums.chunks_exact_mut(long.max(1))) {
            add::<S, W, 1, V>(s, v, seen.start..start.min(seen.end), [own], all.start, sums);
        }
        add::<S, W, M, V>(s, v, start..end, own, all.start, &mut sums);
        for ((own, seen), sums) in own.iter().zip(&seen).zip(sums.chunks_exact_mut(long.max(1))) {
            add::<S, W, 1, V>(s, v, end.max(seen.start)..seen.end, [own], all.start, sums);
        }
        for (sums, (t, h, _)) in sums.chunks_exact(long.max(1)).zip(queries) {
            self.out.row(*t)[h * width..][..width].copy_from_slice(&sums[..width]);
        }
        M
    }
}

/// A range as counted from the start of another.
pub(super) fn within(range: Range<usize>, all: &Range<usize>) -> Range<usize> {
    range.start - all.start.min(range.start)..range.end - all.start.min(range.end)
}

#[inline(always)]
fn widen<S: Simd>(s: S, m: Matrix<'_>, out: &mut [f32]) {
    for (row, out) in out.chunks_exact_mut(m.cols().max(1)).enumerate() {
        s.run(Widen { dtype: m.dtype(), raw: m.row(row), out });
    }
}

/// `scores[query][p]` = key·query, for the keys of a range of positions.
#[inline(always)]
fn look<S: Simd, W: Stored<S>>(
    s: S,
    k: W::Stack<'_>,
    queries: &[(usize, usize, &[f32])],
    all: Range<usize>,
    scores: &mut [f32],
) {
    let mut at = 0;
    while at < queries.len() {
        let (queries, scores) = (&queries[at..], &mut scores[at * all.len()..]);
        at += match queries.len() {
            1 => look_with::<S, W, 1, 4>(s, k, queries, all.clone(), scores),
            2 => look_with::<S, W, 2, 4>(s, k, queries, all.clone(), scores),
            3 => look_with::<S, W, 3, 2>(s, k, queries, all.clone(), scores),
            _ => look_with::<S, W, 4, 2>(s, k, queries, all.clone(), scores),
        };
    }
}

/// The same for the first `M` queries, with `R` keys at a time; gives `M`.
#[inline(always)]
fn look_with<S: Simd, W: Stored<S>, const M: usize, const R: usize>(
    s: S,
    k: W::Stack<'_>,
    queries: &[(usize, usize, &[f32])],
    all: Range<usize>,
    scores: &mut [f32],
) -> usize {
    let mut side = [&[][..]; M];
    for (side, (_, _, query)) in side.iter_mut().zip(queries) {
        *side = *query;
    }
    let (x, cols, count) = (side_by_side::<S, M>(side), side[0].len(), all.len());
    for i in (0..count / R * R).step_by(R) {
        let mut keys = [W::row(k, all.start + i); R];
        for (r, key) in keys.iter_mut().enumerate() {
            *key = W::row(k, all.start + i + r);
            if i + r + AHEAD < count {
                W::ask_for(s, W::row(k, all.start + i + r + AHEAD));
            }
        }
        let found = dots::<S, W, R, M, 1>(s, keys, &x, cols);
        for (r, found) in found.iter().enumerate() {
            for (m, found) in found.iter().enumerate() {
                scores[m * count + i + r] = *found;
            }
        }
    }
    for i in count / R * R..count {
        let [found] = dots::<S, W, 1, M, 1>(s, [W::row(k, all.start + i)], &x, cols);
        for (m, found) in found.iter().enumerate() {
            scores[m * count + i] = *found;
        }
    }
    M
}

/// Adds the weighted values of a range of positions to sums, `[query][element]`, whose rows are whole multiples of `V`
/// vectors. Weights are counted from position `from`. Each sum is taken in the order of the positions.
#[inline(always)]
fn add<S: Simd, W: Stored<S>, const M: usize, const V: usize>(
    s: S,
    v: W::Stack<'_>,
    range: Range<usize>,
    weights: [&[f32]; M],
    from: usize,
    sums: &mut [f32],
) {
    let long = sums.len() / M;
    for near in range.clone().step_by(NEAR) {
        let count = NEAR.min(range.end - near);
        let mut rows = [W::row(v, near); NEAR];
        let mut own = [&weights[0][..0]; M];
        for (own, weights) in own.iter_mut().zip(&weights) {
            *own = &weights[near - from..][..count];
        }
        for (i, row) in rows.iter_mut().enumerate().take(count) {
            *row = W::row(v, near + i);
            if near + i + AHEAD < range.end {
                W::ask_for(s, W::row(v, near + i + AHEAD));
            }
        }
        for first in (0..long / S::LANES).step_by(V) {
            let mut vectors = [[s.splat(0.0); V]; M];
            for (m, vectors) in vectors.iter_mut().enumerate() {
                load(s, &sums[m * long + first * S::LANES..][..V * S::LANES], vectors);
            }
            for (i, row) in rows[..count].iter().enumerate() {
                let values = some::<S, W, V>(s, row, first);
                for (vectors, own) in vectors.iter_mut().zip(&own) {
                    let weight = s.splat(own[i]);
                    for (vector, value) in vectors.iter_mut().zip(&values) {
                        *vector = s.fma(weight, *value, *vector);
                    }
                }
            }
            for (m, vectors) in vectors.iter().enumerate() {
                store(s, vectors, &mut sums[m * long + first * S::LANES..][..V * S::LANES]);
            }
        }
    }
}

/// Vectors `first..first + V` of a row, widened; zeros where it ends.
#[inline(always)]
fn some<S: Simd, W: Stored<S>, const V: usize>(s: S, row: &W::Row, first: usize) -> [S::F; V] {
    let raw = W::vectors(row);
    let mut values = [s.splat(0.0); V];
    if let Some(raw) = raw.get(first..first + V) {
        for (value, raw) in values.iter_mut().zip(raw) {
            *value = W::load(s, raw);
        }
        return values;
    }
    for (i, value) in values.iter_mut().enumerate() {
        if let Some(raw) = raw.get(first + i) {
            *value = W::load(s, raw);
        } else if first + i == raw.len() {
            *value = s.load(&S::floats(&W::tail(row, raw.len() * S::LANES)).0[0]);
        }
    }
    values
}

/// Scores of a query head become weights.
#[inline(always)]
pub(super) fn weigh<S: Simd>(s: S, how: Attending<'_>, h: usize, scores: &mut [f32]) {
    apply(s, Times(how.scale), scores, None);
    if let Some(cap) = how.softcap {
        apply(s, Capped(cap), scores, None);
    }
    softmax(s, scores, how.sinks.map(|sinks| sinks[h]));
}

/// eˢ / Σ eˢ in place, with one more score in the sum.
#[inline(always)]
fn softmax<S: Simd>(s: S, scores: &mut [f32], extra: Option<f32>) {
    if scores.is_empty() {
        return;
    }
    let top = fold(s, Larger, scores, extra.unwrap_or(f32::NEG_INFINITY));
    apply(s, ExpLess(top), scores, None);
    let sum = fold(s, Sum, scores, extra.map_or(0.0, |x| (x - top).exp()));
    apply(s, Times(1.0 / sum), scores, None);
}
