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

/// Positions of queries that go through the keys together.
const TILE: usize = 8;
/// Query heads whose scores are computed together.
const MOST: usize = 4;
/// Positions that all heads go through before the next are touched: memory is then read in the order in which it lies.
const NEAR: usize = 8;
/// Positions that are asked for ahead of their use. The processor does not foresee them where a thread has but some of
/// the heads.
const AHEAD: usize = 8;
/// Vectors of sums that are held at a time, at most.
const WIDEST: usize = 4;

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

/// How many sums there are for a query, whose values have so many elements.
fn long<S: Simd>(value: usize) -> usize {
    value.next_multiple_of(WIDEST * S::LANES)
}

/// Bytes that it takes for itself, of so many rows of queries and so many positions.
pub(super) struct Takes<'a>(pub &'a Attending<'a>, pub usize, pub usize);

impl Op for Takes<'_> {
    type Out = usize;

    #[inline(always)]
    fn call<S: Simd>(self, _: S) -> usize {
        let Takes(how, rows, positions) = self;
        let queries = rows.min(TILE) * how.heads;
        let seen = how.window.map_or(positions, |window| positions.min(window.saturating_add(TILE)));
        let numbers = how.key.next_multiple_of(S::LANES) + seen + long::<S>(how.value);
        queries * (numbers * size_of::<f32>() + 2 * size_of::<Query>())
    }
}

impl Attend<'_> {
    /// Keys and values that are read where they lie, those of all heads together.
    #[inline(always)]
    fn in_place<S: Simd, W: for<'a> Stored<S, Stack<'a> = Matrix<'a>>>(mut self, s: S) {
        let (how, mut stacks) = (self.how, Vec::new());
        for g in 0..how.kv_heads {
            let k = self.k.cols_at(g * how.key..(g + 1) * how.key);
            let v = self.v.cols_at(g * how.value..(g + 1) * how.value);
            stacks.push((k, v));
        }
        self.heads::<S, W>(s, 0, &stacks);
    }

    /// Keys and values that are widened first, one head at a time.
    #[inline(always)]
    fn widened<S: Simd>(mut self, s: S) {
        let how = self.how;
        let count = self.k.rows();
        let (mut keys, mut values) = (vec![0.0; count * how.key], vec![0.0; count * how.value]);
        for g in 0..how.kv_heads {
            widen(s, self.k.cols_at(g * how.key..(g + 1) * how.key), &mut keys);
            widen(s, self.v.cols_at(g * how.value..(g + 1) * how.value), &mut values);
            let (k, v) = (Rows::new(&keys, count, how.key), Rows::new(&values, count, how.value));
            self.heads::<S, Widened>(s, g, &[(k, v)]);
        }
    }

    /// Key-value heads from number `g` on, with all queries that look at them.
    #[inline(always)]
    fn heads<S: Simd, W: Stored<S>>(&mut self, s: S, g: usize, stacks: &[(W::Stack<'_>, W::Stack<'_>)]) {
        let (how, count) = (self.how, self.k.rows());
        for first in (0..self.q.rows()).step_by(TILE) {
            let last = self.q.rows().min(first + TILE);
            let all = how.seen(first, count).start..how.seen(last - 1, count).end;
            let mut sets = Vec::new();
            for stack in 0..stacks.len() {
                self.sets::<S>(g, stack, first..last, &all, &mut sets);
            }
            for near in all.clone().step_by(NEAR) {
                let near = near..all.end.min(near + NEAR);
                for set in &mut sets {
                    let (keys, near) = (stacks[set.stack].0, near.clone());
                    match set.queries.len() {
                        1 => set.look::<S, W, 1, 4>(s, keys, near, &all),
                        2 => set.look::<S, W, 2, 4>(s, keys, near, &all),
                        3 => set.look::<S, W, 3, 2>(s, keys, near, &all),
                        _ => set.look::<S, W, MOST, 2>(s, keys, near, &all),
                    }
                }
            }
            for set in &mut sets {
                for (query, scores) in set.queries.iter().zip(set.scores.chunks_mut(all.len().max(1))) {
                    weigh(s, how, query.head, &mut scores[within(query.seen.clone(), &all)]);
                }
            }
            for near in all.clone().step_by(NEAR) {
                let near = near..all.end.min(near + NEAR);
                for set in &mut sets {
                    let (values, near) = (stacks[set.stack].1, near.clone());
                    match set.queries.len() {
                        1 => set.gather::<S, W, 1, WIDEST>(s, values, near, &all),
                        2 => set.gather::<S, W, 2, WIDEST>(s, values, near, &all),
                        3 => set.gather::<S, W, 3, 2>(s, values, near, &all),
                        _ => set.gather::<S, W, MOST, 2>(s, values, near, &all),
                    }
                }
            }
            for set in &sets {
                let long = set.sums.len() / set.queries.len();
                for (query, sums) in set.queries.iter().zip(set.sums.chunks_exact(long.max(1))) {
                    let out = &mut self.out.row(query.row)[query.head * how.value..][..how.value];
                    out.copy_from_slice(&sums[..how.value]);
                }
            }
        }
    }

    /// The queries of some rows that look at key-value head `g + stack`.
    #[inline(always)]
    fn sets<S: Simd>(
        &self,
        g: usize,
        stack: usize,
        rows: Range<usize>,
        all: &Range<usize>,
        sets: &mut Vec<Set>,
    ) {
        let (how, count, g) = (self.how, self.k.rows(), g + stack);
        let group = how.heads / how.kv_heads;
        let mut queries = Vec::new();
        for row in rows {
            for head in g * group..(g + 1) * group {
                queries.push(Query { row, head, seen: how.seen(row, count) });
            }
        }
        let long = long::<S>(how.value);
        for queries in queries.chunks(MOST) {
            let x = |i: usize| &self.q.row(queries[i].row)[queries[i].head * how.key..][..how.key];
            sets.push(Set {
                stack,
                x: match queries.len() {
                    1 => side_by_side::<S, 1>([x(0)]),
                    2 => side_by_side::<S, 2>([x(0), x(1)]),
                    3 => side_by_side::<S, 3>([x(0), x(1), x(2)]),
                    _ => side_by_side::<S, MOST>([x(0), x(1), x(2), x(3)]),
                },
                width: how.key,
                scores: vec![0.0; queries.len() * all.len()],
                sums: vec![0.0; queries.len() * long],
                queries: queries.to_vec(),
            });
        }
    }
}

/// A head of a query.
#[derive(Clone)]
struct Query {
    row: usize,
    head: usize,
    /// The positions that it sees.
    seen: Range<usize>,
}

/// Up to [`MOST`] queries that look at the same keys.
struct Set {
    /// Number of their keys and values.
    stack: usize,
    queries: Vec<Query>,
    /// Those, side by side, each of so many numbers.
    x: Vec<f32>,
    width: usize,
    /// `[query][position]`, later weights.
    scores: Vec<f32>,
    /// `[query][element]`, whole multiples of [`WIDEST`] vectors.
    sums: Vec<f32>,
}

impl Set {
    /// Scores of `M` queries, for the keys of some positions, `R` at a time.
    #[inline(always)]
    fn look<S: Simd, W: Stored<S>, const M: usize, const R: usize>(
        &mut self,
        s: S,
        stack: W::Stack<'_>,
        near: Range<usize>,
        all: &Range<usize>,
    ) {
        let mut p = near.start;
        while p + R <= near.end {
            let mut keys = [W::row(stack, p); R];
            for (r, key) in keys.iter_mut().enumerate() {
                *key = W::row(stack, p + r);
                if p + r + AHEAD < all.end {
                    W::ask_for(s, W::row(stack, p + r + AHEAD));
                }
            }
            let found = dots::<S, W, R, M, 1>(s, keys, &self.x, self.width);
            for (r, found) in found.iter().enumerate() {
                self.put(p + r, found, all);
            }
            p += R;
        }
        for p in p..near.end {
            let [found] = dots::<S, W, 1, M, 1>(s, [W::row(stack, p)], &self.x, self.width);
            self.put(p, &found, all);
        }
    }

    /// Scores of a position.
    #[inline(always)]
    fn put<const M: usize>(&mut self, p: usize, found: &[f32; M], all: &Range<usize>) {
        for (m, found) in found.iter().enumerate() {
            self.scores[m * all.len() + p - all.start] = *found;
        }
    }

    /// Adds the weighted values of some positions to the sums of `M` queries: of those that all of them see to all at
    /// once, of the few before and behind to each by itself. Every sum is taken in the order of the positions.
    #[inline(always)]
    fn gather<S: Simd, W: Stored<S>, const M: usize, const V: usize>(
        &mut self,
        s: S,
        stack: W::Stack<'_>,
        near: Range<usize>,
        all: &Range<usize>,
    ) {
        let mut shared = near.clone();
        let mut weights = [&self.scores[..0]; M];
        for (m, query) in self.queries.iter().enumerate() {
            shared = shared.start.max(query.seen.start)..shared.end.min(query.seen.end);
            weights[m] = &self.scores[m * all.len()..][..all.len()];
        }
        if shared.is_empty() {
            shared = near.end..near.end;
        }
        let long = self.sums.len() / M;
        for (m, query) in self.queries.iter().enumerate() {
            let own = near.start.max(query.seen.start)..query.seen.end.min(shared.start);
            add::<S, W, 1, V>(s, stack, own, [weights[m]], all, &mut self.sums[m * long..][..long]);
        }
        add::<S, W, M, V>(s, stack, shared.clone(), weights, all, &mut self.sums);
        for (m, query) in self.queries.iter().enumerate() {
            let own = shared.end.max(query.seen.start)..query.seen.end.min(near.end);
            add::<S, W, 1, V>(s, stack, own, [weights[m]], all, &mut self.sums[m * long..][..long]);
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

/// Adds the weighted values of up to [`NEAR`] positions to sums, `[query][element]`, whose rows are whole multiples of
/// `V` vectors. Weights are counted from the start of `all`.
#[inline(always)]
fn add<S: Simd, W: Stored<S>, const M: usize, const V: usize>(
    s: S,
    v: W::Stack<'_>,
    near: Range<usize>,
    weights: [&[f32]; M],
    all: &Range<usize>,
    sums: &mut [f32],
) {
    if near.is_empty() {
        return;
    }
    let mut rows = [W::row(v, near.start); NEAR];
    for (row, p) in rows.iter_mut().zip(near.clone()) {
        *row = W::row(v, p);
        if p + AHEAD < all.end {
            W::ask_for(s, W::row(v, p + AHEAD));
        }
    }
    let mut own = weights;
    for own in &mut own {
        *own = &own[near.start - all.start..][..near.len()];
    }
    let long = sums.len() / M;
    for first in (0..long / S::LANES).step_by(V) {
        let mut vectors = [[s.splat(0.0); V]; M];
        for (m, vectors) in vectors.iter_mut().enumerate() {
            load(s, &sums[m * long + first * S::LANES..][..V * S::LANES], vectors);
        }
        for (i, row) in rows[..near.len()].iter().enumerate() {
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
