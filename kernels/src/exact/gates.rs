//! Activation functions.

use super::maths::{exp, tanh};
use crate::simd::{Op, Simd};
use scantling_core::matrix::{Rows, RowsMut};
use scantling_core::ops::Activation;

/// More lanes than any vector has.
const LANES: usize = 64;

/// `x = f(x, y)` for each pair of numbers, the last few in a vector that is filled up with zeros.
#[inline(always)]
fn each<S: Simd>(s: S, x: &mut [f32], y: &[f32], f: impl Fn(S::F, S::F) -> S::F) {
    let (vectors, rest) = S::floats_mut(x);
    let (others, others_rest) = S::floats(y);
    for (x, y) in vectors.iter_mut().zip(others) {
        let value = f(s.load(x), s.load(y));
        s.store(value, x);
    }
    if !rest.is_empty() {
        let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
        a[..rest.len()].copy_from_slice(rest);
        b[..rest.len()].copy_from_slice(others_rest);
        let value = f(s.load(&S::floats(&a).0[0]), s.load(&S::floats(&b).0[0]));
        s.store(value, &mut S::floats_mut(&mut a).0[0]);
        rest.copy_from_slice(&a[..rest.len()]);
    }
}

/// x / (1 + e⁻ᵃ).
#[inline(always)]
fn sigmoid_times<S: Simd>(s: S, x: S::F, a: S::F) -> S::F {
    let fallen = exp(s, s.sub(s.splat(0.0), a));
    s.div(x, s.add(s.splat(1.0), fallen))
}

/// The activation of `x`, and what it is multiplied by, made of `u`.
#[inline(always)]
fn activated<S: Simd>(s: S, activation: Activation, x: S::F, u: S::F) -> (S::F, S::F) {
    match activation {
        Activation::Silu => (sigmoid_times(s, x, x), u),
        Activation::GeluTanh => {
            let cube = s.mul(s.mul(x, x), x);
            let inner = s.fma(s.splat(0.044_715), cube, x);
            let inner = s.mul(s.splat((2.0 / std::f64::consts::PI).sqrt() as f32), inner);
            let grown = s.add(s.splat(1.0), tanh(s, inner));
            (s.mul(s.mul(s.splat(0.5), x), grown), u)
        }
        Activation::Clamped { alpha, limit } => {
            let (low, high) = (s.splat(-limit), s.splat(limit));
            let x = s.clamp(x, s.splat(f32::NEG_INFINITY), high);
            let gated = sigmoid_times(s, x, s.mul(s.splat(alpha), x));
            (gated, s.add(s.clamp(u, low, high), s.splat(1.0)))
        }
    }
}

/// See `ops::activate`.
pub(super) struct Activate<'a> {
    pub activation: Activation,
    pub x: RowsMut<'a>,
}

impl Op for Activate<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        let zeros = vec![0.0; self.x.cols()];
        for t in 0..self.x.rows() {
            each(s, self.x.row(t), &zeros, |x, u| activated(s, self.activation, x, u).0);
        }
    }
}

/// See `ops::gate`.
pub(super) struct Gate<'a> {
    pub activation: Activation,
    pub gate: RowsMut<'a>,
    pub up: Rows<'a>,
}

impl Op for Gate<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        for t in 0..self.gate.rows() {
            each(s, self.gate.row(t), self.up.row(t), |x, u| {
                let (x, u) = activated(s, self.activation, x, u);
                s.mul(x, u)
            });
        }
    }
}

/// See `ops::softcap`.
pub(super) struct Softcap<'a> {
    pub x: RowsMut<'a>,
    pub cap: f32,
}

impl Op for Softcap<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        let (zeros, cap) = (vec![0.0; self.x.cols()], s.splat(self.cap));
        for t in 0..self.x.rows() {
            each(s, self.x.row(t), &zeros, |x, _| s.mul(cap, tanh(s, s.div(x, cap))));
        }
    }
}
