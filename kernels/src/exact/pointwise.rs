//! Functions of single numbers over whole slices.

use super::dots::LANES;
use super::maths::{exp, tanh};
use crate::simd::Simd;
use scantling_core::ops::Activation;

/// A function of a number and of the one at the same place of another slice. A trait and not a closure, so that it is
/// inlined for sure and compiled for the instructions it is run with.
pub(super) trait Pointwise: Copy {
    /// Its value. Implementations are `#[inline(always)]`.
    fn of<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F;
}

/// `x = f(x, y)` everywhere; the last few stand in a vector that is filled up with zeros. Where `y` is not looked
/// at it may be `x` itself: pass none.
#[inline(always)]
pub(super) fn apply<S: Simd, P: Pointwise>(s: S, f: P, x: &mut [f32], y: Option<&[f32]>) {
    let whole = x.len() / S::LANES * S::LANES;
    let (vectors, rest) = S::floats_mut(x);
    for (i, x) in vectors.iter_mut().enumerate() {
        let a = s.load(x);
        let b = match y {
            Some(y) => s.load(&S::floats(y).0[i]),
            None => a,
        };
        s.store(f.of(s, a, b), x);
    }
    if !rest.is_empty() {
        let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
        a[..rest.len()].copy_from_slice(rest);
        if let Some(y) = y {
            b[..rest.len()].copy_from_slice(&y[whole..]);
        }
        let value = f.of(s, s.load(&S::floats(&a).0[0]), s.load(&S::floats(&b).0[0]));
        s.store(value, &mut S::floats_mut(&mut a).0[0]);
        rest.copy_from_slice(&a[..rest.len()]);
    }
}

/// What numbers are folded with, in any order.
pub(super) trait Fold: Copy {
    /// Lane by lane. Implementations are `#[inline(always)]`.
    fn lanes<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F;
    /// Of two numbers.
    fn one(self, x: f32, y: f32) -> f32;
}

/// All numbers folded into one. Four vectors are under way at a time, so that none waits for the last.
#[inline(always)]
pub(super) fn fold<S: Simd, P: Fold>(s: S, f: P, x: &[f32], start: f32) -> f32 {
    let (vectors, rest) = S::floats(x);
    let mut all = start;
    if let Some((first, more)) = vectors.split_first() {
        let mut folded = s.load(first);
        let (fours, few) = more.as_chunks::<4>();
        if let Some((four, more)) = fours.split_first() {
            let mut four = [s.load(&four[0]), s.load(&four[1]), s.load(&four[2]), s.load(&four[3])];
            for next in more {
                for (x, next) in four.iter_mut().zip(next) {
                    *x = f.lanes(s, *x, s.load(next));
                }
            }
            for x in four {
                folded = f.lanes(s, folded, x);
            }
        }
        for x in few {
            folded = f.lanes(s, folded, s.load(x));
        }
        let mut lanes = [0.0; LANES];
        s.store(folded, &mut S::floats_mut(&mut lanes).0[0]);
        for x in &lanes[..S::LANES] {
            all = f.one(all, *x);
        }
    }
    for x in rest {
        all = f.one(all, *x);
    }
    all
}

/// x + y.
#[derive(Clone, Copy)]
pub(super) struct Sum;

impl Fold for Sum {
    #[inline(always)]
    fn lanes<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F {
        s.add(x, y)
    }

    #[inline(always)]
    fn one(self, x: f32, y: f32) -> f32 {
        x + y
    }
}

/// The larger of x and y; x if either is NaN.
#[derive(Clone, Copy)]
pub(super) struct Larger;

impl Fold for Larger {
    #[inline(always)]
    fn lanes<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F {
        s.if_less(x, y, y, x)
    }

    #[inline(always)]
    fn one(self, x: f32, y: f32) -> f32 {
        if x < y { y } else { x }
    }
}

/// factor · x.
#[derive(Clone, Copy)]
pub(super) struct Times(pub f32);

impl Pointwise for Times {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::F, _: S::F) -> S::F {
        s.mul(s.splat(self.0), x)
    }
}

/// cap · tanh(x / cap).
#[derive(Clone, Copy)]
pub(super) struct Capped(pub f32);

impl Pointwise for Capped {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::F, _: S::F) -> S::F {
        let cap = s.splat(self.0);
        s.mul(cap, tanh(s, s.div(x, cap)))
    }
}

/// e to the power of x less a number.
#[derive(Clone, Copy)]
pub(super) struct ExpLess(pub f32);

impl Pointwise for ExpLess {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::F, _: S::F) -> S::F {
        exp(s, s.sub(x, s.splat(self.0)))
    }
}

/// See `ops::activate`.
#[derive(Clone, Copy)]
pub(super) struct Activated(pub Activation);

impl Pointwise for Activated {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::F, _: S::F) -> S::F {
        match self.0 {
            Activation::Silu => sigmoid_times(s, x, x),
            Activation::GeluTanh => {
                let cube = s.mul(s.mul(x, x), x);
                let inner = s.fma(s.splat(0.044_715), cube, x);
                let inner = s.mul(s.splat((2.0 / std::f64::consts::PI).sqrt() as f32), inner);
                let grown = s.add(s.splat(1.0), tanh(s, inner));
                s.mul(s.mul(s.splat(0.5), x), grown)
            }
            Activation::Clamped { alpha, limit } => {
                let x = s.clamp(x, s.splat(f32::NEG_INFINITY), s.splat(limit));
                sigmoid_times(s, x, s.mul(s.splat(alpha), x))
            }
        }
    }
}

/// See `ops::gate`.
#[derive(Clone, Copy)]
pub(super) struct Gated(pub Activation);

impl Pointwise for Gated {
    #[inline(always)]
    fn of<S: Simd>(self, s: S, x: S::F, y: S::F) -> S::F {
        let partner = match self.0 {
            Activation::Clamped { limit, .. } => {
                s.add(s.clamp(y, s.splat(-limit), s.splat(limit)), s.splat(1.0))
            }
            _ => y,
        };
        s.mul(Activated(self.0).of(s, x, x), partner)
    }
}

/// x / (1 + e⁻ᵃ).
#[inline(always)]
fn sigmoid_times<S: Simd>(s: S, x: S::F, a: S::F) -> S::F {
    let fallen = exp(s, s.sub(s.splat(0.0), a));
    s.div(x, s.add(s.splat(1.0), fallen))
}
