//! Attention over stored keys and values.

use super::dots::Dot;
use super::maths::{exp, tanh};
use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{Attending, head};

/// More lanes than any vector has.
const LANES: usize = 64;

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
    fn call<S: Simd>(mut self, s: S) {
        let how = self.how;
        let group = how.heads / how.kv_heads;
        let mut scores = Vec::new();
        let mut value = vec![0.0; how.value];
        for t in 0..self.q.rows() {
            let seen = how.seen(t, self.k.rows());
            for h in 0..how.heads {
                let query = &self.q.row(t)[h * how.key..][..how.key];
                scores.clear();
                for p in seen.clone() {
                    let key = head(self.k, p, h / group, how.key);
                    scores.push(Dot { dtype: self.k.dtype(), w: key, x: query }.call(s) * how.scale);
                }
                if let Some(cap) = how.softcap {
                    capped(s, &mut scores, cap);
                }
                softmax(s, &mut scores, how.sinks.map(|sinks| sinks[h]));
                let out = &mut self.out.row(t)[h * how.value..][..how.value];
                out.fill(0.0);
                for (p, weight) in seen.clone().zip(&scores) {
                    let raw = head(self.v, p, h / group, how.value);
                    Widen { dtype: self.v.dtype(), raw, out: &mut value }.call(s);
                    add_times(s, out, &value, *weight);
                }
            }
        }
    }
}

/// `y += factor · x`.
#[inline(always)]
fn add_times<S: Simd>(s: S, y: &mut [f32], x: &[f32], factor: f32) {
    let wide = s.splat(factor);
    let (vectors, rest) = S::floats_mut(y);
    let (others, others_rest) = S::floats(x);
    for (y, x) in vectors.iter_mut().zip(others) {
        let sum = s.fma(wide, s.load(x), s.load(y));
        s.store(sum, y);
    }
    for (y, x) in rest.iter_mut().zip(others_rest) {
        *y = factor.mul_add(*x, *y);
    }
}

/// `cap · tanh(x / cap)`.
#[inline(always)]
fn capped<S: Simd>(s: S, scores: &mut [f32], cap: f32) {
    let wide = s.splat(cap);
    each(s, scores, |x| s.mul(wide, tanh(s, s.div(x, wide))));
}

/// `x = f(x)`, the last few in a vector that is filled up with zeros.
#[inline(always)]
fn each<S: Simd>(s: S, x: &mut [f32], f: impl Fn(S::F) -> S::F) {
    let (vectors, rest) = S::floats_mut(x);
    for x in vectors {
        let value = f(s.load(x));
        s.store(value, x);
    }
    if !rest.is_empty() {
        let mut lanes = [0.0; LANES];
        lanes[..rest.len()].copy_from_slice(rest);
        let value = f(s.load(&S::floats(&lanes).0[0]));
        s.store(value, &mut S::floats_mut(&mut lanes).0[0]);
        rest.copy_from_slice(&lanes[..rest.len()]);
    }
}

/// eˢ / Σ eˢ in place, with one more score in the sum.
#[inline(always)]
fn softmax<S: Simd>(s: S, scores: &mut [f32], extra: Option<f32>) {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let Some(top) = scores.iter().copied().chain(extra).reduce(larger) else { return };
    let wide = s.splat(top);
    each(s, scores, |x| exp(s, s.sub(x, wide)));
    let sum = scores.iter().fold(extra.map_or(0.0, |x| (x - top).exp()), |sum, x| sum + x);
    let share = s.splat(1.0 / sum);
    each(s, scores, |x| s.mul(x, share));
}
