//! Norms.

use crate::simd::{Op, Simd};
use scantling_core::matrix::RowsMut;

/// Σ f(x), over vectors with four running sums, then over what is left.
#[inline(always)]
fn sum<S: Simd>(s: S, x: &[f32], f: impl Fn(S::F) -> S::F, last: impl Fn(f32) -> f32) -> f32 {
    let (vectors, rest) = S::floats(x);
    let (fours, ones) = vectors.as_chunks::<4>();
    let mut sums = [s.splat(0.0); 4];
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four) {
            *sum = s.add(*sum, f(s.load(x)));
        }
    }
    for x in ones {
        sums[0] = s.add(sums[0], f(s.load(x)));
    }
    let all = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
    rest.iter().fold(s.sum(all), |sum, x| sum + last(*x))
}

/// See `ops::rms_norm`.
pub(super) struct RmsNorm<'a> {
    pub x: RowsMut<'a>,
    pub weight: &'a [f32],
    pub eps: f32,
}

impl Op for RmsNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        for t in 0..self.x.rows() {
            for run in self.x.row(t).chunks_mut(self.weight.len().max(1)) {
                let squares = sum(s, run, |x| s.mul(x, x), |x| x * x);
                let root = (squares / run.len() as f32 + self.eps).sqrt();
                for (x, w) in run.iter_mut().zip(self.weight) {
                    *x = *x / root * w;
                }
            }
        }
    }
}

/// See `ops::layer_norm`.
pub(super) struct LayerNorm<'a> {
    pub x: RowsMut<'a>,
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    pub eps: f32,
}

impl Op for LayerNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(mut self, s: S) {
        let width = self.x.cols() as f32;
        for t in 0..self.x.rows() {
            let row = self.x.row(t);
            let mean = sum(s, row, |x| x, |x| x) / width;
            let centre = s.splat(mean);
            let squares = sum(
                s,
                row,
                |x| {
                    let away = s.sub(x, centre);
                    s.mul(away, away)
                },
                |x| (x - mean) * (x - mean),
            );
            let root = (squares / width + self.eps).sqrt();
            for ((x, w), b) in row.iter_mut().zip(self.weight).zip(self.bias) {
                *x = (*x - mean) / root * w + b;
            }
        }
    }
}
