//! Norms.

use crate::simd::{Op, Simd};
use scantling_core::matrix::RowsMut;

/// Σ (x - centre)², over vectors with four running sums, then over what is left.
#[inline(always)]
fn squares<S: Simd>(s: S, x: &[f32], centre: f32) -> f32 {
    let (fours, ones) = S::floats(x).0.as_chunks::<4>();
    let (middle, mut sums) = (s.splat(centre), [s.splat(0.0); 4]);
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four) {
            let away = s.sub(s.load(x), middle);
            *sum = s.fma(away, away, *sum);
        }
    }
    for x in ones {
        let away = s.sub(s.load(x), middle);
        sums[0] = s.fma(away, away, sums[0]);
    }
    let all = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
    S::floats(x).1.iter().fold(s.sum(all), |sum, x| sum + (x - centre) * (x - centre))
}

/// Σ x likewise.
#[inline(always)]
fn total<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (fours, ones) = S::floats(x).0.as_chunks::<4>();
    let mut sums = [s.splat(0.0); 4];
    for four in fours {
        for (sum, x) in sums.iter_mut().zip(four) {
            *sum = s.add(*sum, s.load(x));
        }
    }
    for x in ones {
        sums[0] = s.add(sums[0], s.load(x));
    }
    let all = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
    S::floats(x).1.iter().fold(s.sum(all), |sum, x| sum + x)
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
                let root = (squares(s, run, 0.0) / run.len() as f32 + self.eps).sqrt();
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
            let mean = total(s, row) / width;
            let root = (squares(s, row, mean) / width + self.eps).sqrt();
            for ((x, w), b) in row.iter_mut().zip(self.weight).zip(self.bias) {
                *x = (*x - mean) / root * w + b;
            }
        }
    }
}
