//! Attention of a few positions over stored keys and values, which are read once, where they lie.
//!
//! Queries that look at the same keys are taken together: all query heads of a key-value head, for a few positions.
//! Sums are taken in the same order however many there are, so cutting the queries or the heads changes no bit.

use super::dots::{Brain, Half, LANES, Single, Stored, Widened, dots, side_by_side};
use super::pointwise::{Capped, ExpLess, Larger, Sum, Times, apply, fold};
use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::Attending;
use std::ops::Range;

/// Positions whose queries are taken together.
const TILE: usize = 8;
/// Vectors of a value that are summed at a time.
const WIDE: usize = 2;

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
            let mut rest = &queries[..];
            let mut at = 0;
            while !rest.is_empty() {
                let taken = if rest.len() >= 4 { 4 } else { 1 };
                let (now, later) = rest.split_at(taken);
                let weights = &scores[at * all.len()..][..taken * all.len()];
                if taken == 4 {
                    self.gather::<S, W, 4>(s, v, now, weights, &all);
                } else {
                    self.gather::<S, W, 1>(s, v, now, weights, &all);
                }
                at += taken;
                rest = later;
            }
        }
    }

    /// Weighted sums of the values for `M` queries. They share the positions that all of them see; the few before
    /// and behind are each query's own.
    #[inline(always)]
    fn gather<S: Simd, W: Stored<S>, const M: usize>(
        &mut self,
        s: S,
        v: W::Stack<'_>,
        queries: &[(usize, usize, &[f32])],
        weights: &[f32],
        all: &Range<usize>,
    ) {
        let (width, count) = (self.how.value, self.k.rows());
        let mut seen = [const { 0..0 }; M];
        let mut own = [&weights[..0]; M];
        for (m, (t, _, _)) in queries.iter().enumerate().take(M) {
            seen[m] = self.how.seen(*t, count);
            own[m] = &weights[m * all.len()..][..all.len()];
        }
        let start = seen.iter().map(|r| r.start).max().unwrap_or(0);
        let end = seen.iter().map(|r| r.end).min().unwrap_or(0).max(start);
        let vectors = width / S::LANES;
        let mut first = 0;
        while first * S::LANES < width {
            let taken = if first + WIDE <= vectors { WIDE } else { 1 };
            let mut sums = [[s.splat(0.0); WIDE]; M];
            for m in 0..M {
                let before = seen[m].start..start.min(seen[m].end);
                sums[m] = add::<S, W, 1>(s, v, first, before, [own[m]], all.start, [sums[m]])[0];
            }
            sums = add::<S, W, M>(s, v, first, start..end, own, all.start, sums);
            for m in 0..M {
                let behind = end.max(seen[m].start)..seen[m].end;
                sums[m] = add::<S, W, 1>(s, v, first, behind, [own[m]], all.start, [sums[m]])[0];
            }
            for (sums, (t, h, _)) in sums.iter().zip(queries) {
                let out = &mut self.out.row(*t)[h * width..][..width];
                put(s, sums, taken, &mut out[first * S::LANES..]);
            }
            first += taken;
        }
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
    let (fours, ones) = queries.as_chunks::<4>();
    let (first, rest) = scores.split_at_mut(4 * fours.len() * all.len());
    for ([(_, _, a), (_, _, b), (_, _, c), (_, _, d)], scores) in
        fours.iter().zip(first.chunks_mut(4 * all.len().max(1)))
    {
        look_with::<S, W, 4>(s, k, [a, b, c, d], all.clone(), scores);
    }
    for ((_, _, query), scores) in ones.iter().zip(rest.chunks_mut(all.len().max(1))) {
        look_with::<S, W, 1>(s, k, [query], all.clone(), scores);
    }
}

/// The same for `M` queries.
#[inline(always)]
fn look_with<S: Simd, W: Stored<S>, const M: usize>(
    s: S,
    k: W::Stack<'_>,
    queries: [&[f32]; M],
    all: Range<usize>,
    scores: &mut [f32],
) {
    let (x, cols, count) = (side_by_side::<S, M>(queries), queries[0].len(), all.len());
    for i in (0..count / 2 * 2).step_by(2) {
        let keys = [W::row(k, all.start + i), W::row(k, all.start + i + 1)];
        let [first, second] = dots::<S, W, 2, M, 1>(s, keys, &x, cols);
        for m in 0..M {
            scores[m * count + i] = first[m];
            scores[m * count + i + 1] = second[m];
        }
    }
    if !count.is_multiple_of(2) {
        let [last] = dots::<S, W, 1, M, 1>(s, [W::row(k, all.end - 1)], &x, cols);
        for m in 0..M {
            scores[m * count + count - 1] = last[m];
        }
    }
}

/// Adds the weighted values of a range of positions, vectors `first..first + WIDE` of each as far as there are so
/// many. Weights are counted from position `from`.
#[inline(always)]
fn add<S: Simd, W: Stored<S>, const M: usize>(
    s: S,
    v: W::Stack<'_>,
    first: usize,
    range: Range<usize>,
    weights: [&[f32]; M],
    from: usize,
    start: [[S::F; WIDE]; M],
) -> [[S::F; WIDE]; M] {
    let mut sums = start;
    for p in range {
        let row = W::row(v, p);
        let raw = W::vectors(row);
        let mut values = [s.splat(0.0); WIDE];
        if first < raw.len() {
            for (value, raw) in values.iter_mut().zip(&raw[first..]) {
                *value = W::load(s, raw);
            }
        } else {
            values[0] = s.load(&S::floats(&W::tail(row, first * S::LANES)).0[0]);
        }
        for (sums, weights) in sums.iter_mut().zip(&weights) {
            let weight = s.splat(weights[p - from]);
            for (sum, value) in sums.iter_mut().zip(&values) {
                *sum = s.fma(weight, *value, *sum);
            }
        }
    }
    sums
}

/// Writes `taken` vectors, or what there is room for.
#[inline(always)]
fn put<S: Simd>(s: S, sums: &[S::F; WIDE], taken: usize, out: &mut [f32]) {
    let (vectors, rest) = S::floats_mut(out);
    if vectors.is_empty() {
        let mut lanes = [0.0; LANES];
        s.store(sums[0], &mut S::floats_mut(&mut lanes).0[0]);
        rest.copy_from_slice(&lanes[..rest.len()]);
    }
    for (out, sum) in vectors.iter_mut().zip(sums).take(taken) {
        s.store(*sum, out);
    }
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
