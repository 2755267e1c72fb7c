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
                quant::decode_inlined(DType::$dtype, raw, &mut out[..raw.len() / $bytes]);
                out
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
}

/// `[r][m]` = Σ w[r]·x[m]. The sums of each pair are taken in the same order for any `R` and `M`: over vectors with
/// `U` running sums in turn, then over the rest of the row, then over lanes.
#[inline(always)]
pub(super) fn dots<S: Simd, W: Stored<S>, const R: usize, const M: usize, const U: usize>(
    s: S,
    w: [&W::Row; R],
    x: [&[f32]; M],
) -> [[f32; M]; R] {
    let count = S::floats(x[0]).0.len();
    let rows = w.map(|w| &W::vectors(w)[..count]);
    let inputs = x.map(|x| &S::floats(x).0[..count]);
    let mut sums = [[[s.splat(0.0); M]; R]; U];
    let whole = count / U * U;
    for i in (0..whole).step_by(U) {
        for (u, sums) in sums.iter_mut().enumerate() {
            step::<S, W, R, M>(s, &rows, &inputs, i + u, sums);
        }
    }
    for i in whole..count {
        step::<S, W, R, M>(s, &rows, &inputs, i, &mut sums[0]);
    }
    finish::<S, W, R, M, U>(s, w, x, sums)
}

/// Vector `i` of every row with that of every input.
#[inline(always)]
fn step<S: Simd, W: Stored<S>, const R: usize, const M: usize>(
    s: S,
    rows: &[&[W::Raw]; R],
    inputs: &[&[S::Floats]; M],
    i: usize,
    sums: &mut [[S::F; M]; R],
) {
    let mut x = [s.splat(0.0); M];
    for (x, input) in x.iter_mut().zip(inputs) {
        *x = s.load(&input[i]);
    }
    for (row, sums) in rows.iter().zip(sums) {
        let w = W::load(s, &row[i]);
        for (x, sum) in x.iter().zip(sums) {
            *sum = s.fma(w, *x, *sum);
        }
    }
}

/// The rest of each row behind its whole vectors, and the sums over lanes.
#[inline(always)]
fn finish<S: Simd, W: Stored<S>, const R: usize, const M: usize, const U: usize>(
    s: S,
    w: [&W::Row; R],
    x: [&[f32]; M],
    sums: [[[S::F; M]; R]; U],
) -> [[f32; M]; R] {
    let mut total = sums[0];
    for more in &sums[1..] {
        for (total, more) in total.iter_mut().flatten().zip(more.iter().flatten()) {
            *total = s.add(*total, *more);
        }
    }
    let whole = x[0].len() / S::LANES * S::LANES;
    if whole < x[0].len() {
        let inputs: [[f32; LANES]; M] = x.map(|x| <Widened as Stored<S>>::tail(x, whole));
        for (total, w) in total.iter_mut().zip(w) {
            let w = W::tail(w, whole);
            for (total, x) in total.iter_mut().zip(&inputs) {
                *total = s.fma(s.load(&S::floats(&w).0[0]), s.load(&S::floats(x).0[0]), *total);
            }
        }
    }
    let mut out = [[0.0; M]; R];
    for (out, total) in out.iter_mut().flatten().zip(total.iter().flatten()) {
        *out = s.sum(*total);
    }
    out
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
        match dtype {
            DType::F32 => dots::<S, Single, 1, 1, 2>(s, [w], [x])[0][0],
            DType::F16 => dots::<S, Half, 1, 1, 2>(s, [w], [x])[0][0],
            DType::BF16 => dots::<S, Brain, 1, 1, 2>(s, [w], [x])[0][0],
            _ => {
                let mut wide = vec![0.0; x.len()];
                Widen { dtype, raw: w, out: &mut wide }.call(s);
                dots::<S, Widened, 1, 1, 2>(s, [&wide], [x])[0][0]
            }
        }
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
        match self.linear.weight.dtype() {
            DType::F32 => self.in_place::<S, Single>(s),
            DType::F16 => self.in_place::<S, Half>(s),
            DType::BF16 => self.in_place::<S, Brain>(s),
            _ => self.widened(s),
        }
    }
}

impl Few<'_> {
    /// Weights that are read where they lie.
    #[inline(always)]
    fn in_place<S: Simd, W: for<'w> Stored<S, Stack<'w> = Matrix<'w>>>(mut self, s: S) {
        let rows = self.linear.weight.rows();
        if self.x.rows() > 1 {
            let pairs = rows / 2 * 2;
            for o in (0..pairs).step_by(2) {
                self.rows::<S, W, 2>(s, [o, o + 1]);
            }
            for o in pairs..rows {
                self.rows::<S, W, 1>(s, [o]);
            }
            return;
        }
        // With one row of activations it is memory that limits: it is read fastest as a few long streams that lie
        // far apart.
        let quarter = rows / 4;
        for o in 0..quarter {
            self.rows::<S, W, 4>(s, [o, o + quarter, o + 2 * quarter, o + 3 * quarter]);
        }
        for o in 4 * quarter..rows {
            self.rows::<S, W, 1>(s, [o]);
        }
    }

    /// Weights that are widened first, two rows at a time.
    #[inline(always)]
    fn widened<S: Simd>(mut self, s: S) {
        let w = self.linear.weight;
        let mut wide = vec![0.0; 2 * w.cols()];
        let (first, second) = wide.split_at_mut(w.cols());
        let mut o = 0;
        while o < w.rows() {
            Widen { dtype: w.dtype(), raw: w.row(o), out: &mut *first }.call(s);
            if o + 1 < w.rows() {
                Widen { dtype: w.dtype(), raw: w.row(o + 1), out: &mut *second }.call(s);
                self.multiply::<S, Widened, 2>(s, [o, o + 1], [&*first, &*second]);
            } else {
                self.multiply::<S, Widened, 1>(s, [o], [&*first]);
            }
            o += 2;
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
        let count = self.x.rows();
        if count == 1 {
            let sums = dots::<S, W, R, 1, 2>(s, w, [self.x.row(0)]);
            return self.put(outputs, 0, sums);
        }
        let mut m = 0;
        while m + 4 <= count {
            let x = [self.x.row(m), self.x.row(m + 1), self.x.row(m + 2), self.x.row(m + 3)];
            let sums = dots::<S, W, R, 4, 1>(s, w, x);
            self.put(outputs, m, sums);
            m += 4;
        }
        if m + 2 <= count {
            let sums = dots::<S, W, R, 2, 2>(s, w, [self.x.row(m), self.x.row(m + 1)]);
            self.put(outputs, m, sums);
            m += 2;
        }
        if m < count {
            let sums = dots::<S, W, R, 1, 2>(s, w, [self.x.row(m)]);
            self.put(outputs, m, sums);
        }
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
