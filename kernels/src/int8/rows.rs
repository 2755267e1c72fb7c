//! Few rows of activations: weights are read once, as they are stored, each row against all activations.

use super::activations::{Few, Grain, SPAN, Span};
use super::dot8::{Dot8, Task};
use super::formats::Format;
use scantling_core::matrix::RowsMut;
use scantling_core::ops::Linear;
use std::marker::PhantomData;

/// How far ahead of its use memory is asked for, in bytes.
const AHEAD: usize = 4096;
/// Rows of weights that are gone through before the next activations: few enough to stay in the nearest cache.
const TURN: usize = 4;
/// Rows of activations that a row of weights is multiplied with at once.
const AT_ONCE: usize = 4;

/// The product of a matrix of format `F`.
pub(super) fn product<F: Format, S: Dot8>(s: S, linear: Linear<'_>, x: &Few, mut out: RowsMut<'_>) {
    for first in (0..linear.weight.rows()).step_by(TURN) {
        let outputs = first..(first + TURN).min(linear.weight.rows());
        for row in (0..out.rows()).step_by(AT_ONCE) {
            let rows = (out.rows() - row).min(AT_ONCE);
            let x = &x.spans[row * x.per_row..][..rows * x.per_row];
            let turn = Turn { linear, outputs: outputs.clone(), row };
            match rows {
                1 => s.run(Rows::<F, 1> { turn, x, out: &mut out, format: PhantomData }),
                2 => s.run(Rows::<F, 2> { turn, x, out: &mut out, format: PhantomData }),
                3 => s.run(Rows::<F, 3> { turn, x, out: &mut out, format: PhantomData }),
                _ => s.run(Rows::<F, 4> { turn, x, out: &mut out, format: PhantomData }),
            }
        }
    }
}

/// Which outputs are made.
struct Turn<'a> {
    linear: Linear<'a>,
    outputs: std::ops::Range<usize>,
    /// First row of activations.
    row: usize,
}

/// Some rows of weights with `R` rows of activations.
struct Rows<'a, 'o, F, const R: usize> {
    turn: Turn<'a>,
    x: &'a [Span],
    out: &'a mut RowsMut<'o>,
    format: PhantomData<F>,
}

impl<F: Format, const R: usize> Task for Rows<'_, '_, F, R> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, s: S) {
        let Turn { linear, outputs, row } = self.turn;
        let per_row = linear.weight.cols().div_ceil(SPAN);
        let mut x: [&[Span]; R] = [&[]; R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = &self.x[r * per_row..][..per_row];
        }
        for o in outputs {
            let sums = one_row::<F, S, R>(s, linear.weight.row(o), &x);
            let bias = linear.bias.map_or(0.0, |bias| bias[o]);
            for (r, sum) in sums.into_iter().enumerate() {
                self.out.row(row + r)[o] = sum * linear.scale + bias;
            }
        }
    }
}

/// One row of weights against `R` rows of activations.
#[inline(always)]
fn one_row<F: Format, S: Dot8, const R: usize>(s: S, w: &[u8], x: &[&[Span]; R]) -> [f32; R] {
    let mut floats = [[s.no_floats(); 2]; R];
    let whole = w.chunks_exact(F::BYTES);
    let rest = whole.remainder();
    for (i, w) in whole.enumerate() {
        for line in (0..F::BYTES).step_by(64) {
            s.prefetch(w.as_ptr().wrapping_add(AHEAD + line));
        }
        one_span::<F, S, R>(s, w, x, i, &mut floats);
    }
    if !rest.is_empty() {
        // Blocks of zero bytes against activations of zero add nothing.
        let mut padded = [0; 512];
        padded[..rest.len()].copy_from_slice(rest);
        one_span::<F, S, R>(s, &padded[..F::BYTES], x, w.len() / F::BYTES, &mut floats);
    }
    let mut sums = [0.0; R];
    for (sum, [even, odd]) in sums.iter_mut().zip(floats) {
        *sum = s.total(s.join_floats(even, odd));
    }
    sums
}

#[inline(always)]
fn one_span<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[&[Span]; R],
    i: usize,
    floats: &mut [[S::Floats; 2]; R],
) {
    let codes = F::codes(s, w);
    let scales = F::scales(s, w);
    if F::GRAIN == Grain::Fine {
        for (x, floats) in x.iter().zip(floats) {
            let x = &x[i];
            let mut by = scales.d;
            for (by, x) in by.iter_mut().zip(&x.scales) {
                *by *= x;
            }
            for (b, codes) in codes.into_iter().enumerate() {
                let sums = s.sums(products::<F, S>(s, codes, &x.codes[b]));
                floats[b % 2] = s.add_sums(floats[b % 2], sums, by[b]);
            }
            if F::MINIMA {
                floats[0] = s.add_products(floats[0], &scales.m, &x.weighted);
            }
        }
    } else {
        let ready = s.scales(scales.scales);
        for (x, floats) in x.iter().zip(floats) {
            let x = &x[i];
            let mut sums = s.no_sums();
            for (b, codes) in codes.into_iter().enumerate() {
                sums = s.scaled(sums, products::<F, S>(s, codes, &x.codes[b]), ready, b);
            }
            floats[0] = s.add_sums(floats[0], sums, scales.d[0] * x.scales[0]);
            if F::MINIMA {
                let minima = s.minima(scales.minima, &x.sums);
                floats[1] = s.add_sums(floats[1], minima, scales.m[0] * x.scales[0]);
            }
        }
    }
}

#[inline(always)]
fn products<F: Format, S: Dot8>(s: S, codes: S::Bytes, x: &[i8; 32]) -> S::Products {
    if F::CODES.signed() { s.products::<true>(codes, x) } else { s.products::<false>(codes, x) }
}
