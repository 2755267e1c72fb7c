//! Products with few rows of activations: every row of weights is read once, where it lies, and multiplied with all
//! of them.

use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::Linear;
use scantling_core::quant;

/// More lanes than any vector has.
pub(super) const LANES: usize = 64;

/// A row of weights as it is read: vector by vector.
pub(super) trait Stored<S: Simd> {
    /// Many rows.
    type Stack<'a>: Copy;
    /// A row.
    type Row: ?Sized + 'static;
    /// What becomes one vector.
    type Raw;
    /// One of many rows.
    fn row<'a>(stack: Self::Stack<'a>, row: usize) -> &'a Self::Row;
    /// The whole vectors of a row.
    fn vectors(row: &Self::Row) -> &[Self::Raw];
    /// Widens one.
    fn load(s: S, raw: &Self::Raw) -> S::F;
    /// The numbers from `from` on, fewer than a vector holds, widened, and zeros behind them.
    fn tail(row: &Self::Row, from: usize) -> [f32; LANES];
    /// Says that a row will be read soon.
    fn ask_for(s: S, row: &Self::Row);
}

macro_rules! stored {
    ($name:ident, $dtype:ident, $bytes:literal, $raw:ident, $vectors:ident, $load:ident) => {
        pub(super) struct $name;

        impl<S: Simd> Stored<S> for $name {
            type Stack<'a> = Matrix<'a>;
            type Row = [u8];
            type Raw = S::$raw;

            #[inline(always)]
            fn row<'a>(stack: Matrix<'a>, row: usize) -> &'a [u8]
            where
                'a: 'a, // as in the trait, where the lifetime shows in an associated type only
            {
                stack.row(row)
            }

            #[inline(always)]
            fn vectors(row: &[u8]) -> &[S::$raw] {
                S::$vectors(row)
            }

            #[inline(always)]
            fn load(s: S, raw: &S::$raw) -> S::F {
                s.$load(raw)
            }

            #[inline(always)]
            fn tail(row: &[u8], from: usize) -> [f32; LANES] {
                let raw = &row[from * $bytes..];
                let mut out = [0.0; LANES];
                quant::decode(DType::$dtype, raw, &mut out[..raw.len() / $bytes]).expect("whole numbers");
                out
            }

            #[inline(always)]
            fn ask_for(s: S, row: &[u8]) {
                for line in row.chunks(64) {
                    s.prefetch(line);
                }
            }
        }
    };
}

stored!(Single, F32, 4, Quads, quads, load_f32);
stored!(Half, F16, 2, Pairs, pairs, load_f16);
stored!(Brain, BF16, 2, Pairs, pairs, load_bf16);

/// A row that has been widened already.
pub(super) struct Widened;

impl<S: Simd> Stored<S> for Widened {
    type Stack<'a> = Rows<'a>;
    type Row = [f32];
    type Raw = S::Floats;

    #[inline(always)]
    fn row<'a>(stack: Rows<'a>, row: usize) -> &'a [f32]
    where
        'a: 'a,
    {
        stack.row(row)
    }

    #[inline(always)]
    fn vectors(row: &[f32]) -> &[S::Floats] {
        S::floats(row).0
    }

    #[inline(always)]
    fn load(s: S, raw: &S::Floats) -> S::F {
        s.load(raw)
    }

    #[inline(always)]
    fn tail(row: &[f32], from: usize) -> [f32; LANES] {
        let rest = &row[from..];
        let mut out = [0.0; LANES];
        out[..rest.len()].copy_from_slice(rest);
        out
    }

    /// It has just been written.
    #[inline(always)]
    fn ask_for(_: S, _: &[f32]) {}
}

/// `M` rows of activations, vector by vector: the first vectors of all rows, then the second ones, and zeros behind the
/// last column. Read in this order, rows whose lengths are powers of two do not drive each other out of the cache.
#[inline(always)]
pub(super) fn side_by_side<S: Simd, const M: usize>(x: [&[f32]; M]) -> Vec<f32> {
    let mut out = vec![0.0; x[0].len().div_ceil(S::LANES) * M * S::LANES];
    for (m, x) in x.into_iter().enumerate() {
        for (i, x) in x.chunks(S::LANES).enumerate() {
            out[(i * M + m) * S::LANES..][..x.len()].copy_from_slice(x);
        }
    }
    out
}

/// `[r][m]` = Σ w[r]·x[m], over rows of so many columns and activations that are [`side_by_side`]. The sums of each
/// pair are taken in the same order for any `R` and `M`: over vectors with `U` running sums in turn, then over the
/// rest of the row, then over lanes.
#[inline(always)]
pub(super) fn dots<S: Simd, W: Stored<S>, const R: usize, const M: usize, const U: usize>(
    s: S,
    w: [&W::Row; R],
    x: &[f32],
    cols: usize,
) -> [[f32; M]; R] {
    let count = cols / S::LANES;
    let (inputs, last) = S::floats(x).0.as_chunks::<M>().0.split_at(count);
    let mut rows: [&[W::Raw]; R] = [&[]; R];
    for (row, w) in rows.iter_mut().zip(w) {
        *row = &W::vectors(w)[..count];
    }
    let mut sums = [[[s.splat(0.0); M]; R]; U];
    let whole = count / U * U;
    for i in (0..whole).step_by(U) {
        for (u, sums) in sums.iter_mut().enumerate() {
            step::<S, W, R, M>(s, &rows, &inputs[i + u], i + u, sums);
        }
    }
    for (i, input) in inputs.iter().enumerate().skip(whole) {
        step::<S, W, R, M>(s, &rows, input, i, &mut sums[0]);
    }
    let mut total = sums[0];
    for more in &sums[1..] {
        for (total, more) in total.iter_mut().flatten().zip(more.iter().flatten()) {
            *total = s.add(*total, *more);
        }
    }
    if let [last] = last {
        for (total, w) in total.iter_mut().zip(w) {
            let w = s.load(&S::floats(&W::tail(w, count * S::LANES)).0[0]);
            for (total, x) in total.iter_mut().zip(last) {
                *total = s.fma(w, s.load(x), *total);
            }
        }
    }
    let mut out = [[0.0; M]; R];
    for (out, total) in out.iter_mut().flatten().zip(total.iter().flatten()) {
        *out = s.sum(*total);
    }
    out
}

/// Vector `i` of every row of weights with that of every row of activations, one of which is held at a time: the
/// registers are full of sums.
#[inline(always)]
fn step<S: Simd, W: Stored<S>, const R: usize, const M: usize>(
    s: S,
    rows: &[&[W::Raw]; R],
    x: &[S::Floats; M],
    i: usize,
    sums: &mut [[S::F; M]; R],
) {
    let mut w = [s.splat(0.0); R];
    for (w, row) in w.iter_mut().zip(rows) {
        *w = W::load(s, &row[i]);
    }
    for (m, x) in x.iter().enumerate() {
        let x = s.load(x);
        for (w, sums) in w.iter().zip(&mut *sums) {
            sums[m] = s.fma(*w, x, sums[m]);
        }
    }
}

/// Σ w·x over one stored row.
pub(super) struct Dot<'a> {
    pub dtype: DType,
    pub w: &'a [u8],
    pub x: &'a [f32],
}

impl Op for Dot<'_> {
    type Out = f32;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> f32 {
        let Dot { dtype, w, x } = self;
        let (cols, input) = (x.len(), &side_by_side::<S, 1>([x])[..]);
        match dtype {
            DType::F32 => dots::<S, Single, 1, 1, 2>(s, [w], input, cols)[0][0],
            DType::F16 => dots::<S, Half, 1, 1, 2>(s, [w], input, cols)[0][0],
            DType::BF16 => dots::<S, Brain, 1, 1, 2>(s, [w], input, cols)[0][0],
            _ => {
                let mut wide = vec![0.0; x.len()];
                s.run(Widen { dtype, raw: w, out: &mut wide });
                dots::<S, Widened, 1, 1, 2>(s, [&wide], input, cols)[0][0]
            }
        }
    }
}

/// Rows of weights that are widened at a time.
const WIDENED: usize = 3;

/// Bytes that a product with few rows of activations takes for itself.
pub(super) struct Takes(pub usize, pub usize);

impl Op for Takes {
    type Out = usize;

    #[inline(always)]
    fn call<S: Simd>(self, _: S) -> usize {
        let Takes(rows, cols) = self;
        size_of::<f32>() * (rows * cols.next_multiple_of(S::LANES) + WIDENED * cols)
    }
}

/// A product with few rows of activations.
pub(super) struct Few<'a> {
    pub linear: Linear<'a>,
    pub x: Rows<'a>,
    pub out: RowsMut<'a>,
}

impl Op for Few<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        let product = Product { linear: self.linear, inputs: tiles::<S>(self.x), out: self.out };
        match self.linear.weight.dtype() {
            DType::F32 => product.in_place::<S, Single>(s),
            DType::F16 => product.in_place::<S, Half>(s),
            DType::BF16 => product.in_place::<S, Brain>(s),
            _ => product.widened(s),
        }
    }
}

/// Rows of activations four at a time, then two, then one: how many, and the rows side by side.
#[inline(always)]
fn tiles<S: Simd>(x: Rows<'_>) -> Vec<(usize, Vec<f32>)> {
    let mut tiles = Vec::new();
    let mut m = 0;
    while m < x.rows() {
        let tile = match x.rows() - m {
            4.. => {
                let four = [x.row(m), x.row(m + 1), x.row(m + 2), x.row(m + 3)];
                (4, side_by_side::<S, 4>(four))
            }
            2.. => (2, side_by_side::<S, 2>([x.row(m), x.row(m + 1)])),
            _ => (1, side_by_side::<S, 1>([x.row(m)])),
        };
        m += tile.0;
        tiles.push(tile);
    }
    tiles
}

/// A product whose activations are laid out.
struct Product<'a> {
    linear: Linear<'a>,
    inputs: Vec<(usize, Vec<f32>)>,
    out: RowsMut<'a>,
}

impl Product<'_> {
    /// Weights that are read where they lie.
    #[inline(always)]
    fn in_place<S: Simd, W: for<'w> Stored<S, Stack<'w> = Matrix<'w>>>(mut self, s: S) {
        let rows = self.linear.weight.rows();
        // Memory is read fastest as a few long streams that lie far apart. With one row of activations it is all that
        // limits; with more, three rows of weights and four of activations are what the registers hold.
        if self.out.rows() == 1 {
            let part = rows / 4;
            for o in 0..part {
                self.rows::<S, W, 4>(s, [o, o + part, o + 2 * part, o + 3 * part]);
            }
            self.singly::<S, W>(s, 4 * part);
        } else {
            let part = rows / 3;
            for o in 0..part {
                self.rows::<S, W, 3>(s, [o, o + part, o + 2 * part]);
            }
            self.singly::<S, W>(s, 3 * part);
        }
    }

    /// The rows of weights that are left behind the streams.
    #[inline(always)]
    fn singly<S: Simd, W: for<'w> Stored<S, Stack<'w> = Matrix<'w>>>(&mut self, s: S, from: usize) {
        for o in from..self.linear.weight.rows() {
            self.rows::<S, W, 1>(s, [o]);
        }
    }

    /// Weights that are widened first, three rows at a time.
    #[inline(always)]
    fn widened<S: Simd>(mut self, s: S) {
        let w = self.linear.weight;
        let mut wide = vec![0.0; WIDENED * w.cols()];
        for first in (0..w.rows()).step_by(3) {
            let count = 3.min(w.rows() - first);
            for (r, out) in wide.chunks_exact_mut(w.cols().max(1)).enumerate().take(count) {
                s.run(Widen { dtype: w.dtype(), raw: w.row(first + r), out });
            }
            let rows = Rows::new(&wide, 3, w.cols());
            if count == 3 {
                let three = [rows.row(0), rows.row(1), rows.row(2)];
                self.multiply::<S, Widened, 3>(s, [first, first + 1, first + 2], three);
            } else {
                for r in 0..count {
                    self.multiply::<S, Widened, 1>(s, [first + r], [rows.row(r)]);
                }
            }
        }
    }

    /// Some rows of weights where they lie.
    #[inline(always)]
    fn rows<S: Simd, W: for<'w> Stored<S, Stack<'w> = Matrix<'w>>, const R: usize>(
        &mut self,
        s: S,
        outputs: [usize; R],
    ) {
        let weight = self.linear.weight;
        let mut w = [W::row(weight, 0); R];
        for (w, o) in w.iter_mut().zip(outputs) {
            *w = W::row(weight, o);
        }
        self.multiply::<S, W, R>(s, outputs, w);
    }

    /// Some rows of weights, and the outputs that they make, with all rows of activations.
    #[inline(always)]
    fn multiply<S: Simd, W: Stored<S>, const R: usize>(
        &mut self,
        s: S,
        outputs: [usize; R],
        w: [&W::Row; R],
    ) {
        let (cols, inputs) = (self.linear.weight.cols(), std::mem::take(&mut self.inputs));
        let mut m = 0;
        for (size, x) in &inputs {
            match size {
                4 => self.put(outputs, m, dots::<S, W, R, 4, 1>(s, w, x, cols)),
                2 => self.put(outputs, m, dots::<S, W, R, 2, 1>(s, w, x, cols)),
                _ => self.put(outputs, m, dots::<S, W, R, 1, 2>(s, w, x, cols)),
            }
            m += size;
        }
        self.inputs = inputs;
    }

    #[inline(always)]
    fn put<const R: usize, const M: usize>(&mut self, outputs: [usize; R], m: usize, sums: [[f32; M]; R]) {
        for (o, sums) in outputs.into_iter().zip(sums) {
            for (i, sum) in sums.into_iter().enumerate() {
                let y = &mut self.out.row(m + i)[o..=o];
                y[0] = sum;
                self.linear.finish(o, y);
            }
        }
    }
}
