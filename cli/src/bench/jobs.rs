//! What is run for each op: its data, and how it is cut for a kernel that would take too long over all of it.

use super::weights::{Windows, activations};
use super::{Cost, Shape};
use crate::args::BenchOp;
use scantling_core::kernel::Kernel;
use scantling_core::matrix::{Matrix, Rows, RowsBuf, RowsMut};
use scantling_core::ops::{Activation, Attending, Linear, Pairing, Rotation};
use scantling_core::paging::HugeBuf;

/// An op with its data.
pub trait Job {
    /// What it is.
    fn shape(&self) -> Shape;

    /// How many parts it can be cut into: outputs, rows, queries.
    fn parts(&self) -> usize;

    /// Parts that are not worth cutting further.
    fn grain(&self) -> usize {
        1
    }

    /// What so many parts take.
    fn cost(&self, parts: usize) -> Cost;

    /// Puts the data as they were, outside of what is timed.
    fn prepare(&mut self) {}

    /// How many times a run does the op, each time on data of its own: an op of a microsecond is too short to be
    /// timed alone.
    fn repeats(&self) -> usize {
        1
    }

    /// Does so many parts, [`repeats`](Self::repeats) times.
    fn run(&mut self, kernel: &dyn Kernel, parts: usize);

    /// The stored bytes that come next, if reading them can be what takes the time.
    fn stored(&mut self) -> Option<&[u8]> {
        None
    }

    /// Where the output goes, with the stored bytes, if writing it can be what takes the time.
    fn copied(&mut self) -> Option<(&[u8], &mut [u8])> {
        None
    }

    /// Whether multiplying can be what takes the time.
    fn multiplies(&self) -> bool {
        false
    }
}

/// A product with one stored matrix after the other.
pub struct Matmul<'a> {
    weights: Windows<'a>,
    rows: usize,
    x: Vec<f32>,
    out: RowsBuf,
}

impl<'a> Matmul<'a> {
    /// With so many rows of activations.
    pub fn new(weights: Windows<'a>, rows: usize) -> Matmul<'a> {
        let w = weights.first();
        let out = RowsBuf::zeros(rows, w.rows());
        Matmul { x: activations(rows, w.cols()), out, rows, weights }
    }
}

impl Job for Matmul<'_> {
    fn shape(&self) -> Shape {
        let w = self.weights.first();
        Shape {
            op: BenchOp::Matmul,
            dtype: Some(w.dtype()),
            rows: self.rows,
            inputs: w.cols(),
            outputs: w.rows(),
        }
    }

    fn parts(&self) -> usize {
        self.weights.first().rows()
    }

    fn grain(&self) -> usize {
        64
    }

    fn cost(&self, parts: usize) -> Cost {
        let w = self.weights.first();
        let flops = 2.0 * (self.rows * w.cols()) as f64 * parts as f64;
        Cost { bytes: w.row_bytes() as f64 * parts as f64, flops, written: 0.0 }
    }

    fn run(&mut self, kernel: &dyn Kernel, parts: usize) {
        let w = self.weights.next().rows_at(0..parts);
        let x = Rows::new(&self.x, self.rows, w.cols());
        let (out, _) = self.out.view_mut().split_cols(parts);
        kernel.matmul(Linear::plain(w), x, out);
    }

    fn stored(&mut self) -> Option<&[u8]> {
        Some(self.weights.next().data())
    }

    fn multiplies(&self) -> bool {
        true
    }
}

/// Stored blocks to f32.
pub struct Decode<'a> {
    weights: Windows<'a>,
    out: HugeBuf,
    /// Where in the output the next values go, in bytes: all of it is gone through, so that none is in a cache.
    at: usize,
}

impl<'a> Decode<'a> {
    /// Into a buffer of at least so many f32 as a matrix has values.
    pub fn new(weights: Windows<'a>, out: HugeBuf) -> Decode<'a> {
        Decode { weights, out, at: 0 }
    }

    /// Values of a row.
    fn values(w: Matrix<'_>) -> usize {
        w.cols() / w.dtype().block_elements() * w.dtype().block_values()
    }

    /// The next so many bytes of the output.
    fn place(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = if self.at + len <= self.out.len() { self.at } else { 0 };
        self.at = start + len;
        start..start + len
    }
}

impl Job for Decode<'_> {
    fn shape(&self) -> Shape {
        let w = self.weights.first();
        let (rows, inputs) = (w.rows(), w.cols());
        Shape { op: BenchOp::Decode, dtype: Some(w.dtype()), rows, inputs, outputs: inputs }
    }

    fn parts(&self) -> usize {
        self.weights.first().rows()
    }

    fn grain(&self) -> usize {
        64
    }

    fn cost(&self, parts: usize) -> Cost {
        let w = self.weights.first();
        let written = 4.0 * Self::values(w) as f64 * parts as f64;
        Cost { bytes: w.row_bytes() as f64 * parts as f64, flops: 0.0, written }
    }

    fn run(&mut self, kernel: &dyn Kernel, parts: usize) {
        let w = self.weights.next().rows_at(0..parts);
        let place = self.place(4 * Self::values(w) * parts);
        let out = &mut self.out.floats_mut()[place.start / 4..place.end / 4];
        // Only types that decode are measured, and the lengths are those of whole rows.
        let done = kernel.decode(w.dtype(), w.data(), out);
        debug_assert!(done.is_ok(), "{done:?}");
    }

    fn copied(&mut self) -> Option<(&[u8], &mut [u8])> {
        let from = self.weights.next().data();
        let len = from.len().min(self.out.len()) / 4 * 4;
        let place = self.place(len);
        Some((&from[..len], &mut self.out[place]))
    }
}

/// Attention of the last queries over a cache of keys and values.
pub struct Attention<'a> {
    /// Keys and values in turn.
    cache: Windows<'a>,
    queries: usize,
    heads: (usize, usize),
    width: usize,
    q: Vec<f32>,
    out: RowsBuf,
}

impl<'a> Attention<'a> {
    /// So many queries of so many heads, over matrices of [positions, kv heads × width].
    pub fn new(cache: Windows<'a>, queries: usize, heads: (usize, usize), width: usize) -> Attention<'a> {
        let q = activations(queries, heads.0 * width);
        Attention { cache, queries, heads, width, q, out: RowsBuf::zeros(queries, heads.0 * width) }
    }

    fn positions(&self) -> usize {
        self.cache.first().rows()
    }

    /// The first query stands so that the last sees every position.
    fn start(&self) -> usize {
        self.positions().saturating_sub(self.queries)
    }
}

impl Job for Attention<'_> {
    fn shape(&self) -> Shape {
        Shape {
            op: BenchOp::Attention,
            dtype: Some(self.cache.first().dtype()),
            rows: self.queries,
            inputs: self.heads.0 * self.width,
            outputs: self.positions(),
        }
    }

    fn parts(&self) -> usize {
        self.queries
    }

    fn cost(&self, parts: usize) -> Cost {
        let seen: usize = (0..parts).map(|t| self.start() + t + 1).sum();
        let flops = 4.0 * (self.heads.0 * self.width) as f64 * seen as f64;
        Cost { bytes: 2.0 * self.cache.first().data().len() as f64, flops, written: 0.0 }
    }

    fn run(&mut self, kernel: &dyn Kernel, parts: usize) {
        let (k, v) = (self.cache.next(), self.cache.next());
        let how = Attending {
            heads: self.heads.0,
            kv_heads: self.heads.1,
            key: self.width,
            value: self.width,
            scale: (self.width as f32).sqrt().recip(),
            start: self.start(),
            causal: true,
            window: None,
            softcap: None,
            sinks: None,
        };
        let q = Rows::new(&self.q, self.queries, self.heads.0 * self.width).rows_at(0..parts);
        let (out, _) = self.out.view_mut().split_rows(parts);
        kernel.attention(q, k, v, how, out);
    }

    fn stored(&mut self) -> Option<&[u8]> {
        (self.queries == 1).then(|| self.cache.next().data())
    }
}

/// An op that changes rows of activations in place.
pub struct InPlace {
    shape: Shape,
    repeats: usize,
    /// Rows of all repeats.
    fresh: Vec<f32>,
    x: Vec<f32>,
    other: Vec<f32>,
    rotation: Rotation,
}

/// How many times so few rows are done over, each time others.
pub fn repeats(rows: usize) -> usize {
    (64 / rows.max(1)).max(1)
}

impl InPlace {
    /// Of so many rows and columns; rope in heads of so many.
    pub fn new(op: BenchOp, rows: usize, cols: usize, head: usize) -> InPlace {
        let frequency = |i: usize| 1e4f64.powf(-2.0 * i as f64 / head as f64);
        let frequencies: Vec<f64> = (0..head / 2).map(frequency).collect();
        let repeats = repeats(rows);
        let fresh = activations(rows * repeats, cols);
        InPlace {
            shape: Shape { op, dtype: None, rows, inputs: cols, outputs: cols },
            repeats,
            x: fresh.clone(),
            fresh,
            other: match op {
                BenchOp::RmsNorm => vec![1.0; cols],
                _ => activations(rows, cols),
            },
            rotation: Rotation::new(&frequencies, 1.0, 100, rows, Pairing::Halves, head),
        }
    }
}

impl Job for InPlace {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn parts(&self) -> usize {
        self.shape.rows
    }

    fn cost(&self, parts: usize) -> Cost {
        let passes = if self.shape.op == BenchOp::Gate { 3 } else { 2 };
        Cost { bytes: (4 * passes * parts * self.shape.inputs) as f64, ..Cost::default() }
    }

    /// Ops shrink what they change; left alone, the numbers would become so small that the processor slows down.
    fn prepare(&mut self) {
        self.x.copy_from_slice(&self.fresh);
    }

    fn repeats(&self) -> usize {
        self.repeats
    }

    fn run(&mut self, kernel: &dyn Kernel, parts: usize) {
        let Shape { op, rows, inputs: cols, .. } = self.shape;
        for own in self.x.chunks_mut(rows * cols) {
            let x = RowsMut::new(&mut own[..parts * cols], parts, cols);
            match op {
                BenchOp::RmsNorm => kernel.rms_norm(x, &self.other, 1e-6),
                BenchOp::Rope => kernel.rope(x, &self.rotation),
                BenchOp::Activate => kernel.activate(Activation::Silu, x),
                _ => kernel.gate(Activation::Silu, x, Rows::new(&self.other[..parts * cols], parts, cols)),
            }
        }
    }
}
