//! Attention of many positions, as two products of matrices.
//!
//! Keys are turned into panels, so that a vector holds the same element of several keys, and values into panels of
//! several elements of one value. Both are then multiplied as weights are, with as many query heads at a time as there
//! are sums in registers: query heads that share a key-value head stand in one list, position by position.
//!
//! A sum is taken in the order of the positions that its own query sees, whatever it stands beside: cutting the heads
//! changes no bit. What a query does not see is never touched, not even times zero.

use super::attention::{Attend, weigh, within};
use super::panels::{DEEP, LANES, columns, fill, load, store};
use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::ops::Attending;
use std::ops::Range;

/// Query heads, of one or more positions, that go through the keys together: whole tiles of any height.
const TOGETHER: usize = 24;

/// The same, gone about in this way.
pub(super) struct AttendMany<'a>(pub Attend<'a>);

impl Op for AttendMany<'_> {
    type Out = ();

    /// Tiles as in products with many rows.
    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        match S::LANES {
            4 => Heads::<S, 6, 4>::new(s, self.0).run(),
            8 => Heads::<S, 6, 2>::new(s, self.0).run(),
            _ => Heads::<S, 12, 2>::new(s, self.0).run(),
        }
    }
}

/// Bytes that it takes for itself, of so many positions.
pub(super) struct Takes<'a>(pub &'a Attending<'a>, pub usize);

impl Op for Takes<'_> {
    type Out = usize;

    #[inline(always)]
    fn call<S: Simd>(self, _: S) -> usize {
        let room = match S::LANES {
            4 => Heads::<S, 6, 4>::room(self.0, self.1),
            8 => Heads::<S, 6, 2>::room(self.0, self.1),
            _ => Heads::<S, 12, 2>::room(self.0, self.1),
        };
        size_of::<f32>() * (room.iter().sum::<usize>() + wide::<S>(self.0.value))
    }
}

/// How many numbers are widened at a time, of keys or of a value with so many elements.
fn wide<S: Simd>(value: usize) -> usize {
    (S::LANES * DEEP).max(value)
}

/// All heads, in tiles of `M` query heads by `V` vectors.
struct Heads<'a, S, const M: usize, const V: usize> {
    s: S,
    a: Attend<'a>,
    /// `[panel][element][position]`.
    keys: Vec<f32>,
    /// `[panel][position][element]`.
    values: Vec<f32>,
    /// Queries by tiles: `[tile][element][M]`.
    queries: Vec<f32>,
    /// A row for each query head, from a panel's first position on.
    scores: Vec<f32>,
    /// Those of a tile: `[position][M]`.
    weights: Vec<f32>,
}

impl<'a, S: Simd, const M: usize, const V: usize> Heads<'a, S, M, V> {
    const WIDE: usize = V * S::LANES;

    #[inline(always)]
    fn new(s: S, a: Attend<'a>) -> Self {
        let room = Self::room(&a.how, a.k.rows());
        let [keys, values, queries, scores, weights] = room.map(|numbers| vec![0.0; numbers]);
        Heads { s, a, keys, values, queries, scores, weights }
    }

    /// How many numbers each of its parts has at most, of so many positions.
    fn room(how: &Attending<'_>, count: usize) -> [usize; 5] {
        let panels = |n: usize| n.next_multiple_of(Self::WIDE);
        // What the first query that goes through the keys with others sees begins before what the last one sees does.
        let seen = how.window.map_or(count, |window| count.min(window.saturating_add(TOGETHER)));
        let length = panels(count).min(panels(seen) + Self::WIDE);
        let tiles = TOGETHER.next_multiple_of(M);
        [panels(count) * how.key, panels(how.value) * count, tiles * how.key, tiles * length, seen * M]
    }

    #[inline(always)]
    fn run(mut self) {
        let group = self.a.how.heads / self.a.how.kv_heads;
        let all = self.a.q.rows() * group;
        for g in 0..self.a.how.kv_heads {
            self.widen(g);
            for first in (0..all).step_by(TOGETHER) {
                self.together(g, first..all.min(first + TOGETHER));
            }
        }
    }

    /// The position and the head of an entry of a key-value head's list of queries.
    #[inline(always)]
    fn query(&self, g: usize, i: usize) -> (usize, usize) {
        let group = self.a.how.heads / self.a.how.kv_heads;
        (i / group, g * group + i % group)
    }

    #[inline(always)]
    fn seen(&self, g: usize, i: usize) -> Range<usize> {
        self.a.how.seen(self.query(g, i).0, self.a.k.rows())
    }

    /// Panels of the keys and values of one head.
    #[inline(always)]
    fn widen(&mut self, g: usize) {
        let (s, how, count) = (self.s, self.a.how, self.a.k.rows());
        let mut wide = vec![0.0; wide::<S>(how.value)];
        if how.key > 0 {
            let panels = self.keys.chunks_exact_mut(Self::WIDE * how.key);
            for (panel, at) in panels.zip((0..count).step_by(Self::WIDE)) {
                for from in (0..how.key).step_by(DEEP) {
                    let deep = DEEP.min(how.key - from);
                    let k = self.a.k.cols_at(g * how.key + from..g * how.key + from + deep);
                    fill::<S, V>(s, k, at, &mut wide, &mut panel[from * Self::WIDE..]);
                }
            }
        }
        let v = self.a.v.cols_at(g * how.value..(g + 1) * how.value);
        let row = &mut wide[..how.value];
        for position in 0..count {
            s.run(Widen { dtype: v.dtype(), raw: v.row(position), out: row });
            for (panel, part) in row.chunks(Self::WIDE).enumerate() {
                let at = (panel * count + position) * Self::WIDE;
                self.values[at..at + part.len()].copy_from_slice(part);
            }
        }
    }

    /// Some entries of a head's list of queries.
    #[inline(always)]
    fn together(&mut self, g: usize, some: Range<usize>) {
        let how = self.a.how;
        let (first, last) = (self.seen(g, some.start), self.seen(g, some.end - 1));
        // Later positions neither begin nor end earlier.
        let panels = first.start / Self::WIDE..last.end.div_ceil(Self::WIDE);
        let from = panels.start * Self::WIDE;
        let length = panels.len() * Self::WIDE;
        let tiles = some.len().div_ceil(M);
        self.look(g, some.clone(), panels);
        for (row, i) in some.clone().enumerate() {
            let (seen, (_, h)) = (self.seen(g, i), self.query(g, i));
            let scores = &mut self.scores[row * length..][..length];
            weigh(self.s, how, h, &mut scores[within(seen, &(from..from + length))]);
        }
        for tile in 0..tiles {
            let rows = tile * M..some.len().min((tile + 1) * M);
            self.gather(g, some.start, rows, from, length);
        }
    }

    /// The scores of all keys of some panels.
    #[inline(always)]
    fn look(&mut self, g: usize, some: Range<usize>, panels: Range<usize>) {
        let (s, key) = (self.s, self.a.how.key);
        let length = panels.len() * Self::WIDE;
        for (row, i) in some.clone().enumerate() {
            let (t, h) = self.query(g, i);
            let tile = &mut self.queries[row / M * M * key..][..M * key];
            for (to, x) in tile.chunks_exact_mut(M).zip(&self.a.q.row(t)[h * key..]) {
                to[row % M] = *x;
            }
        }
        for (at, panel) in panels.enumerate() {
            let panel = &self.keys[panel * Self::WIDE * key..][..Self::WIDE * key];
            for tile in 0..some.len().div_ceil(M) {
                let x = &self.queries[tile * M * key..][..M * key];
                let sums = columns(s, panel, x, [[s.splat(0.0); V]; M]);
                for (m, sums) in sums.iter().enumerate() {
                    let row = (tile * M + m) * length + at * Self::WIDE;
                    store(s, sums, &mut self.scores[row..][..Self::WIDE]);
                }
            }
        }
    }

    /// The weighted sums of the values for a tile of queries, whose weights begin at a position and are so many to a
    /// row. Queries share what all of them see; the few before and behind are each one's own.
    #[inline(always)]
    fn gather(&mut self, g: usize, start: usize, rows: Range<usize>, from: usize, length: usize) {
        let (s, count, width) = (self.s, self.a.k.rows(), self.a.how.value);
        let (first, last) = (self.seen(g, start + rows.start), self.seen(g, start + rows.end - 1));
        let shared = last.start..first.end.max(last.start);
        for m in 0..M {
            // Past the last query stand weights of another: their sums go nowhere.
            let row = (rows.start + m.min(rows.len() - 1)) * length + shared.start - from;
            for (to, weight) in self.weights.chunks_exact_mut(M).zip(&self.scores[row..][..shared.len()]) {
                to[m] = *weight;
            }
        }
        for (panel, at) in (0..width).step_by(Self::WIDE).enumerate() {
            let values = &self.values[panel * count * Self::WIDE..][..count * Self::WIDE];
            let mut sums = [[s.splat(0.0); V]; M];
            for (sums, row) in sums.iter_mut().zip(rows.clone()) {
                let seen = self.seen(g, start + row);
                let weights = &self.scores[row * length..][..length];
                add::<S, V>(s, values, weights, seen.start..shared.start.min(seen.end), from, sums);
            }
            let common = &values[shared.start * Self::WIDE..shared.end * Self::WIDE];
            let sums = &mut columns(s, common, &self.weights[..shared.len() * M], sums);
            for (sums, row) in sums.iter_mut().zip(rows.clone()) {
                let seen = self.seen(g, start + row);
                let weights = &self.scores[row * length..][..length];
                add::<S, V>(s, values, weights, shared.end.max(seen.start)..seen.end, from, sums);
                let (t, h) = self.query(g, start + row);
                let mut lanes = [0.0; LANES];
                store(s, sums, &mut lanes);
                let wide = Self::WIDE.min(width - at);
                self.a.out.row(t)[h * width + at..][..wide].copy_from_slice(&lanes[..wide]);
            }
        }
    }
}

/// Adds the weighted values of a few positions; weights are counted from position `from`.
#[inline(always)]
fn add<S: Simd, const V: usize>(
    s: S,
    values: &[f32],
    weights: &[f32],
    positions: Range<usize>,
    from: usize,
    sums: &mut [S::F; V],
) {
    for p in positions {
        let weight = s.splat(weights[p - from]);
        let mut vectors = [s.splat(0.0); V];
        load(s, &values[p * V * S::LANES..][..V * S::LANES], &mut vectors);
        for (sum, value) in sums.iter_mut().zip(&vectors) {
            *sum = s.fma(*value, weight, *sum);
        }
    }
}
