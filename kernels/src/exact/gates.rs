//! Activation functions, row by row.

use super::pointwise::{Activated, Capped, Gated, apply};
use crate::simd::{Op, Simd};
use scantling_core::matrix::{Rows, RowsMut};
use scantling_core::ops::Activation;

/// See `ops::activate`.
pub(super) struct Activate<'a> {
    pub activation: Activation,
    pub x: RowsMut<'a>,
}

impl Op for Activate<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        for t in 0..self.x.rows() {
            apply(s, Activated(self.activation), self.x.row(t), None);
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
            apply(s, Gated(self.activation), self.gate.row(t), Some(self.up.row(t)));
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
        for t in 0..self.x.rows() {
            apply(s, Capped(self.cap), self.x.row(t), None);
        }
    }
}
