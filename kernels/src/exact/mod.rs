//! Products of f32 activations with stored weights of any type, and the ops between them, in vectors.
//!
//! Written once over [`Simd`], compiled for each set of instructions. An output has the same bits wherever its row of
//! weights stands in a call and however many there are, so cutting the outputs changes nothing.

mod attention;
mod attention_many;
mod dots;
mod float8;
mod gates;
mod maths;
mod norms;
mod panels;
mod pointwise;
mod sums;
mod tally;
mod tally_blocks;
#[cfg(all(test, target_arch = "x86_64"))]
mod tally_tests;
mod widen;

use crate::simd::{Op, Simd};
use scantling_core::distance::{Accumulate, Distance, Run};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Job, Kernel};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{self, Activation, Attending, Linear};
use scantling_core::quant::{self, DecodeError};
use scantling_core::stats::piece::Piece;
use scantling_core::stats::tally::Tally;

/// From so many rows of activations on, weights, or keys and values, are widened and rearranged once for all of them.
const MANY: usize = 24;

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Of so many bytes or fewer, those behind them are asked for: whoever widens a piece at a time does something else with
/// it before the next, in which memory would stand idle. Of more, the processor foresees them itself.
const SHORT: usize = 4096;

/// The leaf for one set of instructions.
pub(crate) struct Exact<S> {
    name: &'static str,
    simd: S,
}

impl<S: Simd> Exact<S> {
    pub(crate) fn new(name: &'static str, simd: S) -> Exact<S> {
        Exact { name, simd }
    }
}

impl<S: Simd> Kernel for Exact<S> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        quant::check(dtype, raw, out)?;
        if raw.len() <= SHORT {
            for at in (0..raw.len()).step_by(LINE) {
                self.simd.prefetch_at(raw.as_ptr_range().end.wrapping_add(at));
            }
        }
        self.simd.run(widen::Widen { dtype, raw, out });
        Ok(())
    }

    fn distance(
        &self,
        accumulate: Accumulate,
        first: u64,
        pair: [&[f32]; 2],
        run: usize,
        runs: &mut Vec<Run>,
    ) -> Distance {
        self.simd.run(sums::Apart { accumulate, first, pair, run, runs })
    }

    fn tally(&self, dtype: DType, raw: &[u8]) -> Result<Tally, DecodeError> {
        let piece = Piece::new(dtype, raw)?;
        Ok(self.simd.run(tally::Look { dtype, raw, piece }))
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        self.simd.run(dots::Dot { dtype, w, x })
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let w = linear.weight;
        assert_eq!((x.cols(), x.rows(), w.rows()), (w.cols(), out.rows(), out.cols()), "{w:?} does not fit");
        if x.rows() < MANY {
            self.simd.run(dots::Few { linear, x, out });
        } else {
            self.simd.run(panels::Many { linear, x, out });
        }
    }

    fn embed(&self, w: Matrix<'_>, ids: &[u32], mut out: RowsMut<'_>) {
        for (t, id) in ids.iter().enumerate() {
            self.decode(w.dtype(), w.row(*id as usize), out.row(t))
                .expect("a row is whole blocks of a decodable type");
        }
    }

    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        self.simd.run(norms::RmsNorm { x, weight, eps });
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        self.simd.run(norms::LayerNorm { x, weight, bias, eps });
    }

    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let attend = attention::Attend { q, k, v, how, out };
        if q.rows() < MANY {
            self.simd.run(attend);
        } else {
            self.simd.run(attention_many::AttendMany(attend));
        }
    }

    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        self.simd.run(gates::Activate { activation, x });
    }

    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        self.simd.run(gates::Gate { activation, gate, up });
    }

    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        self.simd.run(gates::Softcap { x, cap });
    }

    fn scratch(&self, job: &Job) -> usize {
        // Fewer than many rows take what few of them do, and more may take less.
        match job {
            Job::Product { cols, rows, .. } => {
                let few = self.simd.run(dots::Takes((*rows).min(MANY - 1), *cols));
                let many = if *rows < MANY { 0 } else { self.simd.run(panels::Takes(*rows, *cols)) };
                few.max(many)
            }
            Job::Attention { how, queries, positions } => {
                let few = self.simd.run(attention::Takes(how, *queries, *positions));
                let many =
                    if *queries < MANY { 0 } else { self.simd.run(attention_many::Takes(how, *positions)) };
                few.max(many)
            }
        }
    }

    fn saturate(&self, rounds: u64) -> u64 {
        struct Saturate(u64);
        impl Op for Saturate {
            type Out = u64;
            #[inline(always)]
            fn call<S: Simd>(self, s: S) -> u64 {
                s.saturate(self.0)
            }
        }
        self.simd.run(Saturate(rounds))
    }

    /// As four streams that lie far apart, as products with one row of activations read their weights.
    fn sweep(&self, data: &[u8]) -> u64 {
        struct Sweep<'a>(&'a [u8]);
        impl Op for Sweep<'_> {
            type Out = u64;
            #[inline(always)]
            fn call<S: Simd>(self, _: S) -> u64 {
                let quarter = self.0.len() / 4 / 512 * 512;
                let (streams, rest) = self.0.split_at(4 * quarter);
                let mut sum = ops::sweep(rest);
                for at in (0..quarter).step_by(512) {
                    for stream in 0..4 {
                        sum = sum.wrapping_add(ops::sweep(&streams[stream * quarter + at..][..512]));
                    }
                }
                sum
            }
        }
        self.simd.run(Sweep(data))
    }
}
