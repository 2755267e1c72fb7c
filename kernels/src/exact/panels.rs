//! Products with many rows of activations.
//!
//! Weights are widened and turned into *panels*, so that one vector holds the same column of several rows; a panel is
//! then multiplied with all activations, a *tile* of rows × outputs at a time, whose sums stay in registers. Columns
//! are taken in stretches, so that what is in use stays in the caches: a panel in the first level, activations of a
//! block of rows in the second.

use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::Linear;

/// Columns of a panel: whole blocks of any element type.
pub(super) const DEEP: usize = 256;
/// Panels that are made before the activations are gone through.
const PANELS: usize = 8;
/// Rows of activations, about, that are multiplied with those panels before the next rows are touched.
const BLOCK: usize = 192;

/// A product with many rows of activations.
pub(super) struct Many<'a> {
    pub linear: Linear<'a>,
    pub x: Rows<'a>,
    pub out: RowsMut<'a>,
}

impl Op for Many<'_> {
    type Out = ();

    /// Tiles are as large as the registers hold beside a vector of weights for each column of the tile and one
    /// activation.
    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        match S::LANES {
            4 => Product::<S, 6, 4>::new(s, self).run(),
            8 => Product::<S, 6, 2>::new(s, self).run(),
            _ => Product::<S, 12, 2>::new(s, self).run(),
        }
    }
}

/// Bytes that it takes for itself, of so many rows and columns of activations.
pub(super) struct Takes(pub usize, pub usize);

impl Op for Takes {
    type Out = usize;

    #[inline(always)]
    fn call<S: Simd>(self, _: S) -> usize {
        match S::LANES {
            4 => Product::<S, 6, 4>::takes(self.0, self.1),
            8 => Product::<S, 6, 2>::takes(self.0, self.1),
            _ => Product::<S, 12, 2>::takes(self.0, self.1),
        }
    }
}

/// A product whose tiles are `M` rows of activations by `V` vectors of outputs.
struct Product<'a, S, const M: usize, const V: usize> {
    s: S,
    linear: Linear<'a>,
    out: RowsMut<'a>,
    /// Activations: for each stretch of columns, for each tile of rows, for each column, the `M` numbers.
    x: Vec<f32>,
    rows: usize,
}

impl<'a, S: Simd, const M: usize, const V: usize> Product<'a, S, M, V> {
    const WIDE: usize = V * S::LANES;
    /// Numbers of the panels that are made at a time.
    const PANELS: usize = PANELS * Self::WIDE * DEEP;

    /// Bytes that it takes for itself.
    fn takes(rows: usize, cols: usize) -> usize {
        size_of::<f32>() * (tiled_len::<M>(rows, cols) + Self::PANELS + S::LANES * DEEP)
    }

    #[inline(always)]
    fn new(s: S, many: Many<'a>) -> Self {
        let rows = many.x.rows();
        Product { s, linear: many.linear, out: many.out, x: tiled::<M>(many.x), rows }
    }

    #[inline(always)]
    fn run(mut self) {
        let w = self.linear.weight;
        if w.cols() == 0 {
            return self.no_columns();
        }
        let (mut panels, mut wide) = (vec![0.0; Self::PANELS], vec![0.0; S::LANES * DEEP]);
        for first in (0..w.rows()).step_by(PANELS * Self::WIDE) {
            let last = w.rows().min(first + PANELS * Self::WIDE);
            for from in (0..w.cols()).step_by(DEEP) {
                let deep = DEEP.min(w.cols() - from);
                for (panel, at) in panels.chunks_mut(Self::WIDE * DEEP).zip((first..last).step_by(Self::WIDE))
                {
                    fill::<S, V>(self.s, w.cols_at(from..from + deep), at, &mut wide, panel);
                }
                self.multiply(&panels, first..last, from, deep);
            }
        }
    }

    /// A product over no columns: the bias alone.
    fn no_columns(&mut self) {
        for m in 0..self.rows {
            let row = self.out.row(m);
            row.fill(0.0);
            if let Some(bias) = self.linear.bias {
                row.copy_from_slice(bias);
            }
        }
    }

    /// All activations of a stretch of columns with all panels.
    #[inline(always)]
    fn multiply(&mut self, panels: &[f32], outputs: std::ops::Range<usize>, from: usize, deep: usize) {
        let tiles = self.rows.div_ceil(M);
        let x = std::mem::take(&mut self.x);
        let stretch = &x[from * tiles * M..][..deep * tiles * M];
        let block = BLOCK / M;
        for tile in (0..tiles).step_by(block) {
            let block = tile..tiles.min(tile + block);
            for (panel, o) in panels.chunks(Self::WIDE * DEEP).zip(outputs.clone().step_by(Self::WIDE)) {
                for tile in block.clone() {
                    let x = &stretch[tile * deep * M..][..deep * M];
                    self.tile(&panel[..deep * Self::WIDE], x, tile * M, o, from, deep);
                }
            }
        }
        self.x = x;
    }

    /// One tile: rows of activations from `m` on, outputs from `o` on. Sums begin with what earlier stretches of
    /// columns left in the output.
    #[inline(always)]
    fn tile(&mut self, panel: &[f32], x: &[f32], m: usize, o: usize, from: usize, deep: usize) {
        let s = self.s;
        let mut sums = [[s.splat(0.0); V]; M];
        let rows = M.min(self.rows - m);
        let width = Self::WIDE.min(self.out.cols() - o);
        if from > 0 {
            for (i, sums) in sums.iter_mut().enumerate().take(rows) {
                let out = &self.out.row(m + i)[o..o + width];
                if width == Self::WIDE {
                    load(s, out, sums);
                } else {
                    let mut lanes = [0.0; LANES];
                    lanes[..width].copy_from_slice(out);
                    load(s, &lanes, sums);
                }
            }
        }
        let sums = columns(s, panel, x, sums);
        let done = from + deep == self.linear.weight.cols();
        for (i, sums) in sums.iter().enumerate().take(rows) {
            let out = &mut self.out.row(m + i)[o..o + width];
            if width == Self::WIDE {
                store(s, sums, out);
            } else {
                let mut lanes = [0.0; LANES];
                store(s, sums, &mut lanes);
                out.copy_from_slice(&lanes[..width]);
            }
            if done {
                self.linear.finish(o, out);
            }
        }
    }
}

/// Widens the rows from `at` on, as many as `V` vectors have lanes, into `panel[column][row]`; rows past the last are
/// zeros. `wide` has room for [`DEEP`] columns of a vector's worth of rows, and the matrix has no more columns.
#[inline(always)]
pub(super) fn fill<S: Simd, const V: usize>(
    s: S,
    w: Matrix<'_>,
    at: usize,
    wide: &mut [f32],
    panel: &mut [f32],
) {
    let (deep, out) = (w.cols(), V * S::LANES);
    for v in 0..V {
        let at = at + v * S::LANES;
        for r in 0..S::LANES {
            let row = &mut wide[r * DEEP..][..DEEP];
            if at + r < w.rows() {
                s.run(Widen { dtype: w.dtype(), raw: w.row(at + r), out: &mut row[..deep] });
            } else {
                row.fill(0.0);
            }
        }
        let whole = deep / S::LANES * S::LANES;
        for c in (0..whole).step_by(S::LANES) {
            s.transpose(&wide[c..], DEEP, &mut panel[c * out + v * S::LANES..], out);
        }
        for c in whole..deep {
            for r in 0..S::LANES {
                panel[c * out + v * S::LANES + r] = wide[r * DEEP + c];
            }
        }
    }
}

/// Adds all columns of a panel times those of a tile of activations to sums, which stay in registers: they are this
/// function's own, so that nothing else needs them in memory meanwhile.
#[inline(always)]
pub(super) fn columns<S: Simd, const M: usize, const V: usize>(
    s: S,
    panel: &[f32],
    x: &[f32],
    from: [[S::F; V]; M],
) -> [[S::F; V]; M] {
    let mut sums = from;
    for (w, x) in panel.chunks_exact(V * S::LANES).zip(x.as_chunks::<M>().0) {
        let mut vectors = [s.splat(0.0); V];
        load(s, w, &mut vectors);
        for (x, sums) in x.iter().zip(&mut sums) {
            let x = s.splat(*x);
            for (w, sum) in vectors.iter().zip(sums) {
                *sum = s.fma(*w, x, *sum);
            }
        }
    }
    sums
}

/// More f32 than the outputs of any tile.
pub(super) const LANES: usize = 64;

#[inline(always)]
pub(super) fn load<S: Simd, const V: usize>(s: S, from: &[f32], to: &mut [S::F; V]) {
    for (to, from) in to.iter_mut().zip(S::floats(from).0) {
        *to = s.load(from);
    }
}

#[inline(always)]
pub(super) fn store<S: Simd, const V: usize>(s: S, from: &[S::F; V], to: &mut [f32]) {
    for (from, to) in from.iter().zip(S::floats_mut(to).0) {
        s.store(*from, to);
    }
}

/// Numbers of so many rows and columns of activations by tiles.
fn tiled_len<const M: usize>(rows: usize, cols: usize) -> usize {
    rows.next_multiple_of(M) * cols
}

/// Activations by tiles of `M` rows, rows past the last being zeros.
#[inline(always)]
fn tiled<const M: usize>(x: Rows<'_>) -> Vec<f32> {
    let tiles = x.rows().div_ceil(M);
    let mut out = vec![0.0; tiled_len::<M>(x.rows(), x.cols())];
    let mut rest = &mut out[..];
    for from in (0..x.cols()).step_by(DEEP) {
        let deep = DEEP.min(x.cols() - from);
        let (stretch, behind) = rest.split_at_mut(deep * tiles * M);
        rest = behind;
        for (tile, to) in stretch.chunks_exact_mut(deep * M).enumerate() {
            for m in 0..M.min(x.rows() - tile * M) {
                for (to, x) in to.chunks_exact_mut(M).zip(&x.row(tile * M + m)[from..from + deep]) {
                    to[m] = *x;
                }
            }
        }
    }
    out
}
